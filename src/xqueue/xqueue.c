/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XQueues: gates, trackers and the rules of when they open.
 *
 * Locks: x->lock guards the cold half and is held over driver calls. Driver callbacks (reached)
 * only try it, so that they never wait for a thread that waits for the driver: they advance the
 * board's counters, and whoever holds the lock, or comes next, takes the tracker over. c->lock may
 * be taken while x->lock is held, never the other way round.
 */
#include "segment.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A hwqueue whose commands may finish out of order can wait, natively, for something that a later
 * command sets off. If nothing moves for this many intervals the next gate opens all the same. */
#define PATIENCE 20

#define LEAD_ALONE 16u

/* Level 1 counts its window in as many parts, a tracker each. */
#define WINDOW_PARTS 4

bool fm_xq_may_run(struct fm_xq *q)
{
	return atomic_load(&q->slot->gate) == FM_GATE_OPEN && !atomic_load(&q->own_suspended);
}

void fm_xq_unref(struct fm_xq *q)
{
	if (atomic_fetch_sub(&q->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&q->cold->lock);
	free(q->cold->gate);
	free(q->cold);
	free(q);
}

void fm_xq_advance(struct fm_xq *q, uint64_t done, uint64_t now)
{
	struct fm_slot *s = q->slot;
	uint64_t seen = atomic_load(&s->done), busy, after;
	bool rests;

	while (seen < done && !atomic_compare_exchange_weak(&s->done, &seen, done))
		;
	if (seen >= done)
		return;
	atomic_store_explicit(&s->done_at, now, memory_order_relaxed);
	/* Taken before `begun` is read: a launch after that read sets a new one, and the exchange
	 * fails. */
	busy = atomic_load(&s->busy_since);
	rests = atomic_load(&s->begun) == done;
	after = rests || done >= atomic_load(&s->released) ? 0 : now;
	if (busy && atomic_compare_exchange_strong(&s->busy_since, &busy, after) && now > busy)
		atomic_fetch_add_explicit(&s->device_ns, now - busy, memory_order_relaxed);
	if (rests && atomic_load(&s->bells) & FM_BELL_IDLE)
		fm_client_bell(q->client);
	fm_turn_wake(q);
}

static void reached(void *cookie, uint64_t now);

/* Put a tracker behind what was launched. Lock held. */
static void track(struct fm_xq *q, uint64_t index)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_track *t = q->ops->track ? calloc(1, sizeof(*t)) : NULL;

	if (!t) {
		x->segments_done = FM_MAX(x->segments_done, index);
		return;
	}
	t->q = q;
	t->index = index;
	t->done = fm_xq_mark(q);
	t->n = index ? atomic_load_explicit(&q->seg_n, memory_order_relaxed) : 0;
	for (unsigned i = 0; i < FM_MIN(t->n, (unsigned)FM_SEG_KEYS); i++)
		t->key[i] = atomic_load_explicit(&q->seg_key[i], memory_order_relaxed);
	x->tracks++;
	atomic_fetch_add(&q->refs, 1);
	if (q->ops->track(q->hwq, reached, t) == 0)
		return;
	x->tracks--;
	x->segments_done = FM_MAX(x->segments_done, index);
	atomic_fetch_sub(&q->refs, 1);
	free(t);
}

static int gate_push(struct fm_xq_cold *x, struct fm_xq_gate g)
{
	if (x->gate_n == x->gate_cap) {
		size_t cap = x->gate_cap ? 2 * x->gate_cap : 16;
		struct fm_xq_gate *ring = malloc(cap * sizeof(*ring));

		if (!ring)
			return -ENOMEM;
		for (size_t i = 0; i < x->gate_n; i++)
			ring[i] = x->gate[(x->gate_head + i) % x->gate_cap];
		free(x->gate);
		x->gate = ring;
		x->gate_head = 0;
		x->gate_cap = cap;
	}
	x->gate[(x->gate_head + x->gate_n++) % x->gate_cap] = g;
	return 0;
}

