/* SPDX-License-Identifier: Apache-2.0 */
/* A trace in memory, and which of its bytes are shared by queues. */
#include "base/util.h"
#include "idem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *fm_idem_kind_name(enum fm_idem_kind kind)
{
	static const char *const names[] = {
#define NAME(id, name, again) [id] = name,
		FM_IDEM_KIND_MAP(NAME)
#undef NAME
	};

	return (unsigned)kind < FM_IDEM_KINDS ? names[kind] : "?";
}

bool fm_idem_bars(const struct fm_idem_op *o)
{
	static const bool again[] = {
#define AGAIN(id, name, again) [id] = again,
		FM_IDEM_KIND_MAP(AGAIN)
#undef AGAIN
	};
	const unsigned bars = FM_IDEM_DYNAMIC | FM_IDEM_APPROX | FM_IDEM_VISIBLE | FM_IDEM_SHARED;

	return !again[o->kind] || (o->flags & bars);
}

void fm_idem_trace_free(struct fm_idem_trace *t)
{
	free(t->op);
	free(t->span);
	free(t->kernel);
	free(t->names);
	*t = (struct fm_idem_trace){0};
}

static int grow(void *array, size_t *room, size_t need, size_t size, size_t most)
{
	void *more, **at = array;
	size_t n = FM_MIN(FM_MAX(*room + *room / 2, (size_t)1024), most);

	if (need <= *room)
		return 0;
	n = FM_MAX(n, need);
	if (n > most)
		return -E2BIG;
	more = reallocarray(*at, n, size);
	if (!more)
		return -ENOMEM;
	*at = more;
	*room = n;
	return 0;
}

int fm_idem_add(
	struct fm_idem_trace *t, const struct fm_idem_op *o, const struct fm_idem_span *spans)
{
	size_t n = 0;
	int rc;

	for (unsigned i = 0; i < FM_IDEM_SETS; i++)
		n += o->n[i];
	rc = grow(&t->op, &t->ops_room, t->n_ops + 1, sizeof(*t->op), FM_IDEM_OPS);
	/* One at least: where an operation is, t->span is no null pointer. */
	rc = rc ? rc
		: grow(&t->span, &t->spans_room, FM_MAX(t->n_spans + n, (size_t)1),
			  sizeof(*t->span), FM_IDEM_SPANS);
	if (rc)
		return rc;
	t->op[t->n_ops] = *o;
	t->op[t->n_ops++].first = t->n_spans;
	if (n)
		memcpy(t->span + t->n_spans, spans, n * sizeof(*spans));
	t->n_spans += n;
	t->n_queues = FM_MAX(t->n_queues, o->queue + 1u);
	return 0;
}

/* --- queues --- */

/* What a queue reads or writes, or only what it writes; as a set. */
static int bytes_of(
	const struct fm_idem_trace *t, unsigned queue, bool written, struct fm_idem_set *to)
{
	to->n = 0;
	for (size_t i = 0; i < t->n_ops; i++) {
		const struct fm_idem_op *o = &t->op[i];
		size_t n = o->n[FM_IDEM_W] + (written ? 0 : o->n[FM_IDEM_R]);

		if (o->queue != queue || !n || o->kind == FM_IDEM_FREE)
			continue;
		if (to->n + n > to->room) /* often they are the same again */
			to->n = fm_idem_set_make(to->span, to->n);
		if (to->n + n > to->room / 2 &&
			grow(&to->span, &to->room, 2 * (to->n + n), sizeof(*to->span), SIZE_MAX))
			return -ENOMEM;
		memcpy(to->span + to->n, fm_idem_spans(t, o, written ? FM_IDEM_W : FM_IDEM_R),
			n * sizeof(*to->span));
		to->n += n;
	}
	to->n = fm_idem_set_make(to->span, to->n);
	return 0;
}

static int add_common(struct fm_idem_set *to, const struct fm_idem_set *a,
	const struct fm_idem_set *b, struct fm_idem_set some[2])
{
	struct fm_idem_set sum = some[0];
	int rc = fm_idem_set_minus(&some[1], a->span, a->n, b->span, b->n);

	rc = rc ? rc : fm_idem_set_minus(&sum, a->span, a->n, some[1].span, some[1].n);
	rc = rc ? rc : fm_idem_set_union(&some[1], to->span, to->n, sum.span, sum.n);
	some[0] = sum;
	if (rc)
		return rc;
	sum = *to;
	*to = some[1];
	some[1] = sum;
	return 0;
}

/* What others write and this one touches, or the other way round. */
static int shared_of(const struct fm_idem_trace *t, const struct fm_idem_set *touched,
	const struct fm_idem_set *written, unsigned queue, struct fm_idem_set *to)
{
	struct fm_idem_set some[2] = {0};
	int rc = 0;

	to->n = 0;
	for (unsigned i = 0; i < t->n_queues && !rc; i++) {
		if (i == queue)
			continue;
		rc = add_common(to, &touched[queue], &written[i], some);
		rc = rc ? rc : add_common(to, &written[queue], &touched[i], some);
	}
	fm_idem_set_free(&some[0]);
	fm_idem_set_free(&some[1]);
	return rc;
}

/* Each is looked for: most operations have few spans, and what queues share may be many. */
static bool has_any(const struct fm_idem_set *s, const struct fm_idem_span *one, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t low = 0, high = s->n;

		while (low < high) {
			size_t half = low + (high - low) / 2;

			if (s->span[half].to <= one[i].from)
				low = half + 1;
			else
				high = half;
		}
		if (low < s->n && s->span[low].from < one[i].to)
			return true;
	}
	return false;
}

static void mark_shared(struct fm_idem_trace *t, const struct fm_idem_set *shared, unsigned queue)
{
	for (size_t i = 0; i < t->n_ops; i++) {
		struct fm_idem_op *o = &t->op[i];

		if (o->queue == queue &&
			(has_any(shared, fm_idem_spans(t, o, FM_IDEM_R), o->n[FM_IDEM_R]) ||
				has_any(shared, fm_idem_spans(t, o, FM_IDEM_W), o->n[FM_IDEM_W])))
			o->flags |= FM_IDEM_SHARED;
	}
}

int fm_idem_share(struct fm_idem_trace *t)
{
	struct fm_idem_set touched[FM_IDEM_QUEUES] = {0}, written[FM_IDEM_QUEUES] = {0};
	FM_IDEM_CLEAN struct fm_idem_set shared = {0};
	int rc = 0;

	if (t->n_queues < 2)
		return 0;
	for (unsigned i = 0; i < t->n_queues && !rc; i++) {
		rc = bytes_of(t, i, false, &touched[i]);
		rc = rc ? rc : bytes_of(t, i, true, &written[i]);
	}
	for (unsigned i = 0; i < t->n_queues && !rc; i++) {
		rc = shared_of(t, touched, written, i, &shared);
		if (!rc)
			mark_shared(t, &shared, i);
	}
	for (unsigned i = 0; i < t->n_queues; i++) {
		fm_idem_set_free(&touched[i]);
		fm_idem_set_free(&written[i]);
	}
	return rc;
}
