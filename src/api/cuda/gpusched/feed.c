// SPDX-License-Identifier: Apache-2.0
#include "api/cuda/core/tune.h"
#include "base/clock.h"
#include "base/util.h"
#include "feed_internal.h"
#include <errno.h>
#include <time.h>

#define LOOK_LOST 64 /* each so many-th look asks whether the device is lost */

static uint64_t told(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint64_t done(const struct fm_cu_feed *f, uint32_t task)
{
	return told(&fm_cu_gates_told(f->gates)->done[task]);
}

static void lose(struct fm_cu_feed *f)
{
	pthread_mutex_lock(&f->lock);
	f->lost = true;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

/* Jobs that will come, whatever happens. Of what the host has released some may be dropped later,
 * but never one that is this early: a job is dropped only when the backlog is full, and no more
 * stand in the stream than that. */
static uint64_t certain(const struct fm_cu_feed *f, uint32_t task)
{
	const struct work *w = &f->work[task];
	uint64_t least = UINT64_MAX;

	if (!w->task.n_after)
		return w->asked - told(&fm_cu_gates_told(f->gates)->dropped[task]);
	for (uint32_t i = 0; i < w->task.n_after; i++)
		least = FM_MIN(least, f->work[w->task.after[i]].jobs);
	return least;
}

static bool leaves(const struct fm_cu_feed *f)
{
	return f->hooks.leaves && f->hooks.leaves(f->hooks.arg);
}

static bool wants_more(const struct fm_cu_feed *f, uint32_t task)
{
	const struct work *w = &f->work[task];

	return !f->stop && !f->lost && !leaves(f) && !w->error &&
	       w->jobs < done(f, task) + f->depth && w->jobs < certain(f, task);
}

/* The lock is held, and let go meanwhile. */
static int put_chunk(struct fm_cu_feed *f, uint32_t task)
{
	struct work *w = &f->work[task];
	const struct fm_cu_feed_hooks *h = &f->hooks;
	bool first = !w->chunk, last = w->chunk + 1 == w->task.chunks;
	int rc;

	pthread_mutex_unlock(&f->lock);
	if (first && h->begin)
		h->begin(h->arg, task);
	rc = fm_cu_gates_put(f->gates, task, w->task.enqueue, w->chunk, w->task.ctx);
	if ((rc || last) && h->end)
		h->end(h->arg, task);
	if (rc && h->failed)
		h->failed(h->arg, task, rc);
	pthread_mutex_lock(&f->lock);
	w->error = rc;
	w->cut = rc != 0;
	return rc;
}

/* Returns how many chunks it has put, of which nobody was told. The lock is held, and let go
 * meanwhile. Another thread that fills the stream looks again before it leaves. */
static uint64_t fill(struct fm_cu_feed *f, uint32_t task)
{
	struct work *w = &f->work[task];
	uint64_t put = 0;

	if (w->filling)
		return 0;
	w->filling = true;
	while (wants_more(f, task) && !put_chunk(f, task)) {
		put++;
		if (++w->chunk == w->task.chunks) {
			w->chunk = 0;
			w->jobs++;
		}
	}
	w->filling = false;
	return put;
}

static bool is_to_park(const struct fm_cu_feed *f)
{
	if (f->hooks.may_run && !f->hooks.may_run(f->hooks.arg))
		return true;
	return f->program_parks && !leaves(f);
}

/* The lock is not held, and the context is current. */
static void tell_park(struct fm_cu_feed *f)
{
	bool park, changes;

	pthread_mutex_lock(&f->park);
	pthread_mutex_lock(&f->lock);
	park = is_to_park(f);
	changes = park != f->parked && !f->lost;
	f->parks += park != f->parked;
	f->parked = park;
	f->stands = f->stands && park;
	pthread_mutex_unlock(&f->lock);
	if (changes && fm_cu_gates_tell(f->gates, 0,
			       FM_GATES_KICK | (park ? FM_GATES_PARK : FM_GATES_GO_ON), 0, 0))
		lose(f);
	pthread_mutex_unlock(&f->park);
}

/* Is the task to be told to be off now? The lock is held. */
static bool turns_off(struct fm_cu_feed *f, uint32_t task)
{
	struct work *w = &f->work[task];

	if (!w->error || w->off || w->jobs != done(f, task))
		return false;
	w->off = true;
	return true;
}

/* The lock is not held. */
static void feed(struct fm_cu_feed *f, uint32_t task, uint64_t jobs)
{
	uint32_t what = FM_GATES_KICK;
	uint64_t chunks;
	bool lost;

	pthread_mutex_lock(&f->lock);
	chunks = fill(f, task);
	if (turns_off(f, task))
		what |= FM_GATES_OFF;
	lost = f->lost;
	pthread_mutex_unlock(&f->lock);
	tell_park(f);
	if (!lost && (jobs || chunks || what != FM_GATES_KICK) &&
		fm_cu_gates_tell(f->gates, task, what, jobs, chunks))
		lose(f);
}

/* The lock is held. What is told of jobs is read before what is told of all. */
static bool is_busy(const struct fm_cu_feed *f)
{
	const struct fm_gates_told *t = fm_cu_gates_told(f->gates);

	if (f->lost)
		return false;
	for (uint32_t i = 0; i < f->n; i++) {
		const struct work *w = &f->work[i];

		if (w->error ? !w->flushed
			     : !w->task.n_after &&
					told(&t->done[i]) + told(&t->dropped[i]) < w->asked)
			return true;
	}
	return told(&t->pending);
}

/* The lock is held. */
static uint64_t count_finished(const struct fm_cu_feed *f)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < f->n; i++)
		sum += done(f, i) + (f->work[i].off ? f->work[i].cut : 0);
	return sum;
}

