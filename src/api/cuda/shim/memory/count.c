/* SPDX-License-Identifier: Apache-2.0 */
/* How much counts, and what ends with what. */
#include "base/lockorder.h"
#include "memory.h"
#include "xqueue/rest.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fm_cuda_memory fm_cuda_memory = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(fm_cuda_memory.lock, CUDA_MEMORY);

/* Granules that small blocks share, by device; under the lock. */
static struct {
	uint64_t granules, bytes;
} small[FM_CUDA_MEM_DEVICES];

static _Atomic uint64_t contexts_ended;

/* Of each device, the row and one: 0: it has none yet. */
static _Atomic int rows[FM_CUDA_MEM_DEVICES];

void fm_cuda_mem_fork_child(void)
{
	fm_cuda_memory.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	fm_cuda_memory.client = NULL;
	memset(&fm_cuda_memory.blocks, 0, sizeof(fm_cuda_memory.blocks));
	fm_cuda_memory.mappings = 0;
	memset(small, 0, sizeof(small));
	fm_cuda_globals_fork_child();
	for (unsigned i = 0; i < FM_CUDA_MEM_DEVICES; i++)
		atomic_store(&rows[i], 0);
	atomic_store(&fm_cuda_graphs_allocate, false);
}

/* --- where --- */

/* Negative: nothing is counted there. */
static FM_COLD int make_row(struct fm_client *c, CUdevice dev)
{
	fm_cu_result (*total)(size_t *, CUdevice) = fm_cuda_symbol("cuDeviceTotalMem_v2");
	const struct fm_cu_driver *cu = fm_cuda_driver();
	char key[FM_DEVKEY_MAX], bus[FM_BUS_MAX];
	size_t bytes = 0;
	int row = -1;

	if (cu && total && !total(&bytes, dev) && bytes &&
		fm_cu_device_key_of(cu, dev, key, sizeof(key))) {
		fm_cu_device_bus_of(cu, dev, bus, sizeof(bus));
		row = fm_account_device_at(c, key, bus, bytes);
		fm_account_bus(c, row, bus); /* a row that NVML has made has none */
	}
	atomic_store(&rows[dev], row < 0 ? -1 : row + 1);
	return row;
}

static int row_of(struct fm_client *c, CUdevice dev)
{
	int row;

	if ((unsigned)dev >= FM_CUDA_MEM_DEVICES)
		return -1;
	row = atomic_load_explicit(&rows[dev], memory_order_relaxed);
	if (FM_UNLIKELY(!row))
		return make_row(c, dev);
	return row < 0 ? -1 : row - 1;
}

static bool is_asked;
static bool is_off;

static void look_what_is_asked(void)
{
	const char *hints = secure_getenv("FERMATA_HINTS"),
		   *memory = secure_getenv("FERMATA_MEMORY");

	is_asked = (hints && strstr(hints, "memory-limit=")) ||
		   (memory && *memory && strcmp(memory, "0") != 0);
	is_off = fm_client_switched_off();
}

struct fm_client *fm_cuda_mem_client(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct fm_client *c = fm_shim_has_client();

	if (FM_LIKELY(c))
		return c;
	pthread_once(&once, look_what_is_asked);
	return is_asked && !is_off ? fm_shim_client() : NULL;
}

bool fm_cuda_mem_is_held(const struct fm_cuda_mem_at *at)
{
	uint64_t total, left;

	return is_asked || (at->c && fm_account_info(at->c, at->row, &total, &left));
}

struct fm_cuda_mem_at fm_cuda_mem_on(CUdevice dev)
{
	struct fm_cuda_mem_at at = {.dev = dev, .row = -1};

	if (FM_UNLIKELY(fm_cu_inside || (unsigned)dev >= FM_CUDA_MEM_DEVICES))
		return at;
	at.c = fm_cuda_mem_client();
	at.counts = at.c || !is_off;
	at.row = at.c ? row_of(at.c, dev) : -1;
	if (at.row < 0)
		at.c = NULL;
	return at;
}

struct fm_cuda_mem_at fm_cuda_mem_here(void)
{
	const struct fm_cu_driver *cu = FM_LIKELY(!fm_cu_inside) ? fm_cuda_driver() : NULL;
	struct fm_cuda_mem_at at = {.row = -1};
	CUcontext ctx;
	CUdevice dev;

