/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of the environment by which programs are given a shim. */
#pragma once
#include "base/err.h"
#include <stdbool.h>

int inject_set(const char *name, const char *value, struct fm_err *err);

/* Is an object of ours, by its file's name, in the list that this variable holds? From whichever
 * build it is: a program that loads two of them would be scheduled twice. */
bool inject_has(const char *variable, const char *separators, const char *file);

/* Puts it in front of what the variable holds. */
int inject_first(const char *variable, const char *path, struct fm_err *err);
