// SPDX-License-Identifier: Apache-2.0
/* gpu_model.h explored: nothing is wrong, and each planted fault is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../rounds.h"
#include "gpu_model.h"
#include <stdio.h>

static const struct scenario scenarios[] = {
	{"two releases of one task", 1, 1, {2, 0, 0}, {{RELEASE0}, {RELEASE0}}, false, false},
	{"two tasks at once", 2, 1, {1, 1, 1}, {{RELEASE0}, {RELEASE1}}, false, false},
	{"chunks", 1, 2, {2, 2, 0}, {{RELEASE0}, {RELEASE1}}, false, false},
	{"a refill", 2, 1, {0, 1, 0}, {{RELEASE0, RELEASE1}, {REFILL0}}, false, false},
	{"a park", 1, 1, {1, 1, 0}, {{RELEASE0, RELEASE1}, {PARK, UNPARK}}, false, false},
	{"three tasks", 2, 1, {1, 1, 1}, {{RELEASE0, RELEASE1, RELEASE2}}, false, false},
	{"a resident and words", 1, 1, {1, 1, 0}, {{RESIDE}, {WORD0, WORD1}}, false, false},
	{"a resident is parked", 1, 1, {1, 0, 0}, {{RESIDE}, {WORD0}, {PARK}}, false, false},
	{"a resident comes again", 1, 1, {1, 0, 0}, {{RESIDE}, {WORD0}, {PARK, UNPARK, RESIDE}},
		false, false},
	{"a resident and a reader", 1, 1, {1, 0, 0}, {{RESIDE}, {WORD0}, {READ}}, false, false},
	{"a resident leaves", 1, 1, {2, 0, 0}, {{RESIDE}, {WORD0}, {GO}}, false, false},
	{"a resident, releases, a reader", 2, 1, {1, 1, 0}, {{RESIDE}, {RELEASE0, WORD1}, {READ}},
		false, false},
	{"a stop for a more urgent one", 1, 1, {9, 9, 0}, {{RELEASE0}, {RELEASE1}}, true, false},
	{"a stop and a park", 1, 1, {9, 0, 0}, {{RELEASE0}, {PARK, UNPARK}}, true, true},
	/* With FERMATA_TEST_LONG=1, of some million states: */
	{"three tasks and a park", 2, 1, {1, 1, 1},
		{{RELEASE0, RELEASE1, RELEASE2}, {PARK, UNPARK}}, false, false},
	{"a refill and a park", 2, 1, {0, 1, 0}, {{RELEASE0, RELEASE1}, {REFILL0}, {PARK, UNPARK}},
		false, false},
	{"a resident among all", 2, 1, {1, 2, 0},
		{{RESIDE, RELEASE0}, {WORD1, RELEASE1}, {PARK, UNPARK, RESIDE}}, false, false},
	{"a stop and chunks", 1, 2, {9, 9, 0}, {{RELEASE0}, {RELEASE1}}, true, false},
	{"two stops", 1, 1, {9, 9, 9}, {{RELEASE0}, {RELEASE1, RELEASE2}}, true, false},
};
#define SHORT 14

static unsigned scenarios_here(void)
{
	const char *said = getenv("FERMATA_TEST_LONG");

	return said && *said == '1' ? sizeof(scenarios) / sizeof(scenarios[0]) : SHORT;
}

static void nothing_is_wrong(void **state)
{
	for (unsigned i = 0; i < scenarios_here(); i++) {
		size_t n = explore(&scenarios[i], NO_FAULT);

		if (run.broken)
			fail_msg("%s: %s", scenarios[i].name, run.broken);
		if (scenarios[i].stops && !run.cuts)
			fail_msg("%s: no chunk was cut", scenarios[i].name);
		if (strstr(scenarios[i].name, "park") && !run.stops)
			fail_msg("%s: no stop was seen", scenarios[i].name);
		print_message("%s: %zu states\n", scenarios[i].name, n);
		assert_true(n > (scenarios[i].op[0][0] == RESIDE ? 200u : 5000u));
	}
}

static const char *const found_by[FAULTS] = {
	[NO_SECOND_LOOK] = "a release was lost",
	[NO_TURN] = NULL, /* whatever comes first */
	[BELL_FIRST] = "a release was lost",
	[LOST_ADD] = "a release was lost",
	[NO_KICK] = "a release was lost",
	[SILENT_UNPARK] = "a stop does not end",
	[SILENT_REFILL] = "a release was lost",
	[PARK_UNSEEN] = "opened by a decision after the park",
	[QUEUED_UNSEEN] = "opened for nothing",
	[WORD_UNSEEN] = "a release was lost",
	[READER_UNSEEN] = "somebody waits for ever",
	[STAYS_PARKED] = "a resident is there, and the set is parked",
	[NEVER_OVER] = "a decision of a stop opens a gate",
	[STOP_UNSEEN] = "a gate stays closed, and it is no stop",
	[CUT_UNSEEN] = "a chunk that was cut counts as complete, or the other way round",
	[STOP_STAYS] = "a chunk begins as one that is to stop",
	[STOPS_ANOTHER] = "a chunk that does not run is told to stop",
};

static void each_fault_is_found(void **state)
{
	if (brief())
		skip();
	for (enum fault f = NO_FAULT + 1; f < FAULTS; f++) {
		const char *how = NULL;

		for (unsigned i = 0; i < SHORT && !how; i++) {
			if (f >= CUT_UNSEEN && !scenarios[i].stops)
				continue;
			explore(&scenarios[i], f);
			how = run.broken;
		}
		if (!how)
			fail_msg("fault %d is not found", f);
		if (found_by[f])
			assert_string_equal(how, found_by[f]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_wrong),
		cmocka_unit_test(each_fault_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
