/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor.h"
#include <stdio.h>
#include <unistd.h>

static void judge_devices(
	struct doctor *d, const struct doctor_on_request *api, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	char text[384];

	snprintf(text, sizeof(text),
		"%s%s%zu of %zu devices can be scheduled%s, for programs that are started with "
		"%s=1: the shim for %s has been tested on no hardware",
		result->died, *result->died ? "; " : "", usable, n, api->how, api->shim->variable,
		api->shim->name);
	doctor_found(d, usable == n && n && !*result->died ? GOOD : WARNING, api->check, text,
		"see what trying them showed, below");
	if (doctor_preload(d, api->shim) && usable && preload_wanted(api->shim, false))
		d->usable = true;
}

static void judge(
	struct doctor *d, const struct doctor_on_request *api, const struct probe_result *result)
{
	const json_t *step = probe_step(result, api->probe);
	bool absent = json_is_true(json_object_get(step, "absent"));

	if (absent && (!api->node || access(api->node, F_OK)))
		return;
	if (json_object_get(step, "error"))
		doctor_found(d, WARNING, api->check, cli_str(step, "error"),
			absent ? api->get : api->look);
	else
		judge_devices(d, api, result);
}

void doctor_on_request(struct doctor *d, const struct doctor_on_request *api)
{
	struct probe_result result;
	char text[64];

	snprintf(text, sizeof(text), "trying the devices of %s...", api->shim->name);
	doctor_progress(d, text);
	if (probe_run(api->probe, NULL, NULL, &result))
		return;
	judge(d, api, &result);
	json_decref(result.lines);
}
