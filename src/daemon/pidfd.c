/* SPDX-License-Identifier: Apache-2.0 */
/* One source watches the processes of all sessions. With a source for each of a thousand sessions,
 * the event loop's books would be a tenth of the daemon's memory. */
#include "daemon.h"
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define DEATHS 64

/* All events are handled at once, since the end of one session does not end another. */
static int on_death(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct epoll_event dead[DEATHS];
	int n = epoll_wait(fd, dead, DEATHS, 0);

	for (int i = 0; i < n; i++)
		session_died(dead[i].data.ptr);
	return 0;
}

int lives_open(struct daemon *d)
{
	int fd = epoll_create1(EPOLL_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = sd_event_add_io(d->event, &d->lives, fd, EPOLLIN, on_death, d);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	sd_event_source_set_io_fd_own(d->lives, true);
	/* Handled before messages, so that messages of dead processes are not read any more. */
	return sd_event_source_set_priority(d->lives, SD_EVENT_PRIORITY_IMPORTANT);
}

void lives_close(struct daemon *d)
{
	d->lives = sd_event_source_disable_unref(d->lives);
}

int lives_add(struct daemon *d, int pidfd, void *session)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = session};

	return epoll_ctl(sd_event_source_get_io_fd(d->lives), EPOLL_CTL_ADD, pidfd, &e) ? -errno
											: 0;
}

/* A close() is not enough: a child that was just forked may hold the descriptor, too. */
void lives_del(struct daemon *d, int pidfd)
{
	epoll_ctl(sd_event_source_get_io_fd(d->lives), EPOLL_CTL_DEL, pidfd, NULL);
}
