/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users whose groups have joined an instance of a policy, for policies that divide a device
 * among users first (struct fm_policy_ops, by_user). The policy's own struct begins with struct
 * fm_user. Finding a user is linear in the number of users, and happens at join alone.
 */
#pragma once
#include "base/list.h"
#include <stdint.h>
#include <stdlib.h>

struct fm_user {
	struct fm_list link;
	uint32_t key; /* fm_ent.user */
	size_t joined;
};

struct fm_users {
	struct fm_list list;
	size_t n;
};

/* The user with that key, or a new one of that size, zeroed, with nobody joined. NULL: out of
 * memory. */
static inline void *fm_users_get(struct fm_users *us, uint32_t key, size_t size)
{
	struct fm_user *u;

	fm_list_each (u, &us->list, link)
		if (u->key == key)
			return u;
	u = calloc(1, size);
	if (!u)
		return NULL;
	u->key = key;
	fm_list_add_tail(&us->list, &u->link);
	us->n++;
	return u;
}

/* Ends a user of whom nobody is joined any more. True: the caller releases what the user has, and
 * frees it. */
static inline bool fm_users_put(struct fm_users *us, struct fm_user *u)
{
	if (u->joined)
		return false;
	fm_list_del(&u->link);
	us->n--;
	return true;
}
