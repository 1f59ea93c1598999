/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime_dir.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *fm_runtime_dir(void)
{
	const char *dir = secure_getenv("XDG_RUNTIME_DIR");
	struct stat st;

	if (!dir || *dir != '/' || lstat(dir, &st) || !S_ISDIR(st.st_mode))
		return NULL;
	return st.st_uid == geteuid() && (st.st_mode & 0777) == 0700 ? dir : NULL;
}
