/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"
#include <string.h>

#define BUSY UINT32_MAX /* a thread writes it: not a pin */

/* Reads what another process may write meanwhile. */
static void copy_plain(char *to, const char *from, size_t size)
{
	size_t n = 0;

	for (; n + 1 < size; n++) {
		char c = *(const volatile char *)&from[n];

		if (!c)
			break;
		to[n] = (char)(c >= ' ' && c <= '~' ? c : '_');
	}
	to[n] = '\0';
}

bool fm_ledger_pinned(const struct fm_ledger_pins *pins, unsigned i, struct fm_mem_pin *pin)
{
	const struct fm_ledger_pin *p = &pins->pin[i];
	uint32_t kind = atomic_load_explicit(&p->kind, memory_order_acquire);

	if (kind >= FM_MEM_KINDS || !fm_mem_pinned((enum fm_mem_kind)kind))
		return false;
	pin->kind = (enum fm_mem_kind)kind;
	copy_plain(pin->what, p->what, sizeof(pin->what));
	copy_plain(pin->by, p->by, sizeof(pin->by));
	return true;
}

static bool is_noted(const struct fm_ledger_pins *pins, const struct fm_mem_pin *pin)
{
	struct fm_mem_pin is;

	for (unsigned i = 0; i < FM_LEDGER_PINS; i++)
		if (fm_ledger_pinned(pins, i, &is) && is.kind == pin->kind &&
			!strcmp(is.what, pin->what) && !strcmp(is.by, pin->by))
			return true;
	return false;
}

void fm_ledger_pin(
	struct fm_ledger_pins *pins, enum fm_mem_kind kind, const char *what, const char *by)
{
	struct fm_mem_pin pin = {.kind = kind};

	copy_plain(pin.what, what, sizeof(pin.what));
	copy_plain(pin.by, by, sizeof(pin.by));
	if (is_noted(pins, &pin))
		return;
	for (unsigned i = 0; i < FM_LEDGER_PINS; i++) {
		struct fm_ledger_pin *p = &pins->pin[i];
		uint32_t none = 0;

		if (!atomic_compare_exchange_strong(&p->kind, &none, BUSY))
			continue;
		memcpy(p->what, pin.what, sizeof(p->what));
		memcpy(p->by, pin.by, sizeof(p->by));
		atomic_store_explicit(&p->kind, (uint32_t)kind, memory_order_release);
		return;
	}
}
