/* SPDX-License-Identifier: Apache-2.0 */
#include "arrival.h"
#include "base/clock.h"
#include "base/util.h"
#include "sim/sim.h"

#define LEAST_RATE 1e-9

/* A stream of its own for each name, so that one task more changes nobody's times. FNV-1a. */
static uint64_t stream_of(const char *id)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *id; id++)
		hash = (hash ^ (unsigned char)*id) * UINT64_C(0x100000001b3);
	return hash;
}

void bench_arrivals_init(struct bench_arrivals *a, const struct bench_task *t, uint64_t seed,
	double rate, uint64_t delay)
{
	bool by_rate = t->load == BENCH_PERIODIC || t->load == BENCH_POISSON;

	*a = (struct bench_arrivals){.task = t, .next = FM_NEVER};
	fm_rta_seed(&a->r, seed, stream_of(t->id));
	if (by_rate && rate >= LEAST_RATE) {
		a->interval = (uint64_t)((double)FM_S / FM_MIN(rate, (double)BENCH_RATE));
		a->next = t->load == BENCH_PERIODIC ? delay : 0; /* the first at once, as DISB's */
	}
	if (t->load == BENCH_TRACE && t->traces)
		a->next = t->trace[0];
}

void bench_arrivals_pass(struct bench_arrivals *a)
{
	const struct bench_task *t = a->task;
	const struct fm_sim_dist gap = {.shape = FM_SIM_EXP, .a = a->interval};

	if (t->load == BENCH_TRACE)
		a->next = ++a->k < t->traces ? t->trace[a->k] : FM_NEVER;
	else if (t->load == BENCH_PERIODIC)
		a->next = fm_add_sat(a->next, a->interval);
	else if (t->load == BENCH_POISSON)
		a->next = fm_add_sat(a->next, fm_sim_draw(&gap, &a->r));
}

uint64_t bench_arrivals_count(struct bench_arrivals a, uint64_t end)
{
	uint64_t n = 0;

	for (; bench_arrivals_due(&a) < end; bench_arrivals_pass(&a))
		n++;
	return n;
}
