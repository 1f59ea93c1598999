/* SPDX-License-Identifier: Apache-2.0 */
/* Maps from handles that grow, and are read while they do. */
#include "shim/map.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint64_t rng = 0x9e3779b97f4a7c15;

static uint64_t below(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

#define KEYS 600

static uintptr_t key_of(unsigned i)
{
	return 0x7f0000001000 + (uintptr_t)i * 16;
}

static void as_a_model(void **state)
{
	static char value[4];
	static struct fm_handles h; /* its tables stay */
	void *model[KEYS] = {0};

	assert_null(fm_handles_find(&h, key_of(0)));
	fm_handles_erase(&h, key_of(0), NULL);
	for (int i = 0; i < 200000; i++) {
		/* Few at first, then many, then few. */
		unsigned k = (unsigned)below(i / 1000 % 2 ? KEYS : 9);
		void *v = &value[below(4)];

		if (below(2)) {
			assert_true(fm_handles_set(&h, key_of(k), v));
			model[k] = v;
		} else if (below(2)) {
			fm_handles_erase(&h, key_of(k), v);
			model[k] = model[k] == v ? NULL : model[k];
		} else {
			fm_handles_erase(&h, key_of(k), NULL);
			model[k] = NULL;
		}
		k = (unsigned)below(KEYS);
		assert_ptr_equal(fm_handles_find(&h, key_of(k)), model[k]);
	}
	assert_false(fm_handles_set(&h, 0, value));
	assert_false(fm_handles_set(&h, 1, value));
	assert_null(fm_handles_find(&h, 0));
	assert_null(fm_handles_find(&h, 1));
}

static struct fm_handles shared;
static _Atomic bool stop;

/* Every other key is there from the start. */
static void *reader(void *unused)
{
	static char value;
	uintptr_t lost = 0;

	for (unsigned i = 0; !atomic_load(&stop) || i < KEYS; i++)
		if (!(i & 1))
			lost += fm_handles_find(&shared, key_of(i % KEYS)) == NULL;
	return lost ? &value : NULL;
}

static void read_while_it_grows(void **state)
{
	static char value;
	pthread_t t[2];
	void *lost;

	for (unsigned i = 0; i < KEYS; i += 2)
		assert_true(fm_handles_set(&shared, key_of(i), &value));
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, reader, NULL), 0);
	for (unsigned round = 0; round < 20; round++)
		for (unsigned i = 1; i < (unsigned)KEYS << (round / 4); i += 2) {
			if (round & 1)
				fm_handles_erase(&shared, key_of(i), &value);
			else
				assert_true(fm_handles_set(&shared, key_of(i), &value));
		}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &lost);
		assert_null(lost);
	}
	assert_int_equal(shared.live, KEYS / 2);
}

static void a_fixed_one_is_filled_and_emptied(void **state)
{
	static struct fm_map m;
	static char value;

	for (int round = 0; round < 5; round++) {
		for (unsigned i = 0; i < FM_MAP_SLOTS; i++)
			assert_true(fm_map_insert(&m, key_of(i + 7 * (unsigned)round), &value + i));
		assert_false(fm_map_insert(&m, key_of(5000), &value));
		assert_null(fm_map_find(&m, key_of(5000)));
		for (unsigned i = 0; i < FM_MAP_SLOTS; i++) {
			uintptr_t key = key_of(i + 7 * (unsigned)round);

			assert_ptr_equal(fm_map_find(&m, key), &value + i);
			assert_ptr_equal(fm_map_erase(&m, key), &value + i);
			assert_null(fm_map_find(&m, key));
			assert_null(fm_map_erase(&m, key));
		}
	}
	/* Nothing is left of them that a look-up would have to go past. */
	assert_true(fm_map_insert(&m, key_of(1), &value));
	fm_map_erase(&m, key_of(1));
	assert_null(fm_map_erase(&m, 0));
	assert_null(fm_map_erase(&m, FM_MAP_REMOVED));
	assert_null(fm_map_find(&m, 0));
	assert_null(fm_map_find(&m, FM_MAP_REMOVED));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_a_model),
		cmocka_unit_test(read_while_it_grows),
		cmocka_unit_test(a_fixed_one_is_filled_and_emptied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
