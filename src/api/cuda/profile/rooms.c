/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of launches, with nothing beside them: on the whole device, and on parts of it, which are
 * green contexts as padding has them. Each launch runs once, in one of these. So a kernel's times
 * are those of several launches, with the same grid, block and shared memory.
 *
 *	the program's stream   ... what is in front | event            [wait]  what comes behind ...
 *	the part's stream                     [wait] ahead | start | the launch | end
 *
 * `ahead' is a kernel of ours that keeps the device busy until the host has queued what is behind
 * it. It ends by itself: nothing here waits on the device for the host, which may stand in a call
 * that waits for the device.
 *
 * A kernel whose blocks may wait for each other goes to a part only if all of them have room there
 * at once.
 */
#include "agent.h"
#include "api/cuda/core/partition.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "device/trial.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define CONTEXTS 16u
#define AHEAD    "fermata_trial"

enum { MULTIPROCESSOR_COUNT = 16 };                             /* CUdevice_attribute */
enum { SHARED_BYTES = 1, LOCAL_BYTES = 3, NUMBER_OF_REGS = 4 }; /* CUfunction_attribute */
enum { WITHOUT_TIMING = 2 };                                    /* CUevent_flags */

struct part {
	CUgreenCtx green;
	bool refused;
};
static struct context {
	CUcontext ctx;
	bool refused;
	CUdevice dev;
	unsigned multiprocessors;
	char device[63];
	CUfunction ahead;
	CUdeviceptr word;
	CUevent start, end, front, behind;
	uint64_t empty; /* between two events with nothing in between; 0: not measured yet */
	struct part part[FM_PROFILE_ROOMS];
	CUstream stream; /* of the part `at`, made anew for each: it needs a channel */
	unsigned at;     /* from 1 on; 0: there is none */
} contexts[CONTEXTS];

static struct timing {
	struct fm_profile_timing to;
	const struct fm_profile_driver *cu;
	struct context *c;
	struct fm_profile_function *k;
	CUstream stream; /* the program's */
	uint64_t began;
	struct fm_record_timed r;
} the; /* under `timing' */

static pthread_mutex_t timing = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(timing, PROFILE_TIME);

/* What has been launched and may still run; under `timing'. */
static struct {
	CUcontext ctx;
	CUstream stream;
} running[FM_PROFILE_STREAMS];
static unsigned next;

static _Atomic uint32_t why_not;

enum fm_rooms_why fm_profile_rooms_why(void)
{
	return atomic_load(&why_not);
}

static void nap(void)
{
	const struct timespec t = fm_timespec(FM_PROFILE_NAP);

	nanosleep(&t, NULL);
}

/* One thread at a time: nothing is launched beside what is timed. */
static bool take_turn(void)
{
	uint64_t until = fm_now() + FM_PROFILE_WAIT;

	while (pthread_mutex_trylock(&timing)) {
		if (fm_now() > until)
			return false;
		nap();
	}
	return true;
}

/* --- what else runs --- */

static void note_running(const struct fm_profile_driver *cu, CUstream stream)
{
	CUcontext ctx = NULL;

	if (cu->current(&ctx) || !ctx)
		return;
	for (unsigned i = 0; i < FM_PROFILE_STREAMS; i++)
		if (running[i].ctx == ctx && running[i].stream == stream)
			return;
	running[next % FM_PROFILE_STREAMS].ctx = ctx;
	running[next++ % FM_PROFILE_STREAMS].stream = stream;
}

static bool alone(const struct fm_profile_driver *cu, CUcontext ctx)
{
	uint64_t until = fm_now() + FM_PROFILE_ALONE;

	for (unsigned i = 0; i < FM_PROFILE_STREAMS; i++) {
		if (running[i].ctx != ctx)
			continue;
		while (cu->query(running[i].stream) == FM_CU_ERROR_NOT_READY) {
			if (fm_now() > until)
				return false;
			nap();
		}
		running[i].ctx = NULL;
	}
	return true;
}

