/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroups.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_US   (500 * 1000)
#define LOOKS     32 /* clients that are looked at each time */
#define TEXT_MAX  4096
#define DEPTH_MAX 16 /* of a path */

static bool asked(const struct daemon *d)
{
	return d->config.memory.cgroup || *d->config.memory.cgroup_limits;
}

/* For tests: another folder for /sys/fs/cgroup, and for /proc where it has one. */
static const char *root(void)
{
	const char *set = secure_getenv("FERMATA_TEST_CGROUPS");

	return set ? set : "";
}

/* The whole text; or a negative errno. */
static int read_text(const char *path, char text[TEXT_MAX])
{
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t done = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, text + done, TEXT_MAX - 1 - done)) > 0)
		done += (size_t)n;
	if (n < 0)
		return -errno;
	text[done] = '\0';
	return done == TEXT_MAX - 1 ? -E2BIG : strlen(text) != done ? -EBADMSG : 0;
}

static void warn(struct daemon *d, const char *path, const char *what)
{
	fm_log_limited(&d->log, &d->troubles, LOG_WARNING, "%.200s: %s; what was last read holds",
		path, what);
}

/* --- a cgroup --- */

static unsigned read_dmem(struct daemon *d, const char *path,
	struct fm_bridge_dmem dmem[FM_BRIDGE_REGIONS], bool *sound)
{
	char file[PATH_MAX], text[TEXT_MAX];
	int n, rc;

	*sound = true;
	snprintf(file, sizeof(file), "%s/sys/fs/cgroup%s/dmem.max", root(), path);
	if (!d->config.memory.cgroup)
		return 0;
	rc = read_text(file, text);
	if (rc == -ENOENT || rc == -ENODEV) /* the kernel has none, or the cgroup is gone */
		return 0;
	n = rc ? rc : cgroups_dmem(text, dmem, FM_BRIDGE_REGIONS);
	*sound = n >= 0;
	if (n < 0)
		warn(d, file, n == -EBADMSG ? "not understood" : strerror(-n));
	return n < 0 ? 0 : (unsigned)n;
}

/* Takes it in, if it has a limit. Where the kernel's cannot be read, the one that was read last
 * holds; that of the settings always does. */
static void look_at(struct daemon *d, struct cgroups_client *c, const char *path,
	struct fm_bridge_cgroup **in, unsigned *n)
{
	struct fm_bridge_dmem dmem[FM_BRIDGE_REGIONS];
	uint64_t most = config_cgroup_limit(&d->config.memory, path);
	struct fm_bridge_cgroup *g;
	bool sound, had = false, changed;
	unsigned regions = read_dmem(d, path, dmem, &sound);

	for (unsigned i = 0; i < c->n; i++)
		had |= !strcmp(fm_bridge_cgroup_path(c->in[i]), path);
	if (*n == FM_BRIDGE_CGROUPS || (most == UINT64_MAX && !regions && (sound || !had)))
		return;
	g = fm_bridge_cgroup_get(d->bridge, path);
	if (!g)
		return;
	changed = sound ? fm_bridge_cgroup_limit(d->bridge, g, most, dmem, regions)
			: fm_bridge_cgroup_memory(d->bridge, g, most);
	if (changed)
		fm_log_limited(&d->log, &d->troubles, LOG_INFO,
			"cgroup %.200s: its limit of device memory is another one", path);
	in[(*n)++] = g;
}

/* --- a client --- */

/* The line of the hierarchy of version 2 in FILE: it may stand behind any others, and what does not
 * fit of it is cut. */
static int read_line(const char *file, char *line, size_t size)
{
	FM_CLEAN_FD int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct cgroups_line at = {0};
	char text[1024];
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, text, sizeof(text))) > 0)
		if (cgroups_find(&at, text, (size_t)n, line, size))
			return 0;
	return n < 0 ? -errno : -ENOENT;
}

/* Where it cannot be read, the client stays where it was. It may be gone: then it leaves soon. */
static void read_path(struct daemon *d, struct cgroups_client *c)
{
	char file[64 + PATH_MAX], line[CGROUP_PATH_MAX + 64], path[CGROUP_PATH_MAX];
	int rc;

	snprintf(file, sizeof(file), "%s/proc/%d/cgroup", root(), (int)c->pid);
	rc = read_line(file, line, sizeof(line));
	if (!rc)
		rc = cgroups_path(line, path, sizeof(path));
	if (!rc)
		strcpy(c->path, path);
	else if (rc != -ENOENT && rc != -ESRCH)
		warn(d, file, rc == -EBADMSG ? "not understood" : strerror(-rc));
}

static void put_all(struct fm_bridge_cgroup **in, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fm_bridge_cgroup_put(in[i]);
}

/* Its own, and those above, from the root on. */
static void look_at_client(struct daemon *d, struct cgroups_client *c)
{
	struct fm_bridge_cgroup *in[FM_BRIDGE_CGROUPS];
	unsigned n = 0, depth = 0;
	bool same;

	if (asked(d))
		read_path(d, c);
	for (char *at = c->path; asked(d) && *at && depth < DEPTH_MAX; depth++) {
		char *end = at + 1 + strcspn(at + 1, "/"), was = *end;

		*end = '\0';
		look_at(d, c, c->path, in, &n);
		*end = was;
		at = end;
	}
	same = n == c->n && !memcmp(in, c->in, n * sizeof(struct fm_bridge_cgroup *));
	if (!same)
		fm_bridge_client_cgroups(c->client, in, n);
	put_all(c->in, c->n);
	memcpy(c->in, in, n * sizeof(struct fm_bridge_cgroup *));
	c->n = n;
}

/* --- again and again --- */

static void arm(struct daemon *d);

/* Some clients each time, those first that were not looked at for longest. */
static int on_time(sd_event_source *timer, uint64_t usec, void *arg)
{
	struct daemon *d = arg;
	struct cgroups_client *c, *next, *first = NULL;
	unsigned n = 0;

	d->cgroups.timer = sd_event_source_disable_unref(d->cgroups.timer);
	fm_list_each_safe (c, next, &d->cgroups.clients, link) {
		if (c == first || n++ == LOOKS)
			break;
		first = first ? first : c;
		look_at_client(d, c);
		fm_list_del(&c->link);
		fm_list_add_tail(&d->cgroups.clients, &c->link);
	}
	arm(d);
	return 0;
}

static void arm(struct daemon *d)
{
	if (asked(d) && !fm_list_empty(&d->cgroups.clients) && !d->cgroups.timer && d->event)
		sd_event_add_time_relative(
			d->event, &d->cgroups.timer, CLOCK_MONOTONIC, LOOK_US, 0, on_time, d);
}

void cgroups_join(
	struct daemon *d, struct cgroups_client *c, struct fm_bridge_client *client, pid_t pid)
{
	*c = (struct cgroups_client){.client = client, .pid = pid};
	fm_list_add_tail(&d->cgroups.clients, &c->link);
	look_at_client(d, c);
	arm(d);
}

void cgroups_leave(struct cgroups_client *c)
{
	if (!c->client)
		return;
	fm_bridge_client_cgroups(c->client, NULL, 0);
	put_all(c->in, c->n);
	fm_list_del(&c->link);
	c->client = NULL;
}

void cgroups_settings(struct daemon *d)
{
	struct cgroups_client *c;

	fm_list_each (c, &d->cgroups.clients, link)
		look_at_client(d, c);
	arm(d);
}
