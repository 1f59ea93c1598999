/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any trace: refused with a reason and nothing kept; or operations with sets of bytes that rise,
 * whose starts two algorithms find alike, and classes that are written and read again.
 */
#include "base/util.h"
#include "idem/idem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_op(const struct fm_idem_trace *t, const struct fm_idem_op *o)
{
	must(o->kind < FM_IDEM_KINDS && o->queue < t->n_queues);
	must(o->kind != FM_IDEM_KERNEL || o->kernel < t->n_kernels);
	for (unsigned set = 0; set < FM_IDEM_SETS; set++) {
		const struct fm_idem_span *s = fm_idem_spans(t, o, set);

		must(s - t->span + o->n[set] <= (ptrdiff_t)t->n_spans);
		for (uint32_t i = 0; i < o->n[set]; i++)
			must(s[i].from < s[i].to && s[i].to <= FM_IDEM_END &&
				(!i || s[i - 1].to < s[i].from));
	}
}

static void check_report(const struct fm_idem_report *r)
{
	struct fm_idem_list l;
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	must(to && !fm_idem_print(to, r) && !fclose(to));
	must(!fm_idem_parse(&l, "again", text, size, NULL) && l.n == r->n);
	for (size_t i = 0; i < r->n; i++) {
		const struct fm_idem_verdict *v = fm_idem_find(&l, r->kernel[i].key);

		must(v && v->class == r->kernel[i].class && v->size == r->kernel[i].size);
	}
	fm_idem_list_free(&l);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FILE *f = size ? fmemopen((void *)data, size, "r") : NULL;
	struct fm_err err = {0};
	struct fm_idem_trace t;
	struct fm_idem_report r;
	int32_t *start[2];
	int rc;

	if (!f)
		return 0;
	rc = fm_idem_read(&t, f, "fuzz", &err);
	fclose(f);
	if (rc) {
		must(rc == -EINVAL && !strncmp(err.text, "fuzz:", 5) && err.hint[0] && !t.op);
		return 0;
	}
	for (size_t i = 0; i < t.n_ops; i++)
		check_op(&t, &t.op[i]);
	for (unsigned a = 0; a < 2; a++) {
		start[a] = calloc(t.n_ops + 1, sizeof(**start));
		must(start[a] && !fm_idem_start(&t, a, start[a]));
	}
	must(!memcmp(start[0], start[1], t.n_ops * sizeof(**start)));
	must(!fm_idem_judge(&t, start[0], &r));
	check_report(&r);
	fm_idem_report_free(&r);
	fm_idem_trace_free(&t);
	free(start[0]);
	free(start[1]);
	return 0;
}
