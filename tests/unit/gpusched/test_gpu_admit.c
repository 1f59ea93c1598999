// SPDX-License-Identifier: Apache-2.0
/* Admission of sets: charges by hand, and that no set which is admitted misses a deadline. */
#include "gpu_world.h"

#define MANY 8

static struct fm_gpu_set *make_with(
	const char *policy, unsigned slots, uint64_t decision, bool virtual_time)
{
	struct fm_gpu_set_options o = {.size = sizeof(o),
		.policy = policy,
		.slots = slots,
		.engine = "cpu",
		.resident = true,
		.virtual_time = virtual_time,
		.decision_ns = decision,
		.admit = true};
	struct fm_gpu_set *s = fm_gpu_set_new(&o, NULL);

	assert_non_null(s);
	return s;
}

static struct fm_gpu_set *make_admitting(const char *policy, unsigned slots, uint64_t decision)
{
	return make_with(policy, slots, decision, true);
}

static struct fm_gpu_task periodic(unsigned length, uint64_t deadline, uint64_t period)
{
	struct fm_gpu_task t = ticks(length);

	t.deadline_ns = deadline;
	t.period_ns = period;
	return t;
}

static void expect_admitted(struct fm_gpu_set *s, bool yes, const char *why)
{
	assert_int_equal(fm_gpu_set_start(s), yes ? 0 : -EDQUOT);
	if (!yes)
		expect_why(s, why);
	fm_gpu_set_free(s);
}

/* Tasks of 10 chunks of a tick, and decisions of a tenth: 11 ticks each. A chunk of another, with
 * two decisions, is 1.2. Just below the bound, and just above it. */
static void charges_are_those_by_hand(void **state)
{
	for (int more = 0; more <= 1; more++) {
		struct fm_gpu_set *s = make_admitting("edf", 1, TICK / 10);

		/* 11 + 1.2 in the deadline. */
		add(s, periodic(10, more ? 12210 : 12190, 1000 * TICK));
		add(s, periodic(10, 900 * TICK, 1000 * TICK));
		expect_admitted(s, more, "task 0 \"task0\" may miss");

		/* 11 / 30 + 11 / 17.3684 = 1 */
		s = make_admitting("edf", 1, TICK / 10);
		add(s, periodic(10, 30 * TICK, 1000 * TICK));
		add(s, periodic(10, more ? 17370 : 17360, 1000 * TICK));
		expect_admitted(s, more, "task 0");

		/* Three times 11 + 2 x 1.2 in two deadlines, beside a task that has none. */
		s = make_admitting("edf", 2, TICK / 10);
		add(s, periodic(10, more ? 20110 : 20090, 1000 * TICK));
		add(s, periodic(10, more ? 20110 : 20090, 1000 * TICK));
		add(s, ticks(10));
		expect_admitted(s, more, "task 0");
	}
}

/* Two decisions a chunk: 12 ticks, and 1.2 for the other's chunk. */
static void in_real_time_a_decision_may_be_under_way(void **state)
{
	for (int more = 0; more <= 1; more++) {
		struct fm_gpu_set *s = make_with("edf", 1, TICK / 10, false);

		add(s, periodic(10, more ? 13210 : 13190, 1000 * TICK));
		add(s, periodic(10, 900 * TICK, 1000 * TICK));
		expect_admitted(s, more, "task 0 \"task0\" may miss");
	}
}

/* What a decision is said to cost at most is no part of what a chunk has taken. */
static void what_is_charged_is_not_taken_off(void **state)
{
	struct fm_gpu_set *s = make_with("edf", 1, FM_GPU_DECISION_MAX, false);

	add(s, ticks(1));
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, 0, 1), 0);
	assert_int_equal(fm_gpu_set_drain(s, FM_FOREVER), 0);
	assert_true(stats_of(s, 0).device_ns >= TICK);
	fm_gpu_set_free(s);
}

static void the_later_deadline_is_told(void **state)
{
	struct fm_gpu_set *s = make_admitting("edf", 1, 0);
	struct fm_gpu_task b = periodic(8, 20 * TICK, 20 * TICK);

	add(s, periodic(8, 10 * TICK, 20 * TICK));
	b.name = "late";
	add(s, b);
	assert_int_equal(fm_gpu_set_start(s), -EDQUOT); /* 0.8 and 0.4 */
	expect_why(s, "\"late\"");
	fm_gpu_set_free(s);
}

static void a_task_without_a_deadline_counts_by_its_chunks(void **state)
{
	for (unsigned chunks = 1; chunks <= 10; chunks += 9) {
		struct fm_gpu_set *s = make_admitting("edf", 1, 0);
		struct fm_gpu_task learner = ticks(100);

		learner.n_chunks = chunks; /* of a hundred ticks, or of ten */
		add(s, periodic(10, 30 * TICK, 30 * TICK));
		add(s, learner);
		assert_int_equal(fm_gpu_set_start(s), chunks == 10 ? 0 : -EDQUOT);
		fm_gpu_set_free(s);
	}
}

