/* SPDX-License-Identifier: Apache-2.0 */
#include "inject.h"
#include "base/cleanup.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int inject_set(const char *name, const char *value, struct fm_err *err)
{
	if (!setenv(name, value, 1))
		return 0;
	fm_err_set(err, -errno, "cannot set %s: %m", name);
	return err->code;
}

bool inject_has(const char *variable, const char *separators, const char *file)
{
	FM_CLEAN_FREE char *list = strdup(getenv(variable) ?: "");
	char *rest = NULL;

	for (char *p = list ? strtok_r(list, separators, &rest) : NULL; p;
		p = strtok_r(NULL, separators, &rest)) {
		const char *base = strrchr(p, '/');

		if (!strcmp(base ? base + 1 : p, file))
			return true;
	}
	return false;
}

int inject_first(const char *variable, const char *path, struct fm_err *err)
{
	FM_CLEAN_FREE char *list = NULL;
	const char *others = getenv(variable) ?: "";

	if (asprintf(&list, "%s%s%s", path, *others ? ":" : "", others) < 0)
		return fm_err_set(err, -ENOMEM, "out of memory");
	return inject_set(variable, list, err);
}
