/* SPDX-License-Identifier: Apache-2.0 */
/* The scenarios. Devices stop at once (level 3, no costs) or after a command of a millisecond, so
 * that any lateness comes from the policy. */
#include "lab_internal.h"

#define TURN_MAX (20 * FM_MS)

static void make_one(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "one", 10, LAB_ALWAYS);
}

static void check_one(struct lab *l)
{
	lab_expect_share(l, 0, 1000000, LAB_POINTS, "all of the device");
}

/* The middle group would keep the low one, and so the high one, from ending. */
static void make_inversion(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "low", 100, LAB_ALWAYS)->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_LOW;
	lab_group(l, "middle", 100, 50 * FM_MS);
	lab_periodic(l, "high", 3, 20 * FM_MS)->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
}

static void check_inversion(struct lab *l)
{
	lab_expect_response(l, 2, 4 * LAB_COMMAND, "priority");
	/* Jobs of 100 ms, with 15 % of the time away, and 50 ms between them. */
	lab_expect(l, lab_share(l, 1) > 580000, "priority", "middle has %llu ppm, should be 600000",
		(unsigned long long)lab_share(l, 1));
}

static void make_starvation(struct lab *l)
{
	struct fm_sim_group *g;

	lab_device(l, 2);
	g = lab_group(l, "greedy", 1000, LAB_ALWAYS);
	g->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	g->hints.value[FM_HINT_WEIGHT] = 1000;
	g->hints.value[FM_HINT_SHARE] = 80;
	g->hints.value[FM_HINT_DEADLINE] = (int64_t)FM_MS;
	g->hints.value[FM_HINT_FOREGROUND] = 1;
	lab_group(l, "modest", 500, LAB_ALWAYS)->count = 3;
}

static void check_starvation(struct lab *l)
{
	lab_expect_served(l, LAB_HUNGER);
}

static void make_bursts(struct lab *l)
{
	struct fm_sim_group *g;

	lab_device(l, 2);
	lab_group(l, "steady", 20, 5 * FM_MS)->count = 2;
	g = lab_periodic(l, "bursts", 3, 500 * FM_MS);
	g->arrival = FM_SIM_BURSTS;
	g->burst = 25;
	g->count = 2;
}

static void make_overload(struct lab *l)
{
	struct fm_sim_group *g;

	lab_device(l, 3);
	g = lab_periodic(l, "request", 4, 10 * FM_MS);
	g->time.shape = FM_SIM_EXP;
	g->random_phase = true;
	g->count = 5;
	g->queue = 20;
	g->hints.value[FM_HINT_DEADLINE] = 40 * (int64_t)FM_MS;
}

static void check_overload(struct lab *l)
{
	const struct fm_sim_device_result *d = &l->r.device[0];

	if (lab_promises(l, FM_PROMISE_CONSERVES) && l->device[0].slots == 1)
		lab_expect(l, d->served + LAB_POINTS * (d->time / 1000000) >= d->time, "busy",
			"%llu of %llu ms", (unsigned long long)(d->served / FM_MS),
			(unsigned long long)(d->time / FM_MS));
	if (lab_promises(l, FM_PROMISE_SERVES))
		lab_expect_served(l, LAB_HUNGER);
}

/* The highest gets what it would get alone, the lowest gets what is left. */
static void make_overload_by_priority(struct lab *l)
{
	static const int64_t priority[] = {FM_PRIORITY_HIGH, 0, FM_PRIORITY_LOW};

	lab_device(l, 3);
	for (size_t i = 0; i < FM_ARRAY_LEN(priority); i++) {
		struct fm_sim_group *g = lab_periodic(l, "request", 4, 10 * FM_MS);

		g->phase = i * FM_MS;
		g->queue = 20;
		g->hints.value[FM_HINT_PRIORITY] = priority[i];
	}
}

static void check_overload_by_priority(struct lab *l)
{
	lab_expect_response(l, 0, 4 * LAB_COMMAND + 100 * FM_US, "priority");
	lab_expect_share(l, 1, 400000, LAB_POINTS, "priority");
	lab_expect_share(l, 2, 200000, LAB_POINTS, "priority");
}