/* Tell the board how far the hwqueue may get once `opened` of the gates are. Lock held. */
static void publish_released(struct fm_xq *q, size_t opened)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t front = opened < x->gate_n ? x->gate[(x->gate_head + opened) % x->gate_cap].before
					    : UINT64_MAX;

	/* Stopped in the middle of a command, it gets no further than it is. */
	if (x->interrupted)
		front = FM_MIN(front, atomic_load(&q->slot->done));
	atomic_store(&q->slot->released, front);
}

static void publish_gates(struct fm_xq *q)
{
	publish_released(q, 0);
	atomic_store(&q->gates_pending, (uint32_t)q->cold->gate_n);
}

/* How many segments may be open ahead of the one that runs. With nobody to make room for, more: so
 * the device never waits for us, and a newcomer waits for a few segments once. */
static unsigned lead(struct fm_client *c)
{
	bool contended = atomic_load_explicit(&c->board->contended, memory_order_relaxed);

	return contended ? c->set.lead : FM_MAX(c->set.lead, LEAD_ALONE);
}

/* Open the gates that are due. Lock held. */
static void open_gates(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_client *c = q->client;
	bool ungated = fm_client_ungated(c);
	bool stuck = !q->in_order && now - x->progress_at > PATIENCE * c->set.interval_ns;
	size_t opened = 0;

	if (!fm_xq_may_run(q))
		return;
	while (x->gate_n) {
		struct fm_xq_gate *g = &x->gate[x->gate_head];

		if (!ungated && !stuck && g->index > x->segments_done + lead(c))
			break;
		/* First say so, then look at the gate word once more: whoever closes the word and
		 * then reads that the queue is stalled can rely on it. */
		publish_released(q, 1);
		if (!fm_xq_may_run(q)) {
			publish_released(q, 0);
			break;
		}
		q->ops->reactivate(q->hwq, g->token);
		x->gate_head = (x->gate_head + 1) % x->gate_cap;
		x->gate_n--;
		opened++;
		stuck = false;
	}
	if (!opened)
		return;
	publish_gates(q);
	x->progress_at = now;
	if (fm_slot_pending(q->slot)) {
		uint64_t none = 0;

		/* It had come to rest at the gate: the segment behind it begins now. */
		if (atomic_compare_exchange_strong(&q->slot->busy_since, &none, now))
			x->segment_at = now;
	}
	fm_turn_wake(q);
}

/* Take over what callbacks left, oldest first. Lock held; returns how many references to drop. */
static unsigned collect(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_track *list = atomic_exchange(&x->reached, NULL), *ordered = NULL, *next;
	unsigned n = 0;

	for (; list; list = next) {
		next = list->next;
		list->next = ordered;
		ordered = list;
	}
	for (; ordered; ordered = next, n++) {
		struct fm_track *t = ordered;
		uint64_t start = FM_MAX(atomic_load(&q->edge_at), x->segment_at);

		next = t->next;
		if (t->index) {
			fm_xq_learn(q, t->key, t->n, fm_sub_sat(t->at, start), true);
			x->segments_done = FM_MAX(x->segments_done, t->index);
			x->segment_at = FM_MAX(x->segment_at, t->at);
		}
		x->progress_at = FM_MAX(x->progress_at, t->at);
		x->tracks--;
		free(t);
	}
	return n;
}

bool fm_xq_end_matters(struct fm_xq *q)
{
	return !q->closing && fm_slot_pending(q->slot) &&
	       (!fm_xq_may_run(q) || atomic_load(&q->client->board->contended));
}

/*
 * Unlock, and do what callbacks have left meanwhile: they found the lock taken. The caller has a
 * reference of its own. The agent is woken for what only it does.
 */
