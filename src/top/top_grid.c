/* SPDX-License-Identifier: Apache-2.0 */
#include "top_grid.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wctype.h>

int top_grid_resize(struct top_grid *g, int rows, int columns)
{
	size_t n = (size_t)FM_MAX(rows, 0) * (size_t)FM_MAX(columns, 0);
	struct top_cell *cell = realloc(g->cell, (n + 1) * sizeof(*cell));

	if (!cell) {
		top_grid_free(g);
		return -ENOMEM;
	}
	g->cell = cell;
	g->rows = FM_MAX(rows, 0);
	g->columns = FM_MAX(columns, 0);
	top_grid_clear(g);
	return 0;
}

void top_grid_free(struct top_grid *g)
{
	free(g->cell);
	g->cell = NULL;
	g->rows = g->columns = 0;
}

void top_grid_clear(struct top_grid *g)
{
	for (int i = 0; i < g->rows * g->columns; i++)
		g->cell[i] = (struct top_cell){.ch = L' '};
}

static struct top_cell *cell_at(const struct top_grid *g, int row, int column)
{
	if (row < 0 || row >= g->rows || column < 0 || column >= g->columns)
		return NULL;
	return &g->cell[row * g->columns + column];
}

/* Reads one character of UTF-8. A byte that is not part of a valid character becomes L'?'. */
static wchar_t decode(const unsigned char **p)
{
	static const struct {
		unsigned char mask, lead;
		int more;
		uint32_t least;
	} forms[] = {{0xe0, 0xc0, 1, 0x80}, {0xf0, 0xe0, 2, 0x800}, {0xf8, 0xf0, 3, 0x10000}};
	const unsigned char *s = (*p)++;

	if (*s < 0x80)
		return (wchar_t)*s;
	for (size_t f = 0; f < FM_ARRAY_LEN(forms); f++) {
		uint32_t c = *s & (unsigned char)~forms[f].mask;
		int i = 1;

		if ((*s & forms[f].mask) != forms[f].lead)
			continue;
		for (; i <= forms[f].more && (s[i] & 0xc0) == 0x80; i++)
			c = c << 6 | (s[i] & 0x3f);
		if (i <= forms[f].more || c < forms[f].least || c > 0x10ffff ||
			(c >= 0xd800 && c < 0xe000))
			break;
		*p = s + i;
		return (wchar_t)c;
	}
	return L'?';
}

/* Which characters may be shown, and how wide they are. Control characters may not be shown.
 * Neither may marks that combine with the character before or change its direction (they have no
 * width). */
static wchar_t harmless(const struct top_grid *g, wchar_t c, int *width)
{
	*width = 1;
	if (c < 0x80)
		return c >= 0x20 && c < 0x7f ? c : L'?';
	if (!g->utf8 || !iswprint((wint_t)c) || wcwidth(c) < 1)
		return L'?';
	*width = wcwidth(c);
	return c;
}

int top_grid_width(const struct top_grid *g, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	int n = 0, width;

	while (*p && n < 1 << 20) {
		harmless(g, decode(&p), &width);
		n += width;
	}
	return n;
}

int top_grid_text(
	struct top_grid *g, int row, int column, int width, unsigned style, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	int room = FM_MIN(width, g->columns - column), used = 0, w;

	if (row < 0 || row >= g->rows || column < 0 || room <= 0)
		return 0;
	if (top_grid_width(g, text) <= room)
		room++; /* no need for the '~' */
	while (*p && used < room - 1) {
		wchar_t c = harmless(g, decode(&p), &w);
		struct top_cell *cell = cell_at(g, row, column + used);

		if (used + w > room - 1)
			break;
		cell[0] = (struct top_cell){c, (uint8_t)style};
		if (w == 2)
			cell[1] = (struct top_cell){0, (uint8_t)style};
		used += w;
	}
	if (*p) {
		*cell_at(g, row, column + used) = (struct top_cell){L'~', (uint8_t)style};
		used++;
	}
	return used;
}

static char *format(const char *fmt, va_list ap)
{
	char *text = NULL;

	return vasprintf(&text, fmt, ap) < 0 ? NULL : text;
}

int top_grid_printf(
	struct top_grid *g, int row, int column, int width, unsigned style, const char *fmt, ...)
{
	FM_CLEAN_FREE char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = format(fmt, ap);
	va_end(ap);
	return text ? top_grid_text(g, row, column, width, style, text) : 0;
}

void top_grid_right(
	struct top_grid *g, int row, int column, int width, unsigned style, const char *text)
{
	int pad = FM_MAX(width - top_grid_width(g, text), 0);

	top_grid_text(g, row, column + pad, width - pad, style, text);
}

void top_grid_paint(struct top_grid *g, int row, int column, int width, unsigned style)
{
	for (int i = 0; i < width; i++) {
		struct top_cell *cell = cell_at(g, row, column + i);

		if (cell)
			cell->style |= (uint8_t)style;
	}
}

void top_grid_bar(struct top_grid *g, int row, int column, int n, unsigned mark)
{
	static const wchar_t ascii[] = L":#=+*%o",
			     blocks[] = L"\u2591\u2588\u2593\u2592\u258c\u2584\u2580";
	wchar_t ch = g->utf8 ? blocks[mark % (TOP_MARKS + 1)] : ascii[mark % (TOP_MARKS + 1)];

	if (g->utf8 && g->colour)
		ch = mark ? L'\u2588' : L'\u2591';
	for (int i = 0; i < n; i++) {
		struct top_cell *cell = cell_at(g, row, column + i);

		if (cell)
			*cell = (struct top_cell){ch, (uint8_t)mark};
	}
}

static size_t encode(wchar_t c, char *out)
{
	uint32_t u = (uint32_t)c;

	if (u < 0x80) {
		out[0] = (char)u;
		return 1;
	}
	if (u < 0x800) {
		out[0] = (char)(0xc0 | u >> 6);
		out[1] = (char)(0x80 | (u & 0x3f));
		return 2;
	}
	if (u < 0x10000) {
		out[0] = (char)(0xe0 | u >> 12);
		out[1] = (char)(0x80 | (u >> 6 & 0x3f));
		out[2] = (char)(0x80 | (u & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | u >> 18);
	out[1] = (char)(0x80 | (u >> 12 & 0x3f));
	out[2] = (char)(0x80 | (u >> 6 & 0x3f));
	out[3] = (char)(0x80 | (u & 0x3f));
	return 4;
}

char *top_grid_line(const struct top_grid *g, int row)
{
	char *line = malloc((size_t)g->columns * 4 + 1);
	size_t n = 0, end = 0;

	for (int i = 0; line && i < g->columns; i++) {
		const struct top_cell *cell = cell_at(g, row, i);

		if (!cell || !cell->ch)
			continue;
		n += encode(cell->ch, line + n);
		if (cell->ch != L' ')
			end = n;
	}
	if (line)
		line[end] = '\0';
	return line;
}
