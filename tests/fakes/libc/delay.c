// SPDX-License-Identifier: Apache-2.0
/*
 * A machine on which programs come late: calls by which processes and threads hear of each other
 * are delayed at random, before and after. Preloaded; script/delays does it.
 *
 *   DELAY_IN    programs that are meant, by the names of their files: "fermatad,fermata"; "all", or
 *               "others": all but the daemon
 *   DELAY_OF    the folder below which they are; and copies below /tmp/fermata
 *   DELAY_SEED  a number
 *   DELAY_ONE   one call of so many is delayed by 1 to 50 ms
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SHORT_US 500
#define LONG_US  50000

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool meant;
static uint64_t seed;
static unsigned one_of;
static __thread uint64_t state;

static bool is_in(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strcspn(list, ",") == n && !strncmp(list, name, n))
			return true;
	return false;
}

static unsigned number(const char *name, unsigned otherwise)
{
	const char *value = getenv(name);
	int n = value ? atoi(value) : 0;

	return n > 0 ? (unsigned)n : otherwise;
}

static void look(void)
{
	const char *in = getenv("DELAY_IN"), *of = getenv("DELAY_OF"), *base;
	char path[512];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (!in || !of || n <= 0)
		return;
	path[n] = '\0';
	base = strrchr(path, '/') + 1;
	if (strncmp(path, of, strlen(of)) && strncmp(path, "/tmp/fermata", 12))
		return;
	seed = number("DELAY_SEED", 1);
	one_of = number("DELAY_ONE", 100);
	meant = !strcmp(in, "all") || is_in(in, base) ||
		(!strcmp(in, "others") && strncmp(base, "fermatad", 8));
}

/* splitmix64; each thread draws its own. */
static uint64_t draw(void)
{
	uint64_t z;

	if (!state)
		state = seed * 0x9e3779b97f4a7c15u ^ ((uint64_t)getpid() << 32 | (uintptr_t)&state);
	z = state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void nap(void)
{
	int saved = errno;
	struct timespec t = {0};
	uint64_t r;

	pthread_once(&once, look);
	if (!meant)
		return;
	r = draw();
	if (r % one_of == 0)
		t.tv_nsec = 1000 * (1000 + (long)((r >> 32) % (LONG_US - 1000)));
	else if (r % 16 == 1)
		t.tv_nsec = 1000 * (long)((r >> 32) % SHORT_US);
	if (t.tv_nsec)
		nanosleep(&t, NULL);
	errno = saved;
}

/* Those of conditions have two versions: the old one is of before 2002. */
static void *next_of(const char *name)
{
	void *fn = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");

	return fn ? fn : dlsym(RTLD_NEXT, name);
}

#define LATE(type, name, parameters, arguments)                    \
	type name parameters                                       \
	{                                                          \
		static type(*_Atomic next) parameters;             \
		type result;                                       \
                                                                   \
		if (!next)                                         \
			next = (type(*) parameters)next_of(#name); \
		nap();                                             \
		result = next arguments;                           \
		nap();                                             \
		return result;                                     \
	}

LATE(int, connect, (int s, const struct sockaddr *a, socklen_t n), (s, a, n))
LATE(int, accept4, (int s, struct sockaddr *a, socklen_t *n, int flags), (s, a, n, flags))
LATE(ssize_t, send, (int s, const void *buf, size_t n, int flags), (s, buf, n, flags))
LATE(ssize_t, sendmsg, (int s, const struct msghdr *m, int flags), (s, m, flags))
LATE(ssize_t, recv, (int s, void *buf, size_t n, int flags), (s, buf, n, flags))
LATE(ssize_t, recvmsg, (int s, struct msghdr *m, int flags), (s, m, flags))
LATE(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
LATE(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))
LATE(int, close, (int fd), (fd))
LATE(int, poll, (struct pollfd * p, nfds_t n, int ms), (p, n, ms))
LATE(int, ppoll, (struct pollfd * p, nfds_t n, const struct timespec *t, const sigset_t *m),
	(p, n, t, m))
LATE(int, epoll_wait, (int e, struct epoll_event *v, int n, int ms), (e, v, n, ms))
LATE(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))
LATE(int, pthread_cond_signal, (pthread_cond_t * c), (c))
LATE(int, pthread_cond_broadcast, (pthread_cond_t * c), (c))