	if (!cu || !cu->ctx_get_device || !(ctx = fm_cuda_current()) || cu->ctx_get_device(&dev))
		return at;
	at = fm_cuda_mem_on(dev);
	at.ctx = FM_UNLIKELY(fm_cuda_several_contexts())
			 ? fm_cu_base_context(cu, ctx, FM_CU_STREAM_LEGACY)
			 : ctx;
	return at;
}

/* --- how much --- */

int fm_cuda_mem_try(const struct fm_cuda_mem_at *at, enum fm_mem_kind kind, uint64_t bytes)
{
	if (FM_LIKELY(!fm_account_claim(at->c, at->row, kind, bytes)))
		return 0;
	fm_cuda_mem_make_room();
	return fm_account_claim(at->c, at->row, kind, bytes);
}

bool fm_cuda_mem_claim(const struct fm_cuda_mem_at *at, enum fm_mem_kind kind, uint64_t bytes)
{
	struct fm_cuda_mem_at waits = *at;
	uint64_t until = 0;
	int rc;

	do {
		rc = fm_cuda_mem_try(at, kind, bytes);
	} while (FM_UNLIKELY(rc == -ENOSPC) && fm_cuda_mem_room(&waits, bytes, &until));
	fm_cuda_mem_room_end(at, until);
	return !rc;
}

void fm_cuda_mem_differs(struct fm_client *c, CUdevice dev, enum fm_mem_kind kind, int64_t bytes)
{
	int row;

	if (!c || !bytes)
		return;
	row = row_of(c, dev);
	if (row < 0)
		return;
	if (bytes > 0)
		fm_account_add(c, row, kind, (uint64_t)bytes);
	else
		fm_account_return(c, row, kind, (uint64_t)-bytes);
}

/* Bytes by device and kind. */
struct sums {
	int64_t of[FM_CUDA_MEM_DEVICES][FM_MEM_KINDS];
};

/* Lock held. Small blocks count by their granules, mappings by what they are of, libraries where
 * they are used. */
static void sum_up(struct sums *s, const struct fm_cuda_block *b)
{
	if (b->space == FM_CUDA_MAPPING || b->space == FM_CUDA_LIBRARY ||
		(b->space == FM_CUDA_ADDRESS &&
			(b->kind == FM_MEM_SMALL || b->kind == FM_MEM_POOL)))
		return;
	s->of[b->dev][b->kind] += b->space == FM_CUDA_HANDLE ? fm_cuda_handle_bytes(b) : b->bytes;
}

static void apply(struct fm_client *c, const struct sums *s, int sign)
{
	for (int dev = 0; dev < FM_CUDA_MEM_DEVICES; dev++)
		for (int kind = 0; kind < FM_MEM_KINDS; kind++)
			fm_cuda_mem_differs(
				c, dev, (enum fm_mem_kind)kind, sign * s->of[dev][kind]);
}

void fm_cuda_mem_client_made(struct fm_client *c)
{
	struct sums s = {0};
	struct fm_cuda_block *b;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	if (fm_cuda_memory.client != c)
		for (size_t at = 0; (b = fm_cuda_blocks_next(&fm_cuda_memory.blocks, &at)); at++)
			sum_up(&s, b);
	fm_cuda_memory.client = c;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	apply(c, &s, 1);
}

bool fm_cuda_mem_any(void)
{
	bool any;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	any = fm_cuda_memory.blocks.live;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	return any;
}

