/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cmd/table.h"
#include "doctor.h"
#include "proof/proof.h"
#include "json/json.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

void doctor_progress(const struct doctor *d, const char *text)
{
	if (isatty(STDERR_FILENO) && !d->cli->json)
		fprintf(stderr, "\r\033[K%s", text);
}

void doctor_found(
	struct doctor *d, enum verdict v, const char *what, const char *text, const char *remedy)
{
	static const char *const words[] = {"ok", "warning", "failed"};
	FM_CLEAN_FREE char *clean = strdup(text);
	json_t *check;

	doctor_progress(d, "");
	d->bad = d->bad || v == BAD;
	if (clean)
		table_clean(clean);
	check = json_pack("{s:s, s:s, s:o}", "check", what, "verdict", words[v], "text",
		fm_json_text(clean ?: "?"));
	if (v != GOOD && check)
		json_object_set_new(check, "remedy", fm_json_text(remedy));
	json_array_append_new(d->checks, check);
	if (d->cli->json)
		return;
	printf("%-8s %-8s %s\n", words[v], what, clean ?: "?");
	if (v != GOOD)
		printf("%-17s remedy: %s\n", "", remedy);
}

/* Notes what the trial has shown, and says why programs do not have more than level 1 all the same;
 * NULL: they have. What stood in a process that died afterwards is not proven. */
static const char *why_unproven(const struct doctor *d, const struct probe_result *result,
	const json_t *line, const char *what)
{
	bool stood = json_is_true(json_object_get(line, "stood")) && !*result->died;
	int rc = *what && d->prove && !*result->died ? fm_proof_note(what, stood) : 0;

	if (!*what)
		return "its driver does not say which version it is";
	if (!rc && fm_proof_there(what))
		return NULL;
	if (rc)
		return strerror(-rc);
	return d->prove ? "no gate stood for so long"
			: "only a fake driver has shown level 2 yet, programs get it after "
			  "`fermata doctor --prove'";
}

/* Programs get no more than level 1 on a device that is unproven. */
static void judge_proof(const struct doctor *d, const struct probe_result *result,
	const json_t *line, json_t *device)
{
	const char *what = json_string_value(json_object_get(line, "what"));
	bool more = json_array_size(json_object_get(line, "levels")) > 1;
	const char *why;

	if (!what || !more)
		return;
	why = why_unproven(d, result, line, what);
	if (!why) {
		json_object_set_new(device, "text",
			json_sprintf("%s; proven on this device", cli_str(line, "text")));
		return;
	}
	json_object_set_new(device, "levels", json_pack("[i]", 1));
	json_object_set_new(device, "unproven", json_pack("[i]", 2));
	json_object_set_new(
		device, "text", json_sprintf("%s; unproven: %s", cli_str(line, "text"), why));
}

size_t doctor_devices(struct doctor *d, const struct probe_result *result, size_t *n)
{
	json_t *line, *device = NULL;
	size_t i, usable = 0;

	*n = 0;
	json_array_foreach (result->lines, i, line) {
		const char *step = cli_str(line, "step");

		if (!strcmp(step, "device")) {
			device = json_copy(line);
			json_object_del(device, "step");
			json_object_set_new(device, "levels", json_array());
			json_object_set_new(
				device, "text", json_string(*result->died ? result->died : "-"));
			json_array_append_new(d->devices, device);
			++*n;
		} else if (!strcmp(step, "levels") && device) {
			json_object_set(device, "levels", json_object_get(line, "levels"));
			json_object_set(device, "text", json_object_get(line, "text"));
			judge_proof(d, result, line, device);
			usable += json_array_size(json_object_get(line, "levels")) > 0;
		}
	}
	return usable;
}

bool doctor_preload(struct doctor *d, const struct preload *shim)
{
	struct fm_err err = {0};
	char path[PATH_MAX];
	int rc = preload_find(shim, path, &err);

	if (rc != -EINVAL && rc != -ENOENT)
		return true;
	doctor_found(d, WARNING, "shim", err.text, err.hint);
	return false;
}
