/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core (core.h) as processors run it: by the thread that brings news.
 */
#pragma once
#include "words.h"

/* What else has a say, and hears what has been decided. Both are called by the decider, and must
 * not wait. */
struct fm_gs_watch {
	bool (*may_open)(void *arg);
	void (*decided)(void *arg);
	void *arg;
};

struct fm_gs_host {
	struct fm_gs g;
	uint64_t now; /* virtual time; changes by one thread */
	bool is_virtual;
	const struct fm_gs_watch *watch; /* NULL: nobody; set before anything is released */
};

uint64_t fm_gs_host_now(const struct fm_gs_host *h);
void fm_gs_host_kick(struct fm_gs_host *h);
void fm_gs_host_end(struct fm_gs_host *h, uint32_t task); /* of its chunk, without a kick */
void fm_gs_host_queued(struct fm_gs_host *h, uint32_t task, uint64_t chunks);

/* Between these two the caller may read and write the decider's fields. To enter waits for a
 * decision of another thread, at most. To leave decides what came meanwhile. */
void fm_gs_host_enter(struct fm_gs_host *h);
void fm_gs_host_leave(struct fm_gs_host *h);

/* Nothing is released that is not complete, and all news has been heard. */
bool fm_gs_host_idle(struct fm_gs_host *h);

static inline uint64_t fm_gs_read(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static inline void fm_gs_write(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static inline uint64_t fm_gs_more(uint64_t *word, uint64_t more)
{
	return __atomic_fetch_add(word, more, __ATOMIC_SEQ_CST);
}

/* The response time that `part` of 100 jobs do not exceed: the upper end of its bucket. 0: none. */
uint64_t fm_gs_host_quantile(const struct fm_gs_stats *s, unsigned part);
