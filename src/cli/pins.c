/* SPDX-License-Identifier: Apache-2.0 */
#include "pins.h"
#include "base/uuid.h"
#include "cmd/table.h"
#include <string.h>

#define TABLE "table "

static void show_advice(const char *what)
{
	unsigned char id[FM_UUID_SIZE];
	char text[320];

	if (strncmp(what, TABLE, strlen(TABLE)))
		return;
	what += strlen(TABLE);
	/* The program wrote it, and somebody may give it to a shell. */
	if (!fm_uuid_parse(what, strlen(what), id))
		return;
	snprintf(text, sizeof(text),
		"  hint: report it; FERMATA_MEMORY_TABLES=%.64s takes it for harmless, which may "
		"be "
		"wrong",
		what);
	table_clean(text);
	puts(text);
}

/* A block that was pinned may be freed by now. */
static bool has_such(const json_t *group, const char *kind)
{
	const json_t *m;
	size_t i;

	json_array_foreach (json_object_get(group, "memory"), i, m)
		if (cli_num(json_object_get(m, "kinds"), kind) > 0)
			return true;
	return false;
}

void pins_show(const json_t *group, const char *before, bool advice)
{
	const json_t *pin;
	size_t i;

	json_array_foreach (json_object_get(group, "pins"), i, pin) {
		const char *by = cli_str(pin, "by");
		char text[320];

		if (!has_such(group, cli_str(pin, "kind")))
			continue;
		snprintf(text, sizeof(text), "%spinned: %s (%s%s%s)", before, cli_str(pin, "kind"),
			cli_str(pin, "what"), *by ? ", asked by " : "", by);
		table_clean(text);
		puts(text);
		if (advice)
			show_advice(cli_str(pin, "what"));
	}
}
