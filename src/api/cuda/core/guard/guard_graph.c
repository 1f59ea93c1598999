/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "code/cuda/image.h"
#include "guard_internal.h"
#include <stdlib.h>
#include <string.h>

#define ALIGN       16u
#define BLOCK_LEAST 512u

/* The driver waits for kernels when memory is given back. So blocks are kept for the next graph, by
 * size, a power of two. */
struct unused_block {
	struct unused_block *next;
	CUcontext ctx;
	CUdeviceptr at;
	size_t bytes;
};

/* Likewise for words; a page of them is allocated at a time. */
#define WORDS_BYTES 4096u
#define WORDS_EACH  64u /* a cache line */

struct unused_words {
	struct unused_words *next;
	CUcontext ctx;
	struct fm_cu_graph_words *words;
	CUdeviceptr at;
};

struct words_page {
	struct words_page *next;
	CUcontext ctx;
	void *page;
};

static struct {
	pthread_mutex_t lock;
	struct fm_cu_graph *graphs;
	struct unused_block *unused;
	struct unused_words *words;
	struct words_page *pages;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(all.lock, CU_GRAPHS);

/* --- blocks --- */

static CUdeviceptr take_unused(CUcontext ctx, size_t bytes)
{
	struct unused_block **at = &all.unused, *b;
	CUdeviceptr block = 0;

	pthread_mutex_lock(&all.lock);
	while ((b = *at) && (b->ctx != ctx || b->bytes != bytes))
		at = &b->next;
	if (b) {
		*at = b->next;
		block = b->at;
	}
	pthread_mutex_unlock(&all.lock);
	free(b);
	return block;
}

/* If there is no memory for the note, the block is never used again. */
static void leave_unused(CUcontext ctx, CUdeviceptr block, size_t bytes)
{
	struct unused_block *b = malloc(sizeof(*b));

	if (!b)
		return;
	*b = (struct unused_block){.ctx = ctx, .at = block, .bytes = bytes};
	pthread_mutex_lock(&all.lock);
	b->next = all.unused;
	all.unused = b;
	pthread_mutex_unlock(&all.lock);
}

static bool clear(const struct fm_cu_driver *cu, CUcontext ctx, CUdeviceptr block, size_t bytes)
{
	static const char zeros[128u << 10];
	CUstream control, again;
	CUfunction look;

	if (bytes > sizeof(zeros) || !fm_cu_guard_streams(cu, ctx, &control, &again, &look))
		return false;
	if (cu->fill ? cu->fill(block, 0, bytes / 4, control)
		     : cu->copy_to_device(block, zeros, bytes, control))
		return false;
	return !cu->stream_synchronize(control);
}

static bool take_words(struct fm_cu_graph *g)
{
	struct unused_words **at = &all.words, *w;

	pthread_mutex_lock(&all.lock);
	while ((w = *at) && w->ctx != g->ctx)
		at = &w->next;
	if (w) {
		*at = w->next;
		g->words = w->words;
		g->words_at = w->at;
	}
	pthread_mutex_unlock(&all.lock);
	free(w);
	return g->words;
}

static void leave_words(CUcontext ctx, struct fm_cu_graph_words *words, CUdeviceptr words_at)
{
	struct unused_words *w = malloc(sizeof(*w));

	if (!w)
		return;
	*w = (struct unused_words){.ctx = ctx, .words = words, .at = words_at};
	pthread_mutex_lock(&all.lock);
	w->next = all.words;
	all.words = w;
	pthread_mutex_unlock(&all.lock);
}

static void note_page(CUcontext ctx, void *page)
{
	struct words_page *p = malloc(sizeof(*p));

	if (!p)
		return;
	*p = (struct words_page){.ctx = ctx, .page = page};
	pthread_mutex_lock(&all.lock);
	p->next = all.pages;
	all.pages = p;
	pthread_mutex_unlock(&all.lock);
}

static bool make_words(struct fm_cu_graph *g)
{
	const struct fm_cu_driver *cu = g->cu;
	CUdeviceptr at;
	void *page;

	if (cu->host_alloc(&page, WORDS_BYTES,
		    FM_CU_HOST_REGISTER_PORTABLE | FM_CU_HOST_REGISTER_DEVICEMAP))
		return false;
	if (cu->host_device_pointer(&at, page, 0)) {
		cu->host_free(page);
		return false;
	}
	memset(page, 0, WORDS_BYTES);
	note_page(g->ctx, page);
	for (unsigned i = 0; i < WORDS_BYTES; i += WORDS_EACH)
		leave_words(g->ctx, (void *)((char *)page + i), at + i);
	return take_words(g);
}

static bool find_words(struct fm_cu_graph *g)
{
	return !g->covers || take_words(g) || make_words(g);
}

static bool find_block(struct fm_cu_graph *g)
{
	const struct fm_cu_driver *cu = g->cu;
	struct fm_cu_turnstile *turnstile = fm_cu_turnstile(g->ctx, true);
	bool ok;
	int mode;

	if (!turnstile || !fm_cu_wait_begin(turnstile, FM_CU_GRAPH_MEMORY_MOST))
		return false;
	mode = fm_cu_enter(cu);
	g->block = take_unused(g->ctx, g->bytes);
	ok = g->block || !cu->mem_alloc(&g->block, g->bytes);
	if (ok && !clear(cu, g->ctx, g->block, g->bytes)) {
		leave_unused(g->ctx, g->block, g->bytes);
		ok = false;
	}
	if (ok && !find_words(g)) {
		leave_unused(g->ctx, g->block, g->bytes);
		ok = false;
	}
	fm_cu_leave(cu, mode);
	fm_cu_wait_end(turnstile);
	return ok;
}

/* --- making --- */

static size_t aligned(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static size_t attribute_bytes(const struct fm_cu_guarded *l)
{
	return aligned(l->config->n_attributes * sizeof(struct fm_cu_attribute));
}

static size_t node_bytes(const struct fm_cu_chain *c)
{
	return aligned(sizeof(struct fm_cu_graph) + c->n * sizeof(struct fm_cu_record));
}

static size_t cover_bytes(const struct fm_cu_chain *c)
{
	return aligned(c->covers * sizeof(*c->last) + (c->covers + 1) * sizeof(*c->waits));
}

static size_t size_of(const struct fm_cu_chain *c)
{
	size_t size = node_bytes(c) + cover_bytes(c);

	for (unsigned i = 0; i < c->n; i++)
		size += attribute_bytes(&c->launch[i]) + aligned(c->launch[i].bytes);
	return size;
}

/* Returns the room behind the node. */
static char *fill_node(struct fm_cu_record *node, const struct fm_cu_guarded *l, char *room)
{
	size_t bytes = attribute_bytes(l);
	const unsigned *grid = l->config->grid;

	node->config = *l->config;
	node->config.stream = NULL;
	node->config.attributes = (const struct fm_cu_attribute *)(const void *)room;
	if (bytes)
		memcpy(room, l->config->attributes,
			l->config->n_attributes * sizeof(struct fm_cu_attribute));
	node->function = l->function;
	node->bytes = (uint32_t)l->bytes;
	node->params = room + bytes;
	node->blocks = (uint64_t)grid[0] * grid[1] * grid[2];
	node->whole = l->whole || node->blocks > FM_CU_BLOCKS_MAX;
	return room + bytes + aligned(l->bytes);
}

static void fill_covers(struct fm_cu_graph *g, const struct fm_cu_chain *c, char *room)
{
	g->last = (uint32_t *)(void *)room;
	g->waits = (bool *)(g->last + c->covers);
	if (c->covers)
		memcpy(g->last, c->last, c->covers * sizeof(*c->last));
	for (unsigned i = 0; i <= c->covers; i++)
		g->waits[i] = c->waits && c->waits[i];
	g->anew = c->covers && (g->waits[0] || g->waits[c->covers]);
}

static size_t block_bytes(const struct fm_cu_graph *g)
{
	size_t most = 0, bytes = BLOCK_LEAST;

	for (unsigned i = 0; i < g->n; i++)
		if (!g->node[i].whole)
			most = FM_MAX(most, FM_CU_BLOCK_MAP + (g->node[i].blocks + 31) / 32 * 4);
	while (bytes < most)
		bytes *= 2;
	return bytes;
}

struct fm_cu_graph *fm_cu_graph_new(
	const struct fm_cu_driver *cu, CUcontext ctx, const struct fm_cu_chain *c)
{
	struct fm_cu_graph *g;
	char *room;

	if (!fm_cu_guard_has_all(cu))
		return NULL;
	g = aligned_alloc(ALIGN, size_of(c));
	if (!g)
		return NULL;
	*g = (struct fm_cu_graph){.refs = 1,
		.cu = cu,
		.ctx = ctx,
		.n = c->n,
		.covers = c->covers,
		.renumbered = true};
	fill_covers(g, c, (char *)g + node_bytes(c));
	room = (char *)g + node_bytes(c) + cover_bytes(c);
	for (unsigned i = 0; i < c->n; i++) {
		g->node[i] = (struct fm_cu_record){0};
		room = fill_node(&g->node[i], &c->launch[i], room);
		g->node[i].follows = i && fm_cu_guard_follows(&g->node[i], &g->node[i - 1]);
		g->whole += g->node[i].whole && !g->node[i].follows;
	}
	fm_cu_graph_number(g);
	g->bytes = block_bytes(g);
	if (!find_block(g)) {
		free(g);
		return NULL;
	}
	pthread_mutex_lock(&all.lock);
	g->next = all.graphs;
	all.graphs = g;
	pthread_mutex_unlock(&all.lock);
	return g;
}

void *fm_cu_graph_node(struct fm_cu_graph *g, unsigned i, uint64_t ours[FM_GUARD_PARAMS])
{
	const struct fm_cu_record *node = &g->node[i];

	fm_cu_guard_params(ours, g->block, node);
	return node->params;
}

void fm_cu_graph_keep(struct fm_cu_graph *g)
{
	atomic_fetch_add(&g->refs, 1);
}

void fm_cu_graph_put(struct fm_cu_graph *g)
{
	struct fm_cu_graph **at = &all.graphs;
	bool gone;

	if (atomic_fetch_sub(&g->refs, 1) != 1)
		return;
	pthread_mutex_lock(&all.lock);
	while (*at && *at != g)
		at = &(*at)->next;
	if (*at)
		*at = g->next;
	gone = g->gone;
	pthread_mutex_unlock(&all.lock);
	if (!gone && !atomic_load(&g->spoilt)) {
		leave_unused(g->ctx, g->block, g->bytes);
		if (g->words)
			leave_words(g->ctx, g->words, g->words_at);
	}
	free(g);
}

void fm_cu_graph_loosen(struct fm_cu_graph *g)
{
	atomic_store(&g->loose, true);
}

void fm_cu_graph_let_be(struct fm_cu_graph *g)
{
	g->let_be = true;
	fm_cu_graph_loosen(g);
}

/* --- launching and stopping --- */

void fm_cu_graph_spoilt(struct fm_cu_graph *g)
{
	atomic_store(&g->spoilt, true);
	fm_cu_graph_loosen(g);
}

/* The decision about a launch that is all or none is kept by its number, until the next such
 * launch. If there is only one such launch, its decision must be cleared. */
bool fm_cu_graph_prepare(struct fm_cu_graph *g, CUstream stream)
{
	static const unsigned at[] = {FM_CU_BLOCK_DECIDED, FM_CU_BLOCK_FIRST, 0};
	union fm_cu_mem_op op[FM_ARRAY_LEN(at) + 1];
	unsigned n = atomic_load(&g->spoilt) ? FM_ARRAY_LEN(at) : g->whole == 1;
	fm_cu_result rc;
	int mode;

	for (unsigned i = 0; i < n; i++)
		op[i] = fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_64, g->block + at[i], 0);
	if (g->anew)
		op[n++] = fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_32,
			g->words_at + offsetof(struct fm_cu_graph_words, place), 0);
	if (!n)
		return true;
	mode = fm_cu_enter(g->cu);
	rc = g->cu->stream_mem_ops(stream, n, op, 0);
	fm_cu_leave(g->cu, mode);
	return !rc;
}

