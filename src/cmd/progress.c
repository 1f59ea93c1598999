/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "base/util.h"
#include "table.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool progress_seen(void)
{
	return isatty(STDERR_FILENO);
}

static int room(void)
{
	struct winsize ws;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) || ws.ws_col < 2 ? 79 : ws.ws_col - 1;
}

/* What comes next on the terminal, such as the shell's prompt, gets a line of its own. */
static void end_line(int sig)
{
	ssize_t n = write(STDERR_FILENO, "\n", 1);

	(void)n;
	raise(sig); /* which ends the process once this returns */
}

/* Whoever has another handler keeps it. */
static void handle_signals(void (*from)(int), void (*to)(int))
{
	const struct sigaction sa = {.sa_handler = to, .sa_flags = (int)SA_RESETHAND};
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction old;

	for (size_t i = 0; i < FM_ARRAY_LEN(ends); i++)
		if (!sigaction(ends[i], NULL, &old) && old.sa_handler == from)
			sigaction(ends[i], &sa, NULL);
}

void progress_show(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!progress_seen())
		return;
	handle_signals(SIG_DFL, end_line);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table_clean(text);
	fprintf(stderr, "\r\033[K%.*s", room(), text);
	fflush(stderr);
}

void progress_clear(void)
{
	if (!progress_seen())
		return;
	fputs("\r\033[K", stderr);
	handle_signals(end_line, SIG_DFL);
}
