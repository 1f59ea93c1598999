/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulation as a trace file, like those of `fermata trace record`: ring 0 has the core's inputs
 * and decisions, and ring 1 has what devices did for which group. Numbers of groups and devices are
 * computed from the plan, and chunks have a fixed size, so the bytes do not depend on threads.
 */
#pragma once
#include "cmd/outfile.h"
#include "simulate_out.h"

#define SIMULATE_TRACE_WANTS (FM_SIM_BIT(FM_SIM_STAYS) - 1) /* everything except the end */

struct simulate_trace;
int simulate_trace_open(struct simulate_trace **out, const struct simulate_names *names,
	struct outfile *to, struct fm_err *err);
/* Safe for NULL. whole: the simulation came to its end. -EIO with err. */
int simulate_trace_close(struct simulate_trace *t, bool whole, struct fm_err *err);

/* For a part. Its records are written in its turn, when there are many. NULL: out of memory. */
struct simulate_trace_part;
struct simulate_trace_part *simulate_trace_part(
	struct simulate_trace *t, struct simulate_turn *turn);
void simulate_trace_note(struct simulate_trace_part *p, const struct fm_sim_event *e);
/* Writes and frees it. -EIO: some of the file could not be written. */
int simulate_trace_part_end(struct simulate_trace_part *p);
