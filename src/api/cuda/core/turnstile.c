/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each side first announces that it comes, and then looks whether the other side is there. If both
 * come at once, one sees the other and steps back. A thread that waits here holds no lock that the
 * agent needs.
 */
#include "turnstile.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "tune.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define CONTEXTS 16

struct fm_cu_turnstile {
	_Atomic(CUcontext) ctx;
	_Atomic unsigned stops; /* guards that have something stopped, or are just going on */
	_Atomic unsigned comes; /* calls that may wait and are not inside yet */
	_Atomic unsigned waits; /* those that are inside */
	_Atomic unsigned pushes, visits; /* others that are inside */
	_Atomic bool kept;               /* one of the stops is for a rest */
	_Atomic bool waited_for;         /* what is stopped now most likely waits for the program */
	struct fm_cu_settle settle;
};

static struct fm_cu_turnstile turnstiles[CONTEXTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* to make one */
FM_LOCK_RANK(lock, CU_TURNSTILES);
static _Atomic bool over;
static _Atomic bool kept_out;    /* for a rest; raised under the lock */
static _Atomic unsigned outside; /* threads that wait to enter */
static _Atomic bool too_many;    /* a context has no turnstile */

/* Calls of this thread that may wait. What the thread does meanwhile waits for no other call. */
static __thread unsigned own_waits __attribute__((tls_model("initial-exec")));

static void nap(void)
{
	const struct timespec ts = {.tv_nsec = FM_CU_CALL_NAP};
	FM_NO_CANCEL;

	nanosleep(&ts, NULL);
}

static struct fm_cu_turnstile *find(CUcontext ctx)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (atomic_load(&turnstiles[i].ctx) == ctx)
			return &turnstiles[i];
	return NULL;
}

struct fm_cu_turnstile *fm_cu_turnstile(CUcontext ctx, bool make)
{
	struct fm_cu_turnstile *t = find(ctx);

	if (t || !make)
		return t;
	pthread_mutex_lock(&lock);
	t = find(ctx);
	if (!t) {
		t = find(NULL);
		if (t && atomic_load(&kept_out)) {
			atomic_fetch_add(&t->stops, 1);
			atomic_store(&t->kept, true);
		}
		if (t)
			atomic_store(&t->ctx, ctx);
		else
			atomic_store(&too_many, true);
	}
	pthread_mutex_unlock(&lock);
	return t;
}

struct fm_cu_settle *fm_cu_turnstile_settle(struct fm_cu_turnstile *t)
{
	return &t->settle;
}

/* With the lock: who keeps all out looks at these words of each. */
void fm_cu_turnstile_forget(CUcontext ctx)
{
	struct fm_cu_turnstile *t = ctx ? find(ctx) : NULL;

	if (!t)
		return;
	fm_cu_settle_forget(&t->settle);
	pthread_mutex_lock(&lock);
	if (atomic_exchange(&t->kept, false))
		fm_cu_stop_end(t);
	atomic_store(&t->ctx, NULL);
	pthread_mutex_unlock(&lock);
}

void fm_cu_turnstile_fork_child(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct fm_cu_turnstile *t = &turnstiles[i];

		atomic_store(&t->ctx, NULL);
		atomic_store(&t->stops, 0);
		atomic_store(&t->comes, 0);
		atomic_store(&t->waits, 0);
		atomic_store(&t->pushes, 0);
		atomic_store(&t->visits, 0);
		atomic_store(&t->kept, false);
		fm_cu_settle_forget(&t->settle);
	}
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	fm_cu_settle_fork_child();
	atomic_store(&over, false);
	atomic_store(&kept_out, false);
	atomic_store(&outside, 0);
	atomic_store(&too_many, false);
}

void fm_cu_turnstile_over(void)
{
	atomic_store(&over, true);
}

bool fm_cu_turnstile_is_over(void)
{
	return atomic_load(&over);
}

static bool stopped(struct fm_cu_turnstile *t)
{
	return atomic_load(&t->stops) && !atomic_load(&over);
}

static inline bool try_to_enter(struct fm_cu_turnstile *t, _Atomic unsigned *inside)
{
	atomic_fetch_add(inside, 1);
	if (FM_LIKELY(!stopped(t)))
		return true;
	atomic_fetch_sub(inside, 1);
	return false;
}

static FM_COLD bool wait_to_enter(
	struct fm_cu_turnstile *t, _Atomic unsigned *inside, uint64_t most)
{
	uint64_t until = fm_add_sat(fm_now(), most);
	bool insists = most > FM_CU_PUSH_MOST, in = false;

	atomic_fetch_add(&outside, 1);
	do {
		if (!insists && atomic_load(&t->waited_for))
			break;
		if (until != FM_NEVER && fm_now() > until)
			break;
		nap();
		in = try_to_enter(t, inside);
	} while (!in);
	atomic_fetch_sub(&outside, 1);
	return in;
}

