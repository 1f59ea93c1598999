/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of bytes, as spans that rise and do not touch. */
#include "base/util.h"
#include "idem.h"
#include <errno.h>
#include <stdlib.h>

void fm_idem_set_free(struct fm_idem_set *s)
{
	free(s->span);
	*s = (struct fm_idem_set){0};
}

static int make_room(struct fm_idem_set *s, size_t n)
{
	struct fm_idem_span *more;

	s->n = 0;
	if (n <= s->room)
		return 0;
	more = reallocarray(s->span, 2 * n, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->span = more;
	s->room = 2 * n;
	return 0;
}

/* Not in front of the last one. */
static void append(struct fm_idem_set *s, struct fm_idem_span next)
{
	if (s->n && next.from <= s->span[s->n - 1].to)
		s->span[s->n - 1].to = FM_MAX(s->span[s->n - 1].to, next.to);
	else
		s->span[s->n++] = next;
}

int fm_idem_set_union(struct fm_idem_set *to, const struct fm_idem_span *a, size_t n,
	const struct fm_idem_span *b, size_t m)
{
	size_t i = 0, j = 0;

	if (make_room(to, n + m))
		return -ENOMEM;
	while (i < n || j < m)
		append(to, j == m || (i < n && a[i].from <= b[j].from) ? a[i++] : b[j++]);
	return 0;
}

int fm_idem_set_minus(struct fm_idem_set *to, const struct fm_idem_span *a, size_t n,
	const struct fm_idem_span *b, size_t m)
{
	size_t j = 0;

	if (make_room(to, n + m))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		uint64_t from = a[i].from;

		while (j < m && b[j].to <= from)
			j++;
		for (size_t k = j; k < m && b[k].from < a[i].to; k++) {
			if (b[k].from > from)
				append(to, (struct fm_idem_span){from, b[k].from});
			from = FM_MAX(from, b[k].to);
			j = k;
		}
		if (from < a[i].to)
			append(to, (struct fm_idem_span){from, a[i].to});
	}
	return 0;
}

bool fm_idem_set_meet(
	const struct fm_idem_span *a, size_t n, const struct fm_idem_span *b, size_t m)
{
	size_t i = 0, j = 0;

	while (i < n && j < m) {
		if (a[i].to <= b[j].from)
			i++;
		else if (b[j].to <= a[i].from)
			j++;
		else
			return true;
	}
	return false;
}

bool fm_idem_set_within(
	const struct fm_idem_span *a, size_t n, const struct fm_idem_span *b, size_t m)
{
	size_t j = 0;

	for (size_t i = 0; i < n; i++) {
		while (j < m && b[j].to < a[i].to)
			j++;
		if (j == m || b[j].from > a[i].from)
			return false;
	}
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct fm_idem_span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

size_t fm_idem_set_make(struct fm_idem_span *s, size_t n)
{
	struct fm_idem_set to = {.span = s, .room = n};
	bool rising = true;

	for (size_t i = 1; i < n && rising; i++)
		rising = s[i - 1].from <= s[i].from;
	if (!rising)
		qsort(s, n, sizeof(*s), by_start);
	for (size_t i = 0; i < n; i++)
		append(&to, s[i]);
	return to.n;
}
