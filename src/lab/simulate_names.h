/* SPDX-License-Identifier: Apache-2.0 */
/* Names and numbers (from 1) of the groups and devices of all machines of a plan. */
#pragma once
#include "sim/sim.h"

#define SIMULATE_NAME 80

struct simulate_names {
	const struct fm_sim_plan *plan;
	uint32_t devices;        /* of a machine */
	uint64_t groups, queues; /* a queue is a group on one of its devices */
	uint64_t *group, *queue; /* for each section, the number in front of it */
};

/* -ENOMEM; -E2BIG if there are more than fit into 31 bits. */
int simulate_names_init(struct simulate_names *n, const struct fm_sim_plan *p, struct fm_err *err);
void simulate_names_free(struct simulate_names *n);

uint32_t simulate_group_id(
	const struct simulate_names *n, uint32_t machine, uint32_t group, uint32_t instance);
uint32_t simulate_device_id(const struct simulate_names *n, uint32_t machine, uint32_t device);
/* The k-th queue of a group; and the number of queues of one instance. */
uint32_t simulate_queue_id(const struct simulate_names *n, uint32_t machine, uint32_t group,
	uint32_t instance, uint32_t k);
uint32_t simulate_queues(const struct simulate_names *n, uint32_t group);

/* By number: "training", or "training.3" if there are several, or "7/training.3" on one of several
 * machines. */
const char *simulate_group_name(
	const struct simulate_names *n, uint32_t id, char buf[SIMULATE_NAME]);
const char *simulate_device_name(
	const struct simulate_names *n, uint32_t id, char buf[SIMULATE_NAME]);
