/* SPDX-License-Identifier: Apache-2.0 */
/* Launches as text: HASH NAME GRID BLOCK SHARED BYTES WORDS POINTERS GROUPS. */
#include "kill.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MOST 2048u
/* Of a distance: so sums do not overflow. */
#define FAR (INT64_C(1) << 56)

void fm_kill_launch_free(struct fm_kill_launch *l)
{
	free(l->name);
	free(l->word);
	free(l->pointer);
	free(l->group);
	*l = (struct fm_kill_launch){0};
}

bool fm_kill_is_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
			    (s[i] >= '0' && s[i] <= '9') || s[i] == '_' || s[i] == '$'))
			return false;
	return n && n <= NAME_MOST;
}

/* --- reading --- */

struct reader {
	const char *at, *end;
	bool bad;
};

static bool comes(struct reader *r, char c)
{
	if (r->bad || r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

static void want(struct reader *r, char c)
{
	r->bad |= !comes(r, c);
}

static uint64_t digits(struct reader *r, unsigned base, uint64_t most)
{
	const char *from = r->at;
	uint64_t v = 0;

	for (; !r->bad && r->at < r->end; r->at++) {
		unsigned d = *r->at >= '0' && *r->at <= '9'   ? (unsigned)(*r->at - '0')
			     : *r->at >= 'a' && *r->at <= 'f' ? (unsigned)(*r->at - 'a' + 10)
							      : 99;

		if (d >= base)
			break;
		if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v) ||
			v > most)
			r->bad = true;
	}
	r->bad |= r->at == from;
	return v;
}

static int64_t distance(struct reader *r)
{
	bool minus = comes(r, '-');
	int64_t v = (int64_t)digits(r, 10, FAR);

	return minus ? -v : v;
}

static void read_dims(struct reader *r, uint32_t dim[3])
{
	for (unsigned i = 0; i < 3; i++) {
		if (i)
			want(r, ',');
		dim[i] = (uint32_t)digits(r, 10, UINT32_MAX);
		r->bad |= !dim[i];
	}
	want(r, ' ');
}

static void read_names(struct reader *r, struct fm_kill_launch *l)
{
	const char *space;

	if (r->end - r->at < (long)FM_KILL_HASH) {
		r->bad = true;
		return;
	}
	memcpy(l->hash, r->at, FM_KILL_HASH - 1);
	r->at += FM_KILL_HASH - 1;
	r->bad |= strspn(l->hash, "0123456789abcdef") != FM_KILL_HASH - 1;
	want(r, ' ');
	space = memchr(r->at, ' ', (size_t)(r->end - r->at));
	if (r->bad || !space || !fm_kill_is_name(r->at, (size_t)(space - r->at))) {
		r->bad = true;
		return;
	}
	l->name = strndup(r->at, (size_t)(space - r->at));
	r->at = space + 1;
}

static void read_words(struct reader *r, struct fm_kill_launch *l)
{
	for (unsigned i = 0; i < fm_kill_words(l) && !r->bad; i++) {
		if (comes(r, 'p')) {
			l->at |= UINT64_C(1) << i;
			l->n++;
			r->bad |= 8 * i + 8 > l->bytes;
			continue;
		}
		l->word[i] = digits(r, 16, UINT64_MAX);
		want(r, ',');
	}
	want(r, ';');
	want(r, ' ');
}

/* The first of each group is there before the others, at 0. */
static void read_pointers(struct reader *r, struct fm_kill_launch *l)
{
	for (unsigned i = 0; i < l->n && !r->bad; i++) {
		struct fm_kill_pointer *p = &l->pointer[i];

		p->group = (uint8_t)digits(r, 10, FM_KILL_WORDS);
		want(r, ':');
		p->plus = distance(r);
		want(r, ',');
		r->bad |= p->group > l->n_groups || (p->group == l->n_groups && p->plus);
		l->n_groups += p->group == l->n_groups;
	}
	want(r, ';');
	want(r, ' ');
}

