/* SPDX-License-Identifier: Apache-2.0 */
/* One machine, while it is simulated. */
#pragma once
#include "base/heap.h"
#include "base/list.h"
#include "sim.h"
#include <errno.h>
#include <stdlib.h>

struct machine;

enum event_kind {
	EV_GROUP,  /* it joins, then its next arrival */
	EV_LEAVE,  /* a group */
	EV_CHANGE, /* a group: of hints */
	EV_TIMER,  /* an entity: its command or its pause ends, it is flushed off the device, or
		    * knows that its gate is open, or the device hears of its next command */
	EV_REPORT, /* an entity: the core hears of its edge */
	EV_COUNT,  /* the warm-up is over */
};

struct event {
	struct fm_heap_node node;
	enum event_kind kind;
};

/* The last forecast for a device. */
#define FORETOLD 8
struct forecast {
	struct fm_sturn turn[FORETOLD];
	unsigned n, at; /* turn[at] is the present one; n 0: there is no forecast */
};

struct device {
	struct machine *m;
	struct forecast forecast; /* plan.forecast */
	const struct fm_sim_device *plan;
	struct fm_sim_device_result *result;
	struct fm_sched_dev *sdev;
	struct fm_list
		queue;       /* entities with a command that they may begin, that wait for a slot */
	struct fm_list away; /* with ticks: who has left, and counts as there; ticks.c */
	struct fm_rta_random r; /* of its turns */
	struct ent *running;    /* with one slot: who has it */
	uint64_t average;       /* fair: what those had who were there when the last one came */
	uint64_t phase;         /* of its ticks */
	uint32_t index, on;
	const struct group *last; /* whose command it ran last */
	uint64_t served, overhead, switches;
	uint64_t served_before, overhead_before, switches_before; /* of what is counted */
};

/* A processor of the machine. */
struct cpu {
	struct fm_heap queue; /* entities that want it, the most urgent first */
	struct ent *on;
	uint32_t users;
};

/* ON: the device works for it. COMPUTES: or would, were the processor its. STANDS: it has work, of
 * which the device has not heard yet. */
enum state { IDLE, PAUSED, COMPUTES, STANDS, WAITS, ON };

struct ent {
	struct group *g;
	struct device *d;
	struct fm_sched_ent *sent;
	struct cpu *cpu; /* NULL: it has none */
	struct fm_heap_node place;
	struct fm_rta_random r; /* of its commands and pauses */
	struct fm_list queue, away;
	struct fm_list edge; /* in the machine's, until the core knows of it */
	struct event timer, report;
	enum state state;
	bool open, reported; /* the gate; what the core was told */
	bool ending;         /* its command ends at this moment: it keeps its slot until then */
	bool begun;          /* its command was taken off the device in its midst */
	bool stopping;       /* on level 3: it is being flushed off the device */
	bool begins;         /* the next is what its job begins with, */
	bool behind;         /* or what comes behind that, */
	bool met;            /* and its gate was open when that came */
	const struct group *closed_for; /* who was chosen when its gate closed, for who watches */
	uint64_t edge_at;               /* of the edge that the core does not know yet */
	uint64_t closed_at, off_at;
	uint32_t step, times;   /* the step at hand, and how often it was done */
	uint64_t extra;         /* of each command of the job at hand */
	uint64_t left;          /* of the command, or on the processor */
	uint64_t begin, setup;  /* on the device, or the processor, since; of that, before the
				   command goes on */
	uint64_t slice, turn;   /* its turn of the device; of that, device time that it has had */
	uint64_t had;           /* device time, by which turns are fair */
	uint64_t deadline;      /* with ticks: of what it asks for, in what it will have had; */
	uint64_t keeps;         /* until when it keeps the device, likewise; */
	uint64_t turn_end;      /* and until which tick; */
	uint64_t owed;          /* what it had less than its share when it left */
	uint64_t segment;       /* level 2: device time since the last gate, */
	uint32_t past;          /* and gates that it has passed since the word was closed */
	uint64_t stretch;       /* device time of commands since it came onto the device, */
	uint64_t on_at;         /* then, */
	uint32_t nth, commands; /* for the nth time; and how many have ended since */
	uint64_t served, overhead;
	uint64_t counted_from, served_before, overhead_before, waits_before, stops_before;
};

struct job {
	uint64_t at, length;
	uint32_t commands;
};

struct group {
	struct machine *m;
	const struct fm_sim_group *plan;
	struct fm_sim_group_result *result;
	uint32_t section, instance;
	struct fm_rta_random r; /* of its arrivals */
	struct event timer, leave, change;
	struct fm_sched_group *sgroup; /* NULL: not there */
	struct ent *ent;
	uint32_t ents, busy;   /* busy: entities that have not done their part of the job */
	bool has_job, leaving; /* leaving: when its recorded jobs have ended */
	struct job job;        /* at hand */
	struct job *queue;     /* a ring */
	uint32_t cap, head, waiting;
	uint64_t next;  /* when the next arrival is due, jitter not counted */
	size_t record;  /* of the trace */
	size_t changed; /* hints so far */
	struct fm_hints hints;
	uint64_t deadline;
	uint64_t *followed; /* FM_SIM_AFTER: of each in `before`, jobs that ended and were not used
			     */
};

