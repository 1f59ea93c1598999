/* SPDX-License-Identifier: Apache-2.0 */
/* The owners of tasks: processes, which are watched. */
#include "admission_internal.h"
#include "base/cleanup.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

void task_end(struct daemon *d, struct task *t)
{
	if (t->group)
		task_unbind(d, t, false);
	fm_admit_remove(d->admission->admit, t->at);
	fm_list_del(&t->link);
	fm_list_del(&t->in_owner);
	free(t);
}

static void owner_free(struct owner *o)
{
	sd_event_source_disable_unref(o->life);
	fm_close_fd(&o->pidfd);
	fm_list_del(&o->link);
	free(o);
}

void owner_put(struct owner *o)
{
	if (fm_list_empty(&o->tasks))
		owner_free(o);
}

static int on_death(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct owner *o = arg;
	struct daemon *d = o->daemon;
	unsigned n = 0;

	for (; !fm_list_empty(&o->tasks); n++)
		task_end(d, fm_list_first(&o->tasks, struct task, in_owner));
	fm_log_limited(&d->log, &d->admission->log, LOG_INFO,
		"%u tasks left with their process (pid %d, user %u)", n, (int)o->pid, o->uid);
	owner_free(o);
	daemon_idle_check(d);
	return 0;
}

void admission_free(struct daemon *d)
{
	struct admission *a = d->admission;

	if (!a)
		return;
	admission_job_end(d);
	while (!fm_list_empty(&a->owners)) {
		struct owner *o = fm_list_first(&a->owners, struct owner, link);

		while (!fm_list_empty(&o->tasks)) {
			struct task *t = fm_list_first(&o->tasks, struct task, in_owner);

			fm_list_del(&t->link);
			fm_list_del(&t->in_owner);
			free(t);
		}
		owner_free(o);
	}
	fm_admit_free(a->admit);
	free(a);
	d->admission = NULL;
}

static bool ended(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

/* The user of the process. The pid is the process's own until it has ended. */
static int uid_of(pid_t pid, int pidfd, uid_t *uid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) || ended(pidfd))
		return -ESRCH;
	*uid = st.st_uid;
	return 0;
}

/* The error is the same for a process that does not exist and for one of another user, so that the
 * peer does not learn which. */
static int no_process(pid_t pid, struct fm_err *err)
{
	fm_err_set(err, -ESRCH, "there is no process %d for which you may have tasks", (int)pid);
	return fm_err_hint(err, "ask its owner, or a user who may steer all groups");
}

static int check_owner(const struct peer *p, pid_t pid, int pidfd, uid_t *uid, struct fm_err *err)
{
	if (pid == p->pid) {
		*uid = p->uid;
		return 0;
	}
	if (uid_of(pid, pidfd, uid) || !peer_sees(p, *uid))
		return no_process(pid, err);
	return 0;
}

static struct owner *owner_find(const struct daemon *d, pid_t pid)
{
	struct owner *o;

	fm_list_each (o, &d->admission->owners, link)
		if (o->pid == pid)
			return o;
	return NULL;
}

int owner_get(
	struct daemon *d, struct owner **out, const struct peer *p, pid_t pid, struct fm_err *err)
{
	FM_CLEAN_FD int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct owner *o = pid > 0 ? owner_find(d, pid) : NULL;
	uid_t uid = 0;
	int rc;

	if (pid > 0 && pidfd < 0 && errno == ESRCH)
		return no_process(pid, err);
	if (pid <= 0 || p->pid <= 0) {
		fm_err_set(err, -ESRCH, "your process is in another pid namespace than the daemon");
		return fm_err_hint(
			err, "run the daemon in the host's pid namespace, to admit tasks");
	}
	if (pidfd < 0)
		return fm_err_set(
			err, -ESRCH, "process %d cannot be watched: %s", (int)pid, strerror(errno));
	rc = check_owner(p, pid, pidfd, &uid, err);
	if (rc)
		return rc;
	*out = o;
	if (o) /* that one may have ended, unnoticed as yet, and this one have its number */
		return !ended(o->pidfd) && o->uid == uid
			       ? 0
			       : fm_err_set(err, -ESRCH, "process %d just ended", (int)pid);
	o = calloc(1, sizeof(*o));
	if (!o)
		return fm_err_set(err, -ENOMEM, "out of memory for another task");
	o->daemon = d;
	o->pid = pid;
	o->uid = uid;
	fm_list_init(&o->tasks);
	fm_list_add_tail(&d->admission->owners, &o->link);
	o->pidfd = fm_take_fd(&pidfd);
	rc = sd_event_add_io(d->event, &o->life, o->pidfd, EPOLLIN, on_death, o);
	if (rc < 0) {
		owner_free(o);
		return fm_err_set(err, rc, "process %d cannot be watched", (int)pid);
	}
	*out = o;
	return 0;
}
