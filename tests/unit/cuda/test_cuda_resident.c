// SPDX-License-Identifier: Apache-2.0
/*
 * Sets with a resident, beside the fake driver: jobs come by period and by word, the resident goes
 * when it is to go and comes again, and jobs that stand in streams in advance hold nothing up.
 */
#include "api/cuda/core/tune.h"
#include "api/cuda/gpusched/gates_clock.h"
#include "gates_world.h"

static uint64_t told_done(uint32_t task)
{
	return __atomic_load_n(&fm_cu_gates_told(w.gates)->done[task], __ATOMIC_SEQ_CST);
}

static uint64_t told_accepted(uint32_t task)
{
	return __atomic_load_n(&fm_cu_gates_told(w.gates)->accepted[task], __ATOMIC_SEQ_CST);
}

/* All that were released: more than may wait are dropped. */
static uint64_t told_released(uint32_t task)
{
	return told_accepted(task) +
	       __atomic_load_n(&fm_cu_gates_told(w.gates)->dropped[task], __ATOMIC_SEQ_CST);
}

#define UNTIL(condition)                                                     \
	for (uint64_t end_ = fm_now() + PATIENCE; !(condition); usleep(200)) \
	assert_true(fm_now() < end_)

static void describe_resident(uint32_t n, uint32_t slots, enum fm_gs_policy policy)
{
	describe(n, slots, policy);
	w.kind = FM_CU_GATES_RESIDENT;
	assert_int_equal(fm_cu_gates_words_new(&cu, MANY, &w.words), 0);
	for (uint32_t i = 0; i < n; i++)
		w.task[i].word = (uint64_t *)(uintptr_t)w.words + i;
}

/* As code of the device does. */
static void add_to_word(uint32_t task, uint64_t jobs)
{
	__atomic_fetch_add((uint64_t *)(uintptr_t)w.words + task, jobs, __ATOMIC_SEQ_CST);
}

/* What was counted agrees with what has run. */
static void end_resident(struct fm_cu_feed *f)
{
	unsigned count[MANY] = {0};
	struct fm_cu_gates_words words;
	uint64_t done = 0, chunks = 0;

	fm_cu_feed_drain(f);
	assert_int_equal(fm_cu_feed_wait(f, fm_now() + PATIENCE), 0);
	fm_cu_feed_retire(f, fm_now() + PATIENCE);
	assert_streams_are_empty();
	assert_int_equal(fm_cu_gates_read(w.gates, &words), 0);
	for (unsigned i = 0; i < w.n && i < CHUNKS; i++)
		count[w.order[i]]++;
	for (uint32_t i = 0; i < w.set.n; i++) {
		const struct fm_gs_task *t = &words.task[i];

		assert_int_equal(t->stats.done, t->stats.released);
		if (w.n <= CHUNKS)
			assert_int_equal(count[i], t->stats.done * t->chunks);
		done += t->stats.done;
		chunks += t->stats.done * t->chunks;
	}
	assert_int_equal(w.n, chunks);
	stop_fed(f);
	assert_in_range(w.most, 1, w.set.slots);
	assert_int_equal(cu.mem_free(w.words), 0);
}

static void jobs_come_by_period(void **state)
{
	uint64_t from, accepted;
	struct fm_cu_feed *f;

	(void)state;
	describe_resident(3, 1, FM_GS_EDF);
	w.task[0].period = w.task[0].deadline = 2 * FM_MS;
	w.task[1].period = w.task[1].deadline = 7 * FM_MS;
	w.task[1].chunks = 3;
	w.task[1].phase = FM_MS;
	w.task[2].n_after = 1; /* comes after 1 */
	w.after[2] = 1;
	from = fm_now();
	f = start_fed(2);
	UNTIL(told_done(1) >= 4);
	assert_true(fm_now() - from >= 3 * 7 * FM_MS + FM_MS); /* not before its time */
	accepted = told_accepted(0); /* before the clock is read: more of them come all the time */
	assert_in_range(accepted, 10, (fm_now() - from) / (2 * FM_MS) + 1);
	end_resident(f);
	assert_int_equal(maker.begun, maker.ended);
}

