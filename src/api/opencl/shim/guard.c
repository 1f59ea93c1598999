/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which launches are guarded (level 3), and counts why others are not. */
#include "api/opencl/guard.h"
#include "objects.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEXT fm_cl_layer.next

static _Atomic bool blind;

void fm_opencl_blind(void)
{
	atomic_store(&blind, true);
}

bool fm_opencl_guard_wanted(void)
{
	const char *level = secure_getenv("FERMATA_LEVEL");

	return !fm_client_switched_off() && (!level || (strcmp(level, "1") && strcmp(level, "2")));
}

struct loan {
	struct fm_opencl_kernel *kernel;
	cl_kernel twin;
};

static void give_back(void *cookie)
{
	struct loan *loan = cookie;

	fm_opencl_kernel_return(loan->kernel, loan->twin);
	free(loan);
}

static double items_of(const struct fm_opencl_range *r)
{
	double n = 1;

	for (cl_uint i = 0; i < r->dim && i < 3; i++)
		n *= (double)r->global[i];
	return n;
}

/* May a launch of a kind not seen before take long, if each work-item costs as much as in other
 * launches of the kernel? Yes, unless those were clearly shorter. */
static bool may_be_long(struct fm_opencl_queue *q, struct fm_opencl_kernel *k,
	const struct fm_opencl_range *r, uint64_t key)
{
	double items = items_of(r), per;
	uint64_t last;

	pthread_mutex_lock(&k->lock);
	last = k->last_key ? fm_xq_estimate(k->last_key) : UINT64_MAX;
	if (last != UINT64_MAX && k->last_items > 0 &&
		(double)last / k->last_items > k->ns_per_item)
		k->ns_per_item = (double)last / k->last_items;
	k->last_key = key;
	k->last_items = items;
	per = k->ns_per_item;
	pthread_mutex_unlock(&k->lock);
	return per <= 0 || 4 * per * items > (double)fm_xq_guard_from(q->xq, q->guard_from);
}

static bool one_group(const struct fm_opencl_range *r)
{
	bool one = r->local;

	for (cl_uint i = 0; i < r->dim && i < 3 && one; i++)
		one = r->global[i] <= r->local[i];
	return one;
}

static bool is_profiled(struct fm_opencl_queue *q)
{
	return q->properties & CL_QUEUE_PROFILING_ENABLE;
}

static const char *refusal(struct fm_opencl_queue *q, const struct fm_opencl_range *r)
{
	if (atomic_load(&blind))
		return "arguments unseen";
	if (q->hw.no_guard)
		return q->hw.no_guard;
	if (is_profiled(q) && r->event)
		return "profiled event";
	return one_group(r) ? "one work-group" : NULL;
}

static bool launch(struct fm_opencl_queue *q, struct fm_opencl_kernel *k,
	const struct fm_opencl_range *r, const char **why)
{
	struct loan *loan = malloc(sizeof(*loan));

	*why = "no memory";
	if (!loan)
		return false;
	*loan = (struct loan){k, fm_opencl_kernel_borrow(k, why)};
	if (!loan->twin) {
		free(loan);
		return false;
	}
	/* The loan holds a reference. */
	atomic_fetch_add(&k->object.refs, 1);
	fm_xq_reaches(q->xq, FM_LEVEL_RUNNING);
	if (fm_cl_guard_launch(q->hw.guard, q->hw.queue,
		    &(struct fm_cl_guarded){.kernel = loan->twin,
			    .args = k->n_args,
			    .dim = r->dim,
			    .offset = r->offset,
			    .global = r->global,
			    .local = r->local,
			    .n_wait = r->n_wait,
			    .wait = r->wait,
			    .gate = atomic_load(&q->xq->gate),
			    .event = r->event,
			    .over = give_back,
			    .cookie = loan}))
		return true;
	give_back(loan);
	*why = "refused by driver";
	return false;
}

static void note(struct fm_opencl_queue *q, const char *why, bool known)
{
	struct fm_client *c = fm_shim_has_client();
	char call[FM_CALL_MAX];

	fm_xq_reaches(q->xq, FM_LEVEL_QUEUED);
	if (!c || (!known && strcmp(why, FM_OPENCL_FROM_BINARY)))
		return;
	snprintf(call, sizeof(call), "clEnqueueNDRangeKernel (%s)", why);
	fm_client_count_undivided(c, call);
}

bool fm_opencl_guarded(
	struct fm_opencl_queue *q, const struct fm_opencl_range *r, uint64_t key, uint64_t est)
{
	struct fm_opencl_kernel *k;
	const char *why;
	bool done = false;

	if (fm_xq_guard_from(q->xq, q->guard_from) == UINT64_MAX || r->dim < 1 || r->dim > 3 ||
		!r->global)
		return false;
	k = fm_opencl_kernel_find(r->kernel);
	if (est == UINT64_MAX && k && !may_be_long(q, k, r, key)) {
		fm_opencl_kernel_unref(k);
		return false;
	}
	why = refusal(q, r);
	if (!why && !k)
		why = "unknown kernel";
	if (!why)
		done = launch(q, k, r, &why);
	if (!done)
		note(q, why, est != UINT64_MAX);
	if (k)
		fm_opencl_kernel_unref(k);
	return done;
}
