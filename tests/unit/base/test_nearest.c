/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void distances(void **state)
{
	static const struct {
		const char *a, *b;
		unsigned distance;
	} pairs[] = {{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"kitten", "sitting", 3}, {"ab", "ba", 1}, {"queues", "quueues", 1},
		{"groups", "gruops", 1}, {"abcd", "badc", 2}, {"ca", "abc", 3},
		{"linger_us", "liger_us", 1}, {"abc", "xyz", 3}};

	for (size_t i = 0; i < FM_ARRAY_LEN(pairs); i++) {
		assert_int_equal(fm_distance(pairs[i].a, pairs[i].b), pairs[i].distance);
		assert_int_equal(fm_distance(pairs[i].b, pairs[i].a), pairs[i].distance);
	}
}

static void long_words_are_like_no_other(void **state)
{
	char a[FM_NEAREST_MAX + 2], b[FM_NEAREST_MAX + 1];

	memset(a, 'a', sizeof(a));
	memset(b, 'a', sizeof(b));
	a[sizeof(a) - 1] = b[sizeof(b) - 1] = '\0';
	assert_int_equal(fm_distance(b, b), 0);
	assert_int_equal(fm_distance(b, ""), FM_NEAREST_MAX);
	assert_true(fm_distance(a, a) > FM_NEAREST_MAX);
	assert_true(fm_distance(a, b) > FM_NEAREST_MAX);
	assert_true(fm_distance(b, a) > FM_NEAREST_MAX);
}

static const char *nearest(const char *typed)
{
	static const char *const words[] = {
		"groups", "queues", "clients", "policy", "policies", "gang"};
	struct fm_nearest n = {.typed = typed};

	for (size_t i = 0; i < FM_ARRAY_LEN(words); i++)
		fm_nearest_try(&n, words[i]);
	return n.best;
}

static void the_nearest_is_found_or_none(void **state)
{
	char endless[4096];

	memset(endless, 'g', sizeof(endless));
	endless[sizeof(endless) - 1] = '\0';
	assert_string_equal(nearest("group"), "groups");
	assert_string_equal(nearest("qeues"), "queues");
	assert_string_equal(nearest("polcy"), "policy");
	assert_string_equal(nearest("polices"), "policies");
	assert_string_equal(nearest("gnag"), "gang");
	assert_null(nearest("colour"));
	assert_null(nearest(""));
	assert_null(nearest("g"));
	assert_null(nearest(endless));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(distances),
		cmocka_unit_test(long_words_are_like_no_other),
		cmocka_unit_test(the_nearest_is_found_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
