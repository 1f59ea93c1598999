/* SPDX-License-Identifier: Apache-2.0 */
/* Who may see and steer what: the kernel says who is at the other end, the connection says nothing.
 */
#include "base/cleanup.h"
#include "daemon.h"
#include <errno.h>
#include <grp.h>
#include <sys/socket.h>

static bool in_group(int fd, gid_t primary, gid_t wanted)
{
	FM_CLEAN_FREE gid_t *groups = NULL;
	socklen_t size = 64 * sizeof(*groups);

	if (wanted == (gid_t)-1)
		return false;
	if (primary == wanted)
		return true;
	/* Too small a buffer is answered with ERANGE and the size needed. */
	for (int attempt = 0; attempt < 2; attempt++) {
		free(groups);
		groups = malloc(size);
		if (!groups)
			return false;
		if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size))
			break;
		if (errno != ERANGE || attempt)
			return false;
	}
	for (size_t i = 0; i < size / sizeof(*groups); i++)
		if (groups[i] == wanted)
			return true;
	return false;
}

int peer_of(const struct daemon *d, int fd, struct peer *p)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	p->uid = cred.uid;
	p->pid = cred.pid;
	p->steers = !cred.uid || cred.uid == geteuid() || in_group(fd, cred.gid, d->access_gid);
	return 0;
}

bool peer_sees(const struct peer *p, uid_t owner)
{
	return p->steers || p->uid == owner;
}

gid_t access_gid(const char *group)
{
	const struct group *g = *group ? getgrnam(group) : NULL;

	return g ? g->gr_gid : (gid_t)-1;
}