void fm_cuda_mem_settle(enum fm_cuda_space space, uint64_t key, uint64_t bytes)
{
	struct fm_cuda_block *b, was;
	struct fm_client *c;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	c = fm_cuda_memory.client;
	b = fm_cuda_blocks_find(&fm_cuda_memory.blocks, space, key);
	if (b) {
		was = *b;
		b->bytes = (int64_t)bytes;
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (b)
		fm_cuda_mem_differs(c, was.dev, was.kind, (int64_t)bytes - was.bytes);
}

/* --- blocks that are made --- */

/* Small blocks share granules, and which one a block is in shows when it is there. So it is made
 * first if the granules seem to have room for it, and a granule is claimed first if not. */
static bool has_room(const struct fm_cuda_making *m)
{
	bool room;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	room = small[m->at.dev].bytes + m->size <= small[m->at.dev].granules * FM_CUDA_MEM_GRANULE;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	return room;
}

bool fm_cuda_mem_begin(struct fm_cuda_making *m, enum fm_mem_kind kind, uint64_t size)
{
	m->at = fm_cuda_mem_here();
	m->kind = kind;
	m->claimed = 0;
	if (!size || size > FM_CUDA_MEM_MOST) /* the driver says what that is */
		m->at.counts = false;
	if (!m->at.counts)
		return true;
	if (size > FM_CUDA_MEM_SMALL) {
		m->size = m->claimed = fm_cuda_mem_round(size, FM_CUDA_MEM_GRANULE);
	} else {
		m->size = fm_cuda_mem_round(size, 512);
		m->kind = kind == FM_MEM_PLAIN ? FM_MEM_SMALL : kind;
		if (m->kind != FM_MEM_SMALL)
			m->claimed = m->size;
		else if (!has_room(m))
			m->claimed = FM_CUDA_MEM_GRANULE;
	}
	if (!m->at.c)
		m->claimed = 0;
	return !m->claimed || fm_cuda_mem_claim(&m->at, m->kind, m->claimed);
}

static uint64_t granule_of(uint64_t address)
{
	return address / FM_CUDA_MEM_GRANULE;
}

/* Lock held. The block is in its granule. True: it is the first there. */
static bool granule_enters(const struct fm_cuda_block *b)
{
	struct fm_cuda_block *g =
		fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_GRANULE, granule_of(b->key));
	const struct fm_cuda_block first = {.key = granule_of(b->key),
		.of = b->of,
		.bytes = (int64_t)FM_CUDA_MEM_GRANULE,
		.used = (uint64_t)b->bytes,
		.refs = 1,
		.dev = b->dev,
		.space = FM_CUDA_GRANULE,
		.kind = FM_MEM_SMALL};

	if (g) {
		g->refs++;
		g->used += (uint64_t)b->bytes;
		small[b->dev].bytes += (uint64_t)b->bytes;
		return false;
	}
	if (!fm_cuda_blocks_put(&fm_cuda_memory.blocks, &first))
		return false;
	small[b->dev].bytes += (uint64_t)b->bytes;
	small[b->dev].granules++;
	return true;
}

/* Lock held. True: it was the last there. Nothing, if the granule has gone with its context. */
static bool granule_leaves(const struct fm_cuda_block *b)
{
	struct fm_cuda_block *g =
		fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_GRANULE, granule_of(b->key));

	if (!g || g->of != b->of)
		return false;
	g->used -= (uint64_t)b->bytes;
	small[b->dev].bytes -= (uint64_t)b->bytes;
	if (--g->refs)
		return false;
	fm_cuda_blocks_erase(&fm_cuda_memory.blocks, g);
	small[b->dev].granules--;
	return true;
}

/* Lock held. What was never seen to end has ended, for its address serves again. */
static int64_t forget(const struct fm_cuda_block *b)
{
	if (b->kind == FM_MEM_SMALL)
		return granule_leaves(b) ? (int64_t)FM_CUDA_MEM_GRANULE : 0;
	return b->space == FM_CUDA_LIBRARY ? 0 : b->bytes;
}

/* The granule is refused: the block ends again. If another block has come into it meanwhile, then
 * the granule is there, and counts. */
static FM_COLD fm_cu_result take_back(struct fm_client *c, const struct fm_cuda_block *b)
{
	struct fm_cuda_block *mine;
	bool last;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	mine = fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_ADDRESS, b->key);
	if (mine)
		fm_cuda_blocks_erase(&fm_cuda_memory.blocks, mine);
	last = granule_leaves(b);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (!last)
		fm_cuda_mem_differs(c, b->dev, FM_MEM_SMALL, (int64_t)FM_CUDA_MEM_GRANULE);
	NEXT(cuMemFree_v2, (b->key));
	return FM_CU_ERROR_OUT_OF_MEMORY;
}

