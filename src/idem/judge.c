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

/* Each once; beyond FM_IDEM_KILLS they are not known, so never killed. */
static int keep_kill(struct fm_idem_report *r, const struct fm_idem_op *o)
{
	uint32_t n = 0, *at = &r->kills_of[o->kernel];

	if (!o->kill)
		return 0;
	while (*at && r->kill[*at - 1].text != o->kill - 1 && ++n < FM_IDEM_KILLS)
		at = &r->kill[*at - 1].next;
	if (*at)
		return 0;
	if (r->n_kills == r->kills_room) {
		size_t room = r->kills_room ? 2 * r->kills_room : 64, place;
		bool inside = at != &r->kills_of[o->kernel];
		void *more;

		place = inside ? (size_t)((char *)at - (char *)r->kill) : 0;
		more = reallocarray(r->kill, room, sizeof(*r->kill));
		if (!more)
			return -ENOMEM;
		r->kill = more;
		r->kills_room = room;
		at = inside ? (uint32_t *)(void *)((char *)r->kill + place) : at;
	}
	r->kill[r->n_kills] = (struct fm_idem_kill){o->kernel, 0, o->kill - 1};
	*at = (uint32_t)++r->n_kills;
	return 0;
}

static int judge_launch(const struct fm_idem_trace *t, size_t k, int32_t start,
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
	if (class == FM_IDEM_IDEMPOTENT && keep_kill(r, &t->op[k]))
		return -ENOMEM;
	v->why = (uint8_t)FM_MAX((unsigned)v->why, (unsigned)why);
	v->class = (uint8_t)FM_MAX((unsigned)v->class, (unsigned)class);
	v->size = (uint16_t)(v->class == FM_IDEM_NEVER ? 0 : FM_MAX((unsigned)v->size, size));
	v->start = v->class == FM_IDEM_NEVER ? 0 : FM_MIN(v->start, back);
	return 0;
}

int fm_idem_judge(const struct fm_idem_trace *t, const int32_t *start, struct fm_idem_report *r)
{
	*r = (struct fm_idem_report){.n = t->n_kernels};
	r->names = t->names;
	r->kernel = calloc(t->n_kernels + 1, sizeof(*r->kernel));
	r->kills_of = calloc(t->n_kernels + 1, sizeof(*r->kills_of));
	if (!r->kernel || !r->kills_of)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_kernels; i++)
		begin_kernel(t, &t->kernel[i], &r->kernel[i]);
	for (size_t k = 0; k < t->n_ops; k++)
		if (t->op[k].kind == FM_IDEM_KERNEL &&
			judge_launch(t, k, start[k], r, &r->kernel[t->op[k].kernel]))
			return -ENOMEM;
	return 0;
}

void fm_idem_report_free(struct fm_idem_report *r)
{
	free(r->kernel);
	free(r->kill);
	free(r->kills_of);
	*r = (struct fm_idem_report){0};
}
