/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#define GAP        2
#define SHRUNK_MIN 8

void table_init(struct table *t, const struct table_column *column, size_t columns)
{
	*t = (struct table){.column = column, .columns = FM_MIN(columns, (size_t)TABLE_COLUMNS)};
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->cells; i++)
		free(t->cell[i]);
	free(t->cell);
	*t = (struct table){0};
}

/* U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F: nothing to see, but lines end, or the text
 * behind them turns its direction. */
static bool invisible(const unsigned char *p)
{
	if (p[0] != 0xe2 || (p[1] != 0x80 && p[1] != 0x81))
		return false;
	if (p[1] == 0x81)
		return p[2] >= 0xa0 && p[2] <= 0xaf;
	return (p[2] >= 0x8b && p[2] <= 0x8f) || (p[2] >= 0xa8 && p[2] <= 0xae);
}

/* C0 and DEL, and C1 as UTF-8 encodes it (C2 80 to C2 9F). */
void table_clean(char *text)
{
	for (unsigned char *p = (unsigned char *)text; *p; p++) {
		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
		else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			p[0] = p[1] = '?';
		else if (invisible(p))
			p[0] = p[1] = p[2] = '?';
	}
}

void table_add(struct table *t, const char *fmt, ...)
{
	char *text = NULL, **cell;
	va_list ap;
	int n;

	if (t->failed)
		return;
	cell = realloc(t->cell, (t->cells + 1) * sizeof(*cell));
	if (cell) {
		t->cell = cell;
		va_start(ap, fmt);
		n = vasprintf(&text, fmt, ap);
		va_end(ap);
	}
	if (!cell || n < 0) {
		t->failed = true;
		return;
	}
	table_clean(text);
	t->cell[t->cells++] = text;
}

static bool continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Characters, taking each UTF-8 sequence for one column. */
static size_t width_of(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += !continues(*s);
	return n;
}

static size_t bytes_of(const char *s, size_t width)
{
	size_t i = 0;

	for (; s[i]; i++)
		if (!continues(s[i]) && width-- == 0)
			break;
	return i;
}

static size_t terminal_width(void)
{
	struct winsize ws;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || !ws.ws_col)
		return SIZE_MAX;
	return ws.ws_col;
}

static void measure(const struct table *t, size_t *width)
{
	size_t room = terminal_width(), total = 0;

	for (size_t c = 0; c < t->columns; c++) {
		width[c] = strlen(t->column[c].title);
		for (size_t i = c; i < t->cells; i += t->columns)
			width[c] = FM_MAX(width[c], width_of(t->cell[i]));
		total += width[c] + (c ? GAP : 0);
	}
	for (size_t c = 0; c < t->columns && total > room; c++) {
		size_t least = FM_MAX(strlen(t->column[c].title), (size_t)SHRUNK_MIN);
		size_t cut = FM_MIN(total - room, fm_sub_sat(width[c], least));

		if (t->column[c].shrink) {
			width[c] -= cut;
			total -= cut;
		}
	}
}

static void print_cell(const char *text, size_t width, bool right, bool last)
{
	size_t len = width_of(text);
	size_t pad = fm_sub_sat(width, len);

	if (right)
		printf("%*s", (int)pad, "");
	if (len > width)
		printf("%.*s~", (int)bytes_of(text, width - 1), text);
	else
		fputs(text, stdout);
	if (!right && !last)
		printf("%*s", (int)pad, "");
	fputs(last ? "\n" : "  ", stdout);
}

int table_print(const struct table *t)
{
	size_t width[TABLE_COLUMNS] = {0};
	bool bold = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");

	measure(t, width);
	fputs(bold ? "\033[1m" : "", stdout);
	for (size_t c = 0; c < t->columns; c++)
		print_cell(t->column[c].title, width[c], t->column[c].right, c + 1 == t->columns);
	fputs(bold ? "\033[0m" : "", stdout);
	for (size_t i = 0; i < t->cells - t->cells % t->columns; i++) {
		size_t c = i % t->columns;

		print_cell(t->cell[i], width[c], t->column[c].right, c + 1 == t->columns);
	}
	return t->failed ? -ENOMEM : 0;
}

const char *table_ms(double ms, char buf[TABLE_TIME])
{
	double s = ms < 1e15 ? ms / 1e3 : 1e12;
	long minutes = (long)(s / 60);

	if (ms < 1)
		snprintf(buf, TABLE_TIME, "%.0f us", ms * 1e3);
	else if (s < 1)
		snprintf(buf, TABLE_TIME, "%.1f ms", ms);
	else if (s < 60)
		snprintf(buf, TABLE_TIME, "%.2f s", s);
	else if (s < 3600)
		snprintf(buf, TABLE_TIME, "%ldm%02lds", minutes, (long)s % 60);
	else
		snprintf(buf, TABLE_TIME, "%ldh%02ldm", minutes / 60, minutes % 60);
	return buf;
}

void csv_text(FILE *f, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, f);
		return;
	}
	putc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', f);
		putc(*text, f);
	}
	putc('"', f);
}