static void jobs_come_by_word(void **state)
{
	struct fm_cu_feed *f;

	(void)state;
	describe_resident(2, 1, FM_GS_FIXED_PRIORITY);
	w.task[1].chunks = 2;
	f = start_fed(2);
	add_to_word(1, 1); /* nobody has asked for that word, */
	fm_cu_feed_word(f, 0);
	for (unsigned i = 1; i <= 30; i++) {
		add_to_word(0, 1);
		UNTIL(told_done(0) == i);
	}
	fm_cu_feed_word(f, 1);
	UNTIL(told_done(1) == 1); /* and it was not lost */
	add_to_word(0, 100);      /* more than wait */
	assert_int_equal(release_fed(f, 1, 3), 0);
	UNTIL(told_done(1) == 4);
	UNTIL(fm_cu_feed_pending(f) == 0);
	assert_in_range(__atomic_load_n(&fm_cu_gates_told(w.gates)->dropped[0], __ATOMIC_SEQ_CST),
		1, 100 - FM_GS_BACKLOG);
	end_resident(f);
}

static void it_goes_while_nothing_comes(void **state)
{
	struct fm_cu_feed *f;

	(void)state;
	describe_resident(1, 1, FM_GS_FIFO);
	w.task[0].period = 60 * FM_MS;
	w.task[0].phase = 30 * FM_MS;
	f = start_fed(1);
	for (unsigned i = 1; i <= 3; i++) {
		UNTIL(told_done(0) >= i);
		UNTIL(!fm_cu_gates_resides(w.gates));
	}
	end_resident(f);
}

static void it_is_not_there_in_a_park(void **state)
{
	struct fm_cu_feed *f;
	uint64_t before, released;

	(void)state;
	describe_resident(2, 1, FM_GS_FIFO);
	w.task[0].period = 5 * FM_MS;
	f = start_fed(2);
	fm_cu_feed_word(f, 1);
	add_to_word(1, 1);
	UNTIL(told_done(0) >= 2 && told_done(1) == 1);
	for (unsigned round = 0; round < 3; round++) {
		unsigned stood = maker.stands, n;

		maker.shut = true;
		fm_cu_feed_stop(f);
		UNTIL(maker.stands > stood);
		assert_false(fm_cu_gates_resides(w.gates));
		n = w.n;
		before = told_accepted(0);
		released = told_released(0);
		add_to_word(1, 1);
		UNTIL(told_released(0) > released + 2 && told_accepted(1) == 2 + round);
		assert_int_equal(w.n, n); /* released, and not begun */
		assert_false(fm_cu_gates_resides(w.gates));
		maker.shut = false;
		fm_cu_feed_go_on(f);
		UNTIL(told_done(0) > before + 2 && told_done(1) == 2 + round);
	}
	end_resident(f);
}

/* What it does is done without it, as the thread looks. */
static void it_is_not_there_while_it_is_barred(void **state)
{
	struct fm_cu_feed *f;
	uint64_t before;

	(void)state;
	describe_resident(2, 1, FM_GS_FIFO);
	w.task[0].period = 5 * FM_MS;
	f = start_fed(2);
	fm_cu_feed_word(f, 1);
	for (unsigned round = 0; round < 6; round++) {
		maker.bars = round % 2;
		UNTIL(fm_cu_gates_resides(w.gates) == !maker.bars);
		before = told_done(0);
		add_to_word(1, 1);
		UNTIL(told_done(0) > before + 2 && told_done(1) == 1 + round);
		assert_int_equal(fm_cu_gates_resides(w.gates), !maker.bars);
	}
	end_resident(f);
	maker.bars = false;
}