void fm_profile_time_graph(CUstream stream)
{
	const struct fm_profile_driver *cu;

	if (!fm_tap_wanted() || fm_tap_inside || !fm_profile_wish()->times ||
		!(cu = fm_profile_driver()) || !take_turn())
		return;
	fm_tap_inside++;
	note_running(cu, stream);
	fm_tap_inside--;
	pthread_mutex_unlock(&timing);
}

void fm_profile_time_stream_ends(CUstream stream)
{
	if (!fm_tap_wanted() || fm_tap_inside || !fm_profile_wish()->times || !take_turn())
		return;
	for (unsigned i = 0; i < FM_PROFILE_STREAMS; i++)
		if (running[i].stream == stream)
			running[i].ctx = NULL;
	pthread_mutex_unlock(&timing);
}

/* --- ends of contexts --- */

static struct fm_cu_green green;

static void drop_stream(const struct fm_profile_driver *cu, struct context *c)
{
	if (c->at)
		cu->stream_destroy(c->stream);
	c->at = 0;
}

/* A driver does not reset a primary context that has green contexts, and one that is released stays
 * there for them. */
static void drop_context(const struct fm_profile_driver *cu, struct context *c)
{
	drop_stream(cu, c);
	for (unsigned i = 0; i < FM_PROFILE_ROOMS; i++)
		if (c->part[i].green)
			green.destroy(c->part[i].green);
	for (unsigned i = 0; i < FM_PROFILE_STREAMS; i++)
		if (running[i].ctx == c->ctx)
			running[i].ctx = NULL;
	*c = (struct context){0};
}

void fm_profile_time_context_ends(CUcontext ctx, const CUdevice *dev)
{
	const struct fm_profile_driver *cu = fm_profile_driver();
	int mode;

	if (!cu || !take_turn())
		return;
	mode = fm_profile_enter(cu);
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (contexts[i].ctx && (dev ? contexts[i].dev == *dev : contexts[i].ctx == ctx))
			drop_context(cu, &contexts[i]);
	fm_profile_leave(cu, mode);
	pthread_mutex_unlock(&timing);
}

/* --- a context --- */

static bool has_all(const struct fm_profile_driver *cu)
{
	return cu->device && cu->attribute && cu->func_attribute && cu->occupancy &&
	       cu->event_create && cu->event_record && cu->event_query && cu->event_elapsed &&
	       cu->stream_wait && cu->stream_destroy && cu->device_name;
}

static bool load_ahead(const struct fm_profile_driver *cu, struct context *c)
{
	CUmodule module;

	return !cu->module_load(&module, probe_trial_image) &&
	       !cu->module_function(&c->ahead, module, AHEAD) && !cu->mem_alloc(&c->word, 256);
}

static bool open_context(const struct fm_profile_driver *cu, struct context *c)
{
	int n = 0;

	if (!has_all(cu) || cu->device(&c->dev) ||
		cu->attribute(&n, MULTIPROCESSOR_COUNT, c->dev) || n <= 0 ||
		cu->device_name(c->device, sizeof(c->device), c->dev))
		return false;
	c->device[sizeof(c->device) - 1] = 0;
	c->multiprocessors = (unsigned)n;
	return !cu->event_create(&c->start, 0) && !cu->event_create(&c->end, 0) &&
	       !cu->event_create(&c->front, WITHOUT_TIMING) &&
	       !cu->event_create(&c->behind, WITHOUT_TIMING) && load_ahead(cu, c);
}

static struct context *context(const struct fm_profile_driver *cu)
{
	CUcontext ctx;

	if (cu->current(&ctx) || !ctx)
		return NULL;
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (contexts[i].ctx == ctx)
			return contexts[i].refused ? NULL : &contexts[i];
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct context *c = &contexts[i];

