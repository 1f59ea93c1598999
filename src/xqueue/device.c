/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates that the device itself looks at (hwqueue.h, gate). No thread of this process opens them,
 * and none is told when a segment ends: the device writes its progress into the board. Now and then
 * a segment is timed, which teaches the estimates. The agent looks at the progress while something
 * waits for its end.
 */
#include "early.h"
#include "segment.h"
#include <errno.h>

static struct fm_gate_words words(struct fm_xq *q)
{
	_Atomic uint32_t *gate = atomic_load(&q->gate);
	struct fm_client *c = q->client;
	struct fm_slot *s = q->slot;
	bool apart = gate != &s->gate;

	return (struct fm_gate_words){
		.map = c->board,
		.map_size = sizeof(*c->board),
		.gate_map = apart ? (void *)c->gates : c->board,
		.gate_map_size = apart ? sizeof(*c->gates) : sizeof(*c->board),
		.gate = gate,
		.waiting = &s->waiting,
		.progress = &s->progress,
		.hold = q->steered ? &s->hold : NULL,
		.rest = c->rests ? &c->board->rest : NULL,
		.leave = c->rests ? &c->board->rest_leave : NULL,
		.pads = !apart && atomic_load_explicit(&s->pad, memory_order_relaxed),
	};
}

uint64_t fm_xq_device_reach(struct fm_xq *q, uint64_t now)
{
	const struct fm_gate_words w = words(q);
	struct fm_xq_cold *x = q->cold;
	int rc;

	if (!q->device_gates || !q->ops->device_gate.reach_gates || x->page_tried || q->closing ||
		w.gate_map == w.map)
		return FM_NEVER;
	rc = q->ops->device_gate.reach_gates(q->hwq, &w);
	if (rc == -EBUSY)
		return now + FM_XQ_REACH_AGAIN;
	x->page_tried = true;
	if (rc)
		fm_xq_set_level(q, FM_LEVEL_PENDING);
	return FM_NEVER;
}

/* The estimates learn from what the device has timed meanwhile. */
static void collect(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t ns;
	bool exact;

	while (x->sample_n && q->ops->device_gate.sampled(q->hwq, &ns, &exact) == 1) {
		struct fm_segment *s = &x->sample[x->sample_head];

		if (ns)
			XQ_TRACE(segment_done, now, q, 0, s->n, ns);
		if (ns)
			fm_xq_learn(q, s->key, s->n, ns, exact ? FM_EXACT : FM_AT_MOST);
		x->sample_head = (x->sample_head + 1) % FM_SEG_SAMPLES;
		x->sample_n--;
	}
}

/* A sampled segment ends here: remember what was in it. A segment with a pause of the program
 * teaches nothing. */
static void end_sample(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_segment *s = &x->sample[(x->sample_head + x->sample_n) % FM_SEG_SAMPLES];
	bool paused = x->sample_edge != atomic_load(&q->edge_at);

	if (!x->sampling)
		return;
	x->sampling = false;
	x->sample_n++;
	s->n = paused ? 0 : atomic_load_explicit(&q->seg_n, memory_order_relaxed);
	for (unsigned i = 0; i < FM_MIN(s->n, (unsigned)FM_SEG_KEYS); i++)
		s->key[i] = atomic_load_explicit(&q->seg_key[i], memory_order_relaxed);
}

static void note_progress(struct fm_xq *q, uint64_t now)
{
	uint64_t done = fm_slot_done(q->slot);
	struct fm_xq_cold *x = q->cold;

	if (x->pass == FM_PASS_SEEN && atomic_load(&q->slot->progress) == 2 * x->fenced + 1)
		x->pass = FM_PASS_SAID;
	if (done <= atomic_load(&q->slot->done))
		return;
	fm_xq_advance(q, done, now);
	x->progress_at = now;
}

bool fm_xq_device_curious(struct fm_xq *q)
{
	return !q->cold->sampling && q->cold->sample_n < FM_SEG_SAMPLES;
}

static uint64_t spacing(const struct fm_xq *q, const _Atomic uint32_t *shares, unsigned unstopped)
{
	bool stopped = atomic_load_explicit(shares, memory_order_relaxed) == FM_SHARES;

	return q->spacing * (stopped ? 1 : unstopped);
}

