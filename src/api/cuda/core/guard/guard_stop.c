/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping, and going on. All of it is under the XQueue's lock.
 *
 * The queue's progress is 2 * n + 1 (odd) while it waits at a gate, and 2 * m when it goes on. It
 * looks at `hold` in between. The progress may be a moment old: the queue may have seen the gate
 * open and not have written so yet. Therefore `hold` is set first. Only if the progress then says
 * that the queue runs is the stop word set. From then on, odd means that the queue waits at a gate
 * that it has reached after `hold` was set, and that nothing behind that gate has begun.
 */
#include "base/clock.h"
#include "base/util.h"
#include "code/cuda/image.h"
#include "guard_internal.h"
#include <errno.h>

/* How many launches are made again at one time: fewer than block a stream. */
#define CHUNK 256u

static bool waits(const struct fm_cu_guard *g)
{
	return g->progress && atomic_load(g->progress) & 1;
}

/* Some launch has not ended, or that is not known. */
static bool in_flight(struct fm_cu_guard *g)
{
	uint64_t progress = g->progress ? atomic_load(g->progress) : 0;

	return atomic_load(&g->launched) > fm_cu_records_past(&g->records, progress);
}

/* Makes a call to the driver in the guard's context. False: it fails. */
static bool in_context(struct fm_cu_guard *g, bool (*call)(struct fm_cu_guard *g))
{
	bool ok;
	int mode;

	if (!fm_cu_guard_enter(g, &mode))
		return false;
	ok = call(g);
	fm_cu_guard_leave(g, mode);
	return ok;
}

/* The n-th of the launches that may be left out. */
static struct fm_cu_record *launch(struct fm_cu_guard *g, uint64_t n)
{
	return g->graph ? &g->graph->node[n - 1] : fm_cu_record(&g->records, n);
}

static bool put_stop(struct fm_cu_guard *g)
{
	union fm_cu_mem_op op = fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_32, fm_cu_guard_block(g), 1);

	return !g->cu->stream_mem_ops(g->control, 1, &op, 0);
}

static bool put_look(struct fm_cu_guard *g)
{
	union fm_cu_mem_op op = fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_32, fm_cu_guard_block(g), 0);

	return !g->cu->stream_mem_ops(g->control, 1, &op, 0) && fm_cu_look(g);
}

/* Blocks that are killed begin anew: if that went on, the launch would never end. So it may be cut
 * short a few times, and stops between two blocks then. */
static uint64_t may_be_killed(struct fm_cu_record *rec, bool rest_of_it)
{
	uint64_t may = rec->number & FM_GUARD_KILL;

	if (may && rest_of_it && rec->cuts++ >= FM_CU_KILLS_MOST)
		may = 0;
	return may;
}

/* Makes a launch once more, under another number, because the control block knows what was decided
 * for the last one. Its bits stay. */
static bool put_again(struct fm_cu_guard *g, struct fm_cu_record *rec, bool rest_of_it)
{
	struct fm_cu_launch_config config = rec->config;
	size_t bytes = rec->bytes;
	void *extra[] = {
		FM_CU_EXTRA_BUFFER, rec->params, FM_CU_EXTRA_SIZE, &bytes, FM_CU_EXTRA_END};
	uint64_t *ours = (uint64_t *)(void *)(rec->params + bytes - FM_GUARD_BYTES), n;
	struct fm_cu_record decides = {.whole = rec->whole};

	config.stream = fm_cu_guard_again(g);
	if (g->graph)
		g->graph->renumbered = true;
	n = ++*(g->graph ? &g->graph->number : &g->number);
	rec->number = may_be_killed(rec, rest_of_it) | UINT64_C(1) << 60 | fm_cu_guard_number(n);
	decides.number = rec->number;
	fm_cu_guard_params(ours, fm_cu_guard_block(g), &decides);
	if (rest_of_it && !rec->whole)
		ours[2] |= FM_GUARD_AGAIN;
	return !g->cu->launch(&config, rec->function, NULL, extra);
}

/* Clears the note that a launch has left blocks out. */
static bool forget(struct fm_cu_guard *g)
{
	union fm_cu_mem_op op = fm_cu_guard_op(
		FM_CU_OP_WRITE_VALUE_64, fm_cu_guard_block(g) + FM_CU_BLOCK_FIRST, 0);

	return !g->cu->stream_mem_ops(fm_cu_guard_again(g), 1, &op, 0);
}

