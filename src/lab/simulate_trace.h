/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulation as a trace file, like those of `fermata trace record`: what the core is told and
 * decides in ring 0, what devices did for whom in ring 1. Numbers of groups and devices are
 * reckoned from the plan, and chunks have a fixed size: the bytes do not depend on threads.
 */
#pragma once
#include "cmd/outfile.h"
#include "simulate_out.h"

#define SIMULATE_TRACE_WANTS (FM_SIM_BIT(FM_SIM_STAYS) - 1) /* all but what comes at the end */

struct simulate_trace;
int simulate_trace_open(struct simulate_trace **out, const struct simulate_names *names,
	struct outfile *to, struct fm_err *err);
/* Safe for NULL. whole: the simulation came to its end. -EIO with err. */
int simulate_trace_close(struct simulate_trace *t, bool whole, struct fm_err *err);

/* Of a part. What it notes is written when it has become much, in its turn. NULL: out of memory. */
struct simulate_trace_part;
struct simulate_trace_part *simulate_trace_part(
	struct simulate_trace *t, struct simulate_turn *turn);
void simulate_trace_note(struct simulate_trace_part *p, const struct fm_sim_event *e);
/* It is written and freed. -EIO: some of the file could not be written. */
int simulate_trace_part_end(struct simulate_trace_part *p);
