/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Padding (guard_pad.h). The stages are those of a stop (guard_stop.c), with two differences: what
 * is made again goes to the pad, and when it has ended the queue does not go on but is let past its
 * gate, to the next one.
 *
 *	PARKED    at rest at gate i; launches `todo` .. `rest` in front of it are left
 *	AGAIN     they run in the pad
 *	PARKED    nothing is left in front of gate i
 *	ARMING    the stop word is being set
 *	STOPPING  `limit` is i: it goes past gate i, leaves out what comes, rests at i+1
 *	LOOKING   and so on
 *
 * While it is let past gate i the gate word may close again. If it has not gone past by then it
 * stands at gate i in STOPPING, with the stop word set, until the gate opens or it may pad again.
 *
 * All of it but the table of pads is under the XQueue's lock.
 */
#include "guard_pad.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/util.h"
#include "guard_internal.h"
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
 * at a time makes or changes a pad, for the agent; any thread may forget one. */
struct fm_cu_pad {
	_Atomic(CUcontext) ctx; /* NULL: unused */
	_Atomic unsigned k;     /* 0: it has no stream */
	_Atomic(CUstream) stream;
	_Atomic(struct fm_cu_guard *) user;
	_Atomic bool making; /* a thread makes or changes it, and has what is not atomic */
	CUgreenCtx green[SIZES];
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

/* One whose context has ended may still be at work for it. */
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

static enum fm_cu_pad_why make_green(const struct make *m)
{
	struct fm_cu_pad *p = m->pad;
	CUgreenCtx *green = &p->green[m->k / FM_CU_PAD_STEP - 1];
	unsigned all = 0;
	int rc;

	if (*green)
		return FM_CU_PAD_OK;
	if (!m->green || !m->cu->green_stream_create)
		return FM_CU_PAD_NO_GREEN;
	rc = m->green(m->base, m->k, green, &all);
	if (rc)
		*green = NULL;
	else
		atomic_store(&p->all, all);
	return !rc                 ? FM_CU_PAD_OK
	       : rc == -EOPNOTSUPP ? FM_CU_PAD_NO_GREEN
	       : rc == -ENOSPC     ? FM_CU_PAD_SIZE
				   : FM_CU_PAD_FAILED;
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
	p->refused = 0;
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

	drop_stream(m->cu, p);
	if (atomic_exchange(&p->stale, false))
		destroy(m->cu, p);
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

static enum fm_cu_pad_why change(struct fm_cu_queue *q, struct fm_cu_pad *p, unsigned k)
{
	struct fm_cu_turnstile *t = q->guard->turnstile;
	struct make *m;

	if (k && p->refused == k && !atomic_load(&p->stale))
		return p->because;
	if (fm_cu_is_stopped(t))
		return FM_CU_PAD_LATER;
	m = malloc(sizeof(*m));
	if (!m)
		return FM_CU_PAD_LATER;
	*m = (struct make){p, q->cu, q->base, t, q->pad_green, k};
	atomic_store(&p->making, true);
	if (!start_maker(m)) {
		atomic_store(&p->making, false);
		free(m);
	}
	return FM_CU_PAD_LATER;
}

static enum fm_cu_pad_why make_ready(struct fm_cu_queue *q, unsigned k)
{
	struct fm_cu_pad *p = find(q->base);
	bool stale = p && atomic_load(&p->stale);

