/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients send may be anything, and its last close may wait for whoever made it: a connection
 * that lingers, a file of a file system that is a program. So threads that have nothing else to do
 * close it, a new one each time, for those that are there may never come back. A socket goes the
 * same way: what was sent and not read goes with it.
 */
#include "daemon.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 256

static struct {
	pthread_mutex_t lock; /* not held over a close */
	int fd[MOST];
	unsigned n;
} left = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int take(void)
{
	int fd;

	pthread_mutex_lock(&left.lock);
	fd = left.n ? left.fd[--left.n] : -1;
	pthread_mutex_unlock(&left.lock);
	return fd;
}

static void *closer(void *arg)
{
	for (int fd = take(); fd >= 0; fd = take())
		close(fd);
	return NULL;
}

/* Without a thread it waits for the next. What finds no room stays open: who runs out of
 * descriptors lets nobody in, but goes on. */
void close_aside(int fd)
{
	pthread_attr_t attr;
	pthread_t thread;

	/* Of memory it is done at once. */
	if (fcntl(fd, F_GET_SEALS) >= 0) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&left.lock);
	if (left.n < MOST)
		left.fd[left.n++] = fd;
	pthread_mutex_unlock(&left.lock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 4 * (size_t)PTHREAD_STACK_MIN);
	(void)!pthread_create(&thread, &attr, closer, NULL);
	pthread_attr_destroy(&attr);
}

void close_socket_aside(int fd)
{
	shutdown(fd, SHUT_RDWR);
	close_aside(fd);
}
