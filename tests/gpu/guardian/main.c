/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian on a device, without anything else of Fermata: images are rewritten, loaded by the
 * driver's API, launched, stopped at random and gone on with; what is computed must be what it is
 * natively, bit for bit.
 *
 *   gpu_guardian [OPTION VALUE]... [--never-stop] [WHAT...]
 *   gpu_guardian load FILE...
 *
 *   --images DIR       what make-images makes
 *   --form elf|ptx|loops|native  machine code alone, or PTX, or PTX whose kernels can be left in
 * loops; or what there was before: nothing is rewritten
 *   --jobs N           so many cases at the same time, in processes of their own; 0: in this one,
 * for other tools
 *   --seconds S        for how long each case is stopped at random, in each form
 *   --within S         less of that where all of it would take longer than this
 *   --limit S          a case that has not ended then hangs
 *   --never-stop       natively, rewritten, and guarded, but nobody stops it: for tools under which
 * streams wait for each other (compute-sanitizer)
 *   --launches N, --blocks N  no more than so many launches of a kernel in a shape in a batch, and
 * blocks in a launch: for tools under which kernels take long
 *   --without NAME     all but this
 *
 * WHAT is the name of a case, or "launching"; without any, all. "latency", "cost" and "loops"
 * measure. A process ends with the first error, since one of CUDA's stays; another goes on with the
 * next case. "load" loads images as they are: those that bench_cuda_images --write leaves; whole,
 * or as CUDA_MODULE_LOADING says, and tells how long the driver takes to. Exit status 0: all ok; 1:
 * something failed; 77: no device to try it on.
 */
#include "world.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST_JOBS = 16,
	MOST_ITEMS = 128,
	GRACE_S = 15,
	SKIP = 77,
	NOTHING = -1,
	FEWEST_STOPS = 1000
};

struct options {
	const char *images, *form, *without;
	double seconds, within;
	int jobs, limit;
	unsigned launches, blocks;
	bool never_stop;
};

struct item {
	const char *what;
	enum form form;
	const struct test_case *c; /* NULL: not a case */
};

/* Seen by all processes. */
struct shared {
	atomic_int next;
	struct worker {
		atomic_int item; /* what it is at */
		_Atomic uint64_t since;
	} worker[MOST_JOBS];
	_Atomic uint64_t stops, inside;
};

static struct item item[MOST_ITEMS];
static int n_items;
static struct shared *shared;
static uint64_t deadline;

static bool wanted(const struct options *o, const struct test_case *c, enum form form)
{
	if (form == LOOPS && !(c && strncmp(c->name, "loop-", 5) == 0))
		return false;
	return o->form ? strcmp(o->form, form_name[form]) == 0 && (c || form != NATIVE)
		       : form != NATIVE;
}

static void add(const struct options *o, const char *what, const struct test_case *c, bool texts)
{
	if (o->without && strcmp(o->without, what) == 0)
		return;
	for (enum form form = NATIVE; form <= (texts ? LOOPS : REWRITTEN); form++)
		if (wanted(o, c, form) && n_items < MOST_ITEMS)
			item[n_items++] = (struct item){what, form, c};
}

static bool add_named(const struct options *o, const char *what)
{
	for (unsigned i = 0; i < n_cases; i++)
		if (strcmp(cases[i].name, what) == 0) {
			add(o, what, &cases[i], true);
			return true;
		}
	if (strcmp(what, "launching") && strcmp(what, "latency") && strcmp(what, "cost") &&
		strcmp(what, "loops"))
		return false;
	add(o, what, NULL, strcmp(what, "cost") == 0);
	return true;
}

/* Nothing but this program's main loop is interrupted: a wait. */
static void late(int signal)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "failed %s: hangs; while: %s\n", whose, doing);

	fflush(stdout);
	if (write(STDOUT_FILENO, line, (size_t)n) < 0)
		_exit(1);
	_exit(1);
}

/* Of what is left until the deadline, its part. */
static double seconds_for(const struct options *o, int index)
{
	double left = ((double)deadline - (double)now_ns()) / 1e9;
	double part = left * (o->jobs ? o->jobs : 1) / (n_items - index) / 2;

	if (!o->within || part > o->seconds)
		return o->seconds;
	return part > 0 ? part : 0;
}

static void run_item(struct world *w, const struct options *o, const struct item *it)
{
	if (it->c)
		run_case(w, it->c, it->form, o->images);
	else if (strcmp(it->what, "launching") == 0)
		run_launching(w, o->images);
	else if (strcmp(it->what, "latency") == 0)
		measure_latency(w, o->images);
	else if (strcmp(it->what, "loops") == 0)
		measure_loops(w, o->images);
	else
		measure_cost(w, o->images, it->form);
}

/* One item after the other, until none is left. Each leaves its lines at once, so that those of
 * others do not come between. */
static void work(const struct options *o, struct worker *self)
{
	static struct world w;

	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	signal(SIGALRM, late);
	alarm((unsigned)o->limit);
	self->since = now_ns();
	world_open(&w);
	w.never_stop = o->never_stop;
	w.q.most_launches = o->launches;
	w.q.most_blocks = o->blocks;
	for (;;) {
		int i = shared->next++;

		if (i >= n_items)
			break;
		self->item = i;
		self->since = now_ns();
		alarm((unsigned)o->limit);
		w.seconds = seconds_for(o, i);
		snprintf(whose, sizeof(whose), "%-15s %s", item[i].what, form_name[item[i].form]);
		run_item(&w, o, &item[i]);
		fflush(stdout);
		shared->stops += w.q.stops;
		shared->inside += w.q.inside;
		w.q.stops = w.q.inside = 0;
		self->item = NOTHING;
	}
}

