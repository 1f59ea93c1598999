/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that other processes are given. */
#include "arena_internal.h"
#include "base/util.h"
#include "want.h"
#include <errno.h>
#include <unistd.h>

bool fm_cu_arena_shares(const struct fm_cu_arena *a)
{
	return a->handle_types;
}

/* Lock held. The chunks around [at, at + size), by address. */
static int chunks_of(struct fm_cu_arena *a, CUdeviceptr at, size_t size, bool pinned,
	struct fm_cu_chunk **chunk, unsigned *n)
{
	struct fm_cu_chunk *c;

	*n = 0;
	fm_list_each (c, &a->chunks, all) {
		unsigned i = *n;

		if (c->of || at >= c->at + fm_cu_chunk_size(c) || c->at >= at + size)
			continue;
		if ((pinned && !fm_cu_chunk_fixed(c)) || !fm_cu_chunk_on_device(c))
			return -EBUSY;
		if (*n == FM_CU_SHARED_MOST)
			return -E2BIG;
		for (; i && chunk[i - 1]->at > c->at; i--)
			chunk[i] = chunk[i - 1];
		chunk[i] = c;
		(*n)++;
	}
	return *n ? 0 : -ENOENT;
}

/* The block's pages in the chunk. */
static uint64_t pages_in(const struct fm_cu_chunk *c, const struct fm_cu_block *b)
{
	CUdeviceptr from = FM_MAX(b->at, c->at);
	CUdeviceptr to = FM_MIN(b->at + b->size, c->at + fm_cu_chunk_size(c));
	unsigned first = (unsigned)((from - c->at) / FM_CU_PAGE);

	return fm_cu_run_mask(first, (unsigned)((to - c->at - 1) / FM_CU_PAGE) + 1 - first);
}

/* Lock held. */
static int share(struct fm_cu_arena *a, const struct fm_cu_block *b, struct fm_cu_shared *shared)
{
	struct fm_cu_chunk *chunk[FM_CU_SHARED_MOST];
	unsigned n;
	int rc = chunks_of(a, b->at, b->size, true, chunk, &n);

	if (rc)
		return rc;
	shared->size = b->size;
	shared->offset = b->at - chunk[0]->at;
	for (shared->n = 0; shared->n < n; shared->n++) {
		struct fm_cu_chunk *c = chunk[shared->n];

		shared->part[shared->n].size = fm_cu_chunk_size(c);
		if (a->cu->mem_export(&shared->part[shared->n].fd, c->handle, FM_CU_MEMORY_FD, 0))
			break;
		c->passed |= pages_in(c, b);
	}
	if (shared->n == n)
		return 0;
	while (shared->n)
		close(shared->part[--shared->n].fd);
	return -EIO;
}

bool fm_cu_arena_could_share(struct fm_cu_arena *a, const struct fm_cu_block *b)
{
	struct fm_cu_chunk *chunk[FM_CU_SHARED_MOST];
	unsigned n;
	bool could;

	pthread_mutex_lock(&a->lock);
	could = a->handle_types && !chunks_of(a, b->at, b->size, false, chunk, &n);
	pthread_mutex_unlock(&a->lock);
	return could;
}

int fm_cu_arena_share(
	struct fm_cu_arena *a, CUdeviceptr at, uint64_t id, struct fm_cu_shared *shared)
{
	struct fm_cu_block b;
	int rc = -ENOENT;

	if (!a->handle_types)
		return -EIO;
	pthread_mutex_lock(&a->lock);
	if (fm_cu_block_find(a, at, &b) && b.at == at && b.id == id)
		rc = share(a, &b, shared);
	pthread_mutex_unlock(&a->lock);
	return rc;
}