static void what_stands_in_advance_runs_before_a_call(void **state)
{
	struct fm_cu_feed *f;
	bool busy = false;

	(void)state;
	describe_resident(2, 1, FM_GS_FIFO);
	w.task[0].period = 3600 * FM_S;
	w.task[0].phase = 3600 * FM_S;
	w.task[1].chunks = 2;
	f = start_fed(2);
	fm_cu_feed_word(f, 1);
	for (unsigned round = 1; round <= 4; round++) {
		UNTIL(!fm_cu_gates_look(w.gates, &busy) && busy); /* it stands there */
		UNTIL(fm_cu_gates_resides(w.gates));
		maker.leaves = true;
		fm_cu_feed_leave(f);
		assert_streams_are_empty();
		assert_false(fm_cu_gates_resides(w.gates));
		maker.leaves = false;
		fm_cu_feed_stay(f);
		add_to_word(1, 1);
		UNTIL(told_done(1) >= round && !fm_cu_feed_pending(f));
	}
	end_resident(f);
}

static void it_leaves_when_nobody_renews_its_stay(void **state)
{
	struct fm_cu_gates_words words;
	bool busy = true;

	(void)state;
	describe_resident(2, 1, FM_GS_FIFO);
	start();
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fm_cu_gates_put(w.gates, 1, enqueue, 0, &w.number[1]), 0);
	assert_int_equal(fm_cu_gates_tell(w.gates, 1, FM_GATES_KICK, 0, 2), 0);
	fm_cu_gates_lend(w.gates, fm_now() + 20 * FM_MS);
	assert_int_equal(fm_cu_gates_reside(w.gates, FM_CU_SET_IDLE, true), 0);
	/* No call is made meanwhile. */
	UNTIL(!fm_cu_gates_resides(w.gates));
	UNTIL(!fm_cu_gates_look(w.gates, &busy) && !busy);
	assert_int_equal(w.n, 2);
	assert_int_equal(fm_cu_gates_read(w.gates, &words), 0);
	assert_int_equal(words.task[1].stats.spare, 2);
	stop();
	assert_int_equal(cu.mem_free(w.words), 0);
}

/* By the word alone: a call of the driver's may stand in a lock. */
static void it_goes_when_its_stay_is_taken_back(void **state)
{
	struct fm_cu_gates_words words;

	(void)state;
	describe_resident(1, 1, FM_GS_FIFO);
	start();
	fm_cu_gates_lend(w.gates, fm_now() + PATIENCE);
	assert_int_equal(fm_cu_gates_reside(w.gates, FM_CU_SET_IDLE, true), 0);
	fm_cu_gates_lend(w.gates, 0);
	UNTIL(!fm_cu_gates_resides(w.gates));
	assert_int_equal(fm_cu_gates_read(w.gates, &words), 0);
	assert_int_equal(words.set->leave, 0); /* what stands in streams is not to run */
	stop();
	assert_int_equal(cu.mem_free(w.words), 0);
}

static void take_leave(void *arg, const struct fm_cu_gates_words *words)
{
	*(uint64_t *)arg = words->set->leave;
}

/* It may find that its stay is over when the host does not: clocks differ. */
static void it_comes_again_when_it_has_left_by_itself(void **state)
{
	struct fm_cu_feed *f;
	uint64_t left = 1;

	(void)state;
	describe_resident(1, 1, FM_GS_FIFO);
	f = start_fed(2);
	fm_cu_feed_word(f, 0);
	for (unsigned n = 1; n <= 3; n++) {
		UNTIL(fm_cu_gates_resides(w.gates));
		while (__atomic_load_n(&fm_cu_gates_told(w.gates)->expired, __ATOMIC_SEQ_CST) < n)
			fm_cu_gates_lend(w.gates, 1); /* long ago */
		UNTIL(!fm_cu_feed_read(f, take_leave, &left) && !left);
	}
	end_resident(f);
}

