/* SPDX-License-Identifier: Apache-2.0 */
/* fermata top: rates and order, from what the daemon replies. */
#include "top_world.h"

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

/* Programs measure by themselves, and learn some of it late: the device is there once only. */
static void shares_of_a_device_are_at_most_all_of_it(void **state)
{
	struct top_model m = {0};
	char a[512], b[512], c[512], buf[3][16];
	double sum = 0;

	for (int n = 0; n <= 1; n++) {
		group(a, sizeof(a), "a", 1, "running", 1900 * n, 0, 0);
		group(b, sizeof(b), "b", 1, "ready", 1000 * n, 0, 0);
		group(c, sizeof(c), "c", 1, "ready", 400 * n, 0, 0);
		top_model_take(&m,
			parse("{\"ok\":true,\"devices\":[{\"key\":\"gpu:0\"}],"
			      "\"groups\":[%s,%s,%s]}",
				a, b, c),
			NULL, FM_S * (uint64_t)n, 0);
	}
	near(top_model_find(&m, 1, "a")->n.share, 1 / 2.4);
	near(top_model_find(&m, 1, "b")->n.share, 1 / 2.4);
	near(top_model_find(&m, 1, "c")->n.share, 0.4 / 2.4);
	near(m.now.device[0].share, 1);
	for (size_t i = 0; i < 3; i++)
		sum += strtod(top_percent(m.now.group[i].n.share, true, buf[i]), NULL);
	assert_true(sum <= 100.0001); /* as they are shown, too: 41.7 + 41.7 + 16.7 is more */
	assert_string_equal(buf[0], "41.6");
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

static void memory_is_of_groups_and_of_devices(void **state)
{
	struct top_model m = {0};
	const struct top_group *a, *b, **list;
	size_t n;
	json_t *o, *g;

	assert_int_equal(top_model_take(&m, pair(1), NULL, FM_S, 0), 0);
	assert_false(m.now.memory);
	near(m.now.device[0].capacity, 0);
	assert_int_equal(top_model_take(&m, with_memory(pair(2)), NULL, 2 * FM_S, 0), 0);
	a = top_model_find(&m, 1, "a");
	b = top_model_find(&m, 2, "b");
	assert_true(m.now.memory && a->parts == 1 && b->parts == 2);
	near(a->memory.committed, 48. * GIB);
	near(a->memory.limit, 64. * GIB);
	near(b->memory.committed, 25. * GIB);
	near(b->memory.resident, 20. * GIB);
	near(b->memory.host, 5. * GIB);
	near(b->memory.limit, 8. * GIB);
	near(m.now.device[0].capacity, 80. * GIB);
	near(m.now.device[0].memory.resident, 60. * GIB);
	near(m.now.device[0].memory.host, 8. * GIB);
	assert_int_equal(top_model_order(&m, TOP_BY_MEMORY, true, NULL, &list, &n), 0);
	assert_ptr_equal(list[0], b);
	free(list);
	o = top_model_json(&m, TOP_BY_NAME, false, NULL);
	g = json_array_get(json_object_get(o, "groups"), 1);
	assert_int_equal(
		json_integer_value(json_object_get(g, "memory_committed_bytes")), 25 * GIB);
	assert_int_equal(json_array_size(json_object_get(g, "memory")), 2);
	g = json_array_get(json_object_get(o, "devices"), 0);
	assert_int_equal(json_integer_value(json_object_get(g, "memory_capacity_bytes")), 80 * GIB);
	json_decref(o);
	top_model_clear(&m);
}

/* What a page says is not trusted. */
static void memory_that_is_none(void **state)
{
	static const char *const rows[] = {"[7]", "[[]]", "[[\"gpu:0\",-1,-5,\"x\",null,1e9]]",
		"[[\"gpu:0\",9223372036854775807,9223372036854775807,1,1,1]]", "{}", "[null]"};
	struct top_model m = {0};

	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++) {
		json_t *reply = pair(1 + (double)i), *o;

		add_memory(reply, 0, parse("%s", rows[i]));
		assert_int_equal(top_model_take(&m, reply, NULL, i * FM_S, 0), 0);
		assert_true(m.now.device[0].memory.committed >= 0);
		o = top_model_json(&m, TOP_BY_MEMORY, false, NULL);
		assert_non_null(o);
		json_decref(o);
	}
	top_model_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_what_happened_between),
		cmocka_unit_test(who_joins_begins_at_nothing_and_who_falls_is_new),
		cmocka_unit_test(looks_out_of_turn_keep_the_base),
		cmocka_unit_test(several_devices_are_summed),
		cmocka_unit_test(shares_of_a_device_are_at_most_all_of_it),
		cmocka_unit_test(misses_come_from_tasks_of_the_same_user),
		cmocka_unit_test(order_is_by_what_was_chosen),
		cmocka_unit_test(json_has_null_for_what_is_not_known),
		cmocka_unit_test(rates_are_of_the_time_of_each_row),
		cmocka_unit_test(memory_is_of_groups_and_of_devices),
		cmocka_unit_test(memory_that_is_none),
	};

	return RUN_TOP(tests);
}
