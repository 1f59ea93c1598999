/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "cmd/cli.h"
#include "top.h"

struct top_options {
	struct cli *cli;
	bool once, batch, ascii;
	int64_t count; /* samples after which to end; 0: never */
};

/* Runs on the terminal until a key, a signal or the count ends it. Returns the exit code. */
int top_live(struct top *t, const struct top_options *o);

/* Prints samples one after another, as tables or JSON. */
int top_batch(struct top *t, const struct top_options *o);
