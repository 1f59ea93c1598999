/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the requests of an open loop are due: times since the run's begin, in order, the same for
 * the same seed wherever they are drawn. Who generates load and who counts afterwards draw them
 * alike.
 */
#pragma once
#include "workload.h"
#include <fermata/rta.h>

struct bench_arrivals {
	const struct bench_task *task;
	struct fm_rta_random r;
	uint64_t interval, delay, next; /* next: FM_NEVER: there are no more */
	size_t k;                       /* of the trace */
};

/* rate: requests a second; delay: of a periodic load, as its coordinator wants it. */
void bench_arrivals_init(struct bench_arrivals *a, const struct bench_task *t, uint64_t seed,
	double rate, uint64_t delay);
/* The next one is due then; FM_NEVER: there is none. */
static inline uint64_t bench_arrivals_due(const struct bench_arrivals *a)
{
	return a->next;
}
void bench_arrivals_pass(struct bench_arrivals *a);
/* How many are due before `end`, of a task whose times do not depend on others. */
uint64_t bench_arrivals_count(struct bench_arrivals a, uint64_t end);
