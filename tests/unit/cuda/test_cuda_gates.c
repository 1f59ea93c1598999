// SPDX-License-Identifier: Apache-2.0
/*
 * Sets of tasks that decide on the device, beside the fake driver: each chunk runs once, in the
 * order of the policy, on no more slots than there are; and nothing hangs, whichever call of the
 * driver fails.
 */
#include "gates_world.h"

static void the_policy_orders_them(void **state)
{
	(void)state;
	describe(4, 1, FM_GS_FIXED_PRIORITY);
	for (uint32_t i = 0; i < 4; i++)
		w.task[i].priority = i == 2 ? 9 : (int32_t)i;
	start();
	for (uint32_t i = 0; i < 4; i++)
		release(i, 2, 0);
	refill(0);
	assert_int_equal(fm_cu_gates_tell(w.gates, 0, FM_GATES_KICK, 0, 0), 0);
	run();
	stop();
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(w.order[i], ((unsigned[]){2, 2, 3, 3, 1, 1, 0, 0})[i]);
	assert_int_equal(w.n, 8);
}

static void each_chunk_runs_once_on_a_slot(void **state)
{
	unsigned count[MANY] = {0};

	(void)state;
	describe(27, 3, FM_GS_FAIR);
	for (uint32_t i = 0; i < w.set.n; i++)
		w.task[i].chunks = 1 + i % 3;
	start();
	for (uint32_t i = 0; i < w.set.n; i++)
		release(i, 4 + i % 5, FM_GATES_KICK);
	run();
	stop();
	for (unsigned i = 0; i < w.n; i++)
		count[w.order[i]]++;
	for (uint32_t i = 0; i < w.set.n; i++)
		assert_int_equal(count[i], w.wanted[i] * w.task[i].chunks);
	assert_in_range(w.most, 1, 3);
}

static void what_is_parked_does_not_begin(void **state)
{
	struct fm_cu_gates_words words;

	(void)state;
	describe(2, 2, FM_GS_FIFO);
	start();
	assert_int_equal(fm_cu_gates_tell(w.gates, 0, FM_GATES_PARK | FM_GATES_KICK, 0, 0), 0);
	release(0, 5, FM_GATES_KICK);
	release(1, 5, FM_GATES_KICK);
	refill(FM_GATES_KICK);
	assert_int_equal(fm_cu_gates_read(w.gates, &words), 0);
	assert_int_equal(words.task[0].accepted, 5);
	assert_int_equal(words.task[0].gate + words.task[1].gate, 0);
	assert_int_equal(words.set->running, 0);
	assert_int_equal(w.n, 0);
	assert_int_equal(fm_cu_gates_tell(w.gates, 0, FM_GATES_GO_ON | FM_GATES_KICK, 0, 0), 0);
	run();
	assert_int_equal(w.n, 10);
	assert_int_equal(fm_cu_gates_read(w.gates, &words), 0);
	assert_int_equal(words.task[0].stats.done, 5);
	assert_int_equal(words.task[1].stats.released, 5);
	assert_int_equal(words.set->opened, 10);
	stop();
}

static void tasks_come_after_others(void **state)
{
	(void)state;
	describe(3, 1, FM_GS_FIXED_PRIORITY);
	w.task[0].n_after = 1; /* the most urgent, behind the least */
	w.task[0].priority = 5;
	w.after[0] = 2;
	start();
	w.wanted[0] = 3;
	release(1, 3, 0);
	release(2, 3, FM_GATES_KICK);
	run();
	stop();
	assert_int_equal(w.n, 9);
	for (unsigned i = 0, behind = 0; i < 9; i++) {
		behind += (w.order[i] == 2) - (w.order[i] == 0);
		assert_in_range(behind, 0, 3); /* else one has begun too early */
	}
}

static void a_task_that_fails_is_off(void **state)
{
	(void)state;
	describe(2, 1, FM_GS_FIFO);
	start();
	w.error = -ENOTTY;
	assert_int_equal(fm_cu_gates_put(w.gates, 0, enqueue, 0, &w.number[0]), -ENOTTY);
	w.error = 0;
	assert_int_equal(fm_cu_gates_put(w.gates, 0, enqueue, 0, &w.number[0]), -EIO);
	assert_int_equal(fm_cu_gates_tell(w.gates, 0, FM_GATES_OFF | FM_GATES_KICK, 3, 0), 0);
	release(1, 3, FM_GATES_KICK);
	run();
	assert_int_equal(fm_cu_gates_told(w.gates)->dropped[0], 3);
	stop();
	assert_int_equal(w.n, 3);
}

static void what_stands_in_streams_ends_with_the_set(void **state)
{
	(void)state;
	describe(3, 1, FM_GS_FIFO);
	w.task[1].chunks = 2;
	start();
	for (uint32_t i = 0; i < 3; i++)
		w.wanted[i] = 2; /* and nobody releases them */
	refill(0);
	stop();
	assert_int_equal(w.n, 8);
}