static fm_cu_result made(struct fm_cuda_making *m, const struct fm_cuda_block *b)
{
	struct fm_cuda_block *old, was = {0};
	bool kept, first = false;
	struct fm_client *c;
	int64_t gone = 0, over;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	c = fm_cuda_memory.client;
	old = fm_cuda_blocks_find(&fm_cuda_memory.blocks, b->space, b->key);
	if (old) {
		was = *old;
		gone = forget(&was);
	}
	kept = fm_cuda_blocks_put(&fm_cuda_memory.blocks, b);
	if (kept && b->kind == FM_MEM_SMALL)
		first = granule_enters(b);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	fm_cuda_mem_differs(c, was.dev, was.kind, -gone);
	if (b->kind == FM_MEM_SMALL)
		over = first ? (int64_t)FM_CUDA_MEM_GRANULE : 0;
	else
		over = kept ? b->bytes : 0;
	over -= (int64_t)m->claimed;
	if (over <= 0 || b->kind != FM_MEM_SMALL || !m->at.c)
		fm_cuda_mem_differs(c, b->dev, m->kind, over);
	else if (!fm_cuda_mem_claim(&m->at, m->kind, (uint64_t)over))
		return take_back(c, b);
	return FM_CU_SUCCESS;
}

fm_cu_result fm_cuda_mem_made(struct fm_cuda_making *m, enum fm_cuda_space space, uint64_t key,
	uint64_t size, fm_cu_result rc)
{
	uint64_t bytes = size > FM_CUDA_MEM_SMALL ? fm_cuda_mem_round(size, FM_CUDA_MEM_GRANULE)
						  : fm_cuda_mem_round(size, 512);
	const struct fm_cuda_block b = {.key = key,
		.bytes = (int64_t)bytes,
		.of = (uintptr_t)m->at.ctx,
		.dev = (int16_t)m->at.dev,
		.space = (uint8_t)space,
		.kind = (uint8_t)m->kind};

	if (!m->at.counts)
		return rc;
	if (rc == FM_CU_SUCCESS && key)
		return made(m, &b);
	fm_cuda_mem_differs(m->at.c, m->at.dev, m->kind, -(int64_t)m->claimed);
	return rc;
}

/* --- blocks that end --- */

struct fm_cuda_ending fm_cuda_mem_take(enum fm_cuda_space space, uint64_t key)
{
	struct fm_cuda_ending e = {.contexts = atomic_load(&contexts_ended)};
	struct fm_cuda_block *b;

