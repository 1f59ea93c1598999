/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon that is gone is noticed at once. A daemon that exists and does nothing (it is stopped,
 * or caught in a loop) is not noticed, and would hold for ever the queues that it has stopped. So
 * while work waits at a closed gate, the agent rings now and then and asks the kernel whether the
 * bell was read. After FM_CLIENT_WATCH_LOOKS looks without that, the daemon counts as gone: every
 * gate opens, and the agent joins anew, which takes effect when the daemon goes on.
 *
 * Looks are counted, not time. So a program that was stopped itself, or a machine that was, does
 * not mistake that for the daemon's silence.
 */
#include "client.h"
#include "rest.h"

struct sight {
	uint64_t begun; /* commands begun, of all queues */
	bool busy, stopped;
};

static struct sight look(struct fm_client *c)
{
	struct sight s = {0};

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		const struct fm_slot *slot = &c->board->slot[i];

		if (!c->queue[i])
			continue;
		s.begun += atomic_load(&slot->begun);
		if (!fm_slot_pending(slot))
			continue;
		s.busy = true;
		s.stopped =
			s.stopped || atomic_load(atomic_load(&c->queue[i]->gate)) != FM_GATE_OPEN;
	}
	pthread_mutex_unlock(&c->lock);
	/* Launches and allocations wait in front of the driver then, and are not begun. */
	if (fm_rest_state(c) != FM_REST_OPEN)
		s.busy = s.stopped = true;
	return s;
}

/* A program without work causes no wake-ups. */
static bool doze(struct fm_client *c, const struct sight *s)
{
	if (s->busy || s->begun != c->watch_begun)
		return false;
	/* Publish it, then look once more: a thread that begins a command after that look sees it
	 * published. */
	atomic_store(&c->dozes, true);
	if (!look(c).busy)
		return true;
	atomic_store(&c->dozes, false);
	return false;
}

/* True: the daemon counts as gone. */
static bool silent(struct fm_client *c, struct fm_link *l)
{
	if (c->asked && !c->link_ops->heard(l))
		return ++c->unheard >= FM_CLIENT_WATCH_LOOKS;
	c->link_ops->bell(l);
	c->asked = true;
	c->unheard = 0;
	return false;
}

uint64_t fm_watch(struct fm_client *c, uint64_t now)
{
	struct fm_link *l = atomic_load(&c->link);
	struct sight s;

	if (!l || !c->link_ops->heard || atomic_load(&c->dozes))
		return FM_NEVER;
	if (now < c->watch_at)
		return c->watch_at;
	s = look(c);
	if (!s.stopped) {
		c->asked = false;
	} else if (silent(c, l)) {
		c->asked = false;
		atomic_store(&c->link_broken, true);
		return now;
	}
	if (doze(c, &s))
		return FM_NEVER;
	c->watch_begun = s.begun;
	c->watch_at = now + FM_CLIENT_WATCH_EVERY;
	return c->watch_at;
}