		if (c->ctx)
			continue;
		c->ctx = ctx;
		c->refused = !open_context(cu, c);
		return c->refused ? NULL : c;
	}
	return NULL;
}

/* --- a part of the device --- */

static bool is_primary(const struct fm_profile_driver *cu, const struct context *c)
{
	CUcontext primary;

	if (!cu->primary_retain || !cu->primary_release || cu->primary_retain(&primary, c->dev))
		return false;
	cu->primary_release(c->dev);
	return primary == c->ctx;
}

static enum fm_rooms_why make_green(
	const struct fm_profile_driver *cu, struct context *c, struct part *p, unsigned k)
{
	static int there = -1;
	unsigned all;
	int rc;

	if (there < 0)
		there = fm_cu_green_load(&green, fm_look_up_own_quietly);
	if (!there)
		return FM_ROOMS_NO_GREEN;
	if (!is_primary(cu, c))
		return FM_ROOMS_CONTEXT;
	rc = fm_cu_partition_part(&p->green, &green, c->dev, NULL, k, &all);
	return !rc                 ? FM_ROOMS_OK
	       : rc == -EOPNOTSUPP ? FM_ROOMS_NO_GREEN
	       : rc == -ENOSPC     ? FM_ROOMS_SIZE
				   : FM_ROOMS_FAILED;
}

static bool make_stream(const struct fm_profile_driver *cu, struct context *c, unsigned i)
{
	fm_cu_result (*create)(CUstream *, CUgreenCtx, unsigned, int) = (fm_cu_result(*)(CUstream *,
		CUgreenCtx, unsigned, int))fm_look_up_own_quietly("cuGreenCtxStreamCreate");

	drop_stream(cu, c);
	if (!create || create(&c->stream, c->part[i].green, FM_CU_STREAM_NON_BLOCKING, 0))
		return false;
	c->at = i + 1;
	return true;
}

/* False: there is no such part. */
static bool go_to_part(const struct fm_profile_driver *cu, struct context *c, unsigned i)
{
	unsigned k = fm_profile_wish()->room[i];
	struct part *p = &c->part[i];
	enum fm_rooms_why why = FM_ROOMS_OK;

	if (!p->refused && !p->green)
		why = make_green(cu, c, p, k);
	if (!p->refused && !why && c->at != i + 1 && !make_stream(cu, c, i))
		why = FM_ROOMS_FAILED;
	if (why) {
		atomic_store(&why_not, why);
		p->refused = true;
	}
	return !p->refused;
}

/* --- a launch --- */

static uint64_t mixed(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* How often it was seen so far; NULL: it has been launched in too many ways. */
static unsigned *count_of(struct fm_profile_times *t, const struct fm_profile_launching *l)
{
	uint64_t key = mixed(1, l->shared);
	unsigned i = 0;

	for (unsigned n = 0; n < 3; n++)
		key = mixed(key, (uint64_t)l->grid[n] << 32 | l->block[n]);
	while (i < t->n && t->with[i].key != key)
		i++;
	if (i == FM_PROFILE_KEYS)
		return NULL;
	if (i == t->n) {
		t->n++;
		t->with[i].key = key;
		t->with[i].n = 0;
	}
	return &t->with[i].n;
}

static unsigned attribute(const struct timing *t, int which)
{
	int n = 0;

	return t->cu->func_attribute(&n, which, t->k->function) || n < 0 ? 0 : (unsigned)n;
}

static void describe(struct timing *t, const struct fm_profile_launching *l)
{
	int threads = (int)(l->block[0] * l->block[1] * l->block[2]), n = 0;
	struct fm_record_timed *r = &t->r;

	*r = (struct fm_record_timed){.shared = l->shared,
		.fixed = attribute(t, SHARED_BYTES),
		.registers = attribute(t, NUMBER_OF_REGS),
		.local = attribute(t, LOCAL_BYTES),
		.multiprocessors = t->c->multiprocessors,
		.on = t->c->multiprocessors,
		.name = (uint32_t)strlen(t->k->name)};
	memcpy(r->image, t->k->image, sizeof(r->image));
	memcpy(r->device, t->c->device, sizeof(r->device));
	memcpy(r->grid, l->grid, sizeof(r->grid));
	memcpy(r->block, l->block, sizeof(r->block));
	if (!t->cu->occupancy(&n, t->k->function, threads, l->shared) && n > 0)
		r->per_multiprocessor = (uint32_t)n;
}

/* All blocks at once, if that matters. */
static bool has_room(const struct timing *t, const struct fm_profile_launching *l, unsigned k)
{
	uint64_t at_once = (uint64_t)t->r.per_multiprocessor * k;
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1];

	if (!l->cooperative && !t->k->together)
		return true;
	return blocks <= at_once && blocks * l->grid[2] <= at_once;
}

