// SPDX-License-Identifier: Apache-2.0
/* A feed's resident: its stay, and what is done for it while it is not there. */
#include "api/cuda/core/tune.h"
#include "base/clock.h"
#include "base/util.h"
#include "feed_internal.h"

#define NOTES 64 /* at once */

static uint64_t wake_of(const struct fm_cu_feed *f)
{
	return fm_cu_feed_told(&fm_cu_gates_told(f->gates)->wake);
}

/* `after` has no circles, so it is found in as many rounds as there are tasks. */
void fm_cu_feed_find_early(struct fm_cu_feed *f)
{
	bool more = true;

	while (more) {
		more = false;
		for (uint32_t i = 0; i < f->n; i++) {
			struct work *w = &f->work[i];
			bool early = w->early || w->ahead;

			for (uint32_t k = 0; k < w->task.n_after; k++)
				early |= f->work[w->task.after[k]].early;
			more |= early != w->early;
			w->early = early;
		}
	}
}

void fm_cu_feed_word(struct fm_cu_feed *f, uint32_t task)
{
	pthread_mutex_lock(&f->lock);
	f->work[task].ahead = true;
	f->has_words = true;
	fm_cu_feed_find_early(f);
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

/* Is there something for it, or will be? The lock is held. */
static bool wants(const struct fm_cu_feed *f, uint64_t now)
{
	const struct fm_gates_told *t = fm_cu_gates_told(f->gates);

	if ((f->has_words && !f->drains) || fm_cu_feed_told(&t->pending))
		return true;
	for (uint32_t i = 0; i < f->n; i++)
		if (!f->work[i].error &&
			fm_cu_feed_told(&t->heard[i]) != fm_gates_heard(f->work[i].asked, 0))
			return true;
	return wake_of(f) < now + FM_CU_SET_IDLE;
}

/* The resident has left the set by itself, as its stay has come to its end before it was renewed:
 * that is over. It says so itself, since its clock is another one. Under `park', and not left. */
static void end_own_leave(struct fm_cu_feed *f)
{
	uint64_t expired = fm_cu_feed_told(&fm_cu_gates_told(f->gates)->expired);

	if (expired != f->expired &&
		!fm_cu_gates_tell(f->gates, 0, FM_GATES_STAY | FM_GATES_KICK, 0, 0))
		f->expired = expired;
}

/* A call that fails is made again with the next look; until then the ends of chunks decide. */
void fm_cu_feed_keep_resident(struct fm_cu_feed *f)
{
	uint64_t now = fm_now();
	bool goes_on, due;

	if (!fm_cu_gates_is_resident(f->gates))
		return;
	pthread_mutex_lock(&f->park);
	pthread_mutex_lock(&f->lock);
	f->barred = f->hooks.bars && f->hooks.bars(f->hooks.arg);
	goes_on = !f->parked && !f->left && !f->lost && !f->stop;
	due = goes_on && !f->barred && wants(f, now);
	pthread_mutex_unlock(&f->lock);
	if (goes_on) {
		fm_cu_gates_lend(f->gates, f->barred ? 0 : now + FM_CU_SET_LEASE);
		end_own_leave(f);
		if (due)
			fm_cu_gates_reside(f->gates, FM_CU_SET_IDLE, f->has_words);
	}
	pthread_mutex_unlock(&f->park);
}

/* Has a word changed since the last look? */
static bool has_news(struct fm_cu_feed *f)
{
	uint64_t word[FM_GATES_TASKS];
	bool news = false;

	if (!f->has_words || fm_cu_gates_copy_words(f->gates, f->words, word, f->n))
		return false;
	for (uint32_t i = 0; i < f->n; i++) {
		news |= word[i] != f->word[i];
		f->word[i] = word[i];
	}
	return news;
}

/* Before the resident comes, and while it is away, too: releases by period are decided at the
 * device's time. */
static void follow_clock(struct fm_cu_feed *f)
{
	if (fm_now() < f->clock_at)
		return;
	if (!fm_cu_gates_resides(f->gates) && wake_of(f) == FM_GS_NEVER)
		return;
	f->clock_at = fm_now() + FM_CU_SET_CLOCK;
	fm_cu_gates_follow_clock(f->gates);
}

void fm_cu_feed_look_resident(struct fm_cu_feed *f)
{
	bool away;

	if (!fm_cu_gates_is_resident(f->gates))
		return;
	follow_clock(f);
	fm_cu_feed_keep_resident(f);
	away = !fm_cu_gates_resides(f->gates);
	if (away && (wake_of(f) <= fm_now() || has_news(f)))
		fm_cu_gates_tell(f->gates, 0, FM_GATES_KICK, 0, 0);
}

uint64_t fm_cu_feed_next_wake(const struct fm_cu_feed *f)
{
	uint64_t now = fm_now(), wake = wake_of(f);

	if (!fm_cu_gates_is_resident(f->gates) || f->lost)
		return FM_NEVER;
	if (f->parked || f->left || f->barred) { /* it is decided by the host when that is due */
		wake = FM_MAX(wake, now + FM_CU_SET_LOOK);
		return f->has_words ? FM_MIN(wake, now + FM_CU_SET_PARKED) : wake;
	}
	if (f->has_words || fm_cu_gates_resides(f->gates))
		return now + FM_CU_SET_IDLE_LOOK;
	return FM_MAX(fm_sub_sat(wake, FM_CU_SET_LEAD), now + FM_CU_SET_LOOK);
}

void fm_cu_feed_read_notes(struct fm_cu_feed *f)
{
	const struct fm_cu_feed_hooks *h = &f->hooks;
	struct fm_gates_note note[NOTES];
	bool wanted = h->traces && h->traces(h->arg);
	uint32_t n;

	if (wanted != f->notes &&
		!fm_cu_gates_tell(f->gates, 0, wanted ? FM_GATES_NOTE : FM_GATES_QUIET, 0, 0))
		f->notes = wanted;
	do {
		n = fm_cu_gates_notes(f->gates, note, NOTES, &f->lost_notes);
		for (uint32_t i = 0; i < n && h->note; i++)
			h->note(h->arg, &note[i]);
	} while (n == NOTES);
}
