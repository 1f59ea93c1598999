// SPDX-License-Identifier: Apache-2.0
#include "seat.h"
#include "base/clock.h"
#include "shim/shim.h"
#include "trace/trace.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEY UINT64_C(0x6a6f62736f667365) /* of jobs, among the kinds of commands */

static unsigned seat_levels(void *hwq)
{
	return 1u << FM_LEVEL_PENDING | 1u << FM_LEVEL_QUEUED;
}

/* The program waits for its jobs by the set's own functions. */
static int seat_sync(void *hwq)
{
	return 0;
}

/* The set looks by itself. */
static int seat_gate(void *hwq, const struct fm_gate_words *w, uint64_t finished, bool sample)
{
	return 0;
}

/* The set writes its progress as it goes. What is written elsewhere is asked for when the queue
 * ends, and by then nothing is under way. */
static int seat_fence(void *hwq, const struct fm_gate_words *w, uint64_t finished)
{
	struct fm_gpu_seat *seat = hwq;

	if (w->progress != &seat->xq->slot->progress)
		atomic_store(w->progress, 2 * finished);
	return 0;
}

static int seat_sampled(void *hwq, uint64_t *ns, bool *exact)
{
	return 0;
}

static void seat_release(void *hwq, bool orphaned)
{
	struct fm_gpu_seat *seat = hwq;

	pthread_mutex_destroy(&seat->lock);
	free(seat);
}

static const struct fm_hw_ops set_ops = {
	.name = "set",
	.levels = seat_levels,
	.sync = seat_sync,
	.release = seat_release,
	.device_gate = {.gate = seat_gate, .write_fence = seat_fence, .sampled = seat_sampled},
};

static void seat_looked(void *hwq)
{
	struct fm_gpu_seat *seat = hwq;

	pthread_mutex_lock(&seat->lock);
	if (seat->look)
		seat->look(seat->arg);
	pthread_mutex_unlock(&seat->lock);
}

static int make_queue(
	struct fm_gpu_seat *seat, struct fm_client *c, const struct fm_gpu_seat_wish *wish)
{
	static _Atomic unsigned made;
	char own[FM_DEVKEY_MAX];
	struct fm_xq_config config = {
		.device = wish->device ? wish->device : own,
		.ops = &set_ops,
		.hwq = seat,
		.level_wish = FM_LEVEL_QUEUED,
		.steered = true,
		.looked = seat_looked,
	};
	int group = wish->group ? fm_client_group_add(c, wish->group) : 0;

	if (group < 0)
		return group;
	config.group = (unsigned)group;
	snprintf(own, sizeof(own), "set:%d:%u", (int)getpid(), atomic_fetch_add(&made, 1));
	return fm_xq_create(&seat->xq, c, &config);
}

static int seat_take(struct fm_gpu_seat **out, const struct fm_gpu_seat_wish *wish)
{
	struct fm_client *c = fm_shim_client();
	struct fm_gpu_seat *seat;
	int rc;

	*out = NULL;
	if (!c)
		return 0;
	seat = calloc(1, sizeof(*seat));
	if (!seat)
		return -ENOMEM;
	pthread_mutex_init(&seat->lock, NULL);
	fm_lock_rank(&seat->lock, GPU_SEAT);
	rc = make_queue(seat, c, wish);
	if (rc) {
		seat_release(seat, false);
		return rc;
	}
	pthread_mutex_lock(&seat->lock);
	seat->look = wish->look;
	seat->arg = wish->arg;
	pthread_mutex_unlock(&seat->lock);
	*out = seat;
	return 0;
}

static struct fm_board *board_of(struct fm_gpu_seat *seat)
{
	return fm_client_board(seat->xq->client);
}

