/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody may have meant who mistyped a word. Pure. */
#pragma once
#include <stddef.h>

#define FM_NEAREST_MAX 40 /* longer words are like no other */

/* How many letters must be put in, left out, changed, or swapped with their neighbour to make a of
 * b; more than FM_NEAREST_MAX when one of them is longer than that. */
unsigned fm_distance(const char *a, const char *b);

/* Keeps the word nearest to one that was mistyped. */
struct fm_nearest {
	const char *typed, *best; /* best: NULL while none is near */
	unsigned distance;
};

void fm_nearest_try(struct fm_nearest *n, const char *word);
