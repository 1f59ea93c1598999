/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on a queue of Level Zero (api/ze/core) over a driver of a few functions: events
 * and lists are used in turn, and none before the device is past it. */
#include "api/ze/core/core.h"
#include "board/board.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct _ze_event_handle_t {
	_Atomic bool signalled, waits; /* waits: a tracker has not been reached */
	unsigned resets;
};

struct _ze_command_list_handle_t {
	ze_event_handle_t signal;
};

static struct {
	unsigned executed, signals, refused;
	bool refuses;    /* to execute */
	unsigned events; /* there is memory for so many; 0: for all */
	unsigned made;
	unsigned signal_fails;
	_Atomic unsigned live;
	_Atomic bool comes; /* trackers that are executed come at once */
} rt;

static ze_result_t list_create(ze_context_handle_t c, ze_device_handle_t d,
	const struct fm_ze_list_desc *desc, ze_command_list_handle_t *list)
{
	*list = calloc(1, sizeof(**list));
	rt.live++;
	return FM_ZE_SUCCESS;
}

static ze_result_t list_destroy(ze_command_list_handle_t list)
{
	free(list);
	rt.live--;
	return FM_ZE_SUCCESS;
}

static ze_result_t list_close(ze_command_list_handle_t list)
{
	return FM_ZE_SUCCESS;
}

static ze_result_t list_barrier(ze_command_list_handle_t list, ze_event_handle_t signal, uint32_t n,
	ze_event_handle_t *wait)
{
	assert_true(signal ? !n : n == 1);
	list->signal = signal;
	return FM_ZE_SUCCESS;
}

static ze_result_t queue_execute(ze_command_queue_handle_t q, uint32_t n,
	ze_command_list_handle_t *lists, ze_fence_handle_t fence)
{
	ze_event_handle_t e = lists[0]->signal;

	assert_int_equal(n, 1);
	if (rt.refuses)
		return 0x70000003;
	rt.executed++;
	if (!e)
		return FM_ZE_SUCCESS;
	assert_false(atomic_load(&e->waits));
	atomic_store(&e->waits, true);
	if (rt.comes) {
		atomic_store(&e->signalled, true);
		atomic_store(&e->waits, false);
	}
	return FM_ZE_SUCCESS;
}

static ze_result_t pool_create(ze_context_handle_t c, const struct fm_ze_pool_desc *desc,
	uint32_t n, ze_device_handle_t *devices, ze_event_pool_handle_t *pool)
{
	assert_int_equal(desc->count, FM_ZE_SLOTS);
	*pool = (ze_event_pool_handle_t)&rt;
	return FM_ZE_SUCCESS;
}

static ze_result_t pool_destroy(ze_event_pool_handle_t pool)
{
	return FM_ZE_SUCCESS;
}

static ze_result_t event_create(
	ze_event_pool_handle_t pool, const struct fm_ze_event_desc *desc, ze_event_handle_t *event)
{
	if (rt.events && rt.made >= rt.events)
		return 0x70000003;
	rt.made++;
	*event = calloc(1, sizeof(**event));
	rt.live++;
	return FM_ZE_SUCCESS;
}

static ze_result_t event_destroy(ze_event_handle_t event)
{
	free(event);
	rt.live--;
	return FM_ZE_SUCCESS;
}

static ze_result_t event_signal(ze_event_handle_t event)
{
	if (rt.signal_fails) {
		rt.signal_fails--;
		rt.refused++;
		return 0x70000003;
	}
	rt.signals++;
	atomic_store(&event->signalled, true);
	return FM_ZE_SUCCESS;
}

static ze_result_t event_reset(ze_event_handle_t event)
{
	assert_false(atomic_load(&event->waits));
	atomic_store(&event->signalled, false);
	event->resets++;
	return FM_ZE_SUCCESS;
}

static ze_result_t event_query(ze_event_handle_t event)
{
	return atomic_load(&event->signalled) ? FM_ZE_SUCCESS : FM_ZE_NOT_READY;
}