static void a_call_that_fails_once(void **state)
{
	struct fm_cu_gates_failure why;
	unsigned n;

	(void)state;
	describe(3, 1, FM_GS_FIFO);
	start(); /* the kernel is there from then on */
	stop();
	calls = failing = 0;
	start();
	n = calls;
	stop();
	assert_true(n > 6);
	for (unsigned i = 1; i <= n; i++) {
		calls = 0;
		failing = i;
		w.gates = NULL;
		assert_int_equal(
			fm_cu_gates_create(&cu, &w.set, MANY, w.kind, &w.gates, &why), -EIO);
		assert_true(why.call && why.result == 999);
		assert_null(w.gates);
	}
	failing = 0;
	/* Of a chunk: its wait, its end, and the news of it. */
	for (unsigned i = 1; i <= 3; i++) {
		start();
		calls = 0;
		failing = i;
		assert_int_equal(fm_cu_gates_put(w.gates, 1, enqueue, 0, &w.number[1]) ||
					 fm_cu_gates_tell(w.gates, 1, 0, 0, 1),
			1);
		failing = 0;
		stop();
	}
}

static void streams_are_filled_behind_what_runs(void **state)
{
	unsigned count[MANY] = {0};
	struct fm_cu_feed *f;

	(void)state;
	describe(5, 2, FM_GS_FIFO);
	w.task[3].n_after = 1; /* 0, then 3, then 4 */
	w.task[4].n_after = 1;
	w.after[4] = 3;
	w.task[1].chunks = 3;
	f = start_fed(2);
	for (unsigned round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(release_fed(f, i, 7), 0);
		assert_int_equal(fm_cu_feed_wait(f, fm_now() + PATIENCE), 0);
	}
	stop_fed(f);
	for (unsigned i = 0; i < w.n; i++)
		count[w.order[i]]++;
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(count[i], 21 * w.task[i].chunks);
}

static void too_many_releases_are_dropped(void **state)
{
	struct fm_cu_feed *f;

	(void)state;
	describe(2, 1, FM_GS_FIFO);
	w.task[1].n_after = 1;
	f = start_fed(64);
	fm_cu_feed_park(f, true);
	assert_int_equal(release_fed(f, 0, 1000), 0);
	assert_int_equal(fm_cu_feed_wait(f, fm_now()), -ETIMEDOUT);
	assert_int_equal(w.n, 0);
	fm_cu_feed_park(f, false);
	assert_int_equal(fm_cu_feed_wait(f, fm_now() + PATIENCE), 0);
	assert_int_equal(fm_cu_gates_told(w.gates)->dropped[0], 1000 - FM_GS_BACKLOG);
	stop_fed(f);
	assert_int_equal(w.n, 2 * FM_GS_BACKLOG);
}

static void the_error_of_a_task_is_told(void **state)
{
	struct fm_cu_feed *f;
	bool busy;
	int rc;

	(void)state;
	describe(2, 1, FM_GS_FIFO);
	f = start_fed(2);
	w.error = -ENOTTY;
	while (!(rc = release_fed(f, 0, 1))) /* the thread may have called enqueue just now */
		usleep(200);
	assert_int_equal(rc, -ENOTTY);
	w.error = 0;
	assert_int_equal(release_fed(f, 0, 1), -ENOTTY);
	assert_int_equal(release_fed(f, 1, 3), 0);
	assert_int_equal(fm_cu_feed_wait(f, fm_now() + PATIENCE), 0);
	for (uint64_t end = fm_now() + PATIENCE; !fm_cu_gates_look(w.gates, &busy) && busy;)
		assert_true(fm_now() < end); /* a wait stood in the stream of 0 */
	assert_int_equal(release_fed(f, 1, 3), 0);
	assert_int_equal(fm_cu_feed_wait(f, fm_now() + PATIENCE), 0);
	stop_fed(f);
	assert_int_equal(w.n, 6);
}

static void *release_many(void *arg)
{
	CUcontext ctx;

	assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx), 0);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(release_fed(arg, i % 3, 1), 0);
	return NULL;
}

static void parks_come_while_it_runs(void **state)
{
	struct fm_cu_feed *f;
	pthread_t thread[2];

	(void)state;
	describe(3, 2, FM_GS_FAIR);
	f = start_fed(2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, release_many, f), 0);
	for (unsigned i = 0; i < 20; i++) {
		unsigned before = maker.stands;

		maker.shut = true;
		if (fm_cu_feed_stop(f) && i % 2 && fm_cu_feed_wait(f, fm_now()))
			for (uint64_t end = fm_now() + PATIENCE;
				maker.stands == before && fm_cu_feed_wait(f, fm_now());)
				assert_true(fm_now() < end);
		maker.shut = false;
		fm_cu_feed_go_on(f);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(fm_cu_feed_wait(f, fm_now() + PATIENCE), 0);
	stop_fed(f);
	assert_int_equal(w.n, 80);
	assert_int_equal(maker.begun, 80);
	assert_int_equal(maker.ended, 80);
}

