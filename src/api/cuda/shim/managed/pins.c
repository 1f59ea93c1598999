/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that stays on the device, since something reaches it that no gate of ours stops; and
 * programs whose memory is not managed at all.
 *
 * Profilers (CUPTI) are not in the list: they follow calls, and read none of the program's memory.
 * Frameworks load them always.
 */
#include "managed.h"
#include "registered.h"
#include "xqueue/rest.h"
#include <errno.h>
#include <link.h>
#include <stdio.h>

/* --- what is loaded --- */

/* Encoders, decoders, optical flow, ray tracing, a debugger: each has channels of its own. */
static const char *const engines[] = {"libnvidia-encode.so", "libnvcuvid.so",
	"libnvidia-opticalflow.so", "libnvoptix.so", "libcudadebugger.so"};
static const char *const tools[] = {"libsanitizer-"};

struct names {
	const char *const *name;
	size_t n;
	char found[FM_PIN_WHAT]; /* the first that is loaded */
};

static int is_one(struct dl_phdr_info *i, size_t size, void *arg)
{
	struct names *names = arg;
	const char *base = i->dlpi_name ? strrchr(i->dlpi_name, '/') : NULL;

	(void)size;
	for (size_t k = 0; base && k < names->n; k++) {
		if (strncmp(base + 1, names->name[k], strlen(names->name[k])))
			continue;
		snprintf(names->found, sizeof(names->found), "%s", base + 1);
		return 1;
	}
	return 0;
}

static int count_loaded(struct dl_phdr_info *i, size_t size, void *adds)
{
	(void)size;
	*(unsigned long long *)adds = i->dlpi_adds;
	return 1;
}

bool fm_cuda_managed_engines(void)
{
	struct names names = {.name = engines, .n = FM_ARRAY_LEN(engines)};

	if (!dl_iterate_phdr(is_one, &names)) {
		if (FM_LIKELY(!fm_cuda_registers_unseen()))
			return false;
		snprintf(names.found, sizeof(names.found), "libibverbs.so.1");
	}
	fm_cuda_managed_named(FM_MEM_PIN_ENGINE, &(struct fm_cuda_pinner){.what = names.found});
	return true;
}

/* What is loaded is looked at only where something has been since. */
bool fm_cuda_managed_engines_came(void)
{
	static unsigned long long seen;
	unsigned long long adds = 0;

	dl_iterate_phdr(count_loaded, &adds);
	if (adds == seen)
		return false;
	seen = adds;
	return fm_cuda_managed_engines();
}

bool fm_cuda_managed_tools(void)
{
	struct names names = {.name = tools, .n = FM_ARRAY_LEN(tools)};

	return dl_iterate_phdr(is_one, &names);
}

/* --- reasons by name --- */

/* In whose code is that? */
struct whose {
	uintptr_t at;
	char name[FM_PIN_BY];
};

static bool contains(const struct dl_phdr_info *i, uintptr_t at)
{
	for (unsigned k = 0; k < i->dlpi_phnum; k++)
		if (i->dlpi_phdr[k].p_type == PT_LOAD &&
			at - (i->dlpi_addr + i->dlpi_phdr[k].p_vaddr) < i->dlpi_phdr[k].p_memsz)
			return true;
	return false;
}

static int is_whose(struct dl_phdr_info *i, size_t size, void *arg)
{
	struct whose *w = arg;
	const char *name = i->dlpi_name ?: "", *slash = strrchr(name, '/');

	(void)size;
	if (!contains(i, w->at))
		return 0;
	/* Where a call of the driver's own gets here, it is not known who made it. */
	if (!contains(i, (uintptr_t)is_whose))
		snprintf(w->name, sizeof(w->name), "%s",
			slash   ? slash + 1
			: *name ? name
				: "the program");
	return 1;
}

/* So far, for the ledgers of this process, which come later. */
static struct fm_ledger_pins named;

static void tell_named(void)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_mem_pin pin;

	for (unsigned i = 0; c && i < FM_LEDGER_PINS; i++)
		if (fm_ledger_pinned(&named, i, &pin))
			fm_account_pin(c, &pin);
}

void fm_cuda_managed_named(enum fm_mem_kind why, const struct fm_cuda_pinner *by)
{
	struct whose w = {.at = (uintptr_t)by->from};

	if (by->from)
		dl_iterate_phdr(is_whose, &w);
	fm_ledger_pin(&named, why, by->what, w.name);
	tell_named();
}

