/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that may be killed: as text, in a file, and which launches are the same. */
#include "idem/kill/kill.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* last */
#include <cmocka.h>

#define HASH "0123456789abcdef0123456789abcdef"
/* Two allocations; two pointers into the second, the last one 64 bytes behind the first. */
#define TEXT HASH " k 2,1,1 64,1,1 16 36 ppp5,80,; 0:0,1:0,1:64,; 0:512:0:512,-8:512:0:0,;"

static const uint32_t grid[3] = {2, 1, 1}, block[3] = {64, 1, 1};

static struct fm_kill_launch parsed(const char *text)
{
	struct fm_kill_launch l;

	assert_int_equal(fm_kill_parse(&l, text, strlen(text)), 0);
	return l;
}

static void text_and_back(void **state)
{
	struct fm_kill_launch l = parsed(TEXT);
	char text[FM_KILL_CHARS];

	assert_true(fm_kill_print(&l, text));
	assert_string_equal(text, TEXT);
	fm_kill_launch_free(&l);
	l = parsed(HASH " k 1,1,1 1,1,1 0 0 ; ; ;");
	assert_true(fm_kill_print(&l, text));
	l.name[0] = '"';
	assert_false(fm_kill_print(&l, text));
	fm_kill_launch_free(&l);
}

/* Every text that is cut, or has another character somewhere, is refused or read; never more. */
static void bad_texts(void **state)
{
	static const char *const bad[] = {"", "x", HASH " ", HASH " k 0,1,1 1,1,1 0 0 ; ; ;",
		HASH " a\"b 1,1,1 1,1,1 0 0 ; ; ;", HASH " k 1,1,1 1,1,1 0 4 p; 0:0,; 0:0:0:0,;",
		HASH " k 1,1,1 1,1,1 0 8 p; 1:0,; 0:0:0:0,;",
		HASH " k 1,1,1 1,1,1 0 8 p; 0:8,; 0:0:0:0,;",
		HASH " k 1,1,1 1,1,1 0 8 p; 0:0,; 8:0:0:0,;",
		HASH " k 1,1,1 1,1,1 0 8 p; 0:0,; 0:8:0:16,;",
		HASH " k 1,1,1 1,1,1 0 8 p; 0:0,; 0:99999999999999999999:0:0,;",
		HASH " k 1,1,1 1,1,1 0 520 ; ; ;", TEXT " ",
		HASH " k 4294967296,1,1 1,1,1 0 0 ; ; ;"};
	struct fm_kill_launch l;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(fm_kill_parse(&l, bad[i], strlen(bad[i])), -EINVAL);
		fm_kill_launch_free(&l);
	}
	for (size_t n = 0; n < strlen(TEXT); n++) {
		char *copy = strndup(TEXT, n);

		assert_int_equal(fm_kill_parse(&l, copy, n), -EINVAL);
		fm_kill_launch_free(&l);
		free(copy);
	}
}

struct params {
	uint64_t out, in, in2, five;
	uint32_t last;
};

static enum fm_kill_match match(const struct fm_kill_launch *l, struct params p)
{
	uint64_t base[FM_KILL_WORDS];
	unsigned char bytes[36];

	memcpy(bytes, &p, sizeof(bytes));
	return fm_kill_match(l, grid, block, 16, bytes, base);
}

