/* SPDX-License-Identifier: Apache-2.0 */
/* The form of each pointer of a kernel: the first of them that all launches agree with. */
#include "base/util.h"
#include "fit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- which words are pointers --- */

static int by_offset(const void *left, const void *right)
{
	const struct fm_template *a = left, *b = right;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return (b->form == FM_FORM_BOX) - (a->form == FM_FORM_BOX);
}

/* Those of all launches, each once. What is within a tensor map is no pointer. -E2BIG. */
static int find_pointers(const struct fm_fit_kernel *k, struct fm_kernel_templates *out)
{
	unsigned all = 0, n = 0;
	uint32_t end = 0;

	for (unsigned i = 0; i < k->n; i++)
		all += k->seen[i]->n;
	out->pointer = calloc(all + 1, sizeof(*out->pointer));
	if (!out->pointer)
		return -ENOMEM;
	for (unsigned i = 0; i < k->n; i++)
		for (unsigned p = 0; p < k->seen[i]->n; p++)
			out->pointer[n++] = (struct fm_template){.at = k->seen[i]->pointer[p].at,
				.form = k->seen[i]->pointer[p].map ? FM_FORM_BOX : FM_FORM_ANY};
	if (n)
		qsort(out->pointer, n, sizeof(*out->pointer), by_offset);
	for (unsigned i = 0; i < n; i++) {
		if (out->n && out->pointer[i].at < end)
			continue;
		end = out->pointer[i].at + fm_pointer_bytes(out->pointer[i].form);
		out->pointer[out->n++] = out->pointer[i];
	}
	return out->n > FM_TEMPLATE_POINTERS ? -E2BIG : 0;
}

/* A word that is a pointer in one launch says nothing in any. */
static void clear_pointers(const struct fm_fit_kernel *k, const struct fm_kernel_templates *of)
{
	for (unsigned i = 0; i < k->n; i++)
		for (unsigned p = 0; p < of->n; p++)
			memset(k->seen[i]->params + of->pointer[p].at, 0,
				fm_pointer_bytes(of->pointer[p].form));
}

/* NULL: it was no pointer in this launch. */
static const struct fm_fit_pointer *seen_of(const struct fm_fit_seen *o, uint32_t at)
{
	for (unsigned i = 0; i < o->n; i++)
		if (o->pointer[i].at == at)
			return &o->pointer[i];
	return NULL;
}

/* --- numbers --- */

/* What was touched through one pointer, as numbers: a row for each launch in which that was
 * anything. Launches in which it was nothing have a size of 0, from anywhere. */
struct rows {
	unsigned n, all;
	uint32_t *row, *all_row;
	int64_t *from, *bytes, *step, *count, *all_bytes, *hull;
	uint32_t *step_row; /* of more than one piece */
	unsigned steps;
	bool regular, single;
};

static void free_rows(struct rows *r)
{
	free(r->row);
	free(r->all_row);
	free(r->step_row);
	free(r->from);
	free(r->bytes);
	free(r->step);
	free(r->count);
	free(r->all_bytes);
	free(r->hull);
}

static bool make_rows(struct rows *r, unsigned n)
{
	*r = (struct rows){.regular = true, .single = true};
	r->row = calloc(n + 1, sizeof(*r->row));
	r->all_row = calloc(n + 1, sizeof(*r->row));
	r->step_row = calloc(n + 1, sizeof(*r->row));
	r->from = calloc(n + 1, sizeof(*r->from));
	r->bytes = calloc(n + 1, sizeof(*r->from));
	r->step = calloc(n + 1, sizeof(*r->from));
	r->count = calloc(n + 1, sizeof(*r->from));
	r->all_bytes = calloc(n + 1, sizeof(*r->from));
	r->hull = calloc(n + 1, sizeof(*r->from));
	return r->row && r->all_row && r->step_row && r->from && r->bytes && r->step && r->count &&
	       r->all_bytes && r->hull;
}

/* Pieces of one size, one distance apart? Their sums fit: the ends of spans do. */
static bool is_regular(const struct fm_fit_pointer *p)
{
	int64_t bytes = p->span[0].to - p->span[0].from;

	for (unsigned i = 1; i < p->n; i++)
		if (p->span[i].to - p->span[i].from != bytes ||
			p->span[i].from - p->span[i - 1].from != p->span[1].from - p->span[0].from)
			return false;
	return true;
}

static void add_row(struct rows *r, uint32_t row, const struct fm_fit_pointer *p)
{
	int64_t hull = p && p->n ? p->span[p->n - 1].to - p->span[0].from : 0;

	r->all_row[r->all] = row;
	r->count[r->all] = p ? p->n : 0;
	r->all_bytes[r->all++] = hull;
	if (!hull)
		return;
	r->row[r->n] = row;
	r->from[r->n] = p->span[0].from;
	r->bytes[r->n] = p->span[0].to - p->span[0].from;
	r->hull[r->n++] = hull;
	r->regular &= is_regular(p);
	if (p->n < 2)
		return;
	r->single = false;
	r->step_row[r->steps] = row;
	r->step[r->steps++] = p->span[1].from - p->span[0].from;
}

/* --- forms --- */

static bool fit(const struct fm_fit_scalars *s, const uint32_t *row, const int64_t *y, unsigned n,
	struct fm_linear *out)
{
	return fm_fit_linear(s, &(struct fm_fit_goal){row, y, n}, out);
}

/* One piece, or the hull of all. Where nothing was ever touched it may begin anywhere. */
static bool fit_hull(const struct fm_fit_scalars *s, const struct rows *r, struct fm_template *t)
{
	t->from = (struct fm_linear){.den = 1};
	if (!fit(s, r->all_row, r->all_bytes, r->all, &t->bytes) ||
		(r->n && !fit(s, r->row, r->from, r->n, &t->from)))
		return false;
	t->form = t->from.n || t->bytes.n ? FM_FORM_LINEAR : FM_FORM_FIXED;
	return true;
}

