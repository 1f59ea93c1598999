/* SPDX-License-Identifier: Apache-2.0 */
#include "run_task.h"
#include "admission.h"
#include "base/util.h"

static json_t *make_request(const struct run_task *t, const char *group)
{
	const struct fm_rta_segment segment = {.total = t->gpu, .gpu = t->gpu};
	const struct fm_rta_task task = {
		.priority = FM_MAX(t->priority, INT64_C(0)),
		.cpu = t->cpu,
		.period = t->period,
		.deadline = t->deadline ? t->deadline : t->period,
		.cpu_time = t->cpu_time,
		.segment = &segment,
		.segments = t->gpu > 0,
		.gpu_total = FM_RTA_UNSET,
	};
	json_t *request = json_pack("{s:s, s:[o]}", "cmd", "admit", "tasks",
		admission_task(group, group, t->overrun, &task));

	if (request && t->epsilon >= 0)
		json_object_set_new(request, "epsilon_ns", json_integer(t->epsilon));
	return request;
}

int run_task_admit(const struct cli *cli, const struct run_task *t, const char *group)
{
	CLI_CLEAN_JSON json_t *reply = NULL;
	int rc = admission_ask(cli, make_request(t, group), &reply, NULL);

	if (!rc)
		admission_warn(reply, "--epsilon", t->epsilon);
	rc = rc ? rc : admission_show(reply, true);
	if (!rc)
		return 0;
	if (t->report) {
		fprintf(stderr, "fermata: running it anyway\n");
		return 0;
	}
	return rc == CLI_USAGE ? CLI_USAGE : CLI_NOT_ADMITTED;
}
