/* SPDX-License-Identifier: Apache-2.0 */
/* [memory] manage: off, all, or patterns of groups' names between spaces. harmless_tables:
 * identifiers between commas or spaces. */
#include "base/util.h"
#include "base/uuid.h"
#include "board/proto.h"
#include "config_keys.h"
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#define SPACES " \t"

/* What was meant is off or all; none of these is likely to be a group. */
static int check_meaning(const char *word, struct fm_err *err)
{
	static const char *const off[] = {"no", "none", "never", "false", "0"};
	static const char *const all[] = {"yes", "on", "always", "true", "1"};
	const char *meant = NULL;

	for (size_t i = 0; i < FM_ARRAY_LEN(off); i++)
		meant = !strcmp(word, off[i]) ? "off" : meant;
	for (size_t i = 0; i < FM_ARRAY_LEN(all); i++)
		meant = !strcmp(word, all[i]) ? "all" : meant;
	if (!meant)
		return 0;
	fm_err_set(err, -EINVAL, "'%s' is neither off nor all", word);
	return fm_err_hint(
		err, "write %s; a group of that name is written [%c]%s", meant, *word, word + 1);
}

/* As names of groups are. */
static int check_pattern(const char *word, struct fm_err *err)
{
	if (strlen(word) >= FM_NAME_MAX) {
		fm_err_set(err, -EINVAL, "'%.40s...' is longer than the name of a group", word);
		return fm_err_hint(err, "names have at most %d characters", FM_NAME_MAX - 1);
	}
	for (const char *c = word; *c; c++) {
		if (*c > ' ' && *c <= '~' && !strchr("\"'`/", *c))
			continue;
		fm_err_set(err, -EINVAL, "'%s' matches no name of a group", word);
		return fm_err_hint(err, "names are printable ASCII without '/' and quotes; "
					"patterns stand between spaces");
	}
	return check_meaning(word, err);
}

int config_manage_check(const char *value, struct fm_err *err)
{
	char words[CONFIG_MANAGE_MAX], *save, *word;
	unsigned n = 0;
	bool alone = false;
	int rc = 0;

	snprintf(words, sizeof(words), "%s", value); /* its length is checked already */
	for (word = strtok_r(words, SPACES, &save); word && !rc;
		word = strtok_r(NULL, SPACES, &save)) {
		n++;
		alone |= !strcmp(word, "off") || !strcmp(word, "all");
		rc = check_pattern(word, err);
	}
	if (!rc && alone && n > 1) {
		rc = fm_err_set(err, -EINVAL, "off and all stand alone");
		fm_err_hint(err, "give off, all, or patterns of groups' names");
	}
	return rc;
}

int config_tables_check(const char *value, struct fm_err *err)
{
	unsigned char id[FM_UUID_SIZE];
	size_t len;

	for (; (value = fm_uuid_next(value, &len)); value += len) {
		if (fm_uuid_parse(value, len, id))
			continue;
		fm_err_set(err, -EINVAL, "'%.*s' is no identifier of a table",
			(int)FM_MIN(len, (size_t)40), value);
		return fm_err_hint(err, "write them as `fermata ps --memory' does: "
					"21318c60-9714-3248-8ca6-41ff7324c8f2");
	}
	return 0;
}

bool config_manages(const struct config_memory *m, const char *group)
{
	char words[CONFIG_MANAGE_MAX], *save, *word;

	if (!strcmp(m->manage, "off") || !strcmp(m->manage, "all"))
		return *m->manage == 'a';
	snprintf(words, sizeof(words), "%s", m->manage);
	for (word = strtok_r(words, SPACES, &save); word; word = strtok_r(NULL, SPACES, &save))
		if (!fnmatch(word, group, 0))
			return true;
	return false;
}
