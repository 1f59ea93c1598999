/* SPDX-License-Identifier: Apache-2.0 */
/* The figures: the drawn sets, the parameter along the axis, and the tests. */
#include "base/util.h"
#include "study.h"
#include <errno.h>
#include <string.h>

enum sweep { TASKS, UTILISATION, CPUS, GPU_TASKS, GPU_TO_CPU, BEST_EFFORT };

#define MAX_EDF_TASKS 128
#define QUARTER       (FM_RTA_ONE / 4)
#define EACH          INT64_C(2000000) /* a decision for so much CPU time, as the paper has it */
#define DECISION      INT64_C(6000)    /* an aim: the order of a kernel's launch */

static struct fm_rta_range exactly(int64_t v)
{
	return (struct fm_rta_range){v, v};
}

/* Points are integers: the sets must not depend on how a machine rounds. */
static void set_parameter(struct fm_rta_generator *g, enum sweep sweep, int64_t point)
{
	switch (sweep) {
	case TASKS:
		g->tasks = (uint32_t)(2 * point + 2);
		break;
	case UTILISATION:
		g->cpu_share = exactly((point + 1) * (FM_RTA_ONE / 10));
		break;
	case CPUS:
		g->cpus = (uint32_t)(point + 1);
		break;
	case GPU_TASKS:
		g->gpu_tasks = exactly(point * (FM_RTA_ONE / 10));
		break;
	case GPU_TO_CPU:
		g->gpu_to_cpu = exactly(point * (FM_RTA_ONE / 10));
		break;
	case BEST_EFFORT:
		g->best_effort = point * (FM_RTA_ONE / 10);
		break;
	}
}

static int judge(const fm_rta *rta, enum fm_rta_method method, struct fm_rta_bound *bound, bool *ok)
{
	int rc = fm_rta_analyze(rta, method, bound, ok);

	return rc == -EOVERFLOW ? 0 : rc;
}

static int judge_gain(
	const fm_rta *rta, struct fm_rta_bound *bound, uint32_t *level, bool passes[STUDY_CURVES])
{
	static const enum fm_rta_method methods[] = {FM_RTA_GCAPS_SUSPEND, FM_RTA_GCAPS_BUSY};
	int rc = 0;

	for (int k = 0; !rc && k < 2; k++) {
		rc = judge(rta, methods[k], bound, &passes[2 * k]);
		passes[2 * k + 1] = passes[2 * k];
		if (!rc && !passes[2 * k])
			rc = fm_rta_gpu_priorities(
				rta, methods[k], level, NULL, &passes[2 * k + 1]);
	}
	return rc;
}

static int judge_all(
	const fm_rta *rta, struct fm_rta_bound *bound, uint32_t *level, bool passes[STUDY_CURVES])
{
	bool gain[STUDY_CURVES];
	int rc = judge_gain(rta, bound, level, gain);

	passes[0] = gain[1];
	passes[1] = gain[3];
	for (unsigned m = FM_RTA_RR_SUSPEND; !rc && m < FM_RTA_METHODS; m++)
		rc = judge(rta, (enum fm_rta_method)m, bound, &passes[m]);
	return rc;
}

static int judge_set(const struct study *s, const struct fm_rta_set *set, bool passes[STUDY_CURVES])
{
	struct fm_rta_bound *bound = calloc(set->tasks + 1, sizeof(*bound));
	uint32_t *level = calloc(set->tasks + 1, sizeof(*level));
	fm_rta *rta = NULL;
	int rc = bound && level ? fm_rta_new(&rta, set, NULL) : -ENOMEM;

	if (!rc)
		rc = (s->gain ? judge_gain : judge_all)(rta, bound, level, passes);
	fm_rta_free(rta);
	free(bound);
	free(level);
	return rc;
}

static int sample_gcaps(
	const struct study *s, unsigned point, struct fm_rta_random *r, bool passes[STUDY_CURVES])
{
	struct fm_rta_generator g;
	struct fm_rta_set *set;
	int rc;

	fm_rta_generator_default(&g);
	set_parameter(&g, (enum sweep)s->sweep, point);
	rc = fm_rta_generate(&g, r, &set);
	if (rc)
		return rc;
	rc = judge_set(s, set, passes);
	fm_rta_set_free(set);
	return rc;
}

static int sample_edf(
	const struct study *s, unsigned point, struct fm_rta_random *r, bool passes[STUDY_CURVES])
{
	static const enum fm_gedf_charge charge[] = {
		FM_GEDF_NONE, FM_GEDF_FLOOR, FM_GEDF_CEIL, FM_GEDF_DEDICATED};
	struct fm_gedf_task task[MAX_EDF_TASKS];
	size_t n = fm_gedf_generate(r, (point + 1) * QUARTER, task, MAX_EDF_TASKS);
	int rc = 0;

	for (size_t k = 0; !rc && k < FM_ARRAY_LEN(charge); k++)
		rc = fm_gedf_schedulable(task, n, s->cpus, charge[k], &passes[k]);
	for (size_t k = 0; !rc && k < 2; k++) {
		struct fm_gedf_task own[MAX_EDF_TASKS];

		for (size_t i = 0; i < n; i++) {
			int64_t each = task[i].cpu_time / EACH + (k && task[i].cpu_time % EACH);

			own[i] = task[i];
			own[i].cpu_time += each * s->decision;
		}
		rc = fm_gedf_schedulable(own, n, s->cpus, FM_GEDF_NONE, &passes[4 + k]);
	}
	return rc;
}

