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
	return fm_cu_feed_told(word);
}

static uint64_t done(const struct fm_cu_feed *f, uint32_t task)
{
	return told(&fm_cu_gates_told(f->gates)->done[task]);
}

static uint64_t accepted(const struct fm_cu_feed *f, uint32_t task)
{
	return told(&fm_cu_gates_told(f->gates)->accepted[task]);
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
	uint64_t least = UINT64_MAX, dropped;

	if (w->ahead)
		return f->drains ? accepted(f, task) : UINT64_MAX;
	dropped = fm_sub_sat(told(&fm_cu_gates_told(f->gates)->dropped[task]), w->task.dropped);
	if (!w->task.n_after)
		return w->asked - dropped;
	for (uint32_t i = 0; i < w->task.n_after; i++)
		least = FM_MIN(least, f->work[w->task.after[i]].jobs);
	return fm_sub_sat(
		fm_add_sat(least, w->asked), dropped); /* graphs run before their jobs are put */
}

static bool is_left(const struct fm_cu_feed *f)
{
	return f->hooks.leaves && f->hooks.leaves(f->hooks.arg);
}

/* Is what stands in the streams to run? */
static bool leaves(const struct fm_cu_feed *f)
{
	return f->retires || is_left(f);
}

static bool wants_more(const struct fm_cu_feed *f, uint32_t task)
{
	const struct work *w = &f->work[task];

	return !f->stop && !f->lost && !is_left(f) && !w->error &&
	       w->jobs < done(f, task) + f->depth && w->jobs < certain(f, task);
}

