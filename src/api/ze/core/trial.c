/* SPDX-License-Identifier: Apache-2.0 */
/* Do gates hold? Tried on a queue of our own, since one that does not go on would be lost. */
#include "api/trial.h"
#include "core.h"
#include <stdlib.h>

#define KINDS 32

static struct {
	pthread_mutex_t lock;
	unsigned n;
	struct kind {
		ze_device_handle_t device;
		uint32_t ordinal;
		bool immediate, holds;
	} kind[KINDS];
	struct fm_ze_hwq *left[KINDS];
} trials = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(trials.lock, ZE_TRIAL);

static void free_own(struct fm_ze_hwq *q)
{
	free(q);
}

static struct fm_ze_hwq *make_own(struct fm_ze_hwq *like)
{
	struct fm_ze_hwq *q = calloc(1, sizeof(*q));
	struct fm_ze_made made = like->made;
	void *handle = NULL;
	ze_result_t rc;

	if (!q)
		return NULL;
	made.desc.pNext = NULL;
	rc = made.immediate ? like->ze->list_immediate(made.context, made.device, &made.desc,
				      (ze_command_list_handle_t *)&handle)
			    : like->ze->queue_create(made.context, made.device, &made.desc,
				      (ze_command_queue_handle_t *)&handle);
	if (rc) {
		free(q);
		return NULL;
	}
	fm_ze_hwq_init(q, like->ze, &made, handle, free_own);
	return q;
}

/* One that did not come to its end is left as it is; so is a list whose gates do not hold, since
 * there a tracker does not tell that what is in front of it has been passed. */
static void end_own(struct fm_ze_hwq *q, bool holds)
{
	fm_ze_end(q);
	if (atomic_load(&q->stuck) || (!holds && !q->queue)) {
		trials.left[trials.n % KINDS] = q;
		return;
	}
	if (q->queue)
		q->ze->queue_destroy(q->queue);
	else
		q->ze->list_destroy(q->list);
	fm_ze_unref(q);
}

static bool try_kind(struct fm_ze_hwq *like)
{
	const struct fm_trial_queue other = {fm_ze_ops(like)->track, like};
	struct fm_ze_hwq *own = make_own(like);
	bool holds;

	if (!own)
		return false;
	holds = fm_gate_try(fm_ze_ops(own), own, &other, 1, NULL) == FM_TRIAL_HOLDS;
	end_own(own, holds);
	return holds;
}

static struct kind *find(const struct fm_ze_hwq *q)
{
	for (unsigned i = 0; i < trials.n; i++)
		if (trials.kind[i].device == q->made.device &&
			trials.kind[i].ordinal == q->made.desc.ordinal &&
			trials.kind[i].immediate == q->made.immediate)
			return &trials.kind[i];
	return NULL;
}

bool fm_ze_gates_hold(struct fm_ze_hwq *q)
{
	struct kind *k;
	bool holds;

	pthread_mutex_lock(&trials.lock);
	k = find(q);
	holds = k ? k->holds : try_kind(q);
	if (!k && trials.n < KINDS)
		trials.kind[trials.n++] = (struct kind){
			q->made.device, q->made.desc.ordinal, q->made.immediate, holds};
	pthread_mutex_unlock(&trials.lock);
	return holds;
}

bool fm_ze_gates_stand(struct fm_ze_hwq *q, uint64_t ns)
{
	return fm_gate_stand(fm_ze_ops(q), q, ns) == FM_TRIAL_HOLDS;
}

void fm_ze_trials_fork_child(void)
{
	trials.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	trials.n = 0;
}
