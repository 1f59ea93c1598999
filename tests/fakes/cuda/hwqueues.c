/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams are made of on a device: a context has few channels, which its streams share, each
 * strictly first in, first out. A command waits at the head of its channel for what it has to come
 * after, and keeps all behind it waiting, also those of other streams; it leaves the head when it
 * begins, or, if it itself is a wait, a copy or a graph, when it ends. Streams are given channels
 * in turn as they are made, those of high priority others; copies have one for each direction.
 *
 * A channel has room for so many commands. Who launches into a full one waits in the driver, and
 * has the context's lock meanwhile, which nearly all calls take. Others wait for the device so as
 * well.
 */
#include "fake.h"
#include <stdlib.h>

#define COMPUTE 32
#define LEVELS  5 /* of higher priority, each with channels of its own */
#define HIGH    2
#define ROOM    1024

enum { TO_DEVICE, TO_HOST, WITHIN, COPIES };

struct fk_channel {
	uint64_t put, passed; /* in it so far, and past its head */
	unsigned under_way;
	pthread_cond_t moved;
};

struct fk_hw {
	struct fk_channel compute[COMPUTE], high[LEVELS][HIGH], copy[COPIES];
	unsigned n, room, next, next_high;
	const void *holder; /* the thread that waits with the lock; or NULL */
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
	for (unsigned i = 0; i < COMPUTE; i++)
		call(&hw->compute[i]);
	for (unsigned i = 0; i < LEVELS * HIGH; i++)
		call(&hw->high[i / HIGH][i % HIGH]);
	for (unsigned i = 0; i < COPIES; i++)
		call(&hw->copy[i]);
}

static void init(struct fk_channel *c)
{
	pthread_cond_init(&c->moved, NULL);
}

/* They last as long as the context's name. */
void fk_hw_open(CUcontext ctx)
{
	struct fk_hw *hw = ctx->hw;

	if (!fk_env("FAKE_CUDA_NARROW"))
		return;
	if (!hw)
		hw = ctx->hw = calloc(1, sizeof(*hw));
	if (!hw)
		fk_die("no memory for channels");
	hw->n = number("CUDA_DEVICE_MAX_CONNECTIONS", 8, COMPUTE);
	hw->room = number("FAKE_CUDA_ROOM", ROOM, ROOM);
	hw->next = hw->next_high = 0;
	each(hw, init);
	pthread_cond_init(&hw->free, NULL);
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

void fk_hw_assign(CUstream s)
{
	struct fk_hw *hw = s->ctx->hw;

	if (!hw)
		s->channel = NULL;
	else if (s->priority)
		s->channel = &hw->high[-s->priority - 1][hw->next_high++ % HIGH];
	else
		s->channel = &hw->compute[hw->next++ % hw->n];
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
	if (!hw || hw->holder)
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

static struct fk_channel *channel_of(CUstream s, const struct fk_work *w)
{
	struct fk_hw *hw = s->ctx->hw;

	if (!s->channel)
		fk_hw_assign(s);
	if (!hw || w->what != FK_COPY)
		return s->channel;
	if (w->copy.staged || fk_place(w->copy.src) != FK_DEVICE)
		return &hw->copy[TO_DEVICE];
	return &hw->copy[fk_place(w->copy.dst) == FK_DEVICE ? WITHIN : TO_HOST];
}

struct fk_channel *fk_hw_room(CUstream s, const struct fk_work *w)
{
	struct fk_channel *c = channel_of(s, w);
	bool held;

	if (!c)
		return NULL;
	held = fk_hw_hold(s->ctx);
	while (c->under_way >= s->ctx->hw->room && !fk.lost)
		pthread_cond_wait(&c->moved, &fk.lock);
	fk_hw_let_go(s->ctx, held);
	return c;
}

void fk_hw_put(struct fk_op *op, struct fk_channel *c)
{
	op->channel = c;
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
	return w->what == FK_WORDS || w->what == FK_COPY || fk_plan_graph(w);
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
