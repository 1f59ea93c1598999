// SPDX-License-Identifier: Apache-2.0
/*
 * Local mode: groups of one process under each policy, with nothing but the library. The device is
 * in virtual time, driven by a ticker that can stand still; what is waited for is a decision or a
 * result.
 */
#include "base/util.h"
#include "local/local.h"
#include "own_process.h"
#include <errno.h>
#include <fermata/fermata.h>
#include <pthread.h>
#include <string.h>

#define LONG       (30 * FM_S)
#define COMMAND_NS (100 * FM_US)

static struct {
	fm_sim_device *dev;
	pthread_t ticker;
	_Atomic bool stop, pause;
} w;

/* One group with one queue. */
struct party {
	fm_group *group;
	fm_xqueue *q;
	_Atomic unsigned n;
	_Atomic unsigned stands_at; /* the device stands still when so many are done */
	_Atomic bool enough;
	pthread_t feeder;
};

static void *tick(void *arg)
{
	while (!w.stop) {
		if (!w.pause)
			fm_sim_advance(w.dev, COMMAND_NS);
		usleep(50);
	}
	return NULL;
}

static void start(const char *policy, unsigned max_level)
{
	const struct fm_options options = {.local_policy = policy};
	const struct fm_sim_options o = {
		.size = sizeof(o), .virtual_time = true, .max_level = max_level};

	assert_int_equal(fm_init(&options), 0);
	assert_true(fm_scheduled());
	assert_int_equal(fm_sim_device_create(&w.dev, "sim", &o), 0);
	assert_int_equal(pthread_create(&w.ticker, NULL, tick, NULL), 0);
}

static void stop(void)
{
	w.stop = true;
	pthread_join(w.ticker, NULL);
	fm_sim_device_destroy(w.dev);
}

static void join_party(struct party *p, const char *name, enum fm_hint h, int64_t value)
{
	struct fm_xqueue_options o = {.size = sizeof(o)};
	fm_hwqueue *hwq;

	memset(p, 0, sizeof(*p));
	assert_int_equal(fm_group_create(&p->group, name), 0);
	assert_int_equal(fm_group_hint(p->group, h, value), 0);
	o.group = p->group;
	assert_int_equal(fm_sim_hwqueue_create(&hwq, w.dev), 0);
	assert_int_equal(fm_xqueue_create(&p->q, hwq, &o), 0);
}

static void done(void *arg)
{
	struct party *p = arg;

	if (p->n + 1 == p->stands_at)
		w.pause = true;
	p->n++;
}

static int submit(struct party *p, uint64_t *seq)
{
	const struct fm_command c = {.device_ns = COMMAND_NS, .done = done, .arg = p};

	return fm_xqueue_submit(p->q, &c, seq);
}

/* Keeps at most 100 commands under way, until told that it is enough. */
static void *feed(void *arg)
{
	struct party *p = arg;
	uint64_t seq[100] = {0};

	for (unsigned i = 0; !p->enough; i++) {
		if (i >= 100)
			assert_int_equal(fm_xqueue_wait(p->q, seq[i % 100], LONG), 0);
		assert_int_equal(submit(p, &seq[i % 100]), 0);
	}
	return NULL;
}

static void start_feeding(struct party *p)
{
	p->enough = false;
	assert_int_equal(pthread_create(&p->feeder, NULL, feed, p), 0);
}

static void stop_feeding(struct party *p)
{
	p->enough = true;
	pthread_join(p->feeder, NULL);
}

static void leave_party(struct party *p)
{
	assert_int_equal(fm_xqueue_destroy(p->q), 0);
}

static bool scheduled(struct party *p)
{
	struct fm_xqueue_info i = {.size = sizeof(i)};

	assert_int_equal(fm_xqueue_query(p->q, &i), 0);
	return i.scheduled;
}

static bool at_rest(struct party *p)
{
	struct fm_xqueue_info i = {.size = sizeof(i)};

	assert_int_equal(fm_xqueue_query(p->q, &i), 0);
	return i.stalled;
}