static void read_groups(struct reader *r, struct fm_kill_launch *l)
{
	for (unsigned i = 0; i < l->n_groups && !r->bad; i++) {
		struct fm_kill_group *g = &l->group[i];

		g->from = distance(r);
		want(r, ':');
		g->to = distance(r);
		want(r, ':');
		g->wfrom = distance(r);
		want(r, ':');
		g->wto = distance(r);
		want(r, ',');
		r->bad |= g->from > g->to || g->wfrom > g->wto ||
			  (g->wfrom < g->wto && (g->wfrom < g->from || g->wto > g->to));
	}
	want(r, ';');
}

int fm_kill_parse(struct fm_kill_launch *l, const char *text, size_t size)
{
	struct reader r = {.at = text, .end = text + size};
	size_t room;

	*l = (struct fm_kill_launch){0};
	read_names(&r, l);
	if (r.bad)
		return -EINVAL;
	read_dims(&r, l->grid);
	read_dims(&r, l->block);
	l->shared = (uint32_t)digits(&r, 10, UINT32_MAX);
	want(&r, ' ');
	l->bytes = (uint32_t)digits(&r, 10, FM_KILL_BYTES);
	want(&r, ' ');
	if (r.bad)
		return -EINVAL;
	room = fm_kill_words(l) + 1; /* there are many launches */
	l->word = calloc(room, sizeof(*l->word));
	l->pointer = calloc(room, sizeof(*l->pointer));
	l->group = calloc(room, sizeof(*l->group));
	if (!l->name || !l->word || !l->pointer || !l->group)
		return -ENOMEM;
	read_words(&r, l);
	read_pointers(&r, l);
	read_groups(&r, l);
	return r.bad || r.at != r.end ? -EINVAL : 0;
}

/* --- launches --- */

static bool meet(uint64_t a, int64_t from, int64_t to, uint64_t b, int64_t from2, int64_t to2)
{
	return from < to && from2 < to2 && (int64_t)(a - b) + from < to2 &&
	       (int64_t)(a - b) + to > from2;
}

/* Of user space, so that no sum overflows. */
static bool is_address(uint64_t p)
{
	return p && p < (uint64_t)FAR;
}

static bool groups_meet(const struct fm_kill_launch *l, const uint64_t *base)
{
	for (unsigned i = 0; i < l->n_groups; i++)
		if (!is_address(base[i]))
			return true;
	for (unsigned i = 0; i < l->n_groups; i++) {
		const struct fm_kill_group *g = &l->group[i];

		for (unsigned k = 0; k < l->n_groups; k++)
			if (k != i && meet(base[i], g->wfrom, g->wto, base[k], l->group[k].from,
					      l->group[k].to))
				return true;
	}
	return false;
}

enum fm_kill_match fm_kill_match(const struct fm_kill_launch *l, const uint32_t grid[3],
	const uint32_t block[3], uint32_t shared, const void *params, uint64_t *base)
{
	unsigned n = 0, groups = 0;
	bool near = true;

	if (memcmp(l->grid, grid, sizeof(l->grid)) || memcmp(l->block, block, sizeof(l->block)) ||
		l->shared != shared)
		return FM_KILL_OTHER;
	for (unsigned i = 0; i < fm_kill_words(l); i++) {
		const struct fm_kill_pointer *p = &l->pointer[n];
		unsigned bytes = l->bytes - 8 * i < 8 ? l->bytes - 8 * i : 8;
		uint64_t value = 0;

		memcpy(&value, (const char *)params + 8 * i, bytes);
		if (!(l->at >> i & 1)) {
			if (value != l->word[i])
				return FM_KILL_OTHER;
			continue;
		}
		n++;
		if (p->group == groups)
			base[groups++] = value;
		near &= value - base[p->group] == (uint64_t)p->plus;
	}
	return near && !groups_meet(l, base) ? FM_KILL_SAME : FM_KILL_MEETS;
}
