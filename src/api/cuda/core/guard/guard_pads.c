/* SPDX-License-Identifier: Apache-2.0 */
/* The pads of contexts (guard_pad.h): how they are made, changed and ended. */
#include "base/cancel.h"
#include "base/util.h"
#include "guard_internal.h"
#include "guard_pad.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define PADS  16
#define SIZES (FM_CU_PAD_MOST / FM_CU_PAD_STEP)

const char *const fm_cu_pad_whys[FM_CU_PAD_WHYS] = {
	[FM_CU_PAD_NO_GREEN] = "no green contexts",
	[FM_CU_PAD_SIZE] = "number of multiprocessors",
	[FM_CU_PAD_CHANNEL] = "fewer than 16 channels",
	[FM_CU_PAD_GATES] = "gates refused by the driver",
	[FM_CU_PAD_BUSY] = "another queue pads",
	[FM_CU_PAD_LATER] = "not ready yet",
	[FM_CU_PAD_FAILED] = "the driver fails",
};

/* Green contexts last as long as their context; the stream is that of the present size. One thread
 * at a time makes, changes or ends a pad; any thread may forget one. */
struct fm_cu_pad {
	_Atomic(CUcontext) ctx; /* NULL: unused */
	_Atomic unsigned k;     /* 0: it has no stream */
	_Atomic(CUstream) stream;
	_Atomic(struct fm_cu_guard *) user;
	_Atomic bool making; /* a thread makes, changes or ends it, and has what is not atomic */
	_Atomic bool over;   /* its context ends: nothing is made any more */
	CUgreenCtx green[SIZES];
	unsigned tried; /* sizes that are made, or could not be: bits */
	_Atomic unsigned all;
	unsigned refused;           /* this size, */
	enum fm_cu_pad_why because; /* and why */
	_Atomic unsigned spoilt;    /* this size did not take a launch */
	_Atomic bool stale;         /* others have its multiprocessors by now */
};

static struct fm_cu_pad pads[PADS];
static _Atomic unsigned streams;

static struct fm_cu_pad *find(CUcontext ctx)
{
	for (unsigned i = 0; i < PADS; i++)
		if (atomic_load(&pads[i].ctx) == ctx)
			return &pads[i];
	return NULL;
}

/* The maker may still be at work for a context that has ended: its place is not free yet. */
static struct fm_cu_pad *unused(void)
{
	for (unsigned i = 0; i < PADS; i++)
		if (!atomic_load(&pads[i].ctx) && !atomic_load(&pads[i].making))
			return &pads[i];
	return NULL;
}

CUstream fm_cu_pad_stream(const struct fm_cu_pad *p)
{
	return atomic_load(&p->stream);
}

unsigned fm_cu_pads(void)
{
	return atomic_load_explicit(&streams, memory_order_relaxed);
}

unsigned fm_cu_pad_of(CUcontext ctx)
{
	const struct fm_cu_pad *p = ctx ? find(ctx) : NULL;

	return p ? atomic_load(&p->all) : 0;
}

/* --- making one --- */

/*
 * A driver that makes a green context waits for what the context's streams have to do, also behind
 * closed gates. So the agent, on which it may depend that they open, leaves that to a thread.
 */
struct make {
	struct fm_cu_pad *pad;
	const struct fm_cu_driver *cu;
	CUcontext base;
	struct fm_cu_turnstile *turnstile;
	int (*green)(CUcontext base, unsigned k, CUgreenCtx *green, unsigned *all);
	unsigned k;
	bool ahead; /* the green context alone, for later */
};

static bool lose_stream(struct fm_cu_pad *p)
{
	bool had = atomic_exchange(&p->k, 0);

	if (had)
		atomic_fetch_sub(&streams, 1);
	return had;
}

static void drop_stream(const struct fm_cu_driver *cu, struct fm_cu_pad *p)
{
	CUstream stream = atomic_load(&p->stream);

	if (lose_stream(p))
		cu->stream_destroy(stream);
}

static unsigned bit_of(unsigned k)
{
	return 1u << (k / FM_CU_PAD_STEP - 1);
}

/* Where there are none of one size, there are none at all; and none of a larger size. */
static unsigned says_of(enum fm_cu_pad_why why, unsigned k)
{
	return why == FM_CU_PAD_NO_GREEN ? ~0u : why == FM_CU_PAD_SIZE ? ~(bit_of(k) - 1) : 0;
}

