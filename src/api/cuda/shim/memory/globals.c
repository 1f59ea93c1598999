/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of code (`__device__', `__constant__'): their memory is there from when a module is
 * loaded until it is unloaded, or its context ends. The driver makes it, and does not say how much;
 * so the image is read (code/cuda/image.h). What is not understood counts by the variable, as the
 * program asks where each is. A library counts in each context where something of it is wanted.
 */
#include "api/cuda/shim/guard/rewrite.h"
#include "memory.h"
#include <errno.h>

/* Blocks of modules, libraries and variables; under the lock. */
static uint64_t known;
/* Libraries that have variables, or were not understood: else nothing is looked up. */
static _Atomic uint64_t libraries;

#define UNREAD (-1) /* bytes of a library that was not understood; of a module they are 0 */

void fm_cuda_globals_fork_child(void)
{
	known = 0;
	atomic_store(&libraries, 0);
}

static bool is_code(const struct fm_cuda_block *b, const void *code)
{
	return b->space >= FM_CUDA_MODULE && b->space <= FM_CUDA_GLOBAL &&
	       b->used == (uintptr_t)code;
}

/* The block counts, if it is to, and ends with the code. */
static void belongs(enum fm_cuda_space space, uint64_t key, const void *code)
{
	struct fm_cuda_block *b;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = fm_cuda_blocks_find(&fm_cuda_memory.blocks, space, key);
	if (b) {
		b->used = (uintptr_t)code;
		known++;
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
}

static void put(const struct fm_cuda_block *b)
{
	pthread_mutex_lock(&fm_cuda_memory.lock);
	if (fm_cuda_blocks_put(&fm_cuda_memory.blocks, b))
		known++;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
}

/* --- modules --- */

bool fm_cuda_globals_begin(struct fm_cuda_globals *g, const void *image, const char *path)
{
	struct fm_cuda_mem_at at = fm_cuda_mem_here();

	*g = (struct fm_cuda_globals){.m = {.at = at}};
	if (!at.counts || !(image || path))
		return true;
	g->read = fm_cuda_image_globals(image, path, false, fm_cuda_mem_is_held(&at), &g->bytes);
	if (!g->read)
		g->bytes = 0;
	return !g->bytes || fm_cuda_mem_begin(&g->m, FM_MEM_GLOBAL, g->bytes);
}

fm_cu_result fm_cuda_globals_made(struct fm_cuda_globals *g, CUmodule module, fm_cu_result rc)
{
	const struct fm_cuda_block unread = {.key = (uintptr_t)module,
		.of = (uintptr_t)g->m.at.ctx,
		.used = (uintptr_t)module,
		.dev = (int16_t)g->m.at.dev,
		.space = FM_CUDA_MODULE,
		.kind = FM_MEM_GLOBAL};

	if (!g->m.at.counts || (g->read && !g->bytes))
		return rc;
	if (!g->read) {
		if (!rc)
			put(&unread);
		return rc;
	}
	rc = fm_cuda_mem_made(&g->m, FM_CUDA_MODULE, rc ? 0 : (uintptr_t)module, g->bytes, rc);
	if (!rc)
		belongs(FM_CUDA_MODULE, (uintptr_t)module, module);
	return rc;
}

/* --- libraries --- */

void fm_cuda_globals_library(CUlibrary library, const void *image, const char *path)
{
	struct fm_cuda_mem_at at = fm_cuda_mem_on(0);
	struct fm_cuda_block b = {.key = (uintptr_t)library,
		.used = (uintptr_t)library,
		.space = FM_CUDA_LIBRARY,
		.kind = FM_MEM_GLOBAL};
	uint64_t bytes = 0;

	if (!at.counts || !library || !(image || path))
		return;
	if (!fm_cuda_image_globals(image, path, true, fm_cuda_mem_is_held(&at), &bytes))
		b.bytes = UNREAD;
	else if (bytes)
		b.bytes = (int64_t)FM_MIN(bytes, FM_CUDA_MEM_MOST);
	else
		return;
	put(&b);
	atomic_fetch_add(&libraries, 1);
}

bool fm_cuda_globals_any_library(void)
{
	return atomic_load_explicit(&libraries, memory_order_relaxed);
}

/* Libraries and contexts are addresses: two pairs of them do not meet. */
static uint64_t key_of(CUlibrary library, CUcontext ctx)
{
	return ((uintptr_t)library * UINT64_C(0x9e3779b97f4a7c15)) ^ (uintptr_t)ctx;
}

/* It is not wanted after all. */
static void not_used(uint64_t key)
{
	struct fm_cuda_block *b;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_USED, key);
	if (b && !b->bytes) {
		fm_cuda_blocks_erase(&fm_cuda_memory.blocks, b);
		known -= known > 0;
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
}

/* Of threads that want something of it at once, the first counts it. */
bool fm_cuda_globals_use(struct fm_cuda_globals *g, CUlibrary library)
{
	struct fm_cuda_block *b,
		begun = {.used = (uintptr_t)library, .space = FM_CUDA_USED, .kind = FM_MEM_GLOBAL};

	*g = (struct fm_cuda_globals){.bytes = 0};
	if (FM_LIKELY(!fm_cuda_globals_any_library()) || !library)
		return true;
	g->m.at = fm_cuda_mem_here();
	if (!g->m.at.counts)
		return true;
	g->key = begun.key = key_of(library, g->m.at.ctx);
	begun.of = (uintptr_t)g->m.at.ctx;
	begun.dev = (int16_t)g->m.at.dev;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_LIBRARY, (uintptr_t)library);
	if (b && b->bytes > 0 &&
		!fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_USED, g->key)) {
		g->bytes = (uint64_t)b->bytes;
		if (fm_cuda_blocks_put(&fm_cuda_memory.blocks, &begun))
			known++;
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (!g->bytes || fm_cuda_mem_begin(&g->m, FM_MEM_GLOBAL, g->bytes))
		return true;
	not_used(g->key);
	return false;
}

fm_cu_result fm_cuda_globals_used(struct fm_cuda_globals *g, CUlibrary library, fm_cu_result rc)
{
	if (FM_LIKELY(!g->bytes))
		return rc;
	rc = fm_cuda_mem_made(&g->m, FM_CUDA_USED, g->key, g->bytes, rc);
	if (rc)
		not_used(g->key);
	else
		belongs(FM_CUDA_USED, g->key, library);
	return rc;
}

/* --- variables of code that was not understood --- */

/* Lock held. */
static bool is_unread(const void *code)
{
	const struct fm_cuda_blocks *t = &fm_cuda_memory.blocks;
	const struct fm_cuda_block *m = fm_cuda_blocks_find(t, FM_CUDA_MODULE, (uintptr_t)code),
				   *l = fm_cuda_blocks_find(t, FM_CUDA_LIBRARY, (uintptr_t)code);

	return (m && !m->bytes) || (l && l->bytes == UNREAD);
}

void fm_cuda_globals_found(const void *code, uint64_t at, uint64_t size)
{
	struct fm_cuda_making m = {.kind = FM_MEM_GLOBAL};
	bool counts;

	if (fm_cu_inside || !at || !size || size > FM_CUDA_MEM_MOST)
		return;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	counts = known && is_unread(code) &&
		 !fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_GLOBAL, at);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (!counts)
		return;
	m.at = fm_cuda_mem_here(); /* the memory is there, so nothing is refused */
	fm_cuda_mem_made(&m, FM_CUDA_GLOBAL, at, size, FM_CU_SUCCESS);
	if (m.at.counts)
		belongs(FM_CUDA_GLOBAL, at, code);
}

