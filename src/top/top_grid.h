/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wanted screen: cells, without a terminal. All text comes in through top_grid_text(), which
 * removes anything that could steer a terminal, since names are chosen by other people's programs.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* A style is a colour, or none, with attributes. */
enum {
	TOP_PLAIN = 0,
	TOP_MARKS = 6, /* colours 1 to 6: of the groups in the bars */
	TOP_GOOD,
	TOP_WARN,
	TOP_BAD,
	TOP_COLOURS, /* how many, with none */
	TOP_COLOUR_MASK = 0x0f,
	TOP_BOLD = 0x10,
	TOP_REVERSE = 0x20,
	TOP_DIM = 0x40,
};

struct top_cell {
	wchar_t ch; /* 0: the right half of the one to the left */
	uint8_t style;
};

struct top_grid {
	int rows, columns;
	bool utf8;   /* the terminal can show more than ASCII */
	bool colour; /* and colours, else bars are told apart by their characters */
	struct top_cell *cell;
};

/* Blank, with so many rows and columns; -ENOMEM, and then it has none. */
int top_grid_resize(struct top_grid *g, int rows, int columns);
void top_grid_free(struct top_grid *g);
void top_grid_clear(struct top_grid *g);

/* Writes UTF-8 text into at most `width' columns from there; longer text is cut with '~'. Nothing
 * is written outside of the grid. Characters that are not printable become '?'. Returns the columns
 * taken. */
int top_grid_text(
	struct top_grid *g, int row, int column, int width, unsigned style, const char *text);

int top_grid_printf(struct top_grid *g, int row, int column, int width, unsigned style,
	const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* The same, aligned to the right end of the width. */
void top_grid_right(
	struct top_grid *g, int row, int column, int width, unsigned style, const char *text);

/* Add to the style of the cells there. */
void top_grid_paint(struct top_grid *g, int row, int column, int width, unsigned style);

/* n cells of a bar's part: mark 1 to TOP_MARKS, or 0 for the rest of the groups. */
void top_grid_bar(struct top_grid *g, int row, int column, int n, unsigned mark);

/* The columns that the whole text takes. */
int top_grid_width(const struct top_grid *g, const char *text);

/* The row as UTF-8, without the blanks at its end. The caller frees it. NULL: out of memory. */
char *top_grid_line(const struct top_grid *g, int row);
