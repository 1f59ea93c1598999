/* SPDX-License-Identifier: Apache-2.0 */
#include "top_screen.h"
#include "base/util.h"
#include "top.h"
#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

#undef columns /* of <term.h>: a macro */

#define ESCAPE_MS 100 /* within which the rest of an arrow key comes, over a slow line */

/* Can text be put anywhere on the screen? setupterm() answers without ending the program. */
static int check_terminal(struct fm_err *err)
{
	const char *term = getenv("TERM");
	int status = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		fm_err_set(err, -ENOTTY,
			"top needs a terminal to read keys from and to show groups on");
	} else if (setupterm(NULL, STDOUT_FILENO, &status) == ERR) {
		fm_err_set(err, -ENOTTY, "the terminal '%s' is not known here",
			term && *term ? term : "(TERM is not set)");
	} else if (!cursor_address || !clear_screen) {
		del_curterm(cur_term);
		fm_err_set(err, -ENOTTY, "the terminal '%s' cannot place text", term ? term : "");
	} else {
		del_curterm(cur_term);
		return 0;
	}
	return fm_err_hint(err,
		"`fermata top --once' prints one table, `fermata top --batch' one after another");
}

static bool speaks_utf8(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

static void set_up_colours(struct top_grid *g)
{
	static const short colours[TOP_COLOURS] = {
		-1,
		COLOR_GREEN,
		COLOR_CYAN,
		COLOR_YELLOW,
		COLOR_MAGENTA,
		COLOR_BLUE,
		COLOR_RED,
		[TOP_GOOD] = COLOR_GREEN,
		[TOP_WARN] = COLOR_YELLOW,
		[TOP_BAD] = COLOR_RED,
	};
	const char *no = getenv("NO_COLOR");

	if ((no && *no) || !has_colors() || start_color() == ERR)
		return;
	g->colour = true;
	if (use_default_colors() == ERR)
		assume_default_colors(COLOR_WHITE, COLOR_BLACK);
	for (short i = 1; i < TOP_COLOURS; i++)
		init_pair(i, colours[i], -1);
}

void top_screen_close(void)
{
	SCREEN *screen;

	/* On a terminal without a second screen, later output goes to this line. */
	move(LINES - 1, 0);
	clrtoeol();
	refresh();
	endwin();
	screen = set_term(NULL);
	if (screen)
		delscreen(screen);
}

int top_screen_open(struct top_grid *g, bool ascii, struct fm_err *err)
{
	int rc = check_terminal(err);

	if (rc)
		return rc;
	if (!newterm(NULL, stdout, stdin))
		return fm_err_set(err, -ENOTTY, "the terminal cannot be set up");
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	g->utf8 = !ascii && speaks_utf8();
	set_up_colours(g);
	if (!top_grid_resize(g, LINES, COLS))
		return 0;
	top_screen_close();
	return fm_err_set(err, -ENOMEM, "out of memory");
}

static int key_of(int c)
{
	static const struct {
		int curses, key;
	} keys[] = {
		{KEY_UP, TOP_KEY_UP},
		{KEY_DOWN, TOP_KEY_DOWN},
		{KEY_PPAGE, TOP_KEY_PAGE_UP},
		{KEY_NPAGE, TOP_KEY_PAGE_DOWN},
		{KEY_HOME, TOP_KEY_HOME},
		{KEY_END, TOP_KEY_END},
		{KEY_ENTER, TOP_KEY_ENTER},
		{'\r', TOP_KEY_ENTER},
		{'\n', TOP_KEY_ENTER},
		{033, TOP_KEY_ESCAPE},
		{KEY_BACKSPACE, TOP_KEY_BACKSPACE},
		{'\b', TOP_KEY_BACKSPACE},
		{0x7f, TOP_KEY_BACKSPACE},
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(keys); i++)
		if (keys[i].curses == c)
			return keys[i].key;
	return c >= ' ' && c < 0x7f ? c : 0;
}

int top_screen_key(struct top_grid *g, bool *resized)
{
	for (;;) {
		int c = getch();

		if (c == ERR)
			return 0;
		if (c == KEY_RESIZE) {
			*resized = true;
			if (top_grid_resize(g, LINES, COLS))
				return -1;
			continue;
		}
		if (key_of(c))
			return key_of(c);
	}
}

static attr_t attributes(unsigned style)
{
	attr_t a = A_NORMAL;

	a |= style & TOP_BOLD ? A_BOLD : 0;
	a |= style & TOP_REVERSE ? A_REVERSE : 0;
	a |= style & TOP_DIM ? A_DIM : 0;
	return a;
}

static void show_row(const struct top_grid *g, int row)
{
	const struct top_cell *cell = &g->cell[row * g->columns];

	for (int i = 0; i < g->columns; i++) {
		wchar_t text[2] = {cell[i].ch, 0};
		unsigned style = cell[i].style;
		short pair = g->colour ? (short)(style & TOP_COLOUR_MASK) : 0;
		cchar_t c;

		if (cell[i].ch && setcchar(&c, text, attributes(style), pair, NULL) == OK)
			mvadd_wch(row, i, &c);
	}
}

void top_screen_show(const struct top_grid *g)
{
	erase();
	for (int row = 0; row < g->rows; row++)
		show_row(g, row);
	refresh();
}

void top_screen_again(void)
{
	reset_prog_mode();
	clearok(stdscr, TRUE);
}
