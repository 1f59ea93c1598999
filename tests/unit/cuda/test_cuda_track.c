/* SPDX-License-Identifier: Apache-2.0 */
/* Trackers of level 1: events of a driver that this test is, and how few of them are asked for. */
#include "api/cuda/core/internal.h"
#include "base/clock.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { EVENTS = FM_CU_TRACKS + 1 };

/* Events are numbered from 1 as they are made. The device has got past so many records. */
static struct {
	unsigned made, records, passed, asked;
	unsigned record[EVENTS + 1]; /* of an event, the last */
	unsigned broken;             /* cannot be asked for */
	bool refuses;
} dev;

static fm_cu_result current(CUcontext *ctx)
{
	*ctx = (CUcontext)8;
	return FM_CU_SUCCESS;
}

static fm_cu_result create(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = (CUevent)(uintptr_t)++dev.made;
	return FM_CU_SUCCESS;
}

static fm_cu_result record(CUevent event, CUstream stream)
{
	(void)stream;
	dev.record[(uintptr_t)event] = ++dev.records;
	return dev.refuses ? FM_CU_ERROR_INVALID_VALUE : FM_CU_SUCCESS;
}

static fm_cu_result query(CUevent event)
{
	dev.asked++;
	if ((uintptr_t)event == dev.broken)
		return FM_CU_ERROR_INVALID_VALUE;
	return dev.record[(uintptr_t)event] <= dev.passed ? FM_CU_SUCCESS : FM_CU_ERROR_NOT_READY;
}

/* A record is a millisecond behind the one before. */
static fm_cu_result elapsed(float *ms, CUevent start, CUevent end)
{
	*ms = (float)(dev.record[(uintptr_t)end] - dev.record[(uintptr_t)start]);
	return FM_CU_SUCCESS;
}

static fm_cu_result destroy(CUevent event)
{
	(void)event;
	return FM_CU_SUCCESS;
}

static const struct fm_cu_driver driver = {
	.ctx_get_current = current,
	.event_create = create,
	.event_record = record,
	.event_query = query,
	.event_elapsed = elapsed,
	.event_destroy = destroy,
};

static unsigned reached; /* so many were, in order */
static uint64_t reached_at[1000];

static void note(void *cookie, uint64_t at)
{
	assert_int_equal((uintptr_t)cookie, reached);
	reached_at[reached++] = at;
}

static int begin(void **state)
{
	static struct fm_cu_queue q;

	q = (struct fm_cu_queue){.cu = &driver, .ctx = (CUcontext)8};
	memset(&dev, 0, sizeof(dev));
	reached = 0;
	*state = &q;
	return 0;
}

static void put(struct fm_cu_queue *q, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(fm_cu_track(q, note, (void *)(uintptr_t)dev.records), 0);
}

static unsigned asks(struct fm_cu_queue *q)
{
	unsigned before = dev.asked;

	fm_cu_reap(q);
	return dev.asked - before;
}

static void test_few_are_asked_for(void **state)
{
	struct fm_cu_queue *q = *state;

	assert_int_equal(asks(q), 0);
	put(q, 5);
	assert_int_equal(asks(q), 1); /* none has come */
	assert_int_equal(reached, 0);
	dev.passed = 4; /* the last has not, as it is when it has just been put there */
	assert_int_equal(asks(q), 3);
	assert_int_equal(reached, 4);
	dev.passed = 5;
	assert_int_equal(asks(q), 1);
	put(q, 6);
	dev.passed = 11;
	assert_int_equal(asks(q), 2); /* all have */
	assert_int_equal(reached, 11);
}

/* The last one just now, and the others as much earlier as the device says. */
static void test_times_are_the_devices(void **state)
{
	struct fm_cu_queue *q = *state;
	uint64_t now = fm_now();

	put(q, 6);
	dev.passed = 5;
	fm_cu_reap(q);
	assert_int_equal(reached, 5);
	assert_in_range(reached_at[4], now, fm_now());
	for (unsigned i = 1; i < 5; i++)
		assert_int_equal(reached_at[i] - reached_at[i - 1], FM_MS);
}

/* Whoever is asked late has come so long after the one before as the device says; but not before he
 * was put there. */
static void test_asked_late(void **state)
{
	struct fm_cu_queue *q = *state;
	uint64_t before, behind;

	put(q, 4);
	dev.passed = 1;
	fm_cu_reap(q);
	dev.passed = 4;
	usleep(10000);
	fm_cu_reap(q);
	assert_int_equal(reached, 4);
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(reached_at[i] - reached_at[i - 1], FM_MS);
	before = fm_now();
	put(q, 1);
	behind = fm_now();
	dev.passed = 5;
	usleep(1000);
	fm_cu_reap(q);
	assert_in_range(reached_at[4], before, behind);
}

static void test_whoever_has_come_is_told_once(void **state)
{
	struct fm_cu_queue *q = *state;
	uint64_t seed = 1;

	while (dev.records < 900) {
		unsigned under_way = dev.records - reached;

		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		put(q, (unsigned)(seed >> 33) % (FM_CU_TRACKS - under_way + 1));
		dev.passed += (unsigned)(seed >> 43) % (dev.records - dev.passed + 1);
		fm_cu_reap(q);
		assert_int_equal(reached, dev.passed);
	}
	assert_int_equal(dev.made, EVENTS);
}

static void test_cannot_be_asked_for(void **state)
{
	struct fm_cu_queue *q = *state;

	put(q, 4);
	dev.broken = 2;
	fm_cu_reap(q);
	assert_int_equal(reached, 0);
	dev.passed = 1;
	fm_cu_reap(q);
	assert_int_equal(reached, 2);
	dev.broken = 3;
	fm_cu_reap(q);
	assert_int_equal(reached, 3);
}

static void test_no_more_than_there_is_room_for(void **state)
{
	struct fm_cu_queue *q = *state;

	put(q, FM_CU_TRACKS);
	assert_int_equal(fm_cu_track(q, note, NULL), -ENOBUFS);
	dev.passed = 1;
	fm_cu_reap(q);
	dev.refuses = true;
	assert_int_equal(fm_cu_track(q, note, NULL), -EIO);
	dev.refuses = false;
	fm_cu_track_close(q);
	assert_int_equal(reached, FM_CU_TRACKS);
	assert_int_equal(asks(q), 0);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_few_are_asked_for, begin),
		cmocka_unit_test_setup(test_times_are_the_devices, begin),
		cmocka_unit_test_setup(test_asked_late, begin),
		cmocka_unit_test_setup(test_whoever_has_come_is_told_once, begin),
		cmocka_unit_test_setup(test_cannot_be_asked_for, begin),
		cmocka_unit_test_setup(test_no_more_than_there_is_room_for, begin),
	};

	(void)argc;
	(void)argv;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
