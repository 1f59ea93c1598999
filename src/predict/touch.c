/* SPDX-License-Identifier: Apache-2.0 */
#include "touch.h"
#include "args.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 32u
#define SLOTS   32u /* of a bucket: tables in blocks of one hash */
#define DEPTH   3u  /* tables of tables of pointers */

#define FOLLOWED 2048u /* pointers, at one word of a launch */

/* A table of pointers: `at` is 0 where there is none, and TAKEN while it is being written. */
struct fm_touch_table {
	_Atomic uint64_t at;
	_Atomic uint64_t bytes;
	_Atomic uint32_t block; /* its first page */
	_Atomic uint32_t n;     /* pages that it points into; ANYWHERE: too many */
	_Atomic uint32_t page[FM_TOUCH_TARGETS];
};
#define TAKEN    UINT64_C(1)
#define ANYWHERE UINT32_MAX

#define LOAD(p)     atomic_load_explicit(p, memory_order_relaxed)
#define STORE(p, v) atomic_store_explicit(p, v, memory_order_relaxed)

int fm_touch_init(struct fm_touch *t, uint64_t base, uint64_t size)
{
	*t = (struct fm_touch){.base = base, .size = size, .turn = 1};
	/* Of pages that were never in use, nothing is ever there. */
	t->page = calloc(size / FM_TOUCH_PAGE, sizeof(*t->page));
	t->table = calloc((size_t)BUCKETS * SLOTS, sizeof(*t->table));
	if (t->page && t->table)
		return 0;
	fm_touch_free(t);
	return -ENOMEM;
}

void fm_touch_free(struct fm_touch *t)
{
	free(t->page);
	free(t->counts);
	free(t->table);
	*t = (struct fm_touch){0};
}

static struct fm_touch_table *bucket_of(const struct fm_touch *t, uint32_t block)
{
	return &t->table[(size_t)(block * UINT32_C(0x9e3779b1) >> 27) * SLOTS];
}

static uint32_t page_of(const struct fm_touch *t, uint64_t at)
{
	return (uint32_t)((at - t->base) / FM_TOUCH_PAGE);
}

/* The first page of the block there, plus one; 0: there is none. */
static uint32_t block_at(const struct fm_touch *t, uint64_t at)
{
	return at - t->base < t->size ? LOAD(&t->page[page_of(t, at)].first) : 0;
}

/* --- blocks --- */

static void forget_tables(struct fm_touch *t, uint32_t block)
{
	struct fm_touch_table *of = bucket_of(t, block);

	for (unsigned i = 0; i < SLOTS; i++)
		if (LOAD(&of[i].at) && LOAD(&of[i].block) == block)
			STORE(&of[i].at, 0);
}

void fm_touch_block(struct fm_touch *t, uint32_t first, uint32_t pages)
{
	uint32_t now = LOAD(&t->turn);

	for (uint32_t i = first; i < first + pages; i++) {
		STORE(&t->page[i].named, 0);
		STORE(&t->page[i].first, first + 1);
	}
	STORE(&t->page[first].points, FM_TOUCH_POINTS_NOT);
	STORE(&t->page[first].pages, pages);
	STORE(&t->page[first].whole, now);
	if (t->segment)
		STORE(&t->page[first].segment, LOAD(t->segment));
	STORE(&t->any, now);
}

void fm_touch_gone(struct fm_touch *t, uint32_t first, uint32_t pages)
{
	for (uint32_t i = first; i < first + pages; i++) {
		if (LOAD(&t->page[i].points)) /* also of one of several blocks */
			forget_tables(t, i);
		STORE(&t->page[i].first, 0);
		STORE(&t->page[i].named, 0);
		STORE(&t->page[i].whole, 0);
		STORE(&t->page[i].wide, 0);
		STORE(&t->page[i].points, FM_TOUCH_POINTS_NOT);
	}
	fm_touch_count_anew(t, first, pages);
}

/* --- what is named --- */

