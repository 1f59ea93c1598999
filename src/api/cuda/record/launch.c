/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's launch: its table of marks, in front of it and behind it. */
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "record.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARAMS   32764u /* bytes of a launch, at most */
#define CONTEXTS 64u
#define LOST     3u /* tables that launches may still write to */

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(looking, RECORD_LOOK);

/* Tables in the devices' memory; under `looking', as all that follows. */
static struct context {
	CUcontext ctx;
	CUdeviceptr table;
	uint64_t cells;
	unsigned lost;
} contexts[CONTEXTS];
static struct fm_accessed *host; /* one for all */
static CUcontext host_ctx;       /* of which it is */
static uint64_t host_cells;

/* Something with marks may still run that nobody has waited for: it would leave them in any table.
 */
static bool loose;

struct fm_record_look {
	const struct fm_record_driver *cu;
	const struct fm_record_function *k;
	struct context *c;
	CUdeviceptr word;
	uint64_t cells;
	struct fm_record_kernel put;
	struct fm_accessed_region region[FM_ACCESSED_REGIONS];
	unsigned n;
	struct fm_record_launch given;
	_Alignas(64) unsigned char params[PARAMS];
};
static struct fm_record_look the;

/* --- parameters --- */

static bool take_params(struct fm_record_look *l, const struct fm_record_launch *given)
{
	return l->k->known && l->k->params.bytes <= PARAMS &&
	       fm_tap_params_take(&l->k->params, given->params, given->extra, l->params);
}

/* --- regions --- */