struct machine {
	const struct fm_sim_plan *plan;
	const struct fm_sim_watch *watch;
	uint32_t wants; /* what it wants; 0: there is none */
	struct fm_sim_result *result;
	uint32_t index;
	struct fm_sched *s;
	uint64_t now, events;
	struct fm_heap queue;
	struct event count;
	struct fm_list edges;
	bool counts;    /* the warm-up is over */
	bool follows;   /* some groups follow others */
	bool whole;     /* or one device of it: */
	uint32_t first; /* that one */
	struct device *device;
	struct group *group;
	struct ent *ent;
	struct cpu *cpu;
	uint32_t devices, groups, ents, cpus;
	struct fm_sched_stats stats; /* at the end of the warm-up */
	int rc;                      /* of what went wrong within an event */
};

static inline bool watched(const struct machine *m, enum fm_sim_what what)
{
	return FM_UNLIKELY(m->wants & FM_SIM_BIT(what));
}

/* watch.c: for whoever watches. Where nobody does: one load and one branch. */
void watch_group(const struct group *g, enum fm_sim_what what, uint64_t ns);
void watch_ent(
	const struct ent *e, enum fm_sim_what what, uint64_t at, uint64_t ns, const char *reason);
void watch_hint(const struct group *g, enum fm_hint hint, int64_t value);
void watch_decision(struct machine *m, const struct fm_sched_dev *sdev);
const struct group *watch_chosen(const struct ent *e); /* by the last decision about its device */
void watch_begin(struct machine *m);                   /* its devices are there */
void watch_end(struct machine *m);

static inline void note_group(const struct group *g, enum fm_sim_what what, uint64_t ns)
{
	if (watched(g->m, what))
		watch_group(g, what, ns);
}

static inline void note_ent(
	const struct ent *e, enum fm_sim_what what, uint64_t ns, const char *reason)
{
	if (watched(e->g->m, what))
		watch_ent(e, what, e->g->m->now, ns, reason);
}

/* Room was reserved for all of them. */
static inline void at(struct machine *m, struct event *e, uint64_t when)
{
	if (fm_heap_has(&e->node))
		fm_heap_rekey(&m->queue, &e->node, when);
	else
		fm_heap_push(&m->queue, &e->node, when);
}

static inline bool has_work(const struct ent *e)
{
	return e->state == WAITS || e->state == ON || e->state == STANDS;
}

/* device.c: what a device does. None of these calls the core. */
void device_gate(struct ent *e, bool open);
void device_wants(struct ent *e); /* it has a command */
void device_seals(struct ent *e); /* there is a gate in front of its next */
void device_leave(struct ent *e); /* its group leaves: whatever it does there ends */
void device_event(struct ent *e);
void device_goes_on(struct ent *e);     /* it knows that its gate is open */
bool device_holds(const struct ent *e); /* its gate is closed: has it not come to rest yet? */
uint64_t device_usage(const struct ent *e);
void device_progress(
	const struct ent *e, uint64_t *served, uint64_t *overhead); /* not booked yet */

/* ticks.c: whose turn it is on a device with ticks. */
struct ent *ticks_next(struct device *d); /* of those who wait; NULL: nobody */
void ticks_begin(struct ent *e);          /* it has the device */
bool ticks_goes_on(struct ent *e);        /* at a tick: does it keep it? */
void ticks_come(struct ent *e);
void ticks_leave(struct ent *e); /* it had the device until now, and does not wait for it */
bool ticks_push_off(struct ent *on, const struct ent *e); /* who has come: does `on' lose it? */

/* forecast.c: what is foretold, and what comes. */
void forecast_decided(struct device *d);   /* about it, now */
void forecast_over(const struct group *g); /* it does something that no forecast knows */

/* jobs.c: what a program does. None of these calls the core but the first two, and jobs_change().
 */
int jobs_join(struct group *g);
void jobs_leave(struct group *g);
void jobs_arrival(struct group *g);
void jobs_change(struct group *g);
void jobs_resume(struct ent *e); /* a pause ended */
void jobs_next(struct ent *e);   /* a command ended */

/* cpu.c: what processors do. None of these calls the core. */
int cpu_make(struct machine *m);
void cpu_free(struct machine *m);
void cpu_settle(
	struct ent *e);        /* what it does has changed: it may want its processor, or no more */
void cpu_leave(struct ent *e); /* a job begins, and lines up behind its equals */
void cpu_event(struct ent *e);

/* machine.c: it may have become ready or idle; the core is told at the end of the event. */
void machine_edge(struct ent *e);

/* machine.c: one device of a machine of which each device is by itself. */
int fm_sim_island(const struct fm_sim_plan *p, uint32_t machine, uint32_t device,
	const struct fm_sim_watch *watch, struct fm_sim_control *control, struct fm_sim_result *r,
	struct fm_err *err);

/* count.c */
void count_begin(struct machine *m); /* the warm-up is over */
void count_group(struct group *g);   /* that leaves */
void count_end(struct machine *m);
