/* SPDX-License-Identifier: Apache-2.0 */
/* The life of XQueues, what the agent does for each, and what the library asks of a single
 * queue. */
#include "progress.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void fm_xq_unref(struct fm_xq *q)
{
	struct fm_track *t, *next;

	if (atomic_fetch_sub(&q->refs, 1) != 1)
		return;
	for (t = q->cold->spare; t; t = next) {
		next = t->next;
		free(t);
	}
	pthread_mutex_destroy(&q->cold->order);
	pthread_mutex_destroy(&q->cold->lock);
	pthread_mutex_destroy(&q->cold->gates);
	free(q->cold->gate);
	free(q->cold);
	free(q);
}

/* The gates of a closed queue whose commands are finished open whatever the scheduler says, because
 * no command is behind them. So an idle queue of a stopped group can be retired. Lock held. */
static void open_last_gates(struct fm_xq *q)
{
	if (q->closing && !fm_slot_pending(q->slot))
		fm_xq_open_all(q);
}

/* Is a thread of the program in a call for this queue, or about to leave one? It uses the queue
 * without a reference. The order is that of fm_xq_end_slow(), the other way round. */
static bool is_in_call(struct fm_xq *q)
{
	uint64_t mark = fm_xq_mark(q);

	return mark != atomic_load(&q->slot->begun) || atomic_load(&q->calls);
}

/* A closed queue that is kept by such calls only. They are looked at again and again, since nothing
 * says that they have ended. Other programs do not wait for them for ever: while the queue may run,
 * its work counts as finished after FM_XQ_GIVE_UP. Returns when to look again. Lock held. */
static uint64_t await_calls(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	if (!q->closing || !is_in_call(q)) {
		x->calls_since = 0;
		return FM_NEVER;
	}
	if (!x->calls_since || !fm_xq_may_run(q))
		x->calls_since = now;
	if (now - x->calls_since <= FM_XQ_GIVE_UP)
		return now + fm_xq_look(x->calls_since, now);
	if (!x->tracks && fm_ring_is_empty(q))
		fm_xq_advance(q, atomic_load(&q->slot->begun), now);
	return now + FM_XQ_CALLS_LOOK;
}

/* True if a closed queue is done, what was stopped in its middle has gone on, no thread of the
 * program is in a call for it, and no callback that opens gates without the lock is about to note
 * that: the slot is another queue's soon. From then on the queue is gone; `passed` keeps whether
 * everything that it launched is known to be over. Lock held. */
static bool finished(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;

	x->gone = q->closing && fm_xq_progress(q)->told_all(q) && !atomic_load(&x->alone) &&
		  !fm_xq_is_stopped(q) && !is_in_call(q);
	if (x->gone)
		atomic_store(&x->passed, FM_MAX(atomic_load(&x->synced),
						 fm_slot_progress(q->slot)) >= fm_xq_mark(q));
	return x->gone;
}

/* Has the device passed the last gate that looks at the slot? If progress is odd, the device is
 * stalled there, or is just going past. */
static bool is_passed(const struct fm_client *c, unsigned slot)
{
	const struct fm_slot *s = &c->board->slot[slot];
	uint64_t progress = atomic_load(&s->progress);

	return !c->owed[slot] || atomic_load(&s->left) == FM_SLOT_LEFT ||
	       (!(progress & 1) && progress >= c->owed[slot]);
}

/* The daemon takes it for another queue in the same slot. */
void fm_xq_move(struct fm_xq *q, unsigned group)
{
	struct fm_client *c = q->client;
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_QUEUE_GONE);
	m.queue_gone.slot = q->slot_index;
	pthread_mutex_lock(&c->lock);
	if (q->group != group && c->queue[q->slot_index] == q) {
		q->group = group;
		fm_client_send(c, &m);
		fm_client_send_queue(c, q);
	}
	pthread_mutex_unlock(&c->lock);
}

