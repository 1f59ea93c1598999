// SPDX-License-Identifier: Apache-2.0
/* Sets and their tasks in the board: rows that the client fills, and the daemon reads for people.
 */
#include "base/util.h"
#include "board.h"
#include <stdio.h>
#include <string.h>

#define TAKEN UINT32_MAX /* a row that is being filled */

static const char *const policies[] = FM_BOARD_SET_POLICIES;

#define GET(word)        atomic_load_explicit(&(word), memory_order_relaxed)
#define PUT(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

static bool take(_Atomic uint32_t *word)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong(word, &none, TAKEN);
}

int fm_board_set_take(struct fm_board *b, unsigned slot)
{
	const struct fm_set empty = {.policy = policies[0]};

	for (unsigned i = 0; i < FM_BOARD_SETS; i++) {
		if (!take(&b->set[i].queue))
			continue;
		fm_board_set_write(&b->set[i], &empty);
		atomic_store(&b->set[i].queue, slot + 1);
		return (int)i;
	}
	return -1;
}

int fm_board_task_take(struct fm_board *b, unsigned set, uint32_t number, const char *name)
{
	const struct fm_set_task empty = {0};

	for (unsigned i = 0; i < FM_BOARD_TASKS; i++) {
		struct fm_board_task *row = &b->task[i];
		size_t n = strnlen(name, FM_TASK_MAX - 1);

		if (!take(&row->set))
			continue;
		PUT(row->number, number);
		for (size_t k = 0; k < FM_TASK_MAX; k++)
			PUT(row->name[k], k < n ? name[k] : 0);
		fm_board_task_write(row, &empty);
		atomic_store(&row->set, set + 1);
		return (int)i;
	}
	return -1;
}

void fm_board_set_give(struct fm_board *b, unsigned set)
{
	for (unsigned i = 0; i < FM_BOARD_TASKS; i++)
		if (atomic_load(&b->task[i].set) == set + 1)
			atomic_store(&b->task[i].set, 0);
	atomic_store(&b->set[set].queue, 0);
}

static uint32_t policy_number(const char *name)
{
	uint32_t i = 0;

	while (i < FM_ARRAY_LEN(policies) && strcmp(policies[i], name))
		i++;
	return i;
}

void fm_board_set_write(struct fm_board_set *row, const struct fm_set *set)
{
	PUT(row->policy, policy_number(set->policy));
	PUT(row->slots, set->slots);
	PUT(row->tasks, set->tasks);
	PUT(row->running, set->running);
	PUT(row->stopped, set->stopped);
	PUT(row->decisions, set->decisions);
	PUT(row->resident, set->resident);
}

void fm_board_task_write(struct fm_board_task *row, const struct fm_set_task *task)
{
	PUT(row->released, task->released);
	PUT(row->done, task->done);
	PUT(row->missed, task->missed);
	PUT(row->missed_stopped, task->missed_stopped);
	PUT(row->dropped, task->dropped);
	PUT(row->response_max, task->response_max);
	PUT(row->runs, task->runs);
}

int fm_board_set_read(const struct fm_board *b, unsigned slot, struct fm_set *set)
{
	for (unsigned i = 0; i < FM_BOARD_SETS; i++) {
		const struct fm_board_set *row = &b->set[i];
		uint32_t policy = GET(row->policy);

		if (atomic_load(&row->queue) != slot + 1)
			continue;
		*set = (struct fm_set){
			.policy = policy < FM_ARRAY_LEN(policies) ? policies[policy] : "?",
			.slots = GET(row->slots),
			.tasks = GET(row->tasks),
			.running = GET(row->running),
			.stopped = GET(row->stopped),
			.decisions = GET(row->decisions),
			.resident = GET(row->resident),
		};
		return (int)i;
	}
	return -1;
}

/* As the public header has it; anything else is not believed. */
static void read_name(const struct fm_board_task *row, struct fm_set_task *task)
{
	bool good = true;
	unsigned n = 0;
	char c;

	while (n < FM_TASK_MAX - 1 && (c = GET(row->name[n]))) {
		good &= c > ' ' && c <= '~' && !strchr("\"'/\\", c);
		task->name[n++] = c;
	}
	task->name[n] = 0;
	if (!good || !n)
		snprintf(task->name, sizeof(task->name), "task%u", task->number);
}

bool fm_board_task_read(
	const struct fm_board *b, unsigned row, unsigned set, struct fm_set_task *task)
{
	const struct fm_board_task *t = &b->task[row];

	if (row >= FM_BOARD_TASKS || atomic_load(&t->set) != set + 1)
		return false;
	*task = (struct fm_set_task){
		.number = GET(t->number),
		.released = GET(t->released),
		.done = GET(t->done),
		.missed = GET(t->missed),
		.missed_stopped = GET(t->missed_stopped),
		.dropped = GET(t->dropped),
		.response_max = GET(t->response_max),
		.runs = GET(t->runs),
	};
	read_name(t, task);
	return true;
}
