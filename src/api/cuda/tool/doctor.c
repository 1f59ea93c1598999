/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: what is wrong with the driver, and what its devices cannot do. */
#include "api/cuda/newest.h"
#include "base/util.h"
#include "doctor/probe.h"
#include "tool.h"
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PCI_NVIDIA  0x10de
#define PCI_DISPLAY 0x03 /* class, of which 3D controllers are, too */

/* CUresult, as docs.nvidia.com/cuda/cuda-driver-api says what they mean. */
enum {
	OUT_OF_MEMORY = 2,
	STUB_LIBRARY = 34,
	DEVICE_UNAVAILABLE = 46,
	NO_DEVICE = 100,
	ECC_UNCORRECTABLE = 214,
	NOT_PERMITTED = 800,
	NOT_SUPPORTED = 801,
	SYSTEM_NOT_READY = 802,
	SYSTEM_DRIVER_MISMATCH = 803,
	COMPAT_NOT_SUPPORTED = 804,
	MPS_CONNECTION_FAILED = 805,
	MPS_CLIENT_TERMINATED = 810,
	UNKNOWN = 999
};

static const struct {
	int first, last;
	const char *remedy;
} remedies[] = {
	{OUT_OF_MEMORY, OUT_OF_MEMORY,
		"free memory of the device: `nvidia-smi' shows the "
		"programs that use it"},
	{STUB_LIBRARY, STUB_LIBRARY,
		"the toolkit's stubs come before the driver: take them out of LD_LIBRARY_PATH"},
	{DEVICE_UNAVAILABLE, DEVICE_UNAVAILABLE,
		"a process uses it exclusively: `nvidia-smi -c DEFAULT' allows others"},
	{ECC_UNCORRECTABLE, ECC_UNCORRECTABLE,
		"its memory has failed: `nvidia-smi -q -d ECC'; reset the device or replace it"},
	{SYSTEM_NOT_READY, SYSTEM_NOT_READY,
		"start nvidia-fabricmanager, and wait until `nvidia-smi -q' says Completed"},
	{SYSTEM_DRIVER_MISMATCH, SYSTEM_DRIVER_MISMATCH,
		"libcuda and the kernel's module are of different versions: restart the machine, "
		"or the container with the host's libcuda"},
	{COMPAT_NOT_SUPPORTED, COMPAT_NOT_SUPPORTED,
		"take the compatibility package's directory out of LD_LIBRARY_PATH"},
	{MPS_CONNECTION_FAILED, MPS_CLIENT_TERMINATED,
		"start the MPS daemon (`nvidia-cuda-mps-control -d'), or unset "
		"CUDA_MPS_PIPE_DIRECTORY"},
	{UNKNOWN, UNKNOWN,
		"`dmesg | grep NVRM' says more; after a suspend of the machine reload nvidia_uvm"},
};

static const char *no_device(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (visible)
		return "unset CUDA_VISIBLE_DEVICES, which names no existing device";
	if (access(TOOL_CUDA_NODE, F_OK))
		return "load the kernel's module (`modprobe nvidia'); give a container the devices "
		       "(`docker run --gpus all')";
	return "`nvidia-smi' shows whether there is one, and which users may use it";
}

const char *tool_cuda_remedy(int code)
{
	if (code == NO_DEVICE)
		return no_device();
	for (size_t i = 0; i < FM_ARRAY_LEN(remedies); i++)
		if (code >= remedies[i].first && code <= remedies[i].last)
			return remedies[i].remedy;
	return "`nvidia-smi' shows whether the driver works at all, and which users may use it";
}

/* Why a device has no gates: the program's launches are held back, or nothing is. */
static const char *gates_remedy(const char *text, int code)
{
	bool memory = strstr(text, "register");

	if (!code)
		return "update the driver, or report it with its version";
	if (memory && code == OUT_OF_MEMORY)
		return "raise the limit of locked memory (`ulimit -l'), or free memory";
	if (memory && code == NOT_PERMITTED)
		return "let programs lock memory (`ulimit -l unlimited', CAP_IPC_LOCK)";
	if (code == NOT_SUPPORTED && !memory)
		return "update the driver to 515 (CUDA 11.7) or newer; a virtual GPU may have none";
	if (code == NOT_SUPPORTED)
		return "none: this machine cannot show its memory to the device";
	return tool_cuda_remedy(code);
}

static void judge_gates(struct doctor *d, const struct probe_result *result)
{
	const char *device = "-";
	char text[512];
	json_t *line;
	size_t i;

	json_array_foreach (result->lines, i, line) {
		const char *step = cli_str(line, "step"), *refused = cli_str(line, "refused");

		if (!strcmp(step, "device"))
			device = cli_str(line, "name");
		if (strcmp(step, "gates"))
			continue;
		snprintf(text, sizeof(text), "%s: %s", device, refused);
		doctor_found(d, WARNING, "gates", text,
			gates_remedy(
				refused, (int)json_integer_value(json_object_get(line, "code"))));
	}
}

