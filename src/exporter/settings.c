/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon reads and checks the file of settings; here they are asked for. */
#include "base/cleanup.h"
#include "base/util.h"
#include "exporter.h"
#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>

#define MANY_GROUPS 4096

static void take_text(const json_t *o, const char *key, char *out, size_t size)
{
	const char *s = json_string_value(json_object_get(o, key));

	if (s && strlen(s) < size)
		strcpy(out, s);
}

static void apply_options(struct exporter *x)
{
	struct settings *s = &x->settings;

	if (x->options.listen)
		snprintf(s->listen, sizeof(s->listen), "%s", x->options.listen);
	if (x->options.group)
		snprintf(s->group, sizeof(s->group), "%s", x->options.group);
	if (x->options.loopback_groups)
		s->loopback_groups = true;
}

void settings_read(struct exporter *x, const json_t *daemon)
{
	const json_t *o = json_object_get(daemon, "settings");
	struct settings *s = &x->settings;

	if (json_is_object(o)) {
		take_text(o, "listen", s->listen, sizeof(s->listen));
		take_text(o, "group", s->group, sizeof(s->group));
		take_text(o, "access_group", s->access_group, sizeof(s->access_group));
		s->loopback_groups = json_is_true(json_object_get(o, "loopback_groups"));
		s->system = json_is_true(json_object_get(daemon, "system"));
		s->daemon_uid = (uid_t)json_integer_value(json_object_get(daemon, "uid"));
		x->told = true;
	}
	apply_options(x);
}

int settings_ask(struct exporter *x, struct fm_err *err)
{
	FM_CLEAN_FD int fd = -1;
	json_t *daemon = NULL;
	int rc = fm_snapshot_connect(x->dir, DAEMON_MS, &fd, err);

	rc = rc ? rc : fm_snapshot_daemon(fd, DAEMON_MS, &daemon, err);
	settings_read(x, daemon);
	json_decref(daemon);
	return rc;
}

static bool is_member(const char *group, gid_t primary, const gid_t *gids, size_t n)
{
	const struct group *g = *group ? getgrnam(group) : NULL;

	for (size_t i = 0; g && i < n; i++)
		if (gids[i] == g->gr_gid)
			return true;
	return g && g->gr_gid == primary;
}

/* As the daemon does on its control socket, and the members of one group more, who may read alone.
 */
int settings_view(const struct exporter *x, int fd, struct fm_view *view)
{
	const struct settings *s = &x->settings;
	gid_t gids[MANY_GROUPS];
	struct ucred cred;
	socklen_t size = sizeof(cred);
	size_t n = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size))
		return -errno;
	size = sizeof(gids);
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, gids, &size))
		n = size / sizeof(gids[0]);
	*view = (struct fm_view){.uid = cred.uid};
	view->all = !cred.uid || cred.uid == geteuid() || (x->told && cred.uid == s->daemon_uid) ||
		    is_member(s->access_group, cred.gid, gids, n) ||
		    is_member(s->group, cred.gid, gids, n);
	return 0;
}