static void nothing_stands_there_when_it_has_left(void **state)
{
	struct fm_cu_feed *f;

	(void)state;
	describe(2, 1, FM_GS_FIFO);
	w.task[0].chunks = 3;
	f = start_fed(2);
	fm_cu_feed_park(f, true);
	assert_int_equal(release_fed(f, 0, 5), 0);
	assert_int_equal(w.n, 0);
	maker.leaves = true;
	fm_cu_feed_leave(f);
	assert_streams_are_empty();
	assert_int_equal(w.n, 6); /* what stood there has run, */
	assert_int_equal(release_fed(f, 1, 1), 0);
	assert_int_equal(w.n, 6);
	maker.leaves = false;
	fm_cu_feed_stay(f);
	assert_int_equal(fm_cu_feed_wait(f, fm_now()), -ETIMEDOUT); /* and the park goes on */
	assert_int_equal(w.n, 6);
	fm_cu_feed_park(f, false);
	assert_int_equal(fm_cu_feed_wait(f, fm_now() + PATIENCE), 0);
	stop_fed(f);
	assert_int_equal(w.n, 16);
}

static uint64_t drawn_number(uint64_t last, unsigned i)
{
	uint64_t r = ((uint64_t)rand() << 32 | (uint64_t)rand() << 16) ^ (uint64_t)rand();

	switch (r % 7) {
	case 0:
		return 0;
	case 1:
		return last;
	case 2:
		return UINT64_MAX - r % 8;
	case 3:
		return r;
	case 4:
		return last + r % (4 * FM_GATES_NOTES);
	default:
		return last + 1 + i; /* as it should be */
	}
}

/* The ring is memory that the program can write. Each number that is taken is larger than the one
 * before, what was lost is counted, and there is an end. */
static void whatever_stands_in_the_ring(void **state)
{
	enum { AT_ONCE = 16, SEEDS = 100, ROUNDS = 10 };
	struct fm_gates_note *ring, out[AT_ONCE];
	unsigned taken = 0;

	(void)state;
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		uint64_t last = 0, lost = 0, before = 0;

		srand(seed);
		describe(1, 1, FM_GS_FIFO);
		start();
		ring = (struct fm_gates_note *)(uintptr_t)fm_cu_gates_told(w.gates)->note;
		for (unsigned round = 0; round < ROUNDS; round++) {
			uint32_t n = AT_ONCE;

			for (unsigned i = 0; i < FM_GATES_NOTES; i++)
				ring[(last + i) % FM_GATES_NOTES].number = drawn_number(last, i);
			for (unsigned looks = 0; n == AT_ONCE; looks++) {
				assert_in_range(looks, 0, 2 * FM_GATES_NOTES);
				n = fm_cu_gates_notes(w.gates, out, AT_ONCE, &lost);
				assert_true(n <= AT_ONCE && lost >= before);
				before = lost;
				for (uint32_t k = 0; k < n; k++, taken++) {
					assert_true(out[k].number > last);
					last = out[k].number;
				}
			}
		}
		stop();
	}
	assert_true(taken > SEEDS); /* it was read at all */
}

static void there_are_so_many_channels(void **state)
{
	(void)state;
	assert_int_equal(fm_cu_gates_room(8, 0), 3);
	assert_int_equal(fm_cu_gates_room(32, 2), 25);
	assert_int_equal(fm_cu_gates_room(8, 3), 0);
	assert_int_equal(fm_cu_gates_room(8, UINT32_MAX - 9), 0);
	assert_int_equal(fm_cu_gates_room(64, 0), FM_GATES_TASKS);
	describe(4, 1, FM_GS_FIFO);
	assert_int_equal(fm_cu_gates_create(&cu, &w.set, 3, 0, &w.gates, NULL), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_policy_orders_them),
		cmocka_unit_test(each_chunk_runs_once_on_a_slot),
		cmocka_unit_test(what_is_parked_does_not_begin),
		cmocka_unit_test(tasks_come_after_others),
		cmocka_unit_test(a_task_that_fails_is_off),
		cmocka_unit_test(what_stands_in_streams_ends_with_the_set),
		cmocka_unit_test(a_call_that_fails_once),
		cmocka_unit_test(streams_are_filled_behind_what_runs),
		cmocka_unit_test(too_many_releases_are_dropped),
		cmocka_unit_test(the_error_of_a_task_is_told),
		cmocka_unit_test(parks_come_while_it_runs),
		cmocka_unit_test(nothing_stands_there_when_it_has_left),
		cmocka_unit_test(whatever_stands_in_the_ring),
		cmocka_unit_test(there_are_so_many_channels),
	};

	setenv("FAKE_CUDA_NARROW", "1", 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	return cmocka_run_group_tests(tests, open_driver, NULL);
}