/* True: the caller is inside. False: something was stopped for all that time. A thread that finds
 * nothing stopped, as each launch does, reads no clock. */
static inline bool enter(struct fm_cu_turnstile *t, _Atomic unsigned *inside, uint64_t most)
{
	return try_to_enter(t, inside) || wait_to_enter(t, inside, most);
}

FM_HOT bool fm_cu_push_begin(struct fm_cu_turnstile *t, bool anyway)
{
	if (!t || (!anyway && enter(t, &t->pushes, FM_CU_PUSH_MOST)))
		return true;
	if (!anyway)
		atomic_store(&t->waited_for, true);
	atomic_fetch_add(&t->pushes, 1);
	return anyway && !stopped(t);
}

FM_HOT void fm_cu_push_end(struct fm_cu_turnstile *t)
{
	if (t)
		atomic_fetch_sub(&t->pushes, 1);
}

bool fm_cu_wait_begin(struct fm_cu_turnstile *t, uint64_t most)
{
	bool in;

	if (!t)
		return true;
	atomic_fetch_add(&t->comes, 1);
	in = enter(t, &t->waits, most);
	atomic_fetch_sub(&t->comes, 1);
	if (!in)
		return false;
	own_waits++;
	/* Visits are short, and none begins while a call is inside that may wait. */
	while (atomic_load(&t->visits) && !atomic_load(&over))
		nap();
	return true;
}

void fm_cu_wait_end(struct fm_cu_turnstile *t)
{
	if (!t)
		return;
	own_waits--;
	atomic_fetch_sub(&t->waits, 1);
}

void fm_cu_wait_begin_all(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		fm_cu_wait_begin(&turnstiles[i], FM_NEVER);
}

void fm_cu_wait_end_all(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		fm_cu_wait_end(&turnstiles[i]);
}

/* Was there a moment without such calls? Calls that come later wait outside, or are known not to
 * block. */
static bool leave(struct fm_cu_turnstile *t)
{
	uint64_t until = fm_now() + FM_CU_CALL_SPIN;

	while (atomic_load(&t->pushes))
		if (fm_now() > until)
			return false;
	return true;
}

bool fm_cu_stop_begin(struct fm_cu_turnstile *t)
{
	if (!t)
		return true;
	if (atomic_load(&t->comes) || atomic_load(&t->waits))
		return false;
	atomic_fetch_add(&t->stops, 1);
	if (!atomic_load(&t->waits) && fm_cu_settled(&t->settle) && leave(t))
		return true;
	fm_cu_stop_end(t);
	return false;
}

void fm_cu_stop_end(struct fm_cu_turnstile *t)
{
	if (t && atomic_fetch_sub(&t->stops, 1) == 1)
		atomic_store(&t->waited_for, false);
}

bool fm_cu_is_stopped(struct fm_cu_turnstile *t)
{
	return t && atomic_load(&t->stops);
}

bool fm_cu_awaited(struct fm_cu_turnstile *t)
{
	return t && atomic_load(&t->comes);
}

void fm_cu_stop_lets_in(struct fm_cu_turnstile *t)
{
	if (t && !atomic_load_explicit(&t->waited_for, memory_order_relaxed))
		atomic_store(&t->waited_for, true);
}

bool fm_cu_visit_begin(struct fm_cu_turnstile *t)
{
	if (!t)
		return true;
	atomic_fetch_add(&t->visits, 1);
	if (!atomic_load(&t->waits) || own_waits)
		return true;
	atomic_fetch_sub(&t->visits, 1);
	return false;
}

void fm_cu_visit_end(struct fm_cu_turnstile *t)
{
	if (t)
		atomic_fetch_sub(&t->visits, 1);
}

/* --- a rest --- */

bool fm_cu_waits_outside(void)
{
	return atomic_load(&outside);
}

bool fm_cu_kept_out(void)
{
	return atomic_load(&kept_out) && !atomic_load(&over);
}

static void let_in(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (atomic_exchange(&turnstiles[i].kept, false))
			fm_cu_stop_end(&turnstiles[i]);
	atomic_store(&kept_out, false);
}

/* The lock is held, so that no turnstile is made meanwhile. */
static bool keep_all_out(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct fm_cu_turnstile *t = &turnstiles[i];

		if (!atomic_load(&t->ctx) || atomic_load(&t->kept))
			continue;
		if (!fm_cu_stop_begin(t))
			return false;
		atomic_store(&t->kept, true);
	}
	return true;
}

bool fm_cu_keep_out(bool out)
{
	bool ok = true;

	pthread_mutex_lock(&lock);
	if (out) {
		ok = !atomic_load(&too_many) && keep_all_out();
		atomic_store(&kept_out, ok);
	}
	if (!out || !ok)
		let_in();
	pthread_mutex_unlock(&lock);
	return ok;
}
