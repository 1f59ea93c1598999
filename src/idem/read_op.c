/* SPDX-License-Identifier: Apache-2.0 */
/* A line that is an operation. */
#include "base/util.h"
#include "read.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int bad_span(struct idem_reader *r, const char *key, size_t i, const char *what)
{
	fm_json_at(&r->j, "%s[%zu]", key, i);
	return fm_json_bad(&r->j, NULL, "%s", what);
}

/* [allocation, from, to). */
static int read_span(struct idem_reader *r, const char *key, size_t i, const json_t *one,
	struct fm_idem_span *s, bool *visible)
{
	int64_t part[3];
	const struct idem_alloc *a;

	if (json_array_size(one) != 3)
		return bad_span(r, key, i, "is not [allocation, from, to]");
	for (unsigned n = 0; n < 3; n++) {
		const json_t *value = json_array_get(one, n);

		if (!json_is_integer(value) || json_integer_value(value) < 0)
			return bad_span(r, key, i, "has what is no number from 0 to 2^63 - 1");
		part[n] = json_integer_value(value);
	}
	a = idem_alloc_find(r, part[0]);
	if (!a)
		return bad_span(r, key, i, "is of an allocation that is not there");
	if (a->freed)
		return bad_span(r, key, i, "is of an allocation that has been freed");
	if (part[1] >= part[2])
		return bad_span(r, key, i, "ends where it begins, or in front of that");
	if ((uint64_t)part[2] > a->size)
		return bad_span(r, key, i, "reaches beyond its allocation");
	*s = (struct fm_idem_span){a->base + (uint64_t)part[1], a->base + (uint64_t)part[2]};
	*visible |= a->visible;
	return 0;
}

