/* SPDX-License-Identifier: Apache-2.0 */
/* As in the paper: a group grows backwards from each operation until it may run again. */
#include "idem.h"

struct group {
	struct fm_idem_set e, w; /* read first, and written */
	struct fm_idem_set some;
};

static void swap(struct fm_idem_set *a, struct fm_idem_set *b)
{
	struct fm_idem_set t = *a;

	*a = *b;
	*b = t;
}

/* E = (E \ K) | R, and W = W | W_i, with the operation in front. */
static int put_in_front(struct group *g, const struct fm_idem_trace *t, const struct fm_idem_op *o)
{
	int rc = fm_idem_set_minus(
		&g->some, g->e.span, g->e.n, fm_idem_spans(t, o, FM_IDEM_K), o->n[FM_IDEM_K]);

	rc = rc ? rc
		: fm_idem_set_union(&g->e, g->some.span, g->some.n, fm_idem_spans(t, o, FM_IDEM_R),
			  o->n[FM_IDEM_R]);
	rc = rc ? rc
		: fm_idem_set_union(&g->some, g->w.span, g->w.n, fm_idem_spans(t, o, FM_IDEM_W),
			  o->n[FM_IDEM_W]);
	if (!rc)
		swap(&g->some, &g->w);
	return rc;
}

static int grow_group(struct group *g, const struct fm_idem_trace *t, const uint32_t *op, size_t k,
	int32_t *start)
{
	*start = FM_IDEM_NO_GROUP;
	g->e.n = g->w.n = 0;
	for (size_t i = k + 1; i-- > 0 && k - i < FM_IDEM_GROUP;) {
		const struct fm_idem_op *o = &t->op[op[i]];
		int rc;

		if (fm_idem_bars(o)) {
			*start = i == k ? FM_IDEM_NOT_AGAIN : *start;
			return 0;
		}
		rc = put_in_front(g, t, o);
		if (rc)
			return rc;
		if (!fm_idem_set_meet(g->e.span, g->e.n, g->w.span, g->w.n)) {
			*start = (int32_t)op[i];
			return 0;
		}
	}
	return 0;
}

int fm_idem_greedy(const struct fm_idem_trace *t, const uint32_t *op, size_t n, int32_t *start)
{
	struct group g = {0};
	int rc = 0;

	for (size_t k = 0; k < n && !rc; k++)
		rc = grow_group(&g, t, op, k, &start[op[k]]);
	fm_idem_set_free(&g.e);
	fm_idem_set_free(&g.w);
	fm_idem_set_free(&g.some);
	return rc;
}
