/* SPDX-License-Identifier: Apache-2.0 */
#include "user.h"
#include "cleanup.h"
#include <pwd.h>
#include <stdio.h>

void fm_user_name(const char *passwd, uid_t uid, char name[FM_USER])
{
	FM_CLEAN_FILE FILE *f = fopen(passwd, "re");
	struct passwd entry, *found;
	char buf[4096];

	snprintf(name, FM_USER, "%u", uid);
	while (f && !fgetpwent_r(f, &entry, buf, sizeof(buf), &found))
		if (entry.pw_uid == uid) {
			snprintf(name, FM_USER, "%s", entry.pw_name);
			return;
		}
}