static uint64_t far_spacing(const struct fm_xq *q)
{
	return FM_MAX(q->spacing,
		FM_MIN(q->spacing * FM_XQ_UNSTOPPED_SPACING_LESS, FM_XQ_UNFENCED_SPACING_MOST));
}

/* A queue that was just stopped shall be at rest soon the next time. One that pads goes on all the
 * same, and then each gate costs it some ten microseconds. */
static bool calm(const struct fm_xq *q, uint64_t now)
{
	return now - q->cold->stood_at < FM_XQ_CALM && !q->cold->pad_able;
}

bool fm_xq_device_far(struct fm_xq *q, uint64_t est, uint64_t now)
{
	uint64_t ns = fm_add_sat(atomic_load_explicit(&q->seg_ns, memory_order_relaxed), est);
	unsigned n = atomic_load_explicit(&q->seg_n, memory_order_relaxed), most;

	/* If a stop waits for a gate first (guard-from), gates must not be far apart. */
	if (!q->ops->guardian.max_unfenced || q->cold->sampling || ns > far_spacing(q) ||
		fm_xq_guard_from(q, 0) || fm_xq_ungated(q) || calm(q, now))
		return false;
	most = q->ops->guardian.max_unfenced(q->hwq, n);
	if (n >= most)
		return false;
	atomic_store(&q->interval, far_spacing(q));
	atomic_store_explicit(&q->seg_most, most, memory_order_relaxed);
	return true;
}

static unsigned unstopped(const struct fm_xq *q)
{
	return q->steered || q->level >= FM_LEVEL_RUNNING ? FM_XQ_UNSTOPPED_SPACING_LESS
							  : FM_XQ_UNSTOPPED_SPACING;
}

/* A timed segment is short, so that it holds few kinds of commands. */
static void begin_segment(struct fm_xq *q, bool sample)
{
	atomic_store_explicit(&q->seg_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&q->seg_n, 0, memory_order_relaxed);
	atomic_store_explicit(&q->seg_most, UINT32_MAX, memory_order_relaxed);
	if (!fm_xq_ungated(q))
		atomic_store(&q->interval,
			sample ? q->spacing : spacing(q, &q->slot->shares, unstopped(q)));
}

/* The device will write this progress, at a gate or without one. What had not begun by now comes
 * behind it. */
static void note_fence(struct fm_xq *q, uint64_t mark, bool gate)
{
	struct fm_xq_cold *x = q->cold;

	x->told_by = atomic_load(&q->slot->begun) + 1;
	x->pass = !gate || mark > x->fenced ? FM_PASS_SAID
		  : x->fenced_by_gate       ? FM_PASS_UNKNOWN
					    : FM_PASS_SEEN;
	x->fenced_by_gate = gate;
	x->fenced = mark;
	x->deaf = false;
}

/* Others have the device, and a queue without work does not get it back. So a command that was
 * never launched is counted where the queue is held all the same. For the program the queue is as
 * idle as it was (fm_xq_own_mark). */
static void count_one(struct fm_xq *q, uint64_t now)
{
	atomic_fetch_add(&q->stand_ins_come, 1);
	atomic_fetch_add(&q->slot->begun, 1);
	fm_xq_end(q);
	atomic_fetch_add(&q->stand_ins, 1);
	fm_xq_edge(q, now);
	fm_xq_announce(q);
}

/*
 * A stopped queue is about to get a gate with nothing new in front of it: all of its work has
 * finished in a pad, or will have as soon as the device is past the gate before; or the driver has
 * said that it has (strays()). It comes to stand there without work. Nothing would open that gate,
 * because the scheduler neither chooses a queue without work nor has to hear that the others have
 * none any more; but calls of the program wait until nothing is stopped. So one command more comes
 * in front of the gate, and the queue has work until it is past.
 *
 * It does not matter how far the device is by now, only what has been put since the last gate. The
 * order is held, or a command is about to be put behind this gate: that is work itself, and so is
 * one that another thread just has in the driver, which no gate covers yet (begun, not passed). If
 * the gate cannot be put just now, the command is there at the next try, and is not counted again.
 * A gate that is open may close before the device is past, so it counts whatever its gate says.
 */
