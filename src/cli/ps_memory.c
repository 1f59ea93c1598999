/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "base/util.h"
#include "cmd/table.h"
#include "pins.h"
#include "ps.h"

static void add_size(struct table *t, const json_t *m, const char *key)
{
	char buf[FM_SIZE_TEXT];
	double v = cli_num(m, key);

	table_add(t, "%s", v > 0 ? fm_size_short((uint64_t)v, buf) : "-");
}

/* Of memory that may move. It is all in use where nobody knows what is. */
static void add_hot(struct table *t, const json_t *m)
{
	const json_t *hot = json_object_get(m, "hot_bytes");

	if (cli_num(m, "movable_bytes") > 0 && json_is_null(hot))
		table_add(t, "all");
	else
		add_size(t, m, "hot_bytes");
}

/* As it is planned, where memory is missing on the device. */
static void add_turn(struct table *t, const json_t *m)
{
	const json_t *turn = json_object_get(m, "next_turn_ms");
	char time[TABLE_TIME];

	if (!json_is_number(turn))
		table_add(t, "-");
	else if (json_number_value(turn) <= 0)
		table_add(t, "now");
	else
		table_add(t, "%s", table_ms(json_number_value(turn), time));
}

static void add_memory(struct table *t, const json_t *group, const json_t *m)
{
	static const char *const sizes[] = {"committed_bytes", "movable_bytes", "pinned_bytes",
		"foreign_bytes", "resident_bytes", "host_bytes", "mapped_bytes"};
	static const char *const bounds[] = {"limit_bytes", "request_bytes", "peak_bytes"};
	const json_t *out = json_object_get(group, "out");

	table_add(t, "%s", cli_str(group, "name"));
	table_add(t, "%s", cli_str(m, "device"));
	for (size_t i = 0; i < FM_ARRAY_LEN(sizes); i++)
		add_size(t, m, sizes[i]);
	add_hot(t, m);
	for (size_t i = 0; i < FM_ARRAY_LEN(bounds); i++)
		add_size(t, m, bounds[i]);
	table_add(t, "%.0f", cli_num(m, "refused"));
	table_add(t, "%.0f", cli_num(m, "missed"));
	add_turn(t, m);
	table_add(t, "%s", out ? cli_str(out, "why") : "-");
}

/* What keeps memory from moving where that is wished for. */
static void show_trouble(const json_t *group, const json_t *m)
{
	char text[256];

	snprintf(text, sizeof(text), "%s on %s: %s; %s", cli_str(group, "name"),
		cli_str(m, "device"), cli_str(m, "trouble"), cli_str(m, "remedy"));
	table_clean(text);
	puts(text);
}

static void show_untrue(const json_t *group, const json_t *m)
{
	char text[256];

	snprintf(text, sizeof(text),
		"%s on %s: what a program of it says of its memory cannot be true, and counts "
		"as far as it can; end that program",
		cli_str(group, "name"), cli_str(m, "device"));
	table_clean(text);
	puts(text);
}

static void show_strayed(const json_t *group, const json_t *m)
{
	char text[256], size[FM_SIZE_TEXT];

	snprintf(text, sizeof(text),
		"%s on %s: %s of its memory on the host are not on the device's NUMA node %.0f",
		cli_str(group, "name"), cli_str(m, "device"),
		fm_size_short((uint64_t)cli_num(m, "host_strayed_bytes"), size),
		cli_num(m, "numa_node"));
	table_clean(text);
	puts(text);
}

static void show_exchanged(const json_t *group, const json_t *m)
{
	char text[256], size[FM_SIZE_TEXT];

	snprintf(text, sizeof(text),
		"%s on %s: %s ran from the host and came to the device, in the place of what is "
		"used less",
		cli_str(group, "name"), cli_str(m, "device"),
		fm_size_short((uint64_t)cli_num(m, "exchanged_bytes"), size));
	table_clean(text);
	puts(text);
}

static void show_remarks(const json_t *group)
{
	const json_t *list = json_object_get(group, "memory"), *m;
	size_t i;

	json_array_foreach (list, i, m) {
		if (json_object_get(m, "trouble"))
			show_trouble(group, m);
		if (json_is_true(json_object_get(m, "untrue")))
			show_untrue(group, m);
		if (cli_num(m, "host_strayed_bytes") > 0)
			show_strayed(group, m);
		if (cli_num(m, "exchanged_bytes") > 0)
			show_exchanged(group, m);
	}
}

int ps_show_memory(const json_t *groups)
{
	static const struct table_column columns[] = {
		{"GROUP", false, true},
		{"DEVICE", false, true},
		{"COMMITTED", true, false},
		{"MOVABLE", true, false},
		{"PINNED", true, false},
		{"FOREIGN", true, false},
		{"RESIDENT", true, false},
		{"HOST", true, false},
		{"MAPPED", true, false},
		{"HOT", true, false},
		{"LIMIT", true, false},
		{"REQUEST", true, false},
		{"PEAK", true, false},
		{"REFUSED", true, false},
		{"MISSED", true, false},
		{"TURN", true, false},
		{"OUT", false, false},
	};
	TABLE_CLEAN struct table t;
	const json_t *g, *m;
	size_t i, k;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	json_array_foreach (groups, i, g) {
		const json_t *list = json_object_get(g, "memory");

		json_array_foreach (list, k, m)
			add_memory(&t, g, m);
	}
	if (table_print(&t))
		return 1;
	json_array_foreach (groups, i, g) {
		char before[80];

		show_remarks(g);
		snprintf(before, sizeof(before), "%s: ", cli_str(g, "name"));
		pins_show(g, before, false);
	}
	return 0;
}
