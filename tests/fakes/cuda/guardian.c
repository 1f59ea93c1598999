/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches executed block by block. In front of each block of a kernel that was rewritten stands
 * the guardian, with the same effect on the same words, in the same order, as the one that real
 * devices run (src/device/guardian.ptx).
 */
#include "image.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A launch that is executed: by its stream's thread, which helpers may join. */
struct fk_run {
	struct fk_run *more;
	const struct fk_launch *launch;
	CUstream stream;
	_Atomic uint64_t next; /* block to be begun */
	uint64_t total;
	_Atomic bool left_out; /* a block, at least */
	unsigned helpers;      /* with the pool's lock */
	/* The guardian's parameters; stop is NULL if there are none, or all goes. */
	_Atomic uint32_t *stop;
	unsigned char *block;
	uint64_t number;
	unsigned mode;
};

/* --- the guardian --- */

static _Atomic uint64_t *word64(const struct fk_run *r, unsigned at)
{
	return (_Atomic uint64_t *)(void *)(r->block + at);
}

static void count_out(const struct fk_run *r)
{
	atomic_fetch_add((_Atomic uint32_t *)(void *)(r->block + 4), 1);
}

/* The first launch to leave out a block leaves its number. Was it, or is it, this one? Others leave
 * nothing. */
static bool is_first(const struct fk_run *r)
{
	uint64_t first = atomic_load(word64(r, 8));

	return (!first && atomic_compare_exchange_strong(word64(r, 8), &first, r->number)) ||
	       first == r->number;
}

/* Modes 0, 1 and 3: a block decides for itself. */
static bool leaves_block(const struct fk_run *r, uint64_t b, uint32_t stop)
{
	_Atomic uint32_t *map = (_Atomic uint32_t *)(void *)(r->block + 64 + b / 32 * 4);
	uint32_t bit = (uint32_t)1 << (b & 31);
	uint64_t from = r->mode == 3 ? atomic_load(word64(r, 24)) : 0;

	if (r->mode == 3 && r->number < from)
		return true; /* all of it ran before */
	if (r->mode == 1 || (from && r->number == from)) {
		if (!(atomic_load(map) & bit))
			return true; /* it ran before */
		if (!stop) {
			atomic_fetch_and(map, ~bit);
			return false;
		}
	} else if (!stop) {
		return false;
	}
	if (is_first(r)) {
		atomic_fetch_or(map, bit);
		count_out(r);
	}
	return true;
}

/* Mode 2: the first to look decides for the launch. */
static bool leaves_grid(const struct fk_run *r, uint32_t stop)
{
	uint64_t decided = atomic_load(word64(r, 16)), mine = r->number << 2 | (stop ? 2 : 1);

	while (decided >> 2 != r->number)
		if (atomic_compare_exchange_strong(word64(r, 16), &decided, mine))
			decided = mine;
	if (!(decided & 2))
		return false;
	if (is_first(r))
		count_out(r);
	return true;
}

static bool leaves(const struct fk_run *r, uint64_t b)
{
	uint32_t stop = r->stop ? atomic_load(r->stop) : 0;

	if (!r->stop || !(r->mode | stop))
		return false;
	return r->mode == 2 ? leaves_grid(r, stop) : leaves_block(r, b, stop);
}

static uint64_t guard_param(const struct fk_launch *l, unsigned i)
{
	const struct fk_entry *e = l->entry;
	uint64_t v = 0;

	if (e->guarded)
		memcpy(&v, l->params + e->param[e->n_params - FK_GUARD_PARAMS + i].at, sizeof(v));
	return v;
}

bool fk_launch_guarded(const struct fk_launch *l)
{
	return guard_param(l, 0);
}

bool fk_launch_in_row(const struct fk_launch *l)
{
	return guard_param(l, 0) && (guard_param(l, 2) & 3) == 3;
}

/* --- what must not run ahead of blocks that were left out --- */

static bool has_left_out(const unsigned char *block)
{
	return block && fk_within(block, 24) && fk_place(block) == FK_DEVICE &&
	       atomic_load((_Atomic uint64_t *)(uintptr_t)(block + 8));
}

/* Whose launch it was that left out blocks last: a block serves others later. Who resumes launches
 * does so in streams of the highest priority, which do not count. */
static struct leaver {
	struct leaver *next;
	const unsigned char *block;
	CUstream stream;
} * leavers;

static struct leaver *leaver_of(const unsigned char *block)
{
	struct leaver *l = leavers;

