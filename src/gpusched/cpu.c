// SPDX-License-Identifier: Apache-2.0
/*
 * The engine "cpu": a software device with as many processors as the set has slots. In real time
 * each is a thread. In virtual time all is done by the thread that lets time pass, in the order of
 * times, and at one time in the order of numbers.
 *
 * A period that begins while all slots are taken needs no alarm: the next decision accepts its job,
 * with the time of its release. So only a thread that has nothing to run waits for periods.
 */
#include "base/clock.h"
#include "base/util.h"
#include "engine.h"
#include "task.h"
#include <errno.h>
#include <signal.h>

#define AT_ONE_TIME 1000000u /* events at one virtual time, at most */

/* The decider wakes the threads that run what was opened. */
static void wake(struct fm_gpu_set *s)
{
	if (s->host.is_virtual)
		return;
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

void fm_gpu_cpu_kick(struct fm_gpu_set *s)
{
	fm_gs_host_kick(&s->host);
	wake(s);
}

void fm_gpu_cpu_leave(struct fm_gpu_set *s)
{
	fm_gs_host_leave(&s->host);
	wake(s);
}

/* A chunk has ended, and there may be room in its stream. The lock is not held. */
static void end_chunk(struct fm_gpu_set *s, uint32_t task)
{
	fm_gs_host_end(&s->host, task);
	fm_gs_host_kick(&s->host);
	if (fm_gpu_fill(s, task))
		fm_gs_host_kick(&s->host);
}

/* A task whose gate is open and whose chunk has not begun; the number of tasks if there is none. */
static uint32_t find_open(const struct fm_gpu_set *s)
{
	uint32_t i = 0;

	while (i < s->host.g.n && fm_gs_read(&s->host.g.task[i].gate) == s->work[i].begun)
		i++;
	return i;
}

/* Have words told anything? Whatever they hold, each change is looked at once. */
static bool words_told(struct fm_gpu_set *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->host.g.n; i++)
		if (s->work[i].has_word)
			sum += fm_gs_read(&s->work[i].word);
	if (sum == s->words_seen)
		return false;
	s->words_seen = sum;
	return true;
}

static bool has_words(const struct fm_gpu_set *s)
{
	for (uint32_t i = 0; i < s->host.g.n; i++)
		if (s->work[i].has_word)
			return true;
	return false;
}

/* --- real time --- */

static void sleep_until(struct fm_gpu_set *s, uint64_t at)
{
	struct timespec ts = fm_timespec(at);

	if (at == FM_NEVER)
		pthread_cond_wait(&s->cond, &s->lock);
	else
		pthread_cond_timedwait(&s->cond, &s->lock, &ts);
}

static void pass(struct fm_gpu_set *s, uint64_t ns)
{
	uint64_t at = fm_add_sat(fm_now(), ns);

	while (!s->stop && fm_now() < at)
		sleep_until(s, at);
}

static void run_chunk(struct fm_gpu_set *s, uint32_t task)
{
	struct fm_gpu_command c;

	s->work[task].begun++;
	do {
		c = fm_gpu_take(&s->work[task].stream);
		if (c.ns)
			pass(s, c.ns);
		if (s->stop)
			return;
		pthread_mutex_unlock(&s->lock);
		fm_gpu_call(s, &c);
		pthread_mutex_lock(&s->lock);
	} while (!c.last);
	pthread_mutex_unlock(&s->lock);
	end_chunk(s, task);
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->cond);
}

/* Nothing to run: until a gate is opened, a period begins, the scheduler lets the set go on, or it
 * is time to look at words. One thread looks. */
static void rest(struct fm_gpu_set *s)
{
	bool looks = !s->looking && has_words(s), goes_on = fm_gpu_beside_goes_on(s);
	uint64_t at = fm_gs_read(&s->host.g.wake), now = fm_now();

	if (looks) {
		s->looking = true;
		at = FM_MIN(at, now + FM_GPU_LOOK);
	}
	if (at > now && !goes_on)
		sleep_until(s, at);
	if (looks)
		s->looking = false;
	if (s->stop ||
		!(goes_on || (looks && words_told(s)) || fm_gs_read(&s->host.g.wake) <= fm_now()))
		return;
	pthread_mutex_unlock(&s->lock);
	fm_gs_host_kick(&s->host);
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->cond);
}

