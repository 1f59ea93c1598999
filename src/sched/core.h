/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the scheduler core share.
 *
 * An entity is on its device's `active` list while it may occupy the device: it counts as ready and
 * its gate is open, or it is draining (its gate was closed and it has not come to rest). It is on
 * the `hot` list while it is idle and among the FM_HOT_MAX that went idle last. The policy is asked
 * only for hot entities whether the gate may stay open. So a decision looks at few entities,
 * however many there are. When the list is full, an entity that goes idle takes the place of one of
 * the user with the most entities on it.
 *
 * A device has two instances of the policy if it has a group of several devices together with other
 * groups. The first instance chooses among all ready entities. The deputy chooses among those that
 * are in no gang; its choice runs when the first chose a gang that has to wait (gang.c). A device
 * with an entity that awaits a resource has a deputy, too: it chooses among the others (await.c).
 */
#pragma once
#include "base/heap.h"
#include "base/list.h"
#include "sched.h"

#define FM_HOT_MAX       16
#define FM_SEGMENT_DEPTH 32
#define FM_KEEP16        INT16_MIN /* FM_SEGMENT_KEEP in 16 bits */
/* How often a draining entity is polled when no client rings. */
#define FM_POLL_MIN (50 * FM_US)
#define FM_POLL_MAX (10 * FM_MS)
/* An entity that has drained for this long since it last was at rest no longer has the device for
 * itself: its process may be stopped, or may report falsely. */
#define FM_LATE_MOST     FM_S
#define FM_PAUSE_BUCKETS 32

enum { FM_FIRST, FM_DEPUTY, FM_SEATS };

/* What a moment of an entity counts as. The frequent ones come first. */
enum fm_spent {
	FM_SPENT_IDLE,
	FM_SPENT_RAN,
	FM_SPENT_WAIT, /* and enum fm_wait */
	FM_SPENT_BY_HAND = FM_SPENT_WAIT + FM_WAITS,
	FM_SPENT_OVER_BUDGET,
	FM_SPENT_COUNT
};

static inline bool fm_spent_waits(unsigned on)
{
	return on - FM_SPENT_WAIT < FM_WAITS;
}

/* How long each group with a place in the table has held a device, and all other groups together.
 * A count is not reset when another group takes the place. */
#define FM_PLACES 7
#define FM_OTHERS FM_PLACES
struct fm_hold {
	uint64_t ns[FM_PLACES + 1], nobody;
	uint64_t at;      /* counted up to then */
	unsigned waiting; /* entities whose wait counts; if there are none, the counts are stale */
	unsigned n;
	uint8_t by[FM_RUN_MAX];                     /* places of its present holders */
	const struct fm_sched_ent *run[FM_RUN_MAX]; /* the same, if it is the device's run[] */
	bool late;          /* the entities in run[] wait for one that drains */
	uint64_t changes;   /* how often places have changed hands */
	uint64_t change_at; /* no place of a group that still exists is taken before */
	struct fm_who *who[FM_PLACES];
	uint64_t taken[FM_PLACES]; /* ns[] when that group took the place */
	uint64_t since[FM_PLACES],
		before[FM_PLACES]; /* number of that change, and of the one before it */
	uint64_t rated[FM_PLACES]; /* part of ns[] that no longer counts for keeping the place */
};

/* The groups that an entity has waited for. Only an entity that has ever waited has one. */
#define FM_WAIT_BUCKETS 128
#define FM_WAIT_PAST    2 /* of bucket[] */
struct fm_blame {
	struct fm_who *who[FM_PLACES]; /* groups that have the places, as far as followed */
	struct fm_past {
		struct fm_who *who;
		uint64_t ns;
	} past[FM_CULPRITS]; /* groups that lost their place */
	/* Waits by length: of the present and of the last stretch of FM_RECENT, which take turns,
	 * and of all before. */
	uint64_t stretch;
	uint32_t bucket[3][FM_WAIT_BUCKETS];
};