#define COUNT(t, page, word, by)                                                                \
	do {                                                                                    \
		struct fm_touch_uses *uses_ =                                                   \
			atomic_load_explicit(&(t)->uses, memory_order_acquire);                 \
		if (FM_UNLIKELY(uses_))                                                         \
			atomic_fetch_add_explicit(&uses_[page].word, by, memory_order_relaxed); \
	} while (0)

/* Is it named for the first time in this turn? The word has not been written yet. */
static inline void note_segment(struct fm_touch *t, struct fm_touch_page *page, uint32_t now)
{
	if (t->segment && LOAD(&page->named) != now && LOAD(&page->whole) != now &&
		LOAD(&page->wide) != now)
		STORE(&page->segment, LOAD(t->segment));
}

static void name_block(struct fm_touch *t, uint32_t page, unsigned depth, unsigned *left);

/* Where tables point at each other there are as many ways as there are products of them: what would
 * take long names everything, and then there is nothing more to follow in this turn. */
static FM_COLD void follow(
	struct fm_touch *t, uint32_t block, uint32_t points, unsigned depth, unsigned *left)
{
	const struct fm_touch_table *of = bucket_of(t, block);

	if (points == FM_TOUCH_POINTS_ANYWHERE)
		fm_touch_all(t);
	for (unsigned i = 0; i < SLOTS && LOAD(&t->all) != LOAD(&t->turn); i++) {
		uint32_t n = LOAD(&of[i].n);

		if (LOAD(&of[i].at) <= TAKEN || LOAD(&of[i].block) != block)
			continue;
		if (n == ANYWHERE || n > *left) {
			fm_touch_all(t);
			return;
		}
		*left -= n;
		for (uint32_t k = 0; k < FM_MIN(n, (uint32_t)FM_TOUCH_TARGETS); k++)
			name_block(t, LOAD(&of[i].page[k]), depth + 1, left);
	}
}

static FM_HOT void name_block(struct fm_touch *t, uint32_t page, unsigned depth, unsigned *left)
{
	uint32_t first = LOAD(&t->page[page].first), now = LOAD(&t->turn), points;
	struct fm_touch_page *block;

	if (FM_UNLIKELY(!first))
		return;
	block = &t->page[first - 1];
	COUNT(t, first - 1, whole, 1);
	if (LOAD(&block->whole) != now) {
		note_segment(t, block, now);
		STORE(&block->whole, now);
		STORE(&t->any, now);
	}
	points = LOAD(&block->points);
	if (FM_UNLIKELY(points) && depth < DEPTH)
		follow(t, first - 1, points, depth, left);
}

FM_HOT void fm_touch_hit(struct fm_touch *t, uint64_t word)
{
	unsigned left = FOLLOWED;

	name_block(t, page_of(t, word), 0, &left);
}

FM_HOT void fm_touch_words(struct fm_touch *t, const void *words, size_t n)
{
	const char *at = words;

	for (size_t i = 0; i < n; i++) {
		uint64_t word;

		memcpy(&word, at + 8 * i, 8);
		fm_touch_word(t, word);
	}
}

/* Of the page, what lies in [from, end). */
static inline uint32_t parts_of(uint64_t page, uint64_t from, uint64_t end)
{
	uint64_t first = FM_MAX(from, page * FM_TOUCH_PAGE);

	return (uint32_t)((FM_MIN(end, (page + 1) * FM_TOUCH_PAGE) - first) /
			  (FM_TOUCH_PAGE / FM_TOUCH_USE));
}

FM_HOT void fm_touch_range(struct fm_touch *t, uint64_t at, uint64_t bytes)
{
	uint64_t from = at - t->base, end;
	uint32_t now = LOAD(&t->turn);

	if (from >= t->size || !bytes)
		return;
	end = bytes < t->size - from ? from + bytes : t->size;
	for (uint64_t i = from / FM_TOUCH_PAGE; i <= (end - 1) / FM_TOUCH_PAGE; i++) {
		COUNT(t, i, named, parts_of(i, from, end));
		if (LOAD(&t->page[i].named) != now) {
			note_segment(t, &t->page[i], now);
			STORE(&t->page[i].named, now);
		}
	}
	if (LOAD(&t->any) != now)
		STORE(&t->any, now);
}

