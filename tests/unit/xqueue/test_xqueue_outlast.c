/* SPDX-License-Identifier: Apache-2.0 */
/* Who needs that a queue has nothing under way any more that could be stopped in its middle waits
 * for that; where nobody would ever say so it is left alone for good, before the wait is over. */
#include "xqueue_world.h"

static _Atomic bool pends;
static _Atomic unsigned left_alone;

static bool is_pending(void *hwq)
{
	return pends;
}

static void let_be(void *arg)
{
	left_alone++;
}

static struct fm_xq *queue_with_work(void)
{
	struct fm_xq *q;

	start_device(WORDS);
	q = new_queue(false, 0);
	fm_xq_keep(q);
	pends = true;
	pause_device();
	for (unsigned i = 0; i < 3; i++)
		launch(q, i);
	return q;
}

static void outlast(struct fm_xq *q, uint64_t most)
{
	fm_xq_outlast(q, &(struct fm_xq_outlast){most, is_pending, let_be, NULL});
	fm_xq_unref(q);
	w.pause = false;
	stop_device();
}

static void *ends(void *arg)
{
	usleep(20000);
	pends = false;
	return NULL;
}

static void test_it_ends(void **state)
{
	struct fm_xq *q = queue_with_work();
	pthread_t thread;

	pthread_create(&thread, NULL, ends, NULL);
	outlast(q, FM_NEVER);
	assert_false(pends);
	assert_int_equal(left_alone, 0);
	pthread_join(thread, NULL);
}

static void test_it_does_not_end(void **state)
{
	outlast(queue_with_work(), 20 * FM_MS);
	assert_int_equal(left_alone, 1);
}

static void test_gone_behind_its_end(void **state)
{
	struct fm_xq *q = queue_with_work();

	w.pause = false;
	wait_all(q);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	outlast(q, FM_NEVER);
	assert_int_equal(left_alone, 0);
}

/* Its stream was destroyed, and does not move. */
static void test_gone_before_its_end(void **state)
{
	struct fm_xq *q = queue_with_work();

	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	outlast(q, FM_NEVER);
	assert_int_equal(left_alone, 1);
}

static _Atomic unsigned asked;
static _Atomic bool is_over, returned;

static bool over(void *hwq)
{
	asked++;
	return is_over;
}

static void *await_over(void *arg)
{
	fm_xq_await_over(arg, FM_MS, over);
	returned = true;
	return NULL;
}

/* Whoever waits for the device's other work is held by the queue's gate for as long as that takes.
 */
static void test_time_at_a_gate_does_not_count(void **state)
{
	struct fm_xq *q;
	pthread_t thread;
	uint64_t until;

	start_device(WORDS);
	q = new_queue(false, 0);
	atomic_store(&peer.board->contended, 1);
	set_gate(q, FM_GATE_CLOSED);
	launch(q, 0);
	eventually(fm_slot_waits(q->slot));
	pthread_create(&thread, NULL, await_over, q);
	eventually(asked > 1);
	until = fm_now() + 5 * FM_MS;
	eventually(fm_now() > until);
	assert_false(returned);
	set_gate(q, FM_GATE_OPEN);
	pthread_join(thread, NULL);
	assert_true(returned);
	assert_false(is_over);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* Such a gate opens for work alone. */
static void test_without_work_it_counts(void **state)
{
	struct fm_xq *q;

	start_device(2);
	q = new_queue(false, 0);
	set_gate(q, FM_GATE_CLOSED);
	await_over(q);
	assert_true(asked > 1);
	asked = 0;
	is_over = true;
	await_over(q);
	assert_int_equal(asked, 1);
	set_gate(q, FM_GATE_OPEN);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_time_at_a_gate_does_not_count),
	cmocka_unit_test(test_without_work_it_counts),
	cmocka_unit_test(test_it_ends),
	cmocka_unit_test(test_it_does_not_end),
	cmocka_unit_test(test_gone_behind_its_end),
	cmocka_unit_test(test_gone_before_its_end),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