/* What a pad does not take is made again on the whole device, when that may be. */
static bool refused(struct fm_cu_guard *g)
{
	if (g->pad)
		g->pad_fails = true;
	return g->pad;
}

static bool put_chunk(struct fm_cu_guard *g)
{
	if (g->first && !forget(g))
		return refused(g);
	for (unsigned i = 0; i < CHUNK && g->todo <= g->rest; i++) {
		if (!put_again(g, launch(g, g->todo), g->first))
			return refused(g);
		g->first = false;
		g->todo++;
	}
	return true;
}

/* While a queue rests, nothing else writes its progress. */
static void say(struct fm_cu_guard *g, bool stands)
{
	if (g->progress)
		atomic_store(
			g->progress, stands ? g->rest_progress : g->rest_progress & ~UINT64_C(1));
}

/* Fail open: the device does not answer as it should, and most likely never will. */
static void give_up(struct fm_cu_guard *g)
{
	if (g->cover)
		say(g, false);
	else if (g->stage == FM_CU_AGAIN)
		say(g, true);
	fm_cu_guard_abandon(g);
}

bool fm_cu_guard_stop_again(struct fm_cu_guard *g)
{
	if (g->stop)
		return true;
	g->stop = true;
	if (in_context(g, put_stop))
		return true;
	give_up(g);
	return false;
}

static void look(struct fm_cu_guard *g)
{
	g->stage = FM_CU_LOOKING;
	g->stop = false;
	if (!in_context(g, put_look))
		give_up(g);
}

/* If blocks of a launch were left in loops, or killed, something of it has run, whatever is left. A
 * graph has no save area. */
static bool left_in_loops(struct fm_cu_guard *g)
{
	uint64_t before = g->loops;

	if (g->graph)
		return false;
	g->loops = g->shared->head.left;
	return g->loops != before;
}

/* Reads from the control block which launch was the first to leave blocks out, and how many of its
 * own. The launches behind it, up to `last`, have left out all of theirs. */
static void learn(struct fm_cu_guard *g, uint64_t last)
{
	uint32_t *count = g->graph ? &g->graph->count : &g->count;
	uint64_t out = (uint32_t)(g->shared->head.count - *count);
	uint64_t number = g->shared->head.first, n = g->graph ? 1 : g->records.first;
	bool in_loops = left_in_loops(g);
	struct fm_cu_record *rec;

	*count = g->shared->head.count;
	if (!number) {
		g->inside = g->first; /* its bits are there still: a pad did not take it */
		g->half = g->first ? g->half : 0;
		return;
	}
	g->first = true;
	while (n <= last && launch(g, n)->number != number)
		n++;
	if (n > last) {
		in_context(g, forget);
		give_up(g); /* the program has overwritten the control block */
		return;
	}
	rec = launch(g, n);
	g->inside = !rec->whole && (in_loops || out < (n == g->half ? g->left : rec->blocks));
	g->half = n;
	g->left = out;
	g->todo = n;
}

static bool idle(struct fm_cu_guard *g, CUstream stream)
{
	fm_cu_result rc;
	int mode;

	if (!fm_cu_guard_enter(g, &mode)) {
		give_up(g);
		return false;
	}
	rc = g->cu->stream_query(stream);
	fm_cu_guard_leave(g, mode);
	if (rc && rc != FM_CU_ERROR_NOT_READY)
		give_up(g);
	return !rc;
}

void fm_cu_guard_doubt(struct fm_cu_guard *g)
{
	if (!atomic_load(&g->broken))
		idle(g, fm_cu_guard_again(g));
}

static void open_gates(struct fm_cu_guard *g)
{
	if (g->cover)
		say(g, false); /* the device writes what comes next */
	else if (g->stage == FM_CU_AGAIN)
		say(g, true);
	if (g->graph)
		fm_cu_graph_let_go(g->graph);
	fm_cu_guard_hold(g, false);
	fm_cu_guard_runs(g);
}

void fm_cu_guard_again_all(struct fm_cu_guard *g)
{
	if (g->stage != FM_CU_AGAIN)
		say(g, false);
	g->stage = FM_CU_AGAIN;
	if (!in_context(g, put_chunk))
		give_up(g);
}

/* The queue rests at a gate, or at a cover of the graph. At a cover the queue does not report that
 * it waits, so the agent does in its place. */