/* Pages [from, end) of one block: where there are many, 64 at a time. */
static FM_HOT void name_pages(struct fm_touch *t, uint64_t from, uint64_t end, uint32_t now)
{
	while (from < end) {
		bool wide = from % FM_TOUCH_WIDE == 0 && end - from >= FM_TOUCH_WIDE;
		_Atomic uint32_t *word = wide ? &t->page[from].wide : &t->page[from].named;

		if (wide)
			COUNT(t, from, wide, 1);
		else
			COUNT(t, from, named, FM_TOUCH_USE);
		if (LOAD(word) != now) {
			note_segment(t, &t->page[from], now);
			STORE(word, now);
		}
		from += wide ? FM_TOUCH_WIDE : 1;
	}
}

/* A span of a block of that size, around what is at `at` of it. */
static inline bool clamp(
	int64_t at, int64_t size, const struct fm_span *span, int64_t *from, int64_t *to)
{
	bool within = true;

	if (__builtin_add_overflow(at, span->from, from))
		*from = span->from < 0 ? 0 : size;
	if (__builtin_add_overflow(at, span->to, to))
		*to = span->to < 0 ? 0 : size + 1;
	if (*from < 0 || *to > size)
		within = false;
	*from = FM_MAX(*from, (int64_t)0);
	*to = FM_MIN(*to, size);
	return within;
}

FM_HOT bool fm_touch_spans(
	struct fm_touch *t, uint64_t word, const struct fm_span *span, unsigned n)
{
	uint32_t first = block_at(t, word), now = LOAD(&t->turn), pages, points;
	unsigned left = FOLLOWED;
	bool within = true;
	int64_t at, from, to;

	if (FM_UNLIKELY(!first))
		return true;
	pages = LOAD(&t->page[first - 1].pages);
	at = (int64_t)(word - t->base - (first - 1) * FM_TOUCH_PAGE);
	for (unsigned i = 0; i < n; i++) {
		within &= clamp(at, (int64_t)(pages * FM_TOUCH_PAGE), &span[i], &from, &to);
		if (from < to)
			name_pages(t, first - 1 + (uint64_t)from / FM_TOUCH_PAGE,
				first + (uint64_t)(to - 1) / FM_TOUCH_PAGE, now);
	}
	if (LOAD(&t->any) != now)
		STORE(&t->any, now);
	points = LOAD(&t->page[first - 1].points);
	if (FM_UNLIKELY(points))
		follow(t, first - 1, points, 0, &left);
	return within;
}

void fm_touch_keep(struct fm_touch *t, uint64_t word)
{
	uint32_t first = block_at(t, word);

	if (first)
		STORE(&t->page[first - 1].whole, LOAD(&t->turn));
}

void fm_touch_all(struct fm_touch *t)
{
	uint32_t now = LOAD(&t->turn);

	if (LOAD(&t->all) == now)
		return;
	STORE(&t->all, now);
	STORE(&t->any, now);
}

/* --- tables of pointers --- */

/* What points from these bytes does so no more. */
static FM_COLD void overwritten(struct fm_touch *t, uint32_t block, uint64_t at, uint64_t bytes)
{
	struct fm_touch_table *of = bucket_of(t, block);

	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t is = LOAD(&of[i].at);

		if (is > TAKEN && is < at + bytes && at < is + LOAD(&of[i].bytes))
			atomic_compare_exchange_strong(&of[i].at, &is, 0);
	}
}

static struct fm_touch_table *take_table(struct fm_touch *t, uint32_t block)
{
	struct fm_touch_table *of = bucket_of(t, block);

	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t none = 0;

		if (!LOAD(&of[i].at) && atomic_compare_exchange_strong(&of[i].at, &none, TAKEN))
			return &of[i];
	}
	return NULL;
}

