/* SPDX-License-Identifier: Apache-2.0 */
/* `profile --attach-next': a program that somebody else starts. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/attach.h"
#include "cmd/inject.h"
#include "cmd/progress.h"
#include "profile.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK   UINT64_C(50000000)   /* [ns] between looks at what has come */
#define TAKES  UINT64_C(5000000000) /* [ns] from when a request is taken until that is said */
#define WRITES UINT64_C(1000000000) /* [ns] for the end of the records, when the time is over */

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	stopped = sig;
}

static void set_signals(void)
{
	struct sigaction act = {.sa_handler = stop};

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
}

static void nap(void)
{
	const struct timespec t = fm_timespec(LOOK);

	nanosleep(&t, NULL);
}

/* Whoever takes the request says so in a moment, or cannot, and never says so. */
static pid_t wait_for_taker(const struct profile_options *o, const char *dir)
{
	uint64_t gone = 0;
	pid_t pid;

	while (!(pid = attach_taken(dir))) {
		if (stopped && attach_withdraw(o->attach))
			return 0;
		if (attach_waits(o->attach))
			gone = 0;
		else if (!gone)
			gone = fm_now();
		else if (fm_now() - gone > TAKES)
			return attach_taken(dir);
		progress_show("%s: waiting for the next process of %s", cli_name(), o->attach);
		nap();
	}
	return pid;
}

/* Until it has ended, or has been looked at for long enough. It begins as another program, which
 * it is not told apart from. */
static void wait_for_end(const struct profile_options *o, pid_t pid)
{
	FM_CLEAN_FD int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t begun = fm_now();

	if (fd < 0)
		return;
	while (!stopped && poll(&p, 1, (int)(LOOK / 1000000)) <= 0 &&
		!(o->span && fm_now() - begun > o->span + WRITES))
		progress_show("%s: %.0f s of process %d", cli_name(),
			(double)(fm_now() - begun) / 1e9, (int)pid);
}

int profile_attach(const struct profile_options *o, const char *dir, struct fm_err *err)
{
	static const char *const names[] = {FM_PROFILE_DIR, FM_PROFILE_BY, FM_PROFILE_CHECK,
		FM_PROFILE_SANITIZER, FM_PROFILE_FOR, NULL};
	char span[24];
	pid_t pid;
	int rc;

	snprintf(span, sizeof(span), "%llu", (unsigned long long)o->span);
	if (inject_set(FM_PROFILE_DIR, dir, err) || inject_set(FM_PROFILE_FOR, span, err) ||
		profile_set_sources(o, err))
		return err->code ? err->code : -EINVAL;
	set_signals();
	rc = attach_ask(o->attach, names, err);
	if (rc)
		return rc;
	fprintf(stderr, "%s: the next process of '%s' that `fermata run' starts is looked at\n",
		cli_name(), o->attach);
	pid = wait_for_taker(o, dir);
	if (pid)
		wait_for_end(o, pid);
	progress_clear();
	return pid ? 0 : fm_err_set(err, -EINTR, "no process of '%s' is looked at", o->attach);
}
