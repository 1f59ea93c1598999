/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab sim`: what a simulation came to, for people and programs. */
#pragma once
#include "cmd/outfile.h"
#include "sim/sim.h"
#include <stdio.h>

/* Exit codes. */
int simulate_table(const struct fm_sim_plan *p, const struct fm_sim_result *r);
int simulate_json(const struct fm_sim_plan *p, const struct fm_sim_result *r);
void simulate_csv(FILE *f, const struct fm_sim_plan *p, const struct fm_sim_result *r);

/* The first machine from..until, as a picture. */
#define SIMULATE_LANES 64
#define SIMULATE_BARS  20000
int simulate_svg(const struct fm_sim_plan *p, uint64_t from, uint64_t until, struct outfile *to,
	struct fm_err *err);