static void leave(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_client *c = q->client;
	bool agent;

	do {
		unsigned drop = collect(q);

		if (drop)
			open_gates(q, fm_now());
		agent = drop && !x->tracks && (q->closing || fm_xq_end_matters(q));
		pthread_mutex_unlock(&x->lock);
		if (drop)
			fm_turn_wake(q);
		while (drop--)
			fm_xq_unref(q);
		if (agent)
			fm_client_wake(c);
	} while (atomic_load(&x->reached) && pthread_mutex_trylock(&x->lock) == 0);
}

/*
 * The device got as far as a tracker. The next gate opens right here, in the driver's callback, so
 * that no thread must be woken between two segments; when the lock is taken its holder does it
 * (leave()).
 */
static void reached(void *cookie, uint64_t now)
{
	struct fm_track *t = cookie;
	struct fm_xq *q = t->q;

	/* The tracker's reference is dropped with the tracker, maybe before this function ends. */
	atomic_fetch_add(&q->refs, 1);
	t->at = now;
	fm_xq_advance(q, t->done, now);
	t->next = atomic_load(&q->cold->reached);
	while (!atomic_compare_exchange_weak(&q->cold->reached, &t->next, t))
		;
	if (pthread_mutex_trylock(&q->cold->lock) == 0)
		leave(q);
	fm_xq_unref(q);
}

/* A closed gate behind what was launched, and a tracker in front of it. Lock held. */
static void place_gate(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t index = x->gate_index + 1;
	struct fm_xq_gate g = {.index = index, .before = fm_xq_mark(q)};

	if (q->device_gates) {
		fm_xq_device_place(q, now);
		return;
	}
	track(q, index);
	x->gate_index = index;
	atomic_store_explicit(&q->seg_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&q->seg_n, 0, memory_order_relaxed);
	if (q->ops->deactivate(q->hwq, &g.token))
		return;
	if (gate_push(x, g)) {
		q->ops->reactivate(q->hwq, g.token);
		return;
	}
	if (x->gate_n == 1)
		x->progress_at = now;
	atomic_fetch_add_explicit(&q->slot->gates, 1, memory_order_relaxed);
	publish_gates(q);
	open_gates(q, now);
}

/* Level 1: is there as much under way as the window allows? What is under way may itself wait for
 * something that this very caller is to do next (set a user event): when nothing has moved for
 * PATIENCE intervals, the window does not count until something moves. Lock held. */
static bool window_full(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t done = atomic_load(&q->slot->done);

	if (fm_client_free_run(q->client) || x->gate_index < x->segments_done + WINDOW_PARTS)
		return false;
	if (done != x->held_at_done) {
		x->held_at_done = done;
		x->held_since = now;
	}
	return now - x->held_since < PATIENCE * q->client->set.interval_ns;
}

/* Level 1: the caller waits while the window is full or its group may not run. */
static void hold(struct fm_xq *q, uint64_t est, uint64_t start)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_client *c = q->client;
	uint64_t seg = fm_add_sat(atomic_load(&q->seg_ns), est), now = start;
	bool held = false, counted = seg <= c->set.window_ns / WINDOW_PARTS;

	for (;; now = fm_now()) {
		uint32_t turn = atomic_load(&x->turn);
		bool run = fm_xq_may_run(q), full;

		pthread_mutex_lock(&x->lock);
		if (!counted && atomic_load(&q->seg_n)) {
			track(q, ++x->gate_index);
			atomic_store(&q->seg_ns, 0);
			atomic_store(&q->seg_n, 0);
		}
		counted = true;
		full = window_full(q, now);
		atomic_store(&q->slot->released, run ? UINT64_MAX : fm_xq_mark(q));
		leave(q);
		if ((run && !full) || atomic_load(&c->dead))
			break;
		held = true;
		fm_turn_wait(q, turn, fm_now() + 10 * FM_MS);
	}
	if (held)
		atomic_fetch_add_explicit(&q->slot->held_ns, now - start, memory_order_relaxed);
	if (!atomic_load(&q->slot->busy_since))
		atomic_store(&q->slot->busy_since, now);
}

