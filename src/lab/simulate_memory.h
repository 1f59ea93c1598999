/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab sim`: what became of memory, and policies of memory beside each other. */
#pragma once
#include "sim/sim.h"
#include <jansson.h>
#include <stdio.h>

#define SIMULATE_MEMORIES 8 /* policies that are compared at a time */

/* In millionths, of integers: the same everywhere. */
static inline uint64_t simulate_ppm(uint64_t part, uint64_t whole)
{
	unsigned __int128 millions = (unsigned __int128)part * 1000000 + whole / 2;

	return whole ? (uint64_t)(millions / whole) : 0;
}

/* base: what the same comes to if all memory fits. */
int simulate_memory_table(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base);
void simulate_memory_csv(FILE *f, const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base);
/* Of one group, and of one device. NULL: out of memory. */
json_t *simulate_memory_group(
	const struct fm_sim_group_result *r, const struct fm_sim_group_result *base);
json_t *simulate_memory_device(
	const struct fm_sim_device_result *r, const struct fm_sim_device_result *base);

/* The same workload under several policies of memory, side by side. */
struct simulate_memories {
	const struct fm_sim_plan *plan;
	const struct fm_mem_policy *policy[SIMULATE_MEMORIES];
	struct fm_sim_result result[SIMULATE_MEMORIES], base;
	unsigned n;
};
/* "a,b,...": -EINVAL with a text. */
int simulate_memories_parse(struct simulate_memories *m, const char *list, struct fm_err *err);
int simulate_memories_table(const struct simulate_memories *m);
int simulate_memories_json(const struct simulate_memories *m);
void simulate_memories_csv(FILE *f, const struct simulate_memories *m);