static ze_result_t event_wait(ze_event_handle_t event, uint64_t timeout)
{
	return event_query(event);
}

static ze_result_t queue_wait(ze_command_queue_handle_t queue, uint64_t timeout)
{
	return rt.comes || !timeout ? FM_ZE_SUCCESS : FM_ZE_NOT_READY;
}

static const struct fm_ze_driver driver = {.list_create = list_create,
	.list_destroy = list_destroy,
	.list_close = list_close,
	.list_barrier = list_barrier,
	.queue_execute = queue_execute,
	.pool_create = pool_create,
	.pool_destroy = pool_destroy,
	.event_create = event_create,
	.event_destroy = event_destroy,
	.event_signal = event_signal,
	.event_reset = event_reset,
	.event_query = event_query,
	.event_wait = event_wait,
	.queue_wait = queue_wait};

static struct fm_ze_hwq *q;
static const struct fm_hw_ops *ops;
static _Atomic unsigned told;
static _Atomic bool freed;

static void free_queue(struct fm_ze_hwq *hw)
{
	free(hw);
	atomic_store(&freed, true);
}

static void reached(void *cookie, uint64_t now)
{
	atomic_fetch_add(&told, 1);
}

static int set_up(void **state)
{
	const struct fm_ze_made made = {.desc = {.mode = FM_ZE_MODE_ASYNCHRONOUS}};

	memset(&rt, 0, sizeof(rt));
	atomic_store(&told, 0);
	atomic_store(&freed, false);
	q = calloc(1, sizeof(*q));
	fm_ze_hwq_init(q, &driver, &made, &rt, free_queue);
	ops = fm_ze_ops(q);
	return 0;
}