static void retire(struct fm_xq *q)
{
	struct fm_client *c = q->client;
	union fm_msg m;
	uint64_t owes;

	fm_msg_init(&m, FM_MSG_QUEUE_GONE);
	m.queue_gone.slot = q->slot_index;
	pthread_mutex_lock(&c->lock);
	/* A graph may have gates that look at this slot. */
	atomic_store(&q->slot->gate, FM_GATE_OPEN);
	atomic_store(&q->slot->hold, FM_HOLD_NONE);
	c->queue[q->slot_index] = NULL;
	if (c->rests)
		fm_rest_left(q);
	c->owed[q->slot_index] = owes = fm_xq_device_owes(q);
	if (is_passed(c, q->slot_index))
		c->owed[q->slot_index] = 0;
	/* Its commands are counted in one place from now on. The daemon may never read the message,
	 * if the program ends now, and then adds up the slots that it knew. */
	atomic_fetch_add(&c->board->governed, atomic_exchange(&q->slot->begun, 0));
	fm_client_send(c, &m);
	pthread_mutex_unlock(&c->lock);
	if (q->ops->release)
		q->ops->release(q->hwq, owes == UINT64_MAX);
	fm_xq_unref(q);
}

/* The thread that has the lock may wait in the driver until the device has gone on, and the device
 * may wait for us. The other work for this queue is not urgent; but the queue may yield to
 * others. */
static uint64_t shut_out(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	fm_xq_open_alone(q, now);
	if (!x->shut_out_at)
		x->shut_out_at = now;
	if (fm_xq_yield(q, false, now))
		fm_client_bell(q->client);
	return now + fm_xq_look(x->shut_out_at, now);
}

/* False: the lock could not be taken now. It is usually free soon. */
static bool lock_to_pump(struct fm_xq *q)
{
	uint64_t until;

	if ((!q->device_gates && !fm_xq_opens_alone(q)) || atomic_load(&q->client->stop)) {
		fm_xq_open_alone(q, fm_now());
		pthread_mutex_lock(&q->cold->lock);
		return true;
	}
	if (!pthread_mutex_trylock(&q->cold->lock))
		return true;
	until = fm_now() + (q->cold->shut_out_at ? FM_XQ_LOCK_MOST / 10 : FM_XQ_LOCK_MOST);
	while (pthread_mutex_trylock(&q->cold->lock))
		if (fm_now() > until)
			return false;
	return true;
}

void fm_xq_pump_stop(struct fm_xq *q)
{
	if (q->level < FM_LEVEL_RUNNING || !q->device_gates || fm_xq_may_run(q) || !lock_to_pump(q))
		return;
	fm_xq_interrupt(q, fm_now());
	fm_xq_leave(q);
}

uint64_t fm_xq_pump(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t next, look;
	bool over, changes;

	look = fm_xq_pad_prepare(q, now);
	if (!lock_to_pump(q))
		return shut_out(q, now);
	fm_xq_leave(q);
	if (!lock_to_pump(q))
		return shut_out(q, now);
	x->shut_out_at = 0;
	if (fm_xq_is_widened(q))
		fm_xq_set_interval(q);
	fm_xq_reap(q);
	look = FM_MIN(look, fm_xq_interrupt(q, now));
	fm_xq_open_gates(q, now);
	look = FM_MIN(look, fm_xq_device_reach(q, now));
	next = FM_MIN(look, fm_xq_progress(q)->watch(q, now));
	if (!q->in_order && atomic_load(&q->gates_pending) && fm_xq_may_run(q))
		next = FM_MIN(next, x->progress_at + (FM_XQ_PATIENCE + 1) * q->spacing);
	changes = fm_xq_steer(q);
	changes = fm_xq_yield(q, true, now) || changes;
	next = FM_MIN(next, fm_xq_yield_look(q, now));
	next = FM_MIN(next, await_calls(q, now));
	open_last_gates(q);
	over = finished(q);
	if (!over && q->closing && atomic_load(&x->alone))
		next = FM_MIN(next, now + FM_XQ_LOOK);
	fm_xq_leave(q);
	fm_xq_tell_turn(q);
	if (FM_UNLIKELY(x->looked))
		x->looked(q->hwq);
	if (changes)
		fm_client_bell(q->client);
	if (q->level < FM_LEVEL_QUEUED)
		fm_turn_wake(q);
	if (over)
		retire(q);
	return next;
}

