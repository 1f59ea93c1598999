/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler core: groups, devices, events in, decisions out. Time is an argument and there is
 * no I/O: the daemon, local mode and the simulator drive the same core.
 *
 * An entity is one group on one device. The owner reports what happens to it (ready, idle); the
 * core asks the policy, and tells the owner through host->gate() which gates to open and to close.
 * Within a call gates are closed before others are opened. fm_sched_next() says when
 * fm_sched_tick() is due.
 *
 * A group that counts as ready on several devices is a gang: its gates are open on all devices on
 * which it has work, or on none (gang.c).
 *
 * Device time. The core charges an entity while it occupies the device, which means that it is
 * ready and its gate is open, or closed but not yet stalled. An entity that is let in while another
 * drains is charged from the other's stall on. When only one entity is ready, its charge is capped
 * by host->usage(), because the pauses of a lone program are not reported and must not be charged.
 *
 * Owns: groups, devices, their entities and the policies' instances.
 * Locks: none.
 * Threads: one at a time, its owner: the daemon's loop, the holder of the link's lock in local
 * mode, or a thread of the simulator, which has a core of its own.
 */
#pragma once
#include "base/err.h"
#include "base/hist.h"
#include "policy/forecast.h"

struct fm_sched;
struct fm_sched_dev;   /* device */
struct fm_sched_group; /* group */
struct fm_sched_ent;   /* entity: one group on one device */

/* Only gate is required. bells may report an edge of the entity that it is called for, because the
 * board may show one by then. Otherwise callbacks must not call back into the core. */
struct fm_sched_host {
	/* Open or close the gates of an entity: one store per queue. reason lives as long as the
	 * core. */
	void (*gate)(void *ctx, void *ent_data, bool open, const char *reason, uint64_t now);
	/* Has an entity whose gate is closed come to rest? If so, *since is the time when it did.
	 * NULL: entities come to rest at once. */
	bool (*stalled)(void *ctx, void *ent_data, uint64_t *since);
	/* Cumulative device nanoseconds as the client measures them. NULL: wall time is charged. */
	uint64_t (*usage)(void *ctx, void *ent_data, uint64_t now);
	/* The edges that the core wants to hear about at once. Others may be reported late. */
	void (*bells)(void *ctx, void *ent_data, bool want_ready, bool want_idle);
	/* An entity whose gate was closed came to rest at `at`, `took` ns after that. May be NULL.
	 */
	void (*rested)(void *ctx, void *ent_data, uint64_t took, uint64_t at);
	/* A decision is about to be applied to the gates: fm_sched_dev_decision() tells which. May
	 * be NULL. */
	void (*decided)(void *ctx, const struct fm_sched_dev *d, uint64_t now);
};

struct fm_sched_stats {
	uint64_t events, decisions, preemptions; /* preemptions: gates closed on a ready entity */
	uint64_t gate_stores;
};

/* State of an entity as users see it. */
enum fm_ent_state { FM_ENT_IDLE, FM_ENT_READY, FM_ENT_RUNNING, FM_ENT_SUSPENDED };

struct fm_ent_info {
	enum fm_ent_state state;
	bool gate_open;
	uint64_t served_ns, ready_wait_ns; /* device time; time ready but not running */
	uint64_t preemptions;
	const char *reason; /* of its last gate change, or why its gang is held; or NULL */
};

/* Where the wall time of an entity went since it joined: ran, idle, withheld by hand, withheld over
 * its budget, or waited. These add up to its age to the nanosecond. Ran: it had work or was inside
 * a declared segment, and it had the device; the time in which it came to rest after its gate had
 * closed counts, too. Waited: it had work or was inside a segment, but did not have the device. */
enum fm_wait {
	FM_WAIT_POLICY,   /* the policy chose others */
	FM_WAIT_NOBODY,   /* the policy let none run: a limit, or work on another device */
	FM_WAIT_GANG,     /* a gang, refused on another of its devices */
	FM_WAIT_DEMOTED,  /* the policy chose others, and it is below all: over its budget */
	FM_WAIT_DRAINING, /* chosen, but the entity that had the device was not at rest yet */
	FM_WAIT_RESOURCE, /* chosen, and a resource that it needs was not ready */
	FM_WAITS
};
const char *fm_wait_name(enum fm_wait w);