/* The queue was idle: somebody may wait to hear that it is not, and a new segment begins. */
static void edge(struct fm_xq *q, uint64_t now)
{
	struct fm_slot *s = q->slot;

	atomic_store_explicit(&q->seg_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&q->seg_n, 0, memory_order_relaxed);
	atomic_store(&q->edge_at, now);
	atomic_store(&q->edge_gates, atomic_load_explicit(&q->slot->gates, memory_order_relaxed));
	if (fm_xq_may_run(q))
		atomic_store(&s->busy_since, now);
	if (atomic_load(&s->bells) & FM_BELL_READY)
		fm_client_bell(q->client);
	/* While others wait for the device the agent watches for our end, also if nobody here
	 * waits. */
	if (atomic_load_explicit(&q->client->board->contended, memory_order_relaxed))
		fm_client_wake(q->client);
}

void fm_xq_begin_slow(struct fm_xq *q, uint64_t before, uint64_t est)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t interval = atomic_load(&q->interval), now;
	bool full, closed;

	if (atomic_load(&q->client->dead))
		return;
	now = fm_now();
	if (fm_slot_done(q->slot) == before)
		edge(q, now);
	if (interval == UINT64_MAX && fm_xq_may_run(q))
		return;
	if (q->level < FM_LEVEL_QUEUED) {
		hold(q, est, now);
		return;
	}
	pthread_mutex_lock(&x->lock);
	full = fm_add_sat(atomic_load(&q->seg_ns), est) > interval && atomic_load(&q->seg_n);
	closed = !fm_xq_may_run(q) && !atomic_load(&q->gates_pending);
	if (full || closed)
		place_gate(q, now);
	leave(q);
}

void fm_xq_synced_slow(struct fm_xq *q, uint64_t mark)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now, start, key[FM_SEG_KEYS];
	unsigned n;

	if (atomic_load(&q->client->dead))
		return;
	now = fm_now();
	fm_xq_advance(q, mark, now);
	if (mark != fm_xq_mark(q))
		return;
	pthread_mutex_lock(&x->lock);
	/* Everything is done: what was launched since the last gate is a finished segment. */
	n = atomic_load_explicit(&q->seg_n, memory_order_relaxed);
	start = FM_MAX(atomic_load(&q->edge_at), x->segment_at);
	for (unsigned i = 0; i < FM_MIN(n, (unsigned)FM_SEG_KEYS); i++)
		key[i] = atomic_load_explicit(&q->seg_key[i], memory_order_relaxed);
	/* When the device passed its last gate nobody here knows. */
	if (!q->device_gates || atomic_load(&q->slot->gates) == atomic_load(&q->edge_gates))
		fm_xq_learn(q, key, n, fm_sub_sat(now, start), false);
	leave(q);
}

void fm_xq_nudge(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;

	if (!atomic_load_explicit(&q->client->board->contended, memory_order_relaxed) ||
		!fm_slot_pending(q->slot) || atomic_load(&q->client->dead))
		return;
	pthread_mutex_lock(&x->lock);
	if (!x->tracks && !q->closing)
		track(q, 0);
	leave(q);
}

/* Level 3: stop and continue the running command as the gate says. Lock held. */
static void interrupt(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	bool run = fm_xq_may_run(q);
	uint64_t busy;

	if (q->level < FM_LEVEL_RUNNING || run != x->interrupted)
		return;
	if (run) {
		q->ops->restore(q->hwq);
		x->interrupted = false;
		publish_gates(q);
		if (fm_slot_pending(q->slot))
			atomic_store(&q->slot->busy_since, now);
		return;
	}
	if (!fm_slot_pending(q->slot) || q->ops->interrupt(q->hwq))
		return;
	x->interrupted = true;
	now = fm_now();
	atomic_store(&q->slot->released, atomic_load(&q->slot->done));
	busy = atomic_exchange(&q->slot->busy_since, 0);
	if (busy && now > busy)
		atomic_fetch_add(&q->slot->device_ns, now - busy);
	atomic_store(&q->slot->done_at, now);
}