static void what_runs_at_the_end_counts_for_nothing(void **state)
{
	struct fm_cu_gates_words words;

	(void)state;
	describe_resident(1, 1, FM_GS_FIFO);
	start();
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fm_cu_gates_put(w.gates, 0, enqueue, 0, &w.number[0]), 0);
	assert_int_equal(fm_cu_gates_tell(w.gates, 0, FM_GATES_KICK, 0, 2), 0);
	assert_int_equal(fm_cu_gates_open(w.gates), 0);
	assert_int_equal(fm_cu_gates_tell(w.gates, 0, FM_GATES_LEAVE | FM_GATES_KICK, 0, 0), 0);
	assert_int_equal(fm_cu_gates_read(w.gates, &words), 0);
	assert_int_equal(words.task[0].stats.spare, 0);
	assert_int_equal(words.task[0].stats.dropped, 0);
	stop();
	assert_int_equal(w.n, 2);
	assert_int_equal(cu.mem_free(w.words), 0);
}

/* A call that waits for the streams is inside while the feed ends in a stop. */
static void *leave_feed(void *feed)
{
	fm_cu_feed_leave(feed);
	fm_cu_feed_let_go(feed);
	return NULL;
}

static void a_feed_that_ends_waits_for_no_stop(void **state)
{
	struct fm_cu_feed *f;
	pthread_t thread;
	bool busy = false;

	(void)state;
	describe_resident(1, 1, FM_GS_FIFO);
	f = start_fed(2);
	fm_cu_feed_word(f, 0);
	UNTIL(!fm_cu_gates_look(w.gates, &busy) && busy);
	maker.shut = true;
	fm_cu_feed_stop(f);
	UNTIL(maker.stands > 0);
	maker.leaves = true;
	fm_cu_feed_keep(f);
	assert_int_equal(pthread_create(&thread, NULL, leave_feed, f), 0);
	fm_cu_feed_retire(f, fm_now() + 20 * FM_MS);
	fm_cu_feed_destroy(f);
	assert_int_equal(pthread_join(thread, NULL), 0);
	stop();
	maker.leaves = maker.shut = false;
	assert_int_equal(cu.mem_free(w.words), 0);
}

static void a_task_that_fails_in_advance_is_off(void **state)
{
	struct fm_cu_feed *f;
	uint64_t n;

	(void)state;
	describe_resident(3, 1, FM_GS_FIFO);
	w.task[0].period = 5 * FM_MS;
	w.task[1].n_after = 1;
	w.after[1] = 0;
	f = start_fed(3);
	fm_cu_feed_word(f, 2);
	UNTIL(told_done(1) >= 2);
	w.error = -ENOTTY;
	UNTIL(release_fed(f, 0, 1) == -ENOTTY);
	w.error = 0;
	fm_cu_feed_drain(f);
	assert_int_equal(fm_cu_feed_wait(f, fm_now() + PATIENCE), 0);
	fm_cu_feed_retire(f, fm_now() + PATIENCE);
	assert_streams_are_empty();
	assert_true(maker.finished <= maker.begun);
	n = w.n;
	fm_cu_feed_destroy(f);
	stop();
	assert_int_equal(w.n, n);
	assert_int_equal(cu.mem_free(w.words), 0);
}

static void a_call_that_fails_costs_no_job(void **state)
{
	struct fm_cu_feed *f;

	(void)state;
	for (unsigned i = 1; i <= 12; i++) {
		describe_resident(1, 1, FM_GS_FIFO);
		w.task[0].period = 2 * FM_MS;
		f = start_fed(2);
		UNTIL(told_done(0) >= 2);
		calls = 0;
		failing = i;
		/* A chunk that cannot be put ends its task, news that cannot be told the set. */
		UNTIL(calls >= i && (told_done(0) >= 6 || release_fed(f, 0, 1)));
		failing = 0;
		fm_cu_feed_drain(f);
		assert_true(fm_cu_feed_wait(f, fm_now() + PATIENCE) != -ETIMEDOUT);
		fm_cu_feed_destroy(f);
		stop();
		assert_int_equal(cu.mem_free(w.words), 0);
	}
}