static void hold_with_work(struct fm_xq *q, uint64_t now)
{
	uint64_t mark = fm_xq_mark(q);
	bool new = mark > q->cold->fenced || atomic_load(&q->slot->begun) != mark;

	if (!new || !fm_slot_pending(q->slot))
		count_one(q, now);
}

void fm_xq_device_stands(struct fm_xq *q, uint64_t now)
{
	if (atomic_load(atomic_load(&q->gate)) != FM_GATE_OPEN && !fm_slot_pending(q->slot))
		count_one(q, now);
}

void fm_xq_device_stopped(struct fm_xq *q, uint64_t now)
{
	if (!q->device_gates || q->closing || q->cold->deaf || !fm_xq_is_stopped(q) ||
		fm_xq_is_unfenced(q))
		return;
	/* The device says so only when it is past the last gate. */
	if (fm_slot_progress(q->slot) < atomic_load(&q->slot->begun))
		fm_xq_device_stands(q, now);
}

void fm_xq_device_place(struct fm_xq *q, bool curious, uint64_t now)
{
	struct fm_gate_words w = words(q);
	struct fm_xq_cold *x = q->cold;
	uint64_t mark;
	bool sample;
	int rc;

	note_progress(q, now);
	if (fm_xq_is_stopped(q))
		hold_with_work(q, now);
	mark = fm_xq_mark(q);
	collect(q, now);
	end_sample(q);
	sample = (curious || ++x->unsampled >= FM_XQ_SAMPLE_EVERY) && x->sample_n < FM_SEG_SAMPLES;
	x->unsampled = sample ? 0 : x->unsampled;
	XQ_TRACE(segment_sealed, now, q, 0, atomic_load_explicit(&q->seg_n, memory_order_relaxed),
		atomic_load_explicit(&q->seg_ns, memory_order_relaxed));
	begin_segment(q, sample);
	fm_xq_may_finish(q, mark);
	fm_early_place(q->client, &w);
	rc = q->ops->device_gate.gate(q->hwq, &w, mark, sample);
	if (rc) {
		/* Either the very first gate was refused, so the driver or the device has no gates;
		 * or it has none of this kind. */
		if (rc == -EOPNOTSUPP || (!atomic_load(&q->slot->gates) && !x->fenced))
			fm_xq_set_level(q, FM_LEVEL_PENDING);
		return;
	}
	x->sampling = sample;
	x->sample_edge = atomic_load(&q->edge_at);
	note_fence(q, mark, true);
	atomic_fetch_add_explicit(&q->slot->gates, 1, memory_order_relaxed);
	XQ_TRACE(gate_placed, now, q, atomic_load_explicit(&q->slot->gates, memory_order_relaxed),
		fm_slot_pending(q->slot), 0);
	/* Later commands wait behind a gate as long as this one is closed. */
	atomic_store(&q->gate_mark, mark);
	atomic_store(&q->gates_pending, !fm_xq_may_run(q));
}

/* Another thread may launch between the two parts, and what it launches runs while the progress
 * says that the queue stands. Then that progress is vague. */
bool fm_xq_part_begin(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	bool begun = false;

	if (!q->client->rests || !q->ops->device_gate.part || atomic_load(&q->client->dead))
		return false;
	pthread_mutex_lock(&x->lock);
	if (q->device_gates && !x->parts && !q->closing) {
		const struct fm_gate_words w = words(q);

		x->part_mark = fm_xq_mark(q);
		x->part_begun = atomic_load(&q->slot->begun);
		fm_xq_may_finish(q, x->part_mark);
		begun = !q->ops->device_gate.part(q->hwq, &w, x->part_mark, false);
		x->parts = begun;
	}
	fm_xq_leave(q);
	return begun;
}

void fm_xq_part_end(struct fm_xq *q)
{
	const struct fm_gate_words w = words(q);
	struct fm_xq_cold *x = q->cold;
	uint64_t mark = x->part_mark;

	pthread_mutex_lock(&x->lock);
	if (q->ops->device_gate.part(q->hwq, &w, mark, true) || x->part_begun != mark ||
		atomic_load(&q->slot->begun) != mark)
		x->vague = 2 * mark + 1;
	x->parts = 0;
	note_fence(q, mark, true);
	atomic_fetch_add_explicit(&q->slot->gates, 1, memory_order_relaxed);
	atomic_store(&q->gate_mark, mark);
	atomic_store(&q->gates_pending, !fm_xq_may_run(q));
	fm_xq_device_stands(q, fm_now());
	fm_xq_leave(q);
}

