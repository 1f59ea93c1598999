/* SPDX-License-Identifier: Apache-2.0 */
/* What the CUDA shim keeps for launches of rewritten kernels: their parameters. */
#include "api/cuda/shim/guard/args.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t rng = 0x9e3779b97f4a7c15;

static uint64_t below(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

/* --- parameters --- */

/* A kernel, and a launch of it: room is of exactly the size that is asked for. */
struct launch {
	struct fm_kernel k;
	unsigned char want[FM_CUDA_PARAMS_MAX * 8 + FM_GUARD_BYTES]; /* as the kernel sees them */
	unsigned char own[FM_CUDA_PARAMS_MAX * 8];
	void *params[FM_CUDA_PARAMS_MAX];
	void *extra[5];
	size_t size;
	void *room;
};

static const uint64_t ours[FM_GUARD_PARAMS] = {0x1111, 0x2222, 0x3333};

static void make_kernel(struct launch *l, unsigned n, unsigned most)
{
	size_t at = 0;

	memset(l, 0, sizeof(*l));
	l->k.params = calloc(n + 1, sizeof(*l->k.params));
	assert_non_null(l->k.params);
	l->k.n_params = n;
	for (unsigned i = 0; i < n; i++) {
		unsigned size = 1 + (unsigned)below(most), align = 1u << below(4);

		align = most == 1 ? 1 : align;
		at = (at + align - 1) / align * align;
		l->k.params[i] = (struct fm_param){(uint16_t)at, (uint16_t)size};
		at += size;
	}
	assert_true(at <= 32764 - FM_GUARD_BYTES);
	l->k.param_bytes = (uint16_t)at;
	l->k.guard_at = (uint16_t)((at + 7) & ~7u);
}

static void make_launch(struct launch *l)
{
	for (unsigned i = 0; i < l->k.n_params; i++) {
		const struct fm_param *p = &l->k.params[i];

		for (unsigned b = 0; b < p->size; b++)
			l->own[p->at + b] = (unsigned char)(1 + below(255));
		l->params[i] = l->own + p->at;
	}
	memcpy(l->want, l->own, l->k.param_bytes);
	memcpy(l->want + l->k.guard_at, ours, sizeof(ours));
	l->size = l->k.param_bytes;
	l->extra[0] = FM_CU_EXTRA_BUFFER;
	l->extra[1] = l->own;
	l->extra[2] = FM_CU_EXTRA_SIZE;
	l->extra[3] = &l->size;
	l->extra[4] = FM_CU_EXTRA_END;
}

static bool build(struct launch *l, struct fm_cuda_args *a, void **params, void **extra)
{
	size_t room = fm_cuda_args_room(&l->k, extra != NULL);

	assert_int_equal(room % 8, 0);
	assert_true(room < 34 * 1024);
	free(l->room);
	l->room = malloc(room);
	assert_non_null(l->room);
	memset(l->room, 0xee, room);
	return fm_cuda_args(a, &l->k, params, extra, ours, l->room);
}

/* As the driver reads one of each. */
static void check_params(const struct launch *l, const struct fm_cuda_args *a)
{
	unsigned n = l->k.n_params;

	assert_null(a->extra);
	for (unsigned i = 0; i < n; i++)
		assert_memory_equal(a->params[i], l->want + l->k.params[i].at, l->k.params[i].size);
	for (unsigned i = 0; i < FM_GUARD_PARAMS; i++)
		assert_memory_equal(a->params[n + i], &ours[i], 8);
}

static void check_packed(const struct launch *l, const struct fm_cuda_args *a, size_t more)
{
	assert_null(a->params);
	assert_ptr_equal(a->extra[0], FM_CU_EXTRA_BUFFER);
	assert_ptr_equal(a->extra[2], FM_CU_EXTRA_SIZE);
	assert_ptr_equal(a->extra[4], FM_CU_EXTRA_END);
	assert_int_equal(*(size_t *)a->extra[3], l->k.guard_at + FM_GUARD_BYTES + more);
	assert_memory_equal(a->extra[1], l->want, l->k.guard_at + FM_GUARD_BYTES);
}

static void check_copy(struct launch *l, void **params, void **extra)
{
	size_t size = fm_cuda_args_bytes(&l->k);
	unsigned char *copy = malloc(size);
	struct fm_cuda_args a;

	assert_non_null(copy);
	memset(copy, 0xdd, size);
	assert_true(fm_cuda_args_copy(&l->k, params, extra, copy));
	assert_memory_equal(copy, l->want, l->k.guard_at);
	for (size_t i = l->k.guard_at; i < size; i++)
		assert_int_equal(copy[i], 0xdd); /* ours are somebody else's */
	build(l, &a, l->params, NULL);           /* for the room */
	memset(&a, 0, sizeof(a));
	fm_cuda_args_again(&a, &l->k, copy, ours, l->room);
	check_params(l, &a);
	free(copy);
}

static void check_launch(struct launch *l)
{
	struct fm_cuda_args a;

	make_launch(l);
	assert_true(build(l, &a, l->params, NULL));
	check_params(l, &a);
	assert_true(build(l, &a, NULL, l->extra));
	check_packed(l, &a, 0);
	check_copy(l, l->params, NULL);
	check_copy(l, NULL, l->extra);
	free(l->k.params);
	free(l->room);
}

static struct launch l;

static void any_parameters(void **state)
{
	for (int i = 0; i < 3000; i++) {
		make_kernel(&l, (unsigned)below(24), 40);
		check_launch(&l);
	}
}

static void many_and_large(void **state)
{
	make_kernel(&l, FM_CUDA_PARAMS_MAX, 1);
	check_launch(&l);
	make_kernel(&l, 1, 1);
	l.k.params[0].size = l.k.param_bytes = l.k.guard_at = 32736;
	check_launch(&l);
}

static void none(void **state)
{
	struct fm_cuda_args a;
	size_t nothing = 0;

	make_kernel(&l, 0, 1);
	make_launch(&l);
	assert_true(build(&l, &a, NULL, NULL));
	check_params(&l, &a);
	l.extra[1] = NULL;
	assert_true(build(&l, &a, NULL, l.extra));
	check_packed(&l, &a, 0);
	l.extra[0] = FM_CU_EXTRA_END; /* nothing named at all */
	assert_true(build(&l, &a, NULL, l.extra));
	check_packed(&l, &a, 0);
	check_copy(&l, NULL, NULL);
	l.extra[0] = FM_CU_EXTRA_SIZE;
	l.extra[1] = &nothing;
	l.extra[2] = FM_CU_EXTRA_END;
	check_copy(&l, NULL, l.extra);
	free(l.k.params);
	free(l.room);
	l.room = NULL;
}

/* The driver is given what is not of the kernel's size either. Three bytes of twelve: nobody else's
 * memory is read. */
static void sizes_that_differ(void **state)
{
	struct fm_cuda_args a;

	make_kernel(&l, 3, 1);
	l.k.params[1].at = 4;
	l.k.params[2].at = 11;
	l.k.param_bytes = 12;
	l.k.guard_at = 16;
	make_launch(&l);
	l.size = 16; /* with padding: not the kernel's, and not made so */
	assert_true(build(&l, &a, NULL, l.extra));
	check_packed(&l, &a, 8);
	l.size = 17;
	assert_true(build(&l, &a, NULL, l.extra));
	check_packed(&l, &a, 8);
	l.size = 3;
	l.extra[1] = malloc(3);
	assert_non_null(l.extra[1]);
	memcpy(l.extra[1], l.own, 3);
	memset(l.want + 3, 0, 13);
	assert_true(build(&l, &a, NULL, l.extra));
	check_packed(&l, &a, 8);
	check_copy(&l, NULL, l.extra);
	free(l.extra[1]);
	free(l.k.params);
	free(l.room);
	l.room = NULL;
}

static void what_no_driver_takes(void **state)
{
	struct fm_cuda_args a;
	char copy[64];

	make_kernel(&l, 2, 4);
	make_launch(&l);
	assert_false(build(&l, &a, NULL, NULL));
	assert_false(build(&l, &a, l.params, l.extra));
	assert_false(fm_cuda_args_copy(&l.k, NULL, NULL, copy));
	assert_false(fm_cuda_args_copy(&l.k, l.params, l.extra, copy));
	l.extra[1] = NULL;
	assert_false(build(&l, &a, NULL, l.extra));
	l.extra[1] = l.own;
	l.extra[0] = (void *)3; /* unknown */
	assert_false(build(&l, &a, NULL, l.extra));
	assert_false(fm_cuda_args_copy(&l.k, NULL, l.extra, copy));
	free(l.k.params);
	free(l.room);
	l.room = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_parameters),
		cmocka_unit_test(many_and_large),
		cmocka_unit_test(none),
		cmocka_unit_test(sizes_that_differ),
		cmocka_unit_test(what_no_driver_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