void fm_xq_set_interval(struct fm_xq *q)
{
	uint64_t part = q->client->set.window_ns / FM_XQ_WINDOW_PARTS;
	uint64_t interval = q->level < FM_LEVEL_QUEUED ? part : q->spacing * fm_xq_wide(q);

	atomic_store(&q->interval, fm_xq_ungated(q) ? UINT64_MAX : interval);
	atomic_store(&q->seg_most, UINT32_MAX);
}

void fm_xq_set_level(struct fm_xq *q, enum fm_level level)
{
	q->level = level;
	if (level < FM_LEVEL_QUEUED)
		atomic_store(&q->gates_pending, 0);
	q->device_gates = q->ops->device_gate.gate && level >= FM_LEVEL_QUEUED;
	if (!q->slot)
		return;
	atomic_store(&q->slot->level, level);
	fm_xq_set_interval(q);
}

enum fm_level fm_xq_level(const struct fm_xq *q)
{
	uint32_t level = atomic_load(&q->slot->level), deepest = atomic_load(&q->slot->deepest);

	return (enum fm_level)(deepest ? FM_MIN(level, deepest) : level);
}

void fm_xq_reaches(struct fm_xq *q, enum fm_level level)
{
	struct fm_xq_cold *x = q->cold;

	if (atomic_load(&q->slot->level) == level || q->level < FM_LEVEL_RUNNING)
		return;
	q->partly = true;
	atomic_store(&q->slot->level, level);
	if (level < FM_LEVEL_RUNNING || fm_xq_may_run(q))
		return;
	/* The gate may have been closed meanwhile, when nothing could be done for it yet. If the
	 * device does not stop at once, the agent asks again. */
	pthread_mutex_lock(&x->lock);
	fm_xq_interrupt(q, fm_now());
	fm_xq_leave(q);
	fm_client_wake(q->client);
}

void fm_xq_keep(struct fm_xq *q)
{
	atomic_fetch_add(&q->refs, 1);
}

static enum fm_level choose_level(unsigned levels, enum fm_level wish)
{
	enum fm_level level = FM_LEVEL_PENDING;

	for (unsigned l = FM_LEVEL_QUEUED; l <= FM_LEVEL_RUNNING; l++)
		if (levels & 1u << l && (!wish || l <= wish))
			level = l;
	return level;
}

/* How little a slot is wanted. WANTED_NOT: it cannot be had. WANTED_LATE: work of the previous
 * queue may still wait for its words (orphaned). WANTED_LAST: gates of a graph look at its words,
 * and the graph may be launched in any stream for as long as the program lives. */
enum { WANTED, WANTED_LATE, WANTED_LAST, WANTED_NOT };

static unsigned unwanted(const struct fm_client *c, unsigned i)
{
	if (c->queue[i] || !is_passed(c, i) || c->unsure[i])
		return WANTED_NOT;
	if (atomic_load(&c->captured[i]))
		return WANTED_LAST;
	return c->owed[i] ? WANTED_LATE : WANTED;
}

static unsigned find_slot(const struct fm_client *c)
{
	unsigned found = FM_CLIENT_QUEUES, best = WANTED_NOT;

	for (unsigned i = 0; i < FM_CLIENT_QUEUES && best != WANTED; i++) {
		unsigned is = unwanted(c, i);

		if (is < best) {
			best = is;
			found = i;
		}
	}
	return found;
}

