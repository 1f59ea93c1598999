/* SPDX-License-Identifier: Apache-2.0 */
#include "quota.h"
#include "base/clock.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

/* The longest debt that a user can have: a budget is not a punishment. */
#define DEBT_MAX (2 * FM_S)
/* There are few users, but a user may have many uids (subuid(5)). From this number of entries on,
 * entries that can be forgotten are looked for. */
#define SWEEP_FROM 64

const struct quota_limits quota_default_limits = {
	.most =
		{
			[QUOTA_HANDSHAKES] = 64,
			[QUOTA_SESSIONS] = UINT64_MAX, /* limits.clients of the settings */
			[QUOTA_CONTROLS] = 32,
			[QUOTA_CLOSING] = 64,
			[QUOTA_BYTES] = UINT64_C(64) << 20,
		},
	.budget =
		{
			[QUOTA_JOINS] = {.cost = 5, .burst_ns = 50 * FM_MS},
			[QUOTA_MESSAGES] = {.cost = 5, .burst_ns = 2 * FM_MS},
			[QUOTA_REPLIES] = {.cost = 10, .burst_ns = 100 * FM_MS},
		},
};

void quota_init(struct quota *q, uid_t own, const struct quota_limits *limits)
{
	memset(q, 0, sizeof(*q));
	q->limits = *limits;
	q->own = own;
	q->sweep_at = SWEEP_FROM;
	q->rest.quota = q;
	q->rest.uid = (uid_t)-1;
	q->rest.limited = true;
	fm_list_init(&q->rest.ready);
	fm_list_init(&q->rest.in_turn);
}

/* Another thread that gives back the user's last thing does not touch the entry afterwards. */
static bool is_forgettable(const struct quota_user *u, uint64_t now)
{
	if (u->refs)
		return false;
	for (unsigned i = 0; i < QUOTA_KINDS; i++)
		if (quota_held(u, (enum quota_kind)i))
			return false;
	for (unsigned i = 0; i < QUOTA_WORKS; i++)
		if (u->paid_at[i] > now)
			return false;
	return true;
}

static void sweep(struct quota *q, uint64_t now)
{
	for (unsigned i = 0; i < QUOTA_BUCKETS; i++) {
		struct quota_user **at = &q->bucket[i];

		while (*at) {
			struct quota_user *u = *at;

			if (!is_forgettable(u, now)) {
				at = &u->next;
				continue;
			}
			*at = u->next;
			free(u);
			q->n_users--;
		}
	}
	q->sweep_at = FM_MAX(2 * q->n_users, (unsigned)SWEEP_FROM);
}

/* A user's entry stays if a thread still has to give something back. */
void quota_free(struct quota *q)
{
	for (unsigned i = 0; i < QUOTA_BUCKETS; i++)
		for (struct quota_user *u = q->bucket[i]; u; u = u->next)
			u->refs = 0;
	sweep(q, UINT64_MAX);
	quota_ranges(q, NULL, 0);
}

void quota_ranges(struct quota *q, const struct quota_range *range, size_t n)
{
	free(q->range);
	q->range = n ? calloc(n, sizeof(*range)) : NULL;
	q->n_ranges = q->range ? n : 0;
	if (q->range)
		memcpy(q->range, range, n * sizeof(*range));
}

/* The first uid of a range stands for the whole range. Ranges that root has as well belong to the
 * machine's containers: each of their uids counts for itself. */
static uid_t account_of(const struct quota *q, uid_t uid)
{
	uid_t account = uid;

	for (size_t i = 0; i < q->n_ranges; i++) {
		const struct quota_range *r = &q->range[i];

		if (uid - r->first >= r->count)
			continue;
		if (r->roots)
			return uid;
		account = account == uid ? r->first : account;
	}
	return account == q->own ? uid : account;
}

static struct quota_user *add(struct quota *q, uid_t uid, uint64_t now)
{
	bool limited = uid && uid != q->own; /* root and the daemon's user always have a place */
	struct quota_user *u;

	if (q->n_users >= FM_MIN(q->sweep_at, (unsigned)QUOTA_USERS))
		sweep(q, now);
	u = !limited || q->n_users < QUOTA_USERS ? calloc(1, sizeof(*u)) : NULL;
	if (!u)
		return &q->rest;
	u->quota = q;
	u->uid = uid;
	u->limited = limited;
	fm_list_init(&u->ready);
	fm_list_init(&u->in_turn);
	u->next = q->bucket[uid % QUOTA_BUCKETS];
	q->bucket[uid % QUOTA_BUCKETS] = u;
	q->n_users++;
	return u;
}

struct quota_user *quota_get(struct quota *q, uid_t uid, uint64_t now)
{
	struct quota_user *u;

	if (uid && uid != q->own)
		uid = account_of(q, uid) ?: uid;
	u = q->bucket[uid % QUOTA_BUCKETS];
	while (u && u->uid != uid)
		u = u->next;
	u = u ? u : add(q, uid, now);
	u->refs++;
	return u;
}

void quota_put(struct quota_user *u)
{
	if (u)
		u->refs--;
}

void quota_charge(struct quota_user *u, enum quota_kind kind, uint64_t n)
{
	atomic_fetch_add_explicit(&u->held[kind], n, memory_order_relaxed);
}

bool quota_take(struct quota_user *u, enum quota_kind kind, uint64_t n)
{
	uint64_t most = u->quota->limits.most[kind], held = quota_held(u, kind);

	if (u->limited && (held > most || n > most - held))
		return false;
	quota_charge(u, kind, n);
	return true;
}

void quota_give(struct quota_user *u, enum quota_kind kind, uint64_t n)
{
	atomic_fetch_sub_explicit(&u->held[kind], n, memory_order_release);
}

void quota_spend(struct quota_user *u, enum quota_work work, uint64_t ns, uint64_t now)
{
	uint64_t cost = u->quota->limits.budget[work].cost;
	uint64_t at = FM_MAX(u->paid_at[work], now);

	at = fm_add_sat(at, FM_MIN(ns, DEBT_MAX) * cost);
	u->paid_at[work] = FM_MIN(at, fm_add_sat(now, DEBT_MAX));
}

uint64_t quota_debt(const struct quota_user *u, enum quota_work work, uint64_t now)
{
	const struct quota_budget *b = &u->quota->limits.budget[work];

	if (!u->limited)
		return 0;
	return fm_sub_sat(u->paid_at[work], fm_add_sat(now, b->burst_ns * b->cost));
}
