/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the scheduler core share.
 *
 * An entity is on its device's `active` list while it may occupy the device: it counts as ready and
 * its gate is open, or it is draining (its gate was closed and it has not come to rest). It is on
 * the `hot` list while it is idle and among the FM_HOT_MAX that went idle last; only of those is
 * the policy asked whether the gate may stay open. So a decision looks at few entities, however
 * many there are.
 */
#pragma once
#include "base/heap.h"
#include "base/list.h"
#include "sched.h"

#define FM_HOT_MAX       16
#define FM_SEGMENT_DEPTH 32
#define FM_POLL_MIN      (50 * FM_US) /* how often a draining entity is looked at when nobody rings */
#define FM_POLL_MAX      (10 * FM_MS)

struct fm_sched {
	struct fm_sched_host host;
	void *ctx;
	const struct fm_policy_ops *ops;
	int64_t params[FM_POLICY_PARAMS];
	uint64_t policies; /* fm_sched_policy() so far */
	void *shared;      /* the object that the policy's instances share, or NULL */
	uint64_t linger;
	uint64_t now; /* of the latest call: time does not go back */
	struct fm_list devices, groups;
	struct fm_heap timers;  /* struct fm_sdev.timer, one each */
	struct fm_heap lingers; /* struct fm_sent.linger */
	size_t n_devices, n_ents;
	uint64_t last_id;
	struct fm_sched_stats stats;
};

struct fm_sdev {
	struct fm_list node; /* in sched->devices */
	struct fm_sched *s;
	char *key;
	void *self;       /* the policy's instance */
	bool binds_alone; /* decisions matter to one alone on the device too */
	bool all;         /* the last decision was: everybody runs */
	struct fm_heap_node timer;
	struct fm_list ents, active, hot;
	struct fm_list touched; /* may need other bells or, under `all`, an open gate */
	unsigned n_ents, n_ready, n_draining, n_hot, n_run;
	struct fm_sent *run[FM_RUN_MAX]; /* chosen by the last decision */
	uint64_t epoch;                  /* of the decision */
	uint64_t visit;                  /* of fm_sdev_each_active() */
	uint64_t wish;                   /* the policy's next */
	uint64_t poll_at, poll_every;    /* while n_draining */
	struct fm_hist preempt;
};

struct fm_sgroup {
	struct fm_list node; /* in sched->groups */
	struct fm_list ents;
	struct fm_hints hints, effective;
	bool suspended;
	unsigned depth;
	int32_t segment[FM_SEGMENT_DEPTH]; /* priorities, outermost first */
};

struct fm_sent {
	struct fm_ent pub;
	struct fm_sdev *d;
	struct fm_sgroup *g;
	void *data;
	struct fm_list in_dev, in_group, active, hot, touched;
	struct fm_heap_node linger;            /* in the heap: idle, but still counted as ready */
	bool work, gate_open, draining, fresh; /* fresh: the owner knows no gate yet */
	bool wants_open;                       /* scratch of a decision, for a hot one */
	bool bell_ready, bell_idle;            /* as last told to the owner */
	uint64_t epoch;                        /* of the decision that chose it last */
	uint64_t visit;
	uint64_t closed_at, charged_to, usage;
	uint64_t wait_from, wait_ns; /* FM_NEVER: not waiting */
	uint64_t preemptions;
	const char *reason;
	void *spare; /* priv of the policy to come, while policies change */
};

static inline struct fm_sent *fm_sent_of(struct fm_ent *e)
{
	return fm_container(e, struct fm_sent, pub);
}

static inline uint64_t fm_core_now(struct fm_sched *s, uint64_t now)
{
	s->now = FM_MAX(s->now, now);
	return s->now;
}

static inline bool fm_core_lingers(const struct fm_sent *e)
{
	return fm_heap_has(&e->linger);
}

/* charge.c: account device time up to t, and notice who has come to rest by then. Under native
 * order only the entity named is charged, for there may be many; fm_core_settle_each() charges them
 * all. */
void fm_core_settle(struct fm_sdev *d, uint64_t t);
void fm_core_settle_ent(struct fm_sent *e, uint64_t t);
void fm_core_settle_each(struct fm_sdev *d, uint64_t t);
void fm_core_drained(struct fm_sent *e, uint64_t since);
void fm_core_note_wait(struct fm_sent *e, uint64_t now);
uint64_t fm_core_unsettled(const struct fm_sent *e, uint64_t t);

/* decide.c: ask the policy and turn the difference into gates, timer and bells. */
void fm_core_decide(struct fm_sdev *d, uint64_t now);
void fm_core_gate(struct fm_sent *e, bool open, const char *reason, uint64_t now);
void fm_core_ring(struct fm_sdev *d);
void fm_core_touch(struct fm_sent *e);
void fm_core_touch_all(struct fm_sdev *d);

/* switch.c: an object for the instances of a policy to share, NULL where it has none: -ENOMEM; a
 * new instance, with nobody in it; and does it bind an entity that is alone on its device? */
int fm_core_new_shared(const struct fm_policy_ops *ops, void **out);
int fm_core_new_instance(
	const struct fm_policy_ops *ops, void *shared, const int64_t *params, void **out);
bool fm_core_binds_alone(const struct fm_policy_ops *ops, const void *self);

/* state.c: the entity as the policy counts it. None of these decides. */
void fm_core_set_ready(struct fm_sent *e, uint64_t at, uint64_t now);
void fm_core_unready(struct fm_sent *e, uint64_t now); /* and it becomes neither hot nor cold */
void fm_core_set_idle(struct fm_sent *e, uint64_t now);
void fm_core_refresh(struct fm_sent *e, uint64_t now); /* after a change of its group */
void fm_core_heat(struct fm_sent *e, uint64_t now);
void fm_core_cool(struct fm_sent *e);
void fm_core_told(struct fm_sent *e, uint64_t now); /* its hints or its job are new */
