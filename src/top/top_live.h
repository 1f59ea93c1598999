/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "cmd/cli.h"
#include "top.h"

struct top_options {
	struct cli *cli;
	bool once, batch, ascii;
	int64_t count; /* samples after which to end; 0: never */
};

/* On the terminal, until a key, a signal or the count ends it. The exit code. */
int top_live(struct top *t, const struct top_options *o);

/* On paper: tables, or JSON, one after another. */
int top_batch(struct top *t, const struct top_options *o);
