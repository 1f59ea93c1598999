/* SPDX-License-Identifier: Apache-2.0 */
/* Gates of HIP (api/hip/core) over a runtime of a few functions: which open when, and which devices
 * have them. */
#include "api/hip/core/core.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#define DEVICE 1

/* A stream stands if it waits for a value that has not come. */
struct ihipStream_t {
	_Atomic uint64_t *word;
	uint64_t value;
};

static struct {
	int device, mode;
	hipError_t error;
	bool can_wait, leaks, collides; /* the device cannot; streams pass at once; all are one */
	bool refuses;                   /* waits */
	hipStream_t first;              /* that something was put into */
	unsigned streams, words;
	int version;
} rt;

static uint64_t memory[16];

static bool stands(hipStream_t s)
{
	return !rt.leaks && s->word && atomic_load(s->word) < s->value;
}

static hipError_t failed(hipError_t rc)
{
	rt.error = rc ? rc : rt.error;
	return rc;
}

static hipError_t get_device(int *device)
{
	*device = rt.device;
	return 0;
}

static hipError_t set_device(int device)
{
	rt.device = device;
	return 0;
}

static hipError_t version(int *value)
{
	*value = rt.version;
	return 0;
}

static hipError_t attribute(int *value, int which, int device)
{
	assert_int_equal(which, FM_HIP_CAN_WAIT_VALUE);
	assert_int_equal(device, rt.device);
	*value = rt.can_wait;
	return 0;
}

static hipError_t peek_error(void)
{
	return rt.error;
}

static hipError_t take_error(void)
{
	hipError_t rc = rt.error;

	rt.error = 0;
	return rc;
}

static struct ihipStream_t stream[8];

static hipError_t stream_create(hipStream_t *s, unsigned flags)
{
	assert_int_equal(rt.mode, FM_HIP_CAPTURE_RELAXED);
	*s = &stream[rt.streams++];
	**s = (struct ihipStream_t){NULL, 0};
	return 0;
}

static hipError_t stream_destroy(hipStream_t s)
{
	assert_false(stands(s));
	return 0;
}

static hipError_t stream_query(hipStream_t s)
{
	if (rt.collides && stands(rt.first))
		return FM_HIP_NOT_READY;
	return stands(s) ? FM_HIP_NOT_READY : 0;
}

static hipError_t capture_mode(int *mode)
{
	int was = rt.mode;

	rt.mode = *mode;
	*mode = was;
	return 0;
}

static hipError_t malloc_with_flags(void **p, size_t size, unsigned flags)
{
	assert_int_equal(size, 8);
	assert_int_equal(flags, FM_HIP_SIGNAL_MEMORY);
	*p = &memory[rt.words++];
	return 0;
}

static hipError_t wait_value(hipStream_t s, void *p, uint64_t value, unsigned how, uint64_t mask)
{
	assert_int_equal(how, FM_HIP_WAIT_GTE);
	assert_true(mask == UINT64_MAX);
	if (rt.refuses)
		return failed(801);
	rt.first = rt.first ? rt.first : s;
	*s = (struct ihipStream_t){p, value};
	return 0;
}

static const struct fm_hip_driver hip = {
	.get_device = get_device,
	.set_device = set_device,
	.runtime_version = version,
	.device_attribute = attribute,
	.peek_error = peek_error,
	.take_error = take_error,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.stream_query = stream_query,
	.capture_mode = capture_mode,
	.malloc_with_flags = malloc_with_flags,
	.wait_value = wait_value,
};

static int fresh(void **state)
{
	memset(memory, 0, sizeof(memory));
	fm_hip_gates_fork_child();
	rt = (__typeof__(rt)){.can_wait = true, .version = FM_HIP_ROCM_5_6};
	return 0;
}

/* What is in the pool is given back. */
static int stale(void **state)
{
	fm_hip_gates_forget(DEVICE);
	fm_hip_gates_forget(DEVICE + 1);
	return 0;
}

static void hold(void **state)
{
	assert_true(fm_hip_gates_hold(&hip, DEVICE));
	assert_int_equal(rt.streams, 2);
	assert_true(fm_hip_gates_hold(&hip, DEVICE)); /* and are not tried again */
	assert_int_equal(rt.streams, 2);
	assert_int_equal(rt.device, 0); /* as it was */
	assert_int_equal(rt.mode, 0);
}

static void none(void **state)
{
	rt.can_wait = false;
	assert_false(fm_hip_gates_hold(&hip, DEVICE));
	assert_int_equal(rt.streams, 0);
	assert_false(fm_hip_gates_hold(&hip, FM_HIP_DEVICES));
	assert_false(fm_hip_gates_hold(&hip, -1));
}

