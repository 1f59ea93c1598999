/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the tasks of a queue that schedules them itself. If memory is short, members are missing.
 */
#include "reply.h"
#include "report.h"

static json_t *task_object(const struct fm_set_task *t)
{
	json_t *o = json_object();

	set(o, "name", json_string(t->name));
	set(o, "number", number(t->number));
	set(o, "released", number(t->released));
	set(o, "done", number(t->done));
	set(o, "missed", number(t->missed));
	set(o, "missed_stopped", number(t->missed_stopped));
	set(o, "pending", number(fm_sub_sat(t->released, t->done)));
	set(o, "dropped", number(t->dropped));
	set(o, "response_max_ms", ms(t->response_max));
	set(o, "runs", json_boolean(t->runs));
	return o;
}

void report_set(json_t *queue, const struct fm_bqueue_info *i)
{
	struct fm_set_task task;
	struct fm_set s;
	int row = fm_board_set_read(i->board, i->slot, &s);
	json_t *o, *tasks;

	if (row < 0)
		return;
	o = json_object();
	tasks = json_array();
	for (unsigned t = 0; t < FM_BOARD_TASKS; t++)
		if (fm_board_task_read(i->board, t, (unsigned)row, &task))
			json_array_append_new(tasks, task_object(&task));
	set(o, "policy", json_string(s.policy));
	set(o, "slots", number(s.slots));
	set(o, "decisions", number(s.decisions));
	set(o, "stopped", json_boolean(s.stopped));
	set(o, "resident", json_boolean(s.resident));
	set(o, "more_tasks", number(fm_sub_sat(s.tasks, json_array_size(tasks))));
	set(o, "tasks", tasks);
	set(queue, "set", o);
}
