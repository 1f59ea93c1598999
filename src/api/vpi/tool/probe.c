/* SPDX-License-Identifier: Apache-2.0 */
/* Trying VPI's backends, in the probe's process. Besides the lines of doctor/probe.h:
 * {"step":"vpi"}, with "absent" where there is no library, or with an "error". */
#include "doctor/probe.h"
#include "api/vpi/core/core.h"
#include "base/util.h"
#include "tool.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* As VPIBackend has them. */
static const struct {
	const char *name;
	uint64_t flag;
} backends[] = {{"CPU", 1}, {"CUDA", 2}, {"PVA", 4}, {"VIC", 8}, {"OFA", 32}};

static void *open_library(void)
{
	static const char *const names[] = {FM_VPI_LIBRARIES};
	void *lib = NULL;

	for (size_t i = 0; !lib && i < FM_ARRAY_LEN(names); i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return lib;
}

static bool load(struct fm_vpi_driver *vpi, void *lib, FILE *out)
{
	if (!lib) {
		probe_tell(out, json_pack("{s:s, s:b}", "step", "vpi", "absent", true));
		return false;
	}
#define LOAD(name, result, symbol, params) *(void **)&vpi->name = dlsym(lib, symbol);
	FM_VPI_DRIVER(LOAD)
#undef LOAD
	if (fm_vpi_driver_whole(vpi))
		return true;
	probe_tell(out, json_pack("{s:s, s:s}", "step", "vpi", "error",
				"the library lacks functions that we need"));
	return false;
}

/* Is what an event captured over when the stream is? */
static bool hears_of_ends(const struct fm_vpi_driver *vpi, VPIStream stream)
{
	VPIEnum state = FM_VPI_EVENT_NOT_SIGNALED;
	VPIEvent event;

	if (vpi->event_create(0, &event))
		return false;
	if (!vpi->event_record(event, stream) && !vpi->stream_sync(stream))
		vpi->event_query(event, &state);
	vpi->event_destroy(event);
	return state != FM_VPI_EVENT_NOT_SIGNALED;
}

/* A stream for a backend alone can be made where the machine has that. */
static bool try_backends(const struct fm_vpi_driver *vpi, void *lib, char *text, size_t size)
{
	VPIStatus (*create)(uint64_t, VPIStream *) = NULL;
	void (*destroy)(VPIStream) = NULL;
	bool hears = false;
	VPIStream stream;

	*(void **)&create = dlsym(lib, "vpiStreamCreate");
	*(void **)&destroy = dlsym(lib, "vpiStreamDestroy");
	snprintf(text, size, "backends:");
	for (size_t i = 0; create && destroy && i < FM_ARRAY_LEN(backends); i++) {
		if (create(backends[i].flag, &stream))
			continue;
		hears = hears_of_ends(vpi, stream);
		destroy(stream);
		snprintf(text + strlen(text), size - strlen(text), " %s", backends[i].name);
		if (!hears)
			break;
	}
	return hears;
}

void tool_vpi_probe(FILE *out)
{
	struct fm_vpi_driver vpi = {0};
	void *lib = open_library();
	char text[160];
	bool works;

	if (!load(&vpi, lib, out))
		return;
	works = try_backends(&vpi, lib, text, sizeof(text) - 64);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s",
		works ? "; launches are held back" : "; no stream's end is heard of");
	probe_tell(out, json_pack("{s:s}", "step", "vpi"));
	probe_tell(
		out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name", FM_VPI_DEVICE,
			     "platform", "VPI", "version", "-", "type", "accelerator"));
	probe_tell(out, json_pack("{s:s, s:o, s:s}", "step", "levels", "levels",
				works ? json_pack("[i]", 1) : json_array(), "text", text));
}
