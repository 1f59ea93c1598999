// SPDX-License-Identifier: Apache-2.0
/*
 * A container whose device cgroup lets no process at the node that FAKE_DENIED names, whatever its
 * mode: preloaded.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int access(const char *path, int mode)
{
	const char *denied = getenv("FAKE_DENIED");
	int (*real)(const char *, int);

	if (denied && !strcmp(path, denied) && mode != F_OK) {
		errno = EPERM;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "access");
	return real(path, mode);
}