/* The lock is held, and let go meanwhile. */
static int put_chunk(struct fm_cu_feed *f, uint32_t task)
{
	struct work *w = &f->work[task];
	const struct fm_cu_feed_hooks *h = &f->hooks;
	bool first = !w->chunk, last = w->chunk + 1 == w->task.chunks;
	bool tells;
	int rc;

	if (first)
		w->tells = !w->early;
	tells = w->tells;
	w->begun += first && tells;
	pthread_mutex_unlock(&f->lock);
	if (first && tells && h->begin)
		h->begin(h->arg, task);
	rc = fm_cu_gates_put(f->gates, task, w->task.enqueue, w->chunk, w->task.ctx);
	if (tells && (rc || last) && h->end)
		h->end(h->arg, task);
	if (rc && h->failed)
		h->failed(h->arg, task, rc);
	pthread_mutex_lock(&f->lock);
	w->error = rc;
	w->cut = rc && tells;
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

static bool is_held(const struct fm_cu_feed *f)
{
	return f->hooks.may_run && !f->hooks.may_run(f->hooks.arg);
}

/* `aside`: nobody has stopped it. */
static bool is_to_park(const struct fm_cu_feed *f, bool *aside)
{
	*aside = false;
	if (is_held(f))
		return true;
	if (!fm_cu_gates_is_of_graphs(f->gates))
		return f->program_parks && !leaves(f);
	*aside = !f->program_parks && is_left(f); /* nothing stands in streams, so it just waits */
	return f->program_parks || *aside;
}

/* The lock is not held, and the context is current. */
static void tell_park(struct fm_cu_feed *f)
{
	uint32_t what = FM_GATES_KICK;
	bool park, aside, leave;

	pthread_mutex_lock(&f->park);
	pthread_mutex_lock(&f->lock);
	park = is_to_park(f, &aside);
	leave = fm_cu_gates_is_resident(f->gates) && leaves(f);
	if (park != f->parked || aside != f->aside)
		what |= park ? FM_GATES_PARK : FM_GATES_GO_ON;
	if (aside && what & FM_GATES_PARK)
		what |= FM_GATES_ASIDE;
	if (leave != f->left)
		what |= leave ? FM_GATES_LEAVE : FM_GATES_STAY;
	f->parks += park != f->parked;
	f->parked = park;
	f->aside = aside;
	f->left = leave;
	f->stands = f->stands && park;
	if (f->lost)
		what = FM_GATES_KICK;
	pthread_mutex_unlock(&f->lock);
	if (park || leave)
		fm_cu_gates_lend(f->gates, 0);
	if (what != FM_GATES_KICK && fm_cu_gates_tell(f->gates, 0, what, 0, 0))
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

/* Of a task that gets no more chunks, the jobs in advance: others, which come after these, stand in
 * their streams. The lock is held. */
static uint64_t retire(struct fm_cu_feed *f, uint32_t task)
{
	struct work *w = &f->work[task];
	uint64_t jobs = w->jobs - FM_MIN(w->jobs, accepted(f, task));

	if (!w->error || !w->ahead || w->retired)
		return 0;
	w->retired = true;
	w->asked += jobs;
	return jobs;
}

/* The lock is not held. */
static void feed(struct fm_cu_feed *f, uint32_t task, uint64_t jobs)
{
	uint32_t what = FM_GATES_KICK;
	uint64_t chunks;
	bool lost;

	pthread_mutex_lock(&f->lock);
	chunks = fill(f, task);
	jobs += retire(f, task);
	if (turns_off(f, task))
		what |= FM_GATES_OFF;
	lost = f->lost;
	pthread_mutex_unlock(&f->lock);
	tell_park(f);
	if (!lost && (jobs || chunks || what != FM_GATES_KICK) &&
		fm_cu_gates_tell(f->gates, task, what, jobs, chunks))
		lose(f);
	if (jobs)
		fm_cu_feed_keep_resident(f);
}

/* The lock is held. What is told of each task is read before what is told of all. */
static bool is_busy(const struct fm_cu_feed *f)
{
	const struct fm_gates_told *t = fm_cu_gates_told(f->gates);

	if (f->lost)
		return false;
	if (f->drains && !told(&t->drained))
		return true; /* it has not heard of that */
	for (uint32_t i = 0; i < f->n; i++) {
		const struct work *w = &f->work[i];

		if (w->error ? !w->flushed : told(&t->heard[i]) != fm_gates_heard(w->asked, 0))
			return true;
	}
	return told(&t->pending);
}

/* Of a task that was released before the maker could know. The lock is held, and let go meanwhile.
 * Returns how many of its jobs are over. */
static uint64_t tell_early(struct fm_cu_feed *f, uint32_t task)
{
	const struct fm_cu_feed_hooks *h = &f->hooks;
	struct work *w = &f->work[task];
	uint64_t over = done(f, task); /* before it is read how many were released */
	uint64_t until = accepted(f, task);

	while (w->begun < until) {
		w->begun++;
		pthread_mutex_unlock(&f->lock);
		if (h->begin)
			h->begin(h->arg, task);
		if (h->end)
			h->end(h->arg, task);
		pthread_mutex_lock(&f->lock);
	}
	return w->off && w->flushed ? w->begun : FM_MIN(over, w->begun);
}

/* Graphs do not wait to be put: the maker is not told of an end before the begin. The lock is
 * held. */
static uint64_t finished_of(const struct fm_cu_feed *f, uint32_t task)
{
	const struct work *w = &f->work[task];

	if (fm_cu_gates_is_of_graphs(f->gates))
		return FM_MIN(done(f, task), w->jobs);
	return done(f, task) + (w->off ? w->cut : 0);
}

/* The lock is held, and let go meanwhile. */
static uint64_t count_finished(struct fm_cu_feed *f)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < f->n; i++)
		sum += f->work[i].early ? tell_early(f, i) : finished_of(f, i);
	f->told_over = f->counted_over;
	return sum + f->told_over;
}

static uint64_t sum_of_done(const struct fm_cu_feed *f)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < f->n; i++)
		sum += done(f, i);
	return sum;
}