static void until(_Atomic unsigned *n, unsigned is)
{
	while (atomic_load(n) != is)
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void end(void)
{
	rt.comes = true;
	fm_ze_end(q);
	ops->release(q, false);
	while (!atomic_load(&freed))
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	assert_int_equal(rt.live, 0);
}

/* The device comes to all trackers. */
static void come(void)
{
	for (size_t i = 0; i < FM_ZE_SLOTS; i++) {
		ze_event_handle_t e = q->slot[i].event;

		if (e && atomic_exchange(&e->waits, false))
			atomic_store(&e->signalled, true);
	}
}

static void test_in_turn(void **state)
{
	void *gate[FM_ZE_SLOTS], *one;
	unsigned n = 0;

	while (n < FM_ZE_SLOTS && !ops->host_gate.deactivate(q, &gate[n]))
		n++;
	assert_int_equal(n, FM_ZE_SLOTS - FM_ZE_TRACKERS - 1);
	assert_int_equal(ops->host_gate.deactivate(q, &one), -EBUSY);
	for (unsigned i = 0; i < FM_ZE_TRACKERS; i++)
		assert_int_equal(ops->track(q, reached, NULL), 0);
	assert_int_equal(ops->track(q, reached, NULL), -EBUSY);
	/* Gates that are open have not been passed yet. */
	for (unsigned i = n; i--;)
		ops->host_gate.reactivate(q, gate[i]);
	assert_int_equal(rt.signals, n);
	assert_int_equal(ops->host_gate.deactivate(q, &one), -EBUSY);
	assert_int_equal(rt.executed, FM_ZE_SLOTS - 1);
	come();
	until(&told, FM_ZE_TRACKERS);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(ops->host_gate.deactivate(q, &gate[i]), 0);
	assert_true(fm_ze_is_behind(q, (uintptr_t)gate[0]));
	assert_false(fm_ze_is_behind(q, (uintptr_t)gate[0] - 1));
	ops->host_gate.reactivate(q, gate[0]);
	assert_false(fm_ze_is_behind(q, (uintptr_t)gate[0]));
	assert_true(fm_ze_is_behind(q, (uintptr_t)gate[1]));
	end();
}

/* What fails has put nothing there, and the next one finds its place. */
static void test_failures(void **state)
{
	void *gate;

	rt.made = rt.events = 1;
	assert_int_equal(ops->host_gate.deactivate(q, &gate), -ENOMEM);
	assert_int_equal(ops->track(q, reached, NULL), -ENOMEM);
	rt.events = 0;
	rt.refuses = true;
	assert_int_equal(ops->host_gate.deactivate(q, &gate), -EIO);
	assert_int_equal(ops->track(q, reached, NULL), -EIO);
	assert_int_equal(q->closed, 0);
	assert_int_equal(q->placed, 0);
	rt.refuses = false;
	assert_int_equal(ops->host_gate.deactivate(q, &gate), 0);
	rt.signal_fails = 3;
	ops->host_gate.reactivate(q, gate);
	assert_int_equal(rt.refused, 3);
	assert_int_equal(rt.signals, 1);
	assert_int_equal(q->closed, 0);
	assert_int_equal(atomic_load(&told), 0);
	end();
}

/* Where there is memory for few events, these are used again when the device is past all. */
static void test_few(void **state)
{
	void *gate;

	rt.events = 2;
	for (unsigned i = 1; i <= 5; i++) {
		assert_int_equal(ops->host_gate.deactivate(q, &gate), 0);
		ops->host_gate.reactivate(q, gate);
		assert_int_equal(ops->track(q, reached, NULL), 0);
		assert_int_equal(ops->host_gate.deactivate(q, &gate), -ENOMEM);
		assert_int_equal(ops->track(q, reached, NULL), -ENOMEM);
		come();
		until(&told, i);
	}
	assert_int_equal(rt.made, 2);
	end();
}

/* The end opens what is closed; afterwards nothing is put there, and gates that are opened once
 * more are not. What does not come to its end is left as it is. */
static void test_ends(void **state)
{
	void *gate;

	assert_int_equal(ops->host_gate.deactivate(q, &gate), 0);
	rt.comes = true;
	fm_ze_end(q);
	assert_int_equal(rt.signals, 1);
	assert_int_equal(rt.executed, 1);
	ops->host_gate.reactivate(q, gate);
	assert_int_equal(rt.signals, 1);
	assert_int_equal(ops->track(q, reached, NULL), -EPERM);
	assert_int_equal(ops->host_gate.deactivate(q, &gate), -EPERM);
	assert_false(q->stuck);
	end();
}

static void test_stays(void **state)
{
	void *gate;

	assert_int_equal(ops->track(q, reached, NULL), 0);
	assert_int_equal(ops->host_gate.deactivate(q, &gate), 0);
	fm_ze_end(q);
	assert_true(q->stuck);
	until(&told, 1);
	rt.live = 0;
	for (size_t i = 0; i < FM_ZE_SLOTS; i++) { /* for a tool that looks for leaks */
		free(q->slot[i].event);
		free(q->slot[i].list[0]);
		free(q->slot[i].list[1]);
	}
	ops->release(q, false);
	while (!atomic_load(&freed))
		;
	assert_int_equal(rt.live, 0);
}

static void test_lost(void **state)
{
	assert_int_equal(ops->track(q, reached, NULL), 0);
	assert_false(ops->lost(q));
	atomic_store(&q->lost, true);
	fm_watch_stir(&q->watch);
	until(&told, 1);
	assert_true(ops->lost(q));
	assert_int_equal(ops->track(q, reached, NULL), 0);
	assert_int_equal(atomic_load(&told), 2);
	atomic_store(&q->lost, false);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_in_turn, set_up),
		cmocka_unit_test_setup(test_failures, set_up),
		cmocka_unit_test_setup(test_few, set_up),
		cmocka_unit_test_setup(test_ends, set_up),
		cmocka_unit_test_setup(test_stays, set_up),
		cmocka_unit_test_setup(test_lost, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