static enum fm_cu_pad_why make_green(const struct make *m)
{
	struct fm_cu_pad *p = m->pad;
	CUgreenCtx *green = &p->green[m->k / FM_CU_PAD_STEP - 1];
	enum fm_cu_pad_why why;
	unsigned all = 0;
	int rc;

	if (*green)
		return FM_CU_PAD_OK;
	if (!m->green || !m->cu->green_stream_create)
		rc = -EOPNOTSUPP;
	else
		rc = m->green(m->base, m->k, green, &all);
	if (rc)
		*green = NULL;
	else
		atomic_store(&p->all, all);
	why = !rc                 ? FM_CU_PAD_OK
	      : rc == -EOPNOTSUPP ? FM_CU_PAD_NO_GREEN
	      : rc == -ENOSPC     ? FM_CU_PAD_SIZE
				  : FM_CU_PAD_FAILED;
	p->tried |= bit_of(m->k) | says_of(why, m->k);
	return why;
}

/* What the program has on the device goes first. A stream of another context cannot run its
 * kernels. */
static enum fm_cu_pad_why make_stream(const struct make *m)
{
	struct fm_cu_pad *p = m->pad;
	CUgreenCtx green = p->green[m->k / FM_CU_PAD_STEP - 1], of;
	const struct fm_cu_driver *cu = m->cu;
	int least = 0, greatest = 0;
	CUcontext base = NULL;
	CUstream stream;

	if (cu->priority_range(&least, &greatest) ||
		cu->green_stream_create(&stream, green, FM_CU_STREAM_NON_BLOCKING, least))
		return FM_CU_PAD_FAILED;
	if (cu->stream_get_both && (cu->stream_get_both(stream, &base, &of) || base != m->base)) {
		cu->stream_destroy(stream);
		return FM_CU_PAD_NO_GREEN;
	}
	atomic_store(&p->stream, stream);
	atomic_fetch_add(&streams, 1);
	atomic_store(&p->k, m->k);
	if (atomic_load(&p->ctx) != m->base) /* it has ended meanwhile */
		lose_stream(p);
	return FM_CU_PAD_OK;
}

static void forget_greens(struct fm_cu_pad *p)
{
	p->refused = p->tried = 0;
	atomic_store(&p->spoilt, 0);
	for (unsigned i = 0; i < SIZES; i++)
		p->green[i] = NULL;
}

/* What is left would keep the primary context from its end. The context is current. */
static void destroy(const struct fm_cu_driver *cu, struct fm_cu_pad *p)
{
	drop_stream(cu, p);
	for (unsigned i = 0; i < SIZES; i++)
		if (p->green[i] && cu->green_destroy)
			cu->green_destroy(p->green[i]);
	forget_greens(p);
}

/* The context is current, and nothing of it is stopped. */
static void make(const struct make *m)
{
	struct fm_cu_pad *p = m->pad;
	enum fm_cu_pad_why why;

	if (atomic_exchange(&p->stale, false))
		destroy(m->cu, p);
	if (m->ahead) {
		make_green(m);
		return;
	}
	drop_stream(m->cu, p);
	if (!m->k)
		return;
	why = make_green(m);
	if (!why)
		why = make_stream(m);
	p->refused = why ? m->k : 0;
	p->because = why;
}

static void *maker(void *arg)
{
	struct make *m = arg;
	struct fm_cu_pad *p = m->pad;
	CUcontext old;
	int mode;

	if (!fm_cu_turnstile_is_over() && fm_cu_wait_begin(m->turnstile, FM_CU_GUARD_MEMORY_MOST)) {
		mode = fm_cu_enter(m->cu);
		if (!m->cu->ctx_push(m->base)) {
			make(m);
			m->cu->ctx_pop(&old);
		}
		fm_cu_leave(m->cu, mode);
		fm_cu_wait_end(m->turnstile);
	}
	free(m);
	atomic_store(&p->making, false);
	return NULL;
}

/* The program's signals are blocked in the thread. */
static bool start_maker(struct make *m)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	bool ok;

	if (pthread_attr_init(&attr))
		return false;
	sigfillset(&all);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, FM_CU_PAD_STACK);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ok = !pthread_create(&thread, &attr, maker, m);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return ok;
}

/* One at a time makes, changes or ends it. */
static bool enter(struct fm_cu_pad *p)
{
	bool none = false;

	return atomic_compare_exchange_strong(&p->making, &none, true);
}