/* Gives the queue a slot, reset to its initial state, and tells the daemon. */
static int enter(struct fm_xq *q)
{
	struct fm_client *c = q->client;
	unsigned i;

	pthread_mutex_lock(&c->lock);
	i = find_slot(c);
	if (i == FM_CLIENT_QUEUES) {
		pthread_mutex_unlock(&c->lock);
		return -ENOSPC;
	}
	c->queue[i] = q;
	q->slot_index = i;
	q->slot = &c->board->slot[i];
	memset(q->slot, 0, sizeof(*q->slot));
	atomic_store(&q->slot->gate, FM_GATE_OPEN);
	atomic_store(&q->gate, fm_client_gate(c, i));
	atomic_store(&q->slot->released, UINT64_MAX);
	atomic_store(&q->slot->level, q->level);
	atomic_store(&q->slot->hears, q->cold->turned != NULL);
	atomic_store(&q->slot->domain, q->cold->domain);
	fm_xq_set_interval(q);
	fm_rest_enter(q);
	fm_client_send_queue(c, q);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

int fm_xq_create(struct fm_xq **out, struct fm_client *c, const struct fm_xq_config *config)
{
	struct fm_xq *q = fm_lines(sizeof(*q));
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
	q->steered = config->steered;
	q->owner = fm_this_thread();
	q->spacing = c->set.interval_ns    ? c->set.interval_ns
		     : config->interval_ns ? config->interval_ns
					   : FM_XQ_DEFAULT_INTERVAL;
	q->levels = q->ops->levels(q->hwq);
	fm_xq_set_level(q, choose_level(q->levels, wish));
	q->cold = x;
	x->turned = config->turned;
	x->looked = config->looked;
	x->domain = config->domain;
	atomic_init(&q->refs, 1);
	strncpy(q->device, config->device, sizeof(q->device) - 1);
	pthread_mutex_init(&x->order, NULL);
	fm_lock_rank(&x->order, XQ_ORDER);
	pthread_mutex_init(&x->lock, NULL);
	fm_lock_rank(&x->lock, XQ);
	pthread_mutex_init(&x->gates, NULL);
	fm_lock_rank(&x->gates, XQ_GATES);
	rc = enter(q);
	if (rc) {
		fm_xq_unref(q);
		return rc;
	}
	pthread_mutex_lock(&x->lock);
	fm_xq_device_reach(q, fm_now());
	fm_xq_leave(q);
	*out = q;
	return 0;
}

void fm_xq_close(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_client *c = q->client;

	if (atomic_load(&c->dead))
		return;
	/* As soon as the queue is closing, the agent may retire it at any time. */
	atomic_fetch_add(&q->refs, 1);
	fm_xq_order_take(q);
	pthread_mutex_lock(&x->lock);
	fm_xq_let_go(q);
	fm_xq_progress(q)->close(q, fm_now());
	atomic_store(&q->closing, true);
	if (q->ops->close)
		q->ops->close(q->hwq);
	fm_xq_leave(q);
	fm_xq_order_give(q);
	fm_client_wake(c);
	fm_xq_unref(q);
}

int fm_xq_wait(struct fm_xq *q, uint64_t count, uint64_t timeout_ns)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t deadline = fm_add_sat(fm_now(), timeout_ns);

	while (atomic_load(&q->slot->done) < count) {
		uint64_t look = fm_xq_progress(q)->polled ? FM_XQ_LOOK : 100 * FM_MS;
		uint64_t now = fm_now();
		uint32_t turn = atomic_load(&x->turn);

		pthread_mutex_lock(&x->lock);
		fm_xq_progress(q)->look(q, count, now);
		fm_xq_reap(q);
		if (q->ops->track && !x->tracks && fm_xq_mark(q) >= count)
			look = FM_MIN(look, FM_XQ_LOOK_MAX); /* it could not be tracked now */
		fm_xq_leave(q);
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