#define FM_CULPRITS 8
#define FM_RECENT   (30 * FM_S)
#define FM_WHO_NAME 64

/* A group as accounts name it. It is kept after the group's end for as long as an account of an
 * entity that waited for it has it. */
struct fm_who {
	uint64_t id; /* from 1, of this core */
	uint32_t uid;
	bool gone;
	char name[FM_WHO_NAME];
	unsigned refs; /* the core's */
};

struct fm_account {
	uint64_t age_ns, ran_ns, idle_ns, by_hand_ns, over_budget_ns;
	uint64_t wait_ns[FM_WAITS];
	/* The same time by the group that held the device meanwhile, longest first; others_ns is
	 * for other groups or none. Groups that held it at once share the time. For a gang: the
	 * groups that held the device that it waited for. who is valid until the core is called
	 * again. */
	struct fm_culprit {
		const struct fm_who *who;
		uint64_t ns;
	} culprit[FM_CULPRITS];
	unsigned n_culprits;
	uint64_t others_ns;
	/* What it waits for now, and for how long already. holder is the first group that holds the
	 * device, or NULL; rule is the reason of the policy's decision. */
	bool waiting;
	enum fm_wait why;
	const char *rule;
	const struct fm_who *holder;
	uint64_t waiting_ns;
	/* Waits that ended with running. Quantiles to a fifth. */
	uint64_t waits, wait_p50, wait_p99, wait_max;
	/* The same, of the waits in the last FM_RECENT to twice FM_RECENT. */
	uint64_t recent, recent_p50, recent_p99;
};

int fm_sched_new(struct fm_sched **out, const struct fm_sched_host *host, void *ctx);
void fm_sched_free(struct fm_sched *s);

/* Set the policy of every device, present and future. params: n strings "key=value". On -ENOENT,
 * -EINVAL, -ERANGE or -ENOMEM err has a text and the old policy goes on as if the call had not been
 * made. Hints are kept. The initial policy is "fixed-priority". */
int fm_sched_policy(struct fm_sched *s, const char *name, const char *const *params, size_t n,
	uint64_t now, struct fm_err *err);
/* The same with a table that is not built in. ops must stay valid until another policy is in force.
 */
int fm_sched_use(struct fm_sched *s, const struct fm_policy_ops *ops, const char *const *params,
	size_t n, uint64_t now, struct fm_err *err);
const struct fm_policy_ops *fm_sched_policy_ops(const struct fm_sched *s);
uint64_t fm_sched_policies(
	const struct fm_sched *s); /* how often it was changed, or its settings */
const int64_t *fm_sched_policy_params(
	const struct fm_sched *s); /* in params[] order, times in ns */

/* user: policies that can (fm_policy_ops.by_user) divide a device among users first, and then among
 * the groups of each user. A group's user is set by fm_sched_label() before its first entity joins.
 * The setting holds from the next fm_sched_policy() or fm_sched_use() on. Default: no. */
void fm_sched_fair_by(struct fm_sched *s, bool user);
bool fm_sched_fair_by_user(const struct fm_sched *s); /* and the policy in force can */

/* How long an entity that went idle keeps the device, so that a program does not lose the device in
 * its short pauses. FM_LINGER_AUTO, the default: as long as this costs less than giving the device
 * away, by what the core has learnt of the entity's pauses and of the device (linger.c). Any other
 * value: always that long. FM_LINGER_MOST is the most that is learnt; for a group with a grant or
 * on several devices it is FM_LINGER_BOUND. */
#define FM_LINGER_AUTO  UINT64_MAX
#define FM_LINGER_MOST  (2 * FM_MS)
#define FM_LINGER_BOUND (100 * FM_US)
void fm_sched_linger(struct fm_sched *s, uint64_t ns);
/* What a hand-over of the device costs now, beside the switch: memory that has to move for it.
 * Default: 0. */
void fm_sched_dev_handover(struct fm_sched_dev *d, uint64_t ns);
uint64_t fm_sched_get_linger(const struct fm_sched *s);

/* For a device that takes turns by itself when several entities have work: an entity that drains
 * shares it with the one that was let in, once that one has waited so long. Default FM_NEVER: the
 * device takes no turns. */
void fm_sched_turns(struct fm_sched *s, uint64_t ns);