/* What an entity spent its time on. What an event touches is in the first two cache lines. */
struct fm_spend {
	/* By place: how long it waited for that group. While a wait counts, the device's count at
	 * the beginning of this wait is subtracted. */
	_Alignas(64) uint64_t held[FM_PLACES + 1];
	uint64_t to, since; /* the end of what is in ns[]; the beginning of this wait */
	uint64_t nobody;    /* the device's `nobody` at the beginning of this wait */
	uint64_t changes;   /* of places, as far as followed */
	uint64_t ns[FM_SPENT_COUNT], joined;
	uint64_t others, waits, longest;
	struct fm_blame *blame; /* from its first wait on; also NULL if there was no memory */
};

/* How a job of an entity came to the device. KEPT: the entity had kept the device. FETCHED: another
 * entity was stopped for it at once. WAITS: it had to wait because others had the device. ELSE:
 * none of these, or it was stopped meanwhile. */
enum fm_came { FM_CAME_ELSE, FM_CAME_KEPT, FM_CAME_FETCHED, FM_CAME_WAITS };

/* How long an entity has paused of late (linger.c). */
struct fm_pauses {
	uint16_t bucket[FM_PAUSE_BUCKETS];
	uint32_t seen;
	bool fetches; /* when it last came back, another was stopped for it */
	uint8_t came; /* enum fm_came, of the job under way */
	uint32_t jobs;
	uint64_t since;       /* when that job came */
	uint64_t length, off; /* of jobs that came as KEPT; by how much they differ */
};

struct fm_sched {
	struct fm_sched_host host;
	void *ctx;
	const struct fm_policy_ops *ops;
	int64_t params[FM_POLICY_PARAMS];
	uint64_t policies; /* fm_sched_policy() so far */
	void *shared;      /* the object that the policy's instances share, or NULL */
	uint64_t linger, turns;
	bool exact;   /* both edges of every entity are wanted */
	bool by_user; /* instances of the policy made from now on tell users apart */
	uint64_t now; /* of the latest call: time does not go back */
	struct fm_list devices, groups;
	struct fm_heap timers;   /* struct fm_sched_dev.timer, one each */
	struct fm_heap lingers;  /* struct fm_sched_ent.linger */
	struct fm_heap awaiting; /* struct fm_sched_ent.awaits */
	size_t n_devices, n_ents;
	uint64_t last_id, last_group;
	struct fm_list stirred; /* devices whose decision has to be made anew */
	struct fm_list decided; /* devices whose decision has not reached the gates and bells yet */
	struct fm_sched_dev *deciding; /* its policy is being asked */
	bool spreads;        /* a decision that concerns other devices makes them decide anew */
	struct fm_list torn; /* gangs that keep a claim and lack another, the longest first */
	unsigned n_torn;
	uint64_t yield_at; /* when the patience of the first of them is over */
	uint64_t round;    /* of fm_gang_resolve() */
	struct fm_sched_stats stats;
};

struct fm_sched_dev {
	struct fm_list node; /* in sched->devices */
	struct fm_sched *s;
	char *key, *held;     /* held: the reason given to a gang that waits for this device */
	void *self[FM_SEATS]; /* instances of the policy; the deputy is NULL if none is needed */
	bool binds_alone;     /* decisions also bind an entity that is alone on the device */
	bool all;             /* the last decision was that every entity runs */
	bool turned;          /* `all` has changed, and the gates have not been set yet */
	bool stands_in;       /* run[] holds the deputy's choice only */
	struct fm_heap_node timer;
	struct fm_list ents, active, hot;
	struct fm_list touched;          /* may need other bells or, under `all`, an open gate */
	struct fm_list stirred, decided; /* in the lists of the core */
	unsigned n_ents, n_ready, n_draining, n_hot, n_run, n_claim;
	unsigned n_late;     /* of n_draining: those that still hold the device */
	unsigned n_multi;    /* entities of groups that are on other devices, too */
	unsigned n_gang;     /* entities of gangs with work that the first instance sees */
	unsigned n_awaiting; /* entities that await a resource */
	/* Entities that the policy chose. Kept only where some may have to wait nevertheless. */
	struct fm_sched_ent *claim[FM_RUN_MAX];
	struct fm_sched_ent
		*run[FM_RUN_MAX]; /* those that run; the deputy's replace waiting ones */
	const char *reason;
	bool others;                  /* the last answer concerns other devices */
	uint64_t epoch;               /* of run[] */
	uint64_t asked;               /* number of the last answer of an instance */
	uint64_t visit;               /* of fm_sched_dev_each_active() */
	uint64_t wish;                /* the policy's next */
	uint64_t poll_at, poll_every; /* while n_draining */
	uint64_t rests;               /* how long entities take of late to come to rest */
	uint64_t drain;   /* the same on average, with those that were at rest at once */
	uint64_t drained; /* sum of the stops since the last job that had to wait came */
	uint64_t swtch;   /* device time lost when it goes to another process */
	uint64_t moves;   /* so long memory moves for a hand-over; the host says so */
	uint64_t delay;   /* learnt delay of an entity that comes back; 0: not known */
	bool silent;      /* the last one did not report when it came to rest: a poll saw it */
	struct fm_hold hold;
	struct fm_hist preempt;
	uint64_t used_to; /* the time until then has been attributed to entities (use.c) */
};

