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
 * Device time. The core charges an entity while it occupies the device: ready, and its gate open or
 * not yet stalled after closing. One that is let in while another drains is charged from the
 * other's stall on. When it alone is ready its charge is capped by host->usage(), so that the
 * pauses of a lone program, which are not reported, are not charged.
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

/* Only gate is required. bells may report an edge of the entity that it is called for (the board
 * may show one by then); otherwise callbacks must not call back into the core. */
struct fm_sched_host {
	/* Open or close the gates of an entity: one store per queue. reason lives as
	 * long as the core. */
	void (*gate)(void *ctx, void *ent_data, bool open, const char *reason, uint64_t now);
	/* Has an entity whose gate is closed come to rest? If so, since when (*since). NULL: at
	 * once. */
	bool (*stalled)(void *ctx, void *ent_data, uint64_t *since);
	/* Cumulative device nanoseconds as the client measures them. NULL: wall time is charged. */
	uint64_t (*usage)(void *ctx, void *ent_data, uint64_t now);
	/* Which of the edges does the core want to hear about at once? Others may be reported late.
	 */
	void (*bells)(void *ctx, void *ent_data, bool want_ready, bool want_idle);
	/* An entity whose gate was closed came to rest, at that time, so long after it. May be
	 * NULL. */
	void (*rested)(void *ctx, void *ent_data, uint64_t took, uint64_t at);
	/* A decision goes to the gates: fm_sched_dev_decision() says which. May be NULL. */
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

/* Where the wall time of an entity went, since it joined: ran, idle, withheld by hand, withheld
 * over its budget, or waited, which add up to its age to the nanosecond. Ran: it had work, or was
 * inside a declared segment, and the device was its, also while it came to rest after its gate had
 * closed. Waited: as much, and the device was another's. */
enum fm_wait {
	FM_WAIT_POLICY,   /* the policy chose others */
	FM_WAIT_NOBODY,   /* the policy let nobody run: a limit, or work on another device */
	FM_WAIT_GANG,     /* a gang, refused on another of its devices */
	FM_WAIT_DEMOTED,  /* as by the policy, but over its budget, and so below all */
	FM_WAIT_DRAINING, /* chosen, and who had the device before had not come to rest */
	FM_WAIT_RESOURCE, /* chosen, and a resource that it needs was not ready */
	FM_WAITS
};
const char *fm_wait_name(enum fm_wait w);

#define FM_CULPRITS 8
#define FM_RECENT   (30 * FM_S)
#define FM_WHO_NAME 64

/* A group, known for as long as somebody remembers to have waited for it. */
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
	/* The same time by who held the device meanwhile, most first, and others or nobody. Several
	 * who held it at once share it. Of a gang: who held the device that it waited for. who is
	 * valid until the core is called again. */
	struct fm_culprit {
		const struct fm_who *who;
		uint64_t ns;
	} culprit[FM_CULPRITS];
	unsigned n_culprits;
	uint64_t others_ns;
	/* What it waits for now, and how long it has: the first of who holds the device, or NULL,
	 * and the rule by which the policy decided so. */
	bool waiting;
	enum fm_wait why;
	const char *rule;
	const struct fm_who *holder;
	uint64_t waiting_ns;
	/* Waits that ended with running. Quantiles to a fifth. */
	uint64_t waits, wait_p50, wait_p99, wait_max;
	/* Of those, the ones of the last FM_RECENT to twice as long. */
	uint64_t recent, recent_p50, recent_p99;
};

int fm_sched_new(struct fm_sched **out, const struct fm_sched_host *host, void *ctx);
void fm_sched_free(struct fm_sched *s);

/* Policy of every device, present and to come. params: "key=value" strings, n of them. -ENOENT,
 * -EINVAL, -ERANGE or -ENOMEM with a text in err: then the old policy goes on, as if nothing had
 * been asked. Hints are kept. The initial policy is "fixed-priority". */
int fm_sched_policy(struct fm_sched *s, const char *name, const char *const *params, size_t n,
	uint64_t now, struct fm_err *err);
/* The same with a table that is not built in; it stays until another is in force. */
int fm_sched_use(struct fm_sched *s, const struct fm_policy_ops *ops, const char *const *params,
	size_t n, uint64_t now, struct fm_err *err);
const struct fm_policy_ops *fm_sched_policy_ops(const struct fm_sched *s);
uint64_t fm_sched_policies(
	const struct fm_sched *s); /* how often it was changed, or its settings */
