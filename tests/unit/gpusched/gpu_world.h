/* SPDX-License-Identifier: Apache-2.0 */
/* A set of tasks in virtual time, by the public header alone. Times are in ticks of 1 us. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fermata/gpu_sched.h>
#include <stdlib.h>
#include <string.h>

#define TICK UINT64_C(1000)

static inline struct fm_gpu_set *make(const char *policy, unsigned slots, bool resident)
{
	struct fm_gpu_set_options o = {.size = sizeof(o),
		.policy = policy,
		.slots = slots,
		.engine = "cpu",
		.resident = resident,
		.virtual_time = true};
	int error = 1;
	struct fm_gpu_set *s = fm_gpu_set_new(&o, &error);

	assert_int_equal(error, 0);
	assert_non_null(s);
	return s;
}

/* Of that many chunks of one tick. */
static inline struct fm_gpu_task ticks(unsigned n)
{
	return (struct fm_gpu_task){
		.size = sizeof(struct fm_gpu_task), .wcet_ns = n * TICK, .n_chunks = n};
}

static inline unsigned add(struct fm_gpu_set *s, struct fm_gpu_task t)
{
	int number = fm_gpu_task_add(s, &t);

	assert_true(number >= 0);
	return (unsigned)number;
}

static inline struct fm_gpu_stats stats_of(struct fm_gpu_set *s, unsigned task)
{
	struct fm_gpu_stats stats = {.size = sizeof(stats)};

	assert_int_equal(fm_gpu_set_stats(s, task, &stats), 0);
	return stats;
}

static inline void pass_ticks(struct fm_gpu_set *s, uint64_t n)
{
	assert_int_equal(fm_gpu_set_advance(s, n * TICK), 0);
}

static inline void expect_why(struct fm_gpu_set *s, const char *part)
{
	char why[256];

	assert_int_equal(fm_gpu_set_why(s, why, sizeof(why)), 0);
	if (!strstr(why, part))
		fail_msg("\"%s\" does not say \"%s\"", why, part);
}

static uint64_t seed = 1;

static inline uint64_t any(uint64_t n)
{
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}
