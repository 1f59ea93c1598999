/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices have so much memory, FAKE_CUDA_CAPACITY, which processes that share them
 * (FAKE_CUDA_DEVICE) share as well. Each has a row. What one has that was killed comes back, as on
 * a device, not before a while has passed.
 */
#include "capacity.h"
#include "engines.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROWS    64
#define AT      4096                /* in the file */
#define LATE_NS UINT64_C(100000000) /* a device: 107 ms */
#define TOTAL   (UINT64_C(4) << 30)

struct row {
	pid_t pid;        /* 0: nobody's */
	uint64_t started; /* a number serves again */
	uint64_t gone;    /* since; 0: it is there */
	uint64_t used[FK_MACHINE_DEVICES];
};

struct capacity {
	uint32_t made;
	pthread_mutex_t lock;
	struct fk_engines engines;
	struct row row[ROWS];
};
_Static_assert(AT + sizeof(struct capacity) <= FK_SHARED_BYTES, "");

static struct capacity own = {.made = 1, .lock = PTHREAD_MUTEX_INITIALIZER}, *all = &own;
static struct row *mine;
static pid_t owner;

uint64_t fk_bytes(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);
	const char *unit = *end ? strchr("kMGT", *end) : NULL;

	return unit ? n << (10 * (unit - "kMGT" + 1)) : n;
}

uint64_t fk_capacity_total(void)
{
	const char *given = getenv("FAKE_CUDA_CAPACITY");

	return given && *given ? fk_bytes(given) : TOTAL;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* When it was started; 0: there is none, or a dead one that nobody has waited for. */
static uint64_t started(pid_t pid)
{
	char path[64], text[1024], state = 'Z', *p;
	unsigned long long ticks = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	p = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
	fclose(f);
	if (!p || sscanf(p + 1,
			  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %llu",
			  &state, &ticks) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : ticks;
}

static void lock(void)
{
	if (pthread_mutex_lock(&all->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&all->lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&all->lock);
}

static void make(struct capacity *c)
{
	pthread_mutexattr_t m;

	pthread_mutexattr_init(&m);
	pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&m, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&c->lock, &m);
	pthread_mutex_init(&c->engines.lock[0], &m);
	pthread_mutex_init(&c->engines.lock[1], &m);
	c->made = 1;
}

/* It stays this process's own if there is no such file. */
static void open_shared(void)
{
	const char *path = getenv("FAKE_CUDA_DEVICE");
	int fd = path && *path && strcmp(path, "0") ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)
						    : -1;
	struct capacity *c = MAP_FAILED;

	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX) && !ftruncate(fd, FK_SHARED_BYTES))
		c = mmap(NULL, FK_SHARED_BYTES - AT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, AT);
	if (c != MAP_FAILED) {
		if (!c->made)
			make(c);
		all = c;
	}
	flock(fd, LOCK_UN);
	close(fd);
}

static void attach(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_shared);
}

struct fk_engines *fk_capacity_engines(void)
{
	attach();
	return all == &own ? NULL : &all->engines;
}

/* With the lock. */
static void look_for_the_dead(void)
{
	uint64_t t = now();

	for (struct row *r = all->row; all != &own && r < all->row + ROWS; r++) {
		if (!r->pid || r == mine || started(r->pid) == r->started)
			continue;
		if (!r->gone)
			r->gone = t;
		else if (t - r->gone >= LATE_NS)
			*r = (struct row){0};
	}
}

static uint64_t used(unsigned which)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < ROWS; i++)
		n += all->row[i].used[which];
	return n;
}

/* As one that ends by itself: what it has is back at once. */
static void leave(void)
{
	if (getpid() != owner)
		return;
	lock();
	*mine = (struct row){0};
	mine = NULL;
	owner = 0;
	unlock();
}

/* With the lock. A process that has become another program begins anew. False: no row is left. */
static bool enter(void)
{
	pid_t pid = getpid();
	uint64_t since = started(pid);
	struct row *free_row = NULL;

	for (struct row *r = all->row; r < all->row + ROWS; r++)
		if (r->pid == pid && r->started == since)
			free_row = r;
		else if (!r->pid && !free_row)
			free_row = r;
	if (!free_row)
		return false;
	*free_row = (struct row){.pid = pid, .started = since};
	mine = free_row;
	owner = pid;
	atexit(leave);
	return true;
}

bool fk_capacity_take(unsigned which, uint64_t bytes)
{
	uint64_t total = fk_capacity_total();
	bool ok;

	attach();
	lock();
	look_for_the_dead();
	ok = (mine || enter()) && bytes <= total && used(which) <= total - bytes;
	if (ok)
		mine->used[which] += bytes;
	unlock();
	return ok;
}

void fk_capacity_give(unsigned which, uint64_t bytes)
{
	lock();
	if (mine)
		mine->used[which] -= bytes;
	unlock();
}

uint64_t fk_capacity_free(unsigned which)
{
	uint64_t total = fk_capacity_total(), n;

	attach();
	lock();
	look_for_the_dead();
	n = used(which);
	unlock();
	return n < total ? total - n : 0;
}

bool fk_capacity_user(unsigned which, unsigned n, pid_t *pid, uint64_t *bytes)
{
	bool found = false;

	attach();
	lock();
	look_for_the_dead();
	for (const struct row *r = all->row; r < all->row + ROWS && !found; r++) {
		if (!r->used[which] || n--)
			continue;
		found = true;
		*pid = r->pid;
		*bytes = r->used[which];
	}
	unlock();
	return found;
}
