/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian on a device, without anything else of Fermata: images are rewritten, loaded by the
 * driver's API, launched, stopped at random and gone on with; what is computed must be what it is
 * natively, bit for bit.
 *
 *   gpu_guardian [--images DIR] [--seconds S] [--jobs N] [--limit S] [--form elf|ptx] [WHAT...]
 *   gpu_guardian [--images DIR] [--seconds S] [--limit S] one WHAT elf|ptx
 *   gpu_guardian load FILE...
 *
 * WHAT is the name of a case, or "launching", "latency", "cost"; without any, all. S is for how
 * long each case is stopped at random, in each form; N cases run at the same time. Each runs in a
 * process of its own, since an error of CUDA's stays, and for --limit seconds at most; "one" runs
 * in this process, for other tools (compute-sanitizer). "load" loads images as they are: those that
 * bench_cuda_images --write leaves. DIR holds what make-images makes. Exit status 0: all ok; 1:
 * something failed; 77: no device to try it on.
 */
#include "world.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_JOBS = 16, GRACE_S = 15, SKIP = 77 };

struct options {
	const char *images, *seconds, *form, *limit;
	int jobs;
};

struct running {
	pid_t pid;
	FILE *out;
	char what[64];
	uint64_t since;
};

static struct running running[MOST_JOBS];
static int n_running, failures, done;
static unsigned long long stops, inside;

static void show(FILE *out)
{
	unsigned long long s, i;
	char line[4096];

	rewind(out);
	while (fgets(line, sizeof(line), out))
		if (sscanf(line, "#stops %llu %llu", &s, &i) == 2) {
			stops += s;
			inside += i;
		} else {
			fputs(line, stdout);
		}
	fclose(out);
}

static void ended(struct running *r, int status)
{
	show(r->out);
	done++;
	if (WIFSIGNALED(status))
		printf("failed %s: killed by signal %d%s\n", r->what, WTERMSIG(status),
			WTERMSIG(status) == SIGKILL ? " (it did not end by itself)" : "");
	else if (WEXITSTATUS(status) == SKIP)
		exit(SKIP);
	else if (WEXITSTATUS(status))
		printf("failed %s\n", r->what);
	failures += status != 0;
	fflush(stdout);
	*r = running[--n_running];
}

/* Until at most so many run. */
static void wait_for(const struct options *o, int most)
{
	uint64_t limit = (uint64_t)(atoi(o->limit) + GRACE_S) * 1000000000;

	while (n_running > most) {
		for (int i = 0; i < n_running; i++) {
			int status;

			if (waitpid(running[i].pid, &status, WNOHANG) == running[i].pid)
				ended(&running[i--], status);
			else if (now_ns() - running[i].since > limit)
				kill(running[i].pid, SIGKILL);
		}
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
}

static void start(const struct options *o, const char *what, const char *form)
{
	struct running *r;

	wait_for(o, o->jobs - 1);
	r = &running[n_running++];
	*r = (struct running){.out = tmpfile(), .since = now_ns()};
	snprintf(r->what, sizeof(r->what), "%-15s %s", what, form);
	if (!r->out || (r->pid = fork()) < 0) {
		perror("gpu_guardian");
		exit(1);
	}
	if (r->pid)
		return;
	dup2(fileno(r->out), STDOUT_FILENO);
	execl("/proc/self/exe", "gpu_guardian", "--images", o->images, "--seconds", o->seconds,
		"--limit", o->limit, "one", what, form, NULL);
	_exit(127);
}

static bool wanted(char **names, const char *name)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

static int run_all(const struct options *o, char **names)
{
	static const char *const forms[] = {"elf", "ptx"};

	for (unsigned i = 0; i < n_cases; i++)
		for (int k = 0; k < 2; k++)
			if (wanted(names, cases[i].name) &&
				(!o->form || strcmp(o->form, forms[k]) == 0))
				start(o, cases[i].name, forms[k]);
	if (wanted(names, "launching"))
		start(o, "launching", "elf");
	wait_for(o, 0);
	if (wanted(names, "latency"))
		start(o, "latency", "elf");
	wait_for(o, 0);
	if (wanted(names, "cost"))
		for (int k = 0; k < 2; k++)
			if (!o->form || strcmp(o->form, forms[k]) == 0) {
				start(o, "cost", forms[k]);
				wait_for(o, 0);
			}
	printf("\n%d done, %d failed; %llu stops, %llu of them inside a kernel\n", done, failures,
		stops, inside);
	if (!*names && stops < 1000) {
		printf("failed: fewer than 1,000 stops\n");
		failures++;
	}
	return failures != 0 || !done;
}

static void late(int signal)
{
	static const char text[] = "       hangs; while: ";
	const char *what = doing;

	fflush(stdout); /* nothing but this program's main loop is interrupted: a wait */
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ||
		write(STDOUT_FILENO, what, strlen(what)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0)
		_exit(1);
	_exit(1);
}

static int run_one(const struct options *o, const char *what, const char *form_wanted)
{
	static struct world w;
	enum form form = strcmp(form_wanted, "ptx") == 0 ? TEXT : REWRITTEN;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGALRM, late);
	alarm((unsigned)atoi(o->limit));
	w.dev = open_device();
	w.seconds = atof(o->seconds);
	if (strcmp(what, "launching") == 0)
		run_launching(&w, o->images);
	else if (strcmp(what, "latency") == 0)
		measure_latency(&w, o->images);
	else if (strcmp(what, "cost") == 0)
		measure_cost(&w, o->images, form);
	for (unsigned i = 0; i < n_cases; i++)
		if (strcmp(cases[i].name, what) == 0)
			run_case(&w, &cases[i], form, o->images);
	fflush(stdout);
	_exit(0);
}

static int load_all(char **file)
{
	int n = 0;

	while (file[n])
		n++;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	open_device();
	return load_files(n, file);
}

static bool known(const char *name)
{
	for (unsigned i = 0; i < n_cases; i++)
		if (strcmp(cases[i].name, name) == 0)
			return true;
	return strcmp(name, "launching") == 0 || strcmp(name, "latency") == 0 ||
	       strcmp(name, "cost") == 0;
}

static int usage(void)
{
	fputs("usage: gpu_guardian [--images DIR] [--seconds S] [--jobs N] [--limit S] [--form "
	      "elf|ptx] "
	      "[WHAT...]\n"
	      "       gpu_guardian [--images DIR] [--seconds S] [--limit S] one WHAT elf|ptx\n"
	      "       gpu_guardian load FILE...\n",
		stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct options o = {.images = "images", .seconds = "0.5", .limit = "25", .jobs = 1};

	argv++;
	for (; argv[0] && argv[1] && argv[0][0] == '-'; argv += 2) {
		if (strcmp(*argv, "--images") == 0)
			o.images = argv[1];
		else if (strcmp(*argv, "--seconds") == 0)
			o.seconds = argv[1];
		else if (strcmp(*argv, "--form") == 0)
			o.form = argv[1];
		else if (strcmp(*argv, "--limit") == 0)
			o.limit = argv[1];
		else if (strcmp(*argv, "--jobs") == 0)
			o.jobs = atoi(argv[1]);
		else
			return usage();
	}
	if (o.jobs < 1 || o.jobs > MOST_JOBS)
		return usage();
	if (*argv && strcmp(*argv, "load") == 0)
		return load_all(argv + 1);
	if (*argv && strcmp(*argv, "one") == 0)
		return argv[1] && argv[2] ? run_one(&o, argv[1], argv[2]) : usage();
	for (char **name = argv; *name; name++)
		if (!known(*name))
			return usage();
	return run_all(&o, argv);
}