/* No fault of the machine's, and none at all where the daemon is not strict. */
static void judge_strict(struct doctor *d, const struct probe_result *result)
{
	const char *device = "-";
	char text[512];
	json_t *line;
	size_t i;

	json_array_foreach (result->lines, i, line) {
		const char *step = cli_str(line, "step");

		if (!strcmp(step, "device"))
			device = cli_str(line, "name");
		if (strcmp(step, "strict") || json_is_true(json_object_get(line, "works")))
			continue;
		snprintf(text, sizeof(text),
			"%s: only level 1 if fermatad is strict, because the device cannot wait "
			"for memory that programs only read (%s)",
			device, cli_str(line, "error"));
		doctor_found(d, GOOD, "strict", text, NULL);
	}
}

/* What servers may ask for (<fermata/cuda.h>); no fault where it is not. */
static void judge_partition(struct doctor *d, const struct probe_result *result)
{
	const char *device = "-", *error;
	char text[512];
	json_t *line;
	size_t i;

	json_array_foreach (result->lines, i, line) {
		const char *step = cli_str(line, "step");
		int sms = (int)json_integer_value(json_object_get(line, "sms"));
		int rest = (int)json_integer_value(json_object_get(line, "rest"));

		if (!strcmp(step, "device"))
			device = cli_str(line, "name");
		if (strcmp(step, "partition"))
			continue;
		error = cli_str(line, "error");
		if (*error)
			snprintf(text, sizeof(text), "%s: no partitions (%s)", device, error);
		else
			snprintf(text, sizeof(text),
				"%s: a server's urgent stream can have multiprocessors of its own, "
				"%d or more of %d",
				device, sms, sms + rest);
		doctor_found(d, GOOD, "partition", text, NULL);
	}
}

/* Why an engine has no sets here. */
static const char *no_sets(int rc, const char *without)
{
	if (rc == -ENOSYS)
		return without;
	return rc == -ENOMEM ? "memory is short" : "the driver refuses what it needs";
}

/* By which engines sets of tasks decide on a device (<fermata/gpu_sched.h>); no fault where they do
 * not: there is the engine "cpu". */
static void judge_sets_of(struct doctor *d, const char *device, const json_t *line)
{
	int gates = (int)json_integer_value(json_object_get(line, "gates"));
	int graphs = (int)json_integer_value(json_object_get(line, "graphs"));
	const char *runtime = cli_str(line, "runtime"), *failed = cli_str(line, "failed");
	char text[2 * PATH_MAX + 512], how[PATH_MAX + 384];

	if (!graphs)
		snprintf(how, sizeof(how), "and by `graphs', with the device runtime %s", runtime);
	else if (!*runtime)
		snprintf(how, sizeof(how),
			"not by `graphs': no device runtime (libcudadevrt.a) in %s",
			cli_str(line, "places"));
	else
		snprintf(how, sizeof(how), "not by `graphs', with the device runtime %s: %s%s%s%s",
			runtime, no_sets(graphs, "the driver does not take it"),
			*failed ? " (" : "", failed, *failed ? ")" : "");
	snprintf(text, sizeof(text), "%s: sets of tasks %s%s%s; %s", device,
		gates ? "do not decide on the device by `gates' ("
		      : "decide on the device by `gates'",
		gates ? no_sets(gates, "the driver has no stream memory operations of 64 bits")
		      : "",
		gates ? ")" : "", how);
	doctor_found(d, GOOD, "sets", text, NULL);
}

static void judge_sets(struct doctor *d, const struct probe_result *result)
{
	const char *device = "-";
	json_t *line;
	size_t i;

	json_array_foreach (result->lines, i, line) {
		if (!strcmp(cli_str(line, "step"), "device"))
			device = cli_str(line, "name");
		if (!strcmp(cli_str(line, "step"), "sets"))
			judge_sets_of(d, device, line);
	}
}

/* A choice that is the operator's: either half of it. */
static void judge_mps(struct doctor *d, const struct probe_result *result, bool usable)
{
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/control", dir && *dir ? dir : "/tmp/nvidia-mps");
	if (probe_step(result, "shared") || !access(path, F_OK))
		doctor_found(d, GOOD, "mps",
			"programs share one context (MPS): switches are faster, but a program "
			"that fails or is killed at work can end the others; gates work, time "
			"slices do not; busy_poll_us in fermatad.conf halves the cost of gates "
			"for an urgent request; `echo quit | nvidia-cuda-mps-control' ends it",
			NULL);
	else if (usable)
		doctor_found(d, GOOD, "mps",
			"each program has a context of its own: a failure does not affect the "
			"others; under MPS (`nvidia-cuda-mps-control -d') switches would be "
			"faster, but programs would fail together",
			NULL);
}

static void judge_parts(struct doctor *d)
{
	json_t *device;
	char text[384];
	size_t i;

	json_array_foreach (d->devices, i, device) {
		const char *name = cli_str(device, "name");

		if (strcmp(cli_str(device, "platform"), "CUDA") || !strstr(name, " MIG "))
			continue;
		snprintf(text, sizeof(text),
			"%s: a part of a device (MIG), scheduled separately from the others; "
			"programs that share it must be given this part (CUDA_VISIBLE_DEVICES, "
			"`nvidia-smi -L')",
			name);
		doctor_found(d, GOOD, "mig", text, NULL);
	}
}

