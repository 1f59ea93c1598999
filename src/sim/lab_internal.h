/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/util.h"
#include "lab.h"

#define LAB_DEVICES 3
#define LAB_GROUPS  8
#define LAB_ENTS    1024

/* An entity, as its events show it. */
struct lab_ent {
	bool there, ready, open, on;
	uint64_t hungry;  /* ready, and not on the device since */
	uint64_t starved; /* the longest of these */
};

struct lab_device {
	unsigned slots;
	unsigned ready, on, let; /* let: ready, and the gate open */
	unsigned most;           /* of those let at a time */
	uint64_t since;          /* of the last change */
	uint64_t wasted;         /* fewer on it than are ready, and than it has slots for */
};

struct lab {
	const struct fm_policy_promise *promise;
	const struct fm_lab_report *report;
	const char *scenario;
	unsigned failed;
	bool enough; /* the listener wants no more */
	struct fm_sim_device device[LAB_DEVICES];
	struct fm_sim_group group[LAB_GROUPS];
	struct fm_sim_plan plan;
	struct fm_sim_result r;

	/* What was seen. */
	struct lab_ent ent[LAB_ENTS];
	uint32_t first[LAB_GROUPS + 1]; /* entity of each group */
	struct lab_device seen[LAB_DEVICES];
	uint64_t shut;     /* gates closed to an entity with work */
	uint64_t together; /* time in which the groups `a` and `b` were on a device at once */
	uint64_t both_since;
	unsigned a, b;
	/* Time in which a gang was let on some, but not all, of the devices on which it has work.
	 */
	uint64_t apart, apart_since[LAB_GROUPS];
};

struct lab_scenario {
	const char *name;
	uint32_t needs; /* promises that it is about; 0: it is for every policy */
	uint32_t but;   /* promises that hold elsewhere, but not here */
	void (*make)(struct lab *l);
	void (*check)(struct lab *l); /* besides what holds always; may be NULL */
};

extern const struct lab_scenario lab_scenarios[]; /* ends with a NULL name */

/* What scenarios are made of and by: lab_make.c */
#define LAB_ALWAYS  UINT64_C(0)
#define LAB_COMMAND FM_MS
#define LAB_POINTS  20000 /* parts per million by which a share may be off: 2 percentage points */
#define LAB_HUNGER  (2 * FM_S) /* longer is starvation, with few groups */

struct fm_sim_device *lab_device(struct lab *l, uint32_t level);
/* Adds a group with jobs of so many commands. A job comes `time` after the job before has ended, or
 * has come. */
struct fm_sim_group *lab_group(struct lab *l, const char *name, uint32_t commands, uint64_t time);
struct fm_sim_group *lab_periodic(
	struct lab *l, const char *name, uint32_t commands, uint64_t period);
/* The same, on these two devices at once. */
struct fm_sim_group *lab_gang(
	struct lab *l, const char *name, uint32_t commands, uint64_t time, uint32_t a, uint32_t b);

uint64_t lab_share(const struct lab *l, uint32_t group); /* of all its instances, ppm */
/* Properties. Shares are of each instance. */
void lab_expect_share(
	struct lab *l, uint32_t group, uint64_t want, uint64_t off, const char *property);
void lab_expect_response(struct lab *l, uint32_t group, uint64_t most, const char *property);
void lab_expect_served(struct lab *l, uint64_t most);
/* lab_gangs.c */
void lab_make_gang(struct lab *l);
void lab_check_gang(struct lab *l);
void lab_make_urgent_gang(struct lab *l);
void lab_check_urgent_gang(struct lab *l);
void lab_make_circle(struct lab *l);
void lab_check_circle(struct lab *l);

static inline bool lab_promises(const struct lab *l, enum fm_promise p)
{
	return l->promise->bits & FM_PROMISE_BIT(p);
}

/* lab.c */
void lab_expect(struct lab *l, bool holds, const char *property, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* lab_watch.c */
#define LAB_WANTS                                                                               \
	(FM_SIM_BIT(FM_SIM_LEAVES) | FM_SIM_BIT(FM_SIM_RUNS) | FM_SIM_BIT(FM_SIM_STOPS) |       \
		FM_SIM_BIT(FM_SIM_READY) | FM_SIM_BIT(FM_SIM_IDLE) | FM_SIM_BIT(FM_SIM_OPENS) | \
		FM_SIM_BIT(FM_SIM_CLOSES))
void lab_watch_begin(struct lab *l);
void lab_watch_end(struct lab *l); /* up to the end of the plan */
void lab_watch(void *ctx, const struct fm_sim_event *e);
uint64_t lab_starved(const struct lab *l, uint32_t group); /* the longest of its instances */