/* --- pins --- */

static _Atomic unsigned all_pinned;

void fm_cuda_managed_pinned(struct fm_cuda_managed *m, enum fm_mem_kind why, uint64_t bytes)
{
	if (!bytes)
		return;
	fm_account_change(fm_shim_has_client(), m->row, FM_MEM_MOVABLE, why, bytes);
	fm_cuda_managed_tell(m);
}

void fm_cuda_managed_unpinned(struct fm_cuda_managed *m, enum fm_mem_kind why, uint64_t bytes)
{
	if (!bytes)
		return;
	fm_account_change(fm_shim_has_client(), m->row, why, FM_MEM_MOVABLE, bytes);
	fm_cuda_managed_tell(m);
}

/* Waits for memory that is out. */
void fm_cuda_managed_pin(CUdeviceptr p, enum fm_mem_kind why, const struct fm_cuda_pinner *by)
{
	struct fm_cu_block block;
	struct fm_cuda_managed *m = fm_cuda_managed_find(p, &block);
	uint64_t bytes = 0;
	unsigned shard;

	if (!m)
		fm_cuda_vmm_pin(p, 1, why, by);
	if (!m || !block.size || block.stays)
		return;
	shard = fm_rest_call_begin(fm_shim_has_client());
	fm_cu_arena_pin(atomic_load(&m->arena), p, why, &bytes);
	fm_rest_call_end(fm_shim_has_client(), shard);
	fm_cuda_managed_pinned(m, why, bytes);
	if (bytes)
		fm_cuda_managed_named(why, by);
}

static void pin_one(struct fm_cuda_managed *m, void *why)
{
	uint64_t bytes = 0;

	fm_cu_arena_pin_all(atomic_load(&m->arena), *(enum fm_mem_kind *)why, &bytes);
	fm_cuda_managed_pinned(m, *(enum fm_mem_kind *)why, bytes);
}

void fm_cuda_managed_pin_all(enum fm_mem_kind why)
{
	struct fm_client *c;
	unsigned shard;

	if (!fm_cuda_manages())
		return;
	/* Before the client is looked for: what is made from now on is pinned by who makes it. */
	atomic_store(&all_pinned, why);
	c = fm_shim_has_client();
	if (!c)
		return;
	shard = fm_rest_call_begin(c);
	fm_cuda_managed_each(pin_one, &why);
	fm_rest_call_end(c, shard);
	fm_cuda_managed_trouble(FM_MEM_PINNED_ALL);
}

/* The wish memory-pin is looked at here alone, before the first allocation: what is pinned stays
 * so, and the daemon honours a wish that comes later (bridge/away.c). */
void fm_cuda_managed_pin_new(struct fm_cuda_managed *m)
{
	enum fm_mem_kind why = atomic_load(&all_pinned);

	if (!why && fm_client_hinted(fm_shim_has_client(), FM_HINT_MEMORY_PIN)) {
		why = FM_MEM_PIN_WISH;
		atomic_store(&all_pinned, why);
		fm_cuda_managed_named(why, &(struct fm_cuda_pinner){.what = "memory-pin"});
	}
	tell_named();
	if (why)
		pin_one(m, &why);
}

bool fm_cuda_managed_all_pinned(void)
{
	return atomic_load(&all_pinned);
}

/* Waits for memory that is out. */
void fm_cuda_managed_engine(void)
{
	if (atomic_load(&fm_cuda_managed_any) && !fm_cu_inside && !fm_cuda_managed_all_pinned() &&
		fm_cuda_managed_engines())
		fm_cuda_managed_pin_all(FM_MEM_PIN_ENGINE);
}

void fm_cuda_pins_words_slow(
	const union fm_cu_mem_op *ops, unsigned n, const struct fm_cuda_pinner *by)
{
	for (unsigned i = 0; !fm_cu_inside && i < n; i++)
		fm_cuda_managed_pin(ops[i].op.address, FM_MEM_PIN_WORDS, by);
}

/* --- calls that name addresses --- */

/* Within the shim's call (fm_cu_inside is 1), not within one that the driver makes in another. */
unsigned fm_cuda_naming_begin_slow(void)
{
	struct fm_client *c = fm_shim_has_client();

	return c && fm_cu_inside <= 1 ? fm_rest_call_begin(c) + 1 : 0;
}

void fm_cuda_naming_end_slow(unsigned begun)
{
	fm_rest_call_end(fm_shim_has_client(), begun - 1);
}
