/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs of a simulation besides its summary: a trace, metrics. Parts of it run side by side.
 * Their outputs are written in the order of their numbers, so that they do not depend on threads. A
 * part whose turn has not come keeps its output, up to a limit, and then waits.
 */
#pragma once
#include "cmd/outfile.h"
#include "sim/sim.h"
#include "simulate_names.h"

struct simulate_out;

/* Opens an output, which is written and closed at the end. path NULL: no such output. -errno with
 * err. */
int simulate_out_open(struct simulate_out **out, const struct fm_sim_plan *p, struct outfile *trace,
	struct outfile *metrics, struct fm_err *err);
const struct fm_sim_audience *simulate_out_audience(const struct simulate_out *o);
/* Safe for NULL. result: the simulation's result; NULL: it did not come to its end. */
int simulate_out_close(
	struct simulate_out *o, const struct fm_sim_result *result, struct fm_err *err);

/* Waits for the turn of a part, which keeps it to its end. */
struct simulate_turn {
	struct simulate_out *out;
	uint64_t part;
	bool mine;
};
void simulate_turn_wait(struct simulate_turn *t);