/* Pages of other blocks than its own. */
struct targets {
	uint32_t page[FM_TOUCH_TARGETS];
	uint32_t n, own;
};

static void add_target(const struct fm_touch *t, struct targets *to, uint64_t word)
{
	uint32_t first = block_at(t, word);

	if (!first || first - 1 == to->own || to->n == ANYWHERE)
		return;
	for (uint32_t i = 0; i < to->n; i++)
		if (to->page[i] == first - 1)
			return;
	if (to->n == FM_TOUCH_TARGETS)
		to->n = ANYWHERE;
	else
		to->page[to->n++] = first - 1;
}

#define STRIDE 8u /* words that are looked at together: mostly there is nothing in any */
static bool any_of(const struct fm_touch *t, const char *content)
{
	uint64_t word[STRIDE];
	bool any = false;

	memcpy(word, content, sizeof(word));
	for (unsigned i = 0; i < STRIDE; i++)
		any |= word[i] - t->base < t->size;
	return any;
}

static void find_targets(const struct fm_touch *t, struct targets *to, uint64_t at,
	const char *content, size_t bytes)
{
	size_t skip = (size_t)(-at & 7), map = (size_t)(-at & (FM_TENSOR_MAP_ALIGN - 1));
	uint64_t word;

	for (size_t i = skip; i + 8 <= bytes; i += 8) {
		if (i + 8 * STRIDE <= bytes && !any_of(t, content + i)) {
			i += 8 * (STRIDE - 1);
			continue;
		}
		memcpy(&word, content + i, 8);
		add_target(t, to, word);
	}
	if (!t->maps || !fm_tensor_maps_any(t->maps))
		return;
	for (size_t i = map; i + FM_TENSOR_MAP <= bytes; i += FM_TENSOR_MAP_ALIGN)
		if (fm_tensor_map_find(t->maps, content + i, &word))
			add_target(t, to, word);
}

void fm_touch_points(struct fm_touch *t, uint64_t at, const void *content, size_t bytes)
{
	struct targets to = {.n = 0};
	uint32_t first = block_at(t, at);
	struct fm_touch_page *block = first ? &t->page[first - 1] : NULL;
	struct fm_touch_table *table;

	if (!block || !bytes)
		return;
	to.own = first - 1;
	if (LOAD(&block->points))
		overwritten(t, to.own, at, bytes);
	find_targets(t, &to, at, content, bytes);
	if (!to.n)
		return;
	table = take_table(t, to.own);
	if (!table) {
		STORE(&block->points, FM_TOUCH_POINTS_ANYWHERE);
		return;
	}
	for (uint32_t i = 0; to.n != ANYWHERE && i < to.n; i++)
		STORE(&table->page[i], to.page[i]);
	STORE(&table->bytes, bytes);
	STORE(&table->block, to.own);
	STORE(&table->n, to.n);
	atomic_store_explicit(&table->at, at, memory_order_release);
	if (LOAD(&block->points) == FM_TOUCH_POINTS_NOT)
		STORE(&block->points, FM_TOUCH_POINTS_TABLES);
}

/* Do these bytes of a block that points hold one of its tables, or part of it? */
static bool holds_table(const struct fm_touch *t, uint32_t block, uint64_t at, uint64_t bytes)
{
	const struct fm_touch_table *of = bucket_of(t, block);
	bool holds = LOAD(&t->page[block].points) == FM_TOUCH_POINTS_ANYWHERE;

	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t is = LOAD(&of[i].at);

		holds |= is > TAKEN && is < at + bytes && at < is + LOAD(&of[i].bytes);
	}
	return holds;
}

