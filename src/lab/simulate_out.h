/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a simulation leaves besides its summary: a trace, metrics. Parts of it run side by side;
 * what they leave goes out in the order of their numbers, so that it does not depend on threads. A
 * part whose turn it is not keeps what it has, up to a limit, and then waits.
 */
#pragma once
#include "cmd/outfile.h"
#include "sim/sim.h"
#include "simulate_names.h"

struct simulate_out;

/* What is opened is written, and closed in the end: path NULL: none of that. -errno with err. */
int simulate_out_open(struct simulate_out **out, const struct fm_sim_plan *p, struct outfile *trace,
	struct outfile *metrics, struct fm_err *err);
const struct fm_sim_audience *simulate_out_audience(const struct simulate_out *o);
/* Safe for NULL. result: what it came to; NULL: it did not come to its end. */
int simulate_out_close(
	struct simulate_out *o, const struct fm_sim_result *result, struct fm_err *err);

/* The turn of a part, which it then keeps to its end. */
struct simulate_turn {
	struct simulate_out *out;
	uint64_t part;
	bool mine;
};
void simulate_turn_wait(struct simulate_turn *t);