static void test_check(void **state)
{
	struct fm_err err = {0};

	assert_int_equal(fm_local_check("fixed-priority", NULL), 0);
	assert_int_equal(fm_local_check("  fair ", NULL), 0);
	assert_int_equal(fm_local_check("round-robin slice=2", NULL), 0);
	assert_true(fm_local_check("round-robin slice=x", &err) < 0);
	assert_true(err.text[0]);
	assert_true(fm_local_check("round-robin", &err) == 0);
	assert_int_equal(fm_local_check("", &err), -EINVAL);
	assert_true(err.text[0]);
	assert_true(fm_local_check("royal", NULL) < 0);
	assert_int_equal(
		fm_local_check("fair a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9 j=10", NULL), -EINVAL);
}

static void priority_wins(unsigned level)
{
	struct party low, high;
	unsigned before;
	uint64_t seq;

	start("fixed-priority", level);
	join_party(&low, "low", FM_HINT_PRIORITY, FM_PRIORITY_LOW);
	join_party(&high, "high", FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	start_feeding(&low);
	eventually(low.n >= 100);
	for (unsigned round = 0; round < 3; round++) {
		/* The device stands still while the decision is made, however long that takes. Four
		 * commands fit into the window of level 1. */
		w.pause = true;
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(submit(&high, &seq), 0);
		eventually(!scheduled(&low) && scheduled(&high));
		before = low.n;
		high.stands_at = 4 * (round + 1);
		w.pause = false;
		eventually(high.n == 4 * (round + 1));
		/* What was past its gates ran on, the rest of the 100 under way did not. */
		assert_true(low.n - before < 80);
		w.pause = false;
		assert_int_equal(fm_xqueue_wait(high.q, seq, LONG), 0);
		before = low.n;
		eventually(low.n > before + 100); /* it has the device again */
	}
	stop_feeding(&low);
	leave_party(&low);
	leave_party(&high);
	stop();
}

static void test_priority_wins_level_1(void **state)
{
	priority_wins(1);
}

static void test_priority_wins_level_2(void **state)
{
	priority_wins(2);
}

static void test_priority_wins_level_3(void **state)
{
	priority_wins(3);
}

static void test_hints_take_effect(void **state)
{
	struct party a, b;

	start("fixed-priority", 2);
	join_party(&a, "a", FM_HINT_PRIORITY, 1);
	join_party(&b, "b", FM_HINT_PRIORITY, 2);
	start_feeding(&a);
	start_feeding(&b);
	for (int round = 0; round < 3; round++) {
		eventually(!scheduled(&a) && scheduled(&b));
		assert_int_equal(fm_group_hint(a.group, FM_HINT_PRIORITY, 3), 0);
		eventually(scheduled(&a) && !scheduled(&b) && at_rest(&b));
		assert_int_equal(fm_group_hint(a.group, FM_HINT_PRIORITY, 1), 0);
	}
	stop_feeding(&b);
	stop_feeding(&a);
	leave_party(&a);
	leave_party(&b);
	stop();
}

/* A segment holds the device between its commands, too. */
static void test_segments(void **state)
{
	struct party batch, task;

	start("fixed-priority", 2);
	join_party(&batch, "batch", FM_HINT_PRIORITY, FM_PRIORITY_NORMAL);
	join_party(&task, "task", FM_HINT_PRIORITY, FM_PRIORITY_LOW);
	start_feeding(&batch);
	for (unsigned round = 1; round <= 3; round++) {
		eventually(scheduled(&batch) && batch.n >= 50 * round);
		assert_int_equal(fm_segment_begin(task.group, FM_PRIORITY_REALTIME), 0);
		eventually(!scheduled(&batch) && at_rest(&batch));
		assert_int_equal(submit(&task, NULL), 0);
		assert_int_equal(fm_xqueue_wait_all(task.q, LONG), 0);
		assert_int_equal(task.n, round);
		assert_false(scheduled(&batch));
		assert_int_equal(fm_segment_end(task.group), 0);
	}
	eventually(scheduled(&batch));
	stop_feeding(&batch);
	leave_party(&batch);
	leave_party(&task);
	stop();
}

static void takes_turns(const char *policy)
{
	struct party a, b;
	unsigned n;

	start(policy, 2);
	join_party(&a, "a", FM_HINT_WEIGHT, 1);
	join_party(&b, "b", FM_HINT_WEIGHT, 1);
	start_feeding(&a);
	start_feeding(&b);
	for (unsigned round = 0; round < 3; round++) {
		n = a.n;
		eventually(scheduled(&a) && !scheduled(&b));
		eventually(a.n > n);
		n = b.n;
		eventually(scheduled(&b) && !scheduled(&a));
		eventually(b.n > n);
	}
	stop_feeding(&a);
	stop_feeding(&b);
	leave_party(&a);
	leave_party(&b);
	stop();
}

static void test_round_robin_takes_turns(void **state)
{
	takes_turns("round-robin");
}

static void test_fair_takes_turns(void **state)
{
	takes_turns("fair");
}

static void test_fair_heeds_weights(void **state)
{
	struct party heavy, light;

	start("fair", 2);
	join_party(&heavy, "heavy", FM_HINT_WEIGHT, 900);
	join_party(&light, "light", FM_HINT_WEIGHT, 100);
	start_feeding(&heavy);
	start_feeding(&light);
	/* What one got too much of, since the other's thread came late, is made up for in the long
	 * run. */
	eventually(light.n >= 300 && heavy.n > 2 * light.n);
	stop_feeding(&heavy);
	stop_feeding(&light);
	leave_party(&heavy);
	leave_party(&light);
	stop();
}

static void test_everybody_gets_everything_done(void **state)
{
	struct party p[8];
	char name[16];

	start("round-robin slice=1", 0);
	for (unsigned i = 0; i < FM_ARRAY_LEN(p); i++) {
		snprintf(name, sizeof(name), "party-%u", i);
		join_party(&p[i], name, FM_HINT_PRIORITY, i);
	}
	for (unsigned round = 1; round <= 2; round++) {
		for (unsigned i = 0; i < FM_ARRAY_LEN(p); i++)
			for (unsigned n = 0; n < 50; n++)
				assert_int_equal(submit(&p[i], NULL), 0);
		for (unsigned i = 0; i < FM_ARRAY_LEN(p); i++) {
			assert_int_equal(fm_xqueue_wait_all(p[i].q, LONG), 0);
			assert_int_equal(p[i].n, 50 * round);
		}
	}
	for (unsigned i = 0; i < FM_ARRAY_LEN(p); i++)
		leave_party(&p[i]);
	stop();
}

static void test_one_stops_itself_the_other_runs_on(void **state)
{
	struct party a, b;
	unsigned n;

	start("fixed-priority", 2);
	join_party(&a, "a", FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	join_party(&b, "b", FM_HINT_PRIORITY, FM_PRIORITY_LOW);
	start_feeding(&a);
	eventually(a.n >= 50);
	assert_int_equal(fm_xqueue_suspend(a.q, true, LONG), 0);
	n = a.n;
	assert_int_equal(fm_xqueue_resume(a.q), 0);
	eventually(a.n > n);
	stop_feeding(&a);
	leave_party(&a);
	assert_int_equal(submit(&b, NULL), 0);
	assert_int_equal(fm_xqueue_wait_all(b.q, LONG), 0);
	leave_party(&b);
	stop();
}

static void test_queues_come_and_go(void **state)
{
	struct party p, busy;

	start("fixed-priority", 0);
	join_party(&busy, "busy", FM_HINT_PRIORITY, FM_PRIORITY_LOW);
	join_party(&p, "p", FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	leave_party(&p);
	start_feeding(&busy);
	for (unsigned i = 0; i < 100; i++) {
		const struct fm_xqueue_options o = {.size = sizeof(o), .group = p.group};
		fm_hwqueue *hwq;

		assert_int_equal(fm_sim_hwqueue_create(&hwq, w.dev), 0);
		assert_int_equal(fm_xqueue_create(&p.q, hwq, &o), 0);
		if (i % 3)
			assert_int_equal(submit(&p, NULL), 0);
		assert_int_equal(fm_xqueue_destroy(p.q), 0);
	}
	assert_int_equal(p.n, 66);
	stop_feeding(&busy);
	leave_party(&busy);
	stop();
}

static void *submit_some(void *arg)
{
	struct party *p = arg;
	uint64_t seq;

	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(submit(p, &seq), 0);
	assert_int_equal(fm_xqueue_wait(p->q, seq, LONG), 0);
	return NULL;
}

static void test_threads_on_one_queue(void **state)
{
	struct party p, other;
	pthread_t thread[4];

	start("round-robin slice=1", 0);
	join_party(&p, "p", FM_HINT_PRIORITY, 0);
	join_party(&other, "other", FM_HINT_PRIORITY, 0);
	start_feeding(&other);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, submit_some, &p), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(p.n, 400);
	stop_feeding(&other);
	leave_party(&p);
	leave_party(&other);
	stop();
}

#ifndef NO_THREADS_AFTER_FORK
static int child(void *arg)
{
	const struct fm_command c = {.device_ns = FM_US};
	fm_sim_device *dev;
	fm_hwqueue *h;
	fm_xqueue *q;

	if (!fm_scheduled()) /* by a scheduler of its own, with the policy of the parent's fm_init()
			      */
		return 1;
	if (fm_sim_device_create(&dev, "sim", NULL) || fm_sim_hwqueue_create(&h, dev) ||
		fm_xqueue_create(&q, h, NULL))
		return 2;
	for (unsigned i = 0; i < 100; i++)
		if (fm_xqueue_submit(q, &c, NULL))
			return 3;
	return fm_xqueue_destroy(q) ? 4 : 0;
}

static void test_fork_in_the_middle(void **state)
{
	struct party a, b;
	unsigned n;

	start("round-robin slice=1", 2);
	join_party(&a, "a", FM_HINT_PRIORITY, 0);
	join_party(&b, "b", FM_HINT_PRIORITY, 0);
	start_feeding(&a);
	start_feeding(&b);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(in_child(child, NULL), 0);
		n = a.n;
		eventually(a.n > n);
		n = b.n;
		eventually(b.n > n);
	}
	stop_feeding(&a);
	stop_feeding(&b);
	leave_party(&a);
	leave_party(&b);
	stop();
}
#endif

/* A policy of the environment that there is not: the program runs, unscheduled. */
static void test_environment(void **state)
{
	const struct fm_command c = {.device_ns = FM_US};
	fm_sim_device *dev;
	fm_hwqueue *h;
	fm_xqueue *q;

	setenv("FERMATA_LOCAL", "royal", 1);
	assert_false(fm_scheduled());
	assert_int_equal(fm_sim_device_create(&dev, "sim", NULL), 0);
	assert_int_equal(fm_sim_hwqueue_create(&h, dev), 0);
	assert_int_equal(fm_xqueue_create(&q, h, NULL), 0);
	assert_int_equal(fm_xqueue_submit(q, &c, NULL), 0);
	assert_int_equal(fm_xqueue_destroy(q), 0);
	fm_sim_device_destroy(dev);
}

static void test_environment_chooses_policy(void **state)
{
	setenv("FERMATA_LOCAL", "fair", 1);
	assert_true(fm_scheduled());
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_check),
	cmocka_unit_test(test_priority_wins_level_1),
	cmocka_unit_test(test_priority_wins_level_2),
	cmocka_unit_test(test_priority_wins_level_3),
	cmocka_unit_test(test_hints_take_effect),
	cmocka_unit_test(test_segments),
	cmocka_unit_test(test_round_robin_takes_turns),
	cmocka_unit_test(test_fair_takes_turns),
	cmocka_unit_test(test_fair_heeds_weights),
	cmocka_unit_test(test_everybody_gets_everything_done),
	cmocka_unit_test(test_one_stops_itself_the_other_runs_on),
	cmocka_unit_test(test_queues_come_and_go),
	cmocka_unit_test(test_threads_on_one_queue),
#ifndef NO_THREADS_AFTER_FORK
	cmocka_unit_test(test_fork_in_the_middle),
#endif
	cmocka_unit_test(test_environment),
	cmocka_unit_test(test_environment_chooses_policy),
};

int main(int argc, char **argv)
{
	setenv("FERMATA_SOCKET", "/nowhere", 1);
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
