/* SPDX-License-Identifier: Apache-2.0 */
/* Any file of tasks: refused with a reason, or analysed by every method, with bounds within
 * deadlines. */
#include "model/taskset.h"
#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TASKS 6

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void bounds(const fm_rta *rta, const struct fm_rta_set *set, enum fm_rta_method method)
{
	struct fm_rta_bound bound[TASKS];
	struct fm_rta_term term[64];
	uint32_t level[TASKS];
	bool ok = false;
	int rc = fm_rta_analyze(rta, method, bound, &ok);

	must(rc == 0 || rc == -EOVERFLOW || rc == -EINVAL);
	if (rc == -EINVAL) {
		must(fm_rta_method_lacks(rta, method));
		return;
	}
	for (size_t k = 0; k < set->tasks; k++) {
		must(bound[k].verdict != FM_RTA_MEETS ||
			(bound[k].wcrt >= 0 && bound[k].wcrt <= set->task[k].deadline));
		fm_rta_explain(rta, method, bound, NULL, k, term, 64);
	}
	if (fm_rta_method_gpu_priority(method))
		must(!fm_rta_gpu_priorities(rta, method, level, bound, &ok));
}

static void analyze(const struct taskset *ts)
{
	struct fm_rta_fault fault = {0};
	fm_rta *rta;
	int rc = fm_rta_new(&rta, &ts->set, &fault);

	if (rc) {
		must((rc == -EINVAL || rc == -EOVERFLOW) && fault.field && fault.reason);
		return;
	}
	if (ts->set.tasks <= TASKS)
		for (unsigned m = 0; m < FM_RTA_METHODS; m++)
			bounds(rta, &ts->set, (enum fm_rta_method)m);
	fm_rta_free(rta);
}

static void edf(const struct taskset *ts)
{
	struct fm_gedf_task task[TASKS];
	bool passes[FM_GEDF_TESTS];

	if (ts->set.tasks > TASKS)
		return;
	for (size_t k = 0; k < ts->set.tasks; k++)
		task[k] = (struct fm_gedf_task){ts->task[k].cpu_time, ts->task[k].period};
	fm_gedf_analyze(task, ts->set.tasks, ts->cpus ? ts->cpus : 2, FM_GEDF_CEIL, passes);
}

static void device_set(const struct taskset *ts)
{
	const struct fm_gedf_gpu_costs costs = {
		.slots = ts->slots ? ts->slots : 1, .decision = 6, .start = 20};
	struct fm_gedf_gpu_charge charge[TASKS];
	bool ok;
	int rc;

	if (ts->set.tasks > TASKS)
		return;
	rc = fm_gedf_gpu_analyze(ts->gpu, ts->set.tasks, &costs, charge, &ok);
	must(!rc || rc == -EOVERFLOW);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_err err = {0};
	struct taskset ts;

	for (int use = TASKSET_RTA; use <= TASKSET_GPU; use++) {
		int rc = taskset_parse(
			&ts, "fuzz", (const char *)data, size, (enum taskset_use)use, &err);

		if (rc) {
			must(rc == -EINVAL && err.code == rc && !strncmp(err.text, "fuzz: ", 6));
			continue;
		}
		if (use == TASKSET_RTA)
			analyze(&ts);
		else if (use == TASKSET_GEDF)
			edf(&ts);
		else
			device_set(&ts);
		taskset_free(&ts);
	}
	return 0;
}