static void change(struct fm_cu_queue *q, struct fm_cu_pad *p, unsigned k, bool ahead)
{
	struct fm_cu_turnstile *t = q->guard->turnstile;
	struct make *m;

	if (fm_cu_is_stopped(t) || !(m = malloc(sizeof(*m))))
		return;
	*m = (struct make){p, q->cu, q->base, t, q->pad_green, k, ahead};
	if (!enter(p)) {
		free(m);
	} else if (atomic_load(&p->over) || !start_maker(m)) { /* its end may have come before */
		atomic_store(&p->making, false);
		free(m);
	}
}

/* The queue's; begun if there is none. NULL: there is no place for one. */
static struct fm_cu_pad *find_or_begin(struct fm_cu_queue *q)
{
	struct fm_cu_pad *p = find(q->base);

	if (p)
		return p;
	p = unused();
	if (!p)
		return NULL;
	forget_greens(p);
	atomic_store(&p->stale, false);
	atomic_store(&p->over, false);
	atomic_store(&p->ctx, q->base);
	return p;
}

static bool cannot(const struct fm_cu_pad *p, unsigned k)
{
	return p->refused == k || atomic_load(&p->spoilt) == k ||
	       (p->tried & bit_of(k) && !p->green[k / FM_CU_PAD_STEP - 1]);
}

/* The largest size below k that is there, where k itself cannot be; else k. */
static unsigned instead_of(const struct fm_cu_pad *p, unsigned k)
{
	unsigned i = k;

	if (!cannot(p, k))
		return k;
	do
		i -= FM_CU_PAD_STEP;
	while (i && (cannot(p, i) || !p->green[i / FM_CU_PAD_STEP - 1]));
	return i ? i : k;
}

static enum fm_cu_pad_why make_ready(struct fm_cu_queue *q, unsigned *k, bool fewer)
{
	struct fm_cu_pad *p = find(q->base);
	bool stale;

	if (!p && !*k)
		return FM_CU_PAD_OK;
	p = p ? p : find_or_begin(q);
	if (!p || atomic_load(&p->over))
		return FM_CU_PAD_FAILED;
	if (atomic_load(&p->making))
		return FM_CU_PAD_LATER;
	stale = atomic_load(&p->stale);
	if (*k && fewer && !stale)
		*k = instead_of(p, *k);
	if (*k && atomic_load(&p->spoilt) == *k && !stale)
		return FM_CU_PAD_FAILED;
	if (atomic_load(&p->k) == *k && !(*k && stale))
		return FM_CU_PAD_OK;
	if (*k && p->refused == *k && !stale)
		return p->because;
	change(q, p, *k, false);
	return FM_CU_PAD_LATER;
}

/* False: the process ends; or the driver does not come back to the thread that makes it, and then
 * the driver is left to say what becomes of the context. */