void fm_cu_graph_number(struct fm_cu_graph *g)
{
	for (unsigned i = 0; g->renumbered && i < g->n; i++)
		g->node[i].number = i + 1;
	g->renumbered = false;
}

void fm_cu_graph_cover(
	const struct fm_cu_graph *g, unsigned i, union fm_cu_mem_op op[FM_CU_COVER_OPS])
{
	CUdeviceptr hold = g->words_at + offsetof(struct fm_cu_graph_words, hold);
	CUdeviceptr place = g->words_at + offsetof(struct fm_cu_graph_words, place);

	op[0] = fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_32, place, 2 * i + 1);
	op[1] = fm_cu_guard_op(FM_CU_OP_WAIT_VALUE_32, hold, 0);
	op[1].op.flags = FM_CU_WAIT_VALUE_EQ;
	op[2] = fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_32, place, 2 * i + 2);
}

/* `place` may be a moment old, as with gates (guard_stop.c). Each launch leaves it even. */
bool fm_cu_graph_hold(struct fm_cu_graph *g)
{
	if (!g->words)
		return true;
	atomic_store(&g->words->hold, 1);
	return !(atomic_load(&g->words->place) & 1);
}

bool fm_cu_graph_waits(const struct fm_cu_graph *g)
{
	uint32_t place = g->words ? atomic_load(&g->words->place) : 0;

	return g->waits[FM_MIN(place / 2, g->covers)];
}