	if (FM_UNLIKELY(fm_cu_inside) || !key)
		return e;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	e.c = fm_cuda_memory.client;
	b = fm_cuda_blocks_find(&fm_cuda_memory.blocks, space, key);
	if (b) {
		e.block = *b;
		if (b->refs > 1)
			b->refs--;
		else
			fm_cuda_blocks_erase(&fm_cuda_memory.blocks, b);
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	return e;
}

/* The driver has not ended it. It comes back, unless its context has ended meanwhile: then that
 * may be the reason. */
static bool put_back(const struct fm_cuda_ending *e)
{
	struct fm_cuda_block *b;
	struct sums missed = {0};
	struct fm_client *c;
	bool kept;

	if (atomic_load(&contexts_ended) != e->contexts)
		return false;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	c = fm_cuda_memory.client;
	b = fm_cuda_blocks_find(&fm_cuda_memory.blocks, e->block.space, e->block.key);
	if (b)
		b->refs++;
	kept = b || fm_cuda_blocks_put(&fm_cuda_memory.blocks, &e->block);
	if (kept && !b && c != e->c)
		sum_up(&missed, &e->block);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	apply(c, &missed, 1);
	return kept;
}

fm_cu_result fm_cuda_mem_ended(const struct fm_cuda_ending *e, fm_cu_result rc)
{
	const struct fm_cuda_block *b = &e->block;
	struct fm_client *c = e->c;
	int64_t gone;

	if (!b->key || (rc != FM_CU_SUCCESS && put_back(e)) || b->refs > 1)
		return rc;
	if (b->kind == FM_MEM_POOL) {
		fm_cuda_pool_freed(b->of, (uint64_t)b->bytes);
		return rc;
	}
	pthread_mutex_lock(&fm_cuda_memory.lock);
	gone = forget(b);
	if (b->kind == FM_MEM_SMALL) /* its granule was in the table until now */
		c = fm_cuda_memory.client;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	fm_cuda_mem_differs(c, b->dev, b->kind, -gone);
	return rc;
}

static bool ends_with(const struct fm_cuda_block *b, CUcontext ctx)
{
	switch (b->space) {
	case FM_CUDA_ADDRESS:
		return b->kind != FM_MEM_POOL && b->of == (uintptr_t)ctx;
	case FM_CUDA_GRANULE:
	case FM_CUDA_ARRAY:
	case FM_CUDA_CONTEXT:
	case FM_CUDA_MODULE:
	case FM_CUDA_USED:
	case FM_CUDA_GLOBAL:
		return b->of == (uintptr_t)ctx;
	default:
		return false;
	}
}

void fm_cuda_mem_context_gone(CUcontext ctx)
{
	struct sums gone = {0};
	struct fm_cuda_block *b;
	struct fm_client *c;
	size_t at = 0;

	atomic_fetch_add(&contexts_ended, 1);
	pthread_mutex_lock(&fm_cuda_memory.lock);
	c = fm_cuda_memory.client;
	while ((b = fm_cuda_blocks_next(&fm_cuda_memory.blocks, &at))) {
		if (!ends_with(b, ctx)) {
			at++;
			continue;
		}
		if (b->space == FM_CUDA_GRANULE) {
			small[b->dev].granules--;
			small[b->dev].bytes -= b->used;
		}
		sum_up(&gone, b);
		fm_cuda_blocks_erase(&fm_cuda_memory.blocks, b);
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	apply(c, &gone, -1);
	fm_cuda_mem_settle_all();
}

/* --- room that others make --- */

/* It is time for a client if the alternative is that the program fails. */
static bool has_client(struct fm_cuda_mem_at *at)
{
	if (at->c || !at->counts)
		return at->c;
	at->c = fm_shim_client();
	at->row = at->c ? row_of(at->c, at->dev) : -1;
	if (at->row < 0)
		at->c = NULL;
	return at->c;
}

/* Where the program's own memory went out, what it lacks is there when that is back. */
static uint64_t await_own(struct fm_client *c)
{
	uint64_t since = fm_now();

	fm_rest_call_end(c, fm_rest_call_begin(c));
	return fm_now() - since;
}

bool fm_cuda_mem_room(struct fm_cuda_mem_at *at, uint64_t bytes, uint64_t *until)
{
	if (!has_client(at) || fm_account_room(at->c, at->row, bytes, until))
		return false;
	*until += await_own(at->c);
	return true;
}

/* How much is not known: code, and what all threads of the device need. Where others do not have so
 * much to give, less may do. */
#define LAUNCH_ROOM  ((uint64_t)64 << 20)
#define LAUNCH_LEAST ((uint64_t)8 << 20)
#define LAUNCH_TRIES 2

static bool room_for_code(struct fm_cuda_mem_at *at, uint64_t *until)
{
	return has_client(at) && (!fm_account_room(at->c, at->row, LAUNCH_ROOM, until) ||
					 !fm_account_room(at->c, at->row, LAUNCH_LEAST, until));
}

FM_COLD bool fm_cuda_mem_launch_room(struct fm_cuda_mem_launch *l)
{
	__typeof__(fm_cu_inside) inside = fm_cu_inside;

	if (!l->at.counts) {
		fm_cu_inside = 0; /* the launch itself has no more to do with the driver now */
		l->at = fm_cuda_mem_here();
		fm_cu_inside = inside;
	}
	return inside == 1 && l->tries++ < LAUNCH_TRIES && room_for_code(&l->at, &l->until);
}

FM_COLD bool fm_cuda_mem_load_room(struct fm_cuda_mem_launch *l)
{
	if (fm_cu_inside || atomic_load(&fm_cu_captures) || l->tries++ == LAUNCH_TRIES)
		return false;
	if (!l->at.counts)
		l->at = fm_cuda_mem_here();
	if (!room_for_code(&l->at, &l->until))
		return false;
	l->until += await_own(l->at.c);
	return true;
}

void fm_cuda_mem_room_end(const struct fm_cuda_mem_at *at, uint64_t until)
{
	if (FM_UNLIKELY(until))
		fm_account_room_end(at->c, at->row, until);
}
