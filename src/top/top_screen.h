/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal, by ncurses, which sends only what differs from what it shows. */
#pragma once
#include "base/err.h"
#include "top_grid.h"

/* Take the terminal over; ascii: show nothing else. The grid gets its size and what it can show. An
 * error says what to do instead, and then nothing has been taken. */
int top_screen_open(struct top_grid *g, bool ascii, struct fm_err *err);

/* Give it back as it was. */
void top_screen_close(void);

/* The next key that was pressed; 0: none; -1: the terminal is gone. A change of size is seen here.
 */
int top_screen_key(struct top_grid *g, bool *resized);

void top_screen_show(const struct top_grid *g);

/* The process was stopped and goes on: somebody else had the terminal. */
void top_screen_again(void);
