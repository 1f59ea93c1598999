/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/parse.h"
#include "base/util.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void times(void **state)
{
	static const struct {
		const char *s;
		int64_t ns;
	} good[] = {{"20ms", 20000000}, {"20", 20000000}, {"1.5s", 1500000000},
		{"1.5 s", 1500000000}, {"250us", 250000}, {"7ns", 7}, {"0", 0}, {".5ms", 500000},
		{"2.", 2000000}, {"0.0000000001s", 0}, {"1h", INT64_C(3600000000000)},
		{"2min", INT64_C(120000000000)}, {"1.5 min", INT64_C(90000000000)},
		{"3m20s", INT64_C(200000000000)}, {"2h05m", INT64_C(7500000000000)},
		{"1h1m1.5s", INT64_C(3661500000000)}, {"1s500ms", INT64_C(1500000000)},
		{"0.999999999h", INT64_C(3599999996400)},
		{"9223372036s", INT64_C(9223372036000000000)}};
	static const char *const bad[] = {"", " ", "ms", "-1ms", "+1ms", "1m", "1d", "3m20", "1s1m",
		"1m1m", "5m ", "1ms1", "1 m s", "1ms ", "nan", "inf", "0x10", "1e3", "1,5ms", ".",
		"..5", "1.5.5", "\xff", " 5ms"};
	static const char *const large[] = {"9223372037s", "99999999999999999999999",
		"18446744073709551615s", "9223372036h", "2562047h50m"};
	struct fm_err err;
	int64_t ns;

	for (size_t i = 0; i < FM_ARRAY_LEN(good); i++) {
		assert_int_equal(fm_parse_time(good[i].s, &ns, NULL), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(bad); i++) {
		assert_int_equal(fm_parse_time(bad[i], &ns, &err), -EINVAL);
		assert_non_null(strstr(err.hint, "20ms"));
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(large); i++)
		assert_int_equal(fm_parse_time(large[i], &ns, &err), -ERANGE);
}

static void priorities(void **state)
{
	struct fm_err err;
	int64_t v;

	assert_int_equal(fm_parse_priority("low", &v, NULL), 0);
	assert_int_equal(v, FM_PRIORITY_LOW);
	assert_int_equal(fm_parse_priority("normal", &v, NULL), 0);
	assert_int_equal(v, FM_PRIORITY_NORMAL);
	assert_int_equal(fm_parse_priority("high", &v, NULL), 0);
	assert_int_equal(v, FM_PRIORITY_HIGH);
	assert_int_equal(fm_parse_priority("realtime", &v, NULL), 0);
	assert_int_equal(v, FM_PRIORITY_REALTIME);
	assert_int_equal(fm_parse_priority("-255", &v, NULL), 0);
	assert_int_equal(v, -255);
	assert_int_equal(fm_parse_priority("256", &v, &err), -ERANGE);
	assert_non_null(strstr(err.hint, "realtime"));
	assert_int_equal(fm_parse_priority("-256", &v, &err), -ERANGE);
	assert_int_equal(fm_parse_priority("High", &v, &err), -EINVAL);
	assert_int_equal(fm_parse_priority("", &v, &err), -EINVAL);
	assert_int_equal(fm_parse_priority("5 ", &v, &err), -EINVAL);
	assert_int_equal(fm_parse_priority(" 5", &v, &err), -EINVAL);
	assert_int_equal(fm_parse_priority("99999999999999999999", &v, &err), -ERANGE);
}

static void booleans(void **state)
{
	struct fm_err err;
	bool v = false;

	assert_int_equal(fm_parse_bool("Yes", &v, NULL), 0);
	assert_true(v);
	assert_int_equal(fm_parse_bool("off", &v, NULL), 0);
	assert_false(v);
	assert_int_equal(fm_parse_bool("2", &v, &err), -EINVAL);
	assert_int_equal(fm_parse_bool("", &v, &err), -EINVAL);
}

static void hints(void **state)
{
	struct fm_err err;
	enum fm_hint h;
	int64_t v;

	assert_int_equal(fm_parse_hint("deadline", "20ms", &h, &v, NULL), 0);
	assert_int_equal(h, FM_HINT_DEADLINE);
	assert_int_equal(v, 20 * FM_MS);
	assert_int_equal(fm_parse_hint("priority", "high", &h, &v, NULL), 0);
	assert_int_equal(h, FM_HINT_PRIORITY);
	assert_int_equal(v, FM_PRIORITY_HIGH);
	assert_int_equal(fm_parse_hint("share", "25%", &h, &v, NULL), 0);
	assert_int_equal(h, FM_HINT_SHARE);
	assert_int_equal(v, 25);
	assert_int_equal(fm_parse_hint("share", "100", &h, &v, NULL), 0);
	assert_int_equal(v, 100);
	assert_int_equal(fm_parse_hint("share", "101", &h, &v, &err), -ERANGE);
	assert_int_equal(fm_parse_hint("share", "%", &h, &v, &err), -EINVAL);
	assert_int_equal(fm_parse_hint("share", "25%%", &h, &v, &err), -EINVAL);
	assert_int_equal(
		fm_parse_hint("share", "1000000000000000000000000000", &h, &v, &err), -EINVAL);
	assert_int_equal(fm_parse_hint("weight", "10000", &h, &v, NULL), 0);
	assert_int_equal(fm_parse_hint("weight", "10001", &h, &v, &err), -ERANGE);
	assert_int_equal(fm_parse_hint("latency-nice", "-20", &h, &v, NULL), 0);
	assert_int_equal(h, FM_HINT_LATENCY_NICE);
	assert_int_equal(v, -20);
	assert_int_equal(fm_parse_hint("latency-nice", "20", &h, &v, &err), -ERANGE);
	assert_int_equal(fm_parse_hint("foreground", "1", &h, &v, NULL), 0);
	assert_int_equal(fm_parse_hint("foreground", "2", &h, &v, &err), -ERANGE);
	assert_int_equal(fm_parse_hint("runtime", "0.8s", &h, &v, NULL), 0);
	assert_int_equal(v, 800 * FM_MS);
	assert_int_equal(fm_parse_hint("slice", "11s", &h, &v, &err), -ERANGE);
	assert_non_null(strstr(err.hint, "10000 ms"));
	assert_int_equal(fm_parse_hint("memory-limit", "1.5G", &h, &v, NULL), 0);
	assert_true(h == FM_HINT_MEMORY_LIMIT && v == INT64_C(1610612736));
	assert_int_equal(fm_parse_hint("memory-request", "2P", &h, &v, &err), -ERANGE);
	assert_non_null(strstr(err.hint, "0 to 1P"));
	assert_int_equal(fm_parse_hint("memory-limit", "-1", &h, &v, &err), -EINVAL);
	assert_int_equal(fm_parse_hint("memory-pin", "2", &h, &v, &err), -ERANGE);
	assert_int_equal(fm_parse_hint("colour", "red", &h, &v, &err), -ENOENT);
	assert_non_null(strstr(err.text, "colour"));
	assert_non_null(strstr(err.hint, "deadline"));
}

static void names_and_ranges(void **state)
{
	struct fm_err err;

	assert_string_equal(fm_hint_name(FM_HINT_PERIOD), "period");
	assert_string_equal(fm_hint_unit(FM_HINT_PERIOD), "ns");
	assert_null(fm_hint_name(FM_HINT_COUNT));
	assert_null(fm_hint_unit((enum fm_hint) - 1));
	assert_int_equal(fm_hint_check(FM_HINT_PRIORITY, 255, NULL), 0);
	assert_int_equal(fm_hint_check(FM_HINT_PRIORITY, 256, &err), -ERANGE);
	assert_int_equal(fm_hint_check(FM_HINT_COUNT, 0, &err), -ERANGE);
	assert_int_equal(fm_hint_check(FM_HINT_DEADLINE, -1, &err), -ERANGE);
}

static void words(void **state)
{
	static const char line[] = "  one two   three ";
	const char *at = line;
	char word[4];

	assert_string_equal(fm_next_word(&at, word, sizeof(word)), "one");
	assert_string_equal(fm_next_word(&at, word, sizeof(word)), "two");
	assert_null(fm_next_word(&at, word, sizeof(word))); /* it does not fit */
	assert_string_equal(at, "three ");
	at = line + strlen(line) - 1;
	assert_null(fm_next_word(&at, word, sizeof(word)));
	assert_string_equal(at, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times),
		cmocka_unit_test(priorities),
		cmocka_unit_test(booleans),
		cmocka_unit_test(hints),
		cmocka_unit_test(names_and_ranges),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
