/* SPDX-License-Identifier: Apache-2.0 */
/* fermata top without a terminal and without a daemon: rates, order, what keys ask for, what the
 * screen shows. Replies are written here as the daemon writes them. */
#include "base/clock.h"
#include "base/util.h"
#include "cli/top.h"
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define EVIL "\\u001b[31mx\\u0007\\u009b2J\\u202e\\u0301\\n"

static json_t *parse(const char *fmt, ...)
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
static const char *group(char *buf, size_t size, const char *name, int uid, const char *state,
	double device_ms, double wait_ms, int preemptions)
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
static json_t *pair(double n)
{
	char a[1024], b[1024], both[2049];

	group(a, sizeof(a), "a", 1, "running", 750 * n, 100 * n, (int)(10 * n));
	group(b, sizeof(b), "b", 2, "ready", 250 * n, 700 * n, (int)(30 * n));
	snprintf(both, sizeof(both), "%s,%s", b, a);
	return ps(1e3 * (n + 1), (int)(40 * n), both);
}

static void near(double value, double expected)
{
	if (!(fabs(value - expected) < 1e-6))
		fail_msg("%f is not %f", value, expected);
}

static void rates_are_what_happened_between(void **state)
{
	struct top_model m = {0};
	const struct top_group *a;

	assert_int_equal(top_model_take(&m, pair(1), NULL, FM_S, 0), 0);
	near(m.seconds, 0);
	assert_int_equal(m.now.groups, 2);
	assert_int_equal(top_model_take(&m, pair(3), NULL, 3 * FM_S, 0), 0);
	near(m.seconds, 2);
	a = top_model_find(&m, 1, "a");
	assert_non_null(a);
	near(a->n.share, 0.75);
	near(a->n.waited, 0.1);
	near(a->n.preempt_s, 10);
	near(a->n.device_ms, 2250);
	near(a->n.p50_us, 150);
	near(a->n.p99_us, 2500);
	assert_int_equal(a->level_min, 2);
	assert_int_equal(a->level_max, 3);
	near(m.now.device[0].share, 1);
	near(m.now.device[0].preempt_s, 40);
	near(m.now.device[0].p99_us, 90.5);
	assert_int_equal(m.now.device[0].groups, 2);
	assert_int_equal(m.now.device[0].ready, 1);
	assert_null(top_model_find(&m, 2, "a"));
	top_model_clear(&m);
}

static void who_joins_begins_at_nothing_and_who_falls_is_new(void **state)
{
	struct top_model m = {0};
	char a[1024], b[1024], both[2049];

	group(a, sizeof(a), "a", 1, "running", 5000, 0, 50);
	assert_int_equal(top_model_take(&m, ps(1, 0, a), NULL, FM_S, 0), 0);
	group(a, sizeof(a), "a", 1, "running", 100, 0, 2); /* another one of that name */
	group(b, sizeof(b), "b", 1, "ready", 500, 200, 4);
	snprintf(both, sizeof(both), "%s,%s", a, b);
	assert_int_equal(top_model_take(&m, ps(2, 0, both), NULL, 2 * FM_S, 0), 0);
	near(top_model_find(&m, 1, "a")->n.share, 0);
	near(top_model_find(&m, 1, "a")->n.preempt_s, 0);
	near(top_model_find(&m, 1, "b")->n.share, 0.5);
	near(top_model_find(&m, 1, "b")->n.waited, 0.2);
	top_model_clear(&m);
}

/* A key is answered by a look out of turn: rates still are of an interval. */
static void looks_out_of_turn_keep_the_base(void **state)
{
	static const double at[] = {1, 2, 2.001, 2.002, 3};
	static const double seconds[] = {0, 1, 1.001, 1.002, 1};
	struct top_model m = {0};

	for (size_t i = 0; i < FM_ARRAY_LEN(at); i++) {
		uint64_t now = (uint64_t)llround(at[i] * 1e9);

		assert_int_equal(top_model_take(&m, pair(at[i]), NULL, now, FM_S / 2), 0);
		near(m.seconds, seconds[i]);
	}
	/* And when there are many of them the base follows. */
	for (int i = 1; i <= 100; i++) {
		double t = 3 + i * 0.1;

		top_model_take(&m, pair(t), NULL, (uint64_t)llround(t * 1e9), FM_S / 2);
		assert_true(m.seconds >= 0.499 && m.seconds < 1.5);
		near(top_model_find(&m, 1, "a")->n.share, 0.75);
	}
	top_model_clear(&m);
}