/* Is the device stalled at any gate of this process? A gate in a graph belongs to the queue on
 * which it was captured, not to the queue on which the graph runs. */
static bool stands(struct fm_client *c)
{
	bool yes = false;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES && !yes; i++)
		yes = c->queue[i] && fm_slot_waits(c->queue[i]->slot);
	pthread_mutex_unlock(&c->lock);
	return yes;
}

/* The end cannot be queried. It has certainly not come while the device has not passed the last
 * gate, or is stalled at one. */
static void give_up(struct fm_xq *q, uint64_t mark, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	if (fm_slot_progress(q->slot) < x->fenced || stands(q->client)) {
		x->refused = 0;
		return;
	}
	fm_xq_refused(q, mark, now);
	x->gave_up = fm_slot_done(q->slot) >= mark;
}

/* If the device is stalled at a gate (of a graph, which writes no progress), the work that was
 * given up is not over after all, and one command stands for it. Returns when to look again. */
static uint64_t take_back(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_slot *s = q->slot;

	if (!x->gave_up || q->closing || !atomic_load(&q->client->board->contended))
		return FM_NEVER;
	if (fm_slot_progress(s) >= x->refused) {
		x->gave_up = false;
		return FM_NEVER;
	}
	if (!stands(q->client))
		return now + FM_XQ_GIVE_UP / 5;
	x->gave_up = false;
	count_one(q, now);
	return now;
}

/* Have the device write a progress when it has finished what was launched so far. If the driver
 * refuses even that, the end will never be reported, and the work counts as finished. Order
 * held. */
static void fence_in_order(struct fm_xq *q, uint64_t now)
{
	const struct fm_gate_words w = words(q);
	struct fm_xq_cold *x = q->cold;
	bool gate = fm_xq_is_unfenced(q);
	uint64_t mark;
	int rc;

	if (gate && !x->deaf)
		hold_with_work(q, now);
	mark = fm_xq_mark(q);
	if (x->fenced >= mark && !gate)
		return;
	fm_xq_may_finish(q, mark);
	rc = q->ops->device_gate.write_fence(q->hwq, &w, mark);
	if (rc == -EBUSY || rc == -EAGAIN) {
		x->tail_at = now + FM_MS;
		if (!gate && rc == -EBUSY)
			give_up(q, mark, now);
		return;
	}
	if (!rc && gate) {
		atomic_fetch_add_explicit(&q->slot->gates, 1, memory_order_relaxed);
		if (!x->sampling)
			begin_segment(q, false);
	}
	x->tail_at = 0;
	x->deaf = rc;
	if (rc)
		fm_xq_advance(q, mark, now);
	else
		note_fence(q, mark, gate);
}

/* The order lock is only tried: a thread that launches may hold it and wait for the device, and the
 * device may wait for the agent. */
static void fence(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	if (pthread_mutex_trylock(&x->order)) {
		x->tail_at = now + FM_XQ_LOOK;
		return;
	}
	fence_in_order(q, now);
	pthread_mutex_unlock(&x->order);
}

void fm_xq_device_look(struct fm_xq *q, uint64_t now)
{
	note_progress(q, now);
	if (fm_slot_pending(q->slot))
		fence(q, now);
}

/* The queue is stalled at a gate: the time until it goes on is not charged to it. */
static void stops_working(struct fm_xq *q, uint64_t now)
{
	uint64_t busy = atomic_exchange(&q->slot->busy_since, 0);

	if (busy && now > busy)
		atomic_fetch_add_explicit(&q->slot->device_ns, now - busy, memory_order_relaxed);
}

/* The queue's gate has opened. This process is not told when the device passes it, so the queue
 * counts as working from now on. If all is done by now, the next command begins anew. */
static void goes_on_working(struct fm_xq *q, uint64_t now)
{
	struct fm_slot *s = q->slot;
	uint64_t none = 0, since = now;

	if (atomic_load_explicit(&s->busy_since, memory_order_relaxed) || q->cold->interrupted)
		return;
	if (atomic_compare_exchange_strong(&s->busy_since, &none, now) && !fm_slot_pending(s))
		atomic_compare_exchange_strong(&s->busy_since, &since, 0);
}

