/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device for all. FERMATA_TOKEN=FILE: the software devices of all processes that name the same
 * file, whatever their API is, serve one command at a time, in the order in which commands become
 * ready. Who holds the token has the device: from when a command starts there until it ends. The
 * token is a robust futex, so that it comes back from a process that dies.
 */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

/* Tests read the words in front of the lock. */
struct token {
	uint32_t made;
	uint32_t holder;  /* the process whose command is served; 0: none */
	uint32_t died;    /* so many have died while they held it */
	uint32_t clashes; /* so often somebody got it who should not have */
	uint64_t served;  /* commands */
	pthread_mutex_t lock;
};

_Noreturn static inline void token_die(const char *what)
{
	perror(what);
	_exit(1);
}

/* Priority inheritance is for its queue: the kernel hands the lock to whoever has waited longest.
 */
static inline void token_make(struct token *t)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	if (pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) ||
		pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) ||
		pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT) ||
		pthread_mutex_init(&t->lock, &a))
		token_die("FERMATA_TOKEN: no lock");
	pthread_mutexattr_destroy(&a);
	t->made = 1;
}

/* All APIs say that it is the same device: that of CUDA's fake driver. */
#define TOKEN_UUID "fermata-fake-gpu"

/* NULL: nothing is shared. */
static inline struct token *token_open(void)
{
	const char *path = getenv("FERMATA_TOKEN");
	struct token *t;
	int fd;

	if (!path)
		return NULL;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) || ftruncate(fd, sizeof(*t)))
		token_die(path);
	t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (t == MAP_FAILED)
		token_die(path);
	if (!t->made)
		token_make(t);
	flock(fd, LOCK_UN); /* a mapping would keep it */
	close(fd);
	return t;
}

/* The thread that takes it gives it back. */
static inline void token_take(struct token *t)
{
	int rc = pthread_mutex_lock(&t->lock);

	if (rc == EOWNERDEAD) {
		pthread_mutex_consistent(&t->lock);
		t->died++;
		t->holder = 0;
	} else if (rc) {
		errno = rc;
		token_die("FERMATA_TOKEN: it cannot be taken");
	}
	t->clashes += t->holder != 0;
	t->holder = (uint32_t)getpid();
}

static inline void token_give(struct token *t)
{
	t->served++;
	t->holder = 0;
	pthread_mutex_unlock(&t->lock);
}
