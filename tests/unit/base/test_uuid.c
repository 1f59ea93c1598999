/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TEXT "21318c60-9714-3248-8ca6-41ff7324c8f2"

static const unsigned char id[FM_UUID_SIZE] = {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c,
	0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2};

static bool same(const char *text)
{
	unsigned char got[FM_UUID_SIZE] = {0};

	return fm_uuid_parse(text, strlen(text), got) && !memcmp(got, id, sizeof(id));
}

static void written_as_read(void **state)
{
	char buf[FM_UUID_TEXT];

	assert_string_equal(fm_uuid_text(id, buf), TEXT);
	assert_true(same(TEXT));
	assert_true(same("21318C60-9714-3248-8CA6-41FF7324C8F2"));
	assert_true(same("21318c60971432488ca641ff7324c8f2"));
}

static void else_refused(void **state)
{
	static const char *const bad[] = {"", "2", TEXT "0", "21318c60-9714-3248-8ca6-41ff7324c8f",
		"21318c60-9714-3248-8ca6041ff7324c8f2", "21318c6009714-3248-8ca6-41ff7324c8f2",
		"21318c60971432488ca641ff7324c8fg", "{1318c60971432488ca641ff7324c8f}",
		"21318c60971432488ca641ff7324c8\xff\xff"};
	unsigned char got[FM_UUID_SIZE];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(fm_uuid_parse(bad[i], strlen(bad[i]), got));
}

static void lists(void **state)
{
	const char *list = " ,one, two\tthree,,";
	static const char *const words[] = {"one", "two", "three"};
	size_t len, n = 0;

	while ((list = fm_uuid_next(list, &len))) {
		assert_true(n < 3 && len == strlen(words[n]) && !strncmp(list, words[n], len));
		list += len;
		n++;
	}
	assert_int_equal(n, 3);
	assert_null(fm_uuid_next("", &len));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_as_read),
		cmocka_unit_test(else_refused),
		cmocka_unit_test(lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
