/* SPDX-License-Identifier: Apache-2.0 */
/* Gangs run on all of their devices or on none, under every policy. Also what is promised to them.
 */
#include "lab_internal.h"

#define APART FM_US /* shorter states are in the middle of a decision */

static void expect_whole(struct lab *l)
{
	lab_expect(l, l->apart <= APART, "gang", "for %llu us on some of its devices alone",
		(unsigned long long)(l->apart / FM_US));
}

/* A gang beside another group on each of its devices. The gang comes last. */
void lab_make_gang(struct lab *l)
{
	lab_device(l, 3);
	lab_device(l, 3);
	lab_group(l, "on one", 50, LAB_ALWAYS)->count = 2;
	lab_group(l, "on the other", 1000, LAB_ALWAYS)->place[0] = 1;
	lab_gang(l, "gang", 20, LAB_ALWAYS, 0, 1);
}

void lab_check_gang(struct lab *l)
{
	expect_whole(l);
	if (lab_promises(l, FM_PROMISE_SERVES))
		lab_expect_served(l, LAB_HUNGER);
}

/* The gang asks for little and has the highest priority. So it never waits for another group, on
 * any device. */
void lab_make_urgent_gang(struct lab *l)
{
	struct fm_sim_group *g;

	lab_device(l, 3);
	lab_device(l, 3);
	for (uint32_t i = 0; i < 2; i++) {
		g = lab_group(l, "low", 100, LAB_ALWAYS);
		g->place[0] = i;
		g->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_LOW;
	}
	lab_group(l, "middle", 5, 5 * FM_MS);
	g = lab_gang(l, "high", 3, 20 * FM_MS, 0, 1);
	g->arrival = FM_SIM_PERIODIC;
	g->hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
}

void lab_check_urgent_gang(struct lab *l)
{
	expect_whole(l);
	lab_expect_response(l, 3, 3 * LAB_COMMAND + 100 * FM_US, "priority");
}

/* Three gangs, of which each two share a device. By claims alone each could wait for the next for
 * ever. Then one gang leaves, and the other two compete for one device less. */
void lab_make_circle(struct lab *l)
{
	for (uint32_t i = 0; i < 3; i++)
		lab_device(l, 3);
	for (uint32_t i = 0; i < 3; i++)
		lab_gang(l, "gang", 10, LAB_ALWAYS, i, (i + 1) % 3);
	l->group[2].stop = 2 * FM_S;
	l->plan.duration = 3 * FM_S;
}

void lab_check_circle(struct lab *l)
{
	uint64_t least = UINT64_MAX, all = 0;

	expect_whole(l);
	for (uint32_t i = 0; i < 3; i++) {
		least = FM_MIN(least, l->r.group[i].jobs);
		all += l->r.group[i].jobs;
	}
	/* Jobs of 10 ms, one at a time. */
	lab_expect(l, all >= 270, "gets on", "%llu jobs of three gangs, at least 270",
		(unsigned long long)all);
	if (lab_promises(l, FM_PROMISE_SERVES))
		lab_expect_served(l, FM_S);
	if (lab_promises(l, FM_PROMISE_SERVES) && lab_promises(l, FM_PROMISE_EQUAL))
		lab_expect(l, least >= 45, "equal", "one had %llu jobs of %llu",
			(unsigned long long)least, (unsigned long long)all);
}
