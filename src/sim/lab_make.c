/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of scenarios, and the properties that are expected of them. */
#include "lab_internal.h"

struct fm_sim_device *lab_device(struct lab *l, uint32_t level)
{
	uint32_t n = l->plan.devices++;

	l->device[n] = (struct fm_sim_device){.name = "device",
		.count = 1,
		.slots = FM_MAX(l->promise->at_once, 1u),
		.level = level,
		.spacing = LAB_COMMAND,
		.window = LAB_COMMAND};
	return &l->device[n];
}

struct fm_sim_group *lab_group(struct lab *l, const char *name, uint32_t commands, uint64_t time)
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
		.step = {{.times = commands, .time.a = LAB_COMMAND}}};
#define HINT_DEFAULT(id, word, min, max, def, unit) g->hints.value[id] = def;
	FM_HINT_MAP(HINT_DEFAULT)
#undef HINT_DEFAULT
	return g;
}

struct fm_sim_group *lab_periodic(
	struct lab *l, const char *name, uint32_t commands, uint64_t period)
{
	struct fm_sim_group *g = lab_group(l, name, commands, period);

	g->arrival = FM_SIM_PERIODIC;
	return g;
}

uint64_t lab_share(const struct lab *l, uint32_t group)
{
	const struct fm_sim_group_result *g = &l->r.group[group];

	return g->present ? (uint64_t)((unsigned __int128)g->served * 1000000 / g->present) : 0;
}

void lab_expect_share(
	struct lab *l, uint32_t group, uint64_t want, uint64_t off, const char *property)
{
	const struct fm_sim_group_result *g = &l->r.group[group];
	bool holds = g->share_min + off >= want && g->share_max <= want + off;

	lab_expect(l, holds, property, "%s: %llu to %llu ppm of the device, should be %llu",
		l->group[group].name, (unsigned long long)g->share_min,
		(unsigned long long)g->share_max, (unsigned long long)want);
}

void lab_expect_response(struct lab *l, uint32_t group, uint64_t most, const char *property)
{
	const struct fm_sim_group_result *g = &l->r.group[group];

	lab_expect(l, g->jobs && g->response.max <= most, property,
		"%s: %llu jobs, the slowest in %llu us, at most %llu", l->group[group].name,
		(unsigned long long)g->jobs, (unsigned long long)(g->response.max / FM_US),
		(unsigned long long)(most / FM_US));
}

void lab_expect_served(struct lab *l, uint64_t most)
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

struct fm_sim_group *lab_gang(
	struct lab *l, const char *name, uint32_t commands, uint64_t time, uint32_t a, uint32_t b)
{
	struct fm_sim_group *g = lab_group(l, name, commands, time);

	g->everywhere = true;
	g->places = 2;
	g->place[0] = a;
	g->place[1] = b;
	return g;
}
