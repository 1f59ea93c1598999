/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon's side is made of: process.c runs and asks the process, plugin.c is the table. */
#pragma once
#include "base/list.h"
#include "plugin.h"
#include "wire.h"
#include <sys/types.h>

struct slot {
	struct fm_ent *ent; /* NULL: free */
	uint32_t device;
	uint32_t next_free;
	uint64_t mark; /* serial of the last answer that named it */
};

#define NO_SLOT         UINT32_MAX
#define PLUGIN_WARNINGS 3 /* within a minute; who is late once more is dropped */

struct fm_plugin {
	struct fm_policy_ops ops;
	struct fm_policy_param param[FM_POLICY_PARAMS + 1];
	struct wire_hello hello; /* checked; the texts of ops and param */
	char name[FM_PLUGIN_NAME];
	uint64_t budget_ns, average_ns;
	pid_t pid; /* 0: ended */
	int fd;
	bool adopted, replay;
	char failure[160]; /* "": well */
	/* Answers that it owes: each was waited for as long as the budget is. late_at: when that
	 * was noted last. */
	unsigned owed;
	uint64_t late_at;
	uint64_t warned[PLUGIN_WARNINGS]; /* when, the latest ones */
	char warning[PLUGIN_WARNINGS][FM_PLUGIN_WARNING];
	unsigned n_warnings; /* of those, not taken yet */
	struct slot *slots;
	uint32_t n_slots, free_slot, n_devices;
	struct wire_event batch[WIRE_BATCH];
	unsigned n_batch;
	uint64_t serial;
};

/* One on each device. */
struct instance {
	struct fm_plugin *p;
	uint32_t device;
	struct fm_list ready; /* by when they became ready: the order when the plug-in has failed */
	unsigned at_once;     /* answers in a row that wish to be asked again at once */
};

struct member {
	struct fm_list node; /* in ready */
	struct fm_ent *ent;
	uint32_t slot;
};

/* process.c */
int process_start(struct fm_plugin *p, const char *host, int object, struct fm_err *err);
void process_end(struct fm_plugin *p);
/* The next event to fill in; all before it may be sent. Only of a plug-in that is well. */
struct wire_event *process_event(struct fm_plugin *p);
/* Send all events, the last of which is to be answered, and wait for the answer. -EIO: failed.
 * -ETIMEDOUT, with `may_be_late`: it owes the answer, and is well. */
int process_ask(struct fm_plugin *p, uint64_t budget_ns, bool may_be_late, struct wire_reply *r);
/* Without waiting: has it given all answers that it owes, which nobody waits for any more? */
bool process_caught_up(struct fm_plugin *p);
void process_fail(struct fm_plugin *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Made fit for people and JSON, in place. */
void process_clean(char *text, size_t size);
