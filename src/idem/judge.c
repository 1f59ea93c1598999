/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of kernels, of the starts that were found for their launches. */
#include "base/util.h"
#include "idem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *fm_idem_class_name(enum fm_idem_class c)
{
	static const char *const names[] = {
#define NAME(id, name) [id] = name,
		FM_IDEM_CLASS_MAP(NAME)
#undef NAME
	};

	return (unsigned)c < FM_IDEM_CLASSES ? names[c] : "?";
}

const char *fm_idem_why_text(enum fm_idem_why why)
{
	static const char *const texts[] = {
#define TEXT(id, text) [id] = text,
		FM_IDEM_WHY_MAP(TEXT)
#undef TEXT
	};

	return (unsigned)why < FM_IDEM_WHYS ? texts[why] : "?";
}

static bool reads_its_writes(const struct fm_idem_trace *t, const struct fm_idem_op *o)
{
	return fm_idem_set_meet(fm_idem_spans(t, o, FM_IDEM_R), o->n[FM_IDEM_R],
		fm_idem_spans(t, o, FM_IDEM_W), o->n[FM_IDEM_W]);
}

enum fm_idem_why fm_idem_why(
	const struct fm_idem_trace *t, const struct fm_idem_op *o, int32_t start)
{
	if (start == FM_IDEM_NOT_AGAIN)
		return o->flags & FM_IDEM_DYNAMIC   ? FM_IDEM_WHY_DYNAMIC
		       : o->flags & FM_IDEM_APPROX  ? FM_IDEM_WHY_APPROX
		       : o->flags & FM_IDEM_VISIBLE ? FM_IDEM_WHY_VISIBLE
		       : o->flags & FM_IDEM_SHARED  ? FM_IDEM_WHY_SHARED
						    : FM_IDEM_WHY_KIND;
	if (start == FM_IDEM_NO_GROUP)
		return FM_IDEM_WHY_GROUP;
	return o->flags & FM_IDEM_ATOMICS ? FM_IDEM_WHY_ATOMICS
	       : reads_its_writes(t, o)   ? FM_IDEM_WHY_WRITES
	       : o->n[FM_IDEM_B]          ? FM_IDEM_WHY_BLOCKS
					  : FM_IDEM_WHY_NONE;
}

/* Kernels from the start to this one, of its queue. */
static unsigned group_size(const struct fm_idem_trace *t, size_t k, int32_t start, int32_t *back)
{
	unsigned kernels = 0;

	*back = 0;
	for (size_t i = (size_t)start; i <= k; i++) {
		if (t->op[i].queue != t->op[k].queue)
			continue;
		kernels += t->op[i].kind == FM_IDEM_KERNEL;
		*back -= i < k;
	}
	return kernels;
}

static void begin_kernel(
	const struct fm_idem_trace *t, const struct fm_idem_kernel *k, struct fm_idem_verdict *v)
{
	memcpy(v->key, k->key, sizeof(v->key));
	memcpy(v->grid, k->grid, sizeof(v->grid));
	memcpy(v->block, k->block, sizeof(v->block));
	v->name = t->names + k->name;
	v->hash = t->names + k->hash;
	v->class = FM_IDEM_IDEMPOTENT;
	v->size = 1;
}

static void judge_launch(const struct fm_idem_trace *t, size_t k, int32_t start,
	struct fm_idem_report *r, struct fm_idem_verdict *v)
{
	enum fm_idem_why why = fm_idem_why(t, &t->op[k], start);
	enum fm_idem_class class = start < 0                 ? FM_IDEM_NEVER
				   : why == FM_IDEM_WHY_NONE ? FM_IDEM_IDEMPOTENT
							     : FM_IDEM_IN_GROUP;
	int32_t back = 0;
	unsigned size = start < 0 ? 0 : group_size(t, k, start, &back);

	r->kernels++;
	r->idempotent += class == FM_IDEM_IDEMPOTENT;
	r->never += class == FM_IDEM_NEVER;
	if (class == FM_IDEM_IN_GROUP)
		r->group[size]++;
	v->launches++;
	v->why = (uint8_t)FM_MAX((unsigned)v->why, (unsigned)why);
	v->class = (uint8_t)FM_MAX((unsigned)v->class, (unsigned)class);
	v->size = (uint16_t)(v->class == FM_IDEM_NEVER ? 0 : FM_MAX((unsigned)v->size, size));
	v->start = v->class == FM_IDEM_NEVER ? 0 : FM_MIN(v->start, back);
}

int fm_idem_judge(const struct fm_idem_trace *t, const int32_t *start, struct fm_idem_report *r)
{
	*r = (struct fm_idem_report){.n = t->n_kernels};
	r->kernel = calloc(t->n_kernels + 1, sizeof(*r->kernel));
	if (!r->kernel)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_kernels; i++)
		begin_kernel(t, &t->kernel[i], &r->kernel[i]);
	for (size_t k = 0; k < t->n_ops; k++)
		if (t->op[k].kind == FM_IDEM_KERNEL)
			judge_launch(t, k, start[k], r, &r->kernel[t->op[k].kernel]);
	return 0;
}

void fm_idem_report_free(struct fm_idem_report *r)
{
	free(r->kernel);
	*r = (struct fm_idem_report){0};
}
