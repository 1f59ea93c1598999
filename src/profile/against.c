/* SPDX-License-Identifier: Apache-2.0 */
#include "against.h"
#include "base/util.h"
#include <errno.h>
#include <string.h>

#define CHUNK ((int64_t)2 << 20)

const char *fm_against_name(enum fm_against_form form)
{
	static const char *const names[] = {
#define NAME(id, name) name,
		FM_AGAINST_MAP(NAME)
#undef NAME
	};

	return form < FM_AGAINST_FORMS ? names[form] : "?";
}

enum fm_against_form fm_against_form(const struct fm_kernel_templates *of)
{
	static const enum fm_against_form as[FM_FORMS] = {[FM_FORM_ANY] = FM_AGAINST_ANY,
		[FM_FORM_MEMO] = FM_AGAINST_MEMO,
		[FM_FORM_STRIDED] = FM_AGAINST_STRIDED,
		[FM_FORM_LINEAR] = FM_AGAINST_LINEAR,
		[FM_FORM_BOX] = FM_AGAINST_BOX,
		[FM_FORM_FIXED] = FM_AGAINST_FIXED};
	enum fm_against_form form = FM_AGAINST_NOTHING;

	if (!of)
		return FM_AGAINST_UNKNOWN;
	for (unsigned i = 0; i < of->n; i++)
		form = FM_MIN(form, as[of->pointer[i].form]);
	return form;
}

/* --- a launch in chunks --- */

/* An allocation behind a pointer. Its chunks are numbered from `chunk' on; pointers to the same
 * allocation share them. */
struct block {
	uint64_t at;
	int64_t before, size, chunk;
};
struct comparison {
	const struct fm_profile_launch *l;
	struct block block[FM_PROFILE_POINTERS];
	struct fm_extents touched, foretold; /* of chunks */
};

/* The records are anyone's: sizes are bounded as they are read, and their sums fit. */
static void number_chunks(struct comparison *c)
{
	const struct fm_record_pointer *p = c->l->pointer;
	int64_t next = 0;

	for (unsigned i = 0; i < c->l->head->n; i++) {
		struct block *b = &c->block[i];
		unsigned k = 0;

		*b = (struct block){.before = (int64_t)p[i].before,
			.size = (int64_t)(p[i].before + p[i].after),
			.chunk = next};
		memcpy(&b->at, (const char *)c->l->params + p[i].at,
			FM_MIN(8u, c->l->head->size - p[i].at));
		b->at -= p[i].before;
		while (k < i && (p[i].map || p[k].map || c->block[k].at != b->at ||
					c->block[k].size != b->size))
			k++;
		if (k < i)
			b->chunk = c->block[k].chunk;
		else
			next += b->size / CHUNK + 1;
	}
}

/* False: part of it is outside of the allocation, and does not count. */
static bool add_span(
	struct fm_extents *e, const struct block *b, int64_t span_from, int64_t span_to, int *rc)
{
	int64_t from = FM_MAX(span_from, -b->before), to = FM_MIN(span_to, b->size - b->before);

	if (from < to && !*rc)
		*rc = fm_extents_add(e, (struct fm_span){b->chunk + (b->before + from) / CHUNK,
						b->chunk + (b->before + to - 1) / CHUNK + 1});
	return from == span_from && to == span_to;
}

static int add_touched(struct comparison *c)
{
	const struct fm_record_span *s = c->l->span;
	int rc = 0;

	for (unsigned i = 0; i < c->l->head->n; i++)
		for (unsigned k = 0; k < c->l->pointer[i].n; k++, s++)
			add_span(&c->touched, &c->block[i], s->from, s->to, &rc);
	return rc;
}

static int add_whole(struct comparison *c, unsigned i)
{
	const struct block *b = &c->block[i];
	int rc = 0;

	add_span(&c->foretold, b, -b->before, b->size - b->before, &rc);
	return rc;
}

/* NULL: no template says anything of it. */
static const struct fm_template *template_of(const struct fm_kernel_templates *of, uint32_t at)
{
	for (unsigned i = 0; of && i < of->n; i++)
		if (of->pointer[i].at == at)
			return of->pointer[i].form == FM_FORM_ANY ||
					       of->pointer[i].form == FM_FORM_BOX
				       ? NULL
				       : &of->pointer[i];
	return NULL;
}

static int add_foretold(struct comparison *c, const struct fm_kernel_templates *of, bool *within)
{
	const struct fm_record_launch *h = c->l->head;
	const struct fm_launch launch = {h->grid, h->block, c->l->params, h->size};
	uint64_t key = of ? fm_launch_key(of, &launch) : 0;
	const struct fm_record_span *s = c->l->span;
	struct fm_span span[FM_TEMPLATE_SPANS];
	int rc = 0;

	for (unsigned i = 0; i < h->n && !rc; s += c->l->pointer[i].n, i++) {
		const struct fm_template *t = template_of(of, c->l->pointer[i].at);
		int n = t ? fm_template_spans(t, &launch, key, span) : -1;

		if (c->l->pointer[i].map)
			for (unsigned k = 0; k < c->l->pointer[i].n; k++)
				add_span(&c->foretold, &c->block[i], s[k].from, s[k].to, &rc);
		else if (n < 0)
			rc = add_whole(c, i);
		for (int k = 0; k < n && !c->l->pointer[i].map; k++)
			*within &=
				add_span(&c->foretold, &c->block[i], span[k].from, span[k].to, &rc);
	}
	return rc;
}

/* Templates that lead outside of an allocation are not believed: all of it is named. */
static int foretell(struct comparison *c, const struct fm_kernel_templates *of)
{
	bool within = true;
	int rc = add_foretold(c, of && of->size == c->l->head->size ? of : NULL, &within);

	for (unsigned i = 0; i < c->l->head->n && !rc && !within; i++)
		if (!c->l->pointer[i].map)
			rc = add_whole(c, i);
	return rc;
}

static int add_sums(struct fm_against_sums *sums, struct comparison *c)
{
	uint64_t touched = fm_extents_sum(&c->touched), foretold = fm_extents_sum(&c->foretold),
		 all;

	for (size_t i = 0; i < c->foretold.n; i++)
		if (fm_extents_add(&c->touched, c->foretold.span[i]))
			return -ENOMEM;
	all = fm_extents_sum(&c->touched);
	sums->launches++;
	sums->touched = fm_add_sat(sums->touched, touched);
	sums->foretold = fm_add_sat(sums->foretold, foretold);
	sums->missed = fm_add_sat(sums->missed, all - foretold);
	sums->vain = fm_add_sat(sums->vain, all - touched);
	return 0;
}

int fm_against_add(struct fm_against_sums *sums, const struct fm_profile_launch *l,
	const struct fm_kernel_templates *of)
{
	struct comparison c = {.l = l};
	int rc;

	number_chunks(&c);
	rc = add_touched(&c);
	rc = rc ? rc : foretell(&c, of);
	rc = rc ? rc : add_sums(sums, &c);
	fm_extents_free(&c.touched);
	fm_extents_free(&c.foretold);
	return rc;
}
