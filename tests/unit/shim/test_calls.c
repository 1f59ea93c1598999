/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of tables of calls (api/calls.h), on a table of its own. */
#include "api/calls.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ON_other(kind, symbol, ...) ID_##symbol,
enum {
#include "calls_sample.def"
	SYMBOLS
};

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	static int symbol CALL_PARAMS(params);
#include "calls_sample.def"

static const struct row {
	const char *kind, *symbol;
	bool per_thread;
	const char *name;
	int since;
	const char *note, *params, *facts;
} rows[] = {
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	{#kind, #symbol, per_thread, #name, since, note, #params, #__VA_ARGS__},
#include "calls_sample.def"
};

/* What the functions below were last called with. */
static struct {
	unsigned id;
	uint64_t cost;
	bool waits, own_queue;
	long sum;
} seen;

#define ADD(type, name) (long)(name)

#define ON_work(symbol, per_thread, name, since, note, params, queue_of, cost_of, waits_for) \
	static int symbol CALL_PARAMS(params)                                                \
	{                                                                                    \
		const long all[] = {CALL_EACH(ADD, params)};                                 \
                                                                                             \
		seen.id = ID_##symbol;                                                       \
		seen.cost = cost_of;                                                         \
		seen.waits = waits_for;                                                      \
		seen.own_queue = (queue_of) != 0;                                            \
		seen.sum = 0;                                                                \
		for (size_t at = 0; at < FM_ARRAY_LEN(all); at++)                            \
			seen.sum += all[at];                                                 \
		return per_thread;                                                           \
	}
#define ON_order(symbol, per_thread, name, since, note, params, what) \
	static int symbol CALL_PARAMS(params)                         \
	{                                                             \
		enum { EVENT = 42 };                                  \
                                                                      \
		seen.id = ID_##symbol;                                \
		return 2 * what + per_thread + queue;                 \
	}
#include "calls_sample.def"

static int sampleMany(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k,
	int l, int m, int n, int o, int p)
{
	return a + 2 * b + c + d + e + f + g + h + i + j + k + l + m + n + o + 3 * p;
}

static int sampleNothing(void)
{
	return 7;
}

static void each_symbol_is_there_once(void **state)
{
	static const char *const symbols[] = {"sampleCopy", "sampleCopy_ptsz", "sampleFill_v2",
		"sampleWait", "sampleWait_spt", "sampleMany", "sampleNothing"};

	assert_int_equal(SYMBOLS, FM_ARRAY_LEN(symbols));
	assert_int_equal(FM_ARRAY_LEN(rows), FM_ARRAY_LEN(symbols));
	for (size_t i = 0; i < FM_ARRAY_LEN(symbols); i++)
		assert_string_equal(rows[i].symbol, symbols[i]);
	assert_int_equal(ID_sampleCopy_ptsz, 1);
	assert_int_equal(ID_sampleNothing, 6);
}

static void rows_say_what_they_say(void **state)
{
	const struct row *clone = &rows[ID_sampleCopy_ptsz], *fill = &rows[ID_sampleFill_v2];

	assert_string_equal(clone->kind, "work");
	assert_string_equal(clone->name, "sampleCopy");
	assert_string_equal(clone->params, "((char *, to), (size_t, n), (int, queue))");
	assert_string_equal(clone->facts, "queue, n, 0");
	assert_int_equal(clone->since, 2000);
	assert_true(clone->per_thread);
	assert_false(rows[ID_sampleCopy].per_thread);
	assert_string_equal(fill->name, "sampleFill");
	assert_string_equal(fill->params, "((unsigned, x), (unsigned, y), (long, n))");
	assert_false(fill->per_thread);
	assert_string_equal(rows[ID_sampleMany].note, "has as many as can be");
	assert_string_equal(rows[ID_sampleNothing].facts, "");
}

static void functions_have_the_parameters_and_the_facts(void **state)
{
	char to;

	assert_int_equal(sampleCopy(&to, 5, 3), 0);
	assert_int_equal(seen.id, ID_sampleCopy);
	assert_int_equal(seen.sum, (long)&to + 8);
	assert_int_equal(seen.cost, 5);
	assert_true(seen.own_queue);
	assert_false(seen.waits);
	assert_int_equal(sampleCopy_ptsz(&to, 5, 0), 1);
	assert_int_equal(seen.id, ID_sampleCopy_ptsz);
	assert_false(seen.own_queue);
	assert_int_equal(sampleFill_v2(2, 3, 4), 0);
	assert_int_equal(seen.cost, 6);
	assert_true(seen.waits);
	assert_int_equal(sampleWait(1), 85);
	assert_int_equal(sampleWait_spt(0), 85);
	assert_int_equal(seen.id, ID_sampleWait_spt);
}

static void parameters_are_passed_on(void **state)
{
	int a = 1, b = 10, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0,
	    m = 0, n = 0, o = 0, p = 5;
	const int got[] = {
#define ON_own(symbol, per_thread, name, since, note, params, ...) symbol CALL_ARGS(params),
#include "calls_sample.def"
	};

	assert_int_equal(FM_ARRAY_LEN(got), 2);
	assert_int_equal(got[0], 36);
	assert_int_equal(got[1], 7);
}

/* By its size a union says what the newest is. */
static void the_newest(void **state)
{
	union newest {
#define ON_other(kind, symbol, per_thread, name, since, ...) char symbol[since];
#include "calls_sample.def"
	};

	assert_int_equal(sizeof(union newest), 9000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_symbol_is_there_once),
		cmocka_unit_test(rows_say_what_they_say),
		cmocka_unit_test(functions_have_the_parameters_and_the_facts),
		cmocka_unit_test(parameters_are_passed_on),
		cmocka_unit_test(the_newest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
