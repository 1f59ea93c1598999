/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab sim`: the results of a simulation, for people and programs. */
#pragma once
#include "cmd/outfile.h"
#include "sim/sim.h"
#include <jansson.h>
#include <stdio.h>

/* Exit codes. base: where memory is modelled, what the same comes to if all of it fits. */
int simulate_table(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base);
int simulate_json(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base);
void simulate_csv(FILE *f, const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base);
/* NULL: out of memory. */
json_t *simulate_object(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base);

/* The first machine from..until, as a picture. */
#define SIMULATE_LANES 64
#define SIMULATE_BARS  20000
int simulate_svg(const struct fm_sim_plan *p, uint64_t from, uint64_t until, struct outfile *to,
	struct fm_err *err);
