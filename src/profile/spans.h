/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From bytes that were touched to spans behind pointers. A byte belongs to the last pointer at or
 * in front of it in the same region, or to the first pointer of the region if there is none in
 * front; two pointers of the same value share. More than FM_PROFILE_SPANS become fewer by filling
 * the small holes between them.
 */
#pragma once
#include "device/touched.h"
#include "profile.h"

struct fm_range {
	uint64_t from, to;
};
struct fm_ranges {
	struct fm_range *range; /* rising, none touching its neighbour */
	size_t n, room;
	bool failed; /* no memory: something is missing */
};
void fm_ranges_free(struct fm_ranges *r);
/* Behind all that are there, or touching the last one. */
void fm_ranges_append(struct fm_ranges *r, uint64_t from, uint64_t to);
/* Those of the cells. */
void fm_ranges_marked(struct fm_ranges *r, const struct fm_touched *t);
/* Bytes of [from, to) are in none of them? */
bool fm_ranges_miss(const struct fm_ranges *r, uint64_t from, uint64_t to);

struct fm_word {
	uint32_t at;
	uint64_t value;
	unsigned region; /* of the table */
	bool map;
	uint64_t missed;
	unsigned n;
	struct fm_record_span span[FM_PROFILE_SPANS];
};
/* The words' spans, which have none before. Words of maps get nothing. */
void fm_words_spans(
	struct fm_word *w, unsigned n, const struct fm_touched *t, const struct fm_ranges *touched);
/* The word to which this byte belongs, or NULL. */
struct fm_word *fm_words_owner(
	struct fm_word *w, unsigned n, const struct fm_touched *t, uint64_t at);
