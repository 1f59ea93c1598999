/* SPDX-License-Identifier: Apache-2.0 */
/* Traces and lists of keys as files: what they say, and what is refused with its line. */
#include "base/util.h"
#include "idem/idem.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* last */
#include <cmocka.h>

static int read_text(struct fm_idem_trace *t, const char *text, struct fm_err *err)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");
	int rc;

	assert_non_null(f);
	rc = fm_idem_read(t, f, "t", err);
	fclose(f);
	return rc;
}

#define HEAD                                                                                      \
	"{\"v\":1,\"alloc\":[{\"id\":1,\"base\":\"0x1000\",\"size\":16},{\"id\":2,\"base\":8192," \
	"\"size\":16}]}\n"
#define KERNEL(op, more) "{\"op\":" op ",\"queue\":0,\"kind\":\"kernel\",\"name\":\"k\"," more "}\n"

static void what_lines_say(void **state)
{
	static const char text[] =
		HEAD "{\"op\":3,\"queue\":7,\"kind\":\"memset\",\"w\":[[1,0,8]]}\n\n"
		     "{\"op\":5,\"queue\":7,\"kind\":\"kernel\",\"name\":\"add\",\"hash\":\"h\","
		     "\"grid\":[4],"
		     "\"block\":[32,2,1],\"r\":[[2,8,16],[2,0,8],[1,0,4]],\"w\":[[1,8,12]],\"k\":[["
		     "1,8,12]],"
		     "\"a\":[[1,0,8]],\"whatever\":1}\n"
		     "{\"op\":6,\"queue\":7,\"kind\":\"free\",\"w\":[[2,0,16]]}\n"
		     "{\"alloc\":[{\"id\":9,\"base\":8200,\"size\":4,\"visible\":true}]}\n"
		     "{\"op\":9,\"queue\":7,\"kind\":\"d2d\",\"r\":[[1,0,4]],\"w\":[[9,0,4]]}\n"
		     "{\"op\":10,\"queue\":7,\"kind\":\"kernel\",\"r\":[[9,0,4]],\"w\":[[1,8,9]]}";
	struct fm_idem_trace t;
	struct fm_err err = {0};
	int32_t start[5];

	assert_int_equal(read_text(&t, text, &err), 0);
	assert_int_equal(t.n_ops, 5);
	assert_int_equal(t.queue[0], 7);
	assert_int_equal(t.op[0].n[FM_IDEM_K], 1);
	assert_int_equal(t.op[1].op, 5);
	assert_int_equal(t.op[1].line, 4);
	assert_int_equal(t.op[1].flags, FM_IDEM_ATOMICS);
	assert_int_equal(t.op[1].n[FM_IDEM_R], 2);
	assert_int_equal(fm_idem_spans(&t, &t.op[1], FM_IDEM_R)[0].from, 0x1000);
	assert_int_equal(fm_idem_spans(&t, &t.op[1], FM_IDEM_R)[0].to, 0x1008);
	assert_int_equal(fm_idem_spans(&t, &t.op[1], FM_IDEM_R)[1].to, 8208);
	assert_int_equal(fm_idem_spans(&t, &t.op[1], FM_IDEM_W)[0].to, 0x100c);
	assert_int_equal(t.op[3].flags, FM_IDEM_VISIBLE);
	assert_int_equal(t.op[4].flags, FM_IDEM_VISIBLE);
	assert_string_equal(t.names + t.kernel[0].name, "add");
	assert_int_equal(t.kernel[0].block[1], 2);
	assert_int_equal(fm_idem_start(&t, FM_IDEM_FORWARD, start), 0);
	assert_int_equal(start[1], 0);
	assert_int_equal(start[3], FM_IDEM_NOT_AGAIN);
	fm_idem_trace_free(&t);
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} known[] = {
		{"\n", "t:2: there is no head"},
		{"[]\n", "t:1: is not an object"},
		{"{\"v\":2,\"alloc\":[]}\n", "t:1: v: is version 2"},
		{"{\"alloc\":[]}\n", "t:1: v: is missing"},
		{"{\"v\":1}\n", "t:1: alloc: is missing"},
		{"{\"v\":1,\"alloc\":[{\"id\":1,\"base\":\"x\",\"size\":1}]}\n", "base"},
		{"{\"v\":1,\"alloc\":[{\"id\":1,\"base\":\"0x8000000000000000\",\"size\":1}]}\n",
			"2^63"},
		{"{\"v\":1,\"alloc\":[{\"id\":1,\"base\":\"0x7fffffffffffffff\",\"size\":9}]}\n",
			"2^63"},
		{"{\"v\":1,\"alloc\":[{\"id\":1,\"base\":9223372036854775808,\"size\":1}]}\n",
			"t:1: column"},
		{"{\"v\":1,\"alloc\":[{\"id\":1,\"base\":0,\"size\":8},{\"id\":2,\"base\":7,"
		 "\"size\":8}]}\n",
			"alloc[1]: overlaps allocation 1"},
		{"{\"v\":1,\"alloc\":[{\"id\":1,\"base\":7,\"size\":8},{\"id\":2,\"base\":0,"
		 "\"size\":8}]}\n",
			"alloc[1]: overlaps allocation 1"},
		{"{\"v\":1,\"alloc\":[{\"id\":1,\"base\":0,\"size\":8},{\"id\":1,\"base\":9,"
		 "\"size\":8}]}\n",
			"is there already"},
		{HEAD "{\"op\":1,\"queue\":0,\"kind\":\"ker", "t:2: column"},
		{HEAD "{\"op\":1,\"op\":2}\n", "t:2: column"},
		{HEAD "{\"queue\":1}\n", "t:2: has neither"},
		{HEAD "{\"op\":1,\"queue\":0}\n", "t:2: kind: is missing"},
		{HEAD "{\"op\":1,\"queue\":0,\"kind\":\"dance\"}\n", "t:2: kind: is 'dance'"},
		{HEAD KERNEL("2", "\"r\":[]") KERNEL("2", "\"r\":[]"), "t:3: op: is not above"},
		{HEAD KERNEL("1", "\"r\":[[1,0,8],[1,4,12]]"),
			"t:2: r: has intervals that overlap"},
		{HEAD KERNEL("1", "\"r\":[[1,8,4]]"), "t:2: r[0]: ends where it begins"},
		{HEAD KERNEL("1", "\"r\":[[1,4,4]]"), "t:2: r[0]: ends where it begins"},
		{HEAD KERNEL("1", "\"w\":[[1,0,4],[1,8,17]]"), "t:2: w[1]: reaches beyond"},
		{HEAD KERNEL("1", "\"w\":[[1,0,9223372036854775807]]"),
			"t:2: w[0]: reaches beyond"},
		{HEAD KERNEL("1", "\"w\":[[1,0,9223372036854775808]]"), "t:2: column"},
		{HEAD KERNEL("1", "\"w\":[[1,-1,4]]"), "t:2: w[0]: "},
		{HEAD KERNEL("1", "\"w\":[[3,0,4]]"), "t:2: w[0]: is of an allocation that is not"},
		{HEAD KERNEL("1", "\"w\":[[1,0]]"), "t:2: w[0]: is not"},
		{HEAD KERNEL("1", "\"w\":3"), "t:2: w: is no array"},
		{HEAD KERNEL("1", "\"w\":[[1,0,4]],\"k\":[[1,0,5]]"), "t:2: k: has bytes"},
		{HEAD KERNEL("1", "\"r\":[[1,3,4]],\"w\":[[1,0,4]],\"k\":[[1,0,4]]"),
			"t:2: k: has bytes"},
		{HEAD KERNEL("1", "\"a\":[[1,3,4]],\"w\":[[1,0,4]],\"k\":[[1,0,4]]"),
			"t:2: k: has bytes"},
		{HEAD KERNEL("1", "\"flags\":[\"odd\"]"), "t:2: flags: has 'odd'"},
		{HEAD KERNEL("1", "\"grid\":[0]"), "t:2: grid"},
		{HEAD KERNEL("1", "\"hash\":7"), "t:2: hash"},
		{HEAD "{\"op\":1,\"queue\":0,\"kind\":\"free\",\"w\":[[1,0,16]]}\n" KERNEL(
			 "2", "\"r\":[[1,0,4]]"),
			"t:3: r[0]: is of an allocation that has been freed"},
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++) {
		struct fm_idem_trace t;
		struct fm_err err = {0};

		assert_int_equal(read_text(&t, known[i].text, &err), -EINVAL);
		if (!strstr(err.text, known[i].says) || strncmp(err.text, "t:", 2))
			fail_msg("%zu: %s, not %s", i, err.text, known[i].says);
		assert_true(err.hint[0]);
		assert_null(t.op);
	}
}