struct fm_sched_group {
	struct fm_list node; /* in sched->groups */
	struct fm_list ents;
	struct fm_who *who;
	struct fm_hints hints, effective;
	bool suspended; /* by hand, or over its budget */
	bool by_hand;
	enum fm_grant grant;
	int64_t place;
	unsigned depth;

	/* gang.c. How many entities it has; how many of them count as ready; how many of those have
	 * work; and how many of those their device's policy chose. */
	unsigned n_ents, n_ready, n_need, n_claim;
	unsigned n_awaiting;       /* entities that await a resource */
	bool gang;                 /* ready on several devices, unless its hint says otherwise */
	bool held;                 /* refused on one device, so it runs on none */
	struct fm_sched_ent *back; /* stands back, and is ready on that device only; or NULL */
	struct fm_list torn;       /* in sched->torn */
	uint64_t held_since;       /* end of its last turn; a turn is at least TURN_MIN long */
	uint64_t torn_since, patience; /* while torn; how long it may be */
	uint64_t whole_since;          /* not held */
	uint64_t circle;               /* the round in which it last stood back to break one */

	int16_t segment[FM_SEGMENT_DEPTH]; /* priorities, outermost first, or FM_KEEP16 */
};

struct fm_sched_ent {
	struct fm_sched_dev *d;
	struct fm_sched_group *g;
	void *data;
	struct fm_list in_dev, in_group;
	uint64_t ready_since;

	/* The fields that a decision looks at are kept together. */
	struct fm_list active, hot, touched;
	bool work, gate_open, draining, fresh;      /* fresh: the owner knows no gate yet */
	bool ready;                                 /* counts as ready: work, segment or linger */
	bool wants_open;                            /* scratch of a decision, for a hot one */
	bool bell_ready, bell_idle;                 /* as last told to the owner */
	bool stuck;                                 /* drained for FM_LATE_MOST in all */
	bool claimed;                               /* among device->claim */
	bool is_ready, is_need, is_claim, is_rival; /* as counted in its group and device */
	bool counts;                                /* its device's table counts this wait */
	uint8_t spends, place; /* enum fm_spent; its place in that table, if it has one */

	struct fm_heap_node linger; /* in the heap: idle, but still counted as ready */
	uint64_t idle_at;           /* when its work last ended */
	unsigned long_pauses;       /* in a row, longer than a fixed linger */
	uint64_t epoch, asked;      /* of the decision that chose it last */
	uint64_t visit;
	uint64_t late; /* time it drained before closed_at, since it last was at rest */
	uint64_t closed_at, charged_to, usage;
	uint64_t rest_at; /* while it drains: it is at rest since then; FM_NEVER: it is not */
	uint64_t used_ns, use_seen; /* use.c: device time; part of its own measure that counted */
	uint64_t use_charged;       /* part of used_ns that charge.c has seen */
	double use_part;            /* scratch */
	uint64_t preemptions;
	const char *reason;