static void take_running(void *arg, const struct fm_cu_gates_words *words)
{
	*(uint32_t *)arg = words->set->running;
}

/* What the maker waits for. The lock is not held. Under `park' the device has been told what
 * `parked' says, before it is asked what runs. */
static void tell_maker(struct fm_cu_feed *f)
{
	const struct fm_cu_feed_hooks *h = &f->hooks;
	uint32_t running = 1;
	uint64_t finished;
	unsigned parks;
	bool news, stops;

	pthread_mutex_lock(&f->park);
	pthread_mutex_lock(&f->lock);
	finished = count_finished(f);
	news = finished != f->finished;
	f->finished = finished;
	stops = f->stops && f->parked && !f->stands && !f->lost;
	parks = f->parks;
	pthread_mutex_unlock(&f->lock);
	pthread_mutex_unlock(&f->park);
	if (news && h->finished)
		h->finished(h->arg, finished);
	if (!stops || fm_cu_feed_read(f, take_running, &running) || running)
		return;
	pthread_mutex_lock(&f->lock);
	f->stands = f->parked && f->parks == parks; /* else a chunk may have begun since then */
	stops = f->stands && f->stops;
	pthread_mutex_unlock(&f->lock);
	if (stops && h->stands)
		h->stands(h->arg);
}

struct is_off {
	uint32_t task;
	bool heard; /* and nothing of it runs */
};

static void take_off(void *arg, const struct fm_cu_gates_words *words)
{
	struct is_off *is = arg;
	const struct fm_gs_task *t = &words->task[is->task];

	is->heard = t->is_off && t->gate == t->seen_ended;
}

/* A chunk that could not be put as a whole has left a wait in the stream, for a gate that is never
 * opened. What waits for the device would wait for that. */
static void flush(struct fm_cu_feed *f, uint32_t task)
{
	struct work *w = &f->work[task];
	struct is_off is = {.task = task};
	bool due;

	pthread_mutex_lock(&f->lock);
	due = w->off && !w->flushed && !f->lost;
	pthread_mutex_unlock(&f->lock);
	if (!due || fm_cu_feed_read(f, take_off, &is) || !is.heard)
		return;
	if (fm_cu_gates_flush(f->gates, task))
		lose(f);
	pthread_mutex_lock(&f->lock);
	w->flushed = true;
	pthread_mutex_unlock(&f->lock);
}

static void look_once(struct fm_cu_feed *f, unsigned look)
{
	bool busy;

	for (uint32_t i = 0; i < f->n; i++) {
		feed(f, i, 0);
		flush(f, i);
	}
	tell_maker(f);
	if (look % LOOK_LOST == LOOK_LOST - 1 && fm_cu_gates_look(f->gates, &busy))
		lose(f);
}

/* When to look again; FM_NEVER: when something happens. The lock is held. */
static uint64_t next_look(const struct fm_cu_feed *f)
{
	if (!is_busy(f))
		return FM_NEVER;
	if (!f->parked)
		return fm_now() + FM_CU_SET_LOOK;
	return fm_now() + (f->stops && !f->stands ? FM_CU_SET_STOPS : FM_CU_SET_PARKED);
}

void *fm_cu_feed_look(void *arg)
{
	struct fm_cu_feed *f = arg;
	struct timespec ts;
	CUcontext old;
	uint64_t at;

	if (f->cu->ctx_push(f->ctx)) {
		lose(f); /* nothing runs any more */
		return NULL;
	}
	pthread_mutex_lock(&f->lock);
	for (unsigned n = 0; !f->stop; n++) {
		pthread_mutex_unlock(&f->lock);
		look_once(f, n);
		pthread_mutex_lock(&f->lock);
		pthread_cond_broadcast(&f->cond);
		if (f->stop)
			break;
		at = next_look(f);
		ts = fm_timespec(at);
		if (at == FM_NEVER)
			pthread_cond_wait(&f->cond, &f->lock);
		else
			pthread_cond_timedwait(&f->cond, &f->lock, &ts);
	}
	pthread_mutex_unlock(&f->lock);
	f->cu->ctx_pop(&old);
	return NULL;
}