static bool enter_last(struct fm_cu_pad *p)
{
	const struct timespec nap = {.tv_nsec = FM_CU_PAD_NAP};
	uint64_t until = fm_now() + FM_CU_PAD_END_MOST;
	FM_NO_CANCEL;

	while (!fm_cu_turnstile_is_over() && fm_now() < until) {
		if (enter(p))
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

/* The agent may be about to make something for it, which would keep the context from its end. So
 * the pad stays until the context is gone. */
void fm_cu_pads_end(const struct fm_cu_driver *cu, CUcontext ctx)
{
	struct fm_cu_pad *p = ctx ? find(ctx) : NULL;
	CUcontext old;
	int mode;

	if (!p || !cu)
		return;
	atomic_store(&p->over, true);
	if (!enter_last(p))
		return;
	mode = fm_cu_enter(cu);
	if (!cu->ctx_push(ctx)) {
		destroy(cu, p);
		cu->ctx_pop(&old);
	}
	fm_cu_leave(cu, mode);
	atomic_store(&p->user, NULL);
	atomic_store(&p->all, 0);
	atomic_store(&p->making, false);
}

void fm_cu_pads_stay(CUcontext ctx)
{
	struct fm_cu_pad *p = ctx ? find(ctx) : NULL;

	if (p)
		atomic_store(&p->over, false);
}

bool fm_cu_pads_making(CUcontext ctx)
{
	const struct fm_cu_pad *p = ctx ? find(ctx) : NULL;

	return p && atomic_load(&p->making);
}

static enum fm_cu_pad_why can_pad(const struct fm_cu_queue *q, unsigned k)
{
	const struct fm_cu_guard *g = q->guard;

	if (!g || g->place || atomic_load(&g->broken))
		return FM_CU_PAD_NO_GREEN;
	if (k && fm_cu_channels() < FM_CU_PAD_CHANNELS)
		return FM_CU_PAD_CHANNEL;
	if (k % FM_CU_PAD_STEP || k > FM_CU_PAD_MOST)
		return FM_CU_PAD_SIZE;
	return k && g->unnumbered ? FM_CU_PAD_GATES : FM_CU_PAD_OK;
}

enum fm_cu_pad_why fm_cu_pad_ready(struct fm_cu_queue *q, unsigned *k, bool fewer)
{
	enum fm_cu_pad_why why = can_pad(q, *k);

	return why ? why : make_ready(q, k, fewer);
}

/* One at a time: what is to be stopped meanwhile waits for no more than that. */
int fm_cu_pad_ahead(void *hwq, unsigned most)
{
	struct fm_cu_queue *q = hwq;
	struct fm_cu_pad *p = !most || can_pad(q, most) ? NULL : find_or_begin(q);
	unsigned k = FM_CU_PAD_STEP;

	if (!p || atomic_load(&p->over))
		return 0;
	if (atomic_load(&p->making))
		return -EAGAIN;
	while (k <= most && p->tried & bit_of(k) && !atomic_load(&p->stale))
		k += FM_CU_PAD_STEP;
	if (k > most)
		return 0;
	change(q, p, k, true);
	return -EAGAIN;
}

enum fm_cu_pad_why fm_cu_pad_take(struct fm_cu_guard *g, unsigned k)
{
	struct fm_cu_pad *p = find(g->ctx);
	struct fm_cu_guard *none = NULL;

	if (!p || !k || atomic_load(&p->k) != k || atomic_load(&p->stale))
		return FM_CU_PAD_LATER;
	if (atomic_load(&p->spoilt) == k)
		return FM_CU_PAD_FAILED;
	if (!atomic_compare_exchange_strong(&p->user, &none, g))
		return FM_CU_PAD_BUSY;
	g->pad = p;
	return FM_CU_PAD_OK;
}

/* Its context may have ended meanwhile, and the pad be another's. */
void fm_cu_pad_put(struct fm_cu_guard *g)
{
	struct fm_cu_guard *user = g;

	if (g->pad)
		atomic_compare_exchange_strong(&g->pad->user, &user, NULL);
	g->pad = NULL;
}

/* Green contexts end with their context's device, or with the process. */
void fm_cu_pads_forget(CUcontext ctx)
{
	struct fm_cu_pad *p = ctx ? find(ctx) : NULL;

	if (!p)
		return;
	atomic_store(&p->user, NULL);
	atomic_store(&p->all, 0);
	atomic_store(&p->ctx, NULL);
	lose_stream(p);
}

void fm_cu_pads_renew(CUcontext ctx)
{
	struct fm_cu_pad *p = ctx ? find(ctx) : NULL;

	if (p)
		atomic_store(&p->stale, true);
}

void fm_cu_pads_fork_child(void)
{
	for (unsigned i = 0; i < PADS; i++) {
		atomic_store(&pads[i].ctx, NULL);
		atomic_store(&pads[i].k, 0);
		atomic_store(&pads[i].user, NULL);
		atomic_store(&pads[i].all, 0);
		atomic_store(&pads[i].making, false);
		atomic_store(&pads[i].over, false);
	}
	atomic_store(&streams, 0);
}

void fm_cu_pad_spoil(struct fm_cu_pad *p)
{
	atomic_store(&p->spoilt, atomic_load(&p->k));
}

bool fm_cu_pad_is_stale(const struct fm_cu_pad *p)
{
	return atomic_load(&p->stale);
}

int fm_cu_pad_prepare(void *hwq, unsigned k, bool fewer, const char **why)
{
	enum fm_cu_pad_why reason = fm_cu_pad_ready(hwq, &k, fewer);
	struct fm_cu_queue *q = hwq;

	if (q->guard && (!k || reason != FM_CU_PAD_LATER))
		atomic_store(&q->guard->may_pad, k && !reason);
	*why = fm_cu_pad_whys[reason];
	return !reason ? (int)k : reason == FM_CU_PAD_LATER ? -EAGAIN : -EOPNOTSUPP;
}

unsigned fm_cu_pad_all(void *hwq)
{
	const struct fm_cu_queue *q = hwq;

	return fm_cu_pad_of(q->base);
}
