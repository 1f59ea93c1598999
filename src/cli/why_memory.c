/* SPDX-License-Identifier: Apache-2.0 */
/* What was refused of a group's device memory, and what keeps it from moving. */
#include "base/size.h"
#include "cmd/table.h"
#include "pins.h"
#include "why.h"

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

/* A limit above the device is the group's own wish. */
static void show_mapped(const json_t *m)
{
	char text[320], mapped[FM_SIZE_TEXT], all[FM_SIZE_TEXT];
	double limit = cli_num(m, "limit_bytes"), capacity = cli_num(m, "capacity_bytes");

	fm_size_short((uint64_t)cli_num(m, "mapped_bytes"), mapped);
	fm_size_short((uint64_t)cli_num(m, "committed_bytes"), all);
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

void why_show_memory(const json_t *group)
{
	const json_t *list = json_object_get(group, "memory"), *m;
	size_t i;

	json_array_foreach (list, i, m) {
		if (cli_num(m, "refused") > 0)
			show_refused(group, m);
		if (cli_num(m, "mapped_bytes") > 0)
			show_mapped(m);
		if (json_object_get(m, "trouble"))
			show_trouble(m);
	}
	pins_show(group, "memory stays on the device; ", true);
}
