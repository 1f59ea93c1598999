/* SPDX-License-Identifier: Apache-2.0 */
/* The directory, its lock and its two sockets; accepting without spinning when descriptors run out.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "board/proto.h"
#include "daemon.h"
#include "strict.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#define ACCEPTS_PER_EVENT 16
#define ACCEPTS_NS        (500 * FM_US) /* or so long, whichever is over first */
#define PAUSE_US          (100 * 1000)
#define CLOSING_MOST      64 /* if so many wait to be closed, accepting waits, too */
#define CLOSING_US        1000
#define LOCK_NAME         "fermatad.pid"
#define LOCK_PATH         (DIR_MAX + sizeof("/" LOCK_NAME))

/* Descriptors that clients cannot use up. They are for what an accepted client brings along, and
 * for operators. */
#define SPARE_FDS 8

static int make_directory(struct daemon *d, struct fm_err *err)
{
	struct stat st;

	if (mkdir(d->dir, d->system ? 0755 : 0700) < 0 && errno != EEXIST) {
		int code = -errno;

		fm_err_set(err, code, "cannot create %s: %s", d->dir, strerror(-code));
		fm_err_hint(err, "name a directory that can be created with --dir");
		return code;
	}
	if (stat(d->dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
		fm_err_set(err, -ENOTDIR, "%s is not a directory", d->dir);
		fm_err_hint(err, "name another with --dir");
		return -ENOTDIR;
	}
	if ((st.st_uid != geteuid() && st.st_uid) || (st.st_mode & 022)) {
		fm_err_set(err, -EPERM, "%s can be changed by others", d->dir);
		fm_err_hint(err, "it must be yours, and writable by you alone (chmod go-w)");
		return -EPERM;
	}
	return 0;
}

static int lock_taken(struct daemon *d, int fd, struct fm_err *err)
{
	char pid[16] = "?";
	ssize_t n = pread(fd, pid, sizeof(pid) - 1, 0);

	if (n > 0)
		pid[n] = '\0';
	pid[strcspn(pid, "\n")] = '\0';
	fm_err_set(err, -EBUSY, "another fermatad (pid %s) runs in %s", pid, d->dir);
	fm_err_hint(err, "use that one, end it, or name another directory with --dir");
	return -EBUSY;
}

static void lock_path(const struct daemon *d, char path[LOCK_PATH])
{
	snprintf(path, LOCK_PATH, "%s/" LOCK_NAME, d->dir);
}

/* Is the file with this descriptor the one of that name? */
static bool is_named(int fd, const char *path)
{
	struct stat open, named;

	return !fstat(fd, &open) && !lstat(path, &named) && open.st_dev == named.st_dev &&
	       open.st_ino == named.st_ino;
}

/* A daemon that ends removes the file while it holds the lock. Another daemon may have opened the
 * file before; then it locks a file without a name, while a third one may lock a new file. So a
 * lock counts only if the file still has its name. */
static int take_lock(struct daemon *d, struct fm_err *err)
{
	FM_CLEAN_FD int fd = -1;
	char path[LOCK_PATH];

	lock_path(d, path);
	do {
		fm_close_fd(&fd);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
		if (fd < 0)
			return fm_err_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			return errno == EWOULDBLOCK ? lock_taken(d, fd, err)
						    : fm_err_set(err, -errno, "cannot lock %s: %s",
							      path, strerror(errno));
	} while (!is_named(fd, path));
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return fm_err_set(err, -EIO, "cannot write %s: %s", path, strerror(errno));
	d->lock = fm_take_fd(&fd);
	return 0;
}

static int make_socket(struct daemon *d, struct listener *l, int type, struct fm_err *err)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	FM_CLEAN_FD int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t mask;
	int rc;

	if (fd < 0)
		return fm_err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	strcpy(sa.sun_path, l->path);
	unlink(l->path); /* of a daemon that was killed: we hold the lock */
	mask = umask(0177);
	rc = bind(fd, (struct sockaddr *)&sa, sizeof(sa));
	umask(mask);
	if (rc < 0 || (d->system && chmod(l->path, 0666) < 0) || listen(fd, SOMAXCONN) < 0) {
		int code = -errno;

		return fm_err_set(err, code, "cannot listen on %s: %s", l->path, strerror(-code));
	}
	l->fd = fm_take_fd(&fd);
	return 0;
}

/* Turns off what the unit may ask for. The kernel would attach it to each message, and
 * fm_msg_take() would take it for a descriptor. */
static void pass_nothing(int fd)
{
	int off = 0;

	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &off, sizeof(off));
	setsockopt(fd, SOL_SOCKET, SO_PASSSEC, &off, sizeof(off));
}

static void adopt(struct daemon *d, int fd, const char *name)
{
	struct listener *l = NULL;

	if (strict_restores(name)) {
		strict_restore(d, fd);
		return;
	}
	if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 1) > 0)
		l = &d->client;
	else if (sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) > 0)
		l = &d->control;
	if (!l || l->fd >= 0) {
		fm_log(&d->log, LOG_WARNING, "the socket '%s' from systemd is not needed", name);
		close(fd);
		return;
	}
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	pass_nothing(fd);
	l->fd = fd;
	l->inherited = true;
}

/* A socket is recognized by its type; its name (FileDescriptorName=) is only for messages. A
 * descriptor that systemd kept for an earlier daemon is recognized by its name. */
