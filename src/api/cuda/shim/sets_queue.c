/* SPDX-License-Identifier: Apache-2.0 */
#include "sets_queue.h"
#include "base/lockorder.h"
#include "gpusched/seat.h"
#include "shim.h"
#include <errno.h>
#include <stdlib.h>

#define TRACKS 64 /* under way */

struct track {
	fm_reached_fn *reached;
	void *cookie;
	uint64_t jobs; /* when so many have finished */
};

struct fm_cuda_set_queue {
	_Atomic(struct fm_xq *) xq;
	pthread_mutex_t lock; /* of what follows; held over no call to the XQueue */
	struct fm_cu_feed *feed;
	uint64_t finished;
	struct track track[TRACKS];
	unsigned tracks;
	bool closed;
	/* Rows of the board: 1 + the row; 0: not taken yet; -1: there was none. Of the maker, and
	 * then of the feed's thread. */
	int row, task[FM_GATES_TASKS];
};

/* Takes out those that have been reached. */
static unsigned take_reached(struct fm_cuda_set_queue *q, struct track *out, bool all)
{
	unsigned n = 0, left = 0;

	pthread_mutex_lock(&q->lock);
	q->closed |= all;
	for (unsigned i = 0; i < q->tracks; i++)
		if (all || q->track[i].jobs <= q->finished)
			out[n++] = q->track[i];
		else
			q->track[left++] = q->track[i];
	q->tracks = left;
	pthread_mutex_unlock(&q->lock);
	return n;
}

static void reach(struct fm_cuda_set_queue *q, bool all)
{
	struct track t[TRACKS];
	unsigned n = take_reached(q, t, all);
	uint64_t now = fm_now();

	for (unsigned i = 0; i < n; i++)
		t[i].reached(t[i].cookie, now);
}

/* --- as a hwqueue --- */

static unsigned levels(void *hwq)
{
	(void)hwq;
	return 1u << FM_LEVEL_PENDING | 1u << FM_LEVEL_RUNNING;
}

static int sync_all(void *hwq)
{
	(void)hwq;
	return -EOPNOTSUPP;
}

/* The jobs may all have finished meanwhile: then no news of that comes any more. */
static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_cuda_set_queue *q = hwq;
	struct fm_xq *xq = atomic_load(&q->xq);
	struct track t = {reached, cookie, xq ? fm_xq_mark(xq) : 0};
	bool over;
	int rc = -EAGAIN;

	if (!xq)
		return rc;
	pthread_mutex_lock(&q->lock);
	over = !q->closed && t.jobs <= q->finished;
	if (over) {
		rc = 0;
	} else if (!q->closed && q->tracks < TRACKS) {
		q->track[q->tracks++] = t;
		rc = 0;
	}
	pthread_mutex_unlock(&q->lock);
	if (over)
		reached(cookie, fm_now());
	return rc;
}

static void close_queue(void *hwq)
{
	reach(hwq, true);
}

static void release_queue(void *hwq, bool orphaned)
{
	struct fm_cuda_set_queue *q = hwq;

	(void)orphaned;
	pthread_mutex_destroy(&q->lock);
	free(q);
}

/* No gate is put between jobs: the set has its own. */
static int deactivate(void *hwq, void **gate)
{
	(void)hwq;
	(void)gate;
	return -EOPNOTSUPP;
}

static void reactivate(void *hwq, void *gate)
{
	(void)hwq;
	(void)gate;
}

static int interrupt(void *hwq)
{
	struct fm_cuda_set_queue *q = hwq;
	int rc;

	pthread_mutex_lock(&q->lock);
	rc = q->feed ? fm_cu_feed_stop(q->feed) : -EALREADY;
	pthread_mutex_unlock(&q->lock);
	return rc;
}

static int restore(void *hwq)
{
	struct fm_cuda_set_queue *q = hwq;

	pthread_mutex_lock(&q->lock);
	if (q->feed)
		fm_cu_feed_go_on(q->feed);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

static const struct fm_hw_ops ops = {
	.name = "set",
	.levels = levels,
	.sync = sync_all,
	.track = track,
	.close = close_queue,
	.release = release_queue,
	.host_gate = {.deactivate = deactivate, .reactivate = reactivate},
	.stop = {.interrupt = interrupt, .restore = restore},
};

/* --- for the set --- */

static struct fm_xq *make_xq(struct fm_client *c, struct fm_cuda_set_queue *q, CUcontext ctx)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	char key[FM_DEVKEY_MAX];
	const struct fm_xq_config config = {.device = key,
		.ops = &ops,
		.hwq = q,
		.level_wish = FM_LEVEL_RUNNING,
		.domain = fm_cuda_domain(cu, ctx)};
	struct fm_xq *xq;

	if (!fm_cu_device_key(cu, key, sizeof(key)) || fm_xq_create(&xq, c, &config))
		return NULL;
	return xq;
}

