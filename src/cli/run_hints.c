/* SPDX-License-Identifier: Apache-2.0 */
#include "run_hints.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "cmd/ctl.h"
#include "cmd/inject.h"
#include "unread.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* `fermata run` inside `fermata run`: hints that the inner one does not give come from the outer
 * one.
 */
static void inherit_hints(struct run_hints *hints)
{
	FM_CLEAN_FREE char *words = strdup(getenv("FERMATA_HINTS") ?: "");
	char *rest = NULL;

	for (char *w = words ? strtok_r(words, " ", &rest) : NULL; w;
		w = strtok_r(NULL, " ", &rest)) {
		char *equals = strchr(w, '=');
		int64_t value;

		if (!equals)
			continue;
		*equals = '\0';
		for (unsigned h = 0; h < FM_HINT_COUNT; h++) {
			if (hints->of[h].set || strcmp(w, fm_hint_name(h)) ||
				fm_parse_int(equals + 1, INT64_MIN, INT64_MAX, &value, NULL) ||
				fm_hint_check(h, value, NULL))
				continue;
			hints->of[h].set = true;
			hints->of[h].value = value;
		}
	}
}

int run_hints_set(struct run_hints *hints, struct fm_err *err)
{
	char text[FM_HINT_COUNT * 40];
	size_t len = 0;

	inherit_hints(hints);
	for (unsigned h = 0; h < FM_HINT_COUNT; h++)
		if (hints->of[h].set)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%" PRId64,
				len ? " " : "", fm_hint_name(h), hints->of[h].value);
	return len ? inject_set("FERMATA_HINTS", text, err) : 0;
}

static json_t *hints_object(const struct run_hints *hints)
{
	json_t *o = json_object();

	for (unsigned h = 0; h < FM_HINT_COUNT; h++)
		if (hints->of[h].set)
			json_object_set_new(o, fm_hint_name(h),
				json_sprintf(
					"%" PRId64 "%s", hints->of[h].value, fm_hint_suffix(h)));
	return o;
}

/* Other hints are the daemon's to follow; this one is the program's own. */
static void leave_out(struct run_hints *hints, enum fm_hint h)
{
	if (h != FM_HINT_MEMORY_PIN)
		return;
	hints->of[h].value = 0;
	run_hints_set(hints, NULL);
}

/* Reports hints that the daemon will refuse. Otherwise neither the program nor the user would learn
 * of it. A daemon that does not know this request refuses no more than before. */
void run_hints_tell(struct run_hints *hints, const char *dir, const char *group, uint32_t read,
	const char *command)
{
	CLI_CLEAN_JSON json_t *wanted = hints_object(hints);
	CLI_CLEAN_JSON json_t *reply = NULL;
	struct fm_err err = {0};
	const json_t *one;
	size_t i;

	if (!json_object_size(wanted) || ctl_call_at(dir,
						 json_pack("{s:s, s:s, s:O}", "cmd", "allowed",
							 "group", group, "hints", wanted),
						 ANSWER_MS, &reply, &err))
		return;
	json_array_foreach (json_object_get(reply, "refused"), i, one) {
		fm_err_set(&err, -EPERM, "%s", cli_str(one, "text"));
		fm_err_hint(&err, "%s", cli_str(one, "help"));
		cli_report(&err);
		fprintf(stderr, "fermata: running '%s' without that hint\n", command);
		for (unsigned h = 0; h < FM_HINT_COUNT; h++) {
			if (strcmp(cli_str(one, "hint"), fm_hint_name((enum fm_hint)h)))
				continue;
			read &= ~FM_READS(h);
			leave_out(hints, (enum fm_hint)h);
		}
	}
	unread_tell(json_object_get(reply, "policy"), read);
}

/* Does the daemon manage the memory of such programs? One that does not know this request
 * manages none. */
int run_ask_managed(const char *dir, const char *group, const char *command, struct fm_err *err)
{
	const char *slash = strrchr(command, '/'), *said = getenv("FERMATA_MEMORY"), *tables;
	CLI_CLEAN_JSON json_t *reply = NULL;
	struct fm_err unknown = {0};
	bool named;
	int rc;

	group = group ?: getenv("FERMATA_GROUP");
	named = group && *group;
	if (ctl_call_at(dir,
		    json_pack("{s:s, s:s}", "cmd", "managed", named ? "group" : "program",
			    named   ? group
			    : slash ? slash + 1
				    : command),
		    ANSWER_MS, &reply, &unknown) ||
		!((said && *said) || json_is_true(json_object_get(reply, "managed"))))
		return 0;
	rc = said && *said ? 0 : inject_set("FERMATA_MEMORY", "1", err);
	tables = json_string_value(json_object_get(reply, "harmless_tables"));
	if (!rc && tables && *tables && !getenv("FERMATA_MEMORY_TABLES"))
		rc = inject_set("FERMATA_MEMORY_TABLES", tables, err);
	if (!rc && json_is_false(json_object_get(reply, "templates")) &&
		!getenv("FERMATA_MEMORY_TEMPLATES"))
		rc = inject_set("FERMATA_MEMORY_TEMPLATES", "off", err);
	if (!rc && json_is_true(json_object_get(reply, "early_start")) &&
		!getenv("FERMATA_MEMORY_EARLY"))
		rc = inject_set("FERMATA_MEMORY_EARLY", "1", err);
	return rc;
}