static void several_devices_are_summed(void **state)
{
	static const char text[] =
		"{\"ok\":true,\"devices\":[{\"key\":\"x\"},{\"key\":\"y\"}],\"groups\":[[\"g\",0,"
		"\"root\",false,0,0,null,0,0,[[\"x\",\"%s\",%d,0,0,1,3000,5000],[\"y\","
		"\"suspended\",%d,0,0,0,7000,7000],[\"nowhere\",\"idle\",1]]]]}";
	struct top_model m = {0};
	const struct top_group *g;

	assert_int_equal(top_model_take(&m, parse(text, "ready", 0, 0), NULL, 0, 0), 0);
	assert_int_equal(
		top_model_take(&m, parse(text, "ready", 1000000000, 500000000), NULL, FM_S, 0), 0);
	g = top_model_find(&m, 0, "g");
	near(g->n.share, 1.5);
	near(g->n.p99_us, 5);
	assert_int_equal(g->ents, 2);
	assert_int_equal(g->state, TOP_READY); /* suspended on one alone: over a budget there */
	assert_null(g->queue);
	near(m.now.device[1].share, 0.5);
	top_model_take(&m, parse(text, "suspended", 1000000000, 500000000), NULL, 2 * FM_S, 0);
	assert_int_equal(top_model_find(&m, 0, "g")->state, TOP_SUSPENDED);
	top_model_clear(&m);
}

static void misses_come_from_tasks_of_the_same_user(void **state)
{
	struct top_model m = {0};
	json_t *tasks = parse(
		"{\"ok\":true,\"tasks\":[{\"group\":\"a\",\"uid\":1,\"misses\":3,\"overruns\":1},"
		"{\"group\":\"a\",\"uid\":1,\"misses\":2},{\"group\":\"b\",\"uid\":1,\"misses\":9},"
		"{\"group\":null,\"uid\":1,\"misses\":9}]}");

	assert_int_equal(top_model_take(&m, pair(1), tasks, FM_S, 0), 0);
	assert_true(top_model_find(&m, 1, "a")->tasks);
	near(top_model_find(&m, 1, "a")->misses, 5);
	near(top_model_find(&m, 1, "a")->overruns, 1);
	assert_false(top_model_find(&m, 2, "b")->tasks);
	top_model_clear(&m);
}

static void order_is_by_what_was_chosen(void **state)
{
	static const struct {
		enum top_sort sort;
		bool reverse;
		const char *first;
	} cases[] = {
		{TOP_BY_SHARE, false, "a"}, {TOP_BY_SHARE, true, "b"}, {TOP_BY_TIME, false, "a"},
		{TOP_BY_NAME, false, "a"}, {TOP_BY_NAME, true, "b"}, {TOP_BY_USER, true, "b"},
		{TOP_BY_PRIORITY, false, "b"}, {TOP_BY_STATE, false, "a"},
		{TOP_BY_WAIT, false, "b"}, {TOP_BY_PREEMPT, false, "b"},
		{TOP_BY_P99, false, "a"}, /* equals: by device time */
	};
	const struct top_group **list;
	struct top_model m = {0};
	enum top_sort sort;
	size_t n;

	top_model_take(&m, pair(1), NULL, FM_S, 0);
	top_model_take(&m, pair(2), NULL, 2 * FM_S, 0);
	for (size_t i = 0; i < FM_ARRAY_LEN(cases); i++) {
		assert_int_equal(
			top_model_order(&m, cases[i].sort, cases[i].reverse, NULL, &list, &n), 0);
		assert_int_equal(n, 2);
		assert_string_equal(list[0]->name, cases[i].first);
		free(list);
	}
	assert_int_equal(top_model_order(&m, TOP_BY_SHARE, false, "u2", &list, &n), 0);
	assert_int_equal(n, 1);
	assert_string_equal(list[0]->name, "b");
	free(list);
	for (enum top_sort s = 0; s < TOP_SORTS; s++) {
		assert_int_equal(top_sort_parse(top_sort_name(s), &sort), 0);
		assert_int_equal(sort, s);
	}
	assert_int_equal(top_sort_parse("colour", &sort), -EINVAL);
	top_model_clear(&m);
}