/* Eight times 2^61 is nothing, in 64 bits. */
static void long_chunks_count_on_all_slots(void **state)
{
	struct fm_gpu_set *s = make_admitting("edf", 8, 0);
	struct fm_gpu_task endless = ticks(1);

	endless.wcet_ns = UINT64_C(1) << 61;
	for (unsigned i = 0; i < 8; i++)
		add(s, periodic(1, 10 * TICK, 10 * TICK));
	add(s, endless);
	expect_admitted(s, false, "task 0");
}

/* A job more than the period tells would take the time of others. */
static void what_was_admitted_is_not_released_otherwise(void **state)
{
	struct fm_gpu_set *s = make_admitting("edf", 1, 0);
	uint64_t *word;

	add(s, periodic(4, 10 * TICK, 10 * TICK));
	add(s, ticks(1));
	assert_int_equal(fm_gpu_set_start(s), 0);
	assert_int_equal(fm_gpu_release(s, 0, 1), -EINVAL);
	expect_why(s, "by its period alone");
	assert_int_equal(fm_gpu_release_word(s, 0, &word), -EINVAL);
	assert_int_equal(fm_gpu_release(s, 1, 1), 0);
	assert_int_equal(fm_gpu_release_word(s, 1, &word), 0);
	pass_ticks(s, 20);
	assert_int_equal(stats_of(s, 0).released, 3);
	fm_gpu_set_free(s);
}

static void what_is_not_known_is_not_admitted(void **state)
{
	struct fm_gpu_set *s = make_admitting("fifo", 1, 0);
	struct fm_gpu_task t = ticks(1);

	add(s, t);
	assert_int_equal(fm_gpu_set_start(s), -EOPNOTSUPP);
	fm_gpu_set_free(s);
	s = make_admitting("k-edf", 1, 0);
	t.deadline_ns = 5 * TICK;
	add(s, t); /* the host may release as often as it likes */
	assert_int_equal(fm_gpu_set_start(s), -EINVAL);
	expect_why(s, "by period alone");
	fm_gpu_set_free(s);
}

static const unsigned periods[] = {8, 10, 12, 15, 20, 24, 30, 40, 60, 120};

/* Random sets; what is admitted is run, with phases of all kinds, and so is what is refused. */
static void what_is_admitted_misses_nothing(void **state)
{
	unsigned admitted[2] = {0}, refused = 0, missed = 0;

	for (unsigned run = 0; run < 1500; run++) {
		unsigned slots, n;
		uint64_t decision, all;
		struct fm_gpu_set *s;
		int rc = 0;

		seed = run;
		slots = 1 + (unsigned)any(3);
		n = slots + 1 + (unsigned)any(MANY - slots);
		decision = any(2) ? any(TICK / 5) : 0;
		for (int admit = 1; admit >= 0; admit--) {
			struct fm_gpu_set_options o = {.size = sizeof(o),
				.policy = "edf",
				.slots = slots,
				.engine = "cpu",
				.resident = true,
				.virtual_time = true,
				.decision_ns = decision,
				.admit = admit};

			seed = 10000 + run;
			s = fm_gpu_set_new(&o, NULL);
			assert_non_null(s);
			for (unsigned i = 0; i < n; i++) {
				uint64_t period = periods[any(10)];
				unsigned length = 1 + (unsigned)any(period / 3);
				struct fm_gpu_task t = periodic(length, 0, period * TICK);

				t.n_chunks = 1 + (unsigned)any(length);
				t.phase_ns = any(2) ? any(period * TICK) : 0;
				t.deadline_ns =
					any(3) ? 0 : (length + any(period - length + 1)) * TICK;
				add(s, t);
			}
			if (admit) {
				rc = fm_gpu_set_start(s);
				assert_true(!rc || rc == -EDQUOT);
			} else {
				assert_int_equal(fm_gpu_set_start(s), 0);
				pass_ticks(s, 480);
				all = stats_of(s, FM_GPU_SET).missed;
				if (!rc && all)
					fail_msg("set %u was admitted, and %u missed", run,
						(unsigned)all);
				admitted[slots > 1] += !rc;
				refused += rc != 0;
				missed += rc && all;
			}
			fm_gpu_set_free(s);
		}
	}
	print_message("admitted %u and %u, refused %u, of which %u missed\n", admitted[0],
		admitted[1], refused, missed);
	assert_true(admitted[0] > 50 && admitted[1] > 50 && missed > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charges_are_those_by_hand),
		cmocka_unit_test(in_real_time_a_decision_may_be_under_way),
		cmocka_unit_test(what_is_charged_is_not_taken_off),
		cmocka_unit_test(the_later_deadline_is_told),
		cmocka_unit_test(a_task_without_a_deadline_counts_by_its_chunks),
		cmocka_unit_test(long_chunks_count_on_all_slots),
		cmocka_unit_test(what_was_admitted_is_not_released_otherwise),
		cmocka_unit_test(what_is_not_known_is_not_admitted),
		cmocka_unit_test(what_is_admitted_misses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