static int by_address(const void *a, const void *b)
{
	const struct fm_accessed_region *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static bool has_region(const struct fm_record_look *l, uint64_t at)
{
	for (unsigned i = 0; i < l->n; i++)
		if (at - l->region[i].at < l->region[i].size)
			return true;
	return false;
}

/* Allocations that parameters point to. False: there are too many. */
static bool find_regions(struct fm_record_look *l)
{
	struct fm_record_span whole;
	uint64_t value;

	for (uint32_t at = 0; at + 8 <= l->k->params.bytes; at += 8) {
		memcpy(&value, l->params + at, 8);
		if (has_region(l, value) || !fm_record_find(value, &whole))
			continue;
		if (l->n == FM_ACCESSED_REGIONS)
			return false;
		l->region[l->n++] = (struct fm_accessed_region){.at = whole.at, .size = whole.size};
	}
	qsort(l->region, l->n, sizeof(l->region[0]), by_address);
	return true;
}

/* As fine as the table has room for. */
static void lay_out(struct fm_record_look *l)
{
	uint32_t shift = 0;

	do {
		l->cells = 0;
		for (unsigned i = 0; i < l->n; i++) {
			l->region[i].shift = shift;
			l->region[i].first = (uint32_t)l->cells;
			l->cells += fm_accessed_cells(&l->region[i]);
		}
		shift++;
	} while (l->cells > FM_RECORD_CELLS);
}

/* --- tables --- */

static struct context *context_of(const struct fm_record_driver *cu)
{
	CUcontext ctx;

	if (cu->current(&ctx) || !ctx)
		return NULL;
	for (unsigned i = 0; i < CONTEXTS; i++) {
		if (!contexts[i].ctx)
			contexts[i].ctx = ctx;
		if (contexts[i].ctx == ctx)
			return contexts[i].lost > LOST ? NULL : &contexts[i];
	}
	return NULL;
}

static size_t table_bytes(uint64_t cells)
{
	return sizeof(struct fm_accessed) + cells * sizeof(host->cell[0]);
}

static bool make_room(struct fm_record_look *l)
{
	uint64_t cells = FM_MAX(l->cells, UINT64_C(1) << 16);
	void *memory = NULL;

	if (host_cells < cells) {
		if (host)
			l->cu->host_free(host);
		host = NULL;
		host_cells = 0;
		if (l->cu->host_alloc(&memory, table_bytes(cells), 1)) /* portable */
			return false;
		host = memory;
		host_ctx = l->c->ctx;
		host_cells = cells;
	}
	if (l->c->cells < cells) {
		if (l->c->table)
			l->cu->mem_free(l->c->table);
		l->c->table = 0;
		l->c->cells = 0;
		if (l->cu->mem_alloc(&l->c->table, table_bytes(cells)))
			return false;
		l->c->cells = cells;
	}
	return true;
}

static bool set_word(const struct fm_record_look *l, CUdeviceptr table)
{
	CUstream s = l->put.stream;

	return !l->cu->fill(l->word, (unsigned)table, 1, s) &&
	       !l->cu->fill(l->word + 4, (unsigned)(table >> 32), 1, s);
}

/* To be waited for: else it may reach the device only when another stream has set the word. */
static void clear_word(const struct fm_record_look *l)
{
	if (!set_word(l, 0))
		loose = true;
}

/* --- in front --- */

static bool too_many_threads(const struct fm_record_launch *l)
{
	uint64_t n = (uint64_t)l->block[0] * l->block[1] * l->block[2];

	for (unsigned i = 0; i < 3; i++)
		if (__builtin_mul_overflow(n, l->grid[i], &n))
			return true;
	return n > FM_ACCESSED_THREADS;
}

static enum fm_record_unseen look_at(struct fm_record_look *l, const struct fm_record_launch *given)
{
	l->put.nature = l->k->nature;
	if (!take_params(l, given))
		return FM_RECORD_PARAMS;
	l->put.params = l->params;
	l->put.bytes = l->k->params.bytes;
	if (!l->k->code || !(l->word = fm_record_word(l->cu, l->k)))
		return FM_RECORD_MACHINE;
	if (l->k->nature & FM_NATURE_STRANGE || given->overlaps)
		return FM_RECORD_STRANGE;
	if (!find_regions(l) || too_many_threads(given))
		return FM_RECORD_LARGE;
	if (loose)
		return FM_RECORD_SLOW;
	lay_out(l);
	l->c = context_of(l->cu);
	if (!l->c || !make_room(l))
		return FM_RECORD_FAILED;
	host->n = l->n;
	host->outside = 0;
	memcpy(host->region, l->region, l->n * sizeof(l->region[0]));
	if (l->cu->to_device(l->c->table, host, sizeof(*host), l->put.stream) ||
		(l->cells && l->cu->fill(l->c->table + sizeof(*host), 0,
				     l->cells * sizeof(host->cell[0]) / 4, l->put.stream)) ||
		!set_word(l, l->c->table))
		return FM_RECORD_FAILED;
	return FM_RECORD_SEEN;
}

/* As what is tried sees it; seen: the marks have been read. */
static struct fm_record_tried tried(const struct fm_record_look *l, bool seen)
{
	return (struct fm_record_tried){.cu = l->cu,
		.k = l->k,
		.ctx = l->c ? l->c->ctx : NULL,
		.launch = &l->given,
		.params = l->params,
		.region = l->region,
		.n = l->n,
		.seen = seen ? host : NULL};
}

static void look_before(struct fm_record_look *l, const struct fm_record_launch *given)
{
	struct fm_record_tried t;

	l->put.why = look_at(l, given);
	if (l->put.why || !fm_record_tries())
		return;
	t = tried(l, false);
	fm_record_again_before(&t);
}

struct fm_record_look *fm_record_before(const struct fm_record_launch *given)
{
	const struct fm_record_driver *cu;
	struct fm_record_look *l = &the;
	int mode, captures;

	cu = fm_record_enter(&mode);
	if (!cu)
		return NULL;
	captures = fm_record_captures(cu, given->stream);
	if (captures > 0) {
		fm_record_leave(mode);
		return NULL;
	}
	pthread_mutex_lock(&looking);
	l->cu = cu;
	l->k = fm_record_function(cu, given->f);
	l->c = NULL;
	l->word = 0;
	l->n = 0;
	l->given = *given;
	l->put = (struct fm_record_kernel){.name = l->k && l->k->name ? l->k->name : "",
		.hash = l->k ? l->k->hash : "",
		.shared = given->shared,
		.stream = given->stream,
		.why = FM_RECORD_PARAMS};
	memcpy(l->put.grid, given->grid, sizeof(l->put.grid));
	memcpy(l->put.block, given->block, sizeof(l->put.block));
	if (captures)
		l->put.why = FM_RECORD_FAILED; /* the stream may be one that nothing may be given */
	else if (l->k)
		look_before(l, given);
	fm_record_leave(mode);
	return l;
}

/* --- behind --- */

int fm_record_wait(const struct fm_record_driver *cu, CUstream stream)
{
	const struct timespec nap = fm_timespec(FM_RECORD_NAP);
	uint64_t until = fm_now() + FM_RECORD_WAIT;
	fm_cu_result rc;

	while ((rc = cu->query(stream)) == FM_CU_ERROR_NOT_READY) {
		if (fm_now() > until) {
			loose = true;
			return -ETIMEDOUT;
		}
		nanosleep(&nap, NULL);
	}
	return rc ? -EIO : 0;
}

static bool has_marks(const struct fm_record_look *l)
{
	for (uint64_t i = 0; i < l->cells; i++)
		if (host->cell[i])
			return true;
	return host->outside;
}

/* A kernel without any mark may have had its word elsewhere, in another context for instance. */
static enum fm_record_unseen read_marks(struct fm_record_look *l)
{
	bool copied = !l->cu->to_host(host, l->c->table, table_bytes(l->cells), l->put.stream);
	int rc;

	clear_word(l);
	rc = fm_record_wait(l->cu, l->put.stream);
	if (rc == -ETIMEDOUT) {
		/* The device may still write there: nobody else gets these tables. */
		*l->c = (struct context){.ctx = l->c->ctx, .lost = l->c->lost + 1};
		host = NULL;
		host_cells = 0;
		return FM_RECORD_SLOW;
	}
	if (rc || !copied || !has_marks(l))
		return FM_RECORD_FAILED;
	return host->outside ? FM_RECORD_OUTSIDE : FM_RECORD_SEEN;
}

static void put(struct fm_record_look *l)
{
	bool seen;
	uint64_t op = fm_record_put_kernel(&l->put, &seen);
	struct fm_record_tried t = tried(l, seen);

	if (op != FM_RECORD_NO_OP && fm_record_tries())
		fm_record_again_behind(&t, op);
}

void fm_record_after(struct fm_record_look *l, fm_cu_result rc)
{
	int mode;

	if (!l)
		return;
	if (fm_record_enter(&mode)) {
		if (l->put.why == FM_RECORD_SEEN && !rc) {
			l->put.why = read_marks(l);
		} else {
			if (l->word)
				clear_word(l);
			if (!rc || l->word)
				fm_record_wait(l->cu, l->put.stream);
		}
		l->put.seen = host;
		if (!rc)
			put(l);
		fm_record_leave(mode);
	}
	pthread_mutex_unlock(&looking);
}

void fm_record_forget(CUcontext ctx)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (!ctx || contexts[i].ctx == ctx)
			contexts[i] = (struct context){.ctx = contexts[i].ctx};
	fm_record_again_forget(ctx);
	if (!ctx || host_ctx == ctx) {
		host = NULL;
		host_cells = 0;
	}
	fm_record_forget_memory(ctx);
}

bool fm_record_alone(void)
{
	if (!fm_tap_wanted() || fm_tap_inside)
		return false;
	pthread_mutex_lock(&looking);
	return true;
}

void fm_record_alone_end(CUstream stream, bool others, fm_cu_result rc)
{
	const struct fm_record_driver *cu;
	int mode;

	cu = rc ? NULL : fm_record_enter(&mode);
	if (cu) {
		if (fm_record_captures(cu, stream) <= 0) {
			loose |= others;
			fm_record_wait(cu, stream);
			fm_record_graph(stream);
		}
		fm_record_leave(mode);
	}
	pthread_mutex_unlock(&looking);
}

void fm_record_alone_over(void)
{
	pthread_mutex_unlock(&looking);
}
