/* SPDX-License-Identifier: Apache-2.0 */
/* A policy by a user, from a file, for simulations: it is asked in virtual time. */
#pragma once
#include "base/err.h"
#include "plugin/plugin.h"

/* Does the word name a file, and not a policy that is built in? */
bool own_policy_is(const char *word);
int own_policy_open(struct fm_plugin **out, const char *path, struct fm_err *err);
