/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"
#include "clock.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void fm_log_init(struct fm_log *log, const char *name)
{
	log->name = name;
	log->level = LOG_INFO;
	log->prefix = getenv("JOURNAL_STREAM") != NULL;
}

static const char *level_word(int level)
{
	return level <= LOG_ERR ? "error: " : level == LOG_WARNING ? "warning: " : "";
}

/* One write a line, so that lines of several processes on one terminal do not mix. Control
 * characters become '?': a name from a stranger must not forge a line. */
static void write_line(const struct fm_log *log, int level, const char *fmt, va_list ap)
{
	char line[1024];
	int head, n;

	if (log->prefix)
		head = snprintf(line, sizeof(line), "<%d>", level);
	else
		head = snprintf(line, sizeof(line), "%s: %s", log->name, level_word(level));
	n = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, ap);
	if (n < 0)
		return;
	n = n + head < (int)sizeof(line) - 2 ? n + head : (int)sizeof(line) - 2;
	for (int i = head; i < n; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nowhere left to say so */
}

void fm_log(const struct fm_log *log, int level, const char *fmt, ...)
{
	va_list ap;

	if (level > log->level)
		return;
	va_start(ap, fmt);
	write_line(log, level, fmt, ap);
	va_end(ap);
}

void fm_log_limited(
	const struct fm_log *log, struct fm_log_limit *limit, int level, const char *fmt, ...)
{
	uint64_t second = fm_now() / FM_S;
	va_list ap;

	if (level > log->level)
		return;
	if (second != limit->second) {
		if (limit->dropped)
			fm_log(log, level, "%u more such lines left out", limit->dropped);
		*limit = (struct fm_log_limit){.second = second};
	}
	if (limit->written >= FM_LOG_PER_SECOND) {
		limit->dropped++;
		return;
	}
	limit->written++;
	va_start(ap, fmt);
	write_line(log, level, fmt, ap);
	va_end(ap);
}

void fm_log_err(const struct fm_log *log, int level, const char *what, const struct fm_err *err)
{
	fm_log(log, level, "%s%s%s%s%s", what, *what ? ": " : "", err->text,
		err->hint[0] ? "; " : "", err->hint);
}
