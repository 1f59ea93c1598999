/* SPDX-License-Identifier: Apache-2.0 */
#include "chunk.h"
#include "able.h"
#include "arena_internal.h"
#include "digests.h"
#include "vmm.h"
#include <errno.h>

static bool take_spare(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	for (unsigned i = 0; i < a->spares; i++) {
		if (a->spare[i].pages != c->pages)
			continue;
		c->handle = a->spare[i].handle;
		c->made = true;
		/* The chunk has a claim of its own. */
		a->use.unclaim(a->use.cookie, fm_cu_chunk_size(c), a->spare[i].stays);
		a->spare_pages -= c->pages;
		a->spare[i] = a->spare[--a->spares];
		return true;
	}
	return false;
}

static int make(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	const struct fm_cu_memory_kind plain = {.type = FM_CU_MEMORY_PINNED,
					       .handle_types = a->handle_types,
					       .location = {FM_CU_LOCATION_DEVICE, a->device},
					       .flags = {[FM_CU_MEMORY_CARDS] = a->cards}},
				       *kind = c->of ? &c->of->kind : &plain;
	fm_cu_result rc;

	if (c->made)
		return c->borrowed ? -EIO : 0;
	if (!c->of && take_spare(a, c)) /* the program's is new */
		return 0;
	rc = a->cu->mem_create(&c->handle, fm_cu_chunk_size(c), kind, 0);
	if (rc == FM_CU_ERROR_OUT_OF_MEMORY && fm_cu_spares_drop(a))
		rc = a->cu->mem_create(&c->handle, fm_cu_chunk_size(c), kind, 0);
	c->made = !rc;
	return !rc ? 0 : rc == FM_CU_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

static int borrow(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	fm_cu_result rc;

	if (c->made)
		return c->borrowed ? 0 : -EIO;
	if (!fm_cu_host_lend(&a->host, fm_cu_chunk_size(c)))
		return -ENOMEM;
	rc = fm_cu_memory_on_host(a->cu, a->device, fm_cu_chunk_size(c), &c->handle);
	c->made = c->borrowed = !rc;
	if (rc)
		fm_cu_host_unlend(&a->host, fm_cu_chunk_size(c));
	return !rc ? 0 : rc == FM_CU_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

int fm_cu_chunk_mend(const struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	size_t size = fm_cu_chunk_size(c);
	fm_cu_result rc = FM_CU_SUCCESS;

	if (!c->mapped) {
		rc = a->cu->mem_map(c->at, size, 0, c->handle, 0);
		c->mapped = !rc;
	}
	if (!rc && !c->reachable) {
		rc = a->cu->mem_access(c->at, size, a->reaching, a->n_reaching);
		/* What another device reaches must not keep this one from its memory. */
		if (rc && rc != FM_CU_ERROR_OUT_OF_MEMORY && a->n_reaching > 1)
			rc = a->cu->mem_access(c->at, size, a->reaching, 1);
		c->reachable = !rc;
	}
	if (!rc)
		return fm_cu_aliases_map(a, c);
	return rc == FM_CU_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

int fm_cu_chunk_map(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	int rc = make(a, c);

	if (!rc)
		rc = fm_cu_chunk_mend(a, c);
	if (rc)
		fm_cu_chunk_unmap(a, c, false);
	return rc;
}

int fm_cu_chunk_borrow(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	int rc = borrow(a, c);

	if (!rc)
		rc = fm_cu_chunk_mend(a, c);
	if (rc)
		fm_cu_chunk_unmap(a, c, false);
	return rc;
}

int fm_cu_chunk_lift(const struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	if (fm_cu_aliases_unmap(a, c))
		return -EIO;
	if (!c->mapped)
		return 0;
	if (a->cu->mem_unmap(c->at, fm_cu_chunk_size(c)))
		return -EIO;
	c->mapped = c->reachable = false;
	return 0;
}

int fm_cu_chunk_unmap(struct fm_cu_arena *a, struct fm_cu_chunk *c, bool keep)
{
	if (fm_cu_chunk_lift(a, c))
		return -EIO;
	if (!c->made)
		return 0;
	/* What another process may have serves no other block; nor does what was pinned for itself,
	 * which is counted as something else. */
	if (!keep || c->of || c->borrowed || c->passed || c->stays != a->stays ||
		!fm_cu_spare_keep(a, c)) {
		if (a->cu->mem_release(c->handle))
			return -EIO;
	}
	if (c->borrowed)
		fm_cu_host_unlend(&a->host, fm_cu_chunk_size(c));
	c->made = c->borrowed = false;
	c->passed = 0;
	return 0;
}

void fm_cu_chunk_let_go(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	fm_cu_host_give(&a->host, &c->host);
	fm_cu_pages_forget(c);
	c->held = 0;
}