struct fm_cuda_set_queue *fm_cuda_set_queue_new(CUcontext ctx)
{
	struct fm_client *c = fm_shim_client();
	struct fm_cuda_set_queue *q = c ? calloc(1, sizeof(*q)) : NULL;
	struct fm_xq *xq;

	if (!q)
		return NULL;
	pthread_mutex_init(&q->lock, NULL);
	fm_lock_rank(&q->lock, GPU_QUEUE);
	xq = make_xq(c, q, ctx);
	if (!xq) {
		release_queue(q, false);
		return NULL;
	}
	atomic_store(&q->xq, xq);
	return q;
}

void fm_cuda_set_queue_feed(struct fm_cuda_set_queue *q, struct fm_cu_feed *feed)
{
	if (!q)
		return;
	pthread_mutex_lock(&q->lock);
	q->feed = feed;
	pthread_mutex_unlock(&q->lock);
}

void fm_cuda_set_queue_close(struct fm_cuda_set_queue *q)
{
	struct fm_xq *xq;

	if (!q)
		return;
	xq = atomic_load(&q->xq);
	if (q->row > 0)
		fm_board_set_give(fm_client_board(xq->client), (unsigned)q->row - 1);
	fm_xq_synced(xq, fm_xq_mark(xq)); /* all has run, or nobody will hear of it */
	fm_xq_close(xq);                  /* frees it in the end */
}

void fm_cuda_set_queue_begin(struct fm_cuda_set_queue *q, uint32_t task)
{
	if (q)
		fm_xq_begin(atomic_load(&q->xq), (uintptr_t)&q->track[task % TRACKS], false);
}

void fm_cuda_set_queue_end(struct fm_cuda_set_queue *q)
{
	if (q)
		fm_xq_end(atomic_load(&q->xq));
}

void fm_cuda_set_queue_count(struct fm_cuda_set_queue *q)
{
	if (q)
		fm_xq_count(atomic_load(&q->xq));
}

void fm_cuda_set_queue_finished(struct fm_cuda_set_queue *q, uint64_t jobs)
{
	struct fm_xq *xq = q ? atomic_load(&q->xq) : NULL;

	if (!q)
		return;
	pthread_mutex_lock(&q->lock);
	q->finished = jobs;
	pthread_mutex_unlock(&q->lock);
	reach(q, false);
	if (jobs == fm_xq_mark(xq))
		fm_xq_synced(xq, jobs);
}

bool fm_cuda_set_queue_may_run(struct fm_cuda_set_queue *q)
{
	return !q || fm_xq_may_run(atomic_load(&q->xq));
}

void fm_cuda_set_queue_stands(struct fm_cuda_set_queue *q)
{
	if (q)
		fm_xq_stands(atomic_load(&q->xq));
}

static int row_or_none(int row)
{
	return row < 0 ? -1 : row + 1;
}

void fm_cuda_set_queue_show(struct fm_cuda_set_queue *q, const struct fm_set *set)
{
	const struct fm_xq *xq = q ? atomic_load(&q->xq) : NULL;
	struct fm_board *b = q ? fm_client_board(xq->client) : NULL;

	if (!q)
		return;
	if (!q->row)
		q->row = row_or_none(fm_board_set_take(b, xq->slot_index));
	if (q->row > 0)
		fm_board_set_write(&b->set[q->row - 1], set);
}

void fm_cuda_set_queue_show_task(struct fm_cuda_set_queue *q, const struct fm_set_task *task)
{
	struct fm_board *b = q ? fm_client_board(atomic_load(&q->xq)->client) : NULL;
	int *at = q ? &q->task[task->number] : NULL;

	if (!q || q->row <= 0)
		return;
	if (!*at)
		*at = row_or_none(
			fm_board_task_take(b, (unsigned)q->row - 1, task->number, task->name));
	if (*at > 0)
		fm_board_task_write(&b->task[*at - 1], task);
}

bool fm_cuda_set_queue_traces(const struct fm_cuda_set_queue *q)
{
	return q && &fm_gpu_seat_ops && fm_gpu_seat_ops.traces();
}

void fm_cuda_set_queue_note(struct fm_cuda_set_queue *q, const struct fm_gates_note *note)
{
	if (fm_cuda_set_queue_traces(q))
		fm_gpu_seat_ops.note(atomic_load(&q->xq),
			(enum fm_gpu_seat_event)(note->what >> 32), note->at, (uint32_t)note->what,
			note->b, note->c);
}

_Static_assert((int)FM_GATES_RELEASED == FM_GPU_RELEASED && (int)FM_GATES_MISSED == FM_GPU_MISSED,
	"in the same order");
