/* SPDX-License-Identifier: Apache-2.0 */
/* Where a group's memory is, and since when and because of whom it is not on the device; what was
 * refused of it, and what keeps it from moving. */
#include "base/size.h"
#include "cmd/table.h"
#include "pins.h"
#include "why.h"
#include <string.h>

static void show(char *text)
{
	table_clean(text);
	puts(text);
}

static void show_refused(const json_t *group, const json_t *m)
{
	char text[320], has[FM_SIZE_TEXT], limit[FM_SIZE_TEXT];
	double bound = cli_num(m, "limit_bytes");

	fm_size_short((uint64_t)cli_num(m, "committed_bytes"), has);
	fm_size_short((uint64_t)bound, limit);
	if (bound > 0)
		snprintf(text, sizeof(text),
			"%s: refused allocations: %.0f; the group has %s, and its limit is %s",
			cli_str(m, "device"), cli_num(m, "refused"), has, limit);
	else
		snprintf(text, sizeof(text),
			"%s: refused allocations: %.0f; the group has %s, and its user has a "
			"limit",
			cli_str(m, "device"), cli_num(m, "refused"), has);
	show(text);
	if (bound > 0)
		snprintf(text, sizeof(text),
			"  hint: `fermata hint %s memory-limit=SIZE' sets another limit",
			cli_str(group, "name"));
	else
		snprintf(text, sizeof(text),
			"  hint: end other programs of the user, or have limits.memory in "
			"fermatad.conf raised");
	show(text);
}

static void show_trouble(const json_t *m)
{
	char text[320];

	snprintf(text, sizeof(text), "%s: its memory cannot be moved: %s", cli_str(m, "device"),
		cli_str(m, "trouble"));
	show(text);
	snprintf(text, sizeof(text), "  hint: %s", cli_str(m, "remedy"));
	show(text);
}

static void show_exchanged(const json_t *m)
{
	char text[320], size[FM_SIZE_TEXT];

	snprintf(text, sizeof(text),
		"%s: what is used most has the device: so far %s ran from the host and came there, "
		"in the place of what is used less",
		cli_str(m, "device"), fm_size_short((uint64_t)cli_num(m, "exchanged_bytes"), size));
	show(text);
}

/* A limit above the device is the group's own wish. */
static void show_mapped(const json_t *m)
{
	char text[320], mapped[FM_SIZE_TEXT], all[FM_SIZE_TEXT];
	double limit = cli_num(m, "limit_bytes"), capacity = cli_num(m, "capacity_bytes");

	fm_size_short((uint64_t)cli_num(m, "mapped_bytes"), mapped);
	fm_size_short((uint64_t)cli_num(m, "committed_bytes"), all);
	if (json_is_true(json_object_get(m, "early_start"))) {
		snprintf(text, sizeof(text),
			"%s: %s of its %s of memory runs from the host, and comes to the device "
			"while the program runs, as far as there is room (early start)",
			cli_str(m, "device"), mapped, all);
		show(text);
		return;
	}
	snprintf(text, sizeof(text),
		"%s: %s of its %s of memory runs from the host, many times slower: the device had "
		"no room",
		cli_str(m, "device"), mapped, all);
	show(text);
	if (limit > capacity && cli_num(m, "committed_bytes") > capacity)
		puts("  hint: the group has more than the device; let the program use less");
	else
		puts("  hint: it comes to the device when there is room: put another group's "
		     "memory out: fermata suspend --out TARGET");
}

/* What was missed, and what was done. */
static void show_missed(const json_t *m)
{
	const char *seen = !strcmp(cli_str(m, "missed_by"), "content")
				   ? "memory that ran from the host had changed"
				   : "its work took longer than it does";
	char text[320];

	snprintf(text, sizeof(text),
		"%s: missed memory, %.0f times: %s, though no call had named what it used; %s came "
		"to the device for that",
		cli_str(m, "device"), cli_num(m, "missed"), seen,
		!strcmp(cli_str(m, "missed_cure"), "all")
			? "all of its memory"
			: "what was used, and what its calls name,");
	show(text);
}

void why_show_memory(const json_t *group)
{
	const json_t *list = json_object_get(group, "memory"), *m;
	size_t i;

	json_array_foreach (list, i, m) {
		if (cli_num(m, "refused") > 0)
			show_refused(group, m);
		if (cli_num(m, "mapped_bytes") > 0)
			show_mapped(m);
		if (cli_num(m, "exchanged_bytes") > 0)
			show_exchanged(m);
		if (cli_num(m, "missed") > 0)
			show_missed(m);
		if (json_object_get(m, "trouble"))
			show_trouble(m);
	}
	pins_show(group, "memory stays on the device; ", true);
}

/* --- memory that is out --- */

