/* SPDX-License-Identifier: Apache-2.0 */
/* Explores the model of rests (rest_model.h) to the end, and plants faults to see that they are
 * found. */
#include "rest_model_mover.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "../rounds.h"
#include <cmocka.h>

/* --- the explorer --- */

static struct {
	struct state *s;
	uint32_t *next, *first; /* edges, and where those of a state begin */
	uint32_t *slot;         /* hash table of indices, from 1 */
	size_t n, room, edges, edge_room, slots;
} all;

static void *grown(void *p, size_t n, size_t each)
{
	p = realloc(p, n * each);
	if (!p)
		abort();
	return p;
}

static uint64_t hash(const struct state *s)
{
	const uint8_t *p = (const uint8_t *)s;
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < sizeof(*s); i++)
		h = (h ^ p[i]) * 0x100000001b3;
	return h ^ h >> 29;
}

static uint32_t *slot_of(const struct state *s)
{
	size_t i = hash(s) & (all.slots - 1);

	while (all.slot[i] && memcmp(&all.s[all.slot[i] - 1], s, sizeof(*s)) != 0)
		i = (i + 1) & (all.slots - 1);
	return &all.slot[i];
}

static void grow_slots(void)
{
	free(all.slot);
	all.slots = all.slots ? 2 * all.slots : 1 << 12;
	all.slot = calloc(all.slots, sizeof(*all.slot));
	if (!all.slot)
		abort();
	for (size_t i = 0; i < all.n; i++)
		*slot_of(&all.s[i]) = (uint32_t)i + 1;
}

static uint32_t add(const struct state *s)
{
	uint32_t *slot;

	if (2 * all.n >= all.slots)
		grow_slots();
	slot = slot_of(s);
	if (*slot)
		return *slot - 1;
	if (all.n == all.room) {
		all.room = all.room ? 2 * all.room : 1 << 12;
		all.s = grown(all.s, all.room, sizeof(*all.s));
		all.first = grown(all.first, all.room + 1, sizeof(*all.first));
	}
	all.s[all.n++] = *s;
	*slot = (uint32_t)all.n;
	return (uint32_t)all.n - 1;
}

static void add_edge(uint32_t to)
{
	if (all.edges == all.edge_room) {
		all.edge_room = all.edge_room ? 2 * all.edge_room : 1 << 12;
		all.next = grown(all.next, all.edge_room, sizeof(*all.next));
	}
	all.next[all.edges++] = to;
}

static bool leads_to(const bool *ends, uint32_t i)
{
	for (uint32_t k = all.first[i]; k < all.first[i + 1]; k++)
		if (ends[all.next[k]])
			return true;
	return false;
}

/* From each state an end can be reached. Later states are nearer to the end, so few rounds are
 * needed. */
static void check_ends(void)
{
	bool *ends = calloc(all.n, 1), more = true;
	size_t n = 0;

	if (!ends)
		abort();
	for (size_t i = 0; i < all.n; i++)
		n += ends[i] = is_end(&all.s[i]);
	while (more) {
		more = false;
		for (size_t i = all.n; i-- > 0;)
			if (!ends[i] && leads_to(ends, (uint32_t)i)) {
				ends[i] = more = true;
				n++;
			}
	}
	if (n != all.n)
		broken("something stays closed");
	free(ends);
}

static struct state first_state(void)
{
	struct state s;

	memset(&s, 0, sizeof(s));
	s.gate = run.sc->shut;
	s.toggles = (uint8_t)run.sc->toggles;
	s.m_rests = (uint8_t)run.sc->rests;
	s.h_holds = (uint8_t)run.sc->holds;
	s.q[0].made = 1;
	for (unsigned i = 0; i < QUEUES; i++)
		s.q[i].buffer = NONE;
	for (unsigned i = 0; run.sc->op[i]; i++)
		s.q[1].made |= run.sc->op[i] == LAUNCH1 || run.sc->op[i] == WAIT1;
	for (unsigned i = 0; run.sc->op[i]; i++)
		s.q[1].made &= run.sc->op[i] != MAKE1;
	return s;
}

/* The property that is broken; NULL: none. */
static const char *explore(const struct scenario *sc, enum fault fault, size_t *states)
{
	struct nexts to;
	struct state s;

	run.fault = fault;
	run.sc = sc;
	run.broken = NULL;
	memset(&all, 0, sizeof(all));
	s = first_state();
	add(&s);
	for (size_t i = 0; i < all.n && !run.broken; i++) {
		s = all.s[i];
		check(&s);
		all.first[i] = (uint32_t)all.edges;
		successors(&to, &s);
		if (!to.n && !is_end(&s))
			broken("there is no next step");
		for (unsigned k = 0; k < to.n; k++)
			add_edge(add(&to.s[k]));
	}
	all.first[all.n] = (uint32_t)all.edges;
	if (!run.broken)
		check_ends();
	*states = all.n;
	free(all.s);
	free(all.first);
	free(all.next);
	free(all.slot);
	return run.broken;
}

