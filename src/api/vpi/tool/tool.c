/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VPI, for the commands.
 *
 * Owns: nothing that lasts: the library is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main().
 */
#include "api/vpi/core/core.h"
#include "base/util.h"
#include "doctor/on_request.h"
#include <dlfcn.h>

const struct fm_api fm_api_vpi;

/* As VPIBackend has them. */
static const struct {
	const char *name;
	uint64_t flag;
} backends[] = {{"CPU", 1}, {"CUDA", 2}, {"PVA", 4}, {"VIC", 8}, {"OFA", 32}};

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

static void try_machine(FILE *out)
{
	struct fm_vpi_driver vpi = {0};
	void *lib = probe_library(out, &fm_api_vpi);
	char text[160];
	bool works;

	if (!lib || !probe_driver(out, &fm_api_vpi, lib, &fm_vpi_owns, &vpi))
		return;
	works = try_backends(&vpi, lib, text, sizeof(text) - 64);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s",
		works ? "; launches are held back" : "; no stream's end is heard of");
	probe_begins(out, &fm_api_vpi);
	probe_device(out, &fm_api_vpi, FM_VPI_DEVICE, "accelerator");
	probe_levels(out, works ? 1u << 1 : 0, text);
}

static const struct on_request vpi = {
	.shim = {"libfermata-vpi.so", "VPI", "FERMATA_VPI"},
	.names = (const char *const[]){FM_VPI_LIBRARIES, NULL},
	.how = ", at level 1",
	.look = "NVIDIA's package libnvvpi brings a newer one",
};

const struct fm_api fm_api_vpi = ON_REQUEST("vpi", &vpi, try_machine);
