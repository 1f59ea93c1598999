/* SPDX-License-Identifier: Apache-2.0 */
/* One machine, while it is simulated. */
#pragma once
#include "base/heap.h"
#include "base/list.h"
#include "sim.h"
#include <errno.h>
#include <stdlib.h>

struct machine;
struct memory;     /* of a device: memory.c */
struct ent_memory; /* of an entity */

enum event_kind {
	EV_GROUP,  /* it joins, then its next arrival */
	EV_LEAVE,  /* a group leaves */
	EV_CHANGE, /* a group's hint changes */
	EV_TIMER,  /* an entity: its command or its pause ends, it is flushed off the device, or
		    * knows that its gate is open, or the device hears of its next command */
	EV_REPORT, /* an entity: the core hears of its edge */
	EV_COUNT,  /* the warm-up is over */
	EV_CAME,   /* a device: an extent has come in, or its copy has */
	EV_WENT,   /* the same, out */
	EV_PLAN,   /* a device's memory is to be planned again */
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
	struct fm_list queue; /* entities that wait for a slot to begin a command */
	struct fm_list away;  /* with ticks: entities that left and still count as there; ticks.c */
	struct fm_rta_random r; /* of its turns */
	struct ent *running;    /* with one slot: the entity that has it */
	uint64_t average;       /* fair: the average had when the last entity came */
	uint64_t phase;         /* of its ticks */
	uint32_t index, on;
	struct memory *memory;    /* NULL: it is not modelled */
	const struct group *last; /* the group whose command it ran last */
	uint64_t served, overhead, switches;
	uint64_t served_before, overhead_before, switches_before; /* before the counted time */
};

/* A processor of the machine. */
struct cpu {
	struct fm_heap queue; /* entities that want the processor, the most urgent first */
	struct ent *on;
	uint32_t users;
};

/* ON: the device works for it. COMPUTES: it computes, or would if it had the processor. STANDS: it
 * has work that the device has not heard of yet. */
enum state { IDLE, PAUSED, COMPUTES, STANDS, WAITS, ON };

struct ent {
	struct group *g;
	struct device *d;
	struct fm_sched_ent *sent;
	struct cpu *cpu;           /* NULL: it has no processor */
	struct ent_memory *memory; /* NULL: that of its device is not modelled */
	struct fm_heap_node place;
	struct fm_rta_random r; /* of its commands and pauses */
	struct fm_list queue, away;
	struct fm_list edge; /* in the machine's, until the core knows of it */
	struct event timer, report;
	enum state state;
	bool open, reported; /* the gate; what the core was told */
	bool ending;         /* its command ends at this moment: it keeps its slot until then */
	bool begun;          /* its command was taken off the device before its end */
	bool stopping;       /* on level 3: it is being flushed off the device */
	bool begins;         /* the next command is the input of its job, */
	bool behind;         /* or the command after the input, */
	bool met;            /* and the input met an open gate */
	const struct group *closed_for; /* the group chosen when its gate closed, for a watcher */
	uint64_t edge_at;               /* time of the edge that the core does not know yet */
	uint64_t closed_at, off_at;
	uint32_t step, times;   /* the present step, and how often it was done */
	uint64_t extra;         /* additional device time of each command of the present job */
	uint64_t left;          /* time left of the command, or on the processor */
	uint64_t begin, setup;  /* since when it is on the device or the processor; the part of
				   that before the command goes on */
	uint64_t slice, turn;   /* its turn of the device; the device time it has had of that */
	uint64_t had;           /* device time, by which turns are fair */
	uint64_t deadline;      /* with ticks: of what it asks for, as a value of `had` */
	uint64_t keeps;         /* it keeps the device until `had` is that much */
	uint64_t turn_end;      /* and until that tick */
	uint64_t owed;          /* how much less than its share it had had when it left */
	uint64_t segment;       /* level 2: device time since the last gate, */
	uint32_t past;          /* and gates passed since the gate word was closed */
	uint64_t stretch;       /* device time of commands since it came onto the device, */
	uint64_t on_at;         /* at this time, */
	uint32_t nth, commands; /* for the nth time; commands that have ended since */
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
	struct fm_sched_group *sgroup; /* NULL: the group is not there */
	struct ent *ent;
	uint32_t ents, busy;   /* busy: entities that have not done their part of the job */
	bool has_job, leaving; /* leaving: it leaves when its recorded jobs have ended */
	struct job job;        /* the present job */
	struct job *queue;     /* a ring */
	uint32_t cap, head, waiting;
	uint64_t next;  /* when the next arrival is due, jitter not counted */
	size_t record;  /* of the trace */
	size_t changed; /* hints so far */
	struct fm_hints hints;
	uint64_t deadline;
	uint64_t *followed; /* FM_SIM_AFTER: for each group in `before`, ended jobs not yet used */
};

