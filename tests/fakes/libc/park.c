// SPDX-License-Identifier: Apache-2.0
/*
 * A machine on which a thread gets no further just when it has taken a lock of Fermata's, or of a
 * fake's, each of them once: preloaded, for programs that fork then (tests/fault/forks.h).
 *
 * One thread asks with park_next() for another to be parked at the next place in that code that
 * takes a lock and where none was parked before; and lets it go with park_go(). If it has to wait
 * itself for a lock, the other goes on, too.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define PLACES 1024
#define RANGES 16

static struct {
	uintptr_t from, to;
} range[RANGES]; /* of Fermata's code and the fakes', as loaded when somebody asks first */
static unsigned ranges;

static _Atomic(const void *) been[PLACES];
static _Atomic(const void *) parked;
static _Atomic bool wanted, over;
static __thread bool asks;

static int (*real_lock)(pthread_mutex_t *), (*real_trylock)(pthread_mutex_t *);

/* The locks of a driver that is not real are to be free in the child, too. */
static bool looks_at(const char *library)
{
	return strstr(library, "fermata") || strstr(library, "/tests/fakes/");
}

static int note(struct dl_phdr_info *i, size_t size, void *unused)
{
	for (unsigned n = 0; looks_at(i->dlpi_name) && n < i->dlpi_phnum; n++) {
		const ElfW(Phdr) *p = &i->dlpi_phdr[n];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X && ranges < RANGES) {
			range[ranges].from = i->dlpi_addr + p->p_vaddr;
			range[ranges++].to = i->dlpi_addr + p->p_vaddr + p->p_memsz;
		}
	}
	return 0;
}

__attribute__((constructor)) static void begin(void)
{
	*(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	*(void **)&real_trylock = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static bool ours(const void *place)
{
	for (unsigned i = 0; i < ranges; i++)
		if ((uintptr_t)place >= range[i].from && (uintptr_t)place < range[i].to)
			return true;
	return false;
}

/* True: for the first time. */
static bool first_at(const void *place)
{
	for (unsigned i = 0; i < PLACES; i++) {
		const void *none = NULL;

		if (been[i] == place)
			return false;
		if (atomic_compare_exchange_strong(&been[i], &none, place))
			return true;
		if (none == place)
			return false;
	}
	return false;
}

/* With the lock. */
static void look(const void *place)
{
	bool yes = true;

	if (asks || !wanted || !ours(place) || !first_at(place))
		return;
	if (!atomic_compare_exchange_strong(&wanted, &yes, false)) {
		for (unsigned i = 0; i < PLACES; i++) /* another time */
			if (been[i] == place)
				been[i] = (const void *)1;
		return;
	}
	parked = place;
	while (parked == place)
		nap();
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
	int rc;

	if (!real_lock)
		begin();
	rc = real_trylock(m);
	if (rc) {
		if (asks)
			parked = NULL;
		rc = real_lock(m);
	}
	if (!rc)
		look(__builtin_return_address(0));
	return rc;
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *m)
{
	int rc;

	if (!real_trylock)
		begin();
	rc = real_trylock(m);
	if (!rc)
		look(__builtin_return_address(0));
	return rc;
}

EXPORT bool park_next(void);
EXPORT bool park_next(void)
{
	bool yes = true;

	if (!asks)
		dl_iterate_phdr(note, NULL);
	asks = true;
	wanted = true;
	while (!parked && !over)
		nap();
	/* Nobody is left to let go who would be parked later, such as a thread as it ends. */
	if (over && atomic_compare_exchange_strong(&wanted, &yes, false))
		return false;
	while (!parked) /* whoever has seen the wish is about to be */
		nap();
	return true;
}

/* Where the code stands that has the lock; NULL: it has gone on. */
EXPORT const void *park_place(void);
EXPORT const void *park_place(void)
{
	return parked;
}

EXPORT void park_go(void);
EXPORT void park_go(void)
{
	parked = NULL;
}

/* Is somebody to be parked as soon as there is a new place? */
EXPORT bool park_wants(void);
EXPORT bool park_wants(void)
{
	return wanted;
}

/* By those whose places they are: there are no more. */
EXPORT void park_over(void);
EXPORT void park_over(void)
{
	over = true;
}

/* How often somebody was parked so far. */
EXPORT unsigned park_times(void);
EXPORT unsigned park_times(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PLACES; i++)
		n += (uintptr_t)been[i] > 1;
	return n;
}