/* There is nothing to do until the gate opens, and the agent is told when it does. But the device
 * may have seen the gate open just before it closed, and go on (board.h). Then its end would not be
 * noticed, so the agent looks once more. */
static uint64_t stands_at_gate(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t again;

	x->progress_at = now;
	stops_working(q, now);
	if (q->closing)
		return now + 100 * FM_MS;
	if (!x->seen_at_gate)
		x->seen_at_gate = now;
	again = x->seen_at_gate + FM_XQ_LATE_LOOK;
	return now < again ? again : FM_NEVER;
}

/* A program that waits in the driver reports the end first, at no cost to the device. Its thread
 * may be gone, so the agent does not rely on this for long. */
static uint64_t says_itself_until(const struct fm_xq *q)
{
	return fm_add_sat(
		atomic_load_explicit(&q->waited_at, memory_order_relaxed), FM_XQ_LOOK_MAX);
}

/* The queue was told to stop in the middle of a command and has not come to a gate, though the
 * driver says that all has finished. It stays stopped until it does, and other queues of its
 * process wait. */
static bool strays(struct fm_xq *q)
{
	return !q->closing && q->cold->asked && fm_xq_is_unfenced(q);
}

uint64_t fm_xq_device_pump(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	bool open = fm_xq_may_run(q);

	note_progress(q, now);
	fm_xq_device_stopped(q, now);
	if (open)
		x->seen_at_gate = 0; /* when it closes again the device may be about to pass it */
	if (open && fm_slot_pending(q->slot))
		goes_on_working(q, now);
	if (!strays(q) && (!fm_slot_pending(q->slot) || (!q->closing && !fm_xq_end_matters(q)))) {
		x->tail_at = 0;
		return fm_slot_pending(q->slot) ? FM_NEVER : take_back(q, now);
	}
	if (!open && fm_slot_waits(q->slot))
		return stands_at_gate(q, now);
	x->seen_at_gate = 0;
	if (q->closing) {
		if (q->cold->asked)
			x->progress_at = now;
		if (now - FM_MIN(now, x->progress_at) > FM_XQ_GIVE_UP)
			fm_xq_advance(q, fm_xq_mark(q), now);
		return now + FM_XQ_LOOK_MAX;
	}
	if (!x->tail_at)
		x->tail_at = open ? now + q->spacing : now;
	/* A program that goes on launching has no end yet; a program that waits reports the end
	 * itself. */
	if (open && x->tail_mark != fm_xq_mark(q)) {
		x->tail_mark = fm_xq_mark(q);
		x->tail_at = FM_MAX(x->tail_at, now + FM_XQ_LOOK);
	}
	if (now >= (open ? FM_MAX(x->tail_at, says_itself_until(q)) : x->tail_at))
		fence(q, now);
	fm_xq_look_for_loss(q, now);
	return now + fm_xq_look(atomic_load(&q->edge_at), now);
}

/* Nothing tells whether the device has passed the last gate? Then it writes a word of its own. Not
 * with a guard, which keeps account of what is written. */
static void say_when_left(struct fm_xq *q)
{
	struct fm_gate_words w = words(q);
	struct fm_xq_cold *x = q->cold;

	if (x->pass == FM_PASS_SAID || atomic_load(&x->synced) >= x->told_by ||
		q->level >= FM_LEVEL_RUNNING)
		return;
	w.progress = &q->slot->left;
	if (q->ops->device_gate.write_fence(q->hwq, &w, FM_SLOT_LEFT / 2))
		return;
	x->pass = FM_PASS_UNKNOWN;
	x->told_by = UINT64_MAX;
}

/* The last call in which the hwqueue can be used; later only the board tells how far it is. If
 * commands can be stopped in their middle they need a gate behind them, so that the queue comes to
 * rest. The caller is a thread of the program, which may call the driver whatever other threads do
 * there. */
void fm_xq_device_close(struct fm_xq *q)
{
	uint64_t now = fm_now();

	q->cold->progress_at = now;
	if (fm_xq_is_unfenced(q) || fm_xq_is_stopped(q))
		fm_xq_device_place(q, false, now);
	else if (fm_slot_pending(q->slot))
		fence_in_order(q, now);
	say_when_left(q);
}

