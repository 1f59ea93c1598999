/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"
#include "memfile.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static const struct fm_memfile_head ledger_head = {.magic = FM_LEDGER_MAGIC,
	.version = FM_LEDGER_VERSION,
	.rows = FM_LEDGER_DEVICES,
	.size = sizeof(struct fm_ledger)};
_Static_assert(offsetof(struct fm_ledger, magic) == 0 && offsetof(struct fm_ledger, version) == 4 &&
		       offsetof(struct fm_ledger, devices) == 6 &&
		       offsetof(struct fm_ledger, size) == 8,
	"ledger_head");
_Static_assert(sizeof(struct fm_ledger) <= 16 * 1024, "a ledger stays within 16 KiB");

int fm_ledger_create(struct fm_ledger **ledger, int *fd)
{
	struct fm_ledger *l;
	void *at;
	int rc = fm_memfile_create(&at, fd, "fermata-ledger", &ledger_head);

	if (rc)
		return rc;
	l = at;
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		atomic_store_explicit(&l->device[i].allowed, UINT64_MAX, memory_order_relaxed);
		atomic_store_explicit(&l->device[i].cap, UINT64_MAX, memory_order_relaxed);
		atomic_store_explicit(&l->device[i].host_may, UINT64_MAX, memory_order_relaxed);
		atomic_store_explicit(&l->device[i].share, UINT64_MAX, memory_order_relaxed);
		atomic_store_explicit(&l->device[i].reached, UINT64_MAX, memory_order_relaxed);
		atomic_store_explicit(&l->device[i].hot, UINT64_MAX, memory_order_relaxed);
	}
	*ledger = l;
	return 0;
}

int fm_ledger_map(struct fm_ledger **ledger, int fd)
{
	void *at;
	int rc = fm_memfile_map(&at, fd, &ledger_head);

	if (!rc)
		*ledger = at;
	return rc;
}

void fm_ledger_unmap(struct fm_ledger *ledger)
{
	if (ledger)
		munmap(ledger, sizeof(*ledger));
}

