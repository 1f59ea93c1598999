/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each user has of the daemon, and how much of its time each has had. Whatever a client can
 * make grow is taken here first and given back when it is gone. Root, and the user that the daemon
 * runs as, are counted and not limited.
 *
 * No clock: times are arguments. One thread owns the table, the loop's; quota_give() alone may be
 * called by others.
 */
#pragma once
#include "base/list.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What is there at one time. */
enum quota_kind {
	QUOTA_HANDSHAKES, /* clients that have not joined yet */
	QUOTA_SESSIONS,   /* clients */
	QUOTA_CONTROLS,   /* control connections */
	QUOTA_CLOSING,    /* descriptors that wait to be closed, or are being closed */
	QUOTA_BYTES,      /* memory for what they ask and are answered */
	QUOTA_KINDS
};

/* What costs the loop time. Each has a budget of its own, in nanoseconds of its processor time
 * (fm_thread_time(): others may be at work on this processor). */
enum quota_work {
	QUOTA_JOINS,    /* connections taken up, and clients let in */
	QUOTA_MESSAGES, /* of clients, bells among them */
	QUOTA_REPLIES,  /* to requests on control connections */
	QUOTA_WORKS
};

/* A share of a processor, and how much of it may be used at once. It is a debt that is paid by
 * time: each nanosecond of work is paid after `cost` nanoseconds. */
struct quota_budget {
	uint32_t cost;
	uint64_t burst_ns;
};

struct quota_limits {
	uint64_t most[QUOTA_KINDS]; /* UINT64_MAX: any number */
	struct quota_budget budget[QUOTA_WORKS];
};

extern const struct quota_limits quota_default_limits;

#define QUOTA_BUCKETS 64

/* In the table; those beyond are counted as one, save root and the daemon's own user. */
#define QUOTA_USERS 1024

struct quota_user {
	struct quota_user *next;
	struct quota *quota;
	uid_t uid;
	bool limited;
	unsigned refs;
	_Atomic uint64_t held[QUOTA_KINDS];
	uint64_t paid_at[QUOTA_WORKS]; /* when there is no debt any more */
	struct fm_list ready, in_turn; /* turn.c: sessions to be read; among those who have some */
	unsigned entries;              /* sessions there */
};

/* Uids that are all one user's, save root's own. */
struct quota_range {
	uid_t first;
	uint32_t count;
	bool roots; /* each of these is a user */
};

struct quota {
	struct quota_user *bucket[QUOTA_BUCKETS];
	struct quota_user rest;
	struct quota_limits limits;
	uid_t own; /* the daemon's */
	unsigned n_users, sweep_at;
	struct quota_range *range;
	size_t n_ranges;
};

void quota_init(struct quota *q, uid_t own, const struct quota_limits *limits);
void quota_free(struct quota *q); /* save for users who still hold something */

/* A copy of these from now on; out of memory: none. */
void quota_ranges(struct quota *q, const struct quota_range *range, size_t n);

/* The user's books, never NULL; they stay at least until quota_put(). A user about whom there is
 * nothing to remember is forgotten when others need the place. */
struct quota_user *quota_get(struct quota *q, uid_t uid, uint64_t now);
void quota_put(struct quota_user *u);

/* n more: false if that is more than the user may have; then nothing was taken. */
bool quota_take(struct quota_user *u, enum quota_kind kind, uint64_t n);
/* n more, whatever the limit: of what is there already and cannot be refused. */
void quota_charge(struct quota_user *u, enum quota_kind kind, uint64_t n);
/* By any thread. */
void quota_give(struct quota_user *u, enum quota_kind kind, uint64_t n);
static inline uint64_t quota_held(const struct quota_user *u, enum quota_kind kind)
{
	return atomic_load_explicit(&u->held[kind], memory_order_acquire);
}

/* The loop has worked so long for the user. */
void quota_spend(struct quota_user *u, enum quota_work work, uint64_t ns, uint64_t now);
/* 0: the user is within the budget. Else for how long not. */
uint64_t quota_debt(const struct quota_user *u, enum quota_work work, uint64_t now);