static void adopt_sockets(struct daemon *d)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names);

	for (int i = 0; i < n; i++) {
		adopt(d, SD_LISTEN_FDS_START + i, names[i]);
		free(names[i]);
	}
	free(names);
}

int listen_setup(struct daemon *d, struct fm_err *err)
{
	int rc;

	d->client.fd = d->control.fd = d->lock = -1;
	d->client.daemon = d->control.daemon = d;
	if (strlen(d->dir) + sizeof("/" FM_CONTROL_NAME) > DIR_MAX) {
		fm_err_set(
			err, -ENAMETOOLONG, "%s is too long for the address of a socket", d->dir);
		fm_err_hint(err, "name a shorter directory with --dir");
		return -ENAMETOOLONG;
	}
	snprintf(d->client.path, sizeof(d->client.path), "%s/" FM_SOCKET_NAME, d->dir);
	snprintf(d->control.path, sizeof(d->control.path), "%s/" FM_CONTROL_NAME, d->dir);
	rc = make_directory(d, err);
	rc = rc ? rc : take_lock(d, err);
	if (rc)
		return rc;
	adopt_sockets(d);
	if (d->client.fd < 0)
		rc = make_socket(d, &d->client, SOCK_SEQPACKET, err);
	if (!rc && d->control.fd < 0)
		rc = make_socket(d, &d->control, SOCK_STREAM, err);
	if (!rc)
		fm_refuse_fds(d->control.fd);
	return rc;
}

static void listener_close(struct listener *l)
{
	sd_event_source_disable_unref(l->io);
	sd_event_source_disable_unref(l->pause);
	l->io = l->pause = NULL;
	if (l->fd < 0)
		return;
	close(l->fd);
	l->fd = -1;
	if (!l->inherited)
		unlink(l->path);
}

void listen_close(struct daemon *d)
{
	char path[LOCK_PATH];

	listener_close(&d->client);
	listener_close(&d->control);
	if (d->lock < 0)
		return;
	lock_path(d, path);
	if (is_named(d->lock, path))
		unlink(path);
	close(d->lock);
	d->lock = -1;
}

static int resume(sd_event_source *s, uint64_t usec, void *arg);

/* Stops accepting for a while: a connection that cannot be accepted stays pending and would wake
 * the loop again at once. */
static void pause_for(struct listener *l, uint64_t us)
{
	struct daemon *d = l->daemon;
	uint64_t at = fm_now() / 1000 + us;

	if (l->pause)
		sd_event_source_set_time(l->pause, at);
	else if (sd_event_add_time(d->event, &l->pause, CLOCK_MONOTONIC, at, 0, resume, l) < 0)
		return;
	if (sd_event_source_set_enabled(l->pause, SD_EVENT_ONESHOT) >= 0)
		sd_event_source_set_enabled(l->io, SD_EVENT_OFF);
}

static void pause_listener(struct listener *l, int error)
{
	struct daemon *d = l->daemon;

	if (l->failing != error)
		fm_log_limited(&d->log, &d->troubles, LOG_WARNING, "cannot accept on %s: %s",
			l->path, strerror(error));
	l->failing = error;
	pause_for(l, PAUSE_US);
}

static void note_success(struct listener *l)
{
	if (l->failing)
		fm_log(&l->daemon->log, LOG_INFO, "accepting on %s again", l->path);
	l->failing = 0;
}

/* Descriptors get the lowest free number, so the next number tells how many are in use. */
static bool crowded(const struct listener *l)
{
	struct rlimit r;
	int fd;

	if (l != &l->daemon->client || getrlimit(RLIMIT_NOFILE, &r))
		return false;
	fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return true;
	close(fd);
	return (rlim_t)fd + SPARE_FDS >= r.rlim_cur;
}

static int accept_next(const struct listener *l)
{
	if (!crowded(l))
		return accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	errno = EMFILE;
	return -1;
}

static int on_connection(sd_event_source *s, int listening, uint32_t revents, void *arg)
{
	struct listener *l = arg;
	struct daemon *d = l->daemon;
	uint64_t begin = fm_now();

	for (int i = 0; i < ACCEPTS_PER_EVENT && fm_now() - begin < ACCEPTS_NS; i++) {
		int fd;

		if (aside_waiting() >= CLOSING_MOST) {
			pause_for(l, CLOSING_US);
			return 0;
		}
		fd = accept_next(l);
		if (fd < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			if (errno == EAGAIN)
				note_success(l);
			else
				pause_listener(l, errno);
			return 0;
		}
		note_success(l);
		if (l == &d->client)
			session_accept(d, fd);
		else
			control_accept(d, fd);
	}
	return 0;
}

/* Tries to accept at once, so that the log says at once whether accepting works again, even if no
 * client is waiting. */
static int resume(sd_event_source *s, uint64_t usec, void *arg)
{
	struct listener *l = arg;

	sd_event_source_set_enabled(l->io, SD_EVENT_ON);
	return on_connection(l->io, l->fd, EPOLLIN, l);
}

int listen_watch(struct daemon *d)
{
	struct listener *all[] = {&d->client, &d->control};

	for (size_t i = 0; i < FM_ARRAY_LEN(all); i++) {
		struct listener *l = all[i];
		int rc = sd_event_add_io(d->event, &l->io, l->fd, EPOLLIN, on_connection, l);

		if (rc < 0)
			return rc;
	}
	return 0;
}
