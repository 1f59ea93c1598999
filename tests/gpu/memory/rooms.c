/* SPDX-License-Identifier: Apache-2.0 */
#include "rounds.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
	char *pool; /* SHARED, OWN */
	size_t pool_size;
	bool registered[BLOCKS_MOST]; /* by slab */
	CUdeviceptr window;           /* CHUNKS_* */
	handle h[CHUNKS];
	int block[CHUNKS]; /* -1: none */
} w;

static int chunks_of_set(void)
{
	return (int)(sh->set / sh->row.chunk);
}

static int per_slab(void)
{
	return (int)(SLAB / sh->row.chunk);
}

/* Slabs for the sets of so many, whose chunks may not fill them. */
size_t pool_size(int sets)
{
	return (size_t)sets * (sh->set / SLAB * 20 / 16 + 2) * SLAB;
}

void room_setup(void)
{
	w.pool_size = pool_size(sh->row.mode == SHARED ? MOVERS : 1);
	w.pool = NULL;
	w.window = 0;
	for (int i = 0; i < CHUNKS; i++) {
		w.block[i] = -1;
		w.h[i] = 0;
	}
	for (int i = 0; i < BLOCKS_MOST; i++)
		w.registered[i] = false;
	if (sh->row.mode == SHARED)
		w.pool = host_map(w.pool_size, sh->fd, true);
	else if (sh->row.mode == OWN)
		w.pool = host_map(w.pool_size, -1, true);
	else
		w.window = gpu_reserve(sh->set, 2 * MiB);
}

static void lock(void)
{
	while (atomic_exchange(&sh->lock, 1))
		;
}

static void unlock(void)
{
	atomic_store(&sh->lock, 0);
}

static int pop_block(void)
{
	int block;

	lock();
	block = sh->n_free ? sh->free_blocks[--sh->n_free] : -1;
	unlock();
	return block;
}

/* A slab more; false: the pool is as large as it may be. */
static bool grow(void)
{
	size_t at;

	lock();
	at = sh->grown;
	sh->grown += at + SLAB <= w.pool_size ? SLAB : 0;
	unlock();
	if (at + SLAB > w.pool_size)
		return false;
	host_populate(w.pool + at, SLAB);
	lock();
	for (int i = per_slab(); i-- > 0;)
		sh->free_blocks[sh->n_free++] = (int)(at / SLAB) * per_slab() + i;
	unlock();
	return true;
}

static int take_block(void)
{
	int block = pop_block();

	return block < 0 && grow() ? pop_block() : block;
}

static void register_slab(int slab)
{
	if (w.registered[slab])
		return;
	CK(cu.cuMemHostRegister_v2(
		w.pool + (size_t)slab * SLAB, SLAB, FM_CU_HOST_REGISTER_PORTABLE));
	w.registered[slab] = true;
}

static CUdeviceptr get_pooled(int i)
{
	if (w.block[i] < 0)
		w.block[i] = sh->row.mode == SHARED ? take_block() : i;
	if (w.block[i] < 0) {
		printf("failed: the pool is full\n");
		_exit(3);
	}
	if (sh->row.mode == OWN && !w.registered[w.block[i] / per_slab()])
		host_populate(w.pool + (size_t)(w.block[i] / per_slab()) * SLAB, SLAB);
	register_slab(w.block[i] / per_slab());
	return room_of(i);
}

CUdeviceptr room_get(int i)
{
	if (w.pool)
		return get_pooled(i);
	if (!w.h[i]) {
		CK(chunk_new(&w.h[i], ON_HOST, sh->row.chunk));
		CK(chunk_map(w.window + (size_t)i * sh->row.chunk, sh->row.chunk, w.h[i]));
	}
	return room_of(i);
}

CUdeviceptr room_of(int i)
{
	if (w.pool) {
		int slab = w.block[i] / per_slab(), k = w.block[i] % per_slab();

		return (CUdeviceptr)(uintptr_t)(w.pool + (size_t)slab * SLAB +
						(size_t)k * sh->row.chunk);
	}
	return w.window + (size_t)i * sh->row.chunk;
}

static void drop_chunk(int i)
{
	CK(vm.cuMemUnmap(w.window + (size_t)i * sh->row.chunk, sh->row.chunk));
	CK(vm.cuMemRelease(w.h[i]));
	w.h[i] = 0;
}

void room_put(int i)
{
	if (sh->row.mode == SHARED) {
		lock();
		sh->free_blocks[sh->n_free++] = w.block[i];
		unlock();
		w.block[i] = -1;
	} else if (sh->row.mode == CHUNKS_NEW) {
		drop_chunk(i);
	}
}

void room_teardown(void)
{
	if (w.pool) {
		for (size_t k = 0; (k + 1) * SLAB <= w.pool_size; k++)
			if (w.registered[k])
				CK(cu.cuMemHostUnregister(w.pool + k * SLAB));
		munmap(w.pool, w.pool_size);
		return;
	}
	for (int i = 0; i < chunks_of_set(); i++)
		if (w.h[i])
			drop_chunk(i);
	CK(vm.cuMemAddressFree(w.window, sh->set));
}
