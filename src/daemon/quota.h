/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each user holds of the daemon, and how much of its time each has used. Everything that a
 * client can make grow is taken here first, and given back when it is gone. Root, and the user that
 * the daemon runs as, are counted and not limited.
 *
 * No clock: times are arguments. The loop's thread owns the table. Other threads may call only
 * quota_give().
 */
#pragma once
#include "base/list.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Things that a user holds. */
enum quota_kind {
	QUOTA_HANDSHAKES, /* clients that have not joined yet */
	QUOTA_SESSIONS,   /* clients */
	QUOTA_CONTROLS,   /* control connections */
	QUOTA_CLOSING,    /* descriptors that wait to be closed, or are being closed */
	QUOTA_BYTES,      /* memory for requests and replies */
	QUOTA_KINDS
};

/* Work that costs the loop time. Each kind has its own budget, in nanoseconds of the loop's
 * processor time (fm_thread_time(): other threads may use this processor, too). */
enum quota_work {
	QUOTA_JOINS,    /* connections taken up, and clients let in */
	QUOTA_MESSAGES, /* of clients, bells among them */
	QUOTA_REPLIES,  /* to requests on control connections */
	QUOTA_WORKS
};

/* A share of a processor, and how much of it may be used at once. Work makes a debt, and time pays
 * it: each nanosecond of work is paid after `cost` nanoseconds. */
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

/* The most users in the table. Users beyond it are counted as one, except root and the daemon's own
 * user. */
#define QUOTA_USERS 1024

struct quota_user {
	struct quota_user *next;
	struct quota *quota;
	uid_t uid;
	bool limited;
	unsigned refs;
	_Atomic uint64_t held[QUOTA_KINDS];
	uint64_t paid_at[QUOTA_WORKS]; /* when the debt is paid */
	struct fm_list ready,
		in_turn;  /* turn.c: sessions to be read; linked while there are some */
	unsigned entries; /* turn.c: sessions of the user */
};

/* Uids that all belong to one user; see `roots'. */
struct quota_range {
	uid_t first;
	uint32_t count;
	bool roots; /* root's range: each of its uids is a user */
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
void quota_free(struct quota *q); /* keeps users who still hold something */

/* Uses a copy of these ranges from now on; no ranges if out of memory. */
void quota_ranges(struct quota *q, const struct quota_range *range, size_t n);

/* The user's books, never NULL. They stay at least until quota_put(). A user who holds and owes
 * nothing is forgotten when other users need the place. */
struct quota_user *quota_get(struct quota *q, uid_t uid, uint64_t now);
void quota_put(struct quota_user *u);

/* Takes n more. False: that is more than the user may have, and nothing was taken. */
bool quota_take(struct quota_user *u, enum quota_kind kind, uint64_t n);
/* Takes n more even beyond the limit: for things that exist already and cannot be refused. */
void quota_charge(struct quota_user *u, enum quota_kind kind, uint64_t n);
/* Gives n back. Any thread may call it. */
void quota_give(struct quota_user *u, enum quota_kind kind, uint64_t n);
static inline uint64_t quota_held(const struct quota_user *u, enum quota_kind kind)
{
	return atomic_load_explicit(&u->held[kind], memory_order_acquire);
}

/* The loop has worked for the user for ns. */
void quota_spend(struct quota_user *u, enum quota_work work, uint64_t ns, uint64_t now);
/* 0: the user is within the budget. Otherwise the time until then. */
uint64_t quota_debt(const struct quota_user *u, enum quota_work work, uint64_t now);
