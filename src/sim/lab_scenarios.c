/* SPDX-License-Identifier: Apache-2.0 */
/* What is tried. Devices stop at once (level 3, no costs) or after a command of a millisecond, so
 * that what is late is the policy's doing. */
#include "lab_internal.h"

#define ALWAYS   UINT64_C(0)
#define COMMAND  FM_MS
#define POINTS   20000 /* parts per million by which a share may be off: two percentage points */
#define HUNGER   (2 * FM_S) /* longer is starvation, with few groups */
#define TURN_MAX (20 * FM_MS)

static void add_device(struct lab *l, uint32_t level)
{
	uint32_t n = l->plan.devices++;

	l->device[n] = (struct fm_sim_device){.name = "device",
		.count = 1,
		.slots = FM_MAX(l->subject->at_once, 1u),
		.level = level,
		.spacing = COMMAND,
		.window = COMMAND};
}

/* Jobs of so many commands; the next one `time` after the one before has ended, or has come. */
static struct fm_sim_group *add_group(
	struct lab *l, const char *name, uint32_t commands, uint64_t time)
{
	struct fm_sim_group *g = &l->group[l->plan.groups++];

	*g = (struct fm_sim_group){.name = name,
		.count = 1,
		.places = 1,
		.stop = FM_NEVER,
		.queue = 1000,
		.burst = 1,
		.time.a = time,
		.steps = 1,
		.step = {{.times = commands, .time.a = COMMAND}}};
#define HINT_DEFAULT(id, word, min, max, def, unit) g->hints.value[id] = def;
	FM_HINT_MAP(HINT_DEFAULT)
#undef HINT_DEFAULT
	return g;
}

static struct fm_sim_group *add_periodic(
	struct lab *l, const char *name, uint32_t commands, uint64_t period)
{
	struct fm_sim_group *g = add_group(l, name, commands, period);

	g->arrival = FM_SIM_PERIODIC;
	return g;
}

static uint64_t share(const struct lab *l, uint32_t group)
{
	const struct fm_sim_group_result *g = &l->r.group[group];

	return g->present ? (uint64_t)((unsigned __int128)g->served * 1000000 / g->present) : 0;
}

static void expect_share(struct lab *l, uint32_t group, uint64_t want, const char *property)
{
	const struct fm_sim_group_result *g = &l->r.group[group];
	bool holds = g->share_min + POINTS >= want && g->share_max <= want + POINTS;

	lab_expect(l, holds, property, "%s: %llu to %llu ppm of the device, should be %llu",
		l->group[group].name, (unsigned long long)g->share_min,
		(unsigned long long)g->share_max, (unsigned long long)want);
}

static void expect_response(struct lab *l, uint32_t group, uint64_t most, const char *property)
{
	const struct fm_sim_group_result *g = &l->r.group[group];

	lab_expect(l, g->jobs && g->response.max <= most, property,
		"%s: %llu jobs, the slowest in %llu us, at most %llu", l->group[group].name,
		(unsigned long long)g->jobs, (unsigned long long)(g->response.max / FM_US),
		(unsigned long long)(most / FM_US));
}

static void expect_served(struct lab *l, uint64_t most)
{
	uint64_t starved = 0;
	uint32_t who = 0;

	for (uint32_t i = 0; i < l->plan.groups; i++)
		if (lab_starved(l, i) > starved) {
			starved = lab_starved(l, i);
			who = i;
		}
	lab_expect(l, starved <= most, "serves", "%s waited for %llu us, at most %llu",
		l->group[who].name, (unsigned long long)(starved / FM_US),
		(unsigned long long)(most / FM_US));
}

static void make_one(struct lab *l)
{
	add_device(l, 2);
	add_group(l, "one", 10, ALWAYS);
}

static void check_one(struct lab *l)
{
	expect_share(l, 0, 1000000, "all of the device");
}

/* The middle one would keep the low one, and with it the high one, from ending. */
static void make_inversion(struct lab *l)
{
	add_device(l, 2);
	add_group(l, "low", 100, ALWAYS)->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_LOW;
	add_group(l, "middle", 100, 50 * FM_MS);
	add_periodic(l, "high", 3, 20 * FM_MS)->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
}

static void check_inversion(struct lab *l)
{
	expect_response(l, 2, 4 * COMMAND, "priority");
	/* Jobs of 100 ms, with 15 % of the time away, and 50 ms between them. */
	lab_expect(l, share(l, 1) > 580000, "priority", "middle has %llu ppm, should be 600000",
		(unsigned long long)share(l, 1));
}

