/* SPDX-License-Identifier: Apache-2.0 */
/* How far something is that takes a while: one line on the standard error, written anew each time,
 * and only if that is a terminal. */
#pragma once
#include <stdbool.h>

bool progress_seen(void);

/* Cut to the width of the terminal, so that it stays one line. A signal that ends the process ends
 * the line first. */
void progress_show(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Before anything else is written. */
void progress_clear(void);