static bool rests(struct fm_cu_guard *g)
{
	uint64_t last = 0, let = atomic_load(&g->let);

	if (let && (atomic_load(&g->shared->at) <= let || !waits(g)))
		return false; /* it was let past that gate, and has not come to the next one */
	g->cover = !waits(g) && g->graph && fm_cu_graph_covered(g->graph, &last);
	if (!g->cover && !waits(g))
		return false;
	g->rest_progress = g->progress ? atomic_load(g->progress) | g->cover : 0;
	if (g->cover)
		g->rest = last;
	else
		g->rest =
			g->graph ? g->graph->n : fm_cu_records_rest(&g->records, g->rest_progress);
	if (g->cover)
		say(g, true);
	atomic_store(&g->let, 0);
	return true;
}

/* All that was made again has ended. */
static void made(struct fm_cu_guard *g)
{
	if (g->todo <= g->rest && !g->pad_fails) {
		fm_cu_guard_again_all(g);
		return;
	}
	if (!g->pad) {
		open_gates(g);
		return;
	}
	g->stage = FM_CU_PARKED;
	g->inside = false;
	say(g, true);
}

/* What it says while it is let past that gate: that it runs, and less than the device writes when
 * it has gone past. With nothing launched in front of the gate both would be the same, and nobody
 * could tell whether it has. */
static uint64_t let_says(const struct fm_cu_guard *g)
{
	return FM_MAX(g->rest_progress & ~UINT64_C(1), UINT64_C(2)) - 2;
}

/* A queue that pads is let past its gate: what is behind it leaves out all its blocks. If it was
 * just going past that gate when it was held it rests at the next one, and nothing of it is left
 * out. */
void fm_cu_guard_pass(struct fm_cu_guard *g)
{
	uint64_t says = g->rest_progress;

	if (!atomic_compare_exchange_strong(g->progress, &says, let_says(g))) {
		atomic_store(&g->let, 0);
		g->stage = FM_CU_STOPPING;
		return;
	}
	g->stage = FM_CU_ARMING;
	fm_cu_guard_stop_again(g);
}

static void let_past(struct fm_cu_guard *g)
{
	g->stage = FM_CU_STOPPING;
	atomic_store(&g->shared->limit, atomic_load(&g->let));
}

void fm_cu_guard_step(struct fm_cu_guard *g)
{
	enum fm_cu_stage stage = g->stage;

	switch (stage) {
	case FM_CU_STOPPING:
		if (!rests(g))
			return;
		g->todo = g->rest + 1;
		g->half = 0;
		look(g);
		return;
	case FM_CU_LOOKING:
		if (!idle(g, g->control))
			return;
		g->stage = FM_CU_PARKED;
		learn(g, g->first ? g->todo : g->todo - 1);
		g->inside |= g->cover;
		return;
	case FM_CU_AGAIN:
		if (!idle(g, fm_cu_guard_again(g)))
			return;
		if (g->stop) {
			say(g, true);
			look(g);
		} else {
			made(g);
		}
		return;
	case FM_CU_ARMING:
		if (idle(g, g->control))
			let_past(g);
		return;
	default:
		return;
	}
}

/* Chooses the word that stops what runs, in a queue with this progress: between two gates are
 * launches of the stream, or of one graph. False: that graph is still to come, behind a gate; or
 * the last launch is over by now, and there may be no gate for the queue to reach. */
static bool choose(struct fm_cu_guard *g, uint64_t progress)
{
	uint64_t n = fm_cu_records_past(&g->records, progress) + 1;
	struct fm_cu_record *rec =
		n <= atomic_load(&g->launched) ? fm_cu_record(&g->records, n) : NULL;

	g->graph = rec ? rec->graph : NULL;
	if (!g->graph)
		return rec;
	if (progress < rec->from)
		return false;
	fm_cu_graph_number(g->graph);
	return true;
}

/* A graph waits at a gate of its own. When that gate opens the graph runs dry, and then what it has
 * left out is launched again. Nothing needs to be done before. */
static bool at_inner_gate(const struct fm_cu_guard *g)
{
	return g->graph && fm_cu_graph_stands(g->graph);
}

/* Has the stream passed everything at which it may wait for a thread of the program? That thread
 * may itself wait until nothing is stopped, and then the stream would not come to rest. Between two
 * gates all such waits are in front of the launches, because a wait behind launches has a gate in
 * front of it. */
static bool has_come(struct fm_cu_guard *g)
{
	uint64_t progress = g->progress ? atomic_load(g->progress) : 0;
	uint64_t n = fm_cu_records_past(&g->records, progress) + 1;

	return n > atomic_load(&g->launched) ||
	       (int32_t)(atomic_load(&g->shared->past) - fm_cu_record(&g->records, n)->mark) >= 0;
}

