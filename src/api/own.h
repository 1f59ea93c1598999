/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of an API's library that Fermata calls itself. They are pointers in one struct, the
 * API's driver. A list X(member, symbol, parameters) says what is in it, and comes to that struct
 * and to this table, by which the shim looks them up behind itself, and a command in the library
 * that it has loaded.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct fm_own {
	const char *symbol;
	size_t at; /* in the driver */
};

struct fm_owns {
	const struct fm_own *of;
	/* The first `needed` of them must be there, even for level 1. */
	size_t n, needed;
};

/* For the list: a row of the table, where OWNER is the struct; and one to be counted. */
#define FM_OWN(member, symbol_, params) {symbol_, offsetof(OWNER, member)},
#define FM_OWN_COUNT(...)               +1

static inline bool fm_own_whole(const struct fm_owns *own, const void *driver)
{
	static void *const none;

	for (size_t i = 0; i < own->needed; i++)
		if (!memcmp((const char *)driver + own->of[i].at, &none, sizeof(none)))
			return false;
	return true;
}
