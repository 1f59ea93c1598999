/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy can promise. The promises are data in the policy's table (policy.h); the laboratory
 * (src/sim/lab.h) tries them in scenarios, and checks them on the events of a simulation.
 */
#pragma once
#include <stdint.h>

/* X(ID, name, what it means). */
#define FM_PROMISES(X)                                                                         \
	X(CONSERVES, "conserves", "no device is idle while a group on it has work")            \
	X(ALONE, "alone", "no more groups run at a time than it says")                         \
	X(CALM, "calm", "no more stops than turns of 2 ms and jobs make")                      \
	X(OPEN, "open", "no gate is ever closed to a group with work")                         \
	X(SERVES, "serves", "no group starves, whatever the hints")                            \
	X(EQUAL, "equal", "groups without hints have equal parts")                             \
	X(WEIGHT, "weight", "parts are in proportion to weights")                              \
	X(SHARE, "share", "reserved parts are kept")                                           \
	X(PRIORITY, "priority", "the highest priority never waits for lower ones")             \
	X(ORDER, "order", "the highest priority never waits for lower ones on another device") \
	X(FOREGROUND, "foreground", "the foreground never waits for the background")           \
	X(DEADLINE, "deadline", "deadlines are kept where that is possible")                   \
	X(SHORT, "short", "short jobs come before long ones, without hints")                   \
	X(WAKES, "wakes", "groups that work little run soon")

enum fm_promise {
#define FM_PROMISE_ID(id, name, what) FM_PROMISE_##id,
	FM_PROMISES(FM_PROMISE_ID)
#undef FM_PROMISE_ID
		FM_PROMISE_COUNT
};

/* A set of promises. */
#define FM_PROMISE_BIT(p) (UINT32_C(1) << (p))
#define FM_PROMISE(id)    FM_PROMISE_BIT(FM_PROMISE_##id)
/* The promises of a policy that names none. Any policy that is not broken keeps them. */
#define FM_PROMISE_SOUND (FM_PROMISE(CONSERVES) | FM_PROMISE(ALONE) | FM_PROMISE(CALM))

#define FM_PROMISE_SETTINGS 4

/* What a policy promises with some of its settings. */
struct fm_policy_promise {
	const char *setting[FM_PROMISE_SETTINGS]; /* "key=value", the first ones; NULL: no more */
	uint32_t bits;                            /* FM_PROMISE(...) | ...; 0 ends an array */
	unsigned at_once; /* groups of one device that run at a time; 0: as many as are ready */
};
