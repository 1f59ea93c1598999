/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams are made of on a device, as measured on an H200: a context has few channels, which
 * its streams share, whatever their priority, those of its green contexts among them; copies have
 * channels of their own, half as many for each direction. A stream is given a channel when
 * something is put into it while it has nothing pending: one that no other has, or else one in
 * turn; and it keeps that as long as it has something pending.
 *
 * A channel is strictly first in, first out. A command waits at its head for what it has to come
 * after, and keeps all behind it waiting, also those of other streams; it leaves the head when it
 * begins, or, if it is a copy or a graph, when it ends. So a wait for a word alone keeps nobody
 * waiting, and what stands behind it in its stream does: a kernel all that is in the channel, a
 * copy the copies.
 *
 * A channel has room for so many commands. Who launches into a full one waits in the driver, and
 * has the context's lock meanwhile, which nearly all calls take. Others wait for the device so as
 * well; and so does, or else keeps back all that is put into the context later until it has run,
 * the first launch of a function. On a device few do: the first ones with more local memory than
 * any before, with calls of the system, of functions that are loaded when they are needed. Here
 * each does the one or the other.
 */
#include "image.h"
#include <stdlib.h>
#include <string.h>

#define MOST 32 /* channels of a kind */
#define ROOM 1024

struct fk_channel {
	uint64_t put, passed; /* in it so far, and past its head */
	unsigned under_way;
	unsigned streams; /* that have it */
	pthread_cond_t moved;
};

struct pool {
	struct fk_channel channel[MOST];
	unsigned n, next;
};

struct fk_hw {
	struct pool pool[FK_POOLS];
	bool narrow; /* else streams have a queue each, and the lock is all there is */
	unsigned room;
	struct fk_point first; /* nothing that was put later runs before it has passed */
	const void *holder;    /* the thread that waits with the lock; or NULL */
	pthread_cond_t free;
};

static unsigned number(const char *name, unsigned otherwise, unsigned most)
{
	const char *v = fk_env(name);
	int n = v ? atoi(v) : 0;

	return n <= 0 ? otherwise : (unsigned)n > most ? most : (unsigned)n;
}

static void each(struct fk_hw *hw, void (*call)(struct fk_channel *c))
{
	for (unsigned i = 0; i < FK_POOLS * MOST; i++)
		call(&hw->pool[i / MOST].channel[i % MOST]);
}

static void init(struct fk_channel *c)
{
	pthread_cond_init(&c->moved, NULL);
}

static struct fk_hw *new_hw(void)
{
	unsigned n = number("CUDA_DEVICE_MAX_CONNECTIONS", 8, MOST);
	struct fk_hw *hw = calloc(1, sizeof(*hw));

	if (!hw)
		fk_die("no memory for channels");
	for (unsigned i = 0; i < FK_POOLS; i++)
		hw->pool[i].n = i == FK_COMPUTE ? n : (n + 1) / 2;
	hw->narrow = fk_env("FAKE_CUDA_NARROW");
	hw->room = number("FAKE_CUDA_ROOM", ROOM, ROOM);
	each(hw, init);
	pthread_cond_init(&hw->free, NULL);
	return hw;
}

/* They last as long as the context's name. */
void fk_hw_open(CUcontext ctx)
{
	if (!fk_env("FAKE_CUDA_NARROW") && !fk_env("FAKE_CUDA_LOCK"))
		return;
	if (ctx->green)
		ctx->hw = fk.primary[ctx->dev].hw;
	else if (!ctx->hw)
		ctx->hw = new_hw();
}

static void wake(struct fk_channel *c)
{
	pthread_cond_broadcast(&c->moved);
}

void fk_hw_wake_all(void)
{
	for (CUcontext c = fk.contexts; c; c = c->next)
		if (c->hw) {
			each(c->hw, wake);
			pthread_cond_broadcast(&c->hw->free);
		}
}

/* --- streams and their channels --- */

static struct fk_channel *choose(struct pool *p)
{
	unsigned from = p->next++, i = 0;

	while (i < p->n && p->channel[(from + i) % p->n].streams)
		i++;
	return &p->channel[(from + i) % p->n];
}

static struct fk_channel *take(CUstream s, enum fk_pool kind)
{
	struct fk_channel **c = &s->channel[kind];

	if (!*c) {
		*c = choose(&s->ctx->hw->pool[kind]);
		(*c)->streams++;
	}
	return *c;
}