static const struct scenario scenarios[] = {
	{"launches", .op = {LAUNCH0, LAUNCH0}, .toggles = 2, .rests = 1},
	{"launches, given up", .op = {LAUNCH0, LAUNCH0}, .gives_up = true, .rests = 2},
	{"launches, twice", .op = {LAUNCH0, LAUNCH0}, .rests = 2},
	{"two queues", .op = {LAUNCH0, LAUNCH1}, .toggles = 2, .rests = 1},
	{"a new queue", .op = {LAUNCH0, MAKE1, LAUNCH1}, .toggles = 2, .rests = 1},
	{"an event", .op = {LAUNCH0, WAIT1, LAUNCH1}, .toggles = 1, .shut = true, .rests = 1},
	{"an event, open", .op = {LAUNCH0, WAIT1, LAUNCH1}, .rests = 1},
	{"a call", .op = {LAUNCH0}, .toggles = 2, .calls = true, .rests = 2},
	{"an exit", .op = {LAUNCH0, LAUNCH0}, .exits = true, .rests = 2},
	{"an exit, given up", .op = {LAUNCH0}, .calls = true, .exits = true, .gives_up = true,
		.rests = 2},
	{"early", .op = {LAUNCH0, LAUNCH0}, .toggles = 2, .holds = 1, .rests = 1},
	{"early, an exit", .op = {LAUNCH0}, .exits = true, .holds = 2, .rests = 1},
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

static void test_it_is_sound(void **state)
{
	size_t states, sum = 0;

	for (unsigned i = 0; i < SCENARIOS; i++) {
		const char *what = explore(&scenarios[i], NO_FAULT, &states);

		if (what)
			fail_msg("%s: %s", scenarios[i].name, what);
		printf("%s: %zu states\n", scenarios[i].name, states);
		sum += states;
	}
	assert_true(sum > 100000);
}

static const char runs[] = "the device runs while memory is missing";
static const char looks[] = "a call looks at memory that is missing";
static const char stays[] = "something stays closed";
static const char stuck[] = "there is no next step";
static const char ends[] = "the process ends while memory is missing";
static const char opens[] = "it is open while memory is missing";

static const struct {
	const char *name, *breaks;
} faults[FAULTS] = {
	[GATES_ALONE] = {"the device waits for the gate word alone", runs},
	[NO_LEAVE] = {"the device does not look again", runs},
	[ONE_LOOK] = {"the mover does not look again", runs},
	[LEAVE_STAYS] = {"`leave` stays closed", stays},
	[READ_PASSES] = {"the device's reads overtake its writes", runs},
	[NO_BIT_IN_NEW] = {"a new queue is not held", runs},
	[BIT_BEFORE] = {"a launch looks before it is counted", runs},
	[GUESS] = {"a guess counts", runs},
	[OTHERS_GATE] = {"another queue's gate counts", runs},
	[NO_FENCE] = {"nobody asks for ends", stays},
	[NO_PART] = {"a wait for an event has no gate", stays},
	[CALLS_UNSEEN] = {"calls are not waited for", looks},
	[CALLS_LOOK_ONCE] = {"a call looks before it is counted", looks},
	[EXIT_OPENS] = {"the exit opens", opens},
	[EXIT_UNSEEN] = {"an exit is not seen", ends},
	[HELD_LATE] = {"queues are held after the exit has opened", stuck},
	[LEAVE_LATE] = {"`leave` is closed after the exit has opened", stuck},
	[HOLDS_AT_EXIT] = {"gates wait for memory after the exit has opened", stuck},
	[EXIT_HOLDS] = {"the exit does not open for them", stuck},
	[OPENS_UNMAPPED] = {"it opens before all is mapped", opens},
};

static void test_faults_are_found(void **state)
{
	size_t states;

#ifdef __SANITIZE_ADDRESS__
	skip(); /* the same code as above, eighteen times */
#endif
	if (brief())
		skip();
	for (unsigned f = 1; f < FAULTS; f++) {
		const char *what = NULL;

		for (unsigned i = 0; i < SCENARIOS && !what; i++)
			what = explore(&scenarios[i], (enum fault)f, &states);
		if (!what || strcmp(what, faults[f].breaks) != 0)
			fail_msg("%s: found: %s", faults[f].name, what ? what : "nothing");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_is_sound),
		cmocka_unit_test(test_faults_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