static pid_t start(const struct options *o, struct worker *self)
{
	pid_t pid;

	self->item = NOTHING;
	self->since = now_ns();
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		perror("gpu_guardian");
		exit(1);
	}
	if (!pid) {
		work(o, self);
		_exit(0); /* without the driver's own end */
	}
	return pid;
}

/* Whether another process may go on. One that failed has said so itself. */
static bool ended(const struct worker *self, int status)
{
	const struct item *it = self->item == NOTHING ? NULL : &item[self->item];

	if (!it && WIFEXITED(status) && WEXITSTATUS(status) == SKIP)
		exit(SKIP);
	if (WIFSIGNALED(status))
		printf("failed %s %s: killed by signal %d%s\n", it ? it->what : "",
			it ? form_name[it->form] : "", WTERMSIG(status),
			WTERMSIG(status) == SIGKILL ? " (it did not end by itself)" : "");
	fflush(stdout);
	return it;
}

/* The number of items that failed. */
static int run_workers(const struct options *o)
{
	uint64_t limit = (uint64_t)(o->limit + GRACE_S) * 1000000000;
	pid_t pid[MOST_JOBS];
	int running = 0, failures = 0;

	for (; running < o->jobs && running < n_items; running++)
		pid[running] = start(o, &shared->worker[running]);
	for (int n = running; running;) {
		for (int i = 0; i < n; i++) {
			struct worker *self = &shared->worker[i];
			int status;

			if (!pid[i])
				continue;
			if (now_ns() > self->since + limit)
				kill(pid[i], SIGKILL);
			if (waitpid(pid[i], &status, WNOHANG) != pid[i])
				continue;
			failures += status != 0;
			pid[i] = status && ended(self, status) && shared->next < n_items
					 ? start(o, self)
					 : 0;
			running -= !pid[i];
		}
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	return failures;
}

static int run_all(const struct options *o, bool enough_to_count)
{
	uint64_t from = now_ns();
	int failures = 0;

	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	deadline = from + (uint64_t)(o->within * 1e9);
	if (o->jobs)
		failures = run_workers(o);
	else
		work(o, &shared->worker[0]);
	printf("\n%d done, %d failed, %.0f s; %llu stops, %llu of them inside a kernel\n", n_items,
		failures, (double)(now_ns() - from) / 1e9, (unsigned long long)shared->stops,
		(unsigned long long)shared->inside);
	if (enough_to_count && shared->stops < FEWEST_STOPS) {
		printf("failed: fewer than %d stops\n", FEWEST_STOPS);
		failures++;
	}
	fflush(stdout);
	return failures != 0 || !n_items;
}

static int load_all(char **file)
{
	int n = 0;

	while (file[n])
		n++;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	open_device();
	return load_files(n, file);
}

static int usage(void)
{
	fputs("usage: gpu_guardian [--images DIR] [--form elf|ptx|loops|native] [--jobs N] "
	      "[--seconds S] [--within S]\n"
	      "                    [--limit S] [--never-stop] [--launches N] [--blocks N] "
	      "[--without NAME] [WHAT...]\n"
	      "       gpu_guardian load FILE...\n",
		stderr);
	return 2;
}

static bool option(struct options *o, const char *name, const char *value)
{
	if (strcmp(name, "--images") == 0)
		o->images = value;
	else if (strcmp(name, "--form") == 0)
		o->form = value;
	else if (strcmp(name, "--seconds") == 0)
		o->seconds = atof(value);
	else if (strcmp(name, "--within") == 0)
		o->within = atof(value);
	else if (strcmp(name, "--limit") == 0)
		o->limit = atoi(value);
	else if (strcmp(name, "--jobs") == 0)
		o->jobs = atoi(value);
	else if (strcmp(name, "--launches") == 0)
		o->launches = (unsigned)atoi(value);
	else if (strcmp(name, "--blocks") == 0)
		o->blocks = (unsigned)atoi(value);
	else if (strcmp(name, "--without") == 0)
		o->without = value;
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct options o = {.images = "images", .seconds = 0.5, .limit = 25, .jobs = 1};

	argv++;
	for (; *argv && **argv == '-'; argv++)
		if (strcmp(*argv, "--never-stop") == 0)
			o.never_stop = true;
		else if (!argv[1] || !option(&o, argv[0], argv[1]))
			return usage();
		else
			argv++;
	if (o.jobs < 0 || o.jobs > MOST_JOBS || o.limit < 1)
		return usage();
	if (*argv && strcmp(*argv, "load") == 0)
		return load_all(argv + 1);
	for (char **name = argv; *name; name++)
		if (!add_named(&o, *name))
			return usage();
	for (unsigned i = 0; !*argv && i < n_cases; i++)
		add(&o, cases[i].name, &cases[i], true);
	if (!*argv)
		add(&o, "launching", NULL, false);
	return run_all(&o, !*argv && !o.never_stop);
}