static void json_has_null_for_what_is_not_known(void **state)
{
	struct top_model m = {0};
	json_t *o, *g;

	top_model_take(&m, pair(1), NULL, FM_S, 0);
	o = top_model_json(&m, TOP_BY_SHARE, false, NULL);
	assert_true(json_is_null(json_object_get(o, "interval_s")));
	g = json_array_get(json_object_get(o, "groups"), 0);
	assert_true(json_is_null(json_object_get(g, "share")));
	assert_true(json_is_null(json_object_get(g, "deadline_misses")));
	near(json_number_value(json_object_get(g, "wait_p99_us")), 2500);
	json_decref(o);
	top_model_take(&m, pair(2), NULL, 2 * FM_S, 0);
	o = top_model_json(&m, TOP_BY_SHARE, false, "u1");
	assert_int_equal(json_array_size(json_object_get(o, "groups")), 1);
	g = json_array_get(json_object_get(o, "groups"), 0);
	near(json_number_value(json_object_get(g, "share")), 0.75);
	near(json_number_value(json_object_get(g, "preemptions_per_s")), 10);
	json_decref(o);
	top_model_clear(&m);
}

/* The view. */

/* As the daemon sends it: a page, whose rows lack the user's name. */
static json_t *page(json_t *reply, json_int_t next)
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

static void give(struct top *t, json_t *reply, json_t *tasks)
{
	struct top_request r = {.about = TOP_PAGE, .walk = t->walk.number};

	top_reply(t, &r, page(reply, 0), 0);
	r.about = TOP_TASKS;
	top_reply(t, &r, tasks ? tasks : parse("{\"ok\":true,\"tasks\":[]}"), 0);
}

static void set_up(struct top *t, int rows, int columns)
{
	top_init(t);
	t->passwd = passwd;
	assert_int_equal(top_grid_resize(&t->grid, rows, columns), 0);
	give(t, pair(1), NULL);
	give(t, pair(2), NULL);
}

static void line_is(const struct top *t, int row, const char *expected)
{
	char *line = top_grid_line(&t->grid, row);

	assert_string_equal(line, expected);
	free(line);
}

static bool screen_has(const struct top *t, const char *text)
{
	bool found = false;

	for (int row = 0; row < t->grid.rows; row++) {
		char *line = top_grid_line(&t->grid, row);

		found = found || strstr(line, text);
		free(line);
	}
	return found;
}

static void screen_at_80x24(void **state)
{
	struct top t;

	set_up(&t, 24, 80);
	top_draw(&t);
	line_is(&t, 0,
		"fermata fair slice=2ms                                     2 groups, 1 waits  1s");
	line_is(&t, 1,
		"gpu:0  [#######################=======] 100.0%   40.0 preempt/s  stop P99   90us");
	line_is(&t, 2,
		"  GROUP USER     PRIO STATE     LVL  DEV%     TIME PRE/S    P50    P99 MISS");
	line_is(&t, 3,
		"# a     u1          1 running   2-3  75.0   1.50 s  10.0  150us 2.50ms    -");
	line_is(&t, 4,
		"= b     u2          2 ready     2-3  25.0 500.0 ms  30.0  150us 2.50ms    -");
	line_is(&t, 5, "");
	line_is(&t, 23, "q quit  ? help  +/- priority  s suspend  r resume  P policy  Enter more");
	top_free(&t);
}

static void narrow_screens_keep_what_matters(void **state)
{
	struct top t;

	set_up(&t, 10, 40);
	top_draw(&t);
	line_is(&t, 0, "fermata fair slic~ 2 groups, 1 waits  1s");
	line_is(&t, 2, "  GROUP PRIO STATE      DEV%    P99 MISS");
	line_is(&t, 3, "# a        1 running    75.0 2.50ms    -");
	top_free(&t);
	set_up(&t, 24, 300);
	top_draw(&t);
	assert_true(screen_has(&t, "MISS   Q"));
	top_free(&t);
}

/* Every size, every panel: nothing outside of the grid (ASan sees), and nothing but its cells. */
static void any_size_will_do(void **state)
{
	static const char keys[] = "?qoqRup1\033d2\033";
	struct top t;

	for (int rows = 0; rows < 14; rows++)
		for (int columns = 0; columns < 90; columns += columns < 12 ? 1 : 13) {
			set_up(&t, rows, columns);
			top_draw(&t);
			for (size_t k = 0; keys[k]; k++) {
				top_press(&t, keys[k] == '\033' ? TOP_KEY_ESCAPE : keys[k]);
				top_draw(&t);
			}
			top_press(&t, TOP_KEY_ENTER);
			top_draw(&t);
			top_lost(&t, "nobody is there");
			top_draw(&t);
			top_free(&t);
		}
}

