/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The word of a rest and its changes. Whether the process is at rest is asked in still.c.
 *
 * The word is in the board, where the device waits for it behind each gate. It is changed by
 * compare-and-swap alone, so that the mover and the exit of the process cannot both have their way;
 * with the epoch in it no change hits a later rest than it meant.
 *
 * Closing: the word first, then the bit of each queue (FM_XQ_BY_REST), by which launches see that
 * they belong behind a gate. A queue that is made meanwhile reads the word under the client's lock,
 * under which the bits are set. Opening: everything is mapped by then, so the order is of no
 * consequence.
 */
#include "rest.h"
#include "base/cancel.h"
#include "early.h"
#include "still.h"
#include <errno.h>
#include <sched.h>

#define SHARDS 64

/* Of one part of the threads: how many are inside a call that names an address. */
struct shard {
	FM_LINE _Atomic unsigned inside;
};

struct fm_rests {
	struct shard shard[SHARDS];
	_Atomic bool over;        /* the process exits */
	uint32_t epoch;           /* the mover's: of this rest or the last one */
	_Atomic uint32_t still;   /* the word with which the process was found at rest */
	uint64_t since;           /* the mover's: closed since */
	_Atomic unsigned waiting; /* calls that wait for memory */
};

int fm_rests_new(struct fm_client *c)
{
	c->rests = fm_lines(sizeof(*c->rests));
	if (!c->rests)
		return -ENOMEM;
	fm_early_open(c);
	return 0;
}

void fm_rests_free(struct fm_client *c)
{
	free(c->rests);
}

static uint32_t word_of(const struct fm_client *c)
{
	return c && c->rests ? atomic_load(&c->board->rest) : 0;
}

static enum fm_rest state_of(uint32_t word)
{
	return (enum fm_rest)(word & FM_REST_STATE);
}

static uint32_t with_state(uint32_t word, enum fm_rest state)
{
	return (word & ~FM_REST_STATE) | (uint32_t)state;
}

/* False: another thread has changed it. */
static bool change(struct fm_client *c, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong(&c->board->rest, &from, to);
}

bool fm_rest_able(const struct fm_client *c)
{
	return c && c->rests && !atomic_load(&c->dead);
}

enum fm_rest fm_rest_state(const struct fm_client *c)
{
	return state_of(word_of(c));
}

bool fm_rest_is_over(const struct fm_client *c)
{
	return c->rests && atomic_load(&c->rests->over);
}

/* --- closing and opening --- */

/* The exit may have opened the word meanwhile. */
static void hold_all(struct fm_client *c)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES && word_of(c); i++)
		if (c->queue[i])
			atomic_fetch_or(&c->queue[i]->held_by, FM_XQ_BY_REST);
	pthread_mutex_unlock(&c->lock);
}

void fm_rest_enter(struct fm_xq *q)
{
	if (word_of(q->client))
		atomic_fetch_or(&q->held_by, FM_XQ_BY_REST);
}

static void close_word(struct fm_client *c)
{
	struct fm_rests *r = c->rests;

	r->epoch = (r->epoch + 1) % (UINT32_MAX / (FM_REST_STATE + 1));
	r->since = fm_now();
	if (change(c, FM_REST_OPEN, with_state(r->epoch * (FM_REST_STATE + 1), FM_REST_CLOSED)))
		hold_all(c);
	fm_watch_wake(c); /* the process may be held for long though it has no work */
}

/* What the device does not do by itself when the word opens: gates of this process, commands that
 * were stopped in their middle, callers that are held. */
static void let_go_all(struct fm_client *c)
{
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		if (!c->queue[i])
			continue;
		atomic_fetch_and(&c->queue[i]->held_by, (uint8_t)~FM_XQ_BY_REST);
		fm_turn_wake(c->queue[i]);
	}
}

