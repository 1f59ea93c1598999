/* SPDX-License-Identifier: Apache-2.0 */
/* A look at a launch: in front of it, behind it, and what came of it. */
#include "agent.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "marks.h"
#include "profile/spans.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEMORY_TYPE   2  /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define TYPE_HOST     1u /* CU_MEMORYTYPE_HOST */
#define MAP_BYTES     128u
#define MAP_ALIGN     64u
#define LEAST_ADDRESS UINT64_C(65536)

struct fm_profile_look {
	const struct fm_profile_driver *cu;
	struct fm_profile_context *c;
	struct fm_profile_function *k;
	CUstream stream;
	enum fm_source source;
	bool hashes;
	uint64_t began;
	uint32_t grid[3], block[3];
	unsigned n; /* words */
	struct fm_word word[FM_PROFILE_POINTERS];
	_Alignas(64) unsigned char params[FM_PROFILE_PARAMS];
};

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(looking, PROFILE_LOOK);
static _Atomic uintptr_t looked_at; /* the function */
static struct fm_profile_look the;  /* under `looking' */

/* --- pointers and regions --- */

static int by_address(const void *a, const void *b)
{
	const struct fm_touched_region *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static const struct fm_touched_region *region_of(const struct fm_touched *t, uint64_t value)
{
	for (unsigned i = 0; i < t->n; i++)
		if (value - t->region[i].at < t->region[i].size)
			return &t->region[i];
	return NULL;
}

static bool find_region(struct fm_profile_look *l, struct fm_touched *t, uint64_t value, bool *full)
{
	CUdeviceptr at;
	size_t size;
	unsigned type;

	if (region_of(t, value))
		return true;
	if (value < LEAST_ADDRESS || l->cu->range(&at, &size, value) || !size ||
		value - at >= size || l->cu->pointer_attribute(&type, MEMORY_TYPE, value) ||
		type == TYPE_HOST)
		return false;
	if (t->n == FM_TOUCHED_REGIONS) {
		*full = true;
		return false;
	}
	t->region[t->n++] = (struct fm_touched_region){.at = at, .size = size};
	return true;
}

static void add_word(struct fm_profile_look *l, uint32_t at, uint64_t value, bool *full)
{
	if (l->n == FM_PROFILE_POINTERS) {
		*full = true;
		return;
	}
	l->word[l->n].at = at;
	l->word[l->n].value = value;
	l->word[l->n].map = false;
	l->word[l->n].missed = 0;
	l->word[l->n++].n = 0;
}

/* A map's box is what it touches: its own engine's accesses are seen by nobody. If it is not known
 * how far it reaches, it is all that is behind its address. */
static bool add_map(struct fm_profile_look *l, struct fm_touched *t, uint32_t at, bool *full)
{
	const struct fm_touched_region *r;
	struct fm_profile_map map;
	uint64_t behind;
	struct fm_word *w;

	if (at % MAP_ALIGN || at + MAP_BYTES > l->k->params.bytes ||
		!fm_profile_map_find(l->params + at, &map) || !find_region(l, t, map.at, full))
		return false;
	add_word(l, at, map.at, full);
	if (*full)
		return true;
	w = &l->word[l->n - 1];
	w->map = true;
	w->n = 1;
	r = region_of(t, map.at);
	behind = r->at + r->size - map.at;
	w->span[0] = (struct fm_record_span){
		0, (int64_t)(map.bytes ? FM_MIN(map.bytes, behind) : behind)};
	return true;
}

/* False: there are too many. */
static bool find_pointers(struct fm_profile_look *l, struct fm_touched *t)
{
	bool full = false;
	uint32_t first = 0;
	uint64_t value;

	t->n = t->ran = t->outside = 0;
	l->n = 0;
	for (uint32_t at = 0; at + 8 <= l->k->params.bytes && !full; at += 8) {
		if (add_map(l, t, at, &full)) {
			at += MAP_BYTES - 8;
			continue;
		}
		memcpy(&value, l->params + at, 8);
		if (find_region(l, t, value, &full))
			add_word(l, at, value, &full);
	}
	qsort(t->region, t->n, sizeof(t->region[0]), by_address);
	for (unsigned i = 0; i < t->n; i++) {
		t->region[i].shift = fm_touched_shift(t->region[i].size);
		t->region[i].first = first;
		first += fm_touched_cells(&t->region[i]);
	}
	for (unsigned i = 0; i < l->n; i++)
		for (unsigned r = 0; r < t->n; r++)
			if (l->word[i].value - t->region[r].at < t->region[r].size)
				l->word[i].region = r;
	return !full;
}

static size_t cells_of(const struct fm_touched *t)
{
	const struct fm_touched_region *last = &t->region[t->n - 1];

	return t->n ? last->first + fm_touched_cells(last) : 0;
}

/* --- how often --- */

static uint64_t mixed(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* Of its numbers: pointers are none. */
static uint64_t key_of(const struct fm_profile_look *l)
{
	uint64_t hash = 1, value;
	unsigned w = 0;

	for (unsigned i = 0; i < 3; i++)
		hash = mixed(hash, (uint64_t)l->grid[i] << 32 | l->block[i]);
	for (uint32_t at = 0; at < l->k->params.bytes; at += 8) {
		value = 0;
		memcpy(&value, l->params + at, FM_MIN(8u, l->k->params.bytes - at));
		if (w < l->n && l->word[w].at == at)
			w++, value = 0;
		hash = mixed(hash, value);
	}
	return hash;
}

static bool often(struct fm_profile_look *l)
{
	struct fm_profile_times *t = l->k->times;
	uint64_t key = key_of(l);
	unsigned i = 0;

	while (i < t->n && t->with[i].key != key)
		i++;
	if (i == FM_PROFILE_KEYS || t->with[i].n >= FM_PROFILE_AGAIN)
		return true;
	t->n = FM_MAX(t->n, i + 1);
	t->with[i].key = key;
	t->with[i].n++;
	return false;
}

/* --- in front --- */

static bool choose(struct fm_profile_look *l)
{
	const struct fm_profile_wish *w = fm_profile_wish();
	bool sanitizer = w->by & 1u << FM_SOURCE_SANITIZER && fm_profile_sanitizer_works();

	if (sanitizer && fm_profile_context_marks(l->cu, l->c))
		l->source = FM_SOURCE_SANITIZER;
	else if (w->by & 1u << FM_SOURCE_MARKS && fm_profile_marks_has(l->k) &&
		 fm_profile_context_marks(l->cu, l->c))
		l->source = FM_SOURCE_MARKS;
	else if (w->by & 1u << FM_SOURCE_HASH && fm_profile_context_hashes(l->cu, l->c))
		l->source = FM_SOURCE_HASH;
	else
		return false;
	l->hashes =
		l->source == FM_SOURCE_HASH || (w->check && fm_profile_context_hashes(l->cu, l->c));
	return true;
}

static bool set_table(struct fm_profile_look *l, CUdeviceptr table)
{
	return l->source == FM_SOURCE_SANITIZER
		       ? fm_profile_sanitizer_table(l->c, l->k->function, table)
		       : fm_profile_marks_table(l->cu, l->k, table, l->stream);
}

static bool prepare(struct fm_profile_look *l)
{
	struct fm_touched *t = l->c->host;

	if (l->source != FM_SOURCE_HASH &&
		(l->cu->to_device(l->c->table, t, sizeof(*t), l->stream) ||
			(t->n && l->cu->fill(l->c->table + sizeof(*t), 0,
					 cells_of(t) * sizeof(t->cell[0]) / 4, l->stream))))
		return false;
	if (l->hashes && fm_profile_hash(l->cu, l->c, l->stream, false))
		return false;
	return l->source == FM_SOURCE_HASH || set_table(l, l->c->table);
}

/* FM_UNSEENS: it is looked at. */
static enum fm_unseen look_at(struct fm_profile_look *l, const struct fm_profile_launching *given)
{
	l->c = fm_profile_context(l->cu);
	l->k = l->c ? fm_profile_function(given->f) : NULL;
	if (!l->k || !l->k->known)
		return FM_UNSEEN_UNKNOWN;
	if (l->k->params.bytes > FM_PROFILE_PARAMS)
		return FM_UNSEEN_LARGE;
	if (l->k->times->slow)
		return FM_UNSEEN_SLOW;
	/* A kernel of a library is a function of its own in each context. */
	if (l->k->handle != (uintptr_t)l->k->function &&
		l->cu->kernel_function(&l->k->function, (CUkernel)given->f))
		return FM_UNSEEN_UNKNOWN;
	if (!choose(l))
		return FM_UNSEEN_UNMARKED;
	l->stream = given->stream;
	memcpy(l->grid, given->grid, sizeof(l->grid));
	memcpy(l->block, given->block, sizeof(l->block));
	if (!fm_tap_params_take(&l->k->params, given->params, given->extra, l->params))
		return FM_UNSEEN_UNKNOWN;
	if (!find_pointers(l, l->c->host))
		return FM_UNSEEN_LARGE;
	if (often(l))
		return FM_UNSEEN_OFTEN;
	if (!prepare(l)) {
		if (l->source != FM_SOURCE_HASH)
			set_table(l, 0);
		return FM_UNSEEN_FAILED;
	}
	return FM_UNSEENS;
}

/* Another thread launches the very function that is looked at: its launch would leave its marks,
 * too, so it waits, but no longer than the other does. */
static void wait_for_other(CUfunction f)
{
	const struct timespec nap = fm_timespec(FM_PROFILE_NAP);
	uint64_t until = fm_now() + FM_PROFILE_WAIT;

	while (atomic_load(&looked_at) == (uintptr_t)f && fm_now() < until)
		nanosleep(&nap, NULL);
}

struct fm_profile_look *fm_profile_before(const struct fm_profile_launching *given)
{
	const struct fm_profile_driver *cu;
	enum fm_unseen why;
	int mode, status;

	if (!fm_tap_wanted() || fm_tap_inside || !(cu = fm_profile_driver()))
		return NULL;
	fm_profile_count_launch();
	if (pthread_mutex_trylock(&looking)) {
		fm_profile_unseen(FM_UNSEEN_BUSY);
		wait_for_other(given->f);
		return NULL;
	}
	atomic_store(&looked_at, (uintptr_t)given->f);
	mode = fm_profile_enter(cu);
	the.cu = cu;
	the.began = fm_now();
	why = cu->capturing(given->stream, &status) || status != FM_CU_CAPTURE_NONE
		      ? FM_UNSEEN_GRAPH
		      : look_at(&the, given);
	fm_profile_leave(cu, mode);
	if (why == FM_UNSEENS)
		return &the;
	fm_profile_unseen(why);
	atomic_store(&looked_at, 0);
	pthread_mutex_unlock(&looking);
	return NULL;
}

/* --- behind --- */

static int wait_for(struct fm_profile_look *l)
{
	const struct timespec nap = fm_timespec(FM_PROFILE_NAP);
	uint64_t until = fm_now() + FM_PROFILE_WAIT;
	fm_cu_result rc;

	while ((rc = l->cu->query(l->stream)) == FM_CU_ERROR_NOT_READY) {
		if (fm_now() > until)
			return -ETIMEDOUT;
		nanosleep(&nap, NULL);
	}
	return rc ? -EIO : 0;
}

static bool read_table(struct fm_profile_look *l)
{
	struct fm_touched *t = l->c->host;
	size_t bytes = sizeof(*t) + cells_of(t) * sizeof(t->cell[0]);

	if (l->source != FM_SOURCE_HASH && l->cu->to_host(t, l->c->table, bytes, l->stream))
		return false;
	return !l->hashes || !fm_profile_hash(l->cu, l->c, l->stream, true);
}

struct changes {
	struct fm_profile_look *l;
	const struct fm_ranges *touched;
	struct fm_ranges *changed;
};

/* Some bytes of what is written are as before by chance. */
#define CHANCE 32u

static void keep_change(void *arg, uint64_t at, uint64_t bytes)
{
	struct fm_ranges *r = ((struct changes *)arg)->changed;
	uint64_t end = r->n ? r->range[r->n - 1].to : 0;

	fm_ranges_append(r, r->n && at - end < CHANCE ? end : at, at + bytes);
}

static void check_change(void *arg, uint64_t at, uint64_t bytes)
{
	struct changes *c = arg;
	struct fm_word *w = c->l->word, *owner;

	/* Of what a map names nobody sees when it is written. */
	for (unsigned i = 0; i < c->l->n; i++)
		if (w[i].map && at + bytes > w[i].value &&
			at < w[i].value + (uint64_t)w[i].span[0].to)
			return;
	if (!fm_ranges_miss(c->touched, at, at + bytes))
		return;
	owner = fm_words_owner(w, c->l->n, c->l->c->host, at);
	if (owner)
		owner->missed += bytes;
}

static void put(struct fm_profile_look *l, unsigned flags)
{
	struct fm_record_launch h = {.source = (uint8_t)l->source,
		.flags = (uint8_t)flags,
		.size = l->k->params.bytes,
		.name = (uint32_t)strlen(l->k->name),
		.n = l->n,
		.ns = fm_now() - l->began};
	static struct fm_record_pointer pointer[FM_PROFILE_POINTERS];
	static struct fm_record_span span[FM_PROFILE_POINTERS * FM_PROFILE_SPANS];

	memcpy(h.image, l->k->image, sizeof(h.image));
	memcpy(h.grid, l->grid, sizeof(h.grid));
	memcpy(h.block, l->block, sizeof(h.block));
	for (unsigned i = 0; i < l->n; i++) {
		const struct fm_word *w = &l->word[i];
		const struct fm_touched_region *r = &l->c->host->region[w->region];

		pointer[i] = (struct fm_record_pointer){.at = w->at,
			.n = w->n,
			.map = w->map,
			.before = w->value - r->at,
			.after = r->at + r->size - w->value,
			.missed = w->missed};
		memcpy(span + h.spans, w->span, w->n * sizeof(*span));
		h.spans += w->n;
	}
	const struct iovec part[] = {{&h, sizeof(h)}, {pointer, h.n * sizeof(*pointer)},
		{span, h.spans * sizeof(*span)}, {l->params, h.size}, {l->k->name, h.name}};
	if (fm_profile_put(FM_RECORD_LAUNCH, part, 5))
		fm_profile_count_seen(h.ns);
	else
		fm_profile_unseen(FM_UNSEEN_FULL);
}

static void tell(struct fm_profile_look *l)
{
	const struct fm_touched *t = l->c->host;
	struct fm_ranges touched = {0};
	struct changes c = {l, &touched, &touched};
	unsigned flags = 0;

	if (l->source == FM_SOURCE_HASH) {
		flags |= fm_profile_changes(l->c, keep_change, &c) ? 0 : FM_LAUNCH_COARSE;
	} else {
		fm_ranges_marked(&touched, t);
		flags |= t->outside ? FM_LAUNCH_OUTSIDE : 0;
		if (l->hashes) {
			flags |= FM_LAUNCH_CHECKED;
			fm_profile_changes(l->c, check_change, &c);
		}
	}
	fm_words_spans(l->word, l->n, t, &touched);
	if (touched.failed)
		fm_profile_unseen(FM_UNSEEN_FAILED);
	else
		put(l, flags);
	fm_ranges_free(&touched);
}

static void finish(struct fm_profile_look *l, fm_cu_result launched)
{
	bool read = !launched && read_table(l);
	int rc = launched ? 0 : wait_for(l);

	if (l->source != FM_SOURCE_HASH)
		set_table(l, 0);
	if (rc == -ETIMEDOUT) {
		/* The device may still write there: nobody else gets these tables. */
		l->k->times->slow = true;
		*l->c = (struct fm_profile_context){
			.ctx = l->c->ctx, .dev = l->c->dev, .lost = l->c->lost + 1};
		fm_profile_unseen(FM_UNSEEN_SLOW);
	} else if (launched || rc || !read) {
		fm_profile_unseen(FM_UNSEEN_FAILED);
	} else if (l->source == FM_SOURCE_SANITIZER && !l->c->host->ran) {
		fm_profile_unseen(FM_UNSEEN_UNMARKED);
	} else {
		tell(l);
	}
}

void fm_profile_after(struct fm_profile_look *l, fm_cu_result rc)
{
	int mode;

	if (!l)
		return;
	mode = fm_profile_enter(l->cu);
	finish(l, rc);
	fm_profile_leave(l->cu, mode);
	atomic_store(&looked_at, 0);
	pthread_mutex_unlock(&looking);
}

/* A look that is under way ends first. */
void fm_profile_look_context_ends(CUcontext ctx, const CUdevice *dev)
{
	const struct timespec nap = fm_timespec(FM_PROFILE_NAP);
	uint64_t until = fm_now() + 2 * FM_PROFILE_WAIT;

	while (pthread_mutex_trylock(&looking)) {
		if (fm_now() > until)
			return;
		nanosleep(&nap, NULL);
	}
	fm_profile_context_forget(ctx, dev);
	pthread_mutex_unlock(&looking);
}
