/* SPDX-License-Identifier: Apache-2.0 */
/* [device NAME] same: patterns of names that devices have in other APIs, between spaces. */
#include "base/parse.h"
#include "config_keys.h"
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

int config_same_check(const char *value, struct fm_err *err)
{
	const char *at = value;
	char word[FM_DEVKEY_MAX];

	while (fm_next_word(&at, word, sizeof(word)))
		;
	if (!*at)
		return 0;
	fm_err_set(err, -EINVAL, "'%.40s...' is longer than a device's name", at);
	return fm_err_hint(err, "it has at most %d characters", FM_DEVKEY_MAX - 1);
}

/* Each device is in one of them, and none of them is a device of another. */
static int check_apart(const struct fm_stop_rule *w, const struct fm_stop_rule *other,
	const char *section, struct fm_err *err)
{
	char word[FM_DEVKEY_MAX], theirs[FM_DEVKEY_MAX];
	const char *at = w->same, *of;

	while (fm_next_word(&at, word, sizeof(word))) {
		if (!fnmatch(word, other->device, 0)) {
			fm_err_set(err, -EINVAL,
				"same: '%.40s' is [device %.40s], which has `same', too", word,
				other->device);
			return fm_err_hint(err, "name all of the devices in one section");
		}
		for (of = other->same; fm_next_word(&of, theirs, sizeof(theirs));)
			if (!strcmp(word, theirs)) {
				fm_err_set(err, -EINVAL,
					"same: '%.40s' stands in [device %.40s] already", word,
					section);
				return fm_err_hint(
					err, "a device is the same as those of one section");
			}
	}
	return 0;
}

int config_same_finish(const struct config *c, const struct fm_stop_rule *w, struct fm_err *err)
{
	int rc = 0;

	if (!w->same[0])
		return 0;
	if (strpbrk(w->device, "*?[\\")) {
		fm_err_set(err, -EINVAL,
			"same: [device %.40s] is a pattern, not the name of one device", w->device);
		return fm_err_hint(err,
			"write [device NAME], with a name of your choice, and the patterns "
			"behind `same ='");
	}
	for (const struct fm_stop_rule *o = c->way; o < c->way + c->ways && !rc; o++) {
		if (o == w || !o->same[0])
			continue;
		rc = check_apart(w, o, o->device, err);
		rc = rc ? rc : check_apart(o, w, o->device, err);
	}
	return rc;
}