const int64_t *fm_sched_policy_params(
	const struct fm_sched *s); /* in params[] order, times in ns */

/* Do policies that can (fm_policy_ops.by_user) divide a device among users first, and then among
 * the groups of each? Users are those of fm_sched_label(), before a group's first entity. What is
 * said holds from the next fm_sched_policy() or fm_sched_use() on. Default: no. */
void fm_sched_fair_by(struct fm_sched *s, bool user);
bool fm_sched_fair_by_user(const struct fm_sched *s); /* and the policy in force can */

/* How long an entity that went idle keeps the device, so that a program's short pauses do not hand
 * it away: as long as that is the cheaper by what the core has learnt of its pauses and of the
 * device (linger.c), which is the default, or always so long. FM_LINGER_MOST is the most that is
 * learnt, FM_LINGER_BOUND that of a group with a grant, or on several devices. */
#define FM_LINGER_AUTO  UINT64_MAX
#define FM_LINGER_MOST  (2 * FM_MS)
#define FM_LINGER_BOUND (100 * FM_US)
void fm_sched_linger(struct fm_sched *s, uint64_t ns);
uint64_t fm_sched_get_linger(const struct fm_sched *s);

/* A device that has several with work takes them in turn by itself: one that drains shares it with
 * the one that was let in, once that has waited so long. Default FM_NEVER: it does not. */
void fm_sched_turns(struct fm_sched *s, uint64_t ns);

/* Report both edges of everybody at once, of one alone on its device and under native order too:
 * for a recording that has to know every job. Is that new? */
bool fm_sched_exact(struct fm_sched *s, bool exact, uint64_t now);

int fm_sched_device_add(struct fm_sched *s, struct fm_sched_dev **out, const char *key);
const char *fm_sched_dev_key(const struct fm_sched_dev *d);
const struct fm_hist *fm_sched_dev_preempt_hist(
	const struct fm_sched_dev *d); /* gate closed to stall */

/* What its last decision was. */
struct fm_decision {
	void *first; /* data of the first of those chosen; NULL: nobody */
	unsigned chosen, ready;
	bool all; /* everybody may run */
	const char *reason;
};
void *fm_sched_dev_first(const struct fm_sched_dev *d);
void fm_sched_dev_decision(const struct fm_sched_dev *d, struct fm_decision *out);

/* Who will have a device from now on, by the owner's data: the policy's forecast, with what it
 * promises (policy/forecast.h). One that lingers is about to be idle. One that awaits a resource is
 * foretold as if it did not. A turn ends later than foretold by what it takes to come to rest.
 * -ENOTSUP, too, where a gang has work: its turns depend on other devices. decided() may ask. */
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

/* What others that waited for it know it by; returned as it is kept, for the life of the group. Its
 * number is its own for the life of the core. */
const char *fm_sched_label(struct fm_sched_group *g, uint32_t uid, const char *name);
uint64_t fm_sched_group_id(const struct fm_sched_group *g);

/* Set one hint; -ERANGE outside FM_HINT_MAP's limits. */
int fm_sched_hint(
	struct fm_sched *s, struct fm_sched_group *g, enum fm_hint h, int64_t v, uint64_t now);
const struct fm_hints *fm_sched_group_hints(
	const struct fm_sched_group *g); /* as set, segment not applied */
/* As policies see it: of its segment, or its grant, if those say otherwise. */
int64_t fm_sched_group_priority(const struct fm_sched_group *g);

/* Withhold a group from the policy by hand, and give it back. Idempotent. */
void fm_sched_suspend(struct fm_sched *s, struct fm_sched_group *g, bool suspended, uint64_t now);
bool fm_sched_group_suspended(const struct fm_sched_group *g);

/* An entity needs a resource, its memory for instance, that is not ready: it is held until
 * ready_at, or until told otherwise (FM_NEVER). A time that is not after now lets it go. While it
 * is held its gate is closed and it is not charged. A policy that chooses it goes on doing so, and
 * another runs meanwhile, as for a gang that waits; when it is let go it has its turn at once. Its
 * gang, if it is in one, waits with it. -ENOMEM: nothing has changed. */
int fm_sched_ready_at(struct fm_sched *s, struct fm_sched_ent *e, uint64_t ready_at, uint64_t now);

/* What an admission control has granted to a group, over its hints and segments: a place above all
 * priorities (0 and above, larger is more urgent; under fixed-priority alone), or, where it used
 * more than it had declared, the lowest priority of all, or nothing. Both edges of a group with a
 * grant are reported at once, also while it is alone. Idempotent. */