static void make_starvation(struct lab *l)
{
	struct fm_sim_group *g;

	add_device(l, 2);
	g = add_group(l, "greedy", 1000, ALWAYS);
	g->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	g->hints.value[FM_HINT_WEIGHT] = 1000;
	g->hints.value[FM_HINT_SHARE] = 80;
	g->hints.value[FM_HINT_DEADLINE] = (int64_t)FM_MS;
	g->hints.value[FM_HINT_FOREGROUND] = 1;
	add_group(l, "modest", 500, ALWAYS)->count = 3;
}

static void check_starvation(struct lab *l)
{
	expect_served(l, HUNGER);
}

static void make_bursts(struct lab *l)
{
	struct fm_sim_group *g;

	add_device(l, 2);
	add_group(l, "steady", 20, 5 * FM_MS)->count = 2;
	g = add_periodic(l, "bursts", 3, 500 * FM_MS);
	g->arrival = FM_SIM_BURSTS;
	g->burst = 25;
	g->count = 2;
}

static void make_overload(struct lab *l)
{
	struct fm_sim_group *g;

	add_device(l, 3);
	g = add_periodic(l, "request", 4, 10 * FM_MS);
	g->time.shape = FM_SIM_EXP;
	g->random_phase = true;
	g->count = 5;
	g->queue = 20;
	g->hints.value[FM_HINT_DEADLINE] = 40 * (int64_t)FM_MS;
}

static void check_overload(struct lab *l)
{
	const struct fm_sim_device_result *d = &l->r.device[0];

	if (lab_promises(l, FM_LAB_CONSERVES) && l->device[0].slots == 1)
		lab_expect(l, d->served + POINTS * (d->time / 1000000) >= d->time, "busy",
			"%llu of %llu ms", (unsigned long long)(d->served / FM_MS),
			(unsigned long long)(d->time / FM_MS));
}

/* 95 % of the device, by deadlines that no fixed order keeps, and somebody who takes the rest. */
static void make_deadlines(struct lab *l)
{
	static const struct {
		uint32_t commands;
		uint64_t period;
	} task[] = {{4, 10}, {9, 30}, {25, 100}};

	add_device(l, 3);
	for (size_t i = 0; i < FM_ARRAY_LEN(task); i++) {
		struct fm_sim_group *g =
			add_periodic(l, "task", task[i].commands, task[i].period * FM_MS);

		g->hints.value[FM_HINT_PERIOD] = (int64_t)g->time.a;
		g->hints.value[FM_HINT_RUNTIME] = (int64_t)(task[i].commands * COMMAND);
		g->deadline = g->time.a;
	}
	add_group(l, "rest", 100, ALWAYS);
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
	add_device(l, 2);
	add_group(l, "equal", 1000, ALWAYS)->count = 4;
}

static void check_equals(struct lab *l)
{
	expect_share(l, 0, 250000 * (uint64_t)l->device[0].slots, "equal");
}

static void make_idle_peers(struct lab *l)
{
	add_device(l, 2);
	add_group(l, "busy", 1000, ALWAYS)->count = 2;
	add_group(l, "idle", 1, FM_S)->count = 6;
}

static void check_idle_peers(struct lab *l)
{
	uint64_t slots = l->device[0].slots;

	expect_share(l, 0, FM_MIN(500000 * slots, UINT64_C(1000000)), "equal");
}

static void make_weights(struct lab *l)
{
	add_device(l, 2);
	for (int i = 1; i <= 3; i++)
		add_group(l, "weight", 1000, ALWAYS)->hints.value[FM_HINT_WEIGHT] = 100 * i;
}

static void check_weights(struct lab *l)
{
	for (uint32_t i = 0; i < 3; i++)
		expect_share(l, i, UINT64_C(1000000) * (i + 1) / 6, "weight");
}

static void make_reservations(struct lab *l)
{
	add_device(l, 2);
	add_group(l, "half", 1000, ALWAYS)->hints.value[FM_HINT_SHARE] = 50;
	add_group(l, "fifth", 1000, ALWAYS)->hints.value[FM_HINT_SHARE] = 20;
	add_group(l, "free", 1000, ALWAYS)->count = 2;
}

static void check_reservations(struct lab *l)
{
	expect_share(l, 0, 500000, "share");
	expect_share(l, 1, 200000, "share");
	expect_share(l, 2, 150000, "share");
}

static void make_devices(struct lab *l)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct fm_sim_group *g;

		add_device(l, i + 1);
		g = add_group(l, "busy", 50, FM_MS);
		g->count = 2;
		g->place[0] = i;
		g = add_periodic(l, "now and then", 2, 40 * FM_MS);
		g->place[0] = i;
	}
	l->device[0].launch = l->device[1].gate = l->device[2].flush = 10 * FM_US;
}