	while (l && l->block != block)
		l = l->next;
	return l;
}

static void note_leaver(const unsigned char *block, CUstream s)
{
	struct leaver *l;

	if (!s || s->priority == FK_PRIORITY_GREATEST)
		return;
	pthread_mutex_lock(&fk.lock);
	l = leaver_of(block);
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			abort();
		l->block = block;
		l->next = leavers;
		leavers = l;
	}
	l->stream = s;
	pthread_mutex_unlock(&fk.lock);
}

/* Has a launch in front of what comes next in the stream left out blocks? */
static bool is_behind(CUstream s)
{
	const struct leaver *l = s->guard ? leaver_of(s->guard) : NULL;

	return l && l->stream == s && has_left_out(s->guard);
}

/* Who resumes launches looks at the control block, by copies and operations on words, and may
 * record events of its own. */
static bool of_the_guard(const unsigned char *block, const struct fk_work *w)
{
	uintptr_t at = (uintptr_t)block, src = (uintptr_t)w->copy.src, dst = (uintptr_t)w->copy.dst;

	if (w->what == FK_WORDS || w->what == FK_RECORD)
		return true;
	return w->what == FK_COPY && ((src >= at && src < at + 64) || (dst >= at && dst < at + 64));
}

static unsigned char *block_of(const struct fk_launch *l)
{
	return (unsigned char *)(uintptr_t)guard_param(l, 1);
}

static void ahead(const struct fk_work *w)
{
	const struct fk_launch *l = fk_work_launch(w);

	fk_die("%s runs ahead of blocks that a launch in front of it has left out",
		l                      ? l->entry->name
		: w->what == FK_COPY   ? "a copy"
		: w->what == FK_FILL   ? "a fill"
		: w->what == FK_HOST   ? "a host function"
		: w->what == FK_FREE   ? "memory that is freed"
		: w->what == FK_WORDS  ? "an operation on words"
		: w->what == FK_RECORD ? "an event"
				       : "a command");
}

/* A launch with another control block does not know of what was left out in a graph. */
static void check_other(CUstream s, const struct fk_launch *l)
{
	if (s->guard_of_graph && s->guard != block_of(l) && is_behind(s))
		fk_die("%s runs ahead of blocks that a graph in front of it has left out",
			l->entry->name);
}

void fk_guard_check(CUstream s, const struct fk_work *w)
{
	const struct fk_launch *l = fk_work_launch(w);

	if (l && fk_launch_guarded(l)) {
		if (fk_launch_in_row(l))
			fk_die("%s, of a row of launches, is launched outside of a graph",
				l->entry->name);
		check_other(s, l);
		s->guard = block_of(l);
		s->guard_of_graph = false;
		return;
	}
	if (w->run && is_behind(s) && !of_the_guard(s->guard, w))
		ahead(w);
}

/* Its kernels have the same numbers each time: what one launch has left out has to be made good
 * before the next begins. */
void fk_guard_check_graph(const struct fk_plan *p)
{
	const struct fk_launch *l;
	const struct fk_work *w;

	pthread_mutex_lock(&fk.lock);
	for (size_t i = 0; (w = fk_plan_next(p, &i));) {
		l = fk_work_launch(w);
		if (l && fk_launch_guarded(l) && has_left_out(block_of(l)))
			fk_die("a graph is launched again ahead of blocks that it has left out");
	}
	pthread_mutex_unlock(&fk.lock);
}

/* Operations on words stand in graphs as gates: several at a time, that wait and say so. */
void fk_guard_check_node(const struct fk_work *w)
{
	const struct fk_launch *l = fk_work_launch(w);
	CUstream s = fk_worker;
	bool gate = w->what == FK_WORDS && w->memop.n > 2;

	if (fk_graph_of(w))
		return; /* its own nodes come */
	pthread_mutex_lock(&fk.lock);
	if (l && fk_launch_guarded(l)) {
		check_other(s, l);
		s->guard = block_of(l);
		s->guard_of_graph = true;
	} else if (!gate && (w->run || fk_node_records(w)) && is_behind(s)) {
		ahead(w);
	}
	pthread_mutex_unlock(&fk.lock);
}

/* --- loops: what a thread does that is left in one, and goes on --- */

#define SAVE_VALUES 2097152 /* of an area, behind the state of all threads */

struct save {
	uint32_t *state, *value, *round; /* of the block's threads */
	_Atomic uint64_t *left;          /* blocks, in all */
};

