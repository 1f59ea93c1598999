/* SPDX-License-Identifier: Apache-2.0 */
/* A small device whose memory is planned: groups take turns, each extent takes one tick to move. */
#pragma once
#include "mem/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#define GROUPS  8
#define EXTENTS 64 /* of a group */
#define TURNS   64
#define TICK    FM_MS

struct small {
	struct fm_extent extent[GROUPS * EXTENTS];
	struct fm_mem_group group[GROUPS];
	struct fm_mem_turn turn[TURNS];
	struct fm_mem_world w;
	struct fm_mem_plan plan;
	unsigned came, went, stood; /* extents; ticks in which nobody ran */
};

static inline void small_init(
	struct small *s, const char *policy, unsigned groups, unsigned each, unsigned capacity)
{
	*s = (struct small){0};
	for (unsigned i = 0; i < groups * each; i++)
		s->extent[i] =
			(struct fm_extent){.bytes = 1, .client = i / each, .where = FM_ON_HOST};
	for (unsigned i = 0; i < groups; i++)
		s->group[i] = (struct fm_mem_group){.first = i * each, .n = each, .turn = 1};
	s->w = (struct fm_mem_world){.policy = fm_mem_policy_find(policy),
		.now = FM_S,
		.capacity = capacity,
		.host_left = UINT64_MAX,
		.link = {.in = 1000, .out = 1000, .both = 2000},
		.window = 1,
		.extent = s->extent,
		.group = s->group,
		.turn = s->turn,
		.extents = groups * each,
		.groups = groups,
		.clients = groups};
}

static inline unsigned small_occupied(const struct small *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->w.extents; i++)
		n += s->extent[i].where != FM_ON_HOST && s->extent[i].where != FM_EMPTY;
	return n;
}

static inline void small_plan(struct small *s)
{
	assert_int_equal(fm_mem_plan(&s->plan, &s->w), 0);
}

/* Makes the moves of a plan at once. Returns whether there was any. */
static inline bool small_move(struct small *s)
{
	for (unsigned i = 0; i < s->plan.n_out; i++)
		s->extent[s->plan.out[i]].where = FM_ON_HOST;
	for (unsigned i = 0; i < s->plan.n_in; i++)
		s->extent[s->plan.in[i]].where = FM_ON_DEVICE;
	assert_true(small_occupied(s) <= s->w.capacity);
	s->went += s->plan.n_out;
	s->came += s->plan.n_in;
	return s->plan.n_in > 0;
}

/* The turns from the i-th of a sequence on, the first of `left' ticks, the others of `ticks'. */
static inline void small_turns(struct small *s, const unsigned char *group, unsigned n, unsigned i,
	unsigned left, unsigned ticks)
{
	uint64_t from = s->w.now;

	s->w.turns = 0;
	for (; i < n && s->w.turns < TURNS; i++) {
		uint64_t until = from + (s->w.turns ? ticks : left) * TICK;

		s->turn[s->w.turns++] = (struct fm_mem_turn){group[i], from, until};
		from = until;
	}
}

/* Plays the first `to' turns: nobody runs until a group's memory is in, then the group runs for
 * `ticks'. Counts from turn `from' on. */
static inline void small_play(struct small *s, const unsigned char *group, unsigned n,
	unsigned ticks, unsigned from, unsigned to)
{
	for (unsigned i = 0; i < to; i++) {
		if (i == from)
			s->came = s->went = s->stood = 0;
		small_turns(s, group, n, i, ticks, ticks);
		while (small_plan(s), s->plan.group[group[i]].missing) {
			assert_true(small_move(s));
			s->stood++;
			s->w.now += TICK;
			small_turns(s, group, n, i, ticks, ticks);
		}
		s->group[group[i]].running = true;
		for (unsigned t = 0; t < ticks; t++) {
			small_turns(s, group, n, i, ticks - t, ticks);
			small_plan(s);
			small_move(s);
			s->w.now += TICK;
		}
		s->group[group[i]].running = false;
	}
}
