/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of fermata top share: replies as the daemon writes them, and a look at the screen. */
#pragma once
#include "base/clock.h"
#include "base/util.h"
#include "top/top.h"
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define GIB  (1LL << 30)
#define EVIL "\\u001b[31mx\\u0007\\u009b2J\\u202e\\u0301\\n"

static inline json_t *parse(const char *fmt, ...)
{
	char text[8192];
	json_error_t e;
	json_t *v;
	va_list ap;

	va_start(ap, fmt);
	assert_true(vsnprintf(text, sizeof(text), fmt, ap) < (int)sizeof(text));
	va_end(ap);
	v = json_loads(text, 0, &e);
	if (!v)
		fail_msg("%s: %s", text, e.text);
	return v;
}

/* A group on gpu:0 as the model wants it. */
static inline const char *group(char *buf, size_t size, const char *name, int uid,
	const char *state, double device_ms, double wait_ms, int preemptions)
{
	snprintf(buf, size,
		"[\"%s\",%d,\"u%d\",%s,%d,1,\"q%d\",2,3,"
		"[[\"gpu:0\",\"%s\",%.0f,%.0f,%d,9,150000,2500000]]]",
		name, uid, uid, strcmp(state, "suspended") ? "false" : "true", uid % 7, uid, state,
		device_ms * 1e6, wait_ms * 1e6, preemptions);
	return buf;
}

static char passwd[64]; /* a file with the users u1 and u2 */

static json_t *ps(double at_ms, int preemptions, const char *groups)
{
	return parse(
		"{\"ok\":true,\"at_ms\":%f,\"policy\":{\"name\":\"fair\",\"params\":{\"slice\":"
		"\"2ms\"}},\"devices\":[{\"key\":\"gpu:0\",\"preemptions\":%d,\"preempt_us\":{"
		"\"count\":4,\"p50\":50.0,\"p99\":90.5,\"max\":100}}],\"groups\":[%s]}",
		at_ms, preemptions, groups);
}

/* Two groups, n seconds after they began: a has three quarters of the device, b the rest. */
static inline json_t *pair(double n)
{
	char a[1024], b[1024], both[2049];

	group(a, sizeof(a), "a", 1, "running", 750 * n, 100 * n, (int)(10 * n));
	group(b, sizeof(b), "b", 2, "ready", 250 * n, 700 * n, (int)(30 * n));
	snprintf(both, sizeof(both), "%s,%s", b, a);
	return ps(1e3 * (n + 1), (int)(40 * n), both);
}

static inline void near(double value, double expected)
{
	if (!(fabs(value - expected) < 1e-6))
		fail_msg("%f is not %f", value, expected);
}

/* The view. */

/* As the daemon sends it: a page, whose rows lack the user's name. */
static inline json_t *page(json_t *reply, json_int_t next)
{
	json_t *rows = json_object_get(reply, "groups"), *row;
	size_t i;

	json_array_foreach (rows, i, row)
		json_array_remove(row, 2);
	json_object_set(reply, "items", rows);
	json_object_del(reply, "groups");
	json_object_set_new(reply, "next", next ? json_integer(next) : json_null());
	return reply;
}

static inline void give(struct top *t, json_t *reply, json_t *tasks)
{
	struct top_request r = {.about = TOP_PAGE, .walk = t->walk.number};

	top_reply(t, &r, page(reply, 0), 0);
	r.about = TOP_TASKS;
	top_reply(t, &r, tasks ? tasks : parse("{\"ok\":true,\"tasks\":[]}"), 0);
}

static inline void set_up(struct top *t, int rows, int columns)
{
	top_init(t);
	t->passwd = passwd;
	assert_int_equal(top_grid_resize(&t->grid, rows, columns), 0);
	give(t, pair(1), NULL);
	give(t, pair(2), NULL);
}

/* As the last of a row, which otherwise ends before the time and the misses. */
static inline void add_memory(json_t *reply, size_t i, json_t *rows)
{
	json_t *row = json_array_get(json_object_get(reply, "groups"), i);

	json_array_append_new(row, json_integer(0));
	json_array_append_new(row, json_null());
	json_array_append_new(row, rows);
}

/* The two groups have memory; b also of a device without queues. */
static inline json_t *with_memory(json_t *reply)
{
	add_memory(reply, 0,
		parse("[[\"gpu:0\",%lld,%lld,%lld,0,0],[\"gpu:9\",%lld,%lld,0,%lld,%lld]]",
			80 * GIB, 20 * GIB, 20 * GIB, 40 * GIB, 5 * GIB, 5 * GIB, 8 * GIB));
	add_memory(reply, 1,
		parse("[[\"gpu:0\",%lld,%lld,%lld,%lld,%lld]]", 80 * GIB, 48 * GIB, 40 * GIB,
			8 * GIB, 64 * GIB));
	return reply;
}

static inline void line_is(const struct top *t, int row, const char *expected)
{
	char *line = top_grid_line(&t->grid, row);

	assert_string_equal(line, expected);
	free(line);
}

static inline bool screen_has(const struct top *t, const char *text)
{
	bool found = false;

	for (int row = 0; row < t->grid.rows; row++) {
		char *line = top_grid_line(&t->grid, row);

		found = found || strstr(line, text);
		free(line);
	}
	return found;
}

/* What is in the queue of requests, as JSON. */
static inline void asks(struct top *t, enum top_about about, const char *expected)
{
	struct top_request r;
	char *text;

	assert_true(top_next_request(t, &r));
	assert_int_equal(r.about, about);
	text = json_dumps(r.body, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text, expected);
	free(text);
	top_request_free(&r);
}

static inline void asks_nothing(struct top *t)
{
	assert_int_equal(t->requests, 0);
}

static inline void answer(struct top *t, json_t *reply)
{
	struct top_request r;

	assert_true(top_next_request(t, &r));
	top_reply(t, &r, reply, 0);
	top_request_free(&r);
}

static inline json_t *one(const char *name, double n)
{
	char g[1024];

	return ps(1e3 * n, 0, group(g, sizeof(g), name, 1, "running", 500 * n, 0, 0));
}

static inline int make_users(void **state)
{
	FILE *f;

	snprintf(passwd, sizeof(passwd), "/tmp/fermata-test-top-%d", (int)getpid());
	f = fopen(passwd, "we");
	if (!f)
		return -1;
	fputs("u1:x:1:1::/:/bin/sh\nu2:x:2:2::/:/bin/sh\n", f);
	return fclose(f);
}

static inline int remove_users(void **state)
{
	return unlink(passwd);
}

#define RUN_TOP(tests) \
	(setlocale(LC_CTYPE, "C.UTF-8"), cmocka_run_group_tests(tests, make_users, remove_users))
