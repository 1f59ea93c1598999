/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is managed: does what `fermata run --memory' asks for work on this driver, its
 * devices and this host? Where it does not, programs run as always. */
#include "api/cuda/core/memory/able.h"
#include "api/cuda/core/memory/chunk.h"
#include "api/cuda/core/memory/host.h"
#include "api/cuda/core/tune.h"
#include "base/size.h"
#include "base/util.h"
#include "doctor/probe.h"
#include "tool.h"
#include <string.h>
#include <sys/resource.h>

#define OUT_OF_MEMORY 2 /* CUresult */
#define NOT_SUPPORTED 801

#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage/enabled"
#define AS_ALWAYS  "programs with --memory run as always"
#define LEAVE_IT   "do without --memory here, and report it with the driver's version"
#define NO_KEEP    "set FERMATA_MEMORY_KEEP=0 for programs with --memory, and report it"

#define MS(ns) ((double)(ns) / 1e6)

static json_int_t number(const json_t *line, const char *key)
{
	return json_integer_value(json_object_get(line, key));
}

static const char *bytes_of(const json_t *line, const char *key, char *buf)
{
	return fm_size_short((uint64_t)number(line, key), buf);
}

/* --- devices --- */

static bool addresses_are_limited(void)
{
	struct rlimit r;

	return !getrlimit(RLIMIT_AS, &r) && r.rlim_cur != RLIM_INFINITY;
}

static const char *vmm_remedy(const json_t *line)
{
	int code = (int)number(line, "code");

	if (code == OUT_OF_MEMORY && addresses_are_limited())
		return "lift the limit of addresses (`ulimit -v unlimited')";
	if (code == NOT_SUPPORTED)
		return "none is needed without --memory; a newer driver may have it, a virtual GPU "
		       "may have none";
	return tool_cuda_remedy(code);
}

/* Does it work? */
static bool judge_vmm(struct doctor *d, const char *device, const json_t *line)
{
	char size[FM_SIZE_TEXT], unit[FM_SIZE_TEXT], room[FM_SIZE_TEXT], text[512];
	bool works = !*cli_str(line, "refused");

	bytes_of(line, "addresses", room);
	if (!works)
		snprintf(text, sizeof(text), "%s: memory is not managed, " AS_ALWAYS ": %s (%s)",
			device, cli_str(line, "refused"), cli_str(line, "error"));
	else if (number(line, "addresses") < number(line, "total"))
		snprintf(text, sizeof(text),
			"%s: only %s of addresses can be had, less than the device's memory",
			device, room);
	else
		snprintf(text, sizeof(text),
			"%s: memory can be moved: %s in %s of addresses, made and mapped in %.1f "
			"ms, unmapped and given back in %.1f ms, in units of %s",
			device, bytes_of(line, "bytes", size), room, MS(number(line, "map_ns")),
			MS(number(line, "unmap_ns")), bytes_of(line, "unit", unit));
	if (works && number(line, "addresses") >= number(line, "total"))
		doctor_found(d, GOOD, "vmm", text, NULL);
	else
		doctor_found(d, WARNING, "vmm", text,
			works ? "lift the limit of addresses (`ulimit -v unlimited')"
			      : vmm_remedy(line));
	return works;
}

/* Do they work? */
static bool judge_copies(struct doctor *d, const char *device, const json_t *line)
{
	const char *refused = cli_str(line, "refused"), *error = cli_str(line, "error");
	char size[FM_SIZE_TEXT], text[512];

	if (!*refused) {
		snprintf(text, sizeof(text),
			"%s: %.1f GB/s to the device and %.1f GB/s from it (%s of registered "
			"memory)",
			device, json_real_value(json_object_get(line, "in")),
			json_real_value(json_object_get(line, "out")),
			bytes_of(line, "bytes", size));
		doctor_found(d, GOOD, "copies", text, NULL);
		return true;
	}
	snprintf(text, sizeof(text), "%s: memory cannot be moved out: %s%s%s%s", device, refused,
		*error ? " (" : "", error, *error ? ")" : "");
	doctor_found(d, WARNING, "copies", text,
		json_is_true(json_object_get(line, "host"))
			? "see `host', below; or raise the limit of locked memory (`ulimit -l')"
			: LEAVE_IT);
	return false;
}