/* The agent frees the seat when it has seen that the queue is over. */
static void seat_leave(struct fm_gpu_seat *seat)
{
	pthread_mutex_lock(&seat->lock);
	seat->look = NULL;
	pthread_mutex_unlock(&seat->lock);
	if (seat->row > 0)
		fm_board_set_give(board_of(seat), (unsigned)seat->row - 1);
	fm_xq_close(seat->xq);
}

static bool seat_may_run(struct fm_gpu_seat *seat)
{
	return fm_xq_may_run(seat->xq);
}

static void seat_told(struct fm_gpu_seat *seat, uint64_t begun, uint64_t done, bool stands)
{
	struct fm_xq *q = seat->xq;

	for (; seat->begun != begun; seat->begun++) {
		fm_xq_begin(q, KEY, false);
		fm_xq_end(q);
	}
	atomic_store(&q->slot->progress, 2 * done + stands);
	if (done == begun)
		fm_xq_synced(q, done);
}

static int row_or_none(int row)
{
	return row < 0 ? -1 : row + 1;
}

static void seat_show(struct fm_gpu_seat *seat, const struct fm_gpu_seat_set *set)
{
	const struct fm_set row = {
		.policy = set->policy,
		.slots = set->slots,
		.tasks = set->tasks,
		.running = set->running,
		.stopped = set->stopped,
		.resident = set->resident,
		.decisions = set->decisions,
	};

	if (!seat->row)
		seat->row = row_or_none(fm_board_set_take(board_of(seat), seat->xq->slot_index));
	if (seat->row > 0)
		fm_board_set_write(&board_of(seat)->set[seat->row - 1], &row);
}

static void seat_show_task(
	struct fm_gpu_seat *seat, uint32_t number, const struct fm_gpu_seat_task *task)
{
	const struct fm_set_task row = {
		.released = task->released,
		.done = task->done,
		.missed = task->missed,
		.missed_stopped = task->missed_stopped,
		.dropped = task->dropped,
		.response_max = task->response_max,
		.runs = task->runs,
	};
	int *at = number < FM_BOARD_TASKS ? &seat->task[number] : NULL;

	if (!at || seat->row <= 0)
		return;
	if (!*at)
		*at = row_or_none(fm_board_task_take(
			board_of(seat), (unsigned)seat->row - 1, number, task->name));
	if (*at > 0)
		fm_board_task_write(&board_of(seat)->task[*at - 1], &row);
}

#define TRACE_TASK(name) FM_TRACE(name, at, q->slot_index, q->group, task, b, c)

static void seat_note(const struct fm_xq *q, enum fm_gpu_seat_event event, uint64_t at,
	uint32_t task, uint64_t b, uint64_t c)
{
	switch (event) {
	case FM_GPU_RELEASED:
		TRACE_TASK(task_released);
		return;
	case FM_GPU_BEGAN:
		TRACE_TASK(task_began);
		return;
	case FM_GPU_STANDS:
		TRACE_TASK(task_stands);
		return;
	case FM_GPU_COMPLETED:
		TRACE_TASK(task_completed);
		return;
	case FM_GPU_MISSED:
		TRACE_TASK(task_missed);
		return;
	}
}

static void seat_trace(struct fm_gpu_seat *seat, enum fm_gpu_seat_event event, uint32_t task,
	uint64_t b, uint64_t c)
{
	seat_note(seat->xq, event, fm_now(), task, b, c);
}

static bool seat_traces(void)
{
	return atomic_load_explicit(&fm_trace_ring, memory_order_relaxed);
}

static void seat_hold(struct fm_gpu_seat *seat, bool held)
{
	if (held)
		fm_xq_suspend(seat->xq);
	else
		fm_xq_resume(seat->xq);
}

const struct fm_gpu_seat_ops fm_gpu_seat_ops = {
	.take = seat_take,
	.leave = seat_leave,
	.may_run = seat_may_run,
	.told = seat_told,
	.show = seat_show,
	.show_task = seat_show_task,
	.trace = seat_trace,
	.traces = seat_traces,
	.note = seat_note,
	.hold = seat_hold,
};