uint64_t fm_xq_device_owes(const struct fm_xq *q)
{
	const struct fm_xq_cold *x = q->cold;

	/* That all commands have finished is not enough: what the device writes comes behind them,
	 * and would be taken for the progress of the queue that has the slot next. */
	if (atomic_load(&x->synced) >= x->told_by)
		return 0;
	return x->pass == FM_PASS_SAID ? 2 * x->fenced : UINT64_MAX;
}

static uint64_t graph_estimate(struct fm_xq *q, uint64_t key)
{
	uint64_t ns = fm_xq_estimate(key);

	if (ns == UINT64_MAX || fm_est_at_most(ns))
		ns = FM_MIN(ns / 2, q->spacing / FM_XQ_GRAPH_PARTS);
	return FM_MIN(ns, q->spacing);
}

/* The spacing stays what it was when it was first used, for all queues of the process, so that
 * gates have the same places when the same commands are captured again. A queue that the program
 * has bound has a spacing of its own, because what is captured on it is launched on it. */
static uint64_t graph_spacing(struct fm_xq *q)
{
	const _Atomic uint32_t *shares =
		q->steered ? &q->slot->shares : &q->client->board->contended;
	uint64_t none = 0, wanted = spacing(q, shares, FM_XQ_UNSTOPPED_SPACING_LESS);

	return atomic_compare_exchange_strong(fm_xq_graph_spacing(q), &none, wanted) ? wanted
										     : none;
}

/* The places of gates depend only on what is captured. */
static uint64_t row_of(uint64_t before, uint64_t next)
{
	uint64_t h = (before ^ next) * UINT64_C(0x9e3779b97f4a7c15);

	return h ^ h >> 32;
}

static void enter_graph(struct fm_xq *q, uint64_t graph)
{
	struct fm_xq_cold *x = q->cold;

	if (x->inner_graph == graph)
		return;
	x->inner_graph = graph;
	x->inner_ns = x->inner_row = 0;
	x->inner_whole = q->level < FM_LEVEL_RUNNING;
}

/* Can there be gates in graphs? */
static bool takes_inner(const struct fm_xq *q)
{
	return q->device_gates && q->ops->device_gate.inner && !atomic_load(&q->client->dead);
}

void fm_xq_capture_whole(struct fm_xq *q, uint64_t graph)
{
	struct fm_xq_cold *x = q->cold;

	if (!takes_inner(q))
		return;
	pthread_mutex_lock(&x->lock);
	enter_graph(q, graph);
	x->inner_whole = true;
	pthread_mutex_unlock(&x->lock);
}

bool fm_xq_capture(struct fm_xq *q, uint64_t key, uint64_t kind, uint64_t graph, bool divisible)
{
	const struct fm_gate_words w = words(q);
	struct fm_xq_cold *x = q->cold;
	bool placed = false;
	uint64_t est, most;

	/* Once gates have been put into graphs, they are put into all later graphs, also while no
	 * scheduler is connected, because one graph may be updated by another. */
	if (!takes_inner(q) ||
		(atomic_load(&q->interval) == UINT64_MAX && !atomic_load(fm_xq_graph_spacing(q))))
		return false;
	pthread_mutex_lock(&x->lock);
	enter_graph(q, graph);
	x->inner_whole |= !divisible;
	est = graph_estimate(q, key);
	x->inner_ns += est;
	most = graph_spacing(q);
	if (!x->inner_whole)
		most = FM_MAX(most, q->spacing * FM_XQ_UNSTOPPED_SPACING_LESS);
	x->inner_row = row_of(row_of(x->inner_row, kind), most);
	if (fm_row_gated(x->inner_row, x->inner_ns > most) &&
		!q->ops->device_gate.inner(q->hwq, &w)) {
		x->inner_ns = est;
		atomic_store(&q->client->captured[q->slot_index], true);
		atomic_fetch_add_explicit(&q->slot->gates, 1, memory_order_relaxed);
		placed = true;
	}
	pthread_mutex_unlock(&x->lock);
	return placed;
}

bool fm_xq_capture_seam(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	bool placed;

	if (!takes_inner(q))
		return false;
	pthread_mutex_lock(&x->lock);
	placed = !q->ops->device_gate.inner(q->hwq, NULL);
	pthread_mutex_unlock(&x->lock);
	return placed;
}
