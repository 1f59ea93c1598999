/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "table.h"
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

void progress_show(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!progress_seen())
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table_clean(text);
	fprintf(stderr, "\r\033[K%.*s", room(), text);
	fflush(stderr);
}

void progress_clear(void)
{
	if (progress_seen())
		fputs("\r\033[K", stderr);
}
