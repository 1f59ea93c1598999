/* SPDX-License-Identifier: Apache-2.0 */
#include "places.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fm_cu_run_find(uint64_t used, unsigned pages, unsigned n)
{
	for (unsigned at = 0; at + n <= pages;) {
		uint64_t taken = (used >> at) & fm_cu_run_mask(0, n);

		if (!taken)
			return (int)at;
		at += 64 - (unsigned)__builtin_clzll(taken); /* behind the last one that is used */
	}
	return -1;
}

int fm_cu_run_next(uint64_t used, unsigned *at, unsigned *n)
{
	uint64_t left = *at < 64 ? used >> *at << *at : 0;
	unsigned first;

	if (!left)
		return -1;
	first = (unsigned)__builtin_ctzll(left);
	left = ~(left >> first);
	*n = left ? (unsigned)__builtin_ctzll(left) : 64;
	*at = first + *n;
	return (int)first;
}

int fm_cu_places_init(struct fm_cu_places *p, uint32_t pages)
{
	*p = (struct fm_cu_places){.run = malloc(16 * sizeof(*p->run)), .room = 16};
	if (!p->run)
		return -ENOMEM;
	if (pages)
		p->run[p->runs++] = (struct fm_cu_run){0, pages};
	return 0;
}

void fm_cu_places_end(struct fm_cu_places *p)
{
	free(p->run);
	*p = (struct fm_cu_places){0};
}

/* With n parts taken there are at most n + 1 free runs; so a give never needs more room. */
static int make_room(struct fm_cu_places *p, unsigned parts)
{
	while (p->taken + parts + 1 > p->room) {
		struct fm_cu_run *more = realloc(p->run, 2 * (size_t)p->room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		p->run = more;
		p->room *= 2;
	}
	return 0;
}

int fm_cu_places_cut(struct fm_cu_places *p)
{
	int rc = make_room(p, 1);

	p->taken += !rc;
	return rc;
}

void fm_cu_places_join(struct fm_cu_places *p)
{
	p->taken--;
}

int fm_cu_places_take(struct fm_cu_places *p, uint32_t n, unsigned parts, uint32_t *first)
{
	if (make_room(p, parts))
		return -ENOMEM;
	for (unsigned i = 0; i < p->runs; i++) {
		struct fm_cu_run *r = &p->run[i];

		if (r->n < n)
			continue;
		*first = r->first;
		r->first += n;
		r->n -= n;
		p->taken += parts;
		if (!r->n)
			memmove(r, r + 1, (--p->runs - i) * sizeof(*r));
		return 0;
	}
	return -ENOSPC;
}

void fm_cu_places_give(struct fm_cu_places *p, uint32_t first, uint32_t n)
{
	unsigned i = 0;
	bool joins_last, joins_next;

	p->taken--;
	while (i < p->runs && p->run[i].first < first)
		i++;
	joins_last = i && p->run[i - 1].first + p->run[i - 1].n == first;
	joins_next = i < p->runs && first + n == p->run[i].first;
	if (joins_last && joins_next) {
		p->run[i - 1].n += n + p->run[i].n;
		memmove(&p->run[i], &p->run[i + 1], (--p->runs - i) * sizeof(*p->run));
	} else if (joins_last) {
		p->run[i - 1].n += n;
	} else if (joins_next) {
		p->run[i].first = first;
		p->run[i].n += n;
	} else {
		memmove(&p->run[i + 1], &p->run[i], (p->runs++ - i) * sizeof(*p->run));
		p->run[i] = (struct fm_cu_run){first, n};
	}
}
