/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is out, and will not come in any more. */
#include "api/cuda/core/memory/lost.h"
#include "managed.h"

struct losing {
	bool all; /* also where the context lives */
	bool lost;
};

static void lose_one(struct fm_cuda_managed *m, void *arg)
{
	struct fm_cu_arena *a = atomic_load(&m->arena);
	CUcontext ctx = fm_cu_arena_context(a);
	struct losing *l = arg;

	if (!ctx ||
		(!(l->all && fm_cu_arena_away(a)) && !fm_cu_context_lost(fm_cuda_driver(), ctx)))
		return;
	fm_cu_inside++;
	fm_cu_arena_lose(a);
	fm_cu_inside--;
	fm_cuda_managed_tell(m);
	l->lost = true;
}

bool fm_cuda_managed_lose(bool all)
{
	struct losing l = {.all = all};

	fm_cuda_managed_each(lose_one, &l);
	return l.lost;
}

static void look_at_one(struct fm_cuda_managed *m, void *away)
{
	*(bool *)away |= fm_cu_arena_away(atomic_load(&m->arena));
}

bool fm_cuda_managed_away(void)
{
	bool away = false;

	fm_cuda_managed_each(look_at_one, &away);
	return away;
}
