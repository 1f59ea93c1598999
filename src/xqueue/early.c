/* SPDX-License-Identifier: Apache-2.0 */
#include "early.h"
#include "api/hwqueue.h"
#include "rest.h"
#include "segment.h"

/* So far in front of all gates is a word that is open, and half as far behind them one that holds
 * all. A word that is open stays so for EACH gates without being looked at. */
#define FAR  (UINT32_C(1) << 30)
#define EACH (UINT32_C(1) << 20)

_Atomic uint32_t fm_early_number;

bool fm_early_able(const struct fm_client *c)
{
	return fm_rest_able(c) && c->set.early;
}

void fm_early_open(struct fm_client *c)
{
	if (c->rests)
		atomic_store(&c->board->memory, atomic_load(&fm_early_number) + FAR);
}

/* The exit raises `over', then opens. */
static void hold(struct fm_client *c, uint32_t word)
{
	if (!fm_early_able(c))
		return;
	atomic_store(&c->board->memory, word);
	if (fm_rest_is_over(c))
		fm_early_open(c);
}

void fm_early_hold(struct fm_client *c, uint32_t number)
{
	hold(c, number - 1);
}

void fm_early_hold_all(struct fm_client *c)
{
	hold(c, atomic_load(&fm_early_number) - FAR / 2);
}

static bool has_reached(uint32_t word, uint32_t number)
{
	return word - number < UINT32_C(1) << 31;
}

bool fm_early_waits(const struct fm_client *c, uint32_t number)
{
	return fm_early_able(c) && !has_reached(atomic_load(&c->board->memory), number);
}

/* An open word stays in front of the numbers. One that holds is not far in front of them. */
static void keep_in_front(struct fm_client *c, uint32_t number)
{
	uint32_t word = atomic_load(&c->board->memory);

	if (has_reached(word, number + FAR / 4))
		atomic_compare_exchange_strong(&c->board->memory, &word, number + FAR);
}

void fm_early_place(struct fm_client *c, struct fm_gate_words *w)
{
	if (!fm_early_able(c))
		return;
	w->memory = &c->board->memory;
	w->number = atomic_fetch_add(&fm_early_number, 1) + 1;
	if (FM_UNLIKELY(w->number % EACH == 0))
		keep_in_front(c, w->number);
}

bool fm_early_stands(struct fm_client *c, uint64_t *passed)
{
	bool some = false, all = true;

	*passed = 0;
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		*passed += c->queue[i] ? fm_slot_done(c->queue[i]->slot) : 0;
		if (!c->queue[i] || !fm_slot_pending(c->queue[i]->slot))
			continue;
		some = true;
		all &= fm_slot_waits(c->queue[i]->slot);
	}
	pthread_mutex_unlock(&c->lock);
	return some && all;
}
