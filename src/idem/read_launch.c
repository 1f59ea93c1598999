/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch was given: values, and which allocations its pointers led to. */
#include "base/util.h"
#include "read.h"
#include <stdlib.h>
#include <string.h>

/* Bytes in hexadecimal, up to 8. False: it is not that many. */
static bool read_word(const char **s, unsigned bytes, uint64_t *v)
{
	uint8_t byte[8] = {0};

	for (unsigned i = 0; i < bytes; i++, *s += 2) {
		char two[3] = {(*s)[0], (*s)[0] ? (*s)[1] : '\0', '\0'}, *end;

		byte[i] = (uint8_t)strtoul(two, &end, 16);
		if (!two[1] || *end || two[0] == '+' || two[0] == '-' || two[0] == ' ')
			return false;
	}
	memcpy(v, byte, 8);
	return true;
}

/* "SHARED;" and a dot for each pointer, or the digits of a word. */
static bool read_values(const char *s, struct fm_kill_launch *l)
{
	char *rest;

	l->shared = (uint32_t)strtoul(s, &rest, 10);
	if (rest == s || *rest++ != ';')
		return false;
	for (s = rest; *s; l->bytes += 8) {
		unsigned i = l->bytes / 8, digits = (unsigned)strcspn(s, ".");

		if (i == FM_KILL_WORDS)
			return false;
		if (*s == '.') {
			l->at |= UINT64_C(1) << i;
			l->n++;
			s++;
			continue;
		}
		digits = FM_MIN(digits, 16u);
		if (digits % 2 || !read_word(&s, digits / 2, &l->word[i]))
			return false;
		if (digits < 16) {
			l->bytes += digits / 2;
			return !*s;
		}
	}
	return true;
}

static void widen(const struct fm_idem_span *s, const struct idem_alloc *a, uint64_t first,
	int64_t *from, int64_t *to)
{
	int64_t begin, end;

	if (s->from >= a->base + a->size || s->to <= a->base)
		return;
	begin = (int64_t)(FM_MAX(s->from, a->base) - first);
	end = (int64_t)(FM_MIN(s->to, a->base + a->size) - first);
	if (*from < *to) {
		begin = FM_MIN(*from, begin);
		end = FM_MAX(*to, end);
	}
	*from = begin;
	*to = end;
}

/* Around the first pointer into that allocation. */
static void measure(const struct idem_reader *r, const struct fm_idem_op *o,
	const struct idem_alloc *a, uint64_t first, struct fm_kill_group *g)
{
	const struct fm_idem_span *read = r->span, *written = read + o->n[FM_IDEM_R];

	for (uint32_t i = 0; i < o->n[FM_IDEM_W]; i++)
		widen(&written[i], a, first, &g->wfrom, &g->wto);
	g->from = g->wfrom;
	g->to = g->wto;
	for (uint32_t i = 0; i < o->n[FM_IDEM_R]; i++)
		widen(&read[i], a, first, &g->from, &g->to);
}

/* All that is touched must be of an allocation that a pointer leads to. */
static bool is_covered(const struct idem_reader *r, const struct fm_idem_op *o,
	const struct idem_alloc *const *of, unsigned n)
{
	for (uint32_t i = 0; i < o->n[FM_IDEM_R] + o->n[FM_IDEM_W]; i++) {
		unsigned k = 0;

		while (k < n && (r->span[i].from < of[k]->base ||
					r->span[i].to > of[k]->base + of[k]->size))
			k++;
		if (k == n)
			return false;
	}
	return true;
}

static bool read_pointers(const struct idem_reader *r, const json_t *list,
	const struct fm_idem_op *o, struct fm_kill_launch *l)
{
	const struct idem_alloc *of[FM_KILL_WORDS];
	uint64_t first[FM_KILL_WORDS];

	for (unsigned i = 0; i < l->n; i++) {
		const json_t *one = json_array_get(list, i);
		const struct idem_alloc *a =
			idem_alloc_find(r, json_integer_value(json_array_get(one, 0)));
		json_int_t at = json_integer_value(json_array_get(one, 1));
		unsigned k = 0;

		if (json_array_size(one) != 2 || !a || a->freed || at < 0 ||
			(uint64_t)at >= a->size)
			return false;
		while (k < l->n_groups && of[k] != a)
			k++;
		if (k == l->n_groups) {
			of[k] = a;
			first[k] = a->base + (uint64_t)at;
			measure(r, o, a, first[k], &l->group[k]);
			l->n_groups++;
		}
		l->pointer[i] = (struct fm_kill_pointer){
			(int64_t)(a->base + (uint64_t)at - first[k]), (uint8_t)k};
	}
	return is_covered(r, o, of, l->n_groups);
}

bool idem_read_launch(const struct idem_reader *r, const json_t *root, const struct fm_idem_op *o,
	const struct fm_idem_kernel *k, char text[FM_KILL_CHARS])
{
	const char *scalars = json_string_value(json_object_get(root, "scalars"));
	const json_t *list = json_object_get(root, "args");
	uint64_t word[FM_KILL_WORDS] = {0};
	struct fm_kill_pointer pointer[FM_KILL_WORDS] = {0};
	struct fm_kill_group group[FM_KILL_WORDS] = {0};
	struct fm_kill_launch l = {
		.name = r->t->names + k->name, .word = word, .pointer = pointer, .group = group};

	if (!scalars || !json_is_array(list) || strlen(r->t->names + k->hash) != FM_KILL_HASH - 1)
		return false;
	memcpy(l.hash, r->t->names + k->hash, FM_KILL_HASH);
	memcpy(l.grid, k->grid, sizeof(l.grid));
	memcpy(l.block, k->block, sizeof(l.block));
	return read_values(scalars, &l) && json_array_size(list) == l.n &&
	       read_pointers(r, list, o, &l) && fm_kill_print(&l, text);
}