static void no_control_reaches_the_screen(void **state)
{
	char g[2048];
	struct top t;

	for (int utf8 = 0; utf8 < 2; utf8++) {
		top_init(&t);
		t.grid.utf8 = utf8;
		top_grid_resize(&t.grid, 24, 80);
		give(&t, ps(1, 0, group(g, sizeof(g), EVIL, 1, "running", 1, 1, 1)), NULL);
		top_press(&t, 's');
		top_say(&t, true,
			"\033]0;title\007 \xff\xfe \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80");
		top_draw(&t);
		for (int i = 0; i < t.grid.rows * t.grid.columns; i++) {
			wchar_t c = t.grid.cell[i].ch;

			assert_true(c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0));
			assert_true(c != 0x202e && c != 0x301 && c < 0x110000);
		}
		assert_true(screen_has(&t, "?[31mx??2J???"));
		assert_true(screen_has(&t, "?]0;title? ?? ?? ??? ????"));
		top_free(&t);
	}
}

static void wide_characters_take_their_room(void **state)
{
	struct top_grid g = {.utf8 = true};

	top_grid_resize(&g, 1, 10);
	assert_int_equal(top_grid_width(&g, "\u4e16\u754c"), 4);
	assert_int_equal(top_grid_text(&g, 0, 0, 4, 0, "\u4e16\u754c"), 4);
	assert_int_equal(top_grid_text(&g, 0, 5, 4, 0, "\u4e16\u754c\u4e16"), 3);
	assert_int_equal(g.cell[1].ch, 0);
	assert_int_equal(g.cell[7].ch, L'~');
	g.utf8 = false;
	assert_int_equal(top_grid_width(&g, "\u4e16\u754c"), 2);
	top_grid_free(&g);
}

static void hundred_groups(struct top *t)
{
	static char all[64 * 1024];
	char one[1024];
	size_t n = 0;

	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "g%02d", i);
		group(one, sizeof(one), name, i + 1, "idle", 1000 - i, 0, 0);
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? "," : "", one);
	}
	top_init(t);
	top_grid_resize(&t->grid, 24, 80);
	json_t *devices = parse("{\"ok\":true,\"devices\":[{\"key\":\"gpu:0\"}]}");
	json_t *groups = NULL;
	char *text = NULL;

	assert_true(asprintf(&text, "[%s]", all) > 0);
	groups = json_loads(text, 0, NULL);
	free(text);
	json_object_set_new(devices, "groups", groups);
	give(t, devices, NULL);
}

static void the_selected_stays_in_sight(void **state)
{
	struct top t;

	hundred_groups(&t);
	top_draw(&t);
	assert_true(screen_has(&t, "g00") && screen_has(&t, "g19"));
	assert_false(screen_has(&t, "g20 "));
	for (int i = 0; i < 25; i++)
		top_press(&t, TOP_KEY_DOWN);
	top_draw(&t);
	assert_string_equal(top_selected(&t)->name, "g25");
	assert_true(screen_has(&t, "g25 "));
	assert_false(screen_has(&t, "g00 "));
	top_press(&t, TOP_KEY_END);
	top_draw(&t);
	assert_true(screen_has(&t, "g99"));
	top_press(&t, TOP_KEY_PAGE_UP);
	assert_string_equal(top_selected(&t)->name, "g79");
	top_press(&t, TOP_KEY_HOME);
	top_press(&t, TOP_KEY_PAGE_DOWN);
	assert_string_equal(top_selected(&t)->name, "g20");
	/* The order changes, and the selection stays with its group. */
	top_press(&t, 'R');
	assert_string_equal(top_selected(&t)->name, "g20");
	top_draw(&t);
	assert_true(screen_has(&t, "g20 "));
	top_free(&t);
}

/* What is in the queue of requests, as JSON. */
static void asks(struct top *t, enum top_about about, const char *expected)
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

static void asks_nothing(struct top *t)
{
	assert_int_equal(t->requests, 0);
}

static void keys_steer_the_selected_group(void **state)
{
	struct top t;

	set_up(&t, 24, 80);
	top_press(&t, '+');
	asks(&t, TOP_CHANGE, "{\"cmd\":\"hint\",\"hints\":{\"priority\":2},\"target\":\"q1\"}");
	top_press(&t, '+'); /* before the first is answered */
	asks(&t, TOP_CHANGE, "{\"cmd\":\"hint\",\"hints\":{\"priority\":3},\"target\":\"q1\"}");
	top_press(&t, '-');
	asks(&t, TOP_CHANGE, "{\"cmd\":\"hint\",\"hints\":{\"priority\":2},\"target\":\"q1\"}");
	top_press(&t, TOP_KEY_DOWN);
	top_press(&t, '-');
	asks(&t, TOP_CHANGE, "{\"cmd\":\"hint\",\"hints\":{\"priority\":1},\"target\":\"q2\"}");
	top_press(&t, 's');
	asks(&t, TOP_CHANGE, "{\"cmd\":\"suspend\",\"target\":\"q2\"}");
	top_press(&t, 'r');
	asks(&t, TOP_CHANGE, "{\"cmd\":\"resume\",\"target\":\"q2\"}");
	top_press(&t, 'p');
	for (const char *k = "-1x7"; *k; k++)
		top_press(&t, *k);
	top_press(&t, TOP_KEY_ENTER);
	asks_nothing(&t);
	top_draw(&t);
	line_is(&t, 23, "a priority is a number from -255 to 255");
	top_press(&t, 'p');
	for (const char *k = "-17"; *k; k++)
		top_press(&t, *k);
	top_press(&t, TOP_KEY_BACKSPACE);
	top_press(&t, TOP_KEY_ENTER);
	asks(&t, TOP_CHANGE, "{\"cmd\":\"hint\",\"hints\":{\"priority\":-1},\"target\":\"q2\"}");
	asks_nothing(&t);
	top_free(&t);
}