static bool fit_strided(const struct fm_fit_scalars *s, const struct rows *r, struct fm_template *t)
{
	if (r->single || !r->regular || !fit(s, r->row, r->from, r->n, &t->from) ||
		!fit(s, r->row, r->bytes, r->n, &t->bytes) ||
		!fit(s, r->step_row, r->step, r->steps, &t->step) ||
		!fit(s, r->all_row, r->count, r->all, &t->count))
		return false;
	t->form = FM_FORM_STRIDED;
	return true;
}

static int by_key(const void *left, const void *right)
{
	const struct fm_memo *a = left, *b = right;

	return (a->key > b->key) - (a->key < b->key);
}

static bool same_spans(const struct fm_memo *m, const struct fm_fit_pointer *p)
{
	return m->n == (p ? p->n : 0) &&
	       (!m->n || !memcmp(m->span, p->span, m->n * sizeof(*p->span)));
}

static bool set_memo(struct fm_memo *m, uint64_t key, const struct fm_fit_pointer *p)
{
	*m = (struct fm_memo){.key = key, .n = p ? p->n : 0};
	m->span = malloc((m->n + 1) * sizeof(*m->span));
	if (m->span && m->n)
		memcpy(m->span, p->span, m->n * sizeof(*m->span));
	return m->span != NULL;
}

/* A launch with these scalars whose spans are others: then neither is foretold. */
static bool contradicts(
	const struct fm_fit_kernel *k, const struct fm_fit_scalars *s, unsigned i, uint32_t at)
{
	const struct fm_fit_pointer *p = seen_of(k->seen[i], at);
	const struct fm_memo mine = {.n = p ? p->n : 0, .span = p ? p->span : NULL};

	if (mine.n > FM_TEMPLATE_SPANS)
		return true;
	for (unsigned o = 0; o < k->n; o++)
		if (s->set[o] == s->set[i] && !same_spans(&mine, seen_of(k->seen[o], at)))
			return true;
	return false;
}

static uint64_t key_of(const struct fm_fit_kernel *k, const struct fm_fit_seen *o,
	const struct fm_kernel_templates *of)
{
	const struct fm_launch l = {o->grid, o->block, o->params, k->size};

	return fm_key_of(&l, of->pointer, of->n);
}

/* -ENOMEM; or 0, and the form is memo if there are not too many. */
static int fit_memo(const struct fm_fit_kernel *k, const struct fm_fit_scalars *s,
	const struct fm_kernel_templates *of, struct fm_template *t)
{
	if (s->sets > FM_TEMPLATE_MEMOS)
		return 0;
	t->memo = calloc(s->sets + 1, sizeof(*t->memo));
	if (!t->memo)
		return -ENOMEM;
	for (unsigned i = 0; i < k->n; i++) {
		bool known = contradicts(k, s, i, t->at);

		for (unsigned o = 0; o < i && !known; o++)
			known = s->set[o] == s->set[i];
		if (known)
			continue;
		if (!set_memo(
			    &t->memo[t->n], key_of(k, k->seen[i], of), seen_of(k->seen[i], t->at)))
			return -ENOMEM;
		t->n++;
	}
	if (t->n)
		qsort(t->memo, t->n, sizeof(*t->memo), by_key);
	t->form = t->n ? FM_FORM_MEMO : FM_FORM_ANY;
	return 0;
}

static int fit_pointer(const struct fm_fit_kernel *k, const struct fm_fit_scalars *s,
	const struct fm_kernel_templates *of, struct fm_template *t)
{
	struct rows r;
	int rc = 0;

	if (t->form == FM_FORM_BOX)
		return 0;
	if (!make_rows(&r, k->n))
		rc = -ENOMEM;
	for (unsigned i = 0; i < k->n && !rc; i++)
		add_row(&r, i, seen_of(k->seen[i], t->at));
	if (!rc && !fit_strided(s, &r, t) && !fit_hull(s, &r, t))
		rc = fit_memo(k, s, of, t);
	free_rows(&r);
	return rc;
}

/* Launches for which a pointer has no template that holds. */
static void count_failed(const struct fm_fit_kernel *k, const struct fm_fit_scalars *s,
	struct fm_kernel_templates *out)
{
	for (unsigned i = 0; i < k->n; i++) {
		bool failed = false;

		for (unsigned p = 0; p < out->n; p++)
			failed |= out->pointer[p].form == FM_FORM_ANY ||
				  (out->pointer[p].form == FM_FORM_MEMO &&
					  contradicts(k, s, i, out->pointer[p].at));
		out->failed += failed ? k->seen[i]->times : 0;
	}
}

int fm_fit_kernel(const struct fm_fit_kernel *k, struct fm_kernel_templates *out)
{
	struct fm_fit_scalars s = {0};
	int rc;

	*out = (struct fm_kernel_templates){
		.name = strdup(k->name), .size = k->size, .launches = k->launches};
	rc = out->name ? find_pointers(k, out) : -ENOMEM;
	if (rc == -E2BIG) { /* too many to be of use: none is foretold */
		out->n = 0;
		out->failed = out->launches;
		return 0;
	}
	if (!rc)
		clear_pointers(k, out);
	rc = rc ? rc : fm_fit_scalars_init(&s, k, out->pointer, out->n);
	for (unsigned i = 0; i < out->n && !rc; i++)
		rc = fit_pointer(k, &s, out, &out->pointer[i]);
	if (!rc)
		count_failed(k, &s, out);
	fm_fit_scalars_free(&s);
	if (rc)
		fm_kernel_templates_free(out);
	return rc;
}
