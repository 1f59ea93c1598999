/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a plan: they grow, and are used again. */
#include "internal.h"
#include <errno.h>

static int resize(void *at, size_t n, size_t size)
{
	void **p = at, *more = realloc(*p, n * size);

	if (!more)
		return -ENOMEM;
	*p = more;
	return 0;
}

static int grow_turns(struct fm_mem_scratch *s, size_t n)
{
	int rc = 0;

	if (n <= s->turns)
		return 0;
	rc = resize(&s->span, n + 3, sizeof(*s->span));
	rc = rc ? rc : resize(&s->order, n, sizeof(*s->order));
	rc = rc ? rc : resize(&s->until, n, sizeof(*s->until));
	s->turns = rc ? s->turns : n;
	return rc;
}

static int grow_groups(struct fm_mem_plan *p, size_t n)
{
	struct fm_mem_scratch *s = p->scratch;
	int rc = 0;

	if (n <= s->groups)
		return 0;
	rc = resize(&s->member, n, sizeof(*s->member));
	rc = rc ? rc : resize(&p->group, n, sizeof(*p->group));
	s->groups = rc ? s->groups : n;
	return rc;
}

static int grow_extents(struct fm_mem_scratch *s, size_t n)
{
	int rc = 0;

	if (n <= s->extents)
		return 0;
	rc = resize(&s->cand, 2 * n, sizeof(*s->cand));
	rc = rc ? rc : resize(&s->list, 3 * n, sizeof(*s->list));
	rc = rc ? rc : resize(&s->told, n, sizeof(*s->told));
	s->extents = rc ? s->extents : n;
	return rc;
}

static int grow_clients(struct fm_mem_plan *p, size_t n)
{
	struct fm_mem_scratch *s = p->scratch;
	int rc = 0;

	if (n <= s->clients)
		return 0;
	rc = resize(&s->resident, n, sizeof(*s->resident));
	rc = rc ? rc : resize(&p->grant, n, sizeof(*p->grant));
	s->clients = rc ? s->clients : n;
	return rc;
}

int fm_mem_grow(struct fm_mem_plan *p, const struct fm_mem_world *w)
{
	int rc = 0;

	if (!p->scratch)
		p->scratch = calloc(1, sizeof(*p->scratch));
	if (!p->scratch)
		return -ENOMEM;
	rc = grow_turns(p->scratch, w->turns + 1u);
	rc = rc ? rc : grow_groups(p, w->groups + 1u);
	rc = rc ? rc : grow_extents(p->scratch, w->extents + 1u);
	return rc ? rc : grow_clients(p, w->clients + 1u);
}

void fm_mem_plan_free(struct fm_mem_plan *p)
{
	struct fm_mem_scratch *s = p->scratch;

	if (s) {
		free(s->span);
		free(s->order);
		free(s->until);
		free(s->member);
		free(s->cand);
		free(s->resident);
		free(s->list);
		free(s->told);
		free(s);
	}
	free(p->group);
	free(p->grant);
	*p = (struct fm_mem_plan){0};
}