/* False: it cannot be left in a loop. */
static bool save_of(const struct fk_block *b, struct save *s)
{
	const struct fk_run *r = b->run;
	uint64_t area, bytes, threads = b->total * b->threads, first = b->number * b->threads;

	if (!r->stop || !b->launch->entry->polls || r->mode == 2)
		return false;
	area = atomic_load(word64(r, 32));
	bytes = atomic_load(word64(r, 40));
	if (!area || threads > SAVE_VALUES / 4 || 8 * threads > bytes)
		return false;
	s->state = (uint32_t *)(uintptr_t)area + first;
	s->value = (uint32_t *)(uintptr_t)(area + SAVE_VALUES) + first;
	s->round = s->value + threads;
	s->left = word64(r, 48);
	return true;
}

uint32_t fk_loop_begin(const struct fk_block *b, uint32_t *v)
{
	struct save s;

	if (!save_of(b, &s) || b->run->mode != 1 || !*s.state)
		return 0;
	memcpy(v, s.value, b->threads * sizeof(*v));
	memset(s.state, 0, b->threads * sizeof(*s.state));
	return *s.round;
}

/* For who tells this from blocks that had not begun: a byte for each block. */
static void note_left(void)
{
	const char *path = fk_env("FAKE_CUDA_LEFT");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

	if (fd < 0)
		return;
	if (write(fd, "!", 1) != 1)
		fk_die("%s: %s", path, strerror(errno));
	close(fd);
}

bool fk_loop_leaves(const struct fk_block *b, uint32_t round, const uint32_t *v)
{
	struct fk_run *r = b->run;
	_Atomic uint32_t *map;
	struct save s;

	if (!fk_block_stopped(b) || !save_of(b, &s) || !is_first(r))
		return false;
	note_left();
	memcpy(s.value, v, b->threads * sizeof(*v));
	for (unsigned i = 0; i < b->threads; i++) {
		s.state[i] = 1;
		s.round[i] = round;
	}
	map = (_Atomic uint32_t *)(void *)(r->block + 64 + b->number / 32 * 4);
	atomic_fetch_or(map, (uint32_t)1 << (b->number & 31));
	count_out(r);
	atomic_fetch_add(s.left, 1);
	r->left_out = true;
	return true;
}

#define MAY_BE_KILLED (UINT64_C(1) << 61) /* of a launch's number */

bool fk_kill_leaves(const struct fk_block *b)
{
	struct fk_run *r = b->run;
	_Atomic uint32_t *map;

	if (!b->launch->entry->kills || r->mode == 2 || !(r->number & MAY_BE_KILLED) ||
		!fk_block_stopped(b) || !is_first(r))
		return false;
	note_left();
	map = (_Atomic uint32_t *)(void *)(r->block + 64 + b->number / 32 * 4);
	atomic_fetch_or(map, (uint32_t)1 << (b->number & 31));
	count_out(r);
	atomic_fetch_add(word64(r, 48), 1);
	r->left_out = true;
	return true;
}

/* --- blocks --- */

static void linger(void)
{
	static _Atomic int us = -1;
	const char *given;

	if (us < 0) {
		given = fk_env("FAKE_CUDA_BLOCK_US");
		us = given ? atoi(given) : 0;
	}
	if (us > 0)
		usleep((useconds_t)us);
}

static void run_code(void *block)
{
	struct fk_block *b = block;

	b->launch->entry->kernel->run(b);
}

/* The guardian asks before each, the kernel's own code does the rest. */
static void run_block(struct fk_run *r, uint64_t number)
{
	const struct fk_launch *l = r->launch;
	struct fk_block b = {.launch = l,
		.params = l->params,
		.x = (unsigned)(number % l->grid[0]),
		.n = l->grid[0],
		.threads = l->block[0] * l->block[1] * l->block[2],
		.number = number,
		.total = r->total,
		.run = r};

	if (fk.lost)
		return;
	if (leaves(r, number)) {
		r->left_out = true;
		return;
	}
	fk_catch(run_code, &b);
	linger();
}

bool fk_block_pause(const struct fk_block *b)
{
	const struct fk_launch *l = b->launch;

	if (l->entry->kernel->together && b->run->left_out)
		fk_die("some blocks of %s were left out, and others wait for them", l->entry->name);
	usleep(20);
	return !fk.lost;
}

unsigned fk_block_sm(const struct fk_block *b)
{
	const struct CUgreenCtx_st *green = b->run->stream->ctx->green;
	static _Atomic unsigned turn;
	unsigned n = atomic_fetch_add(&turn, 1);

	return green ? green->first + n % green->sms : n % FK_SMS;
}

