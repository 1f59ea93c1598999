// SPDX-License-Identifier: Apache-2.0
#include "device_runtime.h"
#include "base/util.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "libcudadevrt.a"

#ifdef __aarch64__
#define ARCH       "sbsa-linux"
#define SYSTEM_DIR "/usr/lib/aarch64-linux-gnu"
#else
#define ARCH       "x86_64-linux"
#define SYSTEM_DIR "/usr/lib/x86_64-linux-gnu"
#endif

/* A file: the driver would wait for what comes of a pipe. */
static bool is_there(char *path, size_t size, const char *root, const char *below)
{
	int n = snprintf(path, size, "%s%s", root, below);
	struct stat s;

	return n > 0 && (size_t)n < size && !fstatat(AT_FDCWD, path, &s, 0) && S_ISREG(s.st_mode) &&
	       !access(path, R_OK);
}

/* In a toolkit. */
static bool in(char *path, size_t size, const char *root)
{
	static const char *const below[] = {
		"/lib64/" FILE_NAME, "/targets/" ARCH "/lib/" FILE_NAME, "/lib/" FILE_NAME};

	for (size_t i = 0; root && *root && i < FM_ARRAY_LEN(below); i++)
		if (is_there(path, size, root, below[i]))
			return true;
	return false;
}

static const char *const variable[] = {"CUDA_HOME", "CUDA_PATH"};
static const char *const root[] = {"/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"};
static const char *const place[] = {SYSTEM_DIR, "/usr/lib64", "/usr/lib"};

const char *fm_cu_device_runtime(char *path, size_t size)
{
	const char *given = secure_getenv("FERMATA_CUDA_DEVRT");

	if (given && *given) /* it alone */
		return is_there(path, size, given, "/" FILE_NAME) || is_there(path, size, given, "")
			       ? path
			       : NULL;
	for (size_t i = 0; i < FM_ARRAY_LEN(variable); i++)
		if (in(path, size, secure_getenv(variable[i])))
			return path;
	for (size_t i = 0; i < FM_ARRAY_LEN(root); i++)
		if (in(path, size, root[i]))
			return path;
	for (size_t i = 0; i < FM_ARRAY_LEN(place); i++)
		if (is_there(path, size, place[i], "/" FILE_NAME))
			return path;
	return NULL;
}

static size_t add_place(char *text, size_t size, size_t at, const char *where)
{
	int n = at < size ? snprintf(text + at, size - at, "%s%s", at ? ", " : "", where) : 0;

	return n > 0 ? at + (size_t)n : at;
}

void fm_cu_device_runtime_places(char *text, size_t size)
{
	const char *given = secure_getenv("FERMATA_CUDA_DEVRT"), *toolkit;
	size_t at = 0;

	text[0] = '\0';
	if (given && *given) {
		snprintf(text, size, "%s (FERMATA_CUDA_DEVRT, and so nowhere else)", given);
		return;
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(variable); i++) {
		toolkit = secure_getenv(variable[i]);
		if (toolkit && *toolkit)
			at = add_place(text, size, at, toolkit);
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(root); i++)
		at = add_place(text, size, at, root[i]);
	for (size_t i = 0; i < FM_ARRAY_LEN(place); i++)
		at = add_place(text, size, at, place[i]);
}
