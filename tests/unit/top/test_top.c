/* SPDX-License-Identifier: Apache-2.0 */
/* fermata top without a terminal and without a daemon: what keys ask for, what becomes of the
 * replies. */
#include "top_world.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_steer_the_selected_group),
		cmocka_unit_test(changes_are_seen_and_refusals_are_told),
		cmocka_unit_test(a_look_is_of_all_pages_and_of_no_other),
		cmocka_unit_test(only_queues_name_groups),
		cmocka_unit_test(a_prompt_is_about_whom_it_was_opened_for),
		cmocka_unit_test(policies_are_chosen_from_a_list),
		cmocka_unit_test(users_sorts_and_intervals),
		cmocka_unit_test(a_lost_daemon_is_shown_and_another_counts_anew),
		cmocka_unit_test(nonsense_breaks_nothing),
	};

	return RUN_TOP(tests);
}