void fm_ledger_detach(struct fm_ledger *ledger)
{
	if (ledger)
		mmap(ledger, sizeof(*ledger), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

bool fm_ledger_claim(struct fm_ledger_device *row, uint64_t bytes)
{
	uint64_t had = atomic_load_explicit(&row->claimed, memory_order_relaxed);

	do {
		uint64_t allowed = atomic_load_explicit(&row->allowed, memory_order_acquire);

		if (had > allowed || bytes > allowed - had)
			return false;
	} while (!atomic_compare_exchange_weak(&row->claimed, &had, had + bytes));
	atomic_thread_fence(memory_order_seq_cst);
	if (had + bytes <= atomic_load_explicit(&row->allowed, memory_order_acquire))
		return true;
	atomic_fetch_sub(&row->claimed, bytes);
	return false;
}

uint32_t fm_ledger_ask(struct fm_ledger_device *row, uint64_t bytes)
{
	uint64_t has = atomic_load(&row->claimed);

	atomic_store_explicit(&row->wanted, fm_add_sat(has, bytes), memory_order_relaxed);
	return atomic_fetch_add(&row->asked, 1) + 1;
}

void fm_ledger_settle(struct fm_ledger_device *row, uint32_t number)
{
	atomic_store_explicit(&row->settled, number, memory_order_release);
}

int fm_ledger_take(struct fm_ledger_device *row, uint32_t number, uint64_t bytes)
{
	int rc = 0;

	if (!fm_ledger_claim(row, bytes)) {
		uint64_t wanted = atomic_load(&row->wanted);

		rc = atomic_load(&row->granted) < wanted &&
				     fm_add_sat(atomic_load(&row->claimed), bytes) >= wanted
			     ? -ENOMEM
			     : -EAGAIN;
	}
	if (rc != -EAGAIN)
		fm_ledger_settle(row, number);
	return rc;
}

bool fm_ledger_settled(const struct fm_ledger_device *row, uint32_t number)
{
	return atomic_load_explicit(&row->settled, memory_order_acquire) == number;
}

uint64_t fm_ledger_lower(struct fm_ledger_device *row, uint64_t allowed)
{
	atomic_store_explicit(&row->allowed, allowed, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&row->claimed, memory_order_acquire);
}

uint32_t fm_ledger_asked(struct fm_ledger_device *row, uint64_t *wanted)
{
	uint32_t number = atomic_load_explicit(&row->asked, memory_order_acquire);

	*wanted = atomic_load_explicit(&row->wanted, memory_order_relaxed);
	return number;
}

void fm_ledger_answer(struct fm_ledger_device *row, uint32_t number, uint64_t allowed)
{
	atomic_store_explicit(&row->granted, allowed, memory_order_relaxed);
	atomic_store_explicit(&row->allowed, allowed, memory_order_release);
	atomic_store_explicit(&row->answered, number, memory_order_release);
}

/* DDDD:BB:DD.F, where a domain may have more digits. */
bool fm_mem_is_bus(const char *text)
{
	static const char digits[] = "0123456789abcdef";
	size_t domain = strspn(text, digits);
	const char *at = text + domain;

	return domain >= 4 && domain <= 8 && at[0] == ':' && strspn(at + 1, digits) == 2 &&
	       at[3] == ':' && strspn(at + 4, digits) == 2 && at[6] == '.' && at[7] >= '0' &&
	       at[7] <= '7' && !at[8];
}

const char *fm_mem_kind_name(enum fm_mem_kind kind)
{
	static const char *const names[FM_MEM_KINDS] = {
#define NAME(id, name) [id] = name,
		FM_MEM_MAP(NAME)
#undef NAME
	};

	return (unsigned)kind < FM_MEM_KINDS ? names[kind] : NULL;
}

static const char *const troubles[FM_MEM_TROUBLES][2] = {
#define TROUBLE(id, text, remedy) [id] = {text, remedy},
	FM_MEM_TROUBLE_MAP(TROUBLE)
#undef TROUBLE
};

const char *fm_mem_trouble_text(enum fm_mem_trouble trouble)
{
	return (unsigned)trouble < FM_MEM_TROUBLES ? troubles[trouble][0] : "";
}

const char *fm_mem_trouble_remedy(enum fm_mem_trouble trouble)
{
	return (unsigned)trouble < FM_MEM_TROUBLES ? troubles[trouble][1] : "";
}

/* --- keeping --- */

/* The number is raised last, so a reader of it sees the bytes, too. */
uint32_t fm_ledger_keep(struct fm_ledger_device *row, int64_t bytes)
{
	atomic_fetch_add(&row->keeps, (uint64_t)bytes);
	return atomic_fetch_add(&row->keeping, 1) + 1;
}

bool fm_ledger_keep_answered(const struct fm_ledger_device *row, uint32_t number, bool *granted)
{
	uint64_t word = atomic_load(&row->kept_for);

	*granted = word & 1;
	return (uint32_t)(word >> 1) == number;
}

void fm_ledger_keep_answer(struct fm_ledger_device *row, uint32_t number, bool granted)
{
	atomic_store(&row->kept_for, (uint64_t)number << 1 | granted);
}

/* --- room --- */

uint32_t fm_ledger_lack(struct fm_ledger_device *row, uint64_t bytes)
{
	atomic_store(&row->lacks, bytes);
	return atomic_fetch_add(&row->lacking, 1) + 1;
}

bool fm_ledger_roomed(const struct fm_ledger_device *row, uint32_t number, bool *room)
{
	uint64_t word = atomic_load(&row->roomed);

	*room = word & 1;
	return (uint32_t)(word >> 1) == number && word;
}

void fm_ledger_room(struct fm_ledger_device *row, uint32_t number, bool room)
{
	atomic_store(&row->roomed, (uint64_t)number << 1 | room);
}
