/* SPDX-License-Identifier: Apache-2.0 */
/* Which uids belong to which user, by /etc/subuid. */
#include "subuid.h"
#include "base/cleanup.h"
#include "quota.h"
#include <inttypes.h>
#include <string.h>

#define RANGES_MAX 4096
#define FILE_NAME  "/etc/subuid"

static bool is_root(const char *line)
{
	return !strncmp(line, "root:", 5) || !strncmp(line, "0:", 2);
}

/* NAME:FIRST:COUNT. Other lines are ignored. */
static bool parse(const char *line, struct quota_range *r)
{
	const char *numbers = strchr(line, ':');
	uint64_t first, count;

	if (!numbers || sscanf(numbers, ":%" SCNu64 ":%" SCNu64, &first, &count) != 2)
		return false;
	if (!count || first >= UINT32_MAX || count > UINT32_MAX - first)
		return false;
	*r = (struct quota_range){(uid_t)first, (uint32_t)count, is_root(line)};
	return true;
}

void subuid_read(struct quota *q, FILE *f)
{
	FM_CLEAN_FREE struct quota_range *range = calloc(RANGES_MAX, sizeof(*range));
	char line[512];
	size_t n = 0;

	while (range && n < RANGES_MAX && fgets(line, sizeof(line), f))
		n += parse(line, &range[n]);
	quota_ranges(q, range, n);
}

void subuid_load(struct quota *q)
{
	FM_CLEAN_FILE FILE *f = fopen(FILE_NAME, "re");

	if (f)
		subuid_read(q, f);
}