/* Ask for both edges of every entity at once, also of one that is alone on its device and under
 * native order. A recording needs this, because it has to know every job. Returns whether the
 * setting changed. */
bool fm_sched_exact(struct fm_sched *s, bool exact, uint64_t now);

int fm_sched_device_add(struct fm_sched *s, struct fm_sched_dev **out, const char *key);
const char *fm_sched_dev_key(const struct fm_sched_dev *d);
const struct fm_hist *fm_sched_dev_preempt_hist(
	const struct fm_sched_dev *d); /* gate closed to stall */

/* What its last decision was. */
struct fm_decision {
	void *first; /* data of the first chosen entity; NULL: none was chosen */
	unsigned chosen, ready;
	bool all; /* every entity may run */
	const char *reason;
};
void *fm_sched_dev_first(const struct fm_sched_dev *d);
void fm_sched_dev_decision(const struct fm_sched_dev *d, struct fm_decision *out);

/* Which entities will have a device from now on: the policy's forecast, with its promises
 * (policy/forecast.h). An entity that lingers is taken to be idle soon. An entity that awaits a
 * resource is forecast as if it did not. A turn ends later than forecast by the time that the
 * entity takes to come to rest. Also -ENOTSUP if a gang has work, because its turns depend on other
 * devices. decided() may call this. */
struct fm_sturn {
	void *data; /* of the entity */
	uint64_t from, until;
	uint8_t sure;
};
struct fm_sforesight {
	uint64_t now, until;
	uint64_t (*left)(const void *ctx, const void *ent_data); /* NULL: no length is known */
	const void *ctx;
};
int fm_sched_dev_forecast(
	struct fm_sched_dev *d, const struct fm_sforesight *f, struct fm_sturn *out, unsigned cap);

int fm_sched_group_add(struct fm_sched *s, struct fm_sched_group **out);
void fm_sched_group_del(
	struct fm_sched *s, struct fm_sched_group *g, uint64_t now); /* and its entities */

/* Set the user and the name under which the group appears in accounts of entities that waited for
 * it. Returns the stored name, valid for the life of the group. fm_sched_group_id() is unique for
 * the life of the core. */
const char *fm_sched_label(struct fm_sched_group *g, uint32_t uid, const char *name);
uint64_t fm_sched_group_id(const struct fm_sched_group *g);

/* Set one hint; -ERANGE outside FM_HINT_MAP's limits. */
int fm_sched_hint(
	struct fm_sched *s, struct fm_sched_group *g, enum fm_hint h, int64_t v, uint64_t now);
const struct fm_hints *fm_sched_group_hints(
	const struct fm_sched_group *g); /* as set, segment not applied */
/* As policies see it: a segment or a grant overrides the hint. */
int64_t fm_sched_group_priority(const struct fm_sched_group *g);

/* Withhold a group from the policy by hand, or give it back. Idempotent. */
void fm_sched_suspend(struct fm_sched *s, struct fm_sched_group *g, bool suspended, uint64_t now);
bool fm_sched_group_suspended(const struct fm_sched_group *g);

/* An entity needs a resource that is not ready, its memory for instance. It is held until ready_at,
 * or with FM_NEVER until the next call. A time that is not after now releases it. While it is held
 * its gate is closed and it is not charged. A policy that chooses it goes on choosing it, and
 * another entity runs meanwhile, as for a gang that waits. When it is released it has its turn at
 * once. If it is in a gang, the gang waits with it. -ENOMEM: nothing has changed. */
int fm_sched_ready_at(struct fm_sched *s, struct fm_sched_ent *e, uint64_t ready_at, uint64_t now);
/* Has the policy chosen it, although it is held? */
bool fm_sched_claims(const struct fm_sched_ent *e);

/* What an admission control has granted to a group. It overrides hints and segments. PLACE: a place
 * above all priorities (0 and above, larger is more urgent; under fixed-priority only). A group
 * that used more than it had declared gets the lowest priority of all (DEMOTED) or does not run
 * (STOPPED). Both edges of a group with a grant are reported at once, also while it is alone.
 * Idempotent. */
enum fm_grant { FM_GRANT_NONE, FM_GRANT_PLACE, FM_GRANT_DEMOTED, FM_GRANT_STOPPED };
#define FM_PLACE_MAX ((INT64_C(1) << 62) - 1)
void fm_sched_grant(struct fm_sched *s, struct fm_sched_group *g, enum fm_grant grant,
	int64_t place, uint64_t now);
