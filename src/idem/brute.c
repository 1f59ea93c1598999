/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The definition, word by word, to check the others with: each group is looked at by itself, byte
 * by byte, from its beginning. Bytes between two ends of spans are alike, so that one of them is
 * enough. It takes long.
 */
#include "base/util.h"
#include "idem.h"
#include <errno.h>
#include <stdlib.h>

static bool holds(
	const struct fm_idem_trace *t, const struct fm_idem_op *o, unsigned set, uint64_t byte)
{
	const struct fm_idem_span one = {byte, byte + 1};

	return fm_idem_set_meet(&one, 1, fm_idem_spans(t, o, set), o->n[set]);
}

/* Is that byte input of the group, and written in it? */
static bool is_clobbered(
	const struct fm_idem_trace *t, const uint32_t *op, size_t i, size_t k, uint64_t byte)
{
	bool input = false, written = false, covered = false;

	for (size_t at = i; at <= k; at++) {
		const struct fm_idem_op *o = &t->op[op[at]];

		if (!covered && holds(t, o, FM_IDEM_R, byte))
			input = true;
		if (holds(t, o, FM_IDEM_W, byte))
			written = true;
		if (holds(t, o, FM_IDEM_K, byte))
			covered = true;
	}
	return input && written;
}

static bool may_run_again(const struct fm_idem_trace *t, const uint32_t *op, size_t i, size_t k)
{
	for (size_t at = i; at <= k; at++) {
		const struct fm_idem_op *o = &t->op[op[at]];
		const struct fm_idem_span *s = t->span + o->first;
		size_t n = o->n[FM_IDEM_R] + o->n[FM_IDEM_W] + o->n[FM_IDEM_K];

		/* A byte behind an end of a span is the first of its kind, too, if it is one. */
		for (size_t j = 0; j < n; j++)
			if (is_clobbered(t, op, i, k, s[j].from) ||
				is_clobbered(t, op, i, k, s[j].to))
				return false;
	}
	return true;
}

int fm_idem_brute(const struct fm_idem_trace *t, const uint32_t *op, size_t n, int32_t *start)
{
	for (size_t k = 0; k < n; k++) {
		start[op[k]] = FM_IDEM_NO_GROUP;
		for (size_t i = k + 1; i-- > 0 && k - i < FM_IDEM_GROUP;) {
			if (fm_idem_bars(&t->op[op[i]])) {
				if (i == k)
					start[op[k]] = FM_IDEM_NOT_AGAIN;
				break;
			}
			if (may_run_again(t, op, i, k)) {
				start[op[k]] = (int32_t)op[i];
				break;
			}
		}
	}
	return 0;
}
