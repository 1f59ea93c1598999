/* SPDX-License-Identifier: Apache-2.0 */
#include "preload.h"
#include "base/cleanup.h"
#include "cli.h"
#include "inject.h"
#include "place.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int preload_find(const struct preload *p, char path[PATH_MAX], struct fm_err *err)
{
	char self[PATH_MAX];

	if (!place_file(p->file, path, self)) {
		fm_err_set(err, -ENOENT, "%s programs run unscheduled: cannot find %s near %s",
			p->name, p->file, self);
		return fm_err_hint(err,
			"install Fermata's shim for %s, or set FERMATA_LIBDIR to its directory",
			p->name);
	}
	if (!strpbrk(path, ": "))
		return behind_runtime(path);
	fm_err_set(err, -EINVAL, "%s programs run unscheduled: the path of the shim is %s", p->name,
		path);
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

/* What LD_PRELOAD is to name: the shim by a path that only a dynamic linker expands for whose
 * programs it is made. For 32-bit programs it leads to an object without code; other C libraries
 * find nothing there, and say nothing. The shim's own path where that is not installed. */
static int preload_path(const struct preload *p, char path[PATH_MAX], struct fm_err *err)
{
	char other[PATH_MAX];
	const char *slash;
	int rc = preload_find(p, path, err), n;

	if (rc)
		return rc;
	slash = strrchr(path, '/');
	n = snprintf(other, sizeof(other), "%.*s/" PRELOAD_DIR "%s", (int)(slash - path), path,
		slash + 1);
	if (n > 0 && (size_t)n < sizeof(other) && expands(other))
		strcpy(path, other);
	return 0;
}

bool preload_in_library_path(const char *file)
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

bool preload_wanted(const struct preload *p, bool wanted)
{
	const char *asked = getenv(p->variable);

	return asked && *asked ? strcmp(asked, "0") : wanted;
}

int preload_inject(const struct preload *p, bool wanted, struct fm_err *err)
{
	char path[PATH_MAX];
	int rc;

	if (!preload_wanted(p, wanted) || inject_has("LD_PRELOAD", ": ", p->file))
		return 0;
	rc = preload_path(p, path, err);
	if (rc == -EINVAL || rc == -ENOENT)
		cli_report(err);
	if (rc)
		return 0;
	rc = inject_first("LD_PRELOAD", path, err);
	return rc ? rc : set_order(err);
}
