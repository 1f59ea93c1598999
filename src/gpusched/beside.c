// SPDX-License-Identifier: Apache-2.0
/*
 * What a set tells the scheduler: how many jobs there are, how many are over, and whether it
 * stands. All of that is found after each decision, by comparing the words with those of the one
 * before.
 *
 * Order. A set that stands says so, and then looks at the gate (board.h). Before a decision looks
 * at the gate, the set says that it does not stand. So it never opens a gate while it says that it
 * stands.
 */
#include "beside.h"
#include "base/util.h"
#include "set.h"
#include <errno.h>
#include <string.h>

static bool keep_name(char *to, size_t size, const char *name)
{
	size_t n = name ? strnlen(name, size) : 0;

	if (!name)
		return true;
	if (!n || n == size)
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] < ' ' || name[i] > '~')
			return false;
	memcpy(to, name, n + 1);
	return true;
}

bool fm_gpu_beside_wish(struct fm_gpu_beside *b, const struct fm_gpu_set_options *o)
{
	if (o->virtual_time && (o->group || o->device))
		return false;
	return keep_name(b->group, sizeof(b->group), o->group) &&
	       keep_name(b->device, sizeof(b->device), o->device);
}

/* The agent's. A thread of the set decides: the agent has others to serve. */
static void look(void *arg)
{
	struct fm_gpu_set *s = arg;

	if (!fm_gpu_beside_goes_on(s))
		return;
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

bool fm_gpu_beside_goes_on(struct fm_gpu_set *s)
{
	struct fm_gpu_beside *b = &s->beside;

	return b->seat && __atomic_load_n(&b->stands, __ATOMIC_SEQ_CST) &&
	       fm_gpu_seat_ops.may_run(b->seat);
}

static void set_stands(struct fm_gpu_beside *b, bool stands)
{
	__atomic_store_n(&b->stands, stands, __ATOMIC_SEQ_CST);
	fm_gpu_seat_ops.told(b->seat, b->begun, b->begun - b->pending, stands);
}

/* --- the decider's --- */

static bool may_open(void *arg)
{
	struct fm_gpu_set *s = arg;
	struct fm_gpu_beside *b = &s->beside;

	if (b->stands)
		set_stands(b, false);
	return fm_gpu_seat_ops.may_run(b->seat);
}

static bool runs(const struct fm_gs_task *t)
{
	return t->gate != t->seen_ended;
}

static bool changed(const struct fm_gs_task *t, const struct fm_gpu_seen *seen)
{
	return !seen->shown || t->stats.released != seen->released || t->done != seen->done ||
	       t->stats.dropped != seen->dropped || runs(t) != seen->runs;
}

static void show_task(struct fm_gpu_set *s, uint32_t task)
{
	const struct fm_gs_task *t = &s->host.g.task[task];
	const struct fm_gpu_seat_task row = {
		.name = s->work[task].name,
		.released = t->stats.released,
		.done = t->stats.done,
		.missed = t->stats.missed,
		.missed_stopped = t->stats.missed_stopped,
		.dropped = t->stats.dropped,
		.response_max = t->stats.response_max,
		.runs = runs(t),
	};

	fm_gpu_seat_ops.show_task(s->beside.seat, task, &row);
}

static void trace_end(struct fm_gpu_set *s, uint32_t task, uint64_t now)
{
	const struct fm_gs_task *t = &s->host.g.task[task];
	const struct fm_gpu_seen *seen = &s->work[task].seen;
	uint64_t deadline = fm_add_sat(seen->first, t->deadline);

	fm_gpu_seat_ops.trace(s->beside.seat, FM_GPU_COMPLETED, task, fm_sub_sat(now, seen->first),
		t->stats.released - t->done);
	if (t->stats.missed != seen->missed)
		fm_gpu_seat_ops.trace(s->beside.seat, FM_GPU_MISSED, task,
			fm_sub_sat(now, deadline), t->stats.missed_stopped != seen->missed_stopped);
}

static void trace_task(struct fm_gpu_set *s, uint32_t task, uint64_t now)
{
	const struct fm_gs_task *t = &s->host.g.task[task];
	const struct fm_gpu_seen *seen = &s->work[task].seen;
	uint64_t released = t->stats.released - seen->released;
	uint64_t pending = t->stats.released - t->done;
	bool over = t->done != seen->done;

	if (released)
		fm_gpu_seat_ops.trace(s->beside.seat, FM_GPU_RELEASED, task, released, pending);
	if (over)
		trace_end(s, task, now);
	if (runs(t) && (over || !seen->runs))
		fm_gpu_seat_ops.trace(s->beside.seat, FM_GPU_BEGAN, task, pending, 0);
	if (!runs(t) && seen->runs && !over)
		fm_gpu_seat_ops.trace(s->beside.seat, FM_GPU_STANDS, task, pending, 0);
}

/* At most one job of a task is completed in a decision, and it was released before that. */
static void look_at_task(struct fm_gpu_set *s, uint32_t task, uint64_t now)
{
	const struct fm_gs_task *t = &s->host.g.task[task];
	struct fm_gpu_seen *seen = &s->work[task].seen;

	trace_task(s, task, now);
	if (changed(t, seen))
		show_task(s, task);
	seen->released = t->stats.released;
	seen->done = t->done;
	seen->missed = t->stats.missed;
	seen->missed_stopped = t->stats.missed_stopped;
	seen->dropped = t->stats.dropped;
	seen->runs = runs(t);
	seen->shown = true;
	seen->first = t->release[t->done % FM_GS_BACKLOG];
}

const char *fm_gpu_policy_name(enum fm_gs_policy policy)
{
	static const char *const policies[] = {
		[FM_GS_FIXED_PRIORITY] = "fixed-priority",
		[FM_GS_EDF] = "edf",
		[FM_GS_LEAST_LAXITY] = "least-laxity",
		[FM_GS_FIFO] = "fifo",
		[FM_GS_FAIR] = "fair",
	};

	return policies[policy];
}

static void show_set(struct fm_gpu_set *s, bool stopped)
{
	const struct fm_gs *g = &s->host.g;
	struct fm_gpu_seat_set set = {.policy = fm_gpu_policy_name(g->policy),
		.slots = g->slots,
		.tasks = g->n,
		.resident = s->resident,
		.stopped = stopped,
		.decisions = g->decisions};

	for (uint32_t i = 0; i < g->n && !set.running; i++)
		set.running = runs(&g->task[i]) ? i + 1 : 0;
	fm_gpu_seat_ops.show(s->beside.seat, &set);
}

/* Jobs of a task that is off go without having been done: they count as over. */
static void count_jobs(struct fm_gpu_set *s)
{
	const struct fm_gs *g = &s->host.g;
	struct fm_gpu_beside *b = &s->beside;
	uint64_t done = 0, more;

	for (uint32_t i = 0; i < g->n; i++)
		done += g->task[i].done;
	more = g->pending + (done - b->done);
	b->begun += more > b->pending ? more - b->pending : 0;
	b->pending = g->pending;
	b->done = done;
}

static void decided(void *arg)
{
	struct fm_gpu_set *s = arg;
	struct fm_gpu_beside *b = &s->beside;
	struct fm_gs *g = &s->host.g;
	/* As the decision has found it, or as it is since then. */
	bool closed = g->stopped || !fm_gpu_seat_ops.may_run(b->seat) || fm_gs_read(&g->park);
	uint64_t now = fm_gs_host_now(&s->host);

	count_jobs(s);
	show_set(s, closed);
	for (uint32_t i = 0; i < g->n; i++)
		look_at_task(s, i, now);
	set_stands(b, closed && b->pending && !g->running);
	/* It has opened meanwhile, perhaps before anybody could know that the set stands. */
	if (fm_gpu_beside_goes_on(s) && !fm_gs_read(&g->park))
		fm_gs_more(&g->bell, 1);
}

/* --- the program's --- */

int fm_gpu_beside_take(struct fm_gpu_set *s)
{
	struct fm_gpu_beside *b = &s->beside;
	const struct fm_gpu_seat_wish wish = {
		.group = b->group[0] ? b->group : NULL,
		.device = b->device[0] ? b->device : NULL,
		.look = look,
		.arg = s,
	};
	int rc;

	if (!&fm_gpu_seat_ops || b->seat || s->host.is_virtual)
		return 0;
	rc = fm_gpu_seat_ops.take(&b->seat, &wish);
	if (rc || !b->seat)
		return rc;
	b->watch = (struct fm_gs_watch){.may_open = may_open, .decided = decided, .arg = s};
	fm_gs_host_enter(&s->host);
	s->host.watch = &b->watch;
	fm_gs_host_leave(&s->host);
	if (fm_gs_read(&s->host.g.park))
		fm_gpu_beside_hold(s);
	return 0;
}

void fm_gpu_beside_leave(struct fm_gpu_set *s)
{
	struct fm_gpu_beside *b = &s->beside;

	if (!b->seat)
		return;
	fm_gs_host_enter(&s->host);
	s->host.watch = NULL;
	fm_gs_host_leave(&s->host);
	b->pending = 0;
	set_stands(b, false);
	fm_gpu_seat_ops.leave(b->seat);
	b->seat = NULL;
}

/* Several threads may be here. The one that comes last has read the word after its last change. */
void fm_gpu_beside_hold(struct fm_gpu_set *s)
{
	const uint64_t *park = &s->host.g.park;
	uint64_t held;

	if (!s->beside.seat)
		return;
	do {
		held = fm_gs_read(park);
		fm_gpu_seat_ops.hold(s->beside.seat, held);
	} while (fm_gs_read(park) != held);
}