const json_t *why_memory_out(const json_t *group)
{
	const json_t *out = json_object_get(group, "out");
	const char *why = cli_str(out, "why");

	return out && (!strcmp(why, "idle") || !strcmp(why, "demand")) ? out : NULL;
}

const char *why_when_in(const json_t *group, char text[WHY_WHEN])
{
	const json_t *out = json_object_get(group, "out"), *in = json_object_get(out, "in_ms");
	double rate = cli_num(out, "bytes_per_second");
	char time[TABLE_TIME], bytes[FM_SIZE_TEXT];
	int n = 0;

	*text = '\0';
	if (json_is_number(in))
		n = snprintf(text, WHY_WHEN, ", for about %s more",
			table_ms(json_number_value(in), time));
	if (rate > 0)
		snprintf(text + n, WHY_WHEN - (size_t)n, ", at %s a second",
			fm_size_short((uint64_t)rate, bytes));
	return text;
}

/* Who it is that needs the room, if it is one group. */
static const char *cause_of(const json_t *out)
{
	const char *cause = json_string_value(json_object_get(out, "for"));

	if (json_is_true(json_object_get(out, "hidden")))
		return "a group that you may not see";
	return cause ? cause : "others";
}

/* Because of whom. */
static json_t *cause_text(const json_t *out)
{
	double together = cli_num(out, "together");
	char over[FM_SIZE_TEXT];

	if (!strcmp(cli_str(out, "why"), "idle"))
		return json_string("because it was idle for as long as its hint idle-out says");
	fm_size_short((uint64_t)cli_num(out, "over_bytes"), over);
	if (cli_num(out, "over_bytes") > 0 && together > 2)
		return json_sprintf("since it and %.0f others together exceed the device by %s",
			together - 1, over);
	if (cli_num(out, "over_bytes") > 0 && together > 1)
		return json_sprintf(
			"since it and %s together exceed the device by %s", cause_of(out), over);
	return json_sprintf("because %s needed the room", cause_of(out));
}

/* Memory that could go, if the host had room for it; and what would give it some. */
void why_show_host(const json_t *group)
{
	const json_t *s = json_object_get(json_object_get(group, "out"), "host_short");
	const json_t *uid = json_object_get(s, "uid");
	char text[400], bytes[FM_SIZE_TEXT], limit[FM_SIZE_TEXT], whose[80] = "another user";
	const char *by = cli_str(s, "by");
	int node = (int)cli_num(s, "node");

	if (!s)
		return;
	fm_size_short((uint64_t)cli_num(s, "bytes"), bytes);
	fm_size_short((uint64_t)cli_num(s, "limit_bytes"), limit);
	if (json_is_integer(uid))
		snprintf(whose, sizeof(whose), "user %.0f", json_number_value(uid));
	if (!strcmp(by, "user"))
		snprintf(text, sizeof(text),
			"host budget: %s on the device cannot go out: %s may have %s of the host's "
			"memory, and has it\n  hint: end programs of that user, or have "
			"limits.memory_host in fermatad.conf raised",
			bytes, whose, limit);
	else if (!strcmp(by, "node"))
		snprintf(text, sizeof(text),
			"host budget: %s on the device (of %s) cannot go out: the %s of NUMA node "
			"%d are used up\n  hint: end programs on its devices, or have "
			"memory.host_nodes in fermatad.conf raised",
			bytes, whose, limit, node);
	else if (!strcmp(by, "all"))
		snprintf(text, sizeof(text),
			"host budget: %s on the device (of %s) cannot go out: the %s of the host "
			"for it are used up\n  hint: end programs, or have memory.host in "
			"fermatad.conf raised",
			bytes, whose, limit);
	else
		snprintf(text, sizeof(text),
			"host budget: %s on the device (of %s) cannot go out: the machine has %s "
			"left for it\n  hint: free memory of the host",
			bytes, whose, limit);
	puts(text);
}

json_t *why_where_memory_is(const struct why *w, const char *start, const char *time)
{
	const json_t *away = json_object_get(w->group, "away"), *out = why_memory_out(w->group);
	CLI_CLEAN_JSON json_t *cause = cause_text(out);
	char bytes[FM_SIZE_TEXT], all[FM_SIZE_TEXT], when[WHY_WHEN];

	if (*time) {
		fm_size_short((uint64_t)cli_num(out, "missing_bytes"), bytes);
		fm_size_short((uint64_t)cli_num(out, "movable_bytes"), all);
		return json_sprintf("%s%s: %s of its %s of memory is missing%s, %s", start, time,
			bytes, all, why_when_in(w->group, when), json_string_value(cause));
	}
	fm_size_short((uint64_t)cli_num(away, "host"), bytes);
	fm_size_short((uint64_t)cli_num(away, "movable"), all);
	return json_sprintf("%s: %s of its %s of memory is on the host, %s", start, bytes, all,
		json_string_value(cause));
}
