// SPDX-License-Identifier: Apache-2.0
/* Sets in real time: threads that release, refill, ask and suspend against those of the slots. What
 * is asserted is what has happened, never when. For TSan, too. */
#include "gpu_world.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define TASKS 4
#define JOBS  200

static struct fm_gpu_set *make_real(const char *policy, unsigned slots, bool resident)
{
	struct fm_gpu_set_options o = {.size = sizeof(o),
		.policy = policy,
		.slots = slots,
		.engine = "cpu",
		.resident = resident};
	struct fm_gpu_set *s = fm_gpu_set_new(&o, NULL);

	assert_non_null(s);
	return s;
}

struct counter {
	atomic_uint at_once, most, chunks;
	unsigned next; /* plain: chunks of a task come one after the other */
};

static void count(void *arg)
{
	struct counter *c = arg;
	unsigned now = atomic_fetch_add(&c->at_once, 1) + 1;

	if (now > atomic_load(&c->most))
		atomic_store(&c->most, now);
	c->next++;
	atomic_fetch_add(&c->chunks, 1);
	atomic_fetch_sub(&c->at_once, 1);
}

static int counted(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return fm_gpu_cpu_launch(stream, 0, count, ctx);
}

static struct fm_gpu_set *shared;

static void *releases(void *arg)
{
	const unsigned first = *(unsigned *)arg;

	for (unsigned i = 0; i < JOBS; i++)
		assert_int_equal(fm_gpu_release(shared, (first + i) % TASKS, 1), 0);
	return NULL;
}

static void *asks(void *arg)
{
	for (unsigned i = 0; i < JOBS; i++) {
		stats_of(shared, i % 2 ? FM_GPU_SET : i % TASKS);
		assert_int_equal(fm_gpu_set_suspend(shared), 0);
		assert_int_equal(fm_gpu_set_resume(shared), 0);
	}
	return NULL;
}

static void no_release_is_lost(void **state)
{
	struct fm_gpu_set *s = shared = make_real("edf", 2, false);
	struct counter counters[TASKS] = {0};
	unsigned first[] = {0, 2};
	pthread_t thread[3];
	struct fm_gpu_stats sum;

	for (unsigned i = 0; i < TASKS; i++) {
		struct fm_gpu_task t = {.size = sizeof(t), .enqueue = counted, .n_chunks = 1 + i};

		t.ctx = &counters[i];
		add(s, t);
	}
	assert_int_equal(fm_gpu_set_start(s), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, releases, &first[i]), 0);
	assert_int_equal(pthread_create(&thread[2], NULL, asks, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	sum = stats_of(s, FM_GPU_SET);
	assert_int_equal(sum.done + sum.dropped, 2 * JOBS);
	assert_int_equal(sum.done, sum.released);
	for (unsigned i = 0; i < TASKS; i++) {
		assert_int_equal(atomic_load(&counters[i].chunks), stats_of(s, i).done * (1 + i));
		assert_int_equal(counters[i].next, atomic_load(&counters[i].chunks));
		assert_true(atomic_load(&counters[i].most) <= 1);
	}
	fm_gpu_set_free(s);
}

static void periods_and_words_come_by_themselves(void **state)
{
	struct fm_gpu_set *s = make_real("fixed-priority", 1, true);
	struct counter c = {0}, w = {0};
	struct fm_gpu_task p = {.size = sizeof(p), .enqueue = counted, .period_ns = 1000 * TICK};
	struct fm_gpu_task q = {.size = sizeof(q), .enqueue = counted};
	uint64_t *word;

	p.ctx = &c;
	q.ctx = &w;
	add(s, p);
	add(s, q);
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release_word(s, 1, &word), 0);
	__atomic_fetch_add(word, 5, __ATOMIC_SEQ_CST);
	while (atomic_load(&c.chunks) < 3 || atomic_load(&w.chunks) < 5)
		sched_yield();
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	assert_int_equal(stats_of(s, 1).done, 5);
	fm_gpu_set_free(s);
}

static void a_set_is_freed_while_it_works(void **state)
{
	struct fm_gpu_set *s = make_real("fair", 1, true);
	struct fm_gpu_task t = {.size = sizeof(t), .wcet_ns = FM_GPU_TIME_MAX - 1};

	add(s, t); /* a chunk of a century */
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, 0, 10), 0);
	assert_int_equal(fm_gpu_set_drain(s, 1), -ETIMEDOUT);
	fm_gpu_set_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_release_is_lost),
		cmocka_unit_test(periods_and_words_come_by_themselves),
		cmocka_unit_test(a_set_is_freed_while_it_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