/* --- the end --- */

void fm_cuda_globals_take(struct fm_cuda_unloading *u, const void *code)
{
	uint64_t key[FM_CUDA_GLOBALS_CONTEXTS];
	uint8_t space[FM_CUDA_GLOBALS_CONTEXTS];
	const struct fm_cuda_block *b;
	unsigned n = 0;

	u->n = 0;
	if (fm_cu_inside)
		return;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	for (size_t at = 0; known && n < FM_CUDA_GLOBALS_CONTEXTS &&
			    (b = fm_cuda_blocks_next(&fm_cuda_memory.blocks, &at));
		at++)
		if (is_code(b, code)) {
			key[n] = b->key;
			space[n++] = b->space;
		}
	known -= n;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	for (unsigned i = 0; i < n; i++)
		u->of[u->n++] = fm_cuda_mem_take((enum fm_cuda_space)space[i], key[i]);
}

/* What there was no room for is ended now. */
void fm_cuda_globals_ended(struct fm_cuda_unloading *u, const void *code, fm_cu_result rc)
{
	bool more = u->n == FM_CUDA_GLOBALS_CONTEXTS;

	for (unsigned i = 0; i < u->n; i++) {
		fm_cuda_mem_ended(&u->of[i], rc);
		if (rc)
			belongs((enum fm_cuda_space)u->of[i].block.space, u->of[i].block.key, code);
		else if (u->of[i].block.space == FM_CUDA_LIBRARY)
			atomic_fetch_sub(&libraries, 1);
	}
	if (!rc && more) {
		fm_cuda_globals_take(u, code);
		fm_cuda_globals_ended(u, code, rc);
	}
}
