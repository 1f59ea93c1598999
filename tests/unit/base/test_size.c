/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "base/util.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define K INT64_C(1024)

static void sizes_are_read(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} good[] = {{"0", 0}, {"4096", 4096}, {"1B", 1}, {"1k", K}, {"512M", 512 * K * K},
		{"40G", 40 * K * K * K}, {"1.5G", 3 * K * K * K / 2},
		{"1.5 GiB", 3 * K * K * K / 2}, {".5K", 512}, {"0.001G", 1073741},
		{"1T", K * K * K * K}, {"1.5P", 3 * K * K * K * K * K / 2}, {"2.", 2}, {"1.9", 1},
		{"9223372036854775807", INT64_MAX}, {"8191P", 8191 * K * K * K * K * K}};
	int64_t v;

	for (size_t i = 0; i < FM_ARRAY_LEN(good); i++) {
		assert_int_equal(fm_parse_size(good[i].text, &v, NULL), 0);
		assert_true(v == good[i].bytes);
	}
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const bad[] = {"", "G", ".", "4Q", "-1", "+1", " 1", "40GB", "1.2.3",
		"1e9", "0x10", "nan", "40G ", "1Gi", "ten"};
	static const char *const large[] = {"9223372036854775808", "8192P", "99999999999999999999",
		"18446744073709551616", "9007199254740992K"};
	struct fm_err err;
	int64_t v = 7;

	for (size_t i = 0; i < FM_ARRAY_LEN(bad); i++) {
		assert_int_equal(fm_parse_size(bad[i], &v, &err), -EINVAL);
		assert_non_null(strstr(err.hint, "40G"));
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(large); i++)
		assert_int_equal(fm_parse_size(large[i], &v, &err), -ERANGE);
	assert_int_equal(v, 7);
}

static void exact_sizes_can_be_read_again(void **state)
{
	static const int64_t sizes[] = {0, 1, 1023, K, K + 1, 1536 * K, 40 * K * K * K,
		3 * K * K * K / 2, K * K * K * K * K, INT64_MAX};
	char buf[FM_SIZE_TEXT];
	int64_t v;

	for (size_t i = 0; i < FM_ARRAY_LEN(sizes); i++) {
		assert_int_equal(fm_parse_size(fm_size_exact(sizes[i], buf), &v, NULL), 0);
		assert_true(v == sizes[i]);
	}
	assert_string_equal(fm_size_exact(40 * K * K * K, buf), "40G");
	assert_string_equal(fm_size_exact(3 * K * K * K / 2, buf), "1536M");
	assert_string_equal(fm_size_exact(0, buf), "0");
}

static void short_sizes_have_three_digits(void **state)
{
	char buf[FM_SIZE_TEXT];

	assert_string_equal(fm_size_short(0, buf), "0");
	assert_string_equal(fm_size_short(1023, buf), "1023");
	assert_string_equal(fm_size_short(1024, buf), "1K");
	assert_string_equal(fm_size_short(1536, buf), "1.5K");
	assert_string_equal(fm_size_short(100 * 1024 * 1024 + 512 * 1024, buf), "100M");
	assert_string_equal(fm_size_short(UINT64_C(1) << 30, buf), "1G");
	assert_string_equal(fm_size_short((UINT64_C(1) << 30) - 1, buf), "1.0G");
	assert_string_equal(fm_size_short(UINT64_C(85899345920), buf), "80G");
	assert_string_equal(fm_size_short(UINT64_MAX, buf), "16384P");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(what_is_no_size_is_refused),
		cmocka_unit_test(exact_sizes_can_be_read_again),
		cmocka_unit_test(short_sizes_have_three_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