	struct fm_spend *spend;
	struct fm_pauses pauses;

	struct fm_ent seat[FM_SEATS]; /* as the instances of the policy see it */
	void *spare[FM_SEATS];        /* privs of the next policy, while policies change */

	struct fm_heap_node awaits; /* in the heap: it awaits a resource until that time */
};

static inline struct fm_sched_ent *fm_sched_ent_of(struct fm_ent *e, unsigned seat)
{
	return fm_container(e - seat, struct fm_sched_ent, seat[0]);
}

/* Does the entity that had the device before still hold it? */
static inline bool fm_account_late(const struct fm_sched_dev *d)
{
	return d->n_late && !d->all && d->n_run <= 1;
}

/* It begins to drain, or stops draining. */
static inline void fm_core_drains(struct fm_sched_ent *e, bool yes)
{
	unsigned by = (unsigned)yes - e->draining;

	e->draining = yes;
	e->d->n_draining += by;
	e->d->n_late += e->stuck ? 0 : by;
}

/* It is at rest, and drains no more. */
static inline void fm_core_rests(struct fm_sched_ent *e)
{
	fm_core_drains(e, false);
	e->stuck = false;
	e->late = 0;
}

static inline uint64_t fm_core_now(struct fm_sched *s, uint64_t now)
{
	s->now = FM_MAX(s->now, now);
	return s->now;
}

static inline bool fm_core_lingers(const struct fm_sched_ent *e)
{
	return fm_heap_has(&e->linger);
}

static inline bool fm_core_awaits(const struct fm_sched_ent *e)
{
	return fm_heap_has(&e->awaits);
}

/* May an entity that the policy chose have to wait, for another device or for a resource? */
static inline bool fm_core_may_wait(const struct fm_sched_dev *d)
{
	return d->n_multi || d->n_awaiting;
}

/* charge.c: account device time up to t, and notice which entities have come to rest by then. Under
 * native order only the named entity is charged, because there may be many; fm_core_settle_each()
 * charges them all. */
void fm_core_settle(struct fm_sched_dev *d, uint64_t t);
void fm_core_settle_ent(struct fm_sched_ent *e, uint64_t t);
void fm_core_settle_each(struct fm_sched_dev *d, uint64_t t);
void fm_core_drained(struct fm_sched_ent *e, uint64_t since);
void fm_core_look_for_rest(struct fm_sched_dev *d, uint64_t t); /* sets rest_at while draining */
uint64_t fm_core_unsettled(const struct fm_sched_ent *e, uint64_t t);

/* use.c: fm_use_settle() attributes the device's time up to t to entities. Call it before anything
 * changes that this depends on. fm_use_begin() says that an entity may occupy the device from t. */
void fm_use_settle(struct fm_sched_dev *d, uint64_t t);
void fm_use_now_and_then(struct fm_sched_dev *d, uint64_t t); /* while all entities run */
void fm_use_begin(struct fm_sched_ent *e, uint64_t t);

/* account.c: what the time is spent on. */
void fm_account_join(struct fm_sched_ent *e);
void fm_account_leave(struct fm_sched_ent *e);
void fm_account_spends_on(struct fm_sched_ent *e, enum fm_spent on, uint64_t t);
void fm_account_begin(struct fm_sched_ent *e, uint64_t now);
void fm_account_holder(struct fm_sched_dev *d, uint64_t t);
uint64_t fm_account_waited(const struct fm_sched_ent *e, uint64_t t);
/* Made at the first call, because most of a thousand groups never wait. NULL: no memory. */
struct fm_blame *fm_blame_of(struct fm_spend *p);
/* waits.c: count a wait that ends now, if it was any; report all of them. */
void fm_waits_add(struct fm_spend *p, uint64_t ns);
void fm_waits_tell(const struct fm_spend *p, struct fm_account *a);
int fm_who_new(struct fm_who **out, uint64_t id);
void fm_who_put(struct fm_who *w);
void fm_hold_fini(struct fm_hold *h);
int fm_spend_new(struct fm_spend **out, uint64_t now);
void fm_spend_free(struct fm_spend *p);