/* Groups that use 95 % of the device, with deadlines that no fixed order keeps, and one that takes
 * the rest. */
static void make_deadlines(struct lab *l)
{
	static const struct {
		uint32_t commands;
		uint64_t period;
	} task[] = {{4, 10}, {9, 30}, {25, 100}};

	lab_device(l, 3);
	for (size_t i = 0; i < FM_ARRAY_LEN(task); i++) {
		struct fm_sim_group *g =
			lab_periodic(l, "task", task[i].commands, task[i].period * FM_MS);

		g->hints.value[FM_HINT_PERIOD] = (int64_t)g->time.a;
		g->hints.value[FM_HINT_RUNTIME] = (int64_t)(task[i].commands * LAB_COMMAND);
		g->deadline = g->time.a;
	}
	lab_group(l, "rest", 100, LAB_ALWAYS);
}

static void check_deadlines(struct lab *l)
{
	uint64_t late = 0, jobs = 0;

	for (uint32_t i = 0; i < 3; i++) {
		late += l->r.group[i].late;
		jobs += l->r.group[i].jobs;
	}
	lab_expect(l, !late && jobs >= 1400, "deadline", "%llu late of %llu jobs",
		(unsigned long long)late, (unsigned long long)jobs);
}

static void make_equals(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "equal", 1000, LAB_ALWAYS)->count = 4;
}

static void check_equals(struct lab *l)
{
	lab_expect_share(l, 0, 250000 * (uint64_t)l->device[0].slots, LAB_POINTS, "equal");
}

static void make_idle_peers(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "busy", 1000, LAB_ALWAYS)->count = 2;
	lab_group(l, "idle", 1, FM_S)->count = 6;
}

static void check_idle_peers(struct lab *l)
{
	uint64_t slots = l->device[0].slots;

	lab_expect_share(l, 0, FM_MIN(500000 * slots, UINT64_C(1000000)), LAB_POINTS, "equal");
}

static void make_weights(struct lab *l)
{
	lab_device(l, 2);
	for (int i = 1; i <= 3; i++)
		lab_group(l, "weight", 1000, LAB_ALWAYS)->hints.value[FM_HINT_WEIGHT] = 100 * i;
}

static void check_weights(struct lab *l)
{
	for (uint32_t i = 0; i < 3; i++)
		lab_expect_share(l, i, UINT64_C(1000000) * (i + 1) / 6, LAB_POINTS, "weight");
}

static void make_reservations(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "half", 1000, LAB_ALWAYS)->hints.value[FM_HINT_SHARE] = 50;
	lab_group(l, "fifth", 1000, LAB_ALWAYS)->hints.value[FM_HINT_SHARE] = 20;
	lab_group(l, "free", 1000, LAB_ALWAYS)->count = 2;
}

static void check_reservations(struct lab *l)
{
	lab_expect_share(l, 0, 500000, LAB_POINTS, "share");
	lab_expect_share(l, 1, 200000, LAB_POINTS, "share");
	lab_expect_share(l, 2, 150000, LAB_POINTS, "share");
}

static void make_devices(struct lab *l)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct fm_sim_group *g;

		lab_device(l, i + 1);
		g = lab_group(l, "busy", 50, FM_MS);
		g->count = 2;
		g->place[0] = i;
		g = lab_periodic(l, "now and then", 2, 40 * FM_MS);
		g->place[0] = i;
	}
	l->device[0].launch = l->device[1].gate = l->device[2].flush = 10 * FM_US;
}

/* Checks the two busy groups on each device. */
static void check_devices(struct lab *l)
{
	for (uint32_t i = 0; i < 6 && lab_promises(l, FM_PROMISE_EQUAL); i += 2)
		lab_expect(l, l->r.group[i].share_max <= l->r.group[i].share_min + LAB_POINTS,
			"equal", "%llu to %llu ppm of a device of level %u",
			(unsigned long long)l->r.group[i].share_min,
			(unsigned long long)l->r.group[i].share_max, i / 2 + 1);
	if (lab_promises(l, FM_PROMISE_SERVES))
		lab_expect_served(l, LAB_HUNGER);
}