struct machine {
	const struct fm_sim_plan *plan;
	const struct fm_sim_watch *watch;
	uint32_t wants; /* events that the watcher wants; 0: no watcher */
	struct fm_sim_result *result;
	uint32_t index;
	struct fm_sched *s;
	uint64_t now, events;
	struct fm_heap queue;
	struct event count;
	struct fm_list edges;
	bool counts;    /* the warm-up is over */
	bool follows;   /* some groups follow others */
	bool memory;    /* of some devices it is modelled */
	bool whole;     /* all devices are simulated, else only one: */
	uint32_t first; /* the first simulated device */
	struct device *device;
	struct group *group;
	struct ent *ent;
	struct cpu *cpu;
	uint32_t devices, groups, ents, cpus;
	struct fm_sched_stats stats; /* at the end of the warm-up */
	int rc;                      /* the error of an event, or 0 */
};

static inline bool watched(const struct machine *m, enum fm_sim_what what)
{
	return FM_UNLIKELY(m->wants & FM_SIM_BIT(what));
}

/* watch.c: reports to the watcher. Without one, a report costs one load and one branch. */
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

/* The heap has room for all events. */
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
void device_leave(struct ent *e); /* its group leaves: its work there ends */
void device_event(struct ent *e);
void device_goes_on(struct ent *e);     /* it knows that its gate is open */
bool device_holds(const struct ent *e); /* its gate is closed: has it not come to rest yet? */
uint64_t device_usage(const struct ent *e);
void device_progress(
	const struct ent *e, uint64_t *served, uint64_t *overhead); /* not booked yet */

/* ticks.c: turns on a device with ticks. */
struct ent *ticks_next(struct device *d); /* the next waiting entity; NULL: none waits */
void ticks_begin(struct ent *e);          /* it gets the device */
bool ticks_goes_on(struct ent *e);        /* at a tick: does it keep the device? */
void ticks_come(struct ent *e);
void ticks_leave(struct ent *e); /* it had the device until now, and does not wait for it */
bool ticks_push_off(struct ent *on, const struct ent *e); /* e has come: does `on' lose it? */

/* forecast.c: compares the forecast turns with those that come. */
void forecast_decided(struct device *d);   /* the core has decided about the device */
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
	struct ent *e); /* what it does has changed: it may now want its processor, or no longer */
void cpu_leave(struct ent *e); /* a job begins, and lines up behind its equals */
void cpu_event(struct ent *e);

/* memory.c: where memory is. Only memory_step() calls the core. */
int memory_make(struct machine *m);
void memory_free(struct machine *m);
void memory_join(struct ent *e);
void memory_leave(struct ent *e);
void memory_stale(struct device *d);        /* something has changed: plan again */
void memory_gate(struct ent *e, bool open); /* its gate opens or closes */
void memory_begins(struct ent *e);          /* it goes on with its command, or begins one */
uint64_t memory_slows(struct ent *e);       /* by so much is its command's end later */
void memory_event(struct machine *m, struct event *ev);
void memory_step(struct machine *m);        /* after each event */
void memory_count(struct machine *m);       /* the counted time begins */
void memory_count_ent(const struct ent *e); /* the entity leaves, or all is over */
void memory_count_end(struct machine *m);

/* machine.c: the entity may have become ready or idle. The core is told at the end of the event. */
void machine_edge(struct ent *e);

/* machine.c: simulates one device of a machine whose devices are independent of each other. */
int fm_sim_island(const struct fm_sim_plan *p, uint32_t machine, uint32_t device,
	const struct fm_sim_watch *watch, struct fm_sim_control *control, struct fm_sim_result *r,
	struct fm_err *err);

/* count.c */
void count_begin(struct machine *m); /* the warm-up is over */
void count_group(struct group *g);   /* the group leaves */
void count_end(struct machine *m);