/* A copy is looked at where it begins alone: a table of pointers is short. */
void fm_touch_copied(struct fm_touch *t, uint64_t at, uint64_t bytes, uint64_t from)
{
	uint32_t first = block_at(t, at), source = from ? block_at(t, from) : 0;

	if (!first)
		return;
	if (LOAD(&t->page[first - 1].points))
		overwritten(t, first - 1, at, bytes);
	if (source && LOAD(&t->page[source - 1].points) && bytes <= FM_TOUCH_TABLE &&
		holds_table(t, source - 1, from, bytes))
		STORE(&t->page[first - 1].points, FM_TOUCH_POINTS_ANYWHERE);
}

/* --- turns --- */

uint32_t fm_touch_turn(struct fm_touch *t)
{
	uint32_t now = LOAD(&t->turn);

	if (LOAD(&t->any) == now && now < UINT32_MAX)
		STORE(&t->turn, ++now);
	return now;
}

uint32_t fm_touch_last(const struct fm_touch *t, uint32_t first, uint32_t pages)
{
	uint32_t last = 0;

	for (uint32_t i = first; i < first + pages; i++) {
		uint32_t block = LOAD(&t->page[i].first);

		if (!block)
			continue;
		last = FM_MAX(last, LOAD(&t->page[i].named));
		last = FM_MAX(last, LOAD(&t->page[i / FM_TOUCH_WIDE * FM_TOUCH_WIDE].wide));
		last = FM_MAX(last, LOAD(&t->page[block - 1].whole));
	}
	return last;
}

bool fm_touch_first(const struct fm_touch *t, uint32_t first, uint32_t pages, uint32_t *segment)
{
	uint32_t now = LOAD(&t->turn);
	bool any = false;

	for (uint32_t i = first; i < first + pages; i++) {
		uint32_t block = LOAD(&t->page[i].first), wide = i / FM_TOUCH_WIDE * FM_TOUCH_WIDE;
		const struct fm_touch_page *by[3];
		bool is[3];

		if (!block)
			continue;
		by[0] = &t->page[i], is[0] = LOAD(&by[0]->named) == now;
		by[1] = &t->page[block - 1], is[1] = LOAD(&by[1]->whole) == now;
		by[2] = &t->page[wide], is[2] = LOAD(&by[2]->wide) == now;
		for (unsigned k = 0; k < 3; k++) {
			uint32_t at = LOAD(&by[k]->segment);

			if (!is[k])
				continue;
			*segment = any && at - *segment < UINT32_C(1) << 31 ? *segment : at;
			any = true;
		}
	}
	return any;
}

/* --- how often --- */

int fm_touch_count(struct fm_touch *t, bool on)
{
	/* Of pages that were never in use it is never touched. It stays: it may be written yet. */
	if (on && !t->counts)
		t->counts = calloc(t->size / FM_TOUCH_PAGE, sizeof(*t->counts));
	if (on && !t->counts)
		return -ENOMEM;
	atomic_store_explicit(&t->uses, on ? t->counts : NULL, memory_order_release);
	return 0;
}

void fm_touch_count_anew(struct fm_touch *t, uint32_t first, uint32_t pages)
{
	struct fm_touch_uses *uses = atomic_load_explicit(&t->uses, memory_order_acquire);

	for (uint32_t i = first; uses && i < first + pages; i++) {
		STORE(&uses[i].named, 0);
		STORE(&uses[i].whole, 0);
		STORE(&uses[i].wide, 0);
	}
}

uint64_t fm_touch_uses(const struct fm_touch *t, uint32_t first, uint32_t pages, uint64_t without)
{
	const struct fm_touch_uses *uses = atomic_load_explicit(&t->uses, memory_order_acquire);
	uint64_t sum = 0;

	for (uint32_t i = 0; uses && i < pages; i++) {
		uint32_t page = first + i, block = LOAD(&t->page[page].first);

		if (!block || without >> i & 1)
			continue;
		sum += LOAD(&uses[page].named);
		sum += (uint64_t)FM_TOUCH_USE *
		       ((uint64_t)LOAD(&uses[block - 1].whole) +
			       LOAD(&uses[page / FM_TOUCH_WIDE * FM_TOUCH_WIDE].wide));
	}
	return pages ? sum / pages : 0;
}
