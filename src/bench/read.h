/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a workload. Within the room. */
#pragma once
#include "workload.h"

struct bench_place {
	struct fm_json j;
	struct bench_workload *w;
};

int bench_read_models(struct bench_place *p);
/* The index of one for such batches, which is made when it is first asked for. -EINVAL with err. */
int bench_find_model(
	struct bench_place *p, const char *key, const char *name, uint32_t batch, uint32_t *index);
/* All of a task but its place in the order, and what it depends on. */
int bench_read_task(struct bench_place *p, const json_t *from, struct bench_task *t);
int bench_read_before(struct bench_place *p, const json_t *from, struct bench_task *t);