static void lines_have_an_end(void **state)
{
	char *text = malloc(FM_IDEM_LINE + 64);
	struct fm_idem_trace t;
	struct fm_err err = {0};

	memset(text, ' ', FM_IDEM_LINE + 63);
	text[FM_IDEM_LINE + 63] = '\0';
	assert_int_equal(read_text(&t, text, &err), -EINVAL);
	assert_non_null(strstr(err.text, "t:1: is longer than 16 MiB"));
	free(text);
}

/* What lies elsewhere is the same kernel; what aliases otherwise is not. */
static void keys(void **state)
{
	static const char text[] = HEAD KERNEL(
		"1", "\"r\":[[1,0,4]],\"w\":[[2,0,4]],\"k\":[[2,0,4]]") KERNEL("2",
		"\"r\":[[2,8,12]],\"w\":[[1,12,16]],\"k\":[[1,12,16]]") KERNEL("3",
		"\"r\":[[1,0,4]],\"w\":[[1,0,4]]") KERNEL("4",
		"\"r\":[[1,0,4]],\"w\":[[1,2,6]],\"k\":[[1,4,6]]") KERNEL("5",
		"\"grid\":[2],\"r\":[[1,0,4]],\"w\":[[2,0,4]],\"k\":[[2,0,4]]") KERNEL("6",
		"\"hash\":\"other\",\"r\":[[1,0,4]],\"w\":[[2,0,4]],\"k\":[[2,0,4]]")
		KERNEL("7", "\"scalars\":\"01\",\"r\":[[1,0,4]],\"w\":[[2,0,4]],\"k\":[[2,0,4]]")
			KERNEL("8", "\"flags\":[\"dynamic\"],\"r\":[[1,0,4]]")
				KERNEL("9", "\"flags\":[\"dynamic\"],\"r\":[[1,0,8]]");
	struct fm_idem_trace t;

	assert_int_equal(read_text(&t, text, NULL), 0);
	assert_int_equal(t.op[0].kernel, t.op[1].kernel);
	assert_int_equal(t.op[7].kernel, t.op[8].kernel);
	assert_int_equal(t.n_kernels, 7);
	fm_idem_trace_free(&t);
}