/* The place of the n-th launch that is timed: the whole device, then each part, and so on. False:
 * that part cannot be. */
static bool choose(struct timing *t, const struct fm_profile_launching *l, unsigned n)
{
	const struct fm_profile_wish *w = fm_profile_wish();
	unsigned at = n % (1 + w->n_rooms);

	t->to = (struct fm_profile_timing){.stream = l->stream};
	if (!at)
		return true;
	if (w->room[at - 1] >= t->c->multiprocessors || !has_room(t, l, w->room[at - 1]) ||
		!go_to_part(t->cu, t->c, at - 1))
		return false;
	t->r.on = w->room[at - 1];
	t->to = (struct fm_profile_timing){.stream = t->c->stream, .moved = true};
	return true;
}

static bool keep_ahead(const struct timing *t, uint64_t ns)
{
	void *params[] = {(void *)&t->c->word, &ns};

	return !t->cu->launch(t->c->ahead, 1, 1, 1, 1, 1, 1, 0, t->to.stream, params, NULL);
}

static bool await_event(const struct fm_profile_driver *cu, CUevent e)
{
	uint64_t until = fm_now() + FM_PROFILE_WAIT;
	fm_cu_result rc;

	while ((rc = cu->event_query(e)) == FM_CU_ERROR_NOT_READY && fm_now() < until)
		nap();
	return !rc;
}

static uint64_t between(const struct timing *t)
{
	float ms = 0;

	if (t->cu->event_elapsed(&ms, t->c->start, t->c->end) || !(ms > 0))
		return 0;
	return (uint64_t)((double)ms * 1e6);
}

/* What is measured of nothing is taken off. */
static void measure_empty(struct timing *t)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0;
		i < 5 && keep_ahead(t, FM_PROFILE_AHEAD) &&
		!t->cu->event_record(t->c->start, t->to.stream) &&
		!t->cu->event_record(t->c->end, t->to.stream) && await_event(t->cu, t->c->end);
		i++)
		least = FM_MIN(least, between(t));
	t->c->empty = least == UINT64_MAX ? 1 : FM_MAX(least, 1u);
}

static bool begin(struct timing *t)
{
	const struct fm_profile_driver *cu = t->cu;

	if (t->to.moved && (cu->event_record(t->c->front, t->stream) ||
				   cu->stream_wait(t->to.stream, t->c->front, 0)))
		return false;
	if (!t->c->empty)
		measure_empty(t);
	return keep_ahead(t, FM_PROFILE_AHEAD) && !cu->event_record(t->c->start, t->to.stream);
}

/* FM_UNSEENS: it is timed. */
static enum fm_unseen look_at(struct timing *t, const struct fm_profile_launching *l)
{
	unsigned most = 1 + FM_PROFILE_TIMES * (1 + fm_profile_wish()->n_rooms), *n;