/* There is no such line where the machine has one node, or nobody knows. */
static void judge_node(struct doctor *d, const char *device, const json_t *line)
{
	json_int_t node = number(line, "node"), strayed = number(line, "strayed");
	char size[FM_SIZE_TEXT], other[FM_SIZE_TEXT], text[512];

	bytes_of(line, "bytes", size);
	bytes_of(line, "strayed", other);
	if (!strayed)
		snprintf(text, sizeof(text),
			"%s: what leaves it goes to memory of NUMA node %d, its own", device,
			(int)node);
	else
		snprintf(text, sizeof(text),
			"%s: of %s for what leaves it, %s are not on its NUMA node %d: copies take "
			"longer",
			device, size, other, (int)node);
	doctor_found(d, strayed ? WARNING : GOOD, "node", text,
		strayed ? "free memory of that node (`numactl -H'), or lift the limit of nodes "
			  "(cpuset.mems)"
			: NULL);
}

static void judge_digest(struct doctor *d, const char *device, const json_t *line)
{
	const char *refused = cli_str(line, "refused");
	char text[512];

	if (!*refused) {
		snprintf(text, sizeof(text),
			"%s: unchanged memory is not copied again: its digest is that of the "
			"processor",
			device);
		doctor_found(d, GOOD, "digest", text, NULL);
		return;
	}
	snprintf(text, sizeof(text), "%s: memory cannot be known as unchanged by its digest: %s",
		device, refused);
	doctor_found(d, WARNING, "digest", text,
		json_is_true(json_object_get(line, "wrong"))
			? NO_KEEP
			: "report it with the driver's version; until then all memory is copied "
			  "each time that it moves");
}

static void judge_mapped(struct doctor *d, const char *device, const json_t *line)
{
	bool works = !*cli_str(line, "refused");
	char size[FM_SIZE_TEXT], text[512];

	if (works)
		snprintf(text, sizeof(text),
			"%s: memory without room on the device can run from the host: %s, written "
			"with %.1f GB/s",
			device, bytes_of(line, "bytes", size),
			json_real_value(json_object_get(line, "out")));
	else
		snprintf(text, sizeof(text),
			"%s: memory cannot run from the host: %s (%s); a program whose memory has "
			"no room waits for it, and none has more than the device",
			device, cli_str(line, "refused"), cli_str(line, "error"));
	doctor_found(d, works ? GOOD : WARNING, "mapped", text,
		works ? NULL : "see `host', below; or use a newer driver");
}

/* No fault, where they differ: what one of them does not have is not a program's. */
static void judge_nvml(struct doctor *d, const char *device, const json_t *line)
{
	json_int_t differs = number(line, "used") - number(line, "nvml_used");
	char used[FM_SIZE_TEXT], total[FM_SIZE_TEXT], nvml[FM_SIZE_TEXT], kept[FM_SIZE_TEXT],
		lost[FM_SIZE_TEXT], text[512];

	snprintf(text, sizeof(text),
		"%s: CUDA says that %s of %s are used, NVML %s (%s unaccounted); the driver keeps "
		"%s besides",
		device, bytes_of(line, "used", used), bytes_of(line, "total", total),
		bytes_of(line, "nvml_used", nvml),
		fm_size_short((uint64_t)(differs < 0 ? -differs : differs), lost),
		bytes_of(line, "reserved", kept));
	doctor_found(d, GOOD, "nvml", text, NULL);
}

