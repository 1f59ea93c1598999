// SPDX-License-Identifier: Apache-2.0
/*
 * A car's work on one device, as a set of tasks that orders itself: a camera and a lidar with
 * periods, a planner that comes after both, and a learner behind them that always has work. It runs
 * ten seconds of virtual time under each policy, with decisions of three costs, and prints which
 * deadlines were missed. It needs no device and no daemon; the same lines come out each time.
 *
 *   cc gpu_sched.c -o gpu_sched $(pkg-config --cflags --libs fermata)
 *   ./gpu_sched
 */
#include <fermata/gpu_sched.h>
#include <stdio.h>
#include <string.h>

#define MS      UINT64_C(1000000)
#define SECONDS 10

enum task { CAMERA, LIDAR, PLANNER, LEARNER, TASKS };

static const unsigned sensors[] = {CAMERA, LIDAR};

/* Without enqueue each chunk lasts its part of wcet_ns. With it, a chunk is what it launches. */
static const struct fm_gpu_task tasks[TASKS] = {
	[CAMERA] = {.size = sizeof(struct fm_gpu_task),
		.name = "camera",
		.period_ns = 20 * MS,
		.deadline_ns = 10 * MS,
		.wcet_ns = 3 * MS,
		.n_chunks = 6,
		.priority = 3},
	[LIDAR] = {.size = sizeof(struct fm_gpu_task),
		.name = "lidar",
		.period_ns = 20 * MS,
		.phase_ns = 1 * MS,
		.wcet_ns = 5 * MS,
		.n_chunks = 10,
		.priority = 1},
	[PLANNER] = {.size = sizeof(struct fm_gpu_task),
		.name = "planner",
		.deadline_ns = 8 * MS,
		.wcet_ns = 4 * MS,
		.n_chunks = 8,
		.priority = 2,
		.after = sensors,
		.n_after = 2},
	[LEARNER] = {.size = sizeof(struct fm_gpu_task),
		.name = "learner",
		.wcet_ns = 40 * MS,
		.n_chunks = 40},
};

/* Releases of the learner: whenever it has none, another. */
static int run(struct fm_gpu_set *set)
{
	struct fm_gpu_stats learner = {.size = sizeof(learner)};
	int rc = fm_gpu_set_start(set);

	for (int ms = 0; !rc && ms < SECONDS * 1000; ms++) {
		rc = fm_gpu_set_stats(set, LEARNER, &learner);
		if (!rc && learner.released == learner.done)
			rc = fm_gpu_release(set, LEARNER, 1);
		if (!rc)
			rc = fm_gpu_set_advance(set, MS);
	}
	return rc;
}

static int print(struct fm_gpu_set *set, const struct fm_gpu_set_options *o)
{
	printf("%-15s %6.1f us", o->policy, (double)o->decision_ns / 1000);
	for (unsigned t = 0; t < TASKS; t++) {
		struct fm_gpu_stats s = {.size = sizeof(s)};

		if (fm_gpu_set_stats(set, t, &s))
			return -1;
		if (t == LEARNER)
			printf("  %4llu jobs\n", (unsigned long long)s.done);
		else
			printf("  %3llu of %3llu, %5.1f ms", (unsigned long long)s.missed,
				(unsigned long long)s.done, (double)s.response_max_ns / MS);
	}
	return 0;
}

static int try_policy(const char *policy, uint64_t decision_ns)
{
	const struct fm_gpu_set_options o = {.size = sizeof(o),
		.policy = policy,
		.slots = 1,
		.engine = "cpu",
		.resident = true, /* it has periods */
		.virtual_time = true,
		.decision_ns = decision_ns};
	struct fm_gpu_set *set;
	char why[256] = "";
	int rc;

	set = fm_gpu_set_new(&o, &rc);
	for (unsigned t = 0; set && t < TASKS && rc >= 0; t++)
		rc = fm_gpu_task_add(set, &tasks[t]);
	if (set && rc >= 0)
		rc = run(set);
	if (set && !rc)
		rc = print(set, &o);
	if (set && rc)
		fm_gpu_set_why(set, why, sizeof(why));
	if (rc)
		fprintf(stderr, "%s: %s %s\n", policy, strerror(-rc), why);
	fm_gpu_set_free(set);
	return rc;
}

int main(void)
{
	static const char *const policies[] = {
		"fifo", "fair", "fixed-priority", "least-laxity", "edf"};
	static const uint64_t costs[] = {0, 6000, 91000};

	printf("%-15s %9s  %-22s%-22s%-22s%s\n", "policy", "decision", "camera: missed, worst",
		"lidar", "planner", "learner");
	for (unsigned p = 0; p < sizeof(policies) / sizeof(policies[0]); p++)
		for (unsigned c = 0; c < sizeof(costs) / sizeof(costs[0]); c++)
			if (try_policy(policies[p], costs[c]))
				return 1;
	return 0;
}