/* --- lists --- */

static char *list_text(size_t *size)
{
	static const char text[] =
		HEAD KERNEL("1", "\"hash\":\"h\",\"r\":[[1,0,4]],\"w\":[[2,0,4]],\"k\":[[2,0,4]]")
			KERNEL("2", "\"r\":[[2,0,4]],\"w\":[[2,0,4]]")
				KERNEL("3", "\"r\":[[1,0,4]],\"w\":[[1,0,4]]");
	struct fm_idem_trace t;
	struct fm_idem_report r;
	int32_t start[3];
	char *to = NULL;
	FILE *f = open_memstream(&to, size);

	assert_int_equal(read_text(&t, text, NULL), 0);
	assert_int_equal(fm_idem_start(&t, FM_IDEM_FORWARD, start), 0);
	assert_int_equal(fm_idem_judge(&t, start, &r), 0);
	assert_int_equal(fm_idem_print(f, &r), 0);
	fclose(f);
	fm_idem_report_free(&r);
	fm_idem_trace_free(&t);
	return to;
}

static void lists_are_read(void **state)
{
	struct fm_idem_list l;
	struct fm_err err = {0};
	size_t size;
	char *text = list_text(&size);
	uint8_t other[FM_HASH_BYTES] = {0};

	assert_int_equal(fm_idem_parse(&l, "l", text, size, &err), 0);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.kernel[0].hash, "h");
	assert_int_equal(l.kernel[0].class, FM_IDEM_IDEMPOTENT);
	assert_int_equal(l.kernel[1].class, FM_IDEM_NEVER);
	assert_int_equal(l.kernel[1].launches, 2);
	for (size_t i = 0; i < l.n; i++)
		assert_ptr_equal(fm_idem_find(&l, l.kernel[i].key), &l.kernel[i]);
	assert_null(fm_idem_find(&l, other));
	fm_idem_list_free(&l);
	for (size_t cut = 0; cut < size - 1; cut++) {
		assert_int_equal(fm_idem_parse(&l, "l", text, cut, &err), -EINVAL);
		assert_int_equal(strncmp(err.text, "l:", 2), 0);
		assert_null(l.kernel);
	}
	free(text);
}

