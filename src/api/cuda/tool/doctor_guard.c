/* SPDX-License-Identifier: Apache-2.0 */
/* The guardian: does what `fermata run --guardian' asks for work on this driver and its devices? */
#include "base/util.h"
#include "doctor/probe.h"
#include "tool.h"
#include <string.h>

#define OUT_OF_MEMORY 2 /* CUresult */
#define LEAVE_IT      "do without --guardian here, and report it with the driver's version"

static const struct {
	const char *reason, *remedy;
} remedies[] = {
	{"old", "update the driver to 555 (CUDA 12.5) or newer; with this one programs stop "
		"between "
		"kernels (level 2)"},
	{"architecture", "none: programs on it stop between kernels (level 2)"},
	{"gates", "see `gates', above"},
	{"image", "reinstall fermata, or report it with its version"},
	{"load", "report it with the driver's version; programs get kernels as they are, and stop "
		 "between two (level 2)"},
	{"stop", "end programs that use the device and try again; otherwise report it with the "
		 "driver's version"},
	{"hang", LEAVE_IT},
	{"wrong", LEAVE_IT},
};

static const char *remedy_of(const json_t *line)
{
	const char *reason = cli_str(line, "reason");
	int code = (int)json_integer_value(json_object_get(line, "code"));
	bool at_work = !strcmp(reason, "hang") || !strcmp(reason, "wrong");

	if (at_work && json_is_true(json_object_get(line, "shared")))
		return "stop the MPS daemon (`echo quit | nvidia-cuda-mps-control') or do without "
		       "--guardian, and report it with the driver's version";
	for (size_t i = 0; code != OUT_OF_MEMORY && i < FM_ARRAY_LEN(remedies); i++)
		if (!strcmp(remedies[i].reason, reason))
			return remedies[i].remedy;
	return code ? tool_cuda_remedy(code) : LEAVE_IT;
}

static void judge_device(struct doctor *d, const char *device, const json_t *line)
{
	const char *reason = cli_str(line, "reason");
	char text[512];

	if (*reason) {
		snprintf(text, sizeof(text), "%s: %s", device, cli_str(line, "text"));
		doctor_found(d, WARNING, "guardian", text, remedy_of(line));
		return;
	}
	snprintf(text, sizeof(text),
		"%s: a kernel of %d blocks stopped between two of them, and continued with the "
		"right result",
		device, (int)json_integer_value(json_object_get(line, "blocks")));
	doctor_found(d, GOOD, "guardian", text, NULL);
}

static void judge_cache(struct doctor *d, const json_t *line)
{
	const char *error = cli_str(line, "error");
	char text[256];

	if (!*error)
		return;
	snprintf(text, sizeof(text), "rewritten kernels cannot be kept on disk: %s", error);
	doctor_found(d, WARNING, "cache", text,
		"make ~/.cache/fermata writable, by you alone, or name another place in "
		"$XDG_CACHE_HOME; without it programs start later");
}

static void judge(struct doctor *d, const struct probe_result *result)
{
	const json_t *cache = probe_step(result, "cache");
	const char *device = "the driver";
	bool open = true;
	char text[512];
	json_t *line;
	size_t i;

	json_array_foreach (result->lines, i, line) {
		const char *step = cli_str(line, "step");

		if (!strcmp(step, "device"))
			device = cli_str(line, "name");
		open = open && strcmp(step, "cuda") != 0;
		if (!strcmp(step, "guardian"))
			judge_device(d, device, line);
	}
	if (cache)
		judge_cache(d, cache);
	if (!*result->died || !open)
		return;
	snprintf(text, sizeof(text), "trying it, %s %s", device, result->died);
	doctor_found(d, WARNING, "guardian", text, LEAVE_IT);
}

void tool_cuda_doctor_guard(struct doctor *d)
{
	struct probe_result result;

	doctor_progress(d, "trying the guardian...");
	if (probe_run("guardian", NULL, NULL, &result))
		return;
	judge(d, &result);
	json_decref(result.lines);
}