/* One that waits with a lock. */
static void an_old_runtime(void **state)
{
	rt.version = FM_HIP_ROCM_5_6 - 1;
	assert_false(fm_hip_gates_hold(&hip, DEVICE));
	assert_int_equal(rt.streams, 0);
}

static void do_not_hold(void **state)
{
	rt.leaks = true;
	assert_false(fm_hip_gates_hold(&hip, DEVICE));
}

/* Fewer queues than streams: one that stands keeps back others. */
static void keep_back_others(void **state)
{
	rt.collides = true;
	assert_false(fm_hip_gates_hold(&hip, DEVICE));
}

static void refused(void **state)
{
	rt.refuses = true;
	assert_false(fm_hip_gates_hold(&hip, DEVICE));
	assert_int_equal(rt.error, 0); /* no error of ours is left behind */
}

static void *put(struct fm_hip_word *w, hipStream_t s)
{
	void *gate;

	assert_int_equal(fm_hip_gate_put(&hip, DEVICE, s, w, &gate), 0);
	return gate;
}

/* Each in a stream of its own, to be seen: in one stream they stand one behind the other. */
static void open_in_any_order(void **state)
{
	struct fm_hip_word *w = fm_hip_word_get(&hip, DEVICE);
	struct ihipStream_t s[4];
	void *gate[4];

	for (int i = 0; i < 4; i++)
		gate[i] = put(w, &s[i]);
	fm_hip_gate_open(w, gate[2]);
	assert_true(stands(&s[0]) && stands(&s[1]) && stands(&s[2]));
	fm_hip_gate_open(w, gate[0]);
	assert_true(!stands(&s[0]) && stands(&s[1]) && stands(&s[2]));
	fm_hip_gate_open(w, gate[1]);
	assert_true(!stands(&s[1]) && !stands(&s[2]) && stands(&s[3]));
	fm_hip_gate_open(w, gate[3]);
	assert_false(stands(&s[3]));
	fm_hip_word_put(w);
}

/* A word serves the next queue of its device; a gate of the last one stays open. */
static void words_serve_again(void **state)
{
	struct fm_hip_word *w = fm_hip_word_get(&hip, DEVICE), *other;
	struct ihipStream_t last, next;
	void *gate = put(w, &last);

	fm_hip_gate_open(w, gate);
	fm_hip_word_put(w);
	other = fm_hip_word_get(&hip, DEVICE + 1);
	assert_ptr_not_equal(other, w);
	assert_ptr_equal(fm_hip_word_get(&hip, DEVICE), w);
	assert_int_equal(rt.words, 2);
	gate = put(w, &next);
	assert_true(!stands(&last) && stands(&next));
	fm_hip_gate_open(w, gate);
	assert_false(stands(&next));
	fm_hip_word_put(other);
	fm_hip_word_put(w);
	fm_hip_gates_forget(DEVICE);
	w = fm_hip_word_get(&hip, DEVICE);
	assert_non_null(w);
	assert_int_equal(rt.words, 3);
	fm_hip_word_put(w);
}

/* Memory of before a reset is not used after. */
static void end_with_a_reset(void **state)
{
	struct fm_hip_word *before = fm_hip_word_get(&hip, DEVICE), *after;
	unsigned words = rt.words;
	struct ihipStream_t s;
	void *gate = put(before, &s);

	fm_hip_gates_forget(FM_HIP_DEVICES); /* of a machine with more devices than have gates */
	fm_hip_gates_forget(DEVICE);
	fm_hip_gate_open(before, gate);
	assert_int_equal(atomic_load(s.word), 0);
	fm_hip_word_put(before); /* by a queue that was being closed meanwhile */
	after = fm_hip_word_get(&hip, DEVICE);
	assert_int_equal(rt.words, words + 1);
	fm_hip_word_put(after);
	assert_ptr_equal(fm_hip_word_get(&hip, DEVICE), after);
	fm_hip_word_put(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hold, fresh, stale),
		cmocka_unit_test_setup_teardown(none, fresh, stale),
		cmocka_unit_test_setup_teardown(an_old_runtime, fresh, stale),
		cmocka_unit_test_setup_teardown(do_not_hold, fresh, stale),
		cmocka_unit_test_setup_teardown(keep_back_others, fresh, stale),
		cmocka_unit_test_setup_teardown(refused, fresh, stale),
		cmocka_unit_test_setup_teardown(open_in_any_order, fresh, stale),
		cmocka_unit_test_setup_teardown(words_serve_again, fresh, stale),
		cmocka_unit_test_setup_teardown(end_with_a_reset, fresh, stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
