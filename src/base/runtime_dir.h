/* SPDX-License-Identifier: Apache-2.0 */
/* $XDG_RUNTIME_DIR, if it can be trusted: an absolute path of a directory that is this user's and
 * that nobody else can enter or write to, and the program is not a setuid one; else NULL. Whoever
 * can put a socket in it is taken for the user's own daemon. */
#pragma once

const char *fm_runtime_dir(void);