static void *slot(void *arg)
{
	struct fm_gpu_set *s = arg;

	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		uint32_t task = find_open(s);

		if (task < s->host.g.n)
			run_chunk(s, task);
		else
			rest(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* All signals are blocked in these threads: the program's handlers run in the program's. */
static int start_threads(struct fm_gpu_set *s)
{
	sigset_t all, old;
	int rc = 0;

	if (s->host.is_virtual)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (!rc && s->threads < s->host.g.slots) {
		rc = pthread_create(&s->thread[s->threads], NULL, slot, s);
		s->threads += !rc;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

static void stop_threads(struct fm_gpu_set *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
	while (s->threads)
		pthread_join(s->thread[--s->threads], NULL);
}

static int wait_until_idle(struct fm_gpu_set *s, uint64_t deadline)
{
	bool idle;

	pthread_mutex_lock(&s->lock);
	while (!(idle = fm_gs_host_idle(&s->host)) && fm_now() < deadline)
		sleep_until(s, deadline);
	pthread_mutex_unlock(&s->lock);
	return idle ? 0 : -ETIMEDOUT;
}

/* --- virtual time --- */

static void begin_open(struct fm_gpu_set *s)
{
	uint64_t from = s->host.now + s->host.g.gap;
	uint32_t i;

	while ((i = find_open(s)) < s->host.g.n) {
		struct fm_gpu_work *w = &s->work[i];
		unsigned at = s->n_on++;

		for (; at && s->on[at - 1] > i; at--)
			s->on[at] = s->on[at - 1];
		s->on[at] = i;
		w->begun++;
		w->until = fm_add_sat(from, w->stream.at[w->stream.first].ns);
	}
}

static uint64_t next_time(const struct fm_gpu_set *s)
{
	uint64_t at = s->n_on < s->host.g.slots ? fm_gs_read(&s->host.g.wake) : FM_NEVER;

	for (unsigned i = 0; i < s->n_on; i++)
		at = FM_MIN(at, s->work[s->on[i]].until);
	return at;
}

/* The command of on[at] has ended. Returns whether its chunk has, too; then on[] is shorter. */
static bool end_command(struct fm_gpu_set *s, unsigned at)
{
	uint32_t task = s->on[at];
	struct fm_gpu_work *w = &s->work[task];
	struct fm_gpu_command c = fm_gpu_take(&w->stream);

	pthread_mutex_unlock(&s->lock);
	fm_gpu_call(s, &c);
	pthread_mutex_lock(&s->lock);
	if (!c.last) {
		w->until = fm_add_sat(s->host.now, w->stream.at[w->stream.first].ns);
		return false;
	}
	s->n_on--;
	for (unsigned i = at; i < s->n_on; i++)
		s->on[i] = s->on[i + 1];
	fm_gs_host_end(&s->host, task);
	return true;
}

/* All that ends now ends before it is decided what begins. */
static void end_commands(struct fm_gpu_set *s)
{
	uint32_t ended[FM_GPU_SLOTS_MAX];
	unsigned n = 0, at = 0;
	bool more = false;

	while (at < s->n_on) {
		uint32_t task = s->on[at];

		if (s->work[task].until <= s->host.now && end_command(s, at))
			ended[n++] = task;
		else
			at++;
	}
	pthread_mutex_unlock(&s->lock);
	fm_gs_host_kick(&s->host);
	for (unsigned i = 0; i < n; i++)
		more |= fm_gpu_fill(s, ended[i]);
	if (more)
		fm_gs_host_kick(&s->host);
	pthread_mutex_lock(&s->lock);
}

static void hear_words(struct fm_gpu_set *s)
{
	if (!words_told(s))
		return;
	pthread_mutex_unlock(&s->lock);
	fm_gs_host_kick(&s->host);
	pthread_mutex_lock(&s->lock);
}

static int pass_events(struct fm_gpu_set *s, uint64_t to, bool until_idle)
{
	unsigned same = 0;
	uint64_t at;

	for (;;) {
		hear_words(s);
		begin_open(s);
		at = next_time(s);
		if (at > to || at == FM_NEVER || (until_idle && fm_gs_host_idle(&s->host)))
			break;
		same = at > s->host.now ? 0 : same + 1;
		if (same > AT_ONE_TIME)
			return -ELOOP;
		fm_gs_write(&s->host.now, FM_MAX(at, s->host.now));
		end_commands(s);
	}
	if (!until_idle && to != FM_NEVER)
		fm_gs_write(&s->host.now, to);
	return 0;
}

int fm_gpu_cpu_advance(struct fm_gpu_set *s, uint64_t to, bool until_idle)
{
	int rc;

	pthread_mutex_lock(&s->lock);
	if (s->advancing) {
		pthread_mutex_unlock(&s->lock);
		return -EBUSY;
	}
	s->advancing = true;
	rc = pass_events(s, to, until_idle);
	if (!rc && until_idle && !fm_gs_host_idle(&s->host)) {
		if (to != FM_NEVER)
			fm_gs_write(&s->host.now, to);
		rc = -ETIMEDOUT;
	}
	s->advancing = false;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* --- the engine --- */

static void begin_periods(struct fm_gpu_set *s)
{
	struct fm_gs *g = &s->host.g;
	uint64_t now;

	fm_gs_host_enter(&s->host);
	now = fm_gs_host_now(&s->host);
	g->after = s->after;
	fm_gs_write(&g->drain, 0);
	for (uint32_t i = 0; i < g->n; i++)
		g->task[i].next = g->task[i].period ? now + g->task[i].phase : FM_NEVER;
	fm_gpu_cpu_leave(s);
}

static int start(struct fm_gpu_set *s)
{
	int rc = fm_gpu_beside_take(s);

	if (rc)
		return fm_gpu_fail(
			s, rc, "it cannot be a queue of the group: too many, or no name");
	begin_periods(s);
	for (uint32_t i = 0; i < s->host.g.n; i++)
		fm_gpu_fill(s, i);
	rc = start_threads(s);
	if (rc)
		return fm_gpu_fail(s, rc, "no threads for %u slots", s->host.g.slots);
	fm_gpu_cpu_kick(s);
	return 0;
}

static void end(struct fm_gpu_set *s)
{
	stop_threads(s);
	fm_gpu_beside_leave(s);
}

static void park(struct fm_gpu_set *s)
{
	fm_gpu_beside_hold(s);
	fm_gpu_cpu_kick(s);
}

static int drain(struct fm_gpu_set *s, uint64_t timeout_ns)
{
	uint64_t deadline;

	fm_gs_write(&s->host.g.drain, 1);
	fm_gpu_cpu_kick(s);
	deadline = fm_add_sat(fm_gs_host_now(&s->host), timeout_ns);
	return s->host.is_virtual ? fm_gpu_cpu_advance(s, deadline, true)
				  : wait_until_idle(s, deadline);
}

static int check_task(struct fm_gpu_set *s, const struct fm_gpu_task *t)
{
	if (t->graph)
		return fm_gpu_fail(s, -EOPNOTSUPP,
			"the engine \"cpu\" cannot launch graphs of a device; give enqueue "
			"instead");
	if (!t->enqueue && !t->wcet_ns)
		return fm_gpu_fail(s, -EINVAL, "neither enqueue nor wcet_ns: what is its work?");
	return 0;
}

static int ask(struct fm_gpu_set *s, uint32_t task, unsigned jobs)
{
	fm_gs_more(&s->host.g.task[task].rung, jobs);
	return 0;
}

static int release(struct fm_gpu_set *s, uint32_t task, unsigned jobs)
{
	(void)jobs;
	fm_gpu_fill(s, task);
	fm_gpu_cpu_kick(s);
	return 0;
}

const struct fm_gpu_engine fm_gpu_cpu = {
	.name = "cpu",
	.tasks = FM_GPU_TASKS_MAX,
	.resident = true,
	.virtual_time = true,
	.seated = true,
	.close = end,
	.check = check_task,
	.start = start,
	.drain = drain,
	.park = park,
	.ask = ask,
	.release = release,
};