static void answer(struct top *t, json_t *reply)
{
	struct top_request r;

	assert_true(top_next_request(t, &r));
	top_reply(t, &r, reply, 0);
	top_request_free(&r);
}

static void changes_are_seen_and_refusals_are_told(void **state)
{
	char g[1024];
	struct top t;

	set_up(&t, 24, 80);
	top_press(&t, 's');
	answer(&t, parse("{\"ok\":true,\"groups\":[\"a\"]}"));
	top_draw(&t);
	line_is(&t, 23, "a is suspended");
	asks(&t, TOP_PAGE, "{\"after\":0,\"cmd\":\"metrics\",\"part\":\"rows\"}");
	asks(&t, TOP_TASKS, "{\"cmd\":\"tasks\"}");
	give(&t, ps(1, 0, group(g, sizeof(g), "a", 1, "suspended", 1, 1, 1)), NULL);
	top_press(&t, 's');
	asks(&t, TOP_CHANGE, "{\"cmd\":\"resume\",\"target\":\"q1\"}");
	top_press(&t, 's');
	answer(&t, parse("{\"ok\":false,\"error\":{\"code\":\"EPERM\",\"text\":\"'q1' belongs to "
			 "another "
			 "user\",\"hint\":\"ask its owner\"}}"));
	top_draw(&t);
	line_is(&t, 23, "'q1' belongs to another user: ask its owner");
	top_free(&t);
}

static json_t *one(const char *name, double n)
{
	char g[1024];

	return ps(1e3 * n, 0, group(g, sizeof(g), name, 1, "running", 500 * n, 0, 0));
}

static void a_look_is_of_all_pages_and_of_no_other(void **state)
{
	struct top_request first, tasks, second, old = {0};
	struct top t;

	set_up(&t, 24, 80);
	top_look(&t);
	assert_true(top_next_request(&t, &first) && top_next_request(&t, &tasks));
	assert_false(top_reply(&t, &first, page(one("x", 3), 7), 0));
	top_reply(&t, &tasks, parse("{\"ok\":true,\"tasks\":[]}"), 0);
	assert_string_equal(t.list[0]->name, "a"); /* what is not whole is not shown */
	assert_true(top_next_request(&t, &second));
	assert_int_equal(json_integer_value(json_object_get(second.body, "after")), 7);
	assert_true(top_reply(&t, &second, page(one("y", 3), 0), 0));
	assert_int_equal(t.groups, 2);
	assert_string_equal(t.list[0]->name, "x");
	assert_string_equal(t.list[1]->user, "u1");
	top_request_free(&first);
	top_request_free(&tasks);
	asks_nothing(&t);
	/* A number that does not rise is no other page. */
	top_reply(&t, &second, page(one("z", 4), 7), 0);
	top_request_free(&second);
	asks_nothing(&t);
	assert_int_equal(t.groups, 1);
	/* Replies to a look that was given up. */
	top_look(&t);
	assert_true(top_next_request(&t, &old));
	top_look(&t);
	top_reply(&t, &old, page(one("old", 5), 9), 0);
	top_request_free(&old);
	assert_true(top_next_request(&t, &tasks));
	top_reply(&t, &tasks, parse("{\"ok\":true,\"tasks\":[]}"), 0);
	top_request_free(&tasks);
	assert_string_equal(t.list[0]->name, "z");
	asks(&t, TOP_PAGE, "{\"after\":0,\"cmd\":\"metrics\",\"part\":\"rows\"}");
	top_free(&t);
}