/* Even for n = 0 r->span points to something: nothing may be added to a null pointer. */
static int span_room(struct idem_reader *r, size_t n)
{
	struct fm_idem_span *more;
	size_t room = FM_MAX(2 * (r->n_span + n), (size_t)64);

	if (r->span && r->n_span + n <= r->span_room)
		return 0;
	more = reallocarray(r->span, room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	r->span = more;
	r->span_room = room;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct fm_idem_span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* Behind what r->span has. How many, or negative. */
static int64_t read_set(struct idem_reader *r, const json_t *root, const char *key, bool *visible)
{
	const json_t *list = json_object_get(root, key), *one;
	struct fm_idem_span *s;
	bool rising = true;
	size_t i, n = json_array_size(list);

	if (list && !json_is_array(list))
		return fm_json_bad(&r->j, key, "is no array");
	if (span_room(r, n))
		return -ENOMEM;
	s = r->span + r->n_span;
	json_array_foreach (list, i, one) {
		int rc = read_span(r, key, i, one, &s[i], visible);

		if (rc)
			return rc;
		rising &= !i || s[i - 1].from <= s[i].from;
	}
	if (!rising)
		qsort(s, n, sizeof(*s), by_start);
	for (i = 1; i < n; i++)
		if (s[i].from < s[i - 1].to)
			return fm_json_bad(&r->j, key, "has intervals that overlap");
	return (int64_t)fm_idem_set_make(s, n);
}

/* --- what they are together --- */

enum { R, W, K, B, A, SETS };
static const char *const names[SETS] = {"r", "w", "k", "b", "a"};

static int put_set(struct idem_reader *r, const struct fm_idem_set *s, uint32_t *n)
{
	if (span_room(r, s->n))
		return -ENOMEM;
	if (s->n)
		memcpy(r->span + r->n_span, s->span, s->n * sizeof(*s->span));
	r->n_span += s->n;
	*n = (uint32_t)s->n;
	return 0;
}

/* Atomics read and write. Copies and fills write first what they do not read, unless the trace
 * says what. */
static int complete(struct idem_reader *r, struct fm_idem_op *o, const size_t n[SETS],
	const struct fm_idem_span *const s[SETS], bool all_first)
{
	struct fm_idem_set set[FM_IDEM_SETS] = {0};
	int rc = fm_idem_set_union(&set[R], s[R], n[R], s[A], n[A]);

	rc = rc ? rc : fm_idem_set_union(&set[W], s[W], n[W], s[A], n[A]);
	rc = rc ? rc : fm_idem_set_union(&set[B], s[B], n[B], NULL, 0);
	if (all_first)
		rc = rc ? rc
			: fm_idem_set_minus(&set[K], set[W].span, set[W].n, set[R].span, set[R].n);
	else
		rc = rc ? rc : fm_idem_set_union(&set[K], s[K], n[K], NULL, 0);
	r->n_span = 0;
	for (unsigned i = 0; i < FM_IDEM_SETS; i++) {
		rc = rc ? rc : put_set(r, &set[i], &o->n[i]);
		fm_idem_set_free(&set[i]);
	}
	return rc;
}

static int check_sets(const struct idem_reader *r, const struct fm_idem_op *o)
{
	const struct fm_idem_span *read = r->span, *w = read + o->n[R], *first = w + o->n[W];

	if (!fm_idem_set_within(first, o->n[K], w, o->n[W]))
		return fm_json_bad(&r->j, "k", "has bytes that are not in w");
	if (fm_idem_set_meet(first, o->n[K], read, o->n[R]))
		return fm_json_bad(&r->j, "k", "has bytes that are in r, or in a");
	return 0;
}

static int read_sets(struct idem_reader *r, const json_t *root, struct fm_idem_op *o)
{
	const struct fm_idem_span *s[SETS];
	size_t n[SETS], at[SETS];
	bool visible = false, copies = o->kind != FM_IDEM_KERNEL;

	r->n_span = 0;
	for (unsigned i = 0; i < SETS; i++) {
		int64_t is = read_set(r, root, names[i], &visible);

		if (is < 0)
			return (int)is;
		at[i] = r->n_span;
		n[i] = (size_t)is;
		r->n_span += n[i];
	}
	for (unsigned i = 0; i < SETS; i++) {
		s[i] = r->span + at[i];
		if (i < FM_IDEM_SETS)
			o->n[i] = (uint32_t)n[i];
	}
	copies = copies && !json_object_get(root, "k");
	o->flags |= (visible ? FM_IDEM_VISIBLE : 0) | (n[A] ? FM_IDEM_ATOMICS : 0);
	if (n[A] || copies) {
		int rc = complete(r, o, n, s, copies);

		if (rc)
			return rc;
	}
	return check_sets(r, o);
}

/* --- the rest of it --- */

static int read_kind(struct idem_reader *r, const json_t *root, struct fm_idem_op *o)
{
	const char *kind = json_string_value(json_object_get(root, "kind"));

	for (unsigned i = 0; kind && i < FM_IDEM_KINDS; i++) {
		if (strcmp(kind, fm_idem_kind_name(i)))
			continue;
		o->kind = (uint8_t)i;
		return 0;
	}
	return kind ? fm_json_bad(&r->j, "kind", "is '%.40s', which is none", kind)
		    : fm_json_bad(&r->j, "kind", "is missing, or no text");
}

static int read_flags(struct idem_reader *r, const json_t *root, struct fm_idem_op *o)
{
	static const struct {
		const char *name;
		uint8_t flag;
	} known[] = {{"det", 0}, {"coarse", 0}, {"dynamic", FM_IDEM_DYNAMIC},
		{"approx", FM_IDEM_APPROX}, {"visible", FM_IDEM_VISIBLE}};
	const json_t *list = json_object_get(root, "flags"), *one;
	size_t i;

	if (list && !json_is_array(list))
		return fm_json_bad(&r->j, "flags", "is no array");
	json_array_foreach (list, i, one) {
		const char *name = json_string_value(one);
		size_t k = 0;

		while (k < FM_ARRAY_LEN(known) && name && strcmp(name, known[k].name))
			k++;
		if (!name || k == FM_ARRAY_LEN(known))
			return fm_json_bad(&r->j, "flags", "has '%.40s', which is none",
				name ? name : "a value that is no text");
		o->flags |= known[k].flag;
	}
	return 0;
}

static int read_queue(struct idem_reader *r, const json_t *root, struct fm_idem_op *o)
{
	struct fm_idem_trace *t = r->t;
	int64_t number = 0;
	unsigned i = 0, have = r->queues;
	int rc = fm_json_whole(&r->j, root, "queue", 0, INT64_MAX, false, &number);

	while (!rc && i < have && t->queue[i] != number)
		i++;
	if (!rc && i == FM_IDEM_QUEUES)
		rc = fm_json_bad(&r->j, "queue", "is one of more than %u", FM_IDEM_QUEUES);
	if (rc)
		return rc;
	if (i == have) {
		t->queue[i] = number;
		r->queues++;
	}
	o->queue = (uint16_t)i;
	return 0;
}

static int read_number(struct idem_reader *r, const json_t *root, struct fm_idem_op *o)
{
	const struct fm_idem_trace *t = r->t;
	int rc = fm_json_whole(&r->j, root, "op", 0, INT64_MAX, true, &o->op);

	if (!rc && t->n_ops && o->op <= t->op[t->n_ops - 1].op)
		rc = fm_json_bad(&r->j, "op", "is not above that of the line in front of it");
	o->line = r->line;
	return rc;
}

static void drop_freed(struct idem_reader *r, const json_t *root)
{
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(root, "w"), i, one) {
		int64_t id = json_integer_value(json_array_get(one, 0));

		if (!idem_alloc_find(r, id)->freed)
			idem_alloc_drop(r, id);
	}
}

int idem_read_op(struct idem_reader *r, const json_t *root)
{
	struct fm_idem_op o = {0};
	int rc = read_number(r, root, &o);

	rc = rc ? rc : read_queue(r, root, &o);
	rc = rc ? rc : read_kind(r, root, &o);
	rc = rc ? rc : read_flags(r, root, &o);
	rc = rc ? rc : read_sets(r, root, &o);
	if (!rc && o.kind == FM_IDEM_KERNEL)
		rc = idem_read_kernel(r, root, &o);
	rc = rc ? rc : fm_idem_add(r->t, &o, r->span);
	if (rc == -E2BIG)
		return fm_json_bad(&r->j, NULL, "is too much: there are %u operations, or %u spans",
			FM_IDEM_OPS, FM_IDEM_SPANS);
	if (!rc && o.kind == FM_IDEM_FREE)
		drop_freed(r, root);
	return rc;
}
