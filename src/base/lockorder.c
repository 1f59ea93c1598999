/* SPDX-License-Identifier: Apache-2.0 */
#define FERMATA_LOCK_ORDER 1
#include "lockorder.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PLACES   (1u << 15) /* for ranks, by the address of the lock; none is taken out */
#define HELD_MAX 32

static struct {
	_Atomic uintptr_t lock;
	_Atomic unsigned rank;
} place[PLACES];

static __thread struct {
	unsigned n, exempt;
	struct held {
		const pthread_mutex_t *m;
		enum fm_lock rank;
		const char *where;
	} lock[HELD_MAX];
} held;

static const char *const name[] = {
#define ROW(rank, lock) [FM_LOCK_##rank] = #rank ", " lock,
	FM_LOCKS(ROW)
#undef ROW
};

/* The only one of its rank that is taken while another is held: of a kernel that is being cloned,
 * and of the clone, which nobody else knows yet. */
static bool may_be_two(enum fm_lock rank)
{
	return rank == FM_LOCK_CL_KERNEL;
}

static unsigned place_of(const pthread_mutex_t *m, bool make)
{
	unsigned at = (uintptr_t)m * UINT64_C(0x9e3779b97f4a7c15) >> 40 & (PLACES - 1);

	for (unsigned i = 0; i < PLACES; i++, at = (at + 1) & (PLACES - 1)) {
		uintptr_t there = atomic_load(&place[at].lock);

		if (!there && !make)
			return PLACES;
		if (!there && atomic_compare_exchange_strong(&place[at].lock, &there, (uintptr_t)m))
			return at;
		if (there == (uintptr_t)m)
			return at;
	}
	return PLACES;
}

void fm_lockorder_set(pthread_mutex_t *m, enum fm_lock rank)
{
	unsigned at = place_of(m, true);

	if (at < PLACES)
		atomic_store(&place[at].rank, rank);
}

static enum fm_lock rank_of(const pthread_mutex_t *m)
{
	unsigned at = place_of(m, false);

	return at < PLACES ? atomic_load(&place[at].rank) : FM_LOCK_NONE;
}

static void fail(enum fm_lock rank, const char *where, const struct held *h)
{
	if (!h)
		fprintf(stderr, "lock order: %s takes a lock that has no rank\n", where);
	else
		fprintf(stderr,
			"lock order: %s takes %s\nwhile this thread has %s, taken at %s\n"
			"src/base/lockorder.h has the order; docs/design/locks.md, its reasons\n",
			where, name[rank], name[h->rank], h->where);
	abort();
}

/* What may be waited for: everything that stands below all that this thread has. */
static void check(enum fm_lock rank, const pthread_mutex_t *but, const char *where)
{
	if (!rank)
		fail(rank, where, NULL);
	for (unsigned i = 0; i < held.n && !held.exempt; i++) {
		const struct held *h = &held.lock[i];

		if (h->m != but && (h->rank > rank || (h->rank == rank && !may_be_two(rank))))
			fail(rank, where, h);
	}
}

void fm_lockorder_wants(const pthread_mutex_t *m, const char *where)
{
	check(rank_of(m), NULL, where);
}

void fm_lockorder_has(pthread_mutex_t *m, const char *where)
{
	if (held.n < HELD_MAX)
		held.lock[held.n++] = (struct held){m, rank_of(m), where};
}

/* One that is not there was held when the process forked. */
void fm_lockorder_leaves(const pthread_mutex_t *m)
{
	unsigned i = held.n;

	while (i && held.lock[i - 1].m != m)
		i--;
	if (!i)
		return;
	for (; i < held.n; i++)
		held.lock[i - 1] = held.lock[i];
	held.n--;
}

pthread_mutex_t *fm_lockorder_waits(pthread_mutex_t *m, const char *where)
{
	check(rank_of(m), m, where);
	return m;
}

void fm_lockorder_exempt(int begins)
{
	held.exempt = begins;
}

/* Locks are made anew in a child, whatever its thread had. */
static void fork_child(void)
{
	held.n = 0;
}

__attribute__((constructor)) static void hear_of_forks(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}
