/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hints: a program or an operator tells the policy about a group. A policy uses the hints that it
 * knows and ignores the others, so hints survive a change of policy.
 *
 * FM_HINT_MAP has all ranges and units: X(ID, name, min, max, default, unit).
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
 * policy's. runtime: expected device time of a job, 0: learnt from earlier jobs. foreground: 1: the
 * user works with the group at present. latency-nice: under `fair`, negative values make the
 * group's turns sooner and shorter, positive ones later and longer; its share stays the same. gang:
 * 1, a group with work on several devices runs on all of them or on none; 0, each device is
 * scheduled separately. level: deepest level at which its queues are stopped: 2, only at gates; 3,
 * also in the middle of a command, where possible. guard-from: length of the shortest command that
 * is stopped in the middle; 0: the device's setting. memory-limit: the most device memory that the
 * group may have on each device, in bytes; 0: no limit of its own. memory-request: device memory
 * that the group is to have for itself whatever others need. memory-pin: 1: the group's memory
 * stays on the device. idle-out: when the group has been idle for so long, its memory goes to the
 * host, if it may be moved; 0: only when others need the room. pad: on how many multiprocessors the
 * group goes on while more urgent work of its process has the device: 0, 8, 16, ... 64;
 * FM_PAD_AUTO: as many as make that work 3 % longer at most; FM_PAD_AUTO_AT(5): 5 %, from 1 to 50;
 * FM_PAD_DEVICE: the device's setting.
 * docs/policies.md has the hints of each policy, docs/memory.md those about memory.
 */
#define FM_PAD_AUTO             (-1)
#define FM_PAD_DEVICE           (-2)
#define FM_PAD_AUTO_AT(percent) (-100 - (percent))

#define FM_MEMORY_MAX INT64_C(1125899906842624) /* 1 PiB */

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
	X(FM_HINT_GUARD_FROM, "guard-from", 0, INT64_C(10000000000), 0, "ns")    \
	X(FM_HINT_MEMORY_LIMIT, "memory-limit", 0, FM_MEMORY_MAX, 0, "B")        \
	X(FM_HINT_MEMORY_REQUEST, "memory-request", 0, FM_MEMORY_MAX, 0, "B")    \
	X(FM_HINT_MEMORY_PIN, "memory-pin", 0, 1, 0, "")                         \
	X(FM_HINT_IDLE_OUT, "idle-out", 0, INT64_C(604800000000000), 0, "ns")    \
	X(FM_HINT_PAD, "pad", FM_PAD_AUTO_AT(50), 64, FM_PAD_DEVICE, "")

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
