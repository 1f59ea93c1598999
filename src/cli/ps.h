/* SPDX-License-Identifier: Apache-2.0 */
/* Within `fermata ps': views that have a file of their own. They return 0, or out of memory 1. */
#pragma once
#include "cmd/cli.h"

int ps_show_memory(const json_t *groups);
int ps_show_sets(const json_t *groups); /* nothing, where there are none */
