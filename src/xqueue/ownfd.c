/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Above what programs usually count through, below the usual soft limit of 1024. */
#define HIGH_FD 900

void fm_ownfd_adopt(struct fm_ownfd *o, int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	struct stat st;

	if (high >= 0) {
		close(fd);
		fd = high;
	}
	*o = (struct fm_ownfd){.fd = fd};
	if (fstat(fd, &st) == 0) {
		o->dev = st.st_dev;
		o->ino = st.st_ino;
	}
}

bool fm_ownfd_valid(const struct fm_ownfd *o)
{
	struct stat st;

	return o->fd >= 0 && fstat(o->fd, &st) == 0 && st.st_dev == o->dev && st.st_ino == o->ino;
}

void fm_ownfd_close(struct fm_ownfd *o)
{
	if (fm_ownfd_valid(o))
		close(o->fd);
	o->fd = -1;
}