	if (p && atomic_load(&p->making))
		return FM_CU_PAD_LATER;
	if (p && k && atomic_load(&p->spoilt) == k && !stale)
		return FM_CU_PAD_FAILED;
	if (p ? atomic_load(&p->k) == k && !(k && stale) : !k)
		return FM_CU_PAD_OK;
	if (!p)
		p = unused();
	if (!p)
		return FM_CU_PAD_FAILED;
	if (!atomic_load(&p->ctx)) {
		forget_greens(p);
		atomic_store(&p->stale, false);
		atomic_store(&p->ctx, q->base);
	}
	return change(q, p, k);
}

static void await(const struct fm_cu_pad *p)
{
	const struct timespec nap = {.tv_nsec = FM_CU_PAD_NAP};
	FM_NO_CANCEL;

	while (atomic_load(&p->making) && !fm_cu_turnstile_is_over())
		nanosleep(&nap, NULL);
}

void fm_cu_pads_end(const struct fm_cu_driver *cu, CUcontext ctx)
{
	struct fm_cu_pad *p = ctx ? find(ctx) : NULL;
	CUcontext old;
	int mode;

	if (!p || !cu)
		return;
	await(p);
	if (fm_cu_turnstile_is_over())
		return;
	mode = fm_cu_enter(cu);
	if (!cu->ctx_push(ctx)) {
		destroy(cu, p);
		cu->ctx_pop(&old);
	}
	fm_cu_leave(cu, mode);
	fm_cu_pads_forget(ctx);
}

bool fm_cu_pads_making(CUcontext ctx)
{
	const struct fm_cu_pad *p = ctx ? find(ctx) : NULL;

	return p && atomic_load(&p->making);
}

enum fm_cu_pad_why fm_cu_pad_ready(struct fm_cu_queue *q, unsigned k)
{
	const struct fm_cu_guard *g = q->guard;

	if (!g || g->place || atomic_load(&g->broken))
		return FM_CU_PAD_NO_GREEN;
	if (k && fm_cu_channels() < FM_CU_PAD_CHANNELS)
		return FM_CU_PAD_CHANNEL;
	if (k % FM_CU_PAD_STEP || k > FM_CU_PAD_MOST)
		return FM_CU_PAD_SIZE;
	if (k && g->unnumbered)
		return FM_CU_PAD_GATES;
	return make_ready(q, k);
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
	}
	atomic_store(&streams, 0);
}

/* --- gates that know their numbers --- */

bool fm_cu_guard_numbers(struct fm_cu_guard *g, bool wish)
{
	return !g->unnumbered && (atomic_load(&g->numbered) || (wish && !g->place));
}

FM_HOT bool fm_cu_guard_numbered(const struct fm_cu_guard *g)
{
	return atomic_load_explicit(&g->numbered, memory_order_relaxed);
}

union fm_cu_mem_op fm_cu_guard_arrives(const struct fm_cu_guard *g)
{
	return fm_cu_guard_op(FM_CU_OP_WRITE_VALUE_64,
		g->shared_at + offsetof(struct fm_cu_shared, at), atomic_load(&g->gates) + 1);
}

union fm_cu_mem_op fm_cu_guard_limit(const struct fm_cu_guard *g)
{
	union fm_cu_mem_op o = fm_cu_guard_op(FM_CU_OP_WAIT_VALUE_64,
		g->shared_at + offsetof(struct fm_cu_shared, limit), atomic_load(&g->gates) + 1);