/* Pages are not of one moment: each row says when it was counted. */
static void rates_are_of_the_time_of_each_row(void **state)
{
	static const char row[] =
		"{\"ok\":true,\"devices\":[{\"key\":\"gpu:0\"}],\"groups\":[[\"g\","
		"0,\"u\",false,0,1,\"q1\",2,2,[[\"gpu:0\",\"running\",%d,0,0,0,0,"
		"0]],%d]]}";
	struct top_model m = {0};

	assert_int_equal(top_model_take(&m, parse(row, 0, 500000000), NULL, 0, 0), 0);
	assert_int_equal(top_model_take(&m, parse(row, 1000000000, 2000000000), NULL, FM_S, 0), 0);
	near(m.seconds, 1);
	near(top_model_find(&m, 0, "g")->n.share, 2.0 / 3);
	top_model_clear(&m);
}

/* A group's name may be a number, which the daemon would take for a process. */
static void only_queues_name_groups(void **state)
{
	struct top t;

	top_init(&t);
	top_grid_resize(&t.grid, 24, 80);
	top_press(&t, 's');
	asks_nothing(&t);
	give(&t, parse("{\"ok\":true,\"groups\":[[\"1\",5,\"u5\",false,0,0,null,0,0,[]]]}"), NULL);
	for (const char *k = "s+-rp"; *k; k++) {
		top_press(&t, *k);
		asks_nothing(&t);
		assert_int_equal(t.prompt, TOP_NO_PROMPT);
	}
	top_draw(&t);
	line_is(&t, 23, "1 has no queues (yet): nothing to steer");
	top_free(&t);
}

static void a_prompt_is_about_whom_it_was_opened_for(void **state)
{
	char g[1024];
	struct top t;

	set_up(&t, 24, 80);
	top_press(&t, 'p');
	top_press(&t, '9');
	give(&t, ps(9, 0, group(g, sizeof(g), "b", 2, "idle", 1, 1, 1)), NULL);
	assert_string_equal(top_selected(&t)->name, "b");
	top_press(&t, TOP_KEY_ENTER);
	asks_nothing(&t);
	top_draw(&t);
	line_is(&t, 23, "a has left");
	top_free(&t);
}

static void policies_are_chosen_from_a_list(void **state)
{
	struct top t;

	set_up(&t, 24, 80);
	top_press(&t, 'P');
	assert_int_equal(t.panel, TOP_LIST);
	answer(&t, parse("{\"ok\":true,\"policy\":{\"name\":\"fair\"},\"available\":[{\"name\":"
			 "\"edf\","
			 "\"summary\":\"deadlines\"},{\"name\":\"fair\",\"summary\":\"shares\"},"
			 "{\"name\":\"fifo\",\"summary\":\"all\"}]}"));
	top_draw(&t);
	line_is(&t, 2, " POLICY");
	line_is(&t, 4, " * fair                   shares");
	top_press(&t, TOP_KEY_DOWN);
	top_press(&t, TOP_KEY_DOWN);
	top_press(&t, TOP_KEY_ENTER);
	asks(&t, TOP_CHANGE, "{\"cmd\":\"policy\",\"name\":\"fifo\"}");
	assert_int_equal(t.panel, TOP_LIST);
	top_free(&t);
}

static void users_sorts_and_intervals(void **state)
{
	struct top t;

	set_up(&t, 24, 80);
	top_press(&t, 'u');
	top_press(&t, 'u');
	top_press(&t, '2');
	top_press(&t, TOP_KEY_ENTER);
	assert_int_equal(t.groups, 1);
	top_draw(&t);
	assert_true(screen_has(&t, "user u2"));
	top_press(&t, 'u');
	top_press(&t, TOP_KEY_ENTER);
	assert_int_equal(t.groups, 2);
	top_press(&t, 'o');
	for (int i = 0; i < TOP_BY_WAIT; i++)
		top_press(&t, TOP_KEY_DOWN);
	top_press(&t, TOP_KEY_ENTER);
	assert_int_equal(t.sort, TOP_BY_WAIT);
	assert_string_equal(t.list[0]->name, "b");
	top_press(&t, 'd');
	top_press(&t, '0');
	top_press(&t, TOP_KEY_ENTER);
	near(t.interval, 1);
	top_press(&t, 'd');
	top_press(&t, '5');
	top_press(&t, TOP_KEY_ENTER);
	near(t.interval, 5);
	top_press(&t, ' ');
	assert_true(t.paused);
	top_press(&t, 'q');
	assert_true(t.quit);
	top_free(&t);
}

