/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "template.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void fm_extents_free(struct fm_extents *e)
{
	free(e->span);
	*e = (struct fm_extents){0};
}

/* The first span that ends behind `at`; or at it, if one that touches counts. */
static size_t first_behind(const struct fm_extents *e, int64_t at, bool touching)
{
	size_t low = 0, high = e->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int64_t to = e->span[mid].to;

		if (to < at || (to == at && !touching))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Instead of `old` spans from place i there are `fresh` from now on, at most one more. */
static int replace(
	struct fm_extents *e, size_t i, size_t old, const struct fm_span *fresh, size_t n_fresh)
{
	size_t n = e->n - old + n_fresh, room = e->room ? 2 * e->room : 8;
	struct fm_span *more;

	if (n > e->room) {
		more = room > SIZE_MAX / sizeof(*more) ? NULL
						       : realloc(e->span, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		e->span = more;
		e->room = room;
	}
	if (e->n - i - old)
		memmove(&e->span[i + n_fresh], &e->span[i + old],
			(e->n - i - old) * sizeof(*e->span));
	if (n_fresh)
		memcpy(&e->span[i], fresh, n_fresh * sizeof(*fresh));
	e->n = n;
	return 0;
}

int fm_extents_add(struct fm_extents *e, struct fm_span s)
{
	size_t i = first_behind(e, s.from, true), end = i;

	if (s.from >= s.to)
		return -EINVAL;
	for (; end < e->n && e->span[end].from <= s.to; end++) {
		s.from = FM_MIN(s.from, e->span[end].from);
		s.to = FM_MAX(s.to, e->span[end].to);
	}
	return replace(e, i, end - i, &s, 1);
}

int fm_extents_cut(struct fm_extents *e, struct fm_span s)
{
	size_t i = first_behind(e, s.from, false), end = i, n = 0;
	struct fm_span left[2];

	if (s.from >= s.to)
		return -EINVAL;
	while (end < e->n && e->span[end].from < s.to)
		end++;
	if (i == end)
		return 0;
	if (e->span[i].from < s.from)
		left[n++] = (struct fm_span){e->span[i].from, s.from};
	if (e->span[end - 1].to > s.to)
		left[n++] = (struct fm_span){s.to, e->span[end - 1].to};
	return replace(e, i, end - i, left, n);
}

void fm_extents_close(struct fm_extents *e, uint64_t hole)
{
	size_t n = 0;

	for (size_t i = 0; i < e->n; i++) {
		struct fm_span s = e->span[i];

		if (n && (uint64_t)s.from - (uint64_t)e->span[n - 1].to < hole)
			e->span[n - 1].to = s.to;
		else
			e->span[n++] = s;
	}
	e->n = n;
}

uint64_t fm_extents_sum(const struct fm_extents *e)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < e->n; i++)
		if (__builtin_add_overflow(
			    sum, (uint64_t)e->span[i].to - (uint64_t)e->span[i].from, &sum))
			return UINT64_MAX;
	return sum;
}

bool fm_extents_has(const struct fm_extents *e, int64_t at)
{
	size_t i = first_behind(e, at, false);

	return i < e->n && e->span[i].from <= at;
}