static void judge_slices(struct doctor *d, const struct probe_result *result)
{
	const json_t *slices = probe_step(result, "slices");

	if (!slices || probe_step(result, "shared"))
		return;
	if (json_is_true(json_object_get(slices, "refused")))
		doctor_found(d, WARNING, "slices", "the driver lets no program set its time slice",
			"none is needed: a program in the background makes room between its "
			"kernels");
	else if (json_integer_value(json_object_get(slices, "groups")) > 0)
		doctor_found(
			d, GOOD, "slices", "programs can set their time slice (level 3)", NULL);
	else
		doctor_found(d, GOOD, "slices",
			"not known whether time slices can be set: none was there to try; without "
			"--guardian programs stop between kernels at best (level 2)",
			NULL);
}

/* Can a device be scheduled? */
static bool judge_devices(struct doctor *d, const struct probe_result *result)
{
	size_t n, usable = doctor_devices(d, result, &n);
	char text[256];

	snprintf(text, sizeof(text), "%s%s%zu of %zu devices can be scheduled", result->died,
		*result->died ? "; " : "", usable, n);
	doctor_found(d, usable == n && n && !*result->died ? GOOD : WARNING, "cuda", text,
		"see what trying them showed, below; update the driver");
	return usable > 0;
}

static unsigned read_hex(const char *device, const char *file)
{
	char path[PATH_MAX];
	unsigned value = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", device, file);
	f = fopen(path, "re");
	if (f && fscanf(f, "%x", &value) != 1)
		value = 0;
	if (f)
		fclose(f);
	return value;
}

/* A GPU on the bus, which a container sees also where it was given none. Not what else the vendor
 * makes. */
static bool on_bus(char *slot, size_t size)
{
	bool found = false;
	glob_t g;

	if (glob("/sys/bus/pci/devices/*", 0, NULL, &g))
		return false;
	for (size_t i = 0; i < g.gl_pathc && !found; i++) {
		const char *device = g.gl_pathv[i];

		found = read_hex(device, "vendor") == PCI_NVIDIA &&
			read_hex(device, "class") >> 16 == PCI_DISPLAY;
		if (found)
			snprintf(slot, size, "%s", strrchr(device, '/') + 1);
	}
	globfree(&g);
	return found;
}

static void judge_absent(struct doctor *d, const char *error)
{
	char slot[64], text[256];

	if (!access(TOOL_CUDA_NODE, F_OK)) {
		doctor_found(d, WARNING, "cuda", error,
			"install the user-space part of the NVIDIA driver (Debian: libcuda1)");
	} else if (on_bus(slot, sizeof(slot))) {
		snprintf(text, sizeof(text),
			"there is a GPU of NVIDIA's (%s), but neither " TOOL_CUDA_NODE
			" nor the driver's library",
			slot);
		doctor_found(d, WARNING, "cuda", text,
			"give a container the devices (`docker run --gpus all'); elsewhere install "
			"the NVIDIA driver");
	}
}

/* What a program asks the driver for by a version that we do not know goes past the shim where the
 * driver has another function for it (hook.c of the shim). */
static void judge_version(struct doctor *d, const json_t *cuda)
{
	char text[256];

	if (json_integer_value(json_object_get(cuda, "number")) <= FM_CUDA_NEWEST)
		return;
	snprintf(text, sizeof(text),
		"the driver is of CUDA %s, newer than the newest call that the shim knows "
		"(%d.%d): newer versions of calls are neither scheduled nor counted",
		cli_str(cuda, "version"), FM_CUDA_NEWEST / 1000, FM_CUDA_NEWEST % 1000 / 10);
	doctor_found(d, WARNING, "version", text,
		"update fermata; only programs built with a CUDA as new ask for such calls");
}

/* Can a device be scheduled? */
static bool judge(struct doctor *d, const struct probe_result *result)
{
	bool usable = false, shim;
	const json_t *cuda = probe_step(result, "cuda");
	int code = (int)json_integer_value(json_object_get(cuda, "code"));

	if (json_is_true(json_object_get(cuda, "absent"))) {
		judge_absent(d, cli_str(cuda, "error"));
	} else if (json_object_get(cuda, "error")) {
		doctor_found(d, WARNING, "cuda", cli_str(cuda, "error"), tool_cuda_remedy(code));
		judge_mps(d, result, false);
	} else {
		usable = judge_devices(d, result);
		judge_version(d, cuda);
		shim = doctor_preload(d, &tool_cuda_preload);
		d->usable = d->usable || (usable && shim);
		judge_gates(d, result);
		judge_strict(d, result);
		judge_partition(d, result);
		judge_sets(d, result);
		judge_mps(d, result, usable);
		judge_parts(d);
		judge_slices(d, result);
	}
	return usable;
}

bool tool_cuda_doctor(struct doctor *d)
{
	struct probe_result result;
	bool usable;

	doctor_progress(d, "trying the devices of CUDA...");
	if (probe_run("cuda", NULL, NULL, &result))
		return false;
	usable = judge(d, &result);
	json_decref(result.lines);
	return usable;
}
