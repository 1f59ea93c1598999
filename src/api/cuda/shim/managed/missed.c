/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the program used while it ran from the host, though nothing named it
 * (predict/miss.h): what its calls name comes in whole, then all of its memory. The daemon is told,
 * for people.
 */
#include "base/clock.h"
#include "base/parse.h"
#include "named.h"
#include "predict/miss.h"
#include "trace/trace.h"
#include <stdlib.h>
#include <string.h>

static struct {
	atomic_flag busy;
	struct fm_miss miss;
	uint64_t late; /* as of the turn before */
} missed = {.busy = ATOMIC_FLAG_INIT};

static void add_up(struct fm_cuda_managed *m, void *turn)
{
	struct fm_cu_arena *a = atomic_load(&m->arena);
	struct fm_miss_turn *t = turn;
	struct fm_cu_arena_sums sums;
	struct fm_cu_arena_hot hot;

	fm_cu_arena_sum(a, &sums);
	fm_cu_arena_hot(a, fm_cuda_named_since(m), &hot);
	t->mapped += sums.borrowed;
	t->foretold += hot.mapped;
}

static void tell(struct fm_cuda_managed *m, void *arg)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_ledger_device *d = c ? fm_account_row(c, m->row) : NULL;
	const struct fm_miss *miss = arg;

	if (!d || !atomic_load(&d->kind[FM_MEM_MOVABLE]))
		return;
	atomic_store(&d->missed_how, miss->by_write ? FM_MEM_MISS_WRITE : FM_MEM_MISS_TIME);
	atomic_store(
		&d->missed_cure, miss->is == FM_MISS_ALL ? FM_MEM_CURE_ALL : FM_MEM_CURE_NAMED);
	atomic_store(&d->missed, miss->missed);
}

/* What in a turn counts as late. UINT64_MAX: nothing does. */
static uint64_t late_from(void)
{
	const char *said = secure_getenv("FERMATA_MEMORY_LATE");
	int64_t ns;

	if (said && !strcmp(said, "never"))
		return UINT64_MAX;
	return said && !fm_parse_time(said, &ns, NULL) && ns > 0 ? (uint64_t)ns : FM_MISS_LATE;
}

void fm_cuda_missed_turn(unsigned changed)
{
	struct fm_miss_turn t = {.writes = changed};
	uint64_t late = atomic_load(&fm_est_late), before;
	enum fm_miss_act act;

	if (atomic_flag_test_and_set(&missed.busy))
		return;
	t.late = late - missed.late >= late_from() ? late - missed.late : 0;
	missed.late = late;
	before = missed.miss.missed;
	fm_cuda_managed_each(add_up, &t);
	act = fm_miss_turn(&missed.miss, &t);
	if (act == FM_MISS_NAMED)
		fm_cuda_named_distrust();
	if (missed.miss.is == FM_MISS_ALL)
		fm_cuda_named_all(); /* in this turn, too */
	if (missed.miss.missed != before) {
		fm_cuda_managed_each(tell, &missed.miss);
		FM_TRACE(memory_missed, fm_now(), FM_TRACE_NO_SLOT, 0, t.late, changed, t.mapped);
	}
	atomic_flag_clear(&missed.busy);
}

void fm_cuda_missed_fork_child(void)
{
	atomic_flag_clear(&missed.busy);
	missed.miss = (struct fm_miss){0};
}
