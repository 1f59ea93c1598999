/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include <errno.h>
#include <string.h>

int cli_close(FILE *f, const char *path, struct fm_err *err)
{
	bool bad = ferror(f) != 0;

	if (f == stdout)
		return 0;
	if (fclose(f))
		return fm_err_set(
			err, -errno, "%.150s: cannot be written: %s", path, strerror(errno));
	return bad ? fm_err_set(err, -EIO, "%.150s: cannot be written", path) : 0;
}