/* Notice the end of what is under way, though nobody here waits for it. At once when the gate is
 * closed, else after an interval, so that short bursts cost nothing. */
static uint64_t watch_tail(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	if (x->tracks || !fm_xq_end_matters(q)) {
		x->tail_at = 0;
		return FM_NEVER;
	}
	if (!fm_xq_may_run(q))
		x->tail_at = now;
	else if (!x->tail_at)
		x->tail_at = now + q->client->set.interval_ns;
	if (now < x->tail_at)
		return x->tail_at;
	x->tail_at = 0;
	if (fm_xq_mark(q) <= atomic_load(&q->slot->done)) /* a launch is under way right now */
		return now + 50 * FM_US;
	track(q, 0);
	return FM_NEVER;
}

/* Nothing stands behind the gates of a closed queue whose commands are finished: they open whatever
 * the scheduler says, so that an idle queue of a stopped group can go. Lock held. */
static void open_last_gates(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;

	if (!q->closing || fm_slot_pending(q->slot))
		return;
	for (; x->gate_n; x->gate_n--) {
		q->ops->reactivate(q->hwq, x->gate[x->gate_head].token);
		x->gate_head = (x->gate_head + 1) % x->gate_cap;
	}
}

/* A closed queue is done: give its slot back. */
static bool finished(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;

	return q->closing && !x->tracks && !x->gate_n &&
	       (!q->device_gates || !fm_slot_pending(q->slot));
}

static void retire(struct fm_xq *q)
{
	struct fm_client *c = q->client;
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_QUEUE_GONE);
	m.queue_gone.slot = q->slot_index;
	pthread_mutex_lock(&c->lock);
	atomic_fetch_add(&c->board->governed, atomic_load(&q->slot->begun));
	/* A graph may have gates that look at it. */
	atomic_store(&q->slot->gate, FM_GATE_OPEN);
	c->queue[q->slot_index] = NULL;
	c->spoilt[q->slot_index] =
		q->device_gates && q->cold->told > atomic_load(&q->slot->progress);
	fm_client_send(c, &m);
	pthread_mutex_unlock(&c->lock);
	if (q->ops->release)
		q->ops->release(q->hwq);
	fm_xq_unref(q);
}

uint64_t fm_xq_pump(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t next;
	bool over;

	pthread_mutex_lock(&x->lock);
	leave(q);
	pthread_mutex_lock(&x->lock);
	interrupt(q, now);
	open_gates(q, now);
	next = q->device_gates ? fm_xq_device_pump(q, now) : watch_tail(q, now);
	if (!q->in_order && x->gate_n && fm_xq_may_run(q))
		next = FM_MIN(next, x->progress_at + (PATIENCE + 1) * q->client->set.interval_ns);
	open_last_gates(q);
	over = finished(q);
	leave(q);
	if (q->level < FM_LEVEL_QUEUED)
		fm_turn_wake(q);
	if (over)
		retire(q);
	return next;
}

void fm_xq_set_interval(struct fm_xq *q)
{
	struct fm_client *c = q->client;

	uint64_t interval = q->device_gates ? c->set.device_interval_ns : c->set.interval_ns;

	atomic_store(&q->interval, fm_client_ungated(c) ? UINT64_MAX : interval);
}

static enum fm_level choose_level(unsigned levels, enum fm_level wish)
{
	enum fm_level level = FM_LEVEL_PENDING;

	for (unsigned l = FM_LEVEL_QUEUED; l <= FM_LEVEL_RUNNING; l++)
		if (levels & 1u << l && (!wish || l <= wish))
			level = l;
	return level;
}

