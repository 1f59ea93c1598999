/* SPDX-License-Identifier: Apache-2.0 */
/* Records of launches in their ring: what is kept stays as it is, whatever comes and goes. */
#include "api/cuda/core/guard/guard_records.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>

#include "../rounds.h"
#include <cmocka.h>

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 33) % below;
}

/* What the parameters of launch n are. */
static void paint(struct fm_cu_record *rec, uint64_t n)
{
	rec->number = n;
	memset(rec->params, (int)(n % 251), rec->bytes);
}

static void check_one(struct fm_cu_records *r, uint64_t n)
{
	const struct fm_cu_record *rec = fm_cu_record(r, n);

	assert_int_equal(rec->number, n);
	for (size_t i = 0; i < rec->bytes; i++)
		assert_int_equal((unsigned char)rec->params[i], n % 251);
}

static bool add(struct fm_cu_records *r, size_t bytes)
{
	const struct fm_cu_launch_config config = {.grid = {1, 1, 1}};
	struct fm_cu_record *rec = fm_cu_records_room(r, &config, bytes);

	if (!rec)
		return false;
	paint(rec, r->next);
	if (draw(50)) /* the driver has refused some */
		fm_cu_records_add(r);
	return true;
}

/* Gates behind some of them, of which some are passed. */
static void gate(struct fm_cu_records *r, uint64_t *said, uint64_t *passed, uint64_t most)
{
	*said += 2;
	fm_cu_records_cover(r, *said - 1, *said);
	while (*said - *passed > 2 * most || (*passed < *said && !draw(3))) {
		*passed += 2;
		fm_cu_records_retire(r, *passed);
	}
}

static void any_sizes(void **state)
{
	for (unsigned run = 0; run < rounds(6, 15); run++) {
		struct fm_cu_records *r = calloc(1, sizeof(*r));
		uint64_t said = 0, passed = 0, most = run % 3 ? 1 + run % 7 : 500;

		assert_non_null(r);
		assert_true(fm_cu_records_init(r));
		for (unsigned i = 0; i < 4000; i++) {
			if (!add(r, draw(draw(30) ? 400 : run % 2 ? 4000 : 200000)))
				gate(r, &said, &passed, draw(1 + most));
			else if (!draw(1 + run % 40))
				gate(r, &said, &passed, most);
			for (uint64_t n = r->first; n < r->next; n += 1 + draw(32))
				check_one(r, n);
		}
		free(r->ring);
		free(r);
	}
}

/* As a program does that is some launches ahead: there is always room, and little is touched. */
static void little_is_touched(void **state)
{
	struct fm_cu_records *r = calloc(1, sizeof(*r));
	uint64_t said = 0, passed = 0;
	size_t far = 0;

	assert_non_null(r);
	assert_true(fm_cu_records_init(r));
	for (unsigned i = 0; i < 20000; i++) {
		assert_true(add(r, 64 + draw(64)));
		far = FM_MAX(far, r->head);
		if (i % 16 == 15)
			gate(r, &said, &passed, 2);
	}
	assert_true(far < FM_CU_RECORD_BYTES / 8);
	free(r->ring);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_sizes),
		cmocka_unit_test(little_is_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
