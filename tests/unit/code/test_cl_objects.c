/* SPDX-License-Identifier: Apache-2.0 */
/* What the OpenCL layer keeps of programs and kernels: by handle, for as long as the program holds
 * it. */
#include "api/opencl/shim/objects.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MANY 3000u

static struct fm_opencl_object object[MANY];
static char handle[MANY];

static unsigned refs(const struct fm_opencl_object *o)
{
	return atomic_load(&o->refs);
}

static void many(void **state)
{
	for (unsigned i = 0; i < MANY; i++)
		assert_true(fm_opencl_table_enter(&object[i], &handle[i]));
	for (unsigned i = 0; i < MANY; i++) {
		assert_ptr_equal(fm_opencl_table_find(&handle[i]), &object[i]);
		assert_int_equal(refs(&object[i]), 2);
	}
	for (unsigned i = 0; i < MANY; i += 2)
		assert_ptr_equal(fm_opencl_table_leave(&handle[i]), &object[i]);
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(fm_opencl_table_find(&handle[i]), i % 2 ? &object[i] : NULL);
	for (unsigned i = 1; i < MANY; i += 2)
		assert_ptr_equal(fm_opencl_table_leave(&handle[i]), &object[i]);
}

static void held_more_than_once(void **state)
{
	struct fm_opencl_object o;

	assert_true(fm_opencl_table_enter(&o, handle));
	fm_opencl_table_hold(handle);
	assert_null(fm_opencl_table_leave(handle));
	assert_ptr_equal(fm_opencl_table_find(handle), &o);
	assert_ptr_equal(fm_opencl_table_leave(handle), &o);
	/* The table's reference and that of the look-up are the caller's now. */
	assert_int_equal(refs(&o), 2);
	assert_null(fm_opencl_table_leave(handle));
}

/* A driver gives a handle out once more when its object is gone, also by ways that the layer does
 * not see: it means the new object then. */
static void handle_again(void **state)
{
	struct fm_opencl_object old, new;

	assert_true(fm_opencl_table_enter(&old, handle));
	assert_true(fm_opencl_table_enter(&new, handle));
	assert_ptr_equal(fm_opencl_table_find(handle), &new);
	assert_ptr_equal(fm_opencl_table_leave(handle), &new);
	assert_null(fm_opencl_table_find(handle));
}

static void no_handle(void **state)
{
	assert_null(fm_opencl_table_find(NULL));
	assert_null(fm_opencl_table_leave(NULL));
	fm_opencl_table_hold(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many),
		cmocka_unit_test(held_more_than_once),
		cmocka_unit_test(handle_again),
		cmocka_unit_test(no_handle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