/* --- threads that are inside: the feed stays as long --- */

void fm_cu_feed_keep(struct fm_cu_feed *f)
{
	pthread_mutex_lock(&f->lock);
	f->inside++;
	pthread_mutex_unlock(&f->lock);
}

void fm_cu_feed_let_go(struct fm_cu_feed *f)
{
	pthread_mutex_lock(&f->lock);
	f->inside--;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

int fm_cu_feed_ask(struct fm_cu_feed *f, uint32_t task, uint64_t jobs)
{
	int rc;

	pthread_mutex_lock(&f->lock);
	rc = f->lost || f->stop ? -ENODEV : f->work[task].error;
	if (!rc) {
		f->work[task].asked += jobs;
		f->inside++;
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

int fm_cu_feed_release(struct fm_cu_feed *f, uint32_t task, uint64_t jobs)
{
	CUcontext old;
	int rc;

	if (f->cu->ctx_push(f->ctx)) {
		lose(f);
	} else {
		feed(f, task, jobs);
		f->cu->ctx_pop(&old);
	}
	pthread_mutex_lock(&f->lock);
	rc = f->lost ? -ENODEV : f->work[task].error;
	pthread_mutex_unlock(&f->lock);
	fm_cu_feed_let_go(f);
	return rc;
}

int fm_cu_feed_wait(struct fm_cu_feed *f, uint64_t deadline)
{
	struct timespec ts = fm_timespec(deadline);
	bool busy, lost;

	pthread_mutex_lock(&f->lock);
	while ((busy = is_busy(f)) && !f->stop && fm_now() < deadline)
		if (deadline == FM_NEVER)
			pthread_cond_wait(&f->cond, &f->lock);
		else
			pthread_cond_timedwait(&f->cond, &f->lock, &ts);
	lost = f->lost || (busy && f->stop);
	pthread_mutex_unlock(&f->lock);
	if (lost)
		return -ENODEV;
	return busy ? -ETIMEDOUT : 0;
}

uint64_t fm_cu_feed_pending(struct fm_cu_feed *f)
{
	return told(&fm_cu_gates_told(f->gates)->pending);
}

/* --- parks --- */

void fm_cu_feed_park(struct fm_cu_feed *f, bool parked)
{
	CUcontext old;

	pthread_mutex_lock(&f->lock);
	f->program_parks = parked;
	pthread_mutex_unlock(&f->lock);
	if (f->cu->ctx_push(f->ctx))
		return;
	tell_park(f);
	f->cu->ctx_pop(&old);
}

int fm_cu_feed_stop(struct fm_cu_feed *f)
{
	bool stands;

	pthread_mutex_lock(&f->lock);
	f->stops = true;
	stands = f->stands;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
	return stands ? 0 : -EINPROGRESS;
}

void fm_cu_feed_go_on(struct fm_cu_feed *f)
{
	pthread_mutex_lock(&f->lock);
	f->stops = f->stands = false;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

/* --- calls that wait for the device --- */

static bool is_filling(struct fm_cu_feed *f)
{
	bool filling = false;

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->n; i++)
		filling |= f->work[i].filling;
	pthread_mutex_unlock(&f->lock);
	return filling;
}

void fm_cu_feed_leave(struct fm_cu_feed *f)
{
	const struct timespec nap = {.tv_nsec = FM_CU_SET_NAP};
	CUcontext old;
	bool busy = true;

	if (f->cu->ctx_push(f->ctx))
		return;
	tell_park(f); /* the program's own is not for this time */
	while ((is_filling(f) || (!fm_cu_gates_look(f->gates, &busy) && busy)))
		nanosleep(&nap, NULL);
	f->cu->ctx_pop(&old);
}

void fm_cu_feed_stay(struct fm_cu_feed *f)
{
	CUcontext old;

	pthread_mutex_lock(&f->lock);
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
	if (f->cu->ctx_push(f->ctx))
		return;
	tell_park(f);
	f->cu->ctx_pop(&old);
}

int fm_cu_feed_read(struct fm_cu_feed *f,
	void (*take)(void *arg, const struct fm_cu_gates_words *words), void *arg)
{
	struct fm_cu_gates_words words;
	CUcontext old;
	int rc = -EIO;

	if (f->cu->ctx_push(f->ctx))
		return rc;
	pthread_mutex_lock(&f->reading);
	rc = fm_cu_gates_read(f->gates, &words);
	if (!rc)
		take(arg, &words);
	pthread_mutex_unlock(&f->reading);
	f->cu->ctx_pop(&old);
	return rc;
}