bool fk_block_stopped(const struct fk_block *b)
{
	return b->run->stop && atomic_load(b->run->stop);
}

static void run_blocks(struct fk_run *r)
{
	for (uint64_t n; (n = atomic_fetch_add(&r->next, 1)) < r->total;)
		run_block(r, n);
}

/* --- several blocks at once: on the stream's thread, and two that help whoever has blocks --- */

#define HELPERS 2

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more, done;
	pthread_once_t once;
	struct fk_run *runs;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
	PTHREAD_ONCE_INIT, NULL};

static struct fk_run *runs_with_blocks(void)
{
	struct fk_run *r = pool.runs;

	while (r && atomic_load(&r->next) >= r->total)
		r = r->more;
	return r;
}

static void *helper(void *unused)
{
	struct fk_run *r;

	pthread_mutex_lock(&pool.lock);
	for (;;) {
		while (!(r = runs_with_blocks()))
			pthread_cond_wait(&pool.more, &pool.lock);
		r->helpers++;
		pthread_mutex_unlock(&pool.lock);
		run_blocks(r);
		pthread_mutex_lock(&pool.lock);
		r->helpers--;
		pthread_cond_broadcast(&pool.done);
	}
	return unused;
}

static void start_helpers(void)
{
	pthread_t t;

	for (unsigned i = 0; i < HELPERS; i++)
		if (!pthread_create(&t, NULL, helper, NULL))
			pthread_detach(t);
}

static void run_helped(struct fk_run *r)
{
	struct fk_run **at = &pool.runs;

	pthread_once(&pool.once, start_helpers);
	pthread_mutex_lock(&pool.lock);
	r->more = pool.runs;
	pool.runs = r;
	pthread_cond_broadcast(&pool.more);
	pthread_mutex_unlock(&pool.lock);
	run_blocks(r);
	pthread_mutex_lock(&pool.lock);
	while (*at != r)
		at = &(*at)->more;
	*at = r->more;
	while (r->helpers)
		pthread_cond_wait(&pool.done, &pool.lock);
	pthread_mutex_unlock(&pool.lock);
}

/* --- all blocks at once, each on a thread of its own --- */

struct resident {
	struct fk_run *run;
	uint64_t number;
	pthread_t thread;
};

static void *run_resident(void *arg)
{
	struct resident *r = arg;

	run_block(r->run, r->number);
	return NULL;
}

static void run_together(struct fk_run *r)
{
	struct resident *b = calloc(r->total, sizeof(*b));
	pthread_attr_t small;

	if (!b)
		fk_die("no memory for %llu blocks", (unsigned long long)r->total);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256 * 1024);
	for (uint64_t i = 0; i < r->total; i++) {
		b[i].run = r;
		b[i].number = i;
		if (pthread_create(&b[i].thread, &small, run_resident, &b[i]))
			fk_die("no thread for a block");
	}
	for (uint64_t i = 0; i < r->total; i++)
		pthread_join(b[i].thread, NULL);
	pthread_attr_destroy(&small);
	free(b);
}

/* What the guardian touches must be there still when the launch begins; else the device is lost. */
static bool words_are_there(const struct fk_run *r)
{
	bool there;

	if (!r->stop)
		return true;
	pthread_mutex_lock(&fk.lock);
	there = fk_place(r->block) == FK_DEVICE &&
		fk_place((void *)(uintptr_t)r->stop) == FK_DEVICE;
	if (!there)
		fk_lose(CU_ILLEGAL_ADDRESS);
	pthread_mutex_unlock(&fk.lock);
	return there;
}

void fk_launch_run(const struct fk_launch *l)
{
	uint64_t launch = guard_param(l, 2);
	struct fk_run r = {.launch = l,
		.stream = fk_worker,
		.total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2],
		.stop = (_Atomic uint32_t *)(uintptr_t)guard_param(l, 0),
		.block = (unsigned char *)(uintptr_t)guard_param(l, 1),
		.number = launch >> 2,
		.mode = (unsigned)(launch & 3)};

	if (!words_are_there(&r))
		return;
	if (l->entry->kernel->together)
		run_together(&r);
	else if (r.stop && r.total > 1)
		run_helped(&r);
	else
		run_blocks(&r);
	if (r.left_out && r.mode != 3) /* of which the chain of graphs knows by itself */
		note_leaver(r.block, fk_worker);
}
