/* SPDX-License-Identifier: Apache-2.0 */
#include "guard_internal.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define WAITS_MAX  1024u
#define GROUPS_MAX (1u << 22) /* of a launch; each takes a word of memory */

static void guard_unref(struct fm_cl_guard *g)
{
	if (atomic_fetch_sub(&g->refs, 1) != 1)
		return;
	for (unsigned i = 0; i < FM_CL_BLOCKS; i++)
		if (g->free[i].m)
			g->cl->clSVMFree(g->context, g->free[i].m);
	if (g->side)
		g->cl->clReleaseCommandQueue(g->side);
	if (g->stop)
		g->cl->clSVMFree(g->context, g->stop);
	if (g->gone)
		g->gone(g->cookie);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static cl_uint *shared_words(struct fm_cl_guard *g, size_t words)
{
	return g->cl->clSVMAlloc(g->context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
		words * sizeof(cl_uint), 0);
}

/* Allocates the stop word at the first launch. */
static bool have_stop(struct fm_cl_guard *g)
{
	cl_uint *none = NULL, *stop = atomic_load(&g->stop);

	if (stop)
		return true;
	stop = shared_words(g, 1);
	if (!stop)
		return false;
	atomic_store((_Atomic cl_uint *)stop, 0);
	if (!atomic_compare_exchange_strong(&g->stop, &none, stop))
		g->cl->clSVMFree(g->context, stop);
	/* A stop may have been requested meanwhile. */
	atomic_store((_Atomic cl_uint *)g->stop, atomic_load(&g->stopped));
	return true;
}

static bool take_block(struct fm_cl_guard *g, size_t words, struct block *b)
{
	*b = (struct block){0};
	pthread_mutex_lock(&g->lock);
	for (unsigned i = 0; i < FM_CL_BLOCKS && !b->m; i++) {
		if (!g->free[i].m || g->free[i].words < words)
			continue;
		*b = g->free[i];
		g->free[i].m = NULL;
	}
	pthread_mutex_unlock(&g->lock);
	if (!b->m)
		*b = (struct block){shared_words(g, words), words};
	if (b->m)
		memset(b->m, 0, words * sizeof(*b->m));
	return b->m;
}

/* Keeps the block in a free place, or in place of a smaller one. */
static void give_block(struct fm_cl_guard *g, struct block b)
{
	pthread_mutex_lock(&g->lock);
	for (unsigned i = 0; i < FM_CL_BLOCKS && b.m; i++) {
		struct block old = g->free[i];

		if (old.m && old.words >= b.words)
			continue;
		g->free[i] = b;
		b = old;
	}
	pthread_mutex_unlock(&g->lock);
	if (b.m)
		g->cl->clSVMFree(g->context, b.m);
}

void fm_cl_launch_unref(struct launch *l, unsigned n)
{
	struct fm_cl_guard *g = l->g;

	if (atomic_fetch_sub(&l->refs, n) != n)
		return;
	give_block(g, l->block);
	if (l->k.over)
		l->k.over(l->k.cookie);
	free(l);
	guard_unref(g);
}

/* Either the command that is to read this mode has not begun, or the mode stops no group. */
static void set_mode(struct launch *l, cl_uint mode)
{
	atomic_store((_Atomic cl_uint *)&l->block.m[FM_GUARD_MODE], mode);
}

cl_event fm_cl_launch_take_latch(struct launch *l)
{
	cl_event latch = l->latch;

	l->latch = NULL;
	if (latch)
		fm_list_del(&l->link);
	return latch;
}

void fm_cl_launch_open(struct launch *l, cl_event latch, bool complete)
{
	struct fm_cl_guard *g = l->g;

	set_mode(l, complete ? FM_GUARD_COMPLETE : FM_GUARD_FINAL);
	g->cl->clSetUserEventStatus(latch, CL_COMPLETE);
	g->cl->clReleaseEvent(latch);
}

static void CL_CALLBACK second_over(cl_event event, cl_int status, void *arg)
{
	fm_cl_launch_unref(arg, 1);
}

void fm_cl_pass_ended(struct pass *p, bool failed)
{
	struct launch *l = p->l;
	struct fm_cl_guard *g = l->g;
	bool complete = false, stands = false;
	cl_event latch = NULL;

	pthread_mutex_lock(&g->lock);
	p->under_way = false;
	if (!passes(l) && l->latch) {
		complete = !failed && all_begun(l);
		stands = !complete && !failed && !g->ended;
		latch = stands ? NULL : fm_cl_launch_take_latch(l);
	}
	pthread_mutex_unlock(&g->lock);
	if (latch)
		fm_cl_launch_open(l, latch, complete);
	else if (stands && g->stands)
		g->stands(g->cookie);
	fm_cl_launch_unref(l, 1);
}

void CL_CALLBACK fm_cl_pass_over(cl_event event, cl_int status, void *arg)
{
	fm_cl_pass_ended(arg, status < 0);
}

/* The number of work-groups, or an upper bound: if the driver chooses the group size, one group for
 * each work-item. 0: there are too many, or the range is invalid and the driver is to refuse it. */
static size_t count_groups(const struct fm_cl_guarded *k)
{
	size_t n = 1;

	if (k->dim < 1 || k->dim > 3 || !k->global)
		return 0;
	for (cl_uint d = 0; d < k->dim; d++) {
		size_t groups = k->global[d];

		if (k->local && !k->local[d])
			return 0;
		if (k->local)
			groups = (groups + k->local[d] - 1) / k->local[d];
		if (!groups || groups > GROUPS_MAX || n * groups > GROUPS_MAX)
			return 0;
		n *= groups;
	}
	return n;
}

static struct launch *launch_new(struct fm_cl_guard *g, const struct fm_cl_guarded *k)
{
	struct launch *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->g = g;
	l->k = *k;
	l->pass[0].l = l->pass[1].l = l;
	l->groups = count_groups(k);
	fm_list_init(&l->link);
	for (cl_uint d = 0; d < k->dim && l->groups; d++) {
		l->global[d] = k->global[d];
		l->offset[d] = k->offset ? k->offset[d] : 0;
		l->local[d] = k->local ? k->local[d] : 0;
	}
	if (!l->groups || !take_block(g, FM_GUARD_MARKS + l->groups, &l->block)) {
		free(l);
		return NULL;
	}
	/* The program's arrays may no longer exist when a further pass begins. */
	l->k.global = l->global;
	l->k.offset = k->offset ? l->offset : NULL;
	l->k.local = k->local ? l->local : NULL;
	atomic_init(&l->refs, 2);
	atomic_fetch_add(&g->refs, 1);
	return l;
}

/* Abandons a launch and gives back its references. over() is not called. */
static void give_up(struct launch *l, unsigned refs)
{
	struct fm_cl_guard *g = l->g;
	cl_event latch;

	pthread_mutex_lock(&g->lock);
	latch = l->latch;
	l->latch = NULL;
	if (passes(l))
		fm_list_del(&l->link);
	pthread_mutex_unlock(&g->lock);
	if (latch)
		g->cl->clReleaseEvent(latch);
	l->k.over = NULL;
	fm_cl_launch_unref(l, refs);
}

bool fm_cl_launch_set_pass(struct launch *l, unsigned i)
{
	cl_uint at = FM_GUARD_LEFT + i;

	return l->g->cl->clSetKernelArg(l->k.kernel, l->k.args + 2, sizeof(at), &at) == CL_SUCCESS;
}

static bool set_arguments(struct launch *l)
{
	const cl_icd_dispatch *cl = l->g->cl;

	if (cl->clSetKernelArgSVMPointer(l->k.kernel, l->k.args, l->block.m) != CL_SUCCESS ||
		!fm_cl_launch_set_pass(l, 0))
		return false;
	if (l->g->takes_gate && cl->clSetKernelArgSVMPointer(l->k.kernel, l->k.args + 1,
					(void *)l->k.gate) == CL_SUCCESS)
		return true;
	/* This driver accepts only memory that it has allocated itself. */
	l->g->takes_gate = false;
	return have_stop(l->g) && cl->clSetKernelArgSVMPointer(l->k.kernel, l->k.args + 1,
					  atomic_load(&l->g->stop)) == CL_SUCCESS;
}

cl_int fm_cl_launch_enqueue(struct launch *l, cl_command_queue queue, const size_t *local,
	cl_uint n, const cl_event *wait, cl_event *event)
{
	const struct fm_cl_guarded *k = &l->k;

	return l->g->cl->clEnqueueNDRangeKernel(
		queue, k->kernel, k->dim, k->offset, k->global, local, n, n ? wait : NULL, event);
}

/* Puts a command into the program's queue. It waits for `ours` and for the program's events. */
static cl_int put(struct launch *l, cl_command_queue queue, cl_event ours, cl_event *event)
{
	const struct fm_cl_guarded *k = &l->k;
	cl_event wait[k->n_wait + 1];

	if (k->n_wait)
		memcpy(wait, k->wait, k->n_wait * sizeof(*wait));
	wait[k->n_wait] = ours;
	return fm_cl_launch_enqueue(l, queue, k->local, k->n_wait + 1, wait, event);
}

static bool put_pass(struct launch *l, cl_command_queue queue, cl_event start)
{
	const cl_icd_dispatch *cl = l->g->cl;
	cl_event pass;
	cl_int rc;

	if (put(l, queue, start, &pass) != CL_SUCCESS)
		return false;
	rc = cl->clSetEventCallback(pass, CL_COMPLETE, fm_cl_pass_over, &l->pass[0]);
	cl->clReleaseEvent(pass);
	if (rc == CL_SUCCESS)
		return true;
	/* The pass is in the queue, but its end will not be reported: it does nothing, and its
	 * block is never freed. */
	set_mode(l, FM_GUARD_COMPLETE);
	l->block.m = NULL;
	return false;
}

static bool put_second(struct launch *l, cl_command_queue queue)
{
	const cl_icd_dispatch *cl = l->g->cl;
	cl_event second, *event = l->k.event ? l->k.event : &second;

	if (put(l, queue, l->latch, event) != CL_SUCCESS)
		return false;
	/* If this fails, the kernel and the block are never used again. */
	cl->clSetEventCallback(*event, CL_COMPLETE, second_over, l);
	if (!l->k.event)
		cl->clReleaseEvent(second);
	return true;
}

/* In effect enqueues both commands or neither: the pass waits for `start`, which is set when both
 * are in the queue. */
static bool put_both(struct launch *l, cl_command_queue queue, cl_event start)
{
	struct fm_cl_guard *g = l->g;

	if (!put_pass(l, queue, start)) {
		give_up(l, 2);
		return false;
	}
	pthread_mutex_lock(&g->lock);
	l->pass[0].under_way = true;
	fm_list_add_tail(&g->launches, &l->link);
	pthread_mutex_unlock(&g->lock);
	if (put_second(l, queue))
		return true;
	/* The pass will find nothing to do. */
	set_mode(l, FM_GUARD_COMPLETE);
	give_up(l, 1);
	return false;
}

bool fm_cl_guard_launch(
	struct fm_cl_guard *g, cl_command_queue queue, const struct fm_cl_guarded *k)
{
	const cl_icd_dispatch *cl = g->cl;
	struct launch *l;
	cl_event start;
	bool both = false;
	cl_int rc;

	if (g->ended || k->n_wait > WAITS_MAX || !k->n_wait != !k->wait)
		return false;
	l = launch_new(g, k);
	if (!l)
		return false;
	start = cl->clCreateUserEvent(g->context, &rc);
	l->latch = start ? cl->clCreateUserEvent(g->context, &rc) : NULL;
	if (l->latch && set_arguments(l))
		both = put_both(l, queue, start);
	else
		give_up(l, 2);
	if (start) {
		cl->clSetUserEventStatus(start, CL_COMPLETE);
		cl->clReleaseEvent(start);
	}
	return both;
}

void fm_cl_guard_on_stand(struct fm_cl_guard *g, void (*stands)(void *cookie),
	void (*gone)(void *cookie), void *cookie)
{
	g->stands = stands;
	g->gone = gone;
	g->cookie = cookie;
}

void fm_cl_guard_release(struct fm_cl_guard *g)
{
	fm_cl_guard_end(g);
	guard_unref(g);
}

struct fm_cl_guard *fm_cl_guard_new(const struct fm_cl_queue *q, const char **why)
{
	const cl_icd_dispatch *cl = q->cl;
	cl_device_svm_capabilities svm = 0;
	cl_device_id device = NULL;
	cl_device_type type = 0;
	struct fm_cl_guard *g;

	cl->clGetCommandQueueInfo(q->queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
	cl->clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	if (!q->in_order) {
		*why = "out-of-order queue";
		return NULL;
	}
	if (q->watched) {
		*why = "late callbacks";
		return NULL;
	}
	*why = "no fine-grained SVM";
	if (!cl->clSVMAlloc || !cl->clSVMFree || !cl->clSetKernelArgSVMPointer ||
		!cl->clCreateCommandQueueWithProperties ||
		cl->clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof(svm), &svm, NULL) ||
		!(svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER))
		return NULL;
	g = calloc(1, sizeof(*g));
	if (!g) {
		*why = "no memory";
		return NULL;
	}
	g->cl = cl;
	g->context = q->context;
	g->device = device;
	g->takes_gate = type & CL_DEVICE_TYPE_CPU;
	atomic_init(&g->refs, 1);
	pthread_mutex_init(&g->lock, NULL);
	fm_lock_rank(&g->lock, CL_GUARD);
	fm_list_init(&g->launches);
	*why = NULL;
	return g;
}