/* decide.c: ask the policy and turn the difference into gates, timer and bells. Choose and apply
 * are its two halves. Fill is the end of choose: it finds which entities run when a device's claims
 * are known. */
void fm_core_decide(struct fm_sched_dev *d, uint64_t now);
void fm_core_choose(struct fm_sched_dev *d, uint64_t now);
void fm_core_fill(struct fm_sched_dev *d, uint64_t now);
void fm_core_apply(struct fm_sched_dev *d, uint64_t now);
void fm_core_gate(struct fm_sched_ent *e, bool open, const char *reason, uint64_t now);
void fm_core_ring(struct fm_sched_dev *d);
void fm_core_touch(struct fm_sched_ent *e);
void fm_core_touch_all(struct fm_sched_dev *d);

/* state.c: the entity as the policy counts it. None of these decides. */
void fm_core_set_ready(struct fm_sched_ent *e, uint64_t at, uint64_t now);
void fm_core_unready(
	struct fm_sched_ent *e, uint64_t now); /* the caller puts it on the hot list, or not */
void fm_core_refresh(struct fm_sched_ent *e, uint64_t now); /* after a change of its group */
void fm_core_heat(struct fm_sched_ent *e, uint64_t now);
void fm_core_cool(struct fm_sched_ent *e);
void fm_core_told(struct fm_sched_ent *e, uint64_t now); /* its hints or its job are new */
void fm_core_show(struct fm_sched_ent *e, uint64_t now); /* let each instance see what it may */

/* linger.c: for how long the entity would keep the device if it went idle now. The others report
 * what that depends on: a pause of the entity has ended, an entity of the device has come to rest,
 * a job begins or ends. */
uint64_t fm_linger_of(const struct fm_sched_ent *e);
void fm_linger_device(struct fm_sched_dev *d);
void fm_linger_paused(struct fm_sched_ent *e, uint64_t ns);
void fm_linger_drained(struct fm_sched_dev *d, uint64_t took);
void fm_linger_begins(struct fm_sched_ent *e, enum fm_came came, uint64_t at);
void fm_linger_ends(struct fm_sched_ent *e, uint64_t at);

/* gang.c: groups on several devices. */
static inline bool fm_gang_multi(const struct fm_sched_group *g)
{
	return g->n_ents > 1;
}

/* Does this instance count it as ready? */
static inline bool fm_core_visible(const struct fm_sched_ent *e, unsigned seat)
{
	const struct fm_sched_group *g = e->g;

	if (seat == FM_DEPUTY && fm_core_awaits(e))
		return false;
	if (!e->ready || !fm_gang_multi(g))
		return e->ready;
	return seat == FM_FIRST ? !g->back || g->back == e : !g->gang;
}

void fm_gang_recount(struct fm_sched_ent *e, uint64_t now);

/* The entity's readiness or its claim changed. */
static inline void fm_gang_count(struct fm_sched_ent *e, uint64_t now)
{
	if (fm_gang_multi(e->g))
		fm_gang_recount(e, now);
}

const char *fm_gang_reason(const struct fm_sched_ent *e); /* NULL: it waits for no other device */

/* await.c: entities that await a resource. fm_await_end_due() lets those go whose time has come by
 * now, and makes no decision. */
void fm_await_end_due(struct fm_sched *s, uint64_t now);
void fm_await_forget(struct fm_sched_ent *e);              /* it leaves */
const char *fm_await_reason(const struct fm_sched_ent *e); /* NULL: it awaits nothing */

/* Under native order: does it wait all the same? */
static inline bool fm_core_held_back(const struct fm_sched_ent *e)
{
	return fm_core_awaits(e) || (e->g->n_awaiting && e->g->held);
}

/* Why it has to wait even if the policy chooses it; NULL: it does not. */
static inline const char *fm_core_held_reason(const struct fm_sched_ent *e)
{
	return fm_core_awaits(e) ? fm_await_reason(e) : fm_gang_reason(e);
}