static void make_order(struct lab *l)
{
	add_device(l, 3);
	add_device(l, 3);
	add_periodic(l, "urgent", 10, 40 * FM_MS)->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	add_group(l, "elsewhere", 50, ALWAYS)->place[0] = 1;
	l->a = 0;
	l->b = 1;
}

static void check_order(struct lab *l)
{
	expect_response(l, 0, 10 * COMMAND, "order");
	lab_expect(l, l->together <= FM_MS, "order", "both worked for %llu us",
		(unsigned long long)(l->together / FM_US));
	lab_expect(l, share(l, 1) > 700000, "order", "elsewhere has %llu ppm",
		(unsigned long long)share(l, 1));
}

static void make_joins(struct lab *l)
{
	struct fm_sim_group *g;

	add_device(l, 2);
	add_group(l, "stays", 20, ALWAYS);
	for (uint64_t i = 1; i <= 4; i++) {
		g = add_group(l, "comes and goes", 20, 2 * FM_MS);
		g->start = i * FM_S;
		g->stop = (4 + i) * FM_S;
		g->count = 2;
	}
}

/* The first second is its own, and the last two. */
static void check_joins(struct lab *l)
{
	if (lab_promises(l, FM_LAB_CONSERVES))
		lab_expect(l, share(l, 0) >= 190000, "alone at times", "stays has %llu ppm",
			(unsigned long long)share(l, 0));
}

static void make_foreground(struct lab *l)
{
	add_device(l, 2);
	add_group(l, "background", 100, ALWAYS)->count = 2;
	add_periodic(l, "window", 3, 20 * FM_MS)->hints.value[FM_HINT_FOREGROUND] = 1;
}

static void check_foreground(struct lab *l)
{
	expect_response(l, 1, 4 * COMMAND, "foreground");
}

static void make_short(struct lab *l)
{
	add_device(l, 2);
	add_group(l, "long", 200, FM_MS)->count = 2;
	add_periodic(l, "short", 1, 200 * FM_MS)->phase = 550 * FM_MS;
}

static void check_short(struct lab *l)
{
	uint64_t mean = l->r.group[1].response.sum / FM_MAX(l->r.group[1].response.count, 1ul);

	lab_expect(l, l->r.group[1].jobs && mean <= 6 * COMMAND, "short",
		"%llu us in the mean, at most %llu", (unsigned long long)(mean / FM_US),
		(unsigned long long)(6 * COMMAND / FM_US));
}

static void make_wakes(struct lab *l)
{
	add_device(l, 2);
	add_group(l, "busy", 1000, ALWAYS)->count = 4;
	add_periodic(l, "wakes", 1, 97 * FM_MS)->phase = 500 * FM_MS;
}

static void check_wakes(struct lab *l)
{
	expect_response(l, 1, TURN_MAX, "wakes");
}

static void make_thousand(struct lab *l)
{
	add_device(l, 2);
	add_group(l, "one of many", 5, ALWAYS)->count = 1000;
	l->plan.duration = 12 * FM_S;
}

/* A round of a thousand, of turns that may end a command late. */
static void check_thousand(struct lab *l)
{
	if (lab_promises(l, FM_LAB_SERVES) && lab_promises(l, FM_LAB_EQUAL))
		expect_served(l, 11 * FM_S);
}

#define B(promise) FM_LAB_BIT(FM_LAB_##promise)

const struct lab_scenario lab_scenarios[] = {
	{"one group", B(CONSERVES), make_one, check_one},
	{"priority inversion", B(PRIORITY), make_inversion, check_inversion},
	{"starvation", B(SERVES), make_starvation, check_starvation},
	{"bursts", 0, make_bursts, NULL},
	{"overload", 0, make_overload, check_overload},
	{"deadlines", B(DEADLINE), make_deadlines, check_deadlines},
	{"equal parts", B(EQUAL), make_equals, check_equals},
	{"idle peers", B(EQUAL), make_idle_peers, check_idle_peers},
	{"weights", B(WEIGHT), make_weights, check_weights},
	{"reservations", B(SHARE), make_reservations, check_reservations},
	{"unlike devices", 0, make_devices, NULL},
	{"one order over devices", B(ORDER), make_order, check_order},
	{"join and leave", 0, make_joins, check_joins},
	{"foreground", B(FOREGROUND), make_foreground, check_foreground},
	{"short beside long", B(SHORT), make_short, check_short},
	{"wakes up", B(WAKES), make_wakes, check_wakes},
	{"a thousand groups", 0, make_thousand, check_thousand},
	{NULL, 0, NULL, NULL},
};