/* Beside a group that always computes, on devices that stop at each of the levels. */
static void make_levels(struct lab *l)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct fm_sim_group *g;

		lab_device(l, i + 1);
		g = lab_group(l, "low", 100, LAB_ALWAYS);
		g->place[0] = i;
		g->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_LOW;
		g = lab_periodic(l, "high", 2, 20 * FM_MS);
		g->place[0] = i;
		g->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	}
	l->device[2].flush = 50 * FM_US;
}

/* The lateness is what the level lets run on: the window and a command, the commands up to the next
 * gate, or the flush. */
static void check_levels(struct lab *l)
{
	static const uint64_t late[] = {2 * LAB_COMMAND, LAB_COMMAND, 50 * FM_US};

	for (uint32_t i = 0; i < 3; i++)
		lab_expect_response(
			l, 2 * i + 1, 2 * LAB_COMMAND + late[i] + 10 * FM_US, "priority");
}

static void make_order(struct lab *l)
{
	lab_device(l, 3);
	lab_device(l, 3);
	lab_periodic(l, "urgent", 10, 40 * FM_MS)->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	lab_group(l, "elsewhere", 50, LAB_ALWAYS)->place[0] = 1;
	l->a = 0;
	l->b = 1;
}

static void check_order(struct lab *l)
{
	lab_expect_response(l, 0, 10 * LAB_COMMAND, "order");
	lab_expect(l, l->together <= FM_MS, "order", "both worked for %llu us",
		(unsigned long long)(l->together / FM_US));
	lab_expect(l, lab_share(l, 1) > 700000, "order", "elsewhere has %llu ppm",
		(unsigned long long)lab_share(l, 1));
}

static void make_joins(struct lab *l)
{
	struct fm_sim_group *g;

	lab_device(l, 2);
	lab_group(l, "stays", 20, LAB_ALWAYS);
	for (uint64_t i = 1; i <= 4; i++) {
		g = lab_group(l, "comes and goes", 20, 2 * FM_MS);
		g->start = i * FM_S;
		g->stop = (4 + i) * FM_S;
		g->count = 2;
	}
}

/* The group that stays has the device to itself in the first second and the last two. */
static void check_joins(struct lab *l)
{
	if (lab_promises(l, FM_PROMISE_CONSERVES))
		lab_expect(l, lab_share(l, 0) >= 190000, "alone at times", "stays has %llu ppm",
			(unsigned long long)lab_share(l, 0));
}

/* Groups come and go all the time, while one group stays. */
static void make_crowds(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "stays", 20, LAB_ALWAYS);
	for (uint64_t i = 0; i < 7; i++) {
		struct fm_sim_group *g = lab_group(l, "crowd", 10, 3 * FM_MS);

		g->count = 5;
		g->start = FM_S + i * 700 * FM_MS;
		g->stop = g->start + 900 * FM_MS;
	}
}

static void check_crowds(struct lab *l)
{
	if (lab_promises(l, FM_PROMISE_SERVES))
		lab_expect_served(l, 600 * FM_MS);
	if (lab_promises(l, FM_PROMISE_CONSERVES) && lab_promises(l, FM_PROMISE_EQUAL))
		lab_expect(l, l->r.group[0].served >= 4 * FM_S, "alone at times",
			"stays had %llu ms, at least 4000",
			(unsigned long long)(l->r.group[0].served / FM_MS));
}

static void make_foreground(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "background", 100, LAB_ALWAYS)->count = 2;
	lab_periodic(l, "window", 3, 20 * FM_MS)->hints.value[FM_HINT_FOREGROUND] = 1;
}

static void check_foreground(struct lab *l)
{
	lab_expect_response(l, 1, 4 * LAB_COMMAND, "foreground");
}

static void make_short(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "long", 200, FM_MS)->count = 2;
	lab_periodic(l, "short", 1, 200 * FM_MS)->phase = 550 * FM_MS;
}