enum fm_grant { FM_GRANT_NONE, FM_GRANT_PLACE, FM_GRANT_DEMOTED, FM_GRANT_STOPPED };
#define FM_PLACE_MAX ((INT64_C(1) << 62) - 1)
void fm_sched_grant(struct fm_sched *s, struct fm_sched_group *g, enum fm_grant grant,
	int64_t place, uint64_t now);
/* Has it work on a device, or is it inside a segment? Of a group with a deadline, too, both edges
 * are reported at once. */
bool fm_sched_group_busy(const struct fm_sched_group *g);

/* A declared stretch of device use (GCAPS): the group counts as ready on the devices it has until
 * the end, between its commands too; priority FM_SEGMENT_KEEP leaves the group's own. Segments
 * nest; the outermost end closes. -EINVAL at an end without begin, -ERANGE for a priority outside
 * the hint's range, -EOVERFLOW beyond 32 levels. */
#define FM_SEGMENT_KEEP INT32_MIN
int fm_sched_segment_begin(
	struct fm_sched *s, struct fm_sched_group *g, int32_t priority, uint64_t now);
int fm_sched_segment_end(struct fm_sched *s, struct fm_sched_group *g, uint64_t now);

/* An entity joins idle, with its gate as the policy wants it (reported through host->gate). data is
 * what the host callbacks receive. Deleting reports no more gates for it. -EEXIST: its group is on
 * that device already. */
int fm_sched_ent_add(struct fm_sched *s, struct fm_sched_ent **out, struct fm_sched_group *g,
	struct fm_sched_dev *d, void *data, uint64_t now);
void fm_sched_ent_del(struct fm_sched *s, struct fm_sched_ent *e, uint64_t now);
void fm_sched_ent_info(const struct fm_sched_ent *e, uint64_t now, struct fm_ent_info *info);
/* Device time used, never falling: of all entities of a device no more than it was busy. It is not
 * what was charged (served_ns), which has pauses in it. */
uint64_t fm_sched_ent_used(struct fm_sched_ent *e, uint64_t now);
void fm_sched_ent_account(struct fm_sched_ent *e, uint64_t now, struct fm_account *a);
/* Of that, idle_ns alone. Falls when it is reported late that the entity has work. */
uint64_t fm_sched_ent_idle(const struct fm_sched_ent *e, uint64_t now);
/* How many of its waits were not above each of these, 10 us to 10 s. What shares a bucket, a fifth
 * wide, with a bound counts as above it. */
#define FM_WAIT_BOUNDS 7
extern const uint64_t fm_wait_bounds[FM_WAIT_BOUNDS];
void fm_sched_ent_waits(const struct fm_sched_ent *e, uint64_t upto[FM_WAIT_BOUNDS]);
struct fm_sched_dev *fm_sched_ent_device(const struct fm_sched_ent *e);

/* For how long it keeps the device now when it goes idle, and why. */
struct fm_linger {
	uint64_t keeps_ns, handover_ns; /* handover: what it counts as, there and back */
	uint64_t pauses;                /* seen */
	unsigned within;                /* thousandths of the last of them: not longer than keeps */
	bool learnt;                    /* not a setting */
	bool urgent;                    /* others are stopped for it, so its delay counts more */
};
void fm_sched_ent_linger(const struct fm_sched_ent *e, struct fm_linger *out);

/* Events. `at` is when it happened, not after `now`; repeated reports of the same state do nothing.
 */
void fm_sched_ready(struct fm_sched *s, struct fm_sched_ent *e, uint64_t at, uint64_t now);
void fm_sched_idle(struct fm_sched *s, struct fm_sched_ent *e, uint64_t at, uint64_t now);

/* Entities on d that hold the device or are draining: whose boards the owner should read before a
 * decision. Calls fn for each; fn may report ready or idle for it. */
void fm_sched_dev_each_active(
	struct fm_sched_dev *d, void (*fn)(void *arg, void *ent_data), void *arg);

void fm_sched_tick(struct fm_sched *s, uint64_t now);
/* By the policy's rank(); 0 for all when it has none. */
int64_t fm_sched_rank(const struct fm_sched_ent *e);
uint64_t fm_sched_next(const struct fm_sched *s); /* absolute, FM_NEVER for none */
void fm_sched_get_stats(const struct fm_sched *s, struct fm_sched_stats *st);
