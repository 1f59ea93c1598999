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

void why_show_memory(const json_t *group)
{
	const json_t *list = json_object_get(group, "memory"), *m;
	size_t i;

	json_array_foreach (list, i, m) {
		if (cli_num(m, "refused") > 0)
			show_refused(group, m);
		if (json_object_get(m, "trouble"))
			show_trouble(m);
	}
	pins_show(group, "memory stays on the device; ", true);
}