/* Decisions of no cost, of a warp's, and of those that the paper reports for its own way and for a
 * processor's; each with chunks of both lengths. */
static int sample_gpu(
	const struct study *s, unsigned point, struct fm_rta_random *r, bool passes[STUDY_CURVES])
{
	static const int64_t chunk[] = {2000000, 200000}, decision[] = {0, 6000, 91000, 165000};
	struct fm_gedf_task task[MAX_EDF_TASKS];
	size_t n = fm_gedf_generate(r, (point + 1) * (FM_RTA_ONE / 20), task, MAX_EDF_TASKS);
	int rc = 0;

	for (size_t k = 0; !rc && k < 2 * FM_ARRAY_LEN(decision); k++) {
		const struct fm_gedf_gpu gpu = {s->cpus, chunk[k / 4], decision[k % 4]};

		rc = fm_gedf_gpu_schedulable(task, n, &gpu, &passes[k]);
	}
	return rc;
}

#define GCAPS_8(id, what, where, from, by, n)                                                    \
	{                                                                                        \
		.name = "gcaps-8" id, .title = "GCAPS, Fig. 8" id ": " what, .axis = where,      \
		.first = from, .step = by, .points = n, .curves = 8, .sets = 1000,               \
		.curve = {"gcaps-suspend+gpu-priority", "gcaps-busy+gpu-priority", "rr-suspend", \
			"rr-busy", "fmlp-suspend", "fmlp-busy", "mpcp-suspend", "mpcp-busy"},    \
		.sample = sample_gcaps
#define GCAPS_9(id, what, where, from, by, n)                                                     \
	{                                                                                         \
		.name = "gcaps-9" id, .title = "GCAPS, Fig. 9, GPU priorities: " what,            \
		.axis = where, .first = from, .step = by, .points = n, .curves = 4, .sets = 1000, \
		.gain = true,                                                                     \
		.curve = {"gcaps-suspend", "gcaps-suspend+gpu-priority", "gcaps-busy",            \
			"gcaps-busy+gpu-priority"},                                               \
		.sample = sample_gcaps
#define EDF(id, m, what)                                                                          \
	{                                                                                         \
		.name = "gedf-" id, .title = "Global EDF, " what " CPUs (on-GPU scheduling)",     \
		.axis = "utilisation of all tasks", .first = 0.25, .step = 0.25, .points = 4 * m, \
		.curves = 6, .sets = 2000, .cpus = m, .decision = DECISION,                       \
		.curve = {"on-GPU", "on-CPU (floor)", "on-CPU (ceil)", "dedicated CPU",           \
			"our decision (floor)", "our decision (ceil)"},                           \
		.sample = sample_edf                                                              \
	}

/* clang-format off */
static const struct study studies[] = {
	GCAPS_8("a", "tasks", "tasks in the set", 2, 2, 10), .sweep = TASKS},
	GCAPS_8("b", "utilisation", "utilisation of each CPU", 0.1, 0.1, 10), .sweep = UTILISATION},
	GCAPS_8("c", "CPUs", "CPUs", 1, 1, 9), .sweep = CPUS},
	GCAPS_8("d", "tasks with GPU segments", "share of tasks that use the GPU", 0, 0.1, 11), .sweep = GPU_TASKS},
	GCAPS_8("e", "GPU to CPU", "G/C of tasks that use the GPU", 0, 0.1, 21), .sweep = GPU_TO_CPU},
	GCAPS_8("f", "best effort", "share of best-effort tasks", 0, 0.1, 9), .sweep = BEST_EFFORT},
	GCAPS_9("a", "tasks", "tasks in the set", 2, 2, 10), .sweep = TASKS},
	GCAPS_9("b", "utilisation", "utilisation of each CPU", 0.1, 0.1, 10), .sweep = UTILISATION},
	GCAPS_9("c", "CPUs", "CPUs", 1, 1, 9), .sweep = CPUS},
	GCAPS_9("d", "tasks with GPU segments", "share of tasks that use the GPU", 0, 0.1, 11), .sweep = GPU_TASKS},
	GCAPS_9("e", "GPU to CPU", "G/C of tasks that use the GPU", 0, 0.1, 21), .sweep = GPU_TO_CPU},
	GCAPS_9("f", "best effort", "share of best-effort tasks", 0, 0.1, 9), .sweep = BEST_EFFORT},
	EDF("4", 4, "four"),
	EDF("8", 8, "eight"),
	{.name = "gpu-edf", .title = "EDF on the device, by chunk and cost of a decision",
		.axis = "utilisation of all tasks", .first = 0.05, .step = 0.05, .points = 20,
		.curves = 8, .sets = 2000, .cpus = 1,
		.curve = {"nothing each 2 ms", "6 us each 2 ms", "91 us each 2 ms", "165 us each 2 ms",
			"nothing each 0.2 ms", "6 us each 0.2 ms", "91 us each 0.2 ms", "165 us each 0.2 ms"},
		.sample = sample_gpu},
};
/* clang-format on */

const struct study *study_at(size_t index)
{
	return index < FM_ARRAY_LEN(studies) ? &studies[index] : NULL;
}

const struct study *study_find(const char *name)
{
	for (size_t k = 0; k < FM_ARRAY_LEN(studies); k++)
		if (!strcmp(name, studies[k].name))
			return &studies[k];
	return NULL;
}

double study_x(const struct study *s, unsigned point)
{
	return s->first + s->step * point;
}
