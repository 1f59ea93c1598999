/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"
#include "base/cleanup.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* FM_LIB_FROM_BIN: from the directory of programs to that of libraries, as installed. */
static const char *const lib_dirs[] = {"../lib", FM_LIB_FROM_BIN};

static int self_dir(char dir[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);
	char *slash;

	if (n < 0)
		return -errno;
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

/* base is "" or absolute and ends without '/'. */
static bool file_in(const char *base, const char *dir, const char *file, char path[PATH_MAX])
{
	char tried[PATH_MAX];
	const char *sep = *base && *dir != '/' ? "/" : "";
	int n = snprintf(tried, sizeof(tried), "%s%s%s/%s", *sep ? base : "", sep, dir, file);

	return n > 0 && (size_t)n < sizeof(tried) && realpath(tried, path) && !access(path, R_OK);
}

/* self: where this program lies, if that had to be asked. */
static bool find_file(const char *file, char path[PATH_MAX], char self[PATH_MAX])
{
	const char *given = secure_getenv("FERMATA_LIBDIR");
	bool found = given && *given && file_in("", given, file, path);

	self[0] = '\0';
	if (!found && !self_dir(self))
		for (unsigned i = 0; !found && i < sizeof(lib_dirs) / sizeof(lib_dirs[0]); i++)
			found = file_in(self, lib_dirs[i], file, path);
	return found;
}

int place_layer(char path[PATH_MAX], struct fm_err *err)
{
	char self[PATH_MAX];

	if (!find_file(PLACE_LAYER_FILE, path, self)) {
		fm_err_set(err, -ENOENT, "cannot find " PLACE_LAYER_FILE " near %s", self);
		return fm_err_hint(err, "install it again, or set FERMATA_LIBDIR to its directory");
	}
	if (!strchr(path, ':'))
		return 0;
	fm_err_set(err, -ENOTSUP, "the path of the layer has a ':' in it: %s", path);
	return fm_err_hint(err, "OPENCL_LAYERS is a list separated by ':'; install elsewhere");
}

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

int place_cuda(char path[PATH_MAX], struct fm_err *err)
{
	char self[PATH_MAX];

	if (!find_file(PLACE_CUDA_FILE, path, self)) {
		fm_err_set(err, -ENOENT,
			"CUDA programs run unscheduled: cannot find " PLACE_CUDA_FILE " near %s",
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

int place_preload(char path[PATH_MAX], struct fm_err *err)
{
	char other[PATH_MAX];
	const char *slash;
	int rc = place_cuda(path, err), n;

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

bool place_has_cuda(void)
{
	/* Windows below Linux; NVIDIA's devices that have no bus of their own; and where there is
	 * no node yet, a driver that has one made, by a program with more rights, when it is first
	 * used. */
	static const char *const nodes[] = {PLACE_CUDA_NODE, "/dev/nvidia-uvm", "/dev/dxg",
		"/dev/nvmap", "/proc/driver/nvidia/version", "/usr/bin/nvidia-modprobe"};

	for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!access(nodes[i], F_OK))
			return true;
	return in_library_path("libcuda.so.1");
}

bool place_library(char path[PATH_MAX])
{
	char self[PATH_MAX];

	return find_file(PLACE_LIBRARY_FILE, path, self);
}

void place_daemon(char path[PATH_MAX])
{
	size_t len;

	if (!self_dir(path)) {
		len = strlen(path);
		snprintf(path + len, PATH_MAX - len, "/fermatad");
		if (!access(path, X_OK))
			return;
	}
	strcpy(path, "fermatad");
}
