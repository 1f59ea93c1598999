/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"
#include "memfile.h"
#include <stddef.h>
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
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++)
		atomic_store_explicit(&l->device[i].allowed, UINT64_MAX, memory_order_relaxed);
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