static void same_launches(void **state)
{
	struct fm_kill_launch l = parsed(TEXT);
	const struct params p = {0x10000, 0x20000, 0x20040, 5, 0x80};
	const uint32_t other[3] = {2, 2, 1};
	uint64_t base[FM_KILL_WORDS];
	struct params q;

	assert_int_equal(match(&l, p), FM_KILL_SAME);
	/* Elsewhere, and as near as nothing meets. */
	q = (struct params){0x5000, 0x5208, 0x5248, 5, 0x80};
	assert_int_equal(match(&l, q), FM_KILL_SAME);
	q = (struct params){0x5000, 0x5200, 0x5240, 5, 0x80};
	assert_int_equal(match(&l, q), FM_KILL_MEETS); /* 8 bytes in front of it are read */
	q = (struct params){0x5000, 0x4e00, 0x4e40, 5, 0x80};
	assert_int_equal(match(&l, q), FM_KILL_SAME);
	q = (struct params){0x5000, 0x4e01, 0x4e41, 5, 0x80};
	assert_int_equal(match(&l, q), FM_KILL_MEETS);
	/* The same memory; another distance; no memory at all. */
	q = (struct params){0x5000, 0x5000, 0x5040, 5, 0x80};
	assert_int_equal(match(&l, q), FM_KILL_MEETS);
	q = (struct params){0x10000, 0x20000, 0x20041, 5, 0x80};
	assert_int_equal(match(&l, q), FM_KILL_MEETS);
	q = (struct params){0x10000, 0, 0x40, 5, 0x80};
	assert_int_equal(match(&l, q), FM_KILL_MEETS);
	q = (struct params){0x10000, UINT64_MAX - 64, 0, 5, 0x80};
	assert_int_equal(match(&l, q), FM_KILL_MEETS);
	/* Other values. */
	q = p;
	q.five = 6;
	assert_int_equal(match(&l, q), FM_KILL_OTHER);
	q = p;
	q.last = 0x81;
	assert_int_equal(match(&l, q), FM_KILL_OTHER);
	assert_int_equal(fm_kill_match(&l, other, block, 16, &p, base), FM_KILL_OTHER);
	assert_int_equal(fm_kill_match(&l, grid, other, 16, &p, base), FM_KILL_OTHER);
	assert_int_equal(fm_kill_match(&l, grid, block, 0, &p, base), FM_KILL_OTHER);
	fm_kill_launch_free(&l);
}

static int load(struct fm_kill_list *l, const char *text, mode_t mode)
{
	char path[] = "/tmp/fermata-test-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	rc = fm_kill_load(l, path);
	unlink(path);
	return rc;
}

#define LINE(rest) "{\"key\":\"00\"," rest "}\n"
#define IDEMPOTENT "\"class\":\"idempotent\""

static void files(void **state)
{
	const struct fm_kill_launch *first;
	struct fm_kill_list l;

	assert_int_equal(load(&l,
				 "{\"v\":1,\"kernels\":2}\n" LINE("\"class\":\"never\"")
					 LINE(IDEMPOTENT ",\"kill\":[\"" TEXT "\",\"" TEXT "\"]"),
				 0600),
		0);
	assert_int_equal(l.n, 2);
	assert_int_equal(fm_kill_find(&l, HASH, NULL, &first), 2);
	assert_int_equal(fm_kill_find(&l, HASH, "k", &first), 2);
	assert_string_equal(first->name, "k");
	assert_int_equal(fm_kill_find(&l, HASH, "j", &first), 0);
	assert_int_equal(fm_kill_find(&l, "ffff", NULL, &first), 0);
	fm_kill_list_free(&l);
	assert_int_equal(load(&l, "{\"v\":1,\"kernels\":0}\n", 0600), 0);
	assert_int_equal(fm_kill_find(&l, HASH, NULL, &first), 0);
	fm_kill_list_free(&l);
	assert_int_equal(load(&l, "{\"v\":1,\"kernels\":0}\n", 0620), -EACCES);
	assert_int_equal(load(&l, "{\"v\":1,\"kernels\":0}\n", 0602), -EACCES);
	assert_int_equal(load(&l, "{\"v\":2,\"kernels\":0}\n", 0600), -EINVAL);
	assert_int_equal(load(&l, "{\"v\":1,\"kernels\":1}\n", 0600), -EINVAL);
	assert_int_equal(load(&l, "{\"v\":1,\"kernels\":0}\n" LINE(IDEMPOTENT), 0600), -EINVAL);
	assert_int_equal(load(&l,
				 "{\"v\":1,\"kernels\":1}\n" LINE(
					 "\"class\":\"group\",\"kill\":[\"" TEXT "\"]"),
				 0600),
		-EINVAL);
	assert_int_equal(
		load(&l, "{\"v\":1,\"kernels\":1}\n" LINE(IDEMPOTENT ",\"kill\":[\"" TEXT "\""),
			0600),
		-EINVAL);
	assert_int_equal(
		load(&l, "{\"v\":1,\"kernels\":1}\n" LINE(IDEMPOTENT ",\"kill\":[\"x\"]"), 0600),
		-EINVAL);
	assert_int_equal(
		load(&l, "{\"v\":1,\"kernels\":1}\n" LINE(IDEMPOTENT ",\"kill\":[]"), 0600),
		-EINVAL);
	assert_int_equal(fm_kill_load(&l, "/nonexistent"), -ENOENT);
	assert_int_equal(fm_kill_load(&l, "/tmp"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_and_back),
		cmocka_unit_test(bad_texts),
		cmocka_unit_test(same_launches),
		cmocka_unit_test(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
