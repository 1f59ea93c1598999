/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels that Fermata's own tests have seen on fake drivers alone. They are unproven on a device
 * until `fermata doctor --prove` has tried them there: programs get level 1 until then, unless they
 * ask for a level. What was proven is a file in the user's cache, for a device with a driver.
 *
 * Owns: for each process, what it has read there.
 * Locks: none.
 * Threads: any, also of other processes.
 */
#pragma once
#include <stdbool.h>

#define FM_PROOF_TEXT 256 /* with its end */

/* what: the API, the version of its driver, and the device's key. A process asks the disk once; a
 * proof that comes later counts for later processes. Without a folder nothing is proven. */
bool fm_proof_there(const char *what);
/* The same for a program that wants to use it: also true where its user asks for a level. */
bool fm_proof_allows(const char *what);
/* Notes that it was proven, or is no more. 0 or negative errno. */
int fm_proof_note(const char *what, bool proven);
