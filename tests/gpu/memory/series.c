/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of which each may hang or lose the device: in a process of their own, begun anew when one
 * does. */
#include "gpu.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const outcome_names[] = {
	"not run", "right", "wrong", "lost", "hung", "absent", "noted"};

enum { SIGNALLED = 1000, TOO_LONG = 999 };

struct state {
	_Atomic int at; /* the case that runs; those before it have ended */
	_Atomic long since_us;
	struct outcome o[];
};

static _Noreturn void run_from(const struct series *s, struct state *st)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	s->begin();
	for (int i = atomic_load(&st->at); i < s->n; i++) {
		struct outcome *o = &st->o[i];

		atomic_store(&st->since_us, (long)now_us());
		s->one(i, o);
		if (!o->after)
			o->after = gpu_health();
		if (o->after && o->is != WRONG)
			o->is = LOST;
		atomic_store(&st->at, i + 1);
		if (gpu_health())
			_exit(0); /* without the driver's own end, which may hang after an error */
	}
	_exit(0);
}

static void say(const struct series *s, int i, const struct outcome *o)
{
	char name[160];

	s->name(i, name, sizeof(name));
	printf("%s %s: %s", s->probe, name, outcome_names[o->is]);
	if (o->rc > 0)
		printf(", call %d %s", o->rc, gpu_error(o->rc));
	if (o->after)
		printf(", then %d %s", o->after, gpu_error(o->after));
	printf("%s%s\n", o->text[0] ? ", " : "", o->text);
}

/* The status of the process (77 where there is nothing to do), or one of the above. */
static int watch(const struct series *s, struct state *st, pid_t pid, double end, int *said)
{
	int status = 0;

	for (;;) {
		int ended = waitpid(pid, &status, WNOHANG), at = atomic_load(&st->at);

		for (; *said < at; ++*said)
			say(s, *said, &st->o[*said]);
		if (ended)
			return WIFEXITED(status) ? WEXITSTATUS(status)
						 : SIGNALLED + WTERMSIG(status);
		if (now_us() - (double)atomic_load(&st->since_us) >
				s->case_s * gpu_patience() * 1e6 ||
			now_us() > end) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return TOO_LONG;
		}
		wait_us(300);
	}
}

/* The process ended within a case: that is what came of it. */
static void ended_within(const struct series *s, struct state *st, int status, int *said)
{
	int at = atomic_load(&st->at);
	struct outcome *o = &st->o[at];

	o->is = status == TOO_LONG || status == SERIES_HUNG ? HUNG : LOST;
	o->signal = status > SIGNALLED ? status - SIGNALLED : 0;
	if (o->signal)
		snprintf(
			o->text, sizeof(o->text), "the process was killed by signal %d", o->signal);
	else if (o->is == LOST)
		snprintf(o->text, sizeof(o->text), "the process ended with %d", status);
	atomic_store(&st->at, at + 1);
	for (; *said <= at; ++*said)
		say(s, *said, o);
}

struct outcome *series_run(const struct series *s)
{
	size_t size = sizeof(struct state) + (size_t)s->n * sizeof(struct outcome);
	struct state *st =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double end = now_us() + s->all_s * gpu_patience() * 1e6;
	int said = 0;

	if (st == MAP_FAILED)
		return NULL;
	gpu_find(); /* for the names of errors; the device is opened by children alone */
	while (atomic_load(&st->at) < s->n && now_us() < end) {
		int before = atomic_load(&st->at), status;
		pid_t pid;

		fflush(stdout);
		atomic_store(&st->since_us,
			(long)(now_us() + 20e6)); /* the device may take its time to open */
		pid = fork();
		if (!pid)
			run_from(s, st);
		status = watch(s, st, pid, end, &said);
		if (status == 77)
			return NULL;
		if (status)
			ended_within(s, st, status, &said);
		else if (atomic_load(&st->at) == before)
			break;
	}
	if (atomic_load(&st->at) < s->n)
		printf("%s: out of time, %d of %d cases not run\n", s->probe,
			s->n - atomic_load(&st->at), s->n);
	return st->o;
}