/* Holds the graph from now on, at its next cover. False: not just now. */
static bool hold_graph(struct fm_cu_graph *graph)
{
	return !graph->let_be && fm_cu_graph_hold(graph) && !fm_cu_graph_waits(graph);
}

/* Streams that have work occupy the device's channels, which the driver assigns as it likes. Two
 * channels are kept for our own streams, with one more for each green context and each pad; one is
 * kept for streams that we do not know of, and one for streams that get work during a stop. */
#define CHANNELS_KEPT 3u

bool fm_cu_channels_left(unsigned at_work)
{
	return at_work + CHANNELS_KEPT + fm_cu_places() + fm_cu_pads() <= fm_cu_channels();
}

/* It stands at a gate from which it could be let go on in a pad. */
static bool at_numbered(const struct fm_cu_guard *g)
{
	uint64_t from = atomic_load(&g->numbered);

	return atomic_load(&g->may_pad) && from && atomic_load(&g->shared->at) >= from;
}

/* -EAGAIN: not just now, because the program has a call in the driver that may wait for the device,
 * or the stream may be where it waits for the program. -EINPROGRESS: too many streams have work.
 * They are counted when no thread can give work to another stream any more without looking. */
static int begin_stop(struct fm_cu_queue *q)
{
	struct fm_cu_guard *g = q->guard;
	uint64_t progress;

	if (!has_come(g) || !fm_cu_stop_begin(g->turnstile))
		return -EAGAIN;
	if (q->has_room && !q->has_room(q)) {
		fm_cu_stop_end(g->turnstile);
		return -EINPROGRESS;
	}
	g->stage = FM_CU_STOPPING;
	g->cover = false;
	g->graph = NULL;
	fm_cu_guard_hold(g, true);
	progress = g->progress ? atomic_load(g->progress) : 0;
	/* It stays where it is, so that it may go on in the pad, if it has not just gone past that
	 * gate all the same (went_past). */
	if (progress & 1 && at_numbered(g))
		return 0;
	if (progress & 1 || !choose(g, progress)) {
		open_gates(g);
		return 0;
	}
	if (!has_come(g) || (g->graph && !hold_graph(g->graph))) {
		open_gates(g);
		return at_inner_gate(g) ? -EALREADY : -EAGAIN;
	}
	g->stop = true;
	if (!in_context(g, put_stop))
		give_up(g);
	return 0;
}

static bool is_there(const struct fm_cu_queue *q)
{
	return q->guard && !atomic_load(&q->guard->broken);
}

/* At rest, and what is left is known. */
static void leave_pad(struct fm_cu_guard *g)
{
	fm_cu_pad_put(g);
	atomic_store(&g->wants_gate, false);
	g->move_at = g->put_at = 0;
	g->pad_fails = false;
}

/* The gate is open. What runs in the pad is stopped there and goes on everywhere, unless little of
 * it is left. If that was wrong it is stopped a little later. */
static void move_back(struct fm_cu_guard *g)
{
	uint64_t now, ran;

	atomic_store(&g->wants_gate, true);
	if (g->stage != FM_CU_AGAIN || g->stop)
		return;
	now = fm_now();
	ran = g->put_at ? now - g->put_at : 0;
	if (!g->move_at)
		g->move_at = g->stretch && fm_sub_sat(g->stretch, ran) < FM_CU_MOVE_WORTH
				     ? now + FM_CU_MOVE_WORTH
				     : now;
	if (now >= g->move_at)
		fm_cu_guard_stop_again(g);
}

/* It was let past a gate, which has closed again before the device went past. There it stands, with
 * the stop word set. Whenever it goes on, what is behind the gate leaves out its blocks, and it
 * rests at the next one. */
static bool stands_though_let(struct fm_cu_guard *g)
{
	uint64_t let = atomic_load(&g->let), said = let_says(g);

	if (g->stage != FM_CU_STOPPING || !let || !g->progress || atomic_load(&g->shared->at) > let)
		return false;
	return waits(g) || atomic_compare_exchange_strong(g->progress, &said, g->rest_progress);
}

static int stands_there(struct fm_cu_guard *g)
{
	leave_pad(g);
	atomic_store(&g->wants_gate, true); /* behind what comes next, when it goes on */
	return -EALREADY;
}

