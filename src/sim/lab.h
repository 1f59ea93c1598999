/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laboratory: what a policy promises, tried in scenarios and checked on the events of a
 * simulation. A scenario is run for a policy that promises all that it is about; what holds for
 * every promise at all times is checked in all of them.
 */
#pragma once
#include "sim.h"

const char *fm_lab_promise_name(enum fm_promise p); /* NULL past the last */
const char *fm_lab_promise_text(enum fm_promise p);

/* What a policy promises (policy/policy.h), or what any must keep where it says nothing. */
const struct fm_policy_promise *fm_lab_promises(const struct fm_policy_ops *ops);

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

/* All scenarios that are about what is promised. *failed counts what does not hold. report may be
 * NULL. 0, or a negative errno with err when a simulation could not be made. */
int fm_lab_run(const struct fm_policy_ops *ops, const struct fm_policy_promise *promise,
	const struct fm_lab_report *report, unsigned *failed, struct fm_err *err);