/* False: another thread has changed the word. */
static bool open_word(struct fm_client *c, uint32_t word)
{
	bool ok;

	pthread_mutex_lock(&c->lock);
	ok = change(c, word, FM_REST_OPEN);
	if (ok) {
		atomic_store(&c->board->rest_leave, 0);
		let_go_all(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (!ok)
		return false;
	if (c->config.keep_out)
		c->config.keep_out(false);
	fm_client_wake(c);
	return true;
}

/* --- the mover --- */

static int not_able(const struct fm_client *c)
{
	if (!c || !c->rests)
		return -EOPNOTSUPP;
	return atomic_load(&c->dead) || atomic_load(&c->rests->over) ? -ESHUTDOWN : 0;
}

/* Not after the exit has opened the word. */
static void keep_from_leaving(struct fm_client *c, uint32_t word, bool yes)
{
	pthread_mutex_lock(&c->lock);
	if (word_of(c) == word)
		atomic_store(&c->board->rest_leave, yes);
	pthread_mutex_unlock(&c->lock);
}

/* The device may have seen a gate open before the word was closed, and not have said yet that it
 * goes on. So once all queues seem to be at rest, the device is kept from leaving gates, too, and
 * all are looked at again. A queue that turns out to have left is let go to its next gate. */
static int look(struct fm_client *c, uint32_t word, struct fm_err *why)
{
	int rc = fm_still(c, c->rests->since, why);

	if (rc)
		return rc;
	keep_from_leaving(c, word, true);
	rc = fm_still(c, c->rests->since, why);
	if (rc)
		keep_from_leaving(c, word, false);
	return rc;
}

static int cannot(int rc, struct fm_err *why)
{
	return fm_err_set(why, rc, "%s",
		rc == -ESHUTDOWN ? "the process exits" : "memory of this process is not managed");
}

int fm_rest_begin(struct fm_client *c, uint64_t deadline, struct fm_err *why)
{
	int rc = not_able(c);
	uint32_t word;

	if (!rc && !word_of(c))
		close_word(c);
	word = word_of(c);
	if (!rc && word && with_state(word, FM_REST_CLOSED) == atomic_load(&c->rests->still))
		return 0;
	if (!rc)
		rc = look(c, word, why);
	/* The exit raises `over` and then reads the word; this thread may have closed it since. */
	if (not_able(c))
		rc = cannot(not_able(c), why);
	if (rc == -EAGAIN && fm_now() >= deadline)
		rc = -EBUSY;
	if (!rc)
		atomic_store(&c->rests->still, word);
	else if (rc != -EAGAIN && state_of(word) == FM_REST_CLOSED)
		open_word(c, word);
	return rc;
}

static unsigned inside(const struct fm_rests *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SHARDS; i++)
		n += atomic_load(&r->shard[i].inside);
	return n;
}

/* A call that comes from now on sees the state and waits. Those that are inside end soon, unless
 * the driver makes them wait. */
static bool have_left(const struct fm_rests *r)
{
	uint64_t until = fm_now() + FM_REST_CALLS_MOST;

	while (inside(r)) {
		if (fm_now() >= until)
			return false;
		sched_yield();
	}
	return true;
}

int fm_rest_moving(struct fm_client *c)
{
	uint32_t word = word_of(c), moving = with_state(word, FM_REST_MOVING);
	enum fm_rest from = state_of(word);

	if (from == FM_REST_MOVING)
		return 0;
	if (from == FM_REST_OPEN || word == 0 ||
		with_state(word, FM_REST_CLOSED) != atomic_load(&c->rests->still))
		return -EPERM;
	if (atomic_load(&c->rests->over))
		return -ESHUTDOWN;
	if (!change(c, word, moving))
		return -ESHUTDOWN;
	if (from == FM_REST_MAPPING)
		return 0;
	/* The exit raises `over` and then reads the word. */
	if (atomic_load(&c->rests->over)) {
		change(c, moving, word);
		return -ESHUTDOWN;
	}
	if (have_left(c->rests) && (!c->config.keep_out || c->config.keep_out(true)))
		return 0;
	change(c, moving, word);
	return -EAGAIN;
}

int fm_rest_mapping(struct fm_client *c)
{
	uint32_t word = word_of(c);

	if (state_of(word) == FM_REST_MAPPING)
		return 0;
	if (state_of(word) != FM_REST_MOVING)
		return -EPERM;
	return change(c, word, with_state(word, FM_REST_MAPPING)) ? 0 : -EPERM;
}

int fm_rest_end(struct fm_client *c)
{
	uint32_t word = word_of(c);

	if (state_of(word) == FM_REST_MOVING)
		return -EPERM;
	if (word)
		open_word(c, word);
	return 0;
}

/* --- calls that name addresses --- */

static struct shard *my_shard(struct fm_rests *r, unsigned *at)
{
	*at = (unsigned)(((uintptr_t)fm_this_thread() >> 6) * UINT32_C(0x9e3779b1) >> 8) % SHARDS;
	return &r->shard[*at];
}

static bool is_missing(const struct fm_client *c)
{
	enum fm_rest state = fm_rest_state(c);

	return (state == FM_REST_MOVING || state == FM_REST_MAPPING) && !atomic_load(&c->dead);
}

unsigned fm_rest_call_begin(struct fm_client *c)
{
	const struct timespec nap = fm_timespec(FM_REST_LOOK);
	struct shard *s;
	unsigned at;

	if (!fm_rest_able(c))
		return SHARDS;
	s = my_shard(c->rests, &at);
	atomic_fetch_add(&s->inside, 1);
	while (FM_UNLIKELY(is_missing(c))) {
		FM_NO_CANCEL;

		atomic_fetch_sub(&s->inside, 1);
		fm_rest_miss(c, true);
		while (is_missing(c))
			nanosleep(&nap, NULL);
		fm_rest_miss(c, false);
		atomic_fetch_add(&s->inside, 1);
	}
	return at;
}

bool fm_rest_call_try(struct fm_client *c, unsigned *shard)
{
	struct shard *s;

	*shard = SHARDS;
	if (!fm_rest_able(c))
		return true;
	s = my_shard(c->rests, shard);
	atomic_fetch_add(&s->inside, 1);
	if (!is_missing(c))
		return true;
	atomic_fetch_sub(&s->inside, 1);
	return false;
}

void fm_rest_miss(struct fm_client *c, bool waits)
{
	if (c->rests)
		atomic_fetch_add(&c->rests->waiting, waits ? 1u : UINT32_MAX);
}

bool fm_rest_is_missed(const struct fm_client *c)
{
	return c->rests && atomic_load(&c->rests->waiting);
}

void fm_rest_call_end(struct fm_client *c, unsigned shard)
{
	if (shard < SHARDS)
		atomic_fetch_sub(&c->rests->shard[shard].inside, 1);
}

void fm_rest_await(struct fm_xq *q)
{
	struct fm_client *c = q->client;

	while (fm_rest_state(c) != FM_REST_OPEN && !atomic_load(&c->dead))
		fm_turn_wait(q, atomic_load(&q->cold->turn), fm_now() + FM_XQ_HOLD_NAP);
}

/* The call was counted before this reads the word; the mover closes the word before it reads the
 * count. */
void fm_rest_outside(struct fm_client *c)
{
	const struct timespec nap = fm_timespec(FM_REST_LOOK);
	FM_NO_CANCEL;

	atomic_thread_fence(memory_order_seq_cst);
	if (fm_rest_state(c) == FM_REST_OPEN)
		return;
	fm_rest_miss(c, true);
	while (fm_rest_state(c) != FM_REST_OPEN && !atomic_load(&c->dead))
		nanosleep(&nap, NULL);
	fm_rest_miss(c, false);
}

/* --- the ends of processes --- */

void fm_rest_fork_child(struct fm_client *c)
{
	if (!c->rests)
		return;
	atomic_store(&c->board->rest, FM_REST_OPEN);
	atomic_store(&c->rests->waiting, 0);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++)
		if (c->queue[i])
			atomic_store(&c->queue[i]->held_by, 0);
}

/* A rest in which nothing was moved yet is ended here, since the mover may not come again. */
void fm_rest_exit(struct fm_client *c)
{
	const struct timespec nap = fm_timespec(FM_REST_LOOK);
	uint64_t until = fm_now() + FM_REST_EXIT_MOST;
	uint32_t word;

	if (!c->rests)
		return;
	atomic_store(&c->rests->over, true);
	fm_early_open(c);
	while ((word = word_of(c)) && fm_now() < until)
		if (state_of(word) != FM_REST_CLOSED || !open_word(c, word))
			nanosleep(&nap, NULL);
}