/* What comes around is written before its number is: it is not taken for what was there. */
static void notes_that_come_too_fast_are_left_out(void **state)
{
	struct fm_gates_note *note, out[64];
	uint64_t lost = 0, next = 0;
	uint32_t n;

	(void)state;
	describe_resident(1, 1, FM_GS_FIFO);
	start();
	note = (struct fm_gates_note *)(uintptr_t)fm_cu_gates_told(w.gates)->note;
	for (uint64_t i = 1; i <= FM_GATES_NOTES; i++)
		note[i - 1] = (struct fm_gates_note){.number = i, .at = i};
	for (unsigned i = 0; i < FM_GATES_TASKS; i++)
		note[i].at = FM_GATES_NOTES + 1 + i; /* the next decision's, in part */
	while ((n = fm_cu_gates_notes(w.gates, out, FM_ARRAY_LEN(out), &lost)))
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(out[i].at, out[i].number);
			assert_true(out[i].number > next);
			next = out[i].number;
		}
	assert_int_equal(next, FM_GATES_NOTES);
	assert_in_range(lost, FM_GATES_TASKS, FM_GATES_NOTES / 2);
	stop();
	assert_int_equal(cu.mem_free(w.words), 0);
}

static void each_call_before_it_starts_may_fail(void **state)
{
	struct fm_cu_gates_failure why;
	unsigned n;

	(void)state;
	describe_resident(2, 1, FM_GS_FIFO);
	w.task[0].period = FM_MS;
	calls = failing = 0;
	start();
	n = calls;
	stop();
	assert_true(n > 20);
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
	assert_int_equal(cu.mem_free(w.words), 0);
}

static uint64_t draw(uint64_t n)
{
	static uint64_t z = 1;

	z = z * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (z >> 33) % n;
}

/* A clock that begins anywhere, goes another way, and is looked at in 8 us, or in much more. */
static void the_clock_is_followed(void **state)
{
	const uint64_t begins[] = {0, UINT64_C(77000000000), UINT64_MAX - 5, (uint64_t)INT64_MAX};

	(void)state;
	for (unsigned b = 0; b < 4; b++) {
		struct fm_cu_clock c = {0};
		uint64_t host = FM_S, rate = 20;

		for (unsigned i = 0; i < 2000; i++) {
			uint64_t before = host,
				 width = 8000 + (draw(9) ? draw(3000) : draw(500000));
			uint64_t at = before + draw(width + 1);
			/* `rate' parts of a million faster, or slower. */
			uint64_t device =
				begins[b] + at +
				(b % 2 ? (uint64_t)0 - at / 1000000 * rate : at / 1000000 * rate);
			int64_t off;
			struct fm_cu_clock_look l = {before, device, before + width};

			fm_cu_clock_follow(&c, &l);
			off = (int64_t)(device + c.later - at);
			assert_in_range(off + 1000000, 1000000 - width, 1000000 + width);
			if (i > 100) /* a look in 250 ms, of which one in nine is slow */
				assert_in_range(off + 1000000, 1000000 - 40000, 1000000 + 40000);
			host += 250 * FM_MS;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clock_is_followed),
		cmocka_unit_test(jobs_come_by_period),
		cmocka_unit_test(jobs_come_by_word),
		cmocka_unit_test(it_goes_while_nothing_comes),
		cmocka_unit_test(it_is_not_there_in_a_park),
		cmocka_unit_test(it_is_not_there_while_it_is_barred),
		cmocka_unit_test(what_stands_in_advance_runs_before_a_call),
		cmocka_unit_test(it_leaves_when_nobody_renews_its_stay),
		cmocka_unit_test(it_goes_when_its_stay_is_taken_back),
		cmocka_unit_test(it_comes_again_when_it_has_left_by_itself),
		cmocka_unit_test(what_runs_at_the_end_counts_for_nothing),
		cmocka_unit_test(a_feed_that_ends_waits_for_no_stop),
		cmocka_unit_test(a_task_that_fails_in_advance_is_off),
		cmocka_unit_test(a_call_that_fails_costs_no_job),
		cmocka_unit_test(notes_that_come_too_fast_are_left_out),
		cmocka_unit_test(each_call_before_it_starts_may_fail),
	};

	setenv("FAKE_CUDA_NARROW", "1", 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	return cmocka_run_group_tests(tests, open_driver, NULL);
}
