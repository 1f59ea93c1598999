/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FAKE_CUDA_DEVICE=FILE: processes that name the same file share one device. It works for one of
 * them at a time: for a slice where others want it as well, then for the next, whatever they do.
 * One that pauses, or stands at a gate, gives the rest of its slice away.
 */
#include "../token/token.h"
#include "capacity.h"
#include "fake.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SLICE    2000000u /* ns */
#define PLACES   16
#define NOBODY   PLACES
#define LOOK_NS  5000000 /* who has it may have died */
#define PAUSE_NS 200000  /* between two kernels of its, at most */

struct turns {
	uint32_t made;
	unsigned has;   /* whose turn it is */
	uint64_t since; /* when it began */
	uint64_t rests; /* it does not work now, since; 0: it does */
	pid_t wants[PLACES];
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

_Static_assert(sizeof(struct turns) <= 4096, "");

static struct token *token;
static struct turns *turns;
static unsigned place;
static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER; /* streams of one process have one turn */

static void make(struct turns *t)
{
	pthread_mutexattr_t m;
	pthread_condattr_t c;

	pthread_mutexattr_init(&m);
	pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&m, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&t->lock, &m);
	pthread_condattr_init(&c);
	pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&c, CLOCK_MONOTONIC);
	pthread_cond_init(&t->changed, &c);
	t->has = NOBODY;
	t->made = 1;
}

static bool gone(pid_t pid)
{
	return pid && kill(pid > 0 ? pid : -pid, 0) && errno == ESRCH;
}

static void lock(struct turns *t)
{
	if (pthread_mutex_lock(&t->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&t->lock);
}

static void attach(void)
{
	const char *path = fk_env("FAKE_CUDA_DEVICE");
	struct turns *t;
	int fd;

	token = token_open();
	if (!path)
		return;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) || ftruncate(fd, FK_SHARED_BYTES))
		fk_die("FAKE_CUDA_DEVICE: no such device");
	t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (t == MAP_FAILED)
		fk_die("FAKE_CUDA_DEVICE: it cannot be mapped");
	if (!t->made)
		make(t);
	lock(t);
	while (place < PLACES && t->wants[place] && !gone(t->wants[place]))
		place++;
	if (place == PLACES)
		fk_die("FAKE_CUDA_DEVICE: too many processes");
	t->wants[place] = -getpid(); /* it does not want it now */
	pthread_mutex_unlock(&t->lock);
	flock(fd, LOCK_UN);
	close(fd);
	turns = t;
}

static unsigned next(const struct turns *t, unsigned after)
{
	for (unsigned i = 1; i < PLACES; i++)
		if (t->wants[(after + i) % PLACES] > 0 && !gone(t->wants[(after + i) % PLACES]))
			return (after + i) % PLACES;
	return NOBODY;
}

static bool over(const struct turns *t, uint64_t now)
{
	return t->has == NOBODY || gone(t->wants[t->has]) ||
	       (t->rests && now - t->rests > PAUSE_NS);
}

static void sleep_on(struct turns *t, uint64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)ns;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	if (pthread_cond_timedwait(&t->changed, &t->lock, &until) == EOWNERDEAD)
		pthread_mutex_consistent(&t->lock);
}

/* Returns how much of its slice is left. */
static uint64_t await(struct turns *t)
{
	uint64_t now;

	lock(t);
	t->wants[place] = getpid();
	for (now = fk_now(); t->has != place; now = fk_now()) {
		if (over(t, now)) {
			t->has = place;
			t->since = now;
			break;
		}
		sleep_on(t, t->rests ? PAUSE_NS : LOOK_NS);
	}
	t->rests = 0;
	if (now - t->since >= SLICE)
		t->since = now;
	pthread_mutex_unlock(&t->lock);
	return SLICE - (now - t->since);
}

static void give(struct turns *t)
{
	uint64_t now = fk_now();

	lock(t);
	t->wants[place] = -getpid();
	t->rests = now;
	if (now - t->since >= SLICE) {
		t->has = next(t, place);
		t->since = now;
		t->rests = 0;
	}
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

static uint64_t rest(uint64_t ns)
{
	struct timespec s = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	uint64_t begin = fk_now();

	nanosleep(&s, NULL);
	return fk_now() - begin;
}

/* A kernel has the whole device, which may be other APIs' as well, until it ends. */
static uint64_t rest_with_token(uint64_t ns)
{
	uint64_t had;

	token_take(token);
	had = rest(ns);
	token_give(token);
	return had;
}

uint64_t fk_take(uint64_t ns, uint64_t *lost)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t had = 0, left, most;

	pthread_once(&once, attach);
	if (token)
		return rest_with_token(ns);
	if (!turns)
		return rest(ns);
	pthread_mutex_lock(&own);
	while (had < ns) {
		left = ns - had;
		most = await(turns);
		had += rest(left < most ? left : most);
		give(turns);
		*lost += had < ns;
	}
	pthread_mutex_unlock(&own);
	return had;
}