static void one_group_in_full(void **state)
{
	struct top t;

	set_up(&t, 30, 90);
	top_press(&t, TOP_KEY_ENTER);
	answer(&t,
		parse("{\"ok\":true,\"groups\":[{\"name\":\"a\",\"hints\":{\"priority\":1,"
		      "\"weight\":0,"
		      "\"deadline_ms\":20},\"governed\":10,\"devices\":[{\"device\":\"gpu:0\","
		      "\"state\":\"ready\",\"gate\":\"closed\",\"device_ms\":1500,\"wait_ms\":200,"
		      "\"preemptions\":20,\"reason\":\"b "
		      "runs\",\"waits\":{\"count\":9,\"p50_us\":150,"
		      "\"p99_us\":2500,\"max_us\":3000},\"account\":{\"since_ms\":2000,\"ran_ms\":"
		      "1500,"
		      "\"waited_ms\":200,\"suspended_ms\":0,\"idle_ms\":300,\"waited_for\":[{"
		      "\"group\":"
		      "\"b\",\"ms\":150},{\"group\":null,\"ms\":50}],\"waited_why\":{\"policy\":"
		      "200}}}],"
		      "\"queues\":[{\"id\":\"q1\",\"pid\":77,\"program\":\"train\",\"api\":"
		      "\"cuda\","
		      "\"level\":2,\"gate\":\"closed\",\"submitted\":9,\"done\":7,\"device_ms\":3}]"
		      "}]}"));
	top_draw(&t);
	line_is(&t, 3, "a of u1 (uid 1): running, priority 1");
	line_is(&t, 4, "  hints:  priority=1  deadline_ms=20");
	assert_true(screen_has(&t, "on gpu:0: ready, gate closed, b runs"));
	assert_true(screen_has(&t, "had it for 1.50 s, waited 200.0 ms, preempted 20 times"));
	assert_true(screen_has(&t, "9 waits: P50 150us, P99 2.50ms, longest 3.00ms"));
	assert_true(screen_has(&t, "2.00 s: ran 75.0%, waited 10.0%, suspended 0.0%, idle 15.0%"));
	assert_true(screen_has(&t, "waited for b: 150.0 ms"));
	assert_true(screen_has(&t, "waited for others: 50.0 ms"));
	assert_true(screen_has(&t, "waited because of policy: 200.0 ms"));
	assert_true(screen_has(&t, "pid 77"));
	/* It leaves: the panel does not become another group's. */
	give(&t, parse("{\"ok\":true,\"groups\":[]}"), NULL);
	assert_int_equal(t.panel, TOP_LIST);
	top_free(&t);
}

static void a_lost_daemon_is_shown_and_another_counts_anew(void **state)
{
	struct top t;

	set_up(&t, 24, 80);
	top_press(&t, 's');
	top_lost(&t, "no daemon runs in /x; trying again");
	asks_nothing(&t);
	top_draw(&t);
	assert_true(screen_has(&t, "NO DAEMON"));
	assert_true(screen_has(&t, "# a")); /* what was seen stays */
	line_is(&t, 23, "no daemon runs in /x; trying again");
	top_press(&t, 's');
	asks_nothing(&t);
	top_draw(&t);
	line_is(&t, 23, "there is no daemon to ask");
	top_found(&t);
	top_draw(&t);
	line_is(&t, 23, "the daemon is back");
	give(&t, pair(1), NULL);
	top_draw(&t);
	assert_true(screen_has(&t, "  a     u1          1 running   2-3     -"));
	top_free(&t);
}

/* Replies that make no sense, and any keys: whatever is shown, nothing breaks. */
static json_t *nonsense(unsigned *seed, int depth)
{
	static const char *const keys[] = {"ok", "groups", "devices", "name", "uid", "user",
		"state", "key", "device", "queue", "queues", "device_ms", "waits", "count",
		"p99_us", "policy", "params", "available", "tasks", "misses", "error", "text",
		"hint", "hints", "account", "waited_for", "waited_why", "preempt_us", "level_min",
		"priority", "at_ms", "group", "items", "next"};
	static const double numbers[] = {0, -1, 1e308, 5e-324, 1e18, 0.5, 7};
	static const char *const texts[] = {
		"", "a", "gpu:0", "suspended", "\033[2J", "\u4e16\u754c", "x%s%n"};
	int kind = rand_r(seed) % (depth > 0 ? 10 : 5);
	json_t *v;

	switch (kind) {
	case 0:
		return json_real(numbers[(size_t)rand_r(seed) % FM_ARRAY_LEN(numbers)]);
	case 1:
		return json_string(texts[(size_t)rand_r(seed) % FM_ARRAY_LEN(texts)]);
	case 2:
		return json_true();
	case 3:
		return json_null();
	case 4:
		return json_integer(rand_r(seed) % 3 ? INT64_MAX - rand_r(seed) : -rand_r(seed));
	case 5:
	case 6:
		v = json_array();
		for (int i = rand_r(seed) % 12; i > 0; i--)
			json_array_append_new(v, nonsense(seed, depth - 1));
		return v;
	default:
		v = json_object();
		for (int i = rand_r(seed) % 16; i > 0; i--)
			json_object_set_new(v, keys[(size_t)rand_r(seed) % FM_ARRAY_LEN(keys)],
				nonsense(seed, depth - 1));
		return v;
	}
}

