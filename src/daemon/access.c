/* SPDX-License-Identifier: Apache-2.0 */
/* What each peer may see and steer. Only the kernel tells which process is at the other end; what
 * the connection says about it does not count.
 */
#include "base/cleanup.h"
#include "daemon.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* All groups of the peer when it connected, the primary one first. The caller frees *out. If the
 * kernel does not tell, or memory is short, it is only the primary one, which gives no right. */
static size_t groups_of(int fd, gid_t *primary, gid_t **out)
{
	socklen_t size = 64 * sizeof(**out);

	/* Too small a buffer is answered with ERANGE and the size needed. */
	for (int attempt = 0; attempt < 2; attempt++) {
		gid_t *groups = malloc(sizeof(*groups) + size);

		if (!groups)
			break;
		groups[0] = *primary;
		if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &size)) {
			*out = groups;
			return 1 + size / sizeof(*groups);
		}
		free(groups);
		if (errno != ERANGE)
			break;
	}
	*out = NULL;
	return 1;
}

static bool has_group(const gid_t *gids, size_t n, gid_t wanted)
{
	for (size_t i = 0; i < n; i++)
		if (gids[i] == wanted)
			return wanted != (gid_t)-1;
	return false;
}

/* If there is no memory to store them, the peer gets the limits of all users. */
static const struct config_limits *share(struct daemon *d, const struct config_limits *limits)
{
	struct shared_limits *l = d->limits;

	while (l && memcmp(&l->limits, limits, sizeof(*limits)) != 0)
		l = l->next;
	if (l)
		return &l->limits;
	l = malloc(sizeof(*l));
	if (!l)
		return &d->config.limits;
	l->limits = *limits;
	l->next = d->limits;
	d->limits = l;
	return &l->limits;
}

void peer_limits_free(struct shared_limits *l)
{
	struct shared_limits *next;

	for (; l; l = next) {
		next = l->next;
		free(l);
	}
}

int peer_of(struct daemon *d, int fd, struct peer *p)
{
	struct config_limits limits;
	FM_CLEAN_FREE gid_t *groups = NULL;
	struct ucred cred;
	socklen_t size = sizeof(cred);
	const gid_t *gids;
	size_t n;

	p->limits = &d->config.limits;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	p->uid = cred.uid;
	p->pid = cred.pid;
	n = groups_of(fd, &cred.gid, &groups);
	gids = groups ? groups : &cred.gid;
	p->steers = !cred.uid || cred.uid == geteuid() || has_group(gids, n, d->access_gid);
	config_limits_for(&d->config, cred.uid, gids, n, d->system && !p->steers, &limits);
	p->limits = share(d, &limits);
	return 0;
}

bool peer_sees(const struct peer *p, uid_t owner)
{
	return p->steers || p->uid == owner;
}

gid_t access_gid(const char *group)
{
	uint32_t gid;

	return *group && lookup_id(group, true, &gid) ? gid : (gid_t)-1;
}
