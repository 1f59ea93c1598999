/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laboratory: what a policy promises, tried in scenarios and checked on the events of a
 * simulation. A scenario is run for a policy that promises all that it is about; what holds for
 * every promise at all times is checked in all of them.
 */
#pragma once
#include "sim.h"

/* X(ID, name, what it means). */
#define FM_LAB_PROMISES(X)                                                                 \
	X(FM_LAB_CONSERVES, "conserves", "no device is idle while a group on it has work") \
	X(FM_LAB_ALONE, "alone", "no more groups run at a time than it says")              \
	X(FM_LAB_CALM, "calm", "no more stops than turns of 2 ms and jobs make")           \
	X(FM_LAB_OPEN, "open", "no gate is ever closed to a group with work")              \
	X(FM_LAB_SERVES, "serves", "nobody starves, whatever the hints")                   \
	X(FM_LAB_EQUAL, "equal", "groups without hints have equal parts")                  \
	X(FM_LAB_WEIGHT, "weight", "parts are as the weights")                             \
	X(FM_LAB_SHARE, "share", "reserved parts are kept")                                \
	X(FM_LAB_PRIORITY, "priority", "the highest priority never waits for lower ones")  \
	X(FM_LAB_ORDER, "order", "nor on another device")                                  \
	X(FM_LAB_FOREGROUND, "foreground", "nor does the foreground for the background")   \
	X(FM_LAB_DEADLINE, "deadline", "deadlines are kept where that is possible")        \
	X(FM_LAB_SHORT, "short", "short jobs come before long ones, without hints")        \
	X(FM_LAB_WAKES, "wakes", "who works little runs soon")

enum fm_lab_promise {
#define FM_LAB_ID(id, name, what) id,
	FM_LAB_PROMISES(FM_LAB_ID)
#undef FM_LAB_ID
		FM_LAB_PROMISE_COUNT
};
#define FM_LAB_BIT(promise) (1u << (promise))

const char *fm_lab_promise_name(enum fm_lab_promise p); /* NULL past the last */
const char *fm_lab_promise_text(enum fm_lab_promise p);

/* A policy with settings, and what it promises with them. */
struct fm_lab_subject {
	const char *policy;
	const char *setting[4]; /* "key=value" */
	uint32_t promises;
	unsigned at_once; /* groups of one device that run at a time */
};

/* Those that are built in, some more than once. Ends with a NULL name. */
extern const struct fm_lab_subject fm_lab_subjects[];

/* One property of one scenario. */
struct fm_lab_finding {
	const char *scenario, *property;
	bool holds;
	char text[120]; /* what was seen */
};

/* finding() answers whether to go on with the next scenario; wants(), whether to try this one.
 * NULL: all. */
struct fm_lab_report {
	bool (*finding)(void *ctx, const struct fm_lab_finding *f);
	void *ctx;
	bool (*wants)(void *ctx, const char *scenario);
};

/* All scenarios that bear on the subject. ops: what its policy is. *failed counts what does not
 * hold. report may be NULL. 0, or a negative errno with err when a simulation could not be made. */
int fm_lab_run(const struct fm_lab_subject *s, const struct fm_policy_ops *ops,
	const struct fm_lab_report *report, unsigned *failed, struct fm_err *err);