static void check_short(struct lab *l)
{
	uint64_t mean = l->r.group[1].response.sum / FM_MAX(l->r.group[1].response.count, 1ul);

	lab_expect(l, l->r.group[1].jobs && mean <= 6 * LAB_COMMAND, "short",
		"%llu us in the mean, at most %llu", (unsigned long long)(mean / FM_US),
		(unsigned long long)(6 * LAB_COMMAND / FM_US));
}

static void make_wakes(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "busy", 1000, LAB_ALWAYS)->count = 4;
	lab_periodic(l, "wakes", 1, 97 * FM_MS)->phase = 500 * FM_MS;
}

static void check_wakes(struct lab *l)
{
	lab_expect_response(l, 1, TURN_MAX, "wakes");
}

static void make_hundred(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "one of many", 1000, LAB_ALWAYS)->count = 100;
	l->plan.duration = 20 * FM_S;
}

static void check_hundred(struct lab *l)
{
	uint64_t part = 10000 * (uint64_t)l->device[0].slots;

	lab_expect_share(l, 0, part, part / 4, "equal");
	if (lab_promises(l, FM_PROMISE_SERVES))
		lab_expect_served(l, LAB_HUNGER);
}

static void make_thousand(struct lab *l)
{
	lab_device(l, 2);
	lab_group(l, "one of many", 5, LAB_ALWAYS)->count = 1000;
	l->plan.duration = 12 * FM_S;
}

/* One round of a thousand turns. Each turn may end a command late. */
static void check_thousand(struct lab *l)
{
	if (lab_promises(l, FM_PROMISE_SERVES) && lab_promises(l, FM_PROMISE_EQUAL))
		lab_expect_served(l, 11 * FM_S);
}

#define B(promise) FM_PROMISE(promise)

const struct lab_scenario lab_scenarios[] = {
	/* A group that is alone cannot break these promises, so they are not checked then. */
	{"one group", B(CONSERVES), B(ALONE), make_one, check_one},
	{"priority inversion", B(PRIORITY), 0, make_inversion, check_inversion},
	{"starvation", B(SERVES), 0, make_starvation, check_starvation},
	{"bursts", 0, 0, make_bursts, NULL},
	{"overload", 0, 0, make_overload, check_overload},
	{"overload by priority", B(PRIORITY), 0, make_overload_by_priority,
		check_overload_by_priority},
	{"deadlines", B(DEADLINE), 0, make_deadlines, check_deadlines},
	{"equal parts", B(EQUAL), 0, make_equals, check_equals},
	{"idle peers", B(EQUAL), 0, make_idle_peers, check_idle_peers},
	{"weights", B(WEIGHT), 0, make_weights, check_weights},
	{"reservations", B(SHARE), 0, make_reservations, check_reservations},
	{"unlike devices", 0, 0, make_devices, check_devices},
	{"each level", B(PRIORITY), B(CONSERVES), make_levels, check_levels},
	{"one order over devices", B(ORDER), B(ALONE), make_order, check_order},
	{"join and leave", 0, 0, make_joins, check_joins},
	{"crowds", 0, 0, make_crowds, check_crowds},
	{"foreground", B(FOREGROUND), 0, make_foreground, check_foreground},
	{"short beside long", B(SHORT), 0, make_short, check_short},
	{"wakes up", B(WAKES), 0, make_wakes, check_wakes},
	{"a hundred groups", B(EQUAL), 0, make_hundred, check_hundred},
	{"a thousand groups", 0, 0, make_thousand, check_thousand},
	/* A device may be kept free for a gang that waits for another one. */
	{"a gang", 0, B(CONSERVES), lab_make_gang, lab_check_gang},
	{"an urgent gang", B(PRIORITY), B(CONSERVES), lab_make_urgent_gang, lab_check_urgent_gang},
	{"gangs in a circle", 0, B(CONSERVES), lab_make_circle, lab_check_circle},
	{NULL, 0, 0, NULL, NULL},
};