void fk_hw_idle(CUstream s)
{
	for (unsigned i = 0; i < FK_POOLS; i++) {
		if (s->channel[i])
			s->channel[i]->streams--;
		s->channel[i] = NULL;
	}
}

/* --- the context's lock --- */

void fk_hw_lock(CUcontext ctx)
{
	struct fk_hw *hw = ctx ? ctx->hw : NULL;

	while (hw && hw->holder && hw->holder != &fk_self && !fk.lost)
		pthread_cond_wait(&hw->free, &fk.lock);
}

bool fk_hw_hold(CUcontext ctx)
{
	struct fk_hw *hw = ctx->hw;

	fk_hw_lock(ctx);
	if (!hw || fk.waits_unlocked || hw->holder)
		return false;
	hw->holder = &fk_self;
	return true;
}

void fk_hw_let_go(CUcontext ctx, bool held)
{
	if (!held)
		return;
	ctx->hw->holder = NULL;
	pthread_cond_broadcast(&ctx->hw->free);
}

/* --- commands --- */

static enum fk_pool kind_of(const struct fk_work *w)
{
	if (w->what != FK_COPY)
		return FK_COMPUTE;
	if (w->copy.staged || fk_place(w->copy.src) != FK_DEVICE)
		return FK_TO_DEVICE;
	return fk_place(w->copy.dst) == FK_DEVICE ? FK_WITHIN : FK_TO_HOST;
}

struct fk_channel *fk_hw_room(CUstream s, const struct fk_work *w)
{
	struct fk_hw *hw = s->ctx->hw;
	struct fk_channel *c;
	bool held;

	if (!hw || !hw->narrow)
		return NULL;
	held = fk_hw_hold(s->ctx);
	while ((c = take(s, kind_of(w)))->under_way >= hw->room && !fk.lost)
		pthread_cond_wait(&c->moved, &fk.lock);
	fk_hw_let_go(s->ctx, held);
	return c;
}

unsigned fk_hw_after(CUcontext ctx, struct fk_point *after)
{
	if (!ctx->hw || fk_passed(ctx->hw->first))
		return 0;
	*after = ctx->hw->first;
	return 1;
}

void fk_hw_put(CUstream s, struct fk_op *op, struct fk_channel *c)
{
	op->channel = c;
	if (op->work.keeps_back)
		s->ctx->hw->first = (struct fk_point){s, s->submitted + 1};
	if (!c)
		return;
	op->ticket = c->put++;
	c->under_way++;
}

void fk_hw_turn(const struct fk_op *op)
{
	struct fk_channel *c = op->channel;

	while (c && c->passed != op->ticket && !fk.lost)
		pthread_cond_wait(&c->moved, &fk.lock);
}

static void pass(struct fk_channel *c)
{
	c->passed++;
	wake(c);
}

static bool stays(const struct fk_work *w)
{
	return fk.one_by_one || w->what == FK_COPY || fk_plan_graph(w);
}

void fk_hw_begins(const struct fk_op *op)
{
	if (op->channel && !stays(&op->work))
		pass(op->channel);
}

void fk_hw_ended(const struct fk_op *op)
{
	struct fk_channel *c = op->channel;

	if (!c)
		return;
	c->under_way--;
	if (stays(&op->work))
		pass(c);
	else
		wake(c);
}

/* --- first launches --- */

static bool seen(const struct fk_launch *l)
{
	bool *launched = &l->variables->launched[l->entry - l->image->entry];
	bool was = *launched;

	*launched = true;
	return was;
}

/* Unless it is said: every other function of an image. */
static bool waits(const struct fk_launch *l)
{
	const char *how = fk_env("FAKE_CUDA_FIRST");

	return how ? !strcmp(how, "wait") : !((l->entry - l->image->entry) & 1);
}

/* Code that is loaded before its first launch is not loaded at it. */
void fk_hw_load(CUfunction f)
{
	const struct fk_launch l = {.entry = f->entry,
		.image = fk_module_image(f->module),
		.variables = fk_module_variables(f->module)};

	if (fk_ctx()->hw && waits(&l) && !seen(&l))
		fk_wait_device();
}

bool fk_hw_first(const struct fk_launch *l)
{
	if (!fk_ctx()->hw || seen(l))
		return false;
	if (!waits(l))
		return true;
	fk_wait_device();
	return false;
}