/* It was just going past a gate when it was held there. Nothing of it was left out, and there may
 * be no gate for it to come to. */
static bool went_past(const struct fm_cu_guard *g)
{
	bool held = g->stage == FM_CU_STOPPING || (g->stage == FM_CU_PARKED && g->todo > g->rest);

	return held && !g->stop && !g->graph && !g->cover && !atomic_load(&g->let) && !waits(g);
}

static void let_go(struct fm_cu_guard *g)
{
	leave_pad(g);
	open_gates(g);
}

/* It stands at a gate, and is not to be held there: it cannot go on from there in a pad, or waits
 * of the stream for the program come behind that gate, in front of the next launch. */
static bool stands_for_good(struct fm_cu_guard *g)
{
	return waits(g) && (!at_numbered(g) || !has_come(g));
}

int fm_cu_guard_stops(struct fm_cu_queue *q, bool shut)
{
	struct fm_cu_guard *g = q->guard;
	int rc;

	if (is_there(q) && went_past(g) && (shut || !in_flight(g)))
		let_go(g); /* it is stopped anew, if there is anything to stop */
	if (!is_there(q) || (g->stage == FM_CU_RUNS && (!in_flight(g) || stands_for_good(g))))
		return -EALREADY;
	rc = g->stage == FM_CU_RUNS ? begin_stop(q) : 0;
	if (rc)
		return rc;
	if (g->stage == FM_CU_AGAIN)
		fm_cu_guard_stop_again(g);
	/* Also without the pad: it may have seemed to stand, and have gone past (stands_there). */
	atomic_store(&g->wants_gate, g->stage != FM_CU_PARKED && (g->pad || atomic_load(&g->let)));
	fm_cu_guard_step(g);
	fm_cu_guard_step(g);
	if (g->stage == FM_CU_RUNS)
		return -EALREADY;
	if (g->stage == FM_CU_PARKED)
		leave_pad(g);
	if (shut && stands_though_let(g))
		return stands_there(g);
	if (g->stage != FM_CU_PARKED)
		return g->stage == FM_CU_STOPPING && at_inner_gate(g) ? -EALREADY : -EINPROGRESS;
	return g->inside ? 0 : -EALREADY;
}

int fm_cu_interrupt(void *hwq)
{
	return fm_cu_guard_stops(hwq, true);
}

int fm_cu_restore(void *hwq)
{
	struct fm_cu_queue *q = hwq;
	struct fm_cu_guard *g = q->guard;
	uint64_t until = fm_now() + FM_CU_STEP_SPIN;

	while (is_there(q) && g->stage != FM_CU_RUNS) {
		enum fm_cu_stage before = g->stage;

		if (went_past(g)) {
			let_go(g);
			break;
		}
		if (g->pad && g->stage != FM_CU_PARKED)
			move_back(g);
		if (g->stage == FM_CU_PARKED)
			leave_pad(g);
		if (g->stage != FM_CU_PARKED)
			fm_cu_guard_step(g);
		else if (g->todo <= g->rest)
			fm_cu_guard_again_all(g);
		else
			open_gates(g);
		if (g->stage == before && fm_now() >= until)
			return -EAGAIN;
	}
	return 0;
}

bool fm_cu_stopped(void *hwq)
{
	const struct fm_cu_queue *q = hwq;

	return is_there(q) && q->guard->stage != FM_CU_RUNS;
}

bool fm_cu_pending(void *hwq)
{
	const struct fm_cu_queue *q = hwq;

	return fm_cu_stopped(hwq) || (q->guard && in_flight(q->guard));
}

unsigned fm_cu_max_unfenced(void *hwq, unsigned n)
{
	struct fm_cu_queue *q = hwq;

	if (!is_there(q) || !q->max_unfenced || fm_cu_guard_open(q->guard) < n)
		return 0;
	return q->max_unfenced(q);
}

/* It was let past its last gate, and is to come to rest. */
static FM_COLD bool let_past_last(const struct fm_cu_guard *g)
{
	uint64_t let = atomic_load(&g->let);

	return let && atomic_load(&g->gates) == let;
}

FM_HOT bool fm_cu_unfenced(void *hwq)
{
	const struct fm_cu_queue *q = hwq;

	if (!is_there(q))
		return false;
	if (FM_UNLIKELY(atomic_load_explicit(&q->guard->wants_gate, memory_order_relaxed)) &&
		let_past_last(q->guard))
		return true;
	return fm_cu_guard_uncovered(q->guard);
}
