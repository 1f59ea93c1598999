/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users whose groups have joined an instance of a policy, for policies that divide a device
 * among users first (struct fm_policy_ops, by_user). The policy's own struct begins with struct
 * fm_user. Finding a user is linear in the number of users, and happens only at join.
 *
 * A user that leaves ahead of the others is remembered until they have caught up. So a user cannot
 * get rid of a debt by ending its programs and starting them again.
 */
#pragma once
#include "base/list.h"
#include <stdint.h>
#include <stdlib.h>

#define FM_USERS_OWING 64 /* remembered at most */

struct fm_user {
	struct fm_list link;
	uint32_t key; /* fm_ent.user */
	size_t joined;
	uint64_t vtime; /* device time of its groups, and what it was moved forward after sleep */
	bool owes;      /* none of its groups is joined: it is remembered */
};

struct fm_users {
	struct fm_list list;
	size_t n, owing; /* users with a joined group; remembered users */
};

static inline void fm_users_forget(struct fm_users *us, struct fm_user *u)
{
	us->owing -= u->owes;
	fm_list_del(&u->link);
	free(u);
}

/* The user with that key, or a new one of that size, zeroed. Forgets remembered users that the
 * least virtual time has caught up with. NULL: out of memory. */
static inline void *fm_users_find(struct fm_users *us, uint32_t key, size_t size, uint64_t least)
{
	struct fm_user *u, *tmp;

	fm_list_each_safe (u, tmp, &us->list, link) {
		if (u->key == key)
			return u;
		if (u->owes && u->vtime <= least)
			fm_users_forget(us, u);
	}
	u = calloc(1, size);
	if (!u)
		return NULL;
	u->key = key;
	fm_list_add_tail(&us->list, &u->link);
	return u;
}

static inline void fm_users_join(struct fm_users *us, struct fm_user *u)
{
	us->n += !u->joined++;
	us->owing -= u->owes;
	u->owes = false;
}

/* After fm_users_find(), when joining fails. */
static inline void fm_users_unfind(struct fm_users *us, struct fm_user *u)
{
	if (!u->joined && !u->owes)
		fm_users_forget(us, u);
}

/* Adds a twin of u to the users of a copy. NULL: out of memory. */
static inline void *fm_users_copy(struct fm_users *to, const struct fm_user *u, size_t size)
{
	struct fm_user *twin = malloc(size);

	if (!twin)
		return NULL;
	memcpy(twin, u, size);
	fm_list_add_tail(&to->list, &twin->link);
	return twin;
}

/* Is this the user's last joined group? Before it leaves, the caller releases what the user has,
 * except its struct. */
static inline bool fm_users_is_last(const struct fm_user *u)
{
	return u->joined == 1;
}

static inline void fm_users_leave(struct fm_users *us, struct fm_user *u, uint64_t least)
{
	if (--u->joined)
		return;
	us->n--;
	u->owes = u->vtime > least && us->owing < FM_USERS_OWING;
	us->owing += u->owes;
	if (!u->owes)
		fm_users_forget(us, u);
}

static inline void fm_users_fini(struct fm_users *us)
{
	struct fm_user *u, *tmp;

	fm_list_each_safe (u, tmp, &us->list, link)
		fm_users_forget(us, u);
}
