/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon and the process of a policy by users say to each other, over a socketpair of
 * sequenced packets. Both are the same executable, so there are no versions here. The daemon
 * believes nothing that comes back.
 */
#pragma once
#include "policy/policy.h"
#include <stdint.h>

#define WIRE_SOCKET 3 /* descriptors of the process */
#define WIRE_OBJECT 4
#define WIRE_BATCH  32
#define WIRE_REASON 48

enum wire_type {
	WIRE_INIT, /* value[]: settings; answered by a reply */
	WIRE_JOIN,
	WIRE_LEAVE,
	WIRE_READY,
	WIRE_IDLE,
	WIRE_CHARGE,
	WIRE_HINT,
	WIRE_DECIDE, /* answered by a reply */
};

/* A packet is an array of these. With it comes the state of the group that it is about. */
struct wire_event {
	uint32_t type, device, slot;
	uint8_t ready, running, unused[2];
	uint64_t id, now, ready_since, served_ns;
	uint64_t ns;     /* of a charge */
	uint64_t serial; /* of what is to be answered */
	int64_t value[FM_HINT_COUNT];
};
_Static_assert((int)FM_HINT_COUNT >= FM_POLICY_PARAMS, "settings travel in the place of hints");

struct wire_reply {
	uint64_t serial;
	int32_t rc; /* not 0: the policy has failed, and reason says how */
	uint32_t n, all;
	uint32_t run[FM_RUN_MAX]; /* slots */
	uint64_t next;
	char reason[WIRE_REASON]; /* "" for none */
};

struct wire_setting {
	char name[24], unit[8], help[80];
	int64_t min, max, def;
};

/* The first word of the process. */
struct wire_hello {
	char error[200]; /* not "": it could not be loaded */
	char summary[96];
	uint32_t flags, n;
	struct wire_setting setting[FM_POLICY_PARAMS];
};
