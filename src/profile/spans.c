/* SPDX-License-Identifier: Apache-2.0 */
#include "spans.h"
#include "base/util.h"
#include <stdlib.h>

void fm_ranges_free(struct fm_ranges *r)
{
	free(r->range);
	*r = (struct fm_ranges){0};
}

void fm_ranges_append(struct fm_ranges *r, uint64_t from, uint64_t to)
{
	struct fm_range *more;

	if (r->n && r->range[r->n - 1].to >= from) {
		r->range[r->n - 1].to = FM_MAX(r->range[r->n - 1].to, to);
		return;
	}
	if (r->n == r->room) {
		more = realloc(r->range, (2 * r->room + 64) * sizeof(*more));
		if (!more) {
			r->failed = true;
			return;
		}
		r->range = more;
		r->room = 2 * r->room + 64;
	}
	r->range[r->n++] = (struct fm_range){from, to};
}

void fm_ranges_marked(struct fm_ranges *r, const struct fm_touched *t)
{
	for (unsigned i = 0; i < t->n; i++) {
		const struct fm_touched_region *g = &t->region[i];
		uint64_t size = UINT64_C(1) << g->shift;

		for (uint32_t k = 0; k < fm_touched_cells(g); k++) {
			const struct fm_touched_cell *c = &t->cell[g->first + k];
			uint64_t at = g->at + k * size;

			if (c->before && c->before <= size && c->end <= size &&
				size - c->before < c->end)
				fm_ranges_append(r, at + size - c->before, at + c->end);
		}
	}
}

bool fm_ranges_miss(const struct fm_ranges *r, uint64_t from, uint64_t to)
{
	size_t low = 0, high = r->n;

	while (low < high) { /* the first that ends behind `from` */
		size_t half = (low + high) / 2;

		if (r->range[half].to <= from)
			low = half + 1;
		else
			high = half;
	}
	return low == r->n || r->range[low].from >= to;
}

/* --- pointers --- */

struct fm_word *fm_words_owner(
	struct fm_word *w, unsigned n, const struct fm_touched *t, uint64_t at)
{
	struct fm_word *below = NULL, *first = NULL;

	for (unsigned i = 0; i < n; i++) {
		const struct fm_touched_region *g = &t->region[w[i].region];

		if (w[i].map || at - g->at >= g->size)
			continue;
		if (w[i].value <= at && (!below || w[i].value > below->value))
			below = &w[i];
		if (!first || w[i].value < first->value)
			first = &w[i];
	}
	return below ? below : first;
}

/* What belongs to this word: from its own value, or from the region's beginning if no other is in
 * front of it, to the next greater one. */
static struct fm_range reach_of(
	const struct fm_word *w, unsigned n, const struct fm_touched *t, const struct fm_word *of)
{
	const struct fm_touched_region *g = &t->region[of->region];
	struct fm_range r = {g->at, g->at + g->size};

	for (unsigned i = 0; i < n; i++) {
		if (w[i].map || w[i].region != of->region)
			continue;
		if (w[i].value < of->value)
			r.from = of->value;
		if (w[i].value > of->value && w[i].value < r.to)
			r.to = w[i].value;
	}
	return r;
}

/* How many are left if holes up to that size are filled; they are stored if there is room. */
static unsigned close_holes(
	const struct fm_ranges *touched, struct fm_range reach, uint64_t hole, struct fm_word *w)
{
	unsigned n = 0;
	uint64_t end = 0;

	for (size_t i = 0; i < touched->n; i++) {
		uint64_t from = FM_MAX(touched->range[i].from, reach.from);
		uint64_t to = FM_MIN(touched->range[i].to, reach.to);

		if (from >= to)
			continue;
		if (!n || from - end > hole) {
			if (n++ < FM_PROFILE_SPANS)
				w->span[n - 1].from = (int64_t)(from - w->value);
		}
		if (n <= FM_PROFILE_SPANS)
			w->span[n - 1].to = (int64_t)(to - w->value);
		end = to;
	}
	return n;
}

void fm_words_spans(
	struct fm_word *w, unsigned n, const struct fm_touched *t, const struct fm_ranges *touched)
{
	for (unsigned i = 0; i < n; i++) {
		struct fm_range reach;
		uint64_t hole = 0;

		if (w[i].map)
			continue;
		reach = reach_of(w, n, t, &w[i]);
		w[i].n = close_holes(touched, reach, hole, &w[i]);
		while (w[i].n > FM_PROFILE_SPANS) {
			hole = hole ? 2 * hole : 256;
			w[i].n = close_holes(touched, reach, hole, &w[i]);
		}
	}
}