void fm_cu_graph_let_go(struct fm_cu_graph *g)
{
	if (g->words)
		atomic_store(&g->words->hold, 0);
}

bool fm_cu_graph_covered(const struct fm_cu_graph *g, uint64_t *last)
{
	uint32_t place = g->words ? atomic_load(&g->words->place) : 0;

	if (!(place & 1) || place / 2 >= g->covers)
		return false;
	*last = g->last[place / 2];
	return true;
}

bool fm_cu_graph_stands(const struct fm_cu_graph *g)
{
	return g->waiting && atomic_load(g->waiting);
}

/* --- lives of contexts --- */

/* Lock held. */
static void forget_words(CUcontext ctx)
{
	struct unused_words **at = &all.words, *w;

	while ((w = *at)) {
		if (w->ctx != ctx) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		free(w);
	}
}

/* cu: the driver to give them back to; NULL: they are only forgotten. */
static void forget_pages(const struct fm_cu_driver *cu, CUcontext ctx)
{
	struct words_page **at = &all.pages, *p;

	while ((p = *at)) {
		if (p->ctx != ctx) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		if (cu)
			cu->host_free(p->page);
		free(p);
	}
}

static void forget_blocks(const struct fm_cu_driver *cu, CUcontext ctx)
{
	struct unused_block **at = &all.unused, *b;

	while ((b = *at)) {
		if (b->ctx != ctx) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		if (cu)
			cu->mem_free(b->at);
		free(b);
	}
}

static void forget_all(const struct fm_cu_driver *cu, CUcontext ctx)
{
	pthread_mutex_lock(&all.lock);
	forget_blocks(cu, ctx);
	forget_words(ctx);
	forget_pages(cu, ctx);
	for (struct fm_cu_graph *g = all.graphs; g; g = g->next) {
		if (g->ctx != ctx)
			continue;
		if (cu && !atomic_load(&g->gone) && g->block)
			cu->mem_free(g->block);
		atomic_store(&g->gone, true);
		fm_cu_graph_loosen(g);
	}
	pthread_mutex_unlock(&all.lock);
}

void fm_cu_graphs_forget(CUcontext ctx)
{
	forget_all(NULL, ctx);
}

void fm_cu_graphs_give_back(const struct fm_cu_driver *cu, CUcontext ctx)
{
	forget_all(cu, ctx);
}

bool fm_cu_graph_gone(const struct fm_cu_graph *g)
{
	return atomic_load(&g->gone);
}

void fm_cu_graphs_fork_child(void)
{
	all.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	all.graphs = NULL;
	all.unused = NULL;
	all.words = NULL;
	all.pages = NULL;
}
