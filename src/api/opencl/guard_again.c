/* SPDX-License-Identifier: Apache-2.0 */
/* Stops guarded launches, and continues them by further passes. */
#include "guard_internal.h"
#include <errno.h>

/* A queue for further passes. It is out of order if possible: a pass may have to run beside one
 * that waits for its groups. */
static bool have_side(struct fm_cl_guard *g)
{
	const cl_queue_properties any_order[] = {
		CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
	cl_int rc;

	if (!g->side)
		g->side = g->cl->clCreateCommandQueueWithProperties(
			g->context, g->device, any_order, &rc);
	if (!g->side)
		g->side =
			g->cl->clCreateCommandQueueWithProperties(g->context, g->device, NULL, &rc);
	return g->side;
}

/* A further pass has the same group size as the first one, also if the driver has chosen it. */
static void choose_groups(struct launch *l)
{
	for (cl_uint d = 0; !l->k.local && d < l->k.dim; d++) {
		l->local[d] = word(l, FM_GUARD_LOCAL + d);
		if (!l->local[d] || l->global[d] % l->local[d])
			return;
	}
	l->chosen = !l->k.local;
}

/* Enqueues a further pass, if need be beside one under way that has left groups out. */
static void pass_again(struct pass *p)
{
	struct launch *l = p->l;
	struct fm_cl_guard *g = l->g;
	const cl_icd_dispatch *cl = g->cl;
	cl_event pass;

	choose_groups(l);
	if (!have_side(g) || !fm_cl_launch_set_pass(l, (unsigned)(p - l->pass)) ||
		fm_cl_launch_enqueue(l, g->side, l->chosen ? l->local : l->k.local, 0, NULL,
			&pass) != CL_SUCCESS) {
		l->alone = true;
		fm_cl_pass_ended(p, true);
		return;
	}
	if (cl->clSetEventCallback(pass, CL_COMPLETE, fm_cl_pass_over, p) != CL_SUCCESS) {
		cl->clFlush(g->side);
		cl->clWaitForEvents(1, &pass);
		fm_cl_pass_ended(p, false);
	}
	cl->clReleaseEvent(pass);
	cl->clFlush(g->side);
}

static void set_stop(struct fm_cl_guard *g, cl_uint to)
{
	cl_uint *stop;

	atomic_store(&g->stopped, to);
	stop = atomic_load(&g->stop);
	if (stop)
		atomic_store((_Atomic cl_uint *)stop, to);
}

int fm_cl_guard_stop(struct fm_cl_guard *g)
{
	struct launch *l;
	int rc = -EINPROGRESS;

	set_stop(g, 1);
	pthread_mutex_lock(&g->lock);
	fm_list_each (l, &g->launches, link) {
		l->looked = false;
		if (!passes(l))
			rc = 0;
	}
	pthread_mutex_unlock(&g->lock);
	return rc;
}

/* Begins a pass in the free place, and takes a reference for it. Lock held. */
static struct pass *take_pass(struct launch *l)
{
	struct pass *p = &l->pass[l->pass[0].under_way];
	unsigned at = FM_GUARD_LEFT + (unsigned)(p - l->pass);

	/* Keep the note of a pass under way that it has left groups out. */
	for (unsigned i = FM_GUARD_LEFT; i < FM_GUARD_LEFT + PASSES; i++)
		if (i == at || !passes(l))
			atomic_store((_Atomic cl_uint *)&l->block.m[i], 0);
	p->under_way = true;
	atomic_fetch_add(&l->refs, 1);
	return p;
}

/* A pass for a launch with groups left out: the launch stands, or its last pass is still under way
 * and its groups may be waiting for the ones left out. */
static struct pass *next_to_go(struct fm_cl_guard *g, bool *again)
{
	struct pass *found = NULL;
	struct launch *l;

	pthread_mutex_lock(&g->lock);
	fm_list_each (l, &g->launches, link) {
		unsigned n = passes(l);
		bool left = left_out(l);

		if (n) {
			*again |= left || !l->looked;
			l->looked = true;
		}
		if (!left || n == PASSES || (n && (l->alone || all_begun(l))))
			continue;
		found = take_pass(l);
		break;
	}
	pthread_mutex_unlock(&g->lock);
	return found;
}

int fm_cl_guard_go(struct fm_cl_guard *g)
{
	bool again = false;
	struct pass *p;

	set_stop(g, 0);
	while ((p = next_to_go(g, &again)))
		pass_again(p);
	return again ? -EAGAIN : 0;
}

void fm_cl_guard_end(struct fm_cl_guard *g)
{
	struct launch *l;

	atomic_store(&g->ended, true);
	set_stop(g, 0);
	for (;;) {
		cl_event latch = NULL;

		pthread_mutex_lock(&g->lock);
		fm_list_each (l, &g->launches, link) {
			if (passes(l))
				continue;
			atomic_fetch_add(&l->refs, 1);
			latch = fm_cl_launch_take_latch(l);
			break;
		}
		pthread_mutex_unlock(&g->lock);
		if (!latch)
			return;
		fm_cl_launch_open(l, latch, false);
		fm_cl_launch_unref(l, 1);
	}
}
