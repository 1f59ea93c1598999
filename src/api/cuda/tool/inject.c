/* SPDX-License-Identifier: Apache-2.0 */
/* Where the shim for CUDA lies, and how programs are given it. */
#include "base/cleanup.h"
#include "cmd/inject.h"
#include "cmd/place.h"
#include "tool.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHIM_FILE "libfermata-cuda.so"

/* The shim of a sanitized build brings the sanitizer's runtime into programs that have none, and
 * the runtime must come first of all: so only where a test says that its programs have it. */
static int behind_runtime(char path[PATH_MAX])
{
#ifdef FM_SANITIZED
	void *runtime = dlsym(RTLD_DEFAULT, "__asan_init");
	char shim[PATH_MAX];
	Dl_info info;
	int n;

	if (!getenv("FM_TEST_SHIM") || !runtime || !dladdr(runtime, &info))
		return -ENOTSUP;
	memcpy(shim, path, PATH_MAX);
	n = snprintf(path, PATH_MAX, "%s:%s", info.dli_fname, shim);
	return n > 0 && n < PATH_MAX ? 0 : -ENOTSUP;
#endif
	return 0;
}

int tool_cuda_shim(char path[PATH_MAX], struct fm_err *err)
{
	char self[PATH_MAX];

	if (!place_file(SHIM_FILE, path, self)) {
		fm_err_set(err, -ENOENT,
			"CUDA programs run unscheduled: cannot find " SHIM_FILE " near %s",
			self);
		return fm_err_hint(err,
			"install Fermata's shim for CUDA, or set FERMATA_LIBDIR to its "
			"directory");
	}
	if (!strpbrk(path, ": "))
		return behind_runtime(path);
	fm_err_set(err, -EINVAL, "CUDA programs run unscheduled: the path of the shim is %s", path);
	return fm_err_hint(
		err, "LD_PRELOAD is a list separated by ':' and spaces; install elsewhere");
}

/* Where cmake/preload.cmake puts it. */
#define PRELOAD_DIR "fermata/preload/$PLATFORM/"

/* Does the dynamic linker of this program find a file there? It is not loaded. */
static bool expands(const char *path)
{
	void *handle;

	dlerror();
	handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (handle)
		dlclose(handle);
	return handle || !dlerror();
}

/* What LD_PRELOAD is to name: the shim by a path that only a dynamic linker expands for whose programs
 * it is made. For 32-bit programs it leads to an object without code; other C libraries find nothing
 * there, and say nothing. The shim's own path where that is not installed. */
static int preload_path(char path[PATH_MAX], struct fm_err *err)
{
	char other[PATH_MAX];
	const char *slash;
	int rc = tool_cuda_shim(path, err), n;

	if (rc)
		return rc;
	slash = strrchr(path, '/');
	n = snprintf(other, sizeof(other), "%.*s/" PRELOAD_DIR "%s", (int)(slash - path), path,
		slash + 1);
	if (n > 0 && (size_t)n < sizeof(other) && expands(other))
		strcpy(path, other);
	return 0;
}

static bool in_library_path(const char *file)
{
	FM_CLEAN_FREE char *dirs = strdup(getenv("LD_LIBRARY_PATH") ?: "");
	char path[PATH_MAX], *rest = NULL;

	for (char *d = dirs ? strtok_r(dirs, ":;", &rest) : NULL; d;
		d = strtok_r(NULL, ":;", &rest))
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", d, file) < sizeof(path) &&
			!access(path, R_OK))
			return true;
	return false;
}

/* May programs here use CUDA: a device node of a driver that has it, or what makes one when it is
 * first used, or a driver in $LD_LIBRARY_PATH? */
static bool has_cuda(void)
{
	/* Windows below Linux; NVIDIA's devices that have no bus of their own; and where there is
	 * no node yet, a driver that has one made, by a program with more rights, when it is first
	 * used. */
	static const char *const nodes[] = {TOOL_CUDA_NODE, "/dev/nvidia-uvm", "/dev/dxg",
		"/dev/nvmap", "/proc/driver/nvidia/version", "/usr/bin/nvidia-modprobe"};

	for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!access(nodes[i], F_OK))
			return true;
	return in_library_path("libcuda.so.1");
}


/* Whoever asks for it has it, and elsewhere nobody has a use for it. */
static bool wants_shim(const struct fm_api_wishes *wishes)
{
	const char *asked = getenv("FERMATA_CUDA");

	if (asked && *asked)
		return strcmp(asked, "0");
	return wishes->guardian || wishes->partition || has_cuda();
}

/* The runtime of AddressSanitizer, where it is a library, ends programs in which it is not the
 * first to be loaded, unless it is told not to look. */
static int set_order(struct fm_err *err)
{
	static const char flag[] = "verify_asan_link_order";
	FM_CLEAN_FREE char *list = NULL;
	const char *others = getenv("ASAN_OPTIONS");

	if (others && strstr(others, flag))
		return 0;
	if (asprintf(&list, "%s=0%s%s", flag, others && *others ? ":" : "", others ?: "") < 0)
		return fm_err_set(err, -ENOMEM, "out of memory");
	return inject_set("ASAN_OPTIONS", list, err);
}

/* CUDA knows no layers: its shim is loaded before all else. Without it programs of other APIs are
 * scheduled all the same. */
static int set_preload(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	char path[PATH_MAX];
	int rc;

	if (!wants_shim(wishes) || inject_has("LD_PRELOAD", ": ", SHIM_FILE))
		return 0;
	rc = preload_path(path, err);
	if (rc == -EINVAL || rc == -ENOENT)
		cli_report(err);
	if (rc)
		return 0;
	rc = inject_first("LD_PRELOAD", path, err);
	return rc ? rc : set_order(err);
}

/* Each guarded stream has two more: with few channels of the driver's to share, they would wait for
 * each other. */
static int set_guardian(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	int rc = inject_set("FERMATA_GUARDIAN", "1", err);

	if (!rc && wishes->loops)
		rc = inject_set("FERMATA_GUARDIAN_LOOPS", wishes->loops, err);
	if (!rc && !getenv("CUDA_DEVICE_MAX_CONNECTIONS"))
		rc = inject_set("CUDA_DEVICE_MAX_CONNECTIONS", "32", err);
	return rc;
}

int tool_cuda_inject(const struct fm_api_wishes *wishes, struct fm_err *err)
{
	int rc = wishes->guardian ? set_guardian(wishes, err) : 0;

	if (!rc && wishes->partition)
		rc = inject_set("FERMATA_PARTITION", wishes->partition, err);
	return rc ? rc : set_preload(wishes, err);
}