/* A slot for the queue, fresh as at the start; the daemon learns of it. */
static int enter(struct fm_xq *q)
{
	struct fm_client *c = q->client;
	int rc = -ENOSPC;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES && rc; i++) {
		if (c->queue[i] || c->spoilt[i])
			continue;
		c->queue[i] = q;
		q->slot_index = i;
		q->slot = &c->board->slot[i];
		memset(q->slot, 0, sizeof(*q->slot));
		atomic_store(&q->slot->gate, FM_GATE_OPEN);
		atomic_store(&q->slot->released, UINT64_MAX);
		atomic_store(&q->slot->level, q->level);
		fm_xq_set_interval(q);
		fm_client_send_queue(c, q);
		rc = 0;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int fm_xq_create(struct fm_xq **out, struct fm_client *c, const struct fm_xq_config *config)
{
	struct fm_xq *q = calloc(1, sizeof(*q));
	struct fm_xq_cold *x = calloc(1, sizeof(*x));
	enum fm_level wish = config->level_wish ? config->level_wish : c->set.level_wish;
	int rc;

	if (!q || !x) {
		free(q);
		free(x);
		return -ENOMEM;
	}
	q->client = c;
	q->ops = config->ops;
	q->hwq = config->hwq;
	q->group = config->group;
	q->in_order = config->in_order;
	q->cold = x;
	q->levels = q->ops->levels(q->hwq);
	q->level = choose_level(q->levels, wish);
	q->device_gates = q->ops->gate && q->level >= FM_LEVEL_QUEUED;
	atomic_init(&q->refs, 1);
	strncpy(q->device, config->device, sizeof(q->device) - 1);
	pthread_mutex_init(&x->lock, NULL);
	rc = enter(q);
	if (rc) {
		fm_xq_unref(q);
		return rc;
	}
	*out = q;
	return 0;
}

/* The tail is tracked while the hwqueue is still there for it. */
void fm_xq_close(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_client *c = q->client;

	if (atomic_load(&c->dead))
		return;
	/* Once it is closing the agent may retire it at any time. */
	atomic_fetch_add(&q->refs, 1);
	pthread_mutex_lock(&x->lock);
	if (q->device_gates)
		fm_xq_device_close(q);
	else if (fm_slot_pending(q->slot))
		track(q, 0);
	q->closing = true;
	leave(q);
	fm_client_wake(c);
	fm_xq_unref(q);
}

int fm_xq_suspend(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now = fm_now();

	pthread_mutex_lock(&x->lock);
	atomic_store(&q->own_suspended, true);
	if (q->level >= FM_LEVEL_QUEUED && !x->gate_n)
		place_gate(q, now);
	interrupt(q, now);
	watch_tail(q, now);
	leave(q);
	return 0;
}

int fm_xq_resume(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now = fm_now();

	pthread_mutex_lock(&x->lock);
	atomic_store(&q->own_suspended, false);
	interrupt(q, now);
	open_gates(q, now);
	leave(q);
	fm_turn_wake(q);
	return 0;
}

int fm_xq_wait(struct fm_xq *q, uint64_t count, uint64_t timeout_ns)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t deadline = fm_add_sat(fm_now(), timeout_ns);

	while (atomic_load(&q->slot->done) < count) {
		uint64_t now = fm_now(), look = q->device_gates ? FM_DEVICE_LOOK : 100 * FM_MS;
		uint32_t turn = atomic_load(&x->turn);

		pthread_mutex_lock(&x->lock);
		if (q->device_gates)
			fm_xq_device_look(q, now);
		else if (!x->tracks && fm_xq_mark(q) >= count)
			track(q, 0);
		leave(q);
		if (atomic_load(&q->slot->done) >= count)
			break;
		if (now >= deadline)
			return -ETIMEDOUT;
		fm_turn_wait(q, turn, FM_MIN(deadline, now + look));
	}
	return 0;
}

bool fm_xq_stalled(struct fm_xq *q)
{
	return !fm_slot_pending(q->slot) || (!fm_xq_may_run(q) && fm_slot_stalled(q->slot));
}