/* A reply in which one thing is wrong. */
static json_t *nearly(unsigned *seed, double n)
{
	json_t *reply = pair(n), *groups = json_object_get(reply, "groups");
	json_t *row = json_array_get(groups, (size_t)rand_r(seed) % 2);
	json_t *ent = json_array_get(json_array_get(row, 9), 0);

	if (rand_r(seed) % 2)
		json_array_set_new(row, (size_t)rand_r(seed) % 10, nonsense(seed, 2));
	else
		json_array_set_new(ent, (size_t)rand_r(seed) % 8, nonsense(seed, 2));
	return reply;
}

static void nonsense_breaks_nothing(void **state)
{
	static const int keys[] = {'s', 'r', '+', '-', 'p', '5', 'P', 'o', 'u', 'd', '?', 'R', ' ',
		'j', TOP_KEY_ENTER, TOP_KEY_ESCAPE, TOP_KEY_DOWN, TOP_KEY_END, TOP_KEY_PAGE_UP,
		TOP_KEY_BACKSPACE};
	unsigned seed = 7;
	struct top t;

	set_up(&t, 12, 50);
	for (int i = 0; i < 3000; i++) {
		struct top_request r = {.about = (enum top_about)(rand_r(&seed) % 5),
			.walk = t.walk.number - !(rand_r(&seed) % 4)};
		json_t *reply = nonsense(&seed, 5);

		if (json_is_object(reply) && rand_r(&seed) % 8)
			json_object_set_new(reply, "ok", json_true());
		top_reply(&t, &r, reply, (uint64_t)i * FM_S);
		top_press(&t, keys[(size_t)rand_r(&seed) % FM_ARRAY_LEN(keys)]);
		while (rand_r(&seed) % 3 && top_next_request(&t, &r))
			top_request_free(&r);
		if (rand_r(&seed) % 50 == 0) {
			top_lost(&t, "gone");
			top_draw(&t);
			top_found(&t);
		}
		top_draw(&t);
		if (rand_r(&seed) % 20 == 0)
			give(&t, pair(i), NULL);
		if (rand_r(&seed) % 3 == 0)
			give(&t, nearly(&seed, i), nonsense(&seed, 4));
	}
	top_free(&t);
}

static int make_users(void **state)
{
	FILE *f;

	snprintf(passwd, sizeof(passwd), "/tmp/fermata-test-top-%d", (int)getpid());
	f = fopen(passwd, "we");
	if (!f)
		return -1;
	fputs("u1:x:1:1::/:/bin/sh\nu2:x:2:2::/:/bin/sh\n", f);
	return fclose(f);
}

static int remove_users(void **state)
{
	return unlink(passwd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_what_happened_between),
		cmocka_unit_test(who_joins_begins_at_nothing_and_who_falls_is_new),
		cmocka_unit_test(looks_out_of_turn_keep_the_base),
		cmocka_unit_test(several_devices_are_summed),
		cmocka_unit_test(misses_come_from_tasks_of_the_same_user),
		cmocka_unit_test(order_is_by_what_was_chosen),
		cmocka_unit_test(json_has_null_for_what_is_not_known),
		cmocka_unit_test(screen_at_80x24),
		cmocka_unit_test(narrow_screens_keep_what_matters),
		cmocka_unit_test(any_size_will_do),
		cmocka_unit_test(no_control_reaches_the_screen),
		cmocka_unit_test(wide_characters_take_their_room),
		cmocka_unit_test(the_selected_stays_in_sight),
		cmocka_unit_test(keys_steer_the_selected_group),
		cmocka_unit_test(changes_are_seen_and_refusals_are_told),
		cmocka_unit_test(a_look_is_of_all_pages_and_of_no_other),
		cmocka_unit_test(rates_are_of_the_time_of_each_row),
		cmocka_unit_test(only_queues_name_groups),
		cmocka_unit_test(a_prompt_is_about_whom_it_was_opened_for),
		cmocka_unit_test(policies_are_chosen_from_a_list),
		cmocka_unit_test(users_sorts_and_intervals),
		cmocka_unit_test(one_group_in_full),
		cmocka_unit_test(a_lost_daemon_is_shown_and_another_counts_anew),
		cmocka_unit_test(nonsense_breaks_nothing),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, make_users, remove_users);
}