	t->c = context(t->cu);
	if (!t->c)
		return FM_UNSEEN_FAILED;
	t->k = fm_profile_function(l->f);
	if (!t->k || !t->k->known)
		return FM_UNSEEN_UNKNOWN;
	if (t->k->times->slow)
		return FM_UNSEEN_SLOW;
	if (t->k->handle != (uintptr_t)t->k->function &&
		t->cu->kernel_function(&t->k->function, (CUkernel)l->f))
		return FM_UNSEEN_UNKNOWN;
	n = count_of(t->k->times, l);
	if (!n || *n >= most)
		return FM_UNSEEN_OFTEN;
	if (!*n) {
		++*n;
		return FM_UNSEEN_FIRST;
	}
	describe(t, l);
	while (*n < most && !choose(t, l, *n - 1))
		++*n;
	if (*n == most)
		return FM_UNSEEN_OFTEN;
	t->stream = l->stream;
	if (!alone(t->cu, t->c->ctx))
		return FM_UNSEEN_BUSY;
	++*n;
	return begin(t) ? FM_UNSEENS : FM_UNSEEN_FAILED;
}

struct fm_profile_timing *fm_profile_time_before(const struct fm_profile_launching *l)
{
	const struct fm_profile_driver *cu = fm_profile_driver();
	enum fm_unseen why;
	int mode, status;

	if (!cu)
		return NULL;
	fm_profile_count_launch();
	if (!take_turn()) {
		fm_profile_unseen(FM_UNSEEN_BUSY);
		return NULL;
	}
	mode = fm_profile_enter(cu);
	the = (struct timing){.cu = cu, .began = fm_now()};
	why = cu->capturing(l->stream, &status) || status != FM_CU_CAPTURE_NONE ? FM_UNSEEN_GRAPH
										: look_at(&the, l);
	if (why != FM_UNSEENS && why != FM_UNSEEN_GRAPH)
		note_running(cu, l->stream);
	fm_profile_leave(cu, mode);
	if (why == FM_UNSEENS)
		return &the.to;
	fm_profile_unseen(why);
	pthread_mutex_unlock(&timing);
	return NULL;
}

void fm_profile_time_stays(struct fm_profile_timing *to)
{
	to->stream = the.stream;
	the.c->part[the.c->at - 1].refused = true;
	atomic_store(&why_not, FM_ROOMS_FAILED);
}

/* What the program has behind it in its stream comes behind it. */
static bool join(const struct timing *t)
{
	return !t->to.moved || (!t->cu->event_record(t->c->behind, t->to.stream) &&
				       !t->cu->stream_wait(t->stream, t->c->behind, 0));
}

static void finish(struct timing *t)
{
	bool joined = join(t), ended;
	uint64_t ns;

	ended = !t->cu->event_record(t->c->end, t->to.stream) && await_event(t->cu, t->c->end);
	/* A launch that has ended is in front of all that comes. */
	if (!ended) {
		t->k->times->slow = true;
		t->c->refused = true;
		fm_profile_unseen(FM_UNSEEN_SLOW);
		return;
	}
	ns = between(t);
	t->r.ns = ns > t->c->empty ? ns - t->c->empty : 0;
	const struct iovec part[] = {{&t->r, sizeof(t->r)}, {t->k->name, t->r.name}};
	if (!joined || !t->r.ns)
		fm_profile_unseen(FM_UNSEEN_FAILED);
	else if (fm_profile_put(FM_RECORD_TIMED, part, 2))
		fm_profile_count_seen(fm_now() - t->began);
	else
		fm_profile_unseen(FM_UNSEEN_FULL);
}

void fm_profile_time_after(struct fm_profile_timing *to, fm_cu_result rc)
{
	int mode;

	if (!to)
		return;
	mode = fm_profile_enter(the.cu);
	if (rc)
		fm_profile_unseen(FM_UNSEEN_FAILED);
	else if (to->moved && to->stream == the.stream) {
		fm_profile_unseen(FM_UNSEEN_FAILED);
		note_running(the.cu, the.stream);
	} else
		finish(&the);
	fm_profile_leave(the.cu, mode);
	pthread_mutex_unlock(&timing);
}
