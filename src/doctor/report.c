/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cmd/table.h"
#include "doctor.h"
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
