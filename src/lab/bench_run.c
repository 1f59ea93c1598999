/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `fermata-lab bench`: its programs, and the commands that they get one after the other.
 */
#include "base/clock.h"
#include "base/parse.h"
#include "base/util.h"
#include "bench.h"
#include "cmd/place.h"
#include "cmd/progress.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define READY_NS  (120 * FM_S) /* a kernel may have to be compiled, on a busy machine */
#define BEGIN_NS  (50 * FM_MS)
#define GRACE_NS  (30 * FM_S) /* for the last request of each client */
#define CLOSE_NS  (5 * FM_S)
#define POLL_NS   (5 * FM_MS)
#define SHOW_NS   (FM_S / 2)
#define ARGUMENTS (2 * FM_HINT_COUNT + 24)

static volatile sig_atomic_t interrupts;

static void on_interrupt(int sig)
{
	(void)sig;
	interrupts++;
}

void bench_catch_interrupts(void)
{
	const struct sigaction sa = {.sa_handler = on_interrupt};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

int bench_interrupts(void)
{
	return interrupts;
}

static void pause_a_little(void)
{
	const struct timespec t = fm_timespec(POLL_NS);

	nanosleep(&t, NULL);
}

int bench_find_daemon(struct bench *b, struct fm_err *err)
{
	struct cli at = *b->cli;
	CLI_CLEAN_JSON json_t *reply = NULL;
	int rc;

	if (b->daemon.own)
		at.socket = b->daemon.dir;
	rc = ctl_call(&at, json_pack("{s:s}", "cmd", "policy"), &reply, b->dir, err);
	if (rc == -ENOTCONN && !ctl_dir_given(&at)) {
		rc = personal_dir(b->dir);
		rc = rc ? fm_err_set(err, rc, "no safe directory for a daemon of your own")
			: personal_start(b->dir, err);
		at.socket = b->dir;
		rc = rc ? rc
			: ctl_call(&at, json_pack("{s:s}", "cmd", "policy"), &reply, NULL, err);
	}
	snprintf(b->policy, sizeof(b->policy), "%s",
		cli_str(json_object_get(reply, "policy"), "name"));
	return rc;
}

/* Arguments of `fermata run`, with the texts that they need. */
struct command {
	char *argv[ARGUMENTS];
	size_t n;
	char text[FM_HINT_COUNT][64], group[BENCH_GROUP], number[3][16], self[PATH_MAX];
};

static void add(struct command *c, const char *word)
{
	c->argv[c->n++] = (char *)word;
}

static void add_hints(struct command *c, const struct bench_task *t)
{
	for (size_t i = 0; i < t->hints; i++) {
		enum fm_hint h = (enum fm_hint)t->hint[i].hint;

		snprintf(c->text[i], sizeof(c->text[i]), "--%s=%" PRId64 "%s", fm_hint_name(h),
			t->hint[i].value, fm_hint_suffix(h));
		add(c, c->text[i]);
	}
}

/* Started by `fermata run', like any program; natively without it. */
static void make_command(
	const struct bench *b, enum bench_mode mode, uint32_t task, struct command *c)
{
	if (mode != BENCH_NATIVE) {
		add(c, "fermata");
		add(c, "run");
		if (mode == BENCH_LOCAL) {
			add(c, "--local");
			add(c, b->o.local);
		} else {
			add(c, "--socket");
			add(c, b->dir);
		}
		if (!b->o.threads) {
			bench_group(&b->w.task[task], c->group);
			add(c, "--group");
			add(c, c->group);
			add_hints(c, &b->w.task[task]);
		}
		add(c, "--");
	}
	snprintf(c->number[0], sizeof(c->number[0]), "%d", b->text_fd);
	snprintf(c->number[1], sizeof(c->number[1]), "%d", b->page_fd);
	snprintf(c->number[2], sizeof(c->number[2]), "%" PRIu32, task);
	add(c, c->self);
	add(c, "_bench");
	add(c, c->number[0]);
	add(c, c->number[1]);
	add(c, b->o.threads ? BENCH_ALL : c->number[2]);
	add(c, b->o.driver);
	add(c, NULL);
}

static void exec_client(
	const struct bench *b, enum bench_mode mode, uint32_t task, const char *runner)
{
	static struct command c;
	ssize_t n = readlink("/proc/self/exe", c.self, sizeof(c.self) - 1);

	if (n < 0)
		_exit(CLI_CANNOT_EXECUTE);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	unsetenv("FERMATA_LOCAL");
	unsetenv("FERMATA_GROUP");
	unsetenv("FERMATA_HINTS");
	unsetenv("FERMATA_DISABLE");
	if (mode == BENCH_NATIVE)
		setenv("FERMATA_DISABLE", "1", 1);
	make_command(b, mode, task, &c);
	if (fcntl(b->text_fd, F_SETFD, 0) || fcntl(b->page_fd, F_SETFD, 0))
		_exit(CLI_CANNOT_EXECUTE);
	execv(runner, c.argv);
	_exit(CLI_CANNOT_EXECUTE);
}

static int start(
	struct bench *b, enum bench_mode mode, struct bench_processes *p, struct fm_err *err)
{
	uint32_t n = b->o.threads ? 1 : b->w.tasks;
	char runner[PATH_MAX] = "/proc/self/exe";
	int rc = mode == BENCH_NATIVE ? 0 : place_program("fermata", runner, err);

	if (rc)
		return rc;
	fflush(stdout);
	for (uint32_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return fm_err_set(err, -errno, "cannot start a process: %m");
		if (!pid)
			exec_client(b, mode, i, runner);
		p->pid[i] = pid;
	}
	return 0;
}

static void fail(struct bench_processes *p, uint32_t task, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void fail(struct bench_processes *p, uint32_t task, const char *fmt, ...)
{
	va_list ap;

	if (p->failed[task][0])
		return;
	va_start(ap, fmt);
	vsnprintf(p->failed[task], sizeof(p->failed[task]), fmt, ap);
	va_end(ap);
}

static void note_end(struct bench *b, struct bench_processes *p, uint32_t task, int status)
{
	if (atomic_load(&b->page->seat[task].done) == BENCH_CLOSE + 1u)
		return;
	if (WIFSIGNALED(status))
		fail(p, task, "its process was killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		fail(p, task, "its process ended by itself, with status %d", WEXITSTATUS(status));
}

/* A client that has failed or is gone. */
static void look(struct bench *b, struct bench_processes *p)
{
	for (uint32_t i = 0; i < b->w.tasks; i++) {
		const struct bench_seat *s = &b->page->seat[i];

		if (atomic_load(&s->done) == BENCH_FAILED)
			fail(p, i, "%.*s", BENCH_TEXT - 1, s->error);
	}
	for (uint32_t i = 0; i < b->w.tasks; i++) {
		int status;

		if (p->pid[i] <= 0 || waitpid(p->pid[i], &status, WNOHANG) != p->pid[i])
			continue;
		p->pid[i] = 0;
		for (uint32_t k = i; k < (b->o.threads ? b->w.tasks : i + 1); k++)
			note_end(b, p, k, status);
	}
	for (uint32_t i = 0; b->o.progress_ns && i < b->w.tasks; i++) {
		if (p->failed[i][0] && !p->told[i])
			fprintf(stderr, "task '%s': %s\n", b->w.task[i].id, p->failed[i]);
		p->told[i] = p->failed[i][0];
	}
}

static bool has_done(
	const struct bench *b, const struct bench_processes *p, uint32_t task, enum bench_go go)
{
	return p->failed[task][0] || atomic_load(&b->page->seat[task].done) == go + 1u;
}

/* All clients, or one. */
static bool all_have_done(const struct bench *b, const struct bench_processes *p, enum bench_go go)
{
	for (uint32_t i = 0; i < b->w.tasks; i++)
		if (!has_done(b, p, i, go))
			return false;
	return true;
}

static int first_failure(const struct bench *b, const struct bench_processes *p, struct fm_err *err)
{
	for (uint32_t i = 0; i < b->w.tasks; i++)
		if (p->failed[i][0])
			return fm_err_set(
				err, -EIO, "task '%s': %s", b->w.task[i].id, p->failed[i]);
	return 0;
}

/* Requests of all clients before the run. */
static uint64_t served_alone(const struct bench *b)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < b->w.tasks; i++)
		n += atomic_load(&b->page->seat[i].alone);
	return n;
}

/* No client may fail before the run. A client that finishes a request now and then does not hang.
 */
static int await(struct bench *b, struct bench_processes *p, int64_t task, enum bench_go go,
	struct fm_err *err)
{
	uint64_t end = fm_now() + READY_NS, served = served_alone(b), begin = fm_now(),
		 shown = begin;

	for (;;) {
		if (!b->o.progress_ns && fm_now() - shown > SHOW_NS) {
			shown = fm_now();
			progress_show("bench: %s, %.0f s", b->doing,
				(double)(shown - begin) / (double)FM_S);
		}
		if (served_alone(b) != served) {
			served = served_alone(b);
			end = fm_now() + READY_NS;
		}
		if (bench_interrupts())
			return fm_err_set(err, -EINTR, "interrupted before anything was measured");
		look(b, p);
		if (first_failure(b, p, err))
			return err->code;
		if (task < 0 ? all_have_done(b, p, go) : has_done(b, p, (uint32_t)task, go))
			return 0;
		if (fm_now() > end)
			return fm_err_set(err, -ETIMEDOUT, "a client hung for %u s",
				(unsigned)(READY_NS / FM_S));
		pause_a_little();
	}
}

static int tell(struct bench *b, struct bench_processes *p, uint32_t task, enum bench_go go,
	struct fm_err *err)
{
	bench_tell(&b->page->seat[task], go);
	return await(b, p, task, go, err);
}

/* With --progress, lines that stay; otherwise one line that is rewritten. */
static void progress(struct bench *b, const char *what, uint32_t task)
{
	bool of_task = task < b->w.tasks;

	snprintf(b->doing, sizeof(b->doing), "%s%s%s", what, of_task ? " " : "",
		of_task ? b->w.task[task].id : "");
	if (b->o.progress_ns)
		fprintf(stderr, "%s\n", b->doing);
	else
		progress_show("bench: %s", b->doing);
}

/* In one process, one after the other, because not every driver can handle more at a time. */
static int open_all(struct bench *b, struct bench_processes *p, struct fm_err *err)
{
	int rc = await(b, p, -1, BENCH_WAIT, err);

	for (uint32_t i = 0; !rc && i < b->w.tasks; i++) {
		bench_tell(&b->page->seat[i], BENCH_OPEN);
		if (b->o.threads)
			rc = await(b, p, i, BENCH_OPEN, err);
	}
	return rc ? rc : await(b, p, -1, BENCH_OPEN, err);
}

/* One after the other, each with the device to itself. */
static int measure_alone(struct bench *b, struct bench_processes *p, struct fm_err *err)
{
	int rc;

	progress(b, "starting clients", UINT32_MAX);
	rc = open_all(b, p, err);
	if (!rc && !b->calibrated) {
		progress(b, "finding the length of kernels", UINT32_MAX);
		rc = tell(b, p, 0, BENCH_CALIBRATE, err);
		b->calibrated = true;
	}
	for (uint32_t i = 0; !rc && i < b->w.tasks; i++) {
		progress(b, "measuring alone:", i);
		rc = tell(b, p, i, BENCH_ALONE, err);
	}
	return rc;
}

static uint64_t alone_ns(const struct bench_seat *s)
{
	uint64_t sum = 0;

	for (int p = 0; p < FM_BENCH_PHASES; p++)
		sum += s->alone_ns[p];
	return sum;
}

/* With --disb, does what libdisb's coordinator does: periodic real-time tasks of the same frequency
 * begin one after the other. */
static uint64_t delay_of(const struct bench *b, uint32_t task)
{
	const struct bench_task *t = b->w.task;
	uint64_t delay = 0;

	if (!b->o.disb || t[task].load != BENCH_PERIODIC || !t[task].realtime)
		return 0;
	for (uint32_t k = 0; k < task; k++)
		if (t[k].load == BENCH_PERIODIC && t[k].realtime &&
			(int64_t)b->plan.rate[k] == (int64_t)b->plan.rate[task])
			delay += alone_ns(&b->page->seat[k]);
	return delay;
}

static void make_plan(struct bench *b)
{
	for (uint32_t i = 0; i < b->w.tasks; i++) {
		const struct bench_task *t = &b->w.task[i];
		double alone = (double)FM_MAX(alone_ns(&b->page->seat[i]), UINT64_C(1));
		double rate = t->fraction > 0 ? t->fraction * (double)FM_S / alone : t->rate;

		b->plan.rate[i] = FM_MIN(rate, (double)BENCH_RATE);
		b->plan.delay[i] = delay_of(b, i);
	}
	b->plan.made = true;
}

/* All clients wake up and see it. */
static void stop(struct bench *b)
{
	uint64_t none = 0;

	atomic_compare_exchange_strong(&b->page->stop, &none, FM_MAX(fm_now(), b->page->begin));
	for (uint32_t i = 0; i < b->w.tasks; i++)
		bench_ring(&b->page->seat[i]);
}

static void show_progress(struct bench *b, uint64_t *next)
{
	uint64_t now = fm_now(), done = 0;
	char text[96];

	if (now < *next || now >= b->page->end)
		return;
	for (uint32_t i = 0; i < b->w.tasks; i++)
		done += atomic_load(&b->page->seat[i].results);
	snprintf(text, sizeof(text), "%.0f s of %.0f: %" PRIu64 " requests",
		(double)fm_sub_sat(now, b->page->begin) / (double)FM_S,
		(double)(b->page->end - b->page->begin) / (double)FM_S, done);
	progress(b, text, UINT32_MAX);
	*next = now + (b->o.progress_ns ? (uint64_t)b->o.progress_ns : FM_S);
}

static void watch(struct bench *b, struct bench_processes *p)
{
	uint64_t next = b->page->begin;

	while (!all_have_done(b, p, BENCH_RUN)) {
		if (bench_interrupts())
			stop(b);
		if (bench_interrupts() > 1 || fm_now() > b->page->end + GRACE_NS) {
			for (uint32_t i = 0; i < b->w.tasks; i++)
				if (!has_done(b, p, i, BENCH_RUN))
					fail(p, i, "its last request does not end");
			return;
		}
		show_progress(b, &next);
		pause_a_little();
		look(b, p);
	}
}

static void play(struct bench *b, struct bench_processes *p, time_t *begin)
{
	double seconds = b->o.seconds_ns ? (double)b->o.seconds_ns / (double)FM_S : b->w.seconds;

	if (!b->plan.made)
		make_plan(b);
	for (uint32_t i = 0; i < b->w.tasks; i++) {
		b->page->seat[i].rate = b->plan.rate[i];
		b->page->seat[i].delay = b->plan.delay[i];
	}
	*begin = time(NULL);
	b->page->begin = fm_now() + BEGIN_NS;
	b->page->end = b->page->begin + (uint64_t)(seconds * (double)FM_S);
	for (uint32_t i = 0; i < b->w.tasks; i++)
		bench_tell(&b->page->seat[i], BENCH_RUN);
	watch(b, p);
}

/* The programs end by themselves, or are killed. */
static void end(struct bench *b, struct bench_processes *p, bool wait)
{
	uint64_t until = fm_now() + (wait ? CLOSE_NS : 0);
	bool left;

	for (uint32_t i = 0; i < b->w.tasks; i++)
		bench_tell(&b->page->seat[i], BENCH_CLOSE);
	do {
		left = false;
		for (uint32_t i = 0; i < b->w.tasks; i++) {
			if (p->pid[i] > 0 && waitpid(p->pid[i], NULL, WNOHANG) == p->pid[i])
				p->pid[i] = 0;
			left = left || p->pid[i] > 0;
		}
		if (left)
			pause_a_little();
	} while (left && fm_now() < until);
	for (uint32_t i = 0; i < b->w.tasks; i++) {
		if (p->pid[i] <= 0)
			continue;
		kill(p->pid[i], SIGKILL);
		while (waitpid(p->pid[i], NULL, 0) < 0 && errno == EINTR)
			;
		p->pid[i] = 0;
	}
}

int bench_run(struct bench *b, enum bench_mode mode, struct bench_processes *p, time_t *begin,
	struct fm_err *err)
{
	int rc;

	*p = (struct bench_processes){0};
	memset(b->page->seat, 0, sizeof(b->page->seat));
	atomic_store(&b->page->stop, 0);
	rc = start(b, mode, p, err);
	rc = rc ? rc : measure_alone(b, p, err);
	if (!rc)
		play(b, p, begin);
	end(b, p, !rc && bench_interrupts() < 2);
	progress_clear();
	return rc;
}
