/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a group's device memory where it is, by name: for `fermata ps --memory' and `why'. */
#pragma once
#include "cmd/cli.h"
#include <stdbool.h>

/* A line each, each behind that text; with advice: what to do about it. */
void pins_show(const json_t *group, const char *before, bool advice);
