/* SPDX-License-Identifier: Apache-2.0 */
#include "own_policy.h"
#include "base/clock.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* No device waits for the policy here, so it may be slow. */
#define BUDGET FM_S

static size_t name_length(const char *file)
{
	size_t len = strlen(file);

	return len > 3 && !strcmp(file + len - 3, ".so") ? len - 3 : 0;
}

bool own_policy_is(const char *word)
{
	return strchr(word, '/') || name_length(word);
}

int own_policy_open(struct fm_plugin **out, const char *path, struct fm_err *err)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	size_t len = name_length(file);
	char folder[4096] = ".", name[FM_PLUGIN_NAME] = "";
	const struct fm_plugin_source src = {
		.folder = folder, .host = "/proc/self/exe", .budget_ns = BUDGET, .replay = true};
	int rc;

	if (len < sizeof(name))
		snprintf(name, sizeof(name), "%.*s", (int)len, file);
	if (!fm_plugin_name_ok(name) || (slash && slash - path + 2 > (long)sizeof(folder))) {
		fm_err_set(err, -EINVAL, "'%.100s' is not the file of a policy", path);
		return fm_err_hint(err,
			"give ./NAME.so, with a name of at most %d lower-case letters, digits, - "
			"and _",
			FM_PLUGIN_NAME - 1);
	}
	if (slash)
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path + 1), path);
	rc = fm_plugin_open(out, &src, name, err);
	if (rc == -ENOENT)
		fm_err_set(err, rc, "there is no %.150s", path);
	return rc;
}
