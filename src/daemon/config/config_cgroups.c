/* SPDX-License-Identifier: Apache-2.0 */
/* [memory] cgroup_limits: PATTERN:SIZE between spaces. A pattern is of a whole path, and * stands
 * for no '/', so that /user.slice/x* means each of these and none below them. */
#include "base/parse.h"
#include "base/size.h"
#include "base/util.h"
#include "config_keys.h"
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#define SPACES " \t"

/* Cuts it in front of the size. NULL: there is none. */
static char *split(char *word)
{
	char *colon = strrchr(word, ':');

	if (colon)
		*colon++ = '\0';
	return colon;
}

static int check(char *word, struct fm_err *err)
{
	const char *size = split(word);
	int64_t bytes;

	if (*word != '/') {
		fm_err_set(err, -EINVAL, "'%.60s' is no path of a cgroup", word);
		return fm_err_hint(err, "write /PATH:SIZE, with the path as in /proc/PID/cgroup");
	}
	if (!size) {
		fm_err_set(err, -EINVAL, "'%.60s' has no limit", word);
		return fm_err_hint(err, "write %.60s:16G", word);
	}
	if (fm_parse_size(size, &bytes, err))
		return -EINVAL;
	if (bytes >= 0 && bytes <= FM_MEMORY_MAX)
		return 0;
	fm_err_set(err, -ERANGE, "'%.40s' is beyond what there is", size);
	return fm_err_hint(err, "a limit is at most 1P");
}

int config_cgroups_check(const char *value, struct fm_err *err)
{
	char words[CONFIG_MANAGE_MAX], *save, *word;
	int rc = 0;

	snprintf(words, sizeof(words), "%s", value); /* its length is checked already */
	for (word = strtok_r(words, SPACES, &save); word && !rc;
		word = strtok_r(NULL, SPACES, &save))
		rc = check(word, err);
	return rc;
}

uint64_t config_cgroup_limit(const struct config_memory *m, const char *path)
{
	char words[CONFIG_MANAGE_MAX], *save, *word;
	uint64_t most = UINT64_MAX;

	snprintf(words, sizeof(words), "%s", m->cgroup_limits);
	for (word = strtok_r(words, SPACES, &save); word; word = strtok_r(NULL, SPACES, &save)) {
		const char *size = split(word);
		int64_t bytes;

		if (size && !fnmatch(word, path, FNM_PATHNAME) &&
			!fm_parse_size(size, &bytes, NULL))
			most = FM_MIN(most, (uint64_t)bytes);
	}
	return most;
}