/* Call this after anything that may change what it spends its time on, with the time of the change.
 */
static inline void fm_account_note(struct fm_sched_ent *e, uint64_t t)
{
	const struct fm_sched_group *g = e->g;
	unsigned on;

	if (g->suspended)
		on = g->by_hand ? FM_SPENT_BY_HAND : FM_SPENT_OVER_BUDGET;
	else if (!e->work && !g->depth)
		on = FM_SPENT_IDLE;
	else if (e->draining || (e->gate_open && !fm_account_late(e->d)))
		on = FM_SPENT_RAN;
	else if (e->gate_open)
		on = FM_SPENT_WAIT + FM_WAIT_DRAINING;
	else if (fm_core_awaits(e) && (e->claimed || e->d->all))
		on = FM_SPENT_WAIT + FM_WAIT_RESOURCE;
	else if (g->held && fm_gang_reason(e))
		on = FM_SPENT_WAIT + FM_WAIT_GANG;
	else if (g->grant == FM_GRANT_DEMOTED)
		on = FM_SPENT_WAIT + FM_WAIT_DEMOTED;
	else
		on = FM_SPENT_WAIT + FM_WAIT_POLICY;
	if (on != e->spends)
		fm_account_spends_on(e, (enum fm_spent)on, t);
}

/* The holder of the device may have changed. This matters only while an entity waits. */
static inline void fm_account_device(struct fm_sched_dev *d, uint64_t t)
{
	const struct fm_hold *h = &d->hold;
	bool same = !h->waiting || (h->n == d->n_run && !h->late);

	for (unsigned i = 0; h->waiting && same && i < d->n_run; i++)
		same = h->run[i] == d->run[i];
	if (!same || d->n_draining || h->late)
		fm_account_holder(d, t);
}

/* Its wait counts from now on, if it does not already. */
static inline void fm_account_wait(struct fm_sched_ent *e, uint64_t now)
{
	if (fm_spent_waits(e->spends) && !e->counts)
		fm_account_begin(e, now);
}

int fm_gang_prepare(
	struct fm_sched_group *g, struct fm_sched_dev *d, uint64_t now); /* makes needed deputies */
void fm_gang_trim(
	struct fm_sched_group *g, struct fm_sched_dev *d, uint64_t now); /* ends the other ones */
void fm_gang_enter(struct fm_sched_ent *e, uint64_t now); /* it is in its lists already */
void fm_gang_leave(
	struct fm_sched_group *g, struct fm_sched_dev *d, uint64_t now); /* it has left its lists */
void fm_gang_review(struct fm_sched_group *g, uint64_t now);
void fm_gang_stir(struct fm_sched_dev *d);
void fm_gang_resolve(struct fm_sched *s, uint64_t now);
bool fm_gang_but_for(
	const struct fm_sched_ent *e); /* it is idle: would its group be a gang if it were ready? */
bool fm_gang_shared(const struct fm_sched_ent *e); /* may be stopped for one of its other devices */

/* switch.c: fm_seat_make() makes an instance of the policy with all entities that it may see, and
 * fm_seat_end() ends it. fm_seat_join() and fm_seat_leave() take an entity into an instance, idle,
 * and out of it. Making and joining may answer -ENOMEM. */
/* Does the policy bind an entity that is alone on its device? fm_core_new_shared() makes an object
 * for the policy's instances to share, NULL if the policy has none; it may answer -ENOMEM. */
bool fm_core_binds_alone(const struct fm_policy_ops *ops, const void *self);
int fm_core_new_shared(const struct fm_policy_ops *ops, void **out);
int fm_seat_make(struct fm_sched_dev *d, unsigned seat, uint64_t now);
void fm_seat_end(struct fm_sched_dev *d, unsigned seat, uint64_t now);
int fm_seat_join(const struct fm_policy_ops *ops, void *self, struct fm_sched_ent *e, unsigned seat,
	uint64_t now);
void fm_seat_leave(const struct fm_policy_ops *ops, void *self, struct fm_sched_ent *e,
	unsigned seat, uint64_t now);
