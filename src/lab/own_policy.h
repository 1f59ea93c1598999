/* SPDX-License-Identifier: Apache-2.0 */
/* A user's policy from a file, for simulations. It is asked in virtual time. */
#pragma once
#include "base/err.h"
#include "plugin/plugin.h"

/* Does the word name a file, and not a built-in policy? */
bool own_policy_is(const char *word);
int own_policy_open(struct fm_plugin **out, const char *path, struct fm_err *err);
