/* SPDX-License-Identifier: Apache-2.0 */
/* What the CUDA shim notes of recorded events, also by threads that write one entry at one time. */
#include "api/cuda/shim/events.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct fm_cuda_queue queue[2] = {
	{.key = 0x7f0012345600, .generation = 1}, {.key = 0x7f0012345700, .generation = 2}};

/* An event that has the entry of number n. */
static CUevent event_at(size_t n, uintptr_t from)
{
	for (uintptr_t e = from; e; e += 16)
		if (fm_cuda_event_at((CUevent)e) == &fm_cuda_events[n])
			return (CUevent)e;
	return NULL;
}

static void record(CUevent event, const struct fm_cuda_queue *q, uint64_t mark, uint64_t all)
{
	fm_cuda_event_set(fm_cuda_event_forget(event), event, q, mark, all);
}

static void known_until_recorded_again(void **state)
{
	CUevent a = event_at(7, 0x1000), b = event_at(7, (uintptr_t)a + 16);
	struct fm_cuda_mark m;

	assert_false(fm_cuda_event_get(a, &m));
	assert_false(fm_cuda_event_get(NULL, &m));
	record(a, &queue[0], 3, 5);
	assert_true(fm_cuda_event_get(a, &m));
	assert_int_equal(m.key, queue[0].key);
	assert_int_equal(m.generation, 1);
	assert_int_equal(m.mark, 3);
	assert_int_equal(m.all, 5);
	fm_cuda_event_forget(b); /* another's */
	assert_true(fm_cuda_event_get(a, &m));
	record(b, &queue[1], 4, 4);
	assert_false(fm_cuda_event_get(a, &m));
	assert_true(fm_cuda_event_get(b, &m));
	assert_int_equal(m.generation, 2);
	fm_cuda_event_forget(b);
	assert_false(fm_cuda_event_get(b, &m));
	record(b, &queue[1], 4, 4);
	fm_cuda_events_clear();
	assert_false(fm_cuda_event_get(b, &m));
}

/* Each mixture of what two writers wrote, but for the wholes, and those that say the same: nobody
 * takes it for anything. */
static void mixtures_say_nothing(void **state)
{
	CUevent a = event_at(9, 0x1000);
	_Atomic uint64_t words[2][4], *at[4];
	struct fm_cuda_event *e;
	struct fm_cuda_mark m;

	for (int i = 0; i < 2; i++) {
		record(a, &queue[i], 10 + 7 * (uint64_t)i, 20 + 13 * (uint64_t)i);
		e = fm_cuda_event_at(a);
		words[i][0] = e->generation;
		words[i][1] = e->mark;
		words[i][2] = e->all;
		words[i][3] = e->sum;
	}
	e = fm_cuda_event_at(a);
	memcpy(at, (_Atomic uint64_t *[]){&e->generation, &e->mark, &e->all, &e->sum}, sizeof(at));
	for (unsigned mix = 0; mix < 16; mix++) {
		for (unsigned i = 0; i < 4; i++)
			*at[i] = words[mix >> i & 1][i];
		assert_int_equal(fm_cuda_event_get(a, &m), mix == 0 || mix == 15);
	}
}

struct writer {
	CUevent event;
	unsigned n;
};

enum { WRITES = 200000 };

static void *write_often(void *arg)
{
	const struct writer *w = arg;

	for (uint64_t i = 1; i <= WRITES; i++)
		record(w->event, &queue[w->n], 2 * i + w->n, 3 * i + w->n);
	return NULL;
}

/* What is found at any time is what one of them wrote. */
static void writers_at_one_time(void **state)
{
	CUevent a = event_at(11, 0x1000), b = event_at(11, (uintptr_t)a + 16);
	struct writer w[] = {{a, 0}, {a, 1}, {b, 0}};
	pthread_t id[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&id[i], NULL, write_often, &w[i]), 0);
	for (int i = 0; i < WRITES; i++) {
		struct fm_cuda_mark m;
		uint64_t n;

		if (!fm_cuda_event_get(i % 2 ? a : b, &m))
			continue;
		n = m.generation - 1;
		assert_true(n < 2);
		assert_int_equal((m.mark - n) % 2, 0);
		assert_int_equal((m.mark - n) / 2 * 3 + n, m.all);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(id[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_until_recorded_again),
		cmocka_unit_test(mixtures_say_nothing),
		cmocka_unit_test(writers_at_one_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