/* Does the group have work on a device, or is it inside a segment? Both edges of a group with a
 * deadline are reported at once, too. */
bool fm_sched_group_busy(const struct fm_sched_group *g);

/* A declared stretch of device use (GCAPS). Until its end the group counts as ready on its devices,
 * also between its commands. Priority FM_SEGMENT_KEEP leaves the group's own priority. Segments
 * nest; the outermost end closes. -EINVAL at an end without a begin, -ERANGE for a priority outside
 * the hint's range, -EOVERFLOW beyond 32 levels. */
#define FM_SEGMENT_KEEP INT32_MIN
int fm_sched_segment_begin(
	struct fm_sched *s, struct fm_sched_group *g, int32_t priority, uint64_t now);
int fm_sched_segment_end(struct fm_sched *s, struct fm_sched_group *g, uint64_t now);

/* An entity joins idle, with its gate as the policy wants it (reported through host->gate). data is
 * what the host callbacks receive. After deletion no more gates are reported for it. -EEXIST: its
 * group is on that device already. */
int fm_sched_ent_add(struct fm_sched *s, struct fm_sched_ent **out, struct fm_sched_group *g,
	struct fm_sched_dev *d, void *data, uint64_t now);
void fm_sched_ent_del(struct fm_sched *s, struct fm_sched_ent *e, uint64_t now);
void fm_sched_ent_info(const struct fm_sched_ent *e, uint64_t now, struct fm_ent_info *info);
/* Device time used; it never falls. The sum over all entities of a device is at most the time in
 * which the device was busy. The charge (served_ns) differs, because it includes pauses. */
uint64_t fm_sched_ent_used(struct fm_sched_ent *e, uint64_t now);
void fm_sched_ent_account(struct fm_sched_ent *e, uint64_t now, struct fm_account *a);
/* Charges an entity whose gate is closed for device time that it used beside another's turn. */
void fm_sched_beside(struct fm_sched *s, struct fm_sched_ent *e, uint64_t ns, uint64_t now);
/* idle_ns of the account only. It falls when the entity's work is reported late. */
uint64_t fm_sched_ent_idle(const struct fm_sched_ent *e, uint64_t now);
/* How many of its waits were not above each of these bounds, 10 us to 10 s. Waits in the same
 * bucket (a fifth wide) as a bound count as above it. */
#define FM_WAIT_BOUNDS 7
extern const uint64_t fm_wait_bounds[FM_WAIT_BOUNDS];
void fm_sched_ent_waits(const struct fm_sched_ent *e, uint64_t upto[FM_WAIT_BOUNDS]);
struct fm_sched_dev *fm_sched_ent_device(const struct fm_sched_ent *e);

/* How long the entity would keep the device if it went idle now, and why. */
struct fm_linger {
	uint64_t keeps_ns, handover_ns; /* handover: assumed cost, there and back */
	uint64_t pauses;                /* seen */
	unsigned within;                /* thousandths of recent pauses not longer than keeps_ns */
	bool learnt;                    /* not a setting */
	bool urgent;                    /* others are stopped for it, so its delay counts more */
};
void fm_sched_ent_linger(const struct fm_sched_ent *e, struct fm_linger *out);

/* Events. `at` is when it happened, not after `now`; repeated reports of the same state do nothing.
 */
void fm_sched_ready(struct fm_sched *s, struct fm_sched_ent *e, uint64_t at, uint64_t now);
void fm_sched_idle(struct fm_sched *s, struct fm_sched_ent *e, uint64_t at, uint64_t now);

/* Calls fn for each entity on d that holds the device or is draining. The owner should read the
 * boards of these before a decision; fn may report ready or idle for the entity. */
void fm_sched_dev_each_active(
	struct fm_sched_dev *d, void (*fn)(void *arg, void *ent_data), void *arg);

void fm_sched_tick(struct fm_sched *s, uint64_t now);
/* By the policy's rank(); 0 for all when it has none. */
int64_t fm_sched_rank(const struct fm_sched_ent *e);
uint64_t fm_sched_next(const struct fm_sched *s); /* absolute, FM_NEVER for none */
void fm_sched_get_stats(const struct fm_sched *s, struct fm_sched_stats *st);