/* After which streams have been filled, and of which the maker has been told. */
static uint64_t seen_done(const struct fm_cu_feed *f)
{
	return fm_cu_gates_is_of_graphs(f->gates) ? f->finished : f->seen_done;
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

	pthread_mutex_lock(&f->lock);
	finished = count_finished(f);
	pthread_mutex_unlock(&f->lock);
	pthread_mutex_lock(&f->park);
	pthread_mutex_lock(&f->lock);
	news = finished != f->finished;
	f->finished = finished;
	stops = f->stops && f->parked && !f->stands && !f->lost && !fm_cu_gates_resides(f->gates);
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

/* --- for people --- */

/* Is there anything that has not been shown? The lock is held, or this is the thread. */
static bool has_to_show(const struct fm_cu_feed *f)
{
	return f->hooks.show && !f->lost && !is_left(f) &&
	       (told(&fm_cu_gates_told(f->gates)->decided) != f->shown ||
		       f->parked != f->shown_parked);
}

static void take_show(void *arg, const struct fm_cu_gates_words *words)
{
	struct fm_cu_feed *f = arg;

	f->hooks.show(f->hooks.arg, words, f->shown_parked);
}

/* What is decided meanwhile is shown the next time. A call that fails is not made again before. */
static void show(struct fm_cu_feed *f)
{
	uint64_t now = fm_now(), decided;
	bool due, parked;

	pthread_mutex_lock(&f->lock);
	due = has_to_show(f) && now >= f->show_at;
	decided = told(&fm_cu_gates_told(f->gates)->decided);
	parked = f->parked;
	pthread_mutex_unlock(&f->lock);
	if (!due)
		return;
	f->shown = decided;
	f->shown_parked = parked;
	f->show_at = now + FM_CU_SET_SHOW;
	fm_cu_feed_read(f, take_show, f);
}

static void look_once(struct fm_cu_feed *f, unsigned look)
{
	bool busy;

	pthread_mutex_lock(&f->lock);
	f->seen_done = sum_of_done(f);
	pthread_mutex_unlock(&f->lock);
	for (uint32_t i = 0; i < f->n; i++) {
		feed(f, i, 0);
		flush(f, i);
	}
	if (fm_cu_gates_follow(f->gates))
		lose(f);
	fm_cu_feed_read_notes(f);
	tell_maker(f);
	fm_cu_feed_look_resident(f);
	show(f);
	if (look % LOOK_LOST == LOOK_LOST - 1 && fm_cu_gates_look(f->gates, &busy))
		lose(f);
}

/* When to look again; FM_NEVER: when something happens. The lock is held. */
static uint64_t next_look(const struct fm_cu_feed *f)
{
	uint64_t wake = fm_cu_feed_next_wake(f), look = FM_NEVER;

	if (is_busy(f) && !f->parked)
		look = fm_now() + FM_CU_SET_LOOK;
	else if (f->parked && f->stops && !f->stands &&
		 (is_busy(f) || fm_cu_gates_is_resident(f->gates)))
		look = fm_now() + FM_CU_SET_STOPS;
	else if (is_busy(f))
		look = fm_now() + FM_CU_SET_PARKED;
	else if (!f->lost && sum_of_done(f) != seen_done(f))
		look = fm_now() + FM_CU_SET_LOOK; /* the last jobs have ended since then */
	if (has_to_show(f))
		look = FM_MIN(look, f->show_at);
	if (f->counted_over != f->told_over)
		look = FM_MIN(look, fm_now() + FM_CU_SET_LOOK);
	return FM_MIN(look, wake);
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

	fm_cu_gates_lend(f->gates, 0); /* the resident goes before it is told */
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

/* Does anything stand in the streams, or is put there? */
static bool has_work(struct fm_cu_feed *f)
{
	bool busy = false;

	return is_filling(f) || (!fm_cu_gates_look(f->gates, &busy) && busy);
}

/* Of a set that is lost, or ends, it runs, as nobody opens its gates any more: the end waits for
 * the one that looks. */
static bool is_at_work(struct fm_cu_feed *f)
{
	bool busy = false, lost;

	if (is_filling(f))
		return true;
	if (fm_cu_gates_look(f->gates, &busy))
		return false;
	pthread_mutex_lock(&f->lock);
	lost = (f->lost || f->stop) && !f->opened;
	f->opened |= lost;
	pthread_mutex_unlock(&f->lock);
	if (busy && lost)
		fm_cu_gates_open(f->gates);
	return busy;
}

/* Jobs in advance are to run, of which the maker does not know: one is counted for them. Then they
 * run in turns of which nobody but this thread need hear. */
static void count_ahead(struct fm_cu_feed *f, bool *counted)
{
	if (!*counted && is_held(f) && f->hooks.count && fm_cu_gates_is_resident(f->gates) &&
		!fm_cu_gates_is_of_graphs(f->gates)) {
		f->hooks.count(f->hooks.arg);
		*counted = true;
	}
	if (*counted)
		tell_park(f);
}

/* The thread tells the maker. */
static void count_over(struct fm_cu_feed *f)
{
	pthread_mutex_lock(&f->lock);
	f->counted_over++;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

void fm_cu_feed_leave(struct fm_cu_feed *f)
{
	const struct timespec nap = {.tv_nsec = FM_CU_SET_NAP};
	bool counted = false;
	CUcontext old;

	fm_cu_gates_lend(f->gates, 0);
	if (f->cu->ctx_push(f->ctx))
		return;
	tell_park(f); /* the program's own is not for this time */
	while (is_at_work(f)) {
		count_ahead(f, &counted);
		nanosleep(&nap, NULL);
	}
	f->cu->ctx_pop(&old);
	if (counted)
		count_over(f);
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

void fm_cu_feed_drain(struct fm_cu_feed *f)
{
	CUcontext old;
	bool first;

	pthread_mutex_lock(&f->lock);
	first = !f->drains;
	f->drains = true;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
	if (!first)
		return;
	if (f->cu->ctx_push(f->ctx)) {
		lose(f);
		return;
	}
	if (fm_cu_gates_tell(f->gates, 0, FM_GATES_DRAIN | FM_GATES_KICK, 0, 0))
		lose(f);
	f->cu->ctx_pop(&old);
}

/* Jobs that others of these release, and one that stood in its stream in part, get their chunks
 * meanwhile, of the thread that looks. It may have found nothing to do before the device had
 * released them. */
static bool has_jobs(struct fm_cu_feed *f)
{
	bool has;

	pthread_mutex_lock(&f->lock);
	has = !f->lost && fm_cu_feed_pending(f);
	if (has)
		pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
	return has;
}

void fm_cu_feed_await_turn(struct fm_cu_feed *f, uint64_t deadline)
{
	const struct timespec nap = {.tv_nsec = FM_CU_SET_END_LOOK};
	bool counted = false;
	CUcontext old;

	if (f->cu->ctx_push(f->ctx))
		return;
	while (is_held(f) && has_work(f) && fm_now() < deadline) {
		count_ahead(f, &counted); /* until the maker ends */
		nanosleep(&nap, NULL);
	}
	f->cu->ctx_pop(&old);
}

void fm_cu_feed_retire(struct fm_cu_feed *f, uint64_t deadline)
{
	const struct timespec nap = {.tv_nsec = FM_CU_SET_NAP};
	bool counted = false;
	CUcontext old;

	fm_cu_feed_drain(f);
	pthread_mutex_lock(&f->lock);
	f->retires = true;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
	if (f->cu->ctx_push(f->ctx))
		return;
	tell_park(f);
	while ((is_at_work(f) || has_jobs(f)) && fm_now() < deadline) {
		count_ahead(f, &counted);
		nanosleep(&nap, NULL);
	}
	f->cu->ctx_pop(&old);
}

uint64_t fm_cu_feed_refused(const struct fm_cu_feed *f)
{
	return fm_cu_gates_refused(f->gates);
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
