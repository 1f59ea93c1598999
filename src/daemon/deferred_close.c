/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client may send any descriptor, and its last close may take long: a connection may linger, or
 * memory has to be freed. Closing a socket may take long, too, since unread messages on it may hold
 * such descriptors. So threads that do nothing else close them. There are few threads, and each
 * user may occupy only some. A descriptor that waits is counted to its user, whose connections are
 * refused when there are too many.
 *
 * A signal wakes a close that blocks; the connection then stops lingering.
 */
#include "deferred_close.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "quota.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS          8
#define THREADS_PER_USER 3
#define STAY_S           1       /* without work */
#define PATIENCE_NS      5000000 /* for a user with no other descriptor waiting */
#define SIGNAL           SIGUSR2

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* How many bytes a peer sent are read before a socket is closed. Unread bytes would reset the
 * connection, and the peer would not read why it is closed. */
#define UNREAD 16

struct item {
	int fd;
	bool socket;
	struct quota_user *user; /* NULL: counted to no user */
};

static struct {
	pthread_mutex_t lock; /* not held over a close */
	pthread_cond_t more;
	struct item *item; /* in the order in which they came */
	size_t n, room;
	struct quota_user *busy[THREADS];
	bool there[THREADS];
	unsigned threads, idle;
} left = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
FM_LOCK_RANK(left.lock, CLOSING);

static bool may_have_another(const struct quota_user *u)
{
	unsigned n = 0;

	for (unsigned i = 0; u && i < THREADS; i++)
		n += left.busy[i] == u;
	return n < THREADS_PER_USER;
}

/* Takes the first item whose user may occupy another thread. */
static bool take(struct item *out)
{
	for (size_t i = 0; i < left.n; i++) {
		if (!may_have_another(left.item[i].user))
			continue;
		*out = left.item[i];
		left.n--;
		memmove(left.item + i, left.item + i + 1, (left.n - i) * sizeof(*left.item));
		return true;
	}
	return false;
}

static bool await(struct item *out)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STAY_S;
	while (!take(out)) {
		int rc;

		left.idle++;
		rc = pthread_cond_timedwait(&left.more, &left.lock, &until);
		left.idle--;
		if (rc)
			return take(out);
	}
	return true;
}

/* Makes a timer that signals only this thread, repeatedly until it is disarmed. */
static bool make_alarm(timer_t *timer)
{
	struct sigevent how = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL};

	how.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	return !timer_create(CLOCK_MONOTONIC, &how, timer);
}

static void set_alarm(timer_t timer, long ns)
{
	struct itimerspec when = {.it_value.tv_nsec = ns, .it_interval.tv_nsec = ns};

	timer_settime(timer, 0, &when, NULL);
}

/* The more descriptors of a user wait, the shorter is the patience with each. */
static long patience(const struct quota_user *u)
{
	return u ? PATIENCE_NS / (long)FM_MIN(quota_held(u, QUOTA_CLOSING) + 1, UINT64_C(100))
		 : PATIENCE_NS;
}

static void finish(const struct item *it)
{
	char byte;

	for (int i = 0; it->socket && i < UNREAD; i++)
		if (recv(it->fd, &byte, 1, MSG_DONTWAIT) <= 0)
			break;
	close(it->fd);
}

static void *closer(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	timer_t timer;
	bool alarmed = make_alarm(&timer);
	struct item it;

	pthread_mutex_lock(&left.lock);
	while (await(&it)) {
		left.busy[me] = it.user;
		pthread_mutex_unlock(&left.lock);
		if (alarmed)
			set_alarm(timer, patience(it.user));
		finish(&it);
		if (alarmed)
			set_alarm(timer, 0);
		pthread_mutex_lock(&left.lock);
		left.busy[me] = NULL;
		if (it.user)
			quota_give(it.user, QUOTA_CLOSING, 1);
	}
	left.there[me] = false;
	left.threads--;
	pthread_mutex_unlock(&left.lock);
	if (alarmed)
		timer_delete(timer);
	return NULL;
}

static void wake_up(int sig)
{
}

static bool start(unsigned me)
{
	const struct sched_param ordinary = {0};
	struct sigaction act = {.sa_handler = wake_up}; /* without SA_RESTART */
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t set;
	int rc;

	sigaction(SIGNAL, &act, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 4 * (size_t)PTHREAD_STACK_MIN);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &ordinary);
	rc = pthread_create(&thread, &attr, closer, (void *)(uintptr_t)me);
	pthread_attr_destroy(&attr);
	return !rc;
}

/* Wakes or starts a thread. Returns whether there is one that will take the item. */
static bool call_closer(void)
{
	unsigned me = 0;

	if (left.idle)
		pthread_cond_signal(&left.more);
	if (left.idle >= left.n)
		return true;
	while (me < THREADS && left.there[me])
		me++;
	if (me < THREADS && start(me)) {
		left.there[me] = true;
		left.threads++;
	}
	return left.threads;
}

static bool put(const struct item *it)
{
	size_t room = left.room ? 2 * left.room : 64;
	struct item *item = left.item;

	if (left.n == left.room) {
		item = realloc(left.item, room * sizeof(*item));
		if (!item)
			return false;
		left.item = item;
		left.room = room;
	}
	item[left.n++] = *it;
	return true;
}

/* Without memory, or without a thread, it is done at once: that may take a while, but nothing stays
 * behind. */
static void leave(struct item it)
{
	bool taken;

	if (it.user)
		quota_charge(it.user, QUOTA_CLOSING, 1);
	pthread_mutex_lock(&left.lock);
	taken = put(&it);
	if (taken && !call_closer()) {
		left.n--;
		taken = false;
	}
	pthread_mutex_unlock(&left.lock);
	if (taken)
		return;
	finish(&it);
	if (it.user)
		quota_give(it.user, QUOTA_CLOSING, 1);
}

void close_aside_of(struct quota_user *u, int fd)
{
	leave((struct item){.fd = fd, .user = u});
}

void close_aside(int fd)
{
	close_aside_of(NULL, fd);
}

void close_socket_aside_of(struct quota_user *u, int fd)
{
	shutdown(fd, SHUT_RDWR);
	leave((struct item){.fd = fd, .socket = true, .user = u});
}

void close_socket_aside(int fd)
{
	close_socket_aside_of(NULL, fd);
}

unsigned aside_waiting(void)
{
	unsigned n;

	pthread_mutex_lock(&left.lock);
	n = (unsigned)left.n;
	pthread_mutex_unlock(&left.lock);
	return n;
}
