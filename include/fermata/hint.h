/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hints: what a program or an operator tells the policy about a group. A policy reads those it
 * understands and ignores the rest, so hints survive a change of policy.
 *
 * Ranges and units stand in FM_HINT_MAP, the one place that names them: X(ID, name, min, max,
 * default, unit).
 */
#ifndef FERMATA_HINT_H
#define FERMATA_HINT_H
#include <stdint.h>

#define FM_PRIORITY_MIN      (-255)
#define FM_PRIORITY_LOW      (-64)
#define FM_PRIORITY_NORMAL   0
#define FM_PRIORITY_HIGH     64
#define FM_PRIORITY_REALTIME 128
#define FM_PRIORITY_MAX      255

/* The weight of a group that has neither weight nor share. */
#define FM_WEIGHT_DEFAULT 100

/* priority: larger is more urgent. weight: proportion under `fair`. share: percent of the device
 * reserved (`bandwidth`) or, under `fair`, the weight when no weight is set. deadline: relative to
 * a job's arrival. period: between arrivals. slice: round-robin quantum of this group, 0: the
 * policy's. runtime: device time that a job is expected to take, 0: learnt from the jobs before.
 * foreground: 1: the group that the user works with at present. latency-nice: below 0 the group's
 * turns under `fair` come sooner and are shorter, above 0 later and longer; its share stays.
 * gang: 1, where the group works on several devices it runs on all of them or on none; 0, each
 * device decides for itself. level: how deep its queues are stopped, at most: 2, at gates alone; 3,
 * in the middle of a command, where that can be done. guard-from: in the middle of commands that
 * take so long, or longer; 0: as the device has it. docs/policies.md says which policy reads what.
 */
#define FM_HINT_MAP(X)                                                           \
	X(FM_HINT_PRIORITY, "priority", FM_PRIORITY_MIN, FM_PRIORITY_MAX, 0, "") \
	X(FM_HINT_WEIGHT, "weight", 0, 10000, 0, "")                             \
	X(FM_HINT_SHARE, "share", 0, 100, 0, "%")                                \
	X(FM_HINT_DEADLINE, "deadline", 0, INT64_C(3600000000000), 0, "ns")      \
	X(FM_HINT_PERIOD, "period", 0, INT64_C(3600000000000), 0, "ns")          \
	X(FM_HINT_SLICE, "slice", 0, INT64_C(10000000000), 0, "ns")              \
	X(FM_HINT_RUNTIME, "runtime", 0, INT64_C(3600000000000), 0, "ns")        \
	X(FM_HINT_FOREGROUND, "foreground", 0, 1, 0, "")                         \
	X(FM_HINT_LATENCY_NICE, "latency-nice", -20, 19, 0, "")                  \
	X(FM_HINT_GANG, "gang", 0, 1, 1, "")                                     \
	X(FM_HINT_LEVEL, "level", 2, 3, 3, "")                                   \
	X(FM_HINT_GUARD_FROM, "guard-from", 0, INT64_C(10000000000), 0, "ns")

enum fm_hint {
#define FM_HINT_ID(id, name, min, max, def, unit) id,
	FM_HINT_MAP(FM_HINT_ID)
#undef FM_HINT_ID
		FM_HINT_COUNT
};

struct fm_hints {
	int64_t value[FM_HINT_COUNT];
};

#endif
