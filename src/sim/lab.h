/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laboratory tries a policy's promises in scenarios, and checks them by the events of a
 * simulation. A scenario is run if the policy makes all promises that the scenario is about. What a
 * promise says about any time is checked in every scenario.
 */
#pragma once
#include "sim.h"

const char *fm_lab_promise_name(enum fm_promise p); /* NULL past the last */
const char *fm_lab_promise_text(enum fm_promise p);

/* A policy's promises (policy/policy.h), or, if it makes none, those that every policy must keep.
 */
const struct fm_policy_promise *fm_lab_promises(const struct fm_policy_ops *ops);

/* One property of one scenario. */
struct fm_lab_finding {
	const char *scenario, *property;
	bool holds;
	char text[120]; /* what was seen */
};

/* finding() returns whether to go on with the next scenario; wants(), whether to run this one.
 * wants NULL: run all. */
struct fm_lab_report {
	bool (*finding)(void *ctx, const struct fm_lab_finding *f);
	void *ctx;
	bool (*wants)(void *ctx, const char *scenario);
};

/* Runs all scenarios that are about promises of the policy. *failed counts properties that do not
 * hold. report may be NULL. Returns 0, or a negative errno with err if a simulation failed. */
int fm_lab_run(const struct fm_policy_ops *ops, const struct fm_policy_promise *promise,
	const struct fm_lab_report *report, unsigned *failed, struct fm_err *err);
