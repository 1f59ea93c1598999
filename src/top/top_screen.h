/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal, by ncurses, which sends only what differs from what it shows. */
#pragma once
#include "base/err.h"
#include "top_grid.h"

/* Takes the terminal over. ascii: show only ASCII. The grid gets the terminal's size and abilities.
 * On error the terminal is unchanged, and err says what to do instead. */
int top_screen_open(struct top_grid *g, bool ascii, struct fm_err *err);

/* Gives the terminal back as it was. */
void top_screen_close(void);

/* The next key that was pressed; 0: no key; -1: the terminal is gone. A change of size is noticed
 * here. */
int top_screen_key(struct top_grid *g, bool *resized);

void top_screen_show(const struct top_grid *g);

/* The process was stopped and goes on: another program had the terminal meanwhile. */
void top_screen_again(void);