/* Can memory of that device be managed, by this line? */
static bool judge_line(struct doctor *d, const char *device, const json_t *line)
{
	const char *step = cli_str(line, "step");
	char text[512];

	if (!strcmp(step, "vmm"))
		return judge_vmm(d, device, line);
	if (!strcmp(step, "copies"))
		return judge_copies(d, device, line);
	if (!strcmp(step, "node"))
		judge_node(d, device, line);
	if (!strcmp(step, "digest"))
		judge_digest(d, device, line);
	if (!strcmp(step, "mapped"))
		judge_mapped(d, device, line);
	if (!strcmp(step, "nvml"))
		judge_nvml(d, device, line);
	if (strcmp(step, "shared"))
		return true;
	snprintf(text, sizeof(text),
		"%s: memory is not managed where programs share one context (MPS), " AS_ALWAYS,
		device);
	doctor_found(d, WARNING, "memory", text,
		"end the MPS daemon (`echo quit | nvidia-cuda-mps-control'), or do without "
		"--memory");
	return false;
}

/* Can memory of all devices be managed? */
static bool judge_devices(struct doctor *d, const struct probe_result *result)
{
	const char *device = "the driver";
	bool works = probe_step(result, "vmm") && !*result->died;
	char text[512];
	json_t *line;
	size_t i;

	json_array_foreach (result->lines, i, line) {
		if (!strcmp(cli_str(line, "step"), "device"))
			device = cli_str(line, "name");
		works = judge_line(d, device, line) && works;
	}
	if (*result->died) {
		snprintf(text, sizeof(text), "trying it, %s %s", device, result->died);
		doctor_found(d, WARNING, "memory", text, LEAVE_IT);
	}
	return works;
}

/* --- the host --- */

static void judge_host(struct doctor *d)
{
	struct fm_cu_host_room room = fm_cu_host_room();
	uint64_t most = fm_cu_memory_host_most(), left = FM_MIN(room.machine, room.cgroup);
	char machine[FM_SIZE_TEXT], cgroup[FM_SIZE_TEXT], each[FM_SIZE_TEXT], keep[FM_SIZE_TEXT],
		text[512];
	bool enough = left >= FM_CU_HOST_LEFT + FM_CU_CHUNK_PAGES * FM_CU_PAGE;

	fm_size_short(room.machine, machine);
	fm_size_short(room.cgroup, cgroup);
	snprintf(text, sizeof(text),
		"the host has %s left for memory that leaves devices%s%s%s; %s of that stay free, "
		"and each device takes %s at most",
		machine, room.cgroup == UINT64_MAX ? "" : ", and the cgroup leaves ",
		room.cgroup == UINT64_MAX ? "" : cgroup,
		room.cgroup == UINT64_MAX ? ", without a limit of the cgroup" : "",
		fm_size_short(FM_CU_HOST_LEFT, keep), fm_size_short(most, each));
	if (enough && most)
		doctor_found(d, GOOD, "host", text, NULL);
	else
		doctor_found(d, WARNING, "host", text,
			enough ? "unset FERMATA_MEMORY_HOST, or give it a size"
			       : "free memory of the host, or raise memory.max of the cgroup; "
				 "until then memory stays on the device");
}

/* Pages of 4 KiB make copies no slower, but what they are copied to is made and registered in many
 * times the time. */
static void judge_pages(struct doctor *d)
{
	FILE *f = fopen(HUGE_PAGES, "re");
	char line[128] = "";

	if (f && !fgets(line, sizeof(line), f))
		*line = '\0';
	if (f)
		fclose(f);
	if (strstr(line, "[never]"))
		doctor_found(d, WARNING, "pages",
			"the host makes no huge pages: it takes longer to move memory out for the "
			"first time",
			"`echo madvise | sudo tee " HUGE_PAGES "'");
	else if (strstr(line, "[madvise]") || strstr(line, "[always]"))
		doctor_found(d, GOOD, "pages",
			"the host makes huge pages for memory that leaves devices", NULL);
	else
		doctor_found(d, GOOD, "pages",
			"not known whether the host makes huge pages: " HUGE_PAGES " is not there",
			NULL);
}

void tool_cuda_doctor_memory(struct doctor *d)
{
	struct probe_result result;

	doctor_progress(d, "trying to move memory...");
	if (probe_run("memory", NULL, NULL, &result))
		return;
	if (judge_devices(d, &result))
		doctor_found(d, GOOD, "memory",
			"memory of programs can be managed (`fermata run --memory')", NULL);
	judge_host(d);
	judge_pages(d);
	json_decref(result.lines);
}