	o.op.flags = FM_CU_WAIT_VALUE_GEQ;
	return o;
}

bool fm_cu_guard_refused(struct fm_cu_guard *g)
{
	if (atomic_load(&g->numbered))
		return false;
	g->unnumbered = true;
	return true;
}

static uint64_t bit(uint64_t gate)
{
	return UINT64_C(1) << gate % 64;
}

static _Atomic uint64_t *bits(struct fm_cu_guard *g, uint64_t gate)
{
	return &g->heavy[gate / 64 % FM_ARRAY_LEN(g->heavy)];
}

/* The bit of this gate itself may be set by now: fm_cu_guard_heavy(). */
void fm_cu_guard_counted(struct fm_cu_guard *g, bool numbered)
{
	uint64_t n = atomic_load(&g->gates) + 1;

	atomic_fetch_and(bits(g, n + 1), ~bit(n + 1));
	if (numbered && !atomic_load(&g->numbered))
		atomic_store(&g->numbered, n);
	atomic_store(&g->gates, n);
}

/* Each side first tells what it is about to do, and then looks what the other does. The agent may
 * put one gate before the caller has put what it is about to put. */
bool fm_cu_guard_heavy(struct fm_cu_guard *g)
{
	uint64_t n = atomic_load(&g->gates);

	if (!atomic_load_explicit(&g->numbered, memory_order_relaxed))
		return false;
	atomic_fetch_or(bits(g, n), bit(n));
	atomic_fetch_or(bits(g, n + 1), bit(n + 1));
	return n && atomic_load(&g->let) >= n;
}

/* --- padding --- */

int fm_cu_pad_prepare(void *hwq, unsigned k, const char **why)
{
	enum fm_cu_pad_why reason = fm_cu_pad_ready(hwq, k);
	struct fm_cu_queue *q = hwq;

	if (q->guard && (!k || reason != FM_CU_PAD_LATER))
		atomic_store(&q->guard->may_pad, k && !reason);
	*why = fm_cu_pad_whys[reason];
	return !reason ? 0 : reason == FM_CU_PAD_LATER ? -EAGAIN : -EOPNOTSUPP;
}

unsigned fm_cu_pad_all(void *hwq)
{
	const struct fm_cu_queue *q = hwq;

	return fm_cu_pad_of(q->base);
}

/* May the queue be let past the gate at which it rests? What is behind it, up to the next gate, are
 * launches that leave out their blocks, and copies. */
static bool may_pass(struct fm_cu_guard *g, uint64_t gate)
{
	uint64_t from = atomic_load(&g->numbered);

	if (g->cover || g->graph || !from || gate < from)
		return false;
	atomic_store(&g->let, gate);
	if (atomic_load(&g->gates) - gate < FM_CU_HEAVY - 2 &&
		!(atomic_load(bits(g, gate)) & bit(gate)))
		return true;
	atomic_store(&g->let, 0);
	return false;
}

static void note_stretch(struct fm_cu_guard *g)
{
	uint64_t took = fm_now() - g->put_at;

	g->stretch = g->stretch ? (3 * g->stretch + took) / 4 : took;
}

/* From PARKED: the next step in the pad. False: the queue stands there. */
static bool go_on(struct fm_cu_guard *g)
{
	if (g->pad_fails) {
		atomic_store(&g->pad->spoilt, atomic_load(&g->pad->k));
		return false;
	}
	if (g->todo <= g->rest) {
		g->put_at = fm_now();
		fm_cu_guard_again_all(g);
		return true;
	}
	if (g->put_at)
		note_stretch(g);
	g->put_at = 0;
	if (!may_pass(g, atomic_load(&g->shared->at)))
		return false;
	fm_cu_guard_pass(g);
	return true;
}

/* 0: it stands. */
static int end(struct fm_cu_queue *q)
{
	int rc = fm_cu_guard_stops(q, false);

	return rc == -EALREADY ? 0 : rc;
}

/* It stands, and takes the pad. */
static int take(struct fm_cu_guard *g, unsigned k)
{
	enum fm_cu_pad_why why = fm_cu_pad_take(g, k);

	return !why ? 0 : why == FM_CU_PAD_BUSY ? -EBUSY : -ESTALE;
}

int fm_cu_pad(void *hwq, unsigned k)
{
	struct fm_cu_queue *q = hwq;
	struct fm_cu_guard *g = q->guard;
	enum fm_cu_stage before;
	int rc;

	if (!g || atomic_load(&g->broken) || g->stage == FM_CU_RUNS)
		return -EALREADY;
	if (fm_cu_awaited(g->turnstile) || fm_cu_kept_out() ||
		(g->pad && atomic_load(&g->pad->stale)))
		return end(q);
	if (!g->pad && (g->stage == FM_CU_PARKED || atomic_load(&g->let)) && (rc = take(g, k)))
		return rc;
	if (!g->pad)
		return end(q);
	atomic_store(&g->wants_gate, false);
	fm_cu_stop_lets_in(g->turnstile);
	do {
		before = g->stage;
		if (before != FM_CU_PARKED)
			fm_cu_guard_step(g);
		else if (!go_on(g))
			return g->pad_fails ? end(q) : -EINPROGRESS;
	} while (g->pad && g->stage != before);
	return atomic_load(&g->broken) ? -EALREADY : -EINPROGRESS;
}
