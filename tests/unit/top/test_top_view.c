/* SPDX-License-Identifier: Apache-2.0 */
/* fermata top: what the screen shows, at any size, whatever groups are called. */
#include "top_world.h"

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

static void memory_has_a_bar_and_columns(void **state)
{
	struct top t;

	set_up(&t, 24, 120);
	give(&t, with_memory(pair(3)), NULL);
	top_draw(&t);
	assert_true(screen_has(&t, "memory ["));
	assert_true(screen_has(&t, "]    60G of    80G  on the host     8G"));
	assert_true(screen_has(&t, "MEM  ONDEV   HOST  LIMIT"));
	assert_true(screen_has(&t, "   48G    40G     8G    64G"));
	assert_true(screen_has(&t, "   25G    20G     5G     8G"));
	top_free(&t);
	set_up(&t, 24, 80);
	give(&t, with_memory(pair(3)), NULL);
	top_draw(&t);
	/* a's 40G of 80G, then b's 20G. */
	line_is(&t, 2,
		"memory [#################=========        ]    60G of    80G  on the host    "
		" 8G");
	line_is(&t, 3, "  GROUP USER     PRIO STATE     LVL  DEV% PRE/S    P50    P99 MISS    MEM");
	top_free(&t);
	set_up(&t, 4, 80); /* where there is no room */
	give(&t, with_memory(pair(3)), NULL);
	top_draw(&t);
	assert_false(screen_has(&t, "memory ["));
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
			if (columns & 1)
				give(&t, with_memory(pair(3)), NULL);
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

static void one_group_in_full(void **state)
{
	struct top t;

	set_up(&t, 30, 90);
	top_press(&t, TOP_KEY_ENTER);
	answer(&t,
		parse("{\"ok\":true,\"groups\":[{\"name\":\"a\",\"hints\":{\"priority\":1,"
		      "\"weight\":0,"
		      "\"deadline_ms\":20},\"deadline_jobs\":12,\"deadline_misses\":3,\"governed\":"
		      "10,\"devices\":[{\"device\":\"gpu:0\","
		      "\"state\":\"ready\",\"gate\":\"closed\",\"device_ms\":1500,\"wait_ms\":200,"
		      "\"preemptions\":20,\"reason\":\"b "
		      "runs\",\"waits\":{\"count\":9,\"p50_us\":150,"
		      "\"p99_us\":2500,\"max_us\":3000,\"recent\":{\"count\":4,\"p50_us\":70,"
		      "\"p99_us\":90}},\"account\":{\"since_ms\":2000,\"ran_ms\":"
		      "1500,"
		      "\"waited_ms\":200,\"suspended_ms\":0,\"idle_ms\":300,\"waited_for\":[{"
		      "\"group\":"
		      "\"b\",\"ms\":150},{\"group\":null,\"ms\":50}],\"waited_why\":{\"policy\":"
		      "200}}}],"
		      "\"memory\":[{\"device\":\"gpu:0\",\"committed_bytes\":5368709120,"
		      "\"movable_bytes\":4294967296,\"pinned_bytes\":1073741824,"
		      "\"resident_bytes\":3221225472,\"host_bytes\":2147483648,\"limit_bytes\":"
		      "null,\"refused\":2,\"next_turn_ms\":62.0,\"trouble\":\"it is "
		      "full\",\"remedy\":\"free "
		      "some\"}],"
		      "\"queues\":[{\"id\":\"q1\",\"pid\":77,\"program\":\"train\",\"api\":"
		      "\"cuda\","
		      "\"level\":2,\"gate\":\"closed\",\"submitted\":9,\"done\":7,\"device_ms\":3}]"
		      "}]}"));
	top_draw(&t);
	line_is(&t, 3, "a of u1 (uid 1): running, priority 1");
	line_is(&t, 4, "  hints:  priority=1  deadline_ms=20");
	assert_true(screen_has(&t, "on gpu:0: ready, gate closed, b runs"));
	assert_true(screen_has(&t, "had it for 1.50 s, waited 200.0 ms, preempted 20 times"));
	assert_true(screen_has(&t, "4 waits in the last minute: P50 70us, P99 90us"));
	assert_true(
		screen_has(&t, "9 waits since it joined: P50 150us, P99 2.50ms, longest 3.00ms"));
	assert_true(screen_has(&t, "12 jobs ended while it had a deadline, 3 took longer"));
	assert_true(screen_has(&t, "2.00 s: ran 75.0%, waited 10.0%, suspended 0.0%, idle 15.0%"));
	assert_true(screen_has(&t, "waited for b: 150.0 ms"));
	assert_true(screen_has(&t, "waited for others: 50.0 ms"));
	assert_true(screen_has(&t, "waited because of policy: 200.0 ms"));
	assert_true(screen_has(&t, "memory of gpu:0: 5G; 4G movable, 1G pinned, - foreign"));
	assert_true(
		screen_has(&t, "3G on the device, 2G on the host; limit -, 2 allocations refused"));
	assert_true(screen_has(&t, "its next turn there is in 62.0 ms"));
	assert_true(screen_has(&t, "it is full; free some"));
	assert_true(screen_has(&t, "pid 77"));
	/* It leaves: the panel does not become another group's. */
	give(&t, parse("{\"ok\":true,\"groups\":[]}"), NULL);
	assert_int_equal(t.panel, TOP_LIST);
	top_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(screen_at_80x24),
		cmocka_unit_test(narrow_screens_keep_what_matters),
		cmocka_unit_test(any_size_will_do),
		cmocka_unit_test(no_control_reaches_the_screen),
		cmocka_unit_test(wide_characters_take_their_room),
		cmocka_unit_test(the_selected_stays_in_sight),
		cmocka_unit_test(one_group_in_full),
		cmocka_unit_test(memory_has_a_bar_and_columns),
	};

	return RUN_TOP(tests);
}