static void lists_are_refused(void **state)
{
	static const struct {
		const char *from, *to, *says;
	} known[] = {
		{"{\"v\":1,", "{\"v\":2,", "l:1: v: is version 2"},
		{"\"kernels\":2", "\"kernels\":1", "l:3: is one more"},
		{"\"kernels\":2", "\"kernels\":3", "it ends behind 2 of 3"},
		{"\"kernels\":2", "\"kernels\":99999999", "l:1: kernels"},
		{"\"class\":\"never\"", "\"class\":\"often\"", "l:3: class"},
		{"\"class\":\"never\"", "\"class\":\"idempotent\"", "l:3: "},
		{"\"why\":\"it reads", "\"why\":\"he reads", "l:2: why"},
		{"\"key\":\"", "\"key\":\"x", "l:2: key"},
		{"\"size\":1", "\"size\":2", "l:2: "},
	};
	size_t size;
	char *text = list_text(&size);

	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++) {
		char *at = strstr(text, known[i].from), *bad;
		struct fm_idem_list l;
		struct fm_err err = {0};

		assert_non_null(at);
		assert_true(asprintf(&bad, "%.*s%s%s", (int)(at - text), text, known[i].to,
				    at + strlen(known[i].from)) > 0);
		assert_int_equal(fm_idem_parse(&l, "l", bad, strlen(bad), &err), -EINVAL);
		if (!strstr(err.text, known[i].says))
			fail_msg("%zu: %s, not %s", i, err.text, known[i].says);
		free(bad);
	}
	free(text);
}

/* No list is written that nobody can read. */
static void lists_have_an_end(void **state)
{
	char name[4001], *text;
	struct fm_idem_report r = {.n = 5000};
	size_t size;
	FILE *f = open_memstream(&text, &size);

	memset(name, 'n', 4000);
	name[4000] = '\0';
	r.kernel = calloc(r.n, sizeof(*r.kernel));
	assert_non_null(f);
	assert_non_null(r.kernel);
	for (size_t i = 0; i < r.n; i++)
		r.kernel[i] = (struct fm_idem_verdict){.name = name,
			.hash = "",
			.grid = {1, 1, 1},
			.block = {1, 1, 1},
			.launches = 1,
			.size = 1};
	assert_int_equal(fm_idem_print(f, &r), -E2BIG);
	r.n = 3000;
	assert_int_equal(fm_idem_print(f, &r), 0);
	fclose(f);
	free(r.kernel);
	free(text);
}

static void lists_of_others(void **state)
{
	char path[] = "/tmp/fermata-idem-XXXXXX";
	int fd = mkstemp(path);
	size_t size;
	char *text = list_text(&size);
	struct fm_idem_list l;
	struct fm_err err = {0};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), size);
	assert_int_equal(fm_idem_list_load(&l, path, &err), 0);
	assert_int_equal(l.n, 2);
	fm_idem_list_free(&l);
	assert_int_equal(fchmod(fd, 0620), 0);
	assert_int_equal(fm_idem_list_load(&l, path, &err), -EACCES);
	assert_non_null(strstr(err.text, "written by others"));
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(ftruncate(fd, (off_t)FM_IDEM_FILE + 4096), 0);
	assert_int_equal(fm_idem_list_load(&l, path, &err), -EINVAL);
	assert_non_null(strstr(err.text, "larger than 16 MiB"));
	if (!geteuid() && !fchown(fd, 1234, 1234)) {
		assert_int_equal(fm_idem_list_load(&l, path, &err), -EACCES);
		assert_non_null(strstr(err.text, "belongs to another"));
	}
	close(fd);
	unlink(path);
	assert_int_equal(fm_idem_list_load(&l, path, &err), -ENOENT);
	assert_int_equal(fm_idem_list_load(&l, "/tmp", &err), -EINVAL);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_lines_say),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(lines_have_an_end),
		cmocka_unit_test(keys),
		cmocka_unit_test(lists_are_read),
		cmocka_unit_test(lists_are_refused),
		cmocka_unit_test(lists_have_an_end),
		cmocka_unit_test(lists_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
