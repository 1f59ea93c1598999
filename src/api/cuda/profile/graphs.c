/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels in graphs. Of each graph that is made ready to be launched a copy is kept. At the first
 * launches it is made ready, too, and launched in the place of the program's once for each node, in
 * an order that their edges allow, with all others left out; so kernels run alone, one behind the
 * other, and each is looked at as one that is launched by itself. What else is in the graph runs as
 * it would. Graphs with nodes that cannot be left out are launched as they are.
 */
#include "agent.h"
#include "base/lockorder.h"
#include "base/util.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct part {
	CUgraphNode node;
	int type;
};

struct copy {
	struct copy *next;
	CUgraphExec exec; /* the program's */
	CUcontext ctx;    /* in which it was made */
	CUdevice dev;
	CUgraph graph;   /* the copy */
	CUgraphExec own; /* that was made of it, once it is wanted */
	struct part *part;
	size_t n;
	unsigned looked, since; /* launches node by node, and those since it was last updated */
	bool busy, gone;        /* a launch is under way; it is to end with that */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, PROFILE_GRAPHS);
static struct copy *copies;
static unsigned n_copies;

/* --- copies --- */

static void copy_free(struct copy *c)
{
	const struct fm_profile_driver *cu = fm_profile_driver();
	int mode;

	if (!c)
		return;
	mode = fm_profile_enter(cu);
	if (c->own)
		cu->exec_destroy(c->own);
	cu->graph_destroy(c->graph);
	fm_profile_leave(cu, mode);
	free(c->part);
	free(c);
}

/* Lock held. It is to be freed, unless its launch does that: NULL. *looked: so often it was. */
static struct copy *take(CUgraphExec exec, unsigned *looked)
{
	struct copy **at = &copies, *c;

	while ((c = *at) && c->exec != exec)
		at = &c->next;
	if (!c)
		return NULL;
	*at = c->next;
	n_copies--;
	*looked = c->looked;
	c->gone = true;
	return c->busy ? NULL : c;
}

static bool can(const struct fm_profile_driver *cu)
{
	return cu && cu->graph_clone && cu->graph_destroy && cu->graph_nodes && cu->node_type &&
	       cu->node_behind && cu->node_kernel && cu->node_enable && cu->instantiate &&
	       cu->graph_launch && cu->exec_destroy;
}

void fm_profile_graph_gone(CUgraphExec exec)
{
	unsigned looked;
	struct copy *c;

	if (!fm_tap_wanted() || fm_tap_inside)
		return;
	pthread_mutex_lock(&lock);
	c = take(exec, &looked);
	pthread_mutex_unlock(&lock);
	copy_free(c);
}

/* What was made of the copies ends with the context, and so does what the program has. */
void fm_profile_graph_context_ends(CUcontext ctx, const CUdevice *dev)
{
	unsigned looked;
	struct copy *c, *old;

	do {
		pthread_mutex_lock(&lock);
		for (c = copies; c && (dev ? c->dev != *dev : c->ctx != ctx);)
			c = c->next;
		old = c ? take(c->exec, &looked) : NULL;
		pthread_mutex_unlock(&lock);
		copy_free(old);
	} while (c);
}

/* NULL: the driver does not copy it, or it is too large. */
static struct copy *copy_of(const struct fm_profile_driver *cu, CUgraphExec exec, CUgraph graph)
{
	struct copy *c = calloc(1, sizeof(*c));
	int mode = fm_profile_enter(cu);

	if (!c || cu->graph_nodes(graph, NULL, &c->n) || c->n > FM_PROFILE_NODES ||
		cu->graph_clone(&c->graph, graph)) {
		free(c);
		c = NULL;
	}
	if (c) {
		c->exec = exec;
		cu->current(&c->ctx);
		if (!cu->device || cu->device(&c->dev))
			c->dev = 0;
	}
	fm_profile_leave(cu, mode);
	return c;
}

void fm_profile_graph_made(CUgraphExec exec, CUgraph graph)
{
	const struct fm_profile_driver *cu;
	struct copy *c, *old;
	unsigned looked = 0;

	if (!fm_tap_wanted() || fm_tap_inside || !can(cu = fm_profile_driver()))
		return;
	c = copy_of(cu, exec, graph);
	pthread_mutex_lock(&lock);
	old = take(exec, &looked);
	if (c && n_copies < FM_PROFILE_GRAPHS && looked < FM_PROFILE_KEYS) {
		c->looked = looked;
		c->next = copies;
		copies = c;
		n_copies++;
		c = NULL;
	}
	pthread_mutex_unlock(&lock);
	copy_free(old);
	copy_free(c);
}

/* --- in an order --- */

static int by_node(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return (x->node > y->node) - (x->node < y->node);
}

static bool read_parts(const struct fm_profile_driver *cu, struct copy *c)
{
	CUgraphNode *node = calloc(c->n + 1, sizeof(*node));
	size_t n = c->n;
	bool all;

	c->part = calloc(c->n + 1, sizeof(*c->part));
	all = node && c->part && !cu->graph_nodes(c->graph, node, &n) && n == c->n;
	for (size_t i = 0; all && i < n; i++) {
		c->part[i].node = node[i];
		all = !cu->node_type(node[i], &c->part[i].type) &&
		      (c->part[i].type == FM_CU_NODE_KERNEL || c->part[i].type == FM_CU_NODE_COPY ||
			      c->part[i].type == FM_CU_NODE_FILL ||
			      c->part[i].type == FM_CU_NODE_EMPTY);
	}
	free(node);
	return all;
}

/* The nodes that have to come before a node: how many, and whether all have. */
static bool is_next(const struct fm_profile_driver *cu, const struct copy *c, size_t i,
	const bool *done, CUgraphNode *behind, bool *known)
{
	size_t n = c->n;

	if (cu->node_behind(c->part[i].node, NULL, &n) || n > c->n ||
		(n && cu->node_behind(c->part[i].node, behind, &n))) {
		*known = false;
		return false;
	}
	for (size_t k = 0; k < n; k++) {
		const struct part key = {.node = behind[k]};
		const struct part *p = bsearch(&key, c->part, c->n, sizeof(key), by_node);

		if (!p || !done[p - c->part])
			return false;
	}
	return true;
}

/* Mostly nodes stand in the order of their addresses, or of some other by which few rounds do. */
static bool sort_parts(const struct fm_profile_driver *cu, struct copy *c)
{
	struct part *sorted = calloc(c->n + 1, sizeof(*sorted));
	CUgraphNode *behind = calloc(c->n + 1, sizeof(*behind));
	bool *done = calloc(c->n + 1, sizeof(*done));
	bool known = sorted && behind && done, more = true;
	size_t n = 0;

	qsort(c->part, c->n, sizeof(*c->part), by_node);
	while (known && more && n < c->n) {
		more = false;
		for (size_t i = 0; known && i < c->n; i++)
			if (!done[i] && is_next(cu, c, i, done, behind, &known)) {
				sorted[n++] = c->part[i];
				done[i] = more = true;
			}
	}
	if (n == c->n && known)
		memcpy(c->part, sorted, n * sizeof(*sorted));
	free(sorted);
	free(behind);
	free(done);
	return known && n == c->n;
}

/* All nodes are left out of what is made of the copy. */
static bool make_ready(const struct fm_profile_driver *cu, struct copy *c)
{
	bool all = read_parts(cu, c) && sort_parts(cu, c) && !cu->instantiate(&c->own, c->graph, 0);

	for (size_t i = 0; all && i < c->n; i++)
		all = c->part[i].type == FM_CU_NODE_EMPTY ||
		      !cu->node_enable(c->own, c->part[i].node, 0);
	return all;
}

/* --- launches --- */

static fm_cu_result enable(
	const struct fm_profile_driver *cu, struct copy *c, size_t i, unsigned enabled)
{
	int mode = fm_profile_enter(cu);
	fm_cu_result rc = cu->node_enable(c->own, c->part[i].node, enabled);

	fm_profile_leave(cu, mode);
	return rc;
}

static struct fm_profile_look *look_at(
	const struct fm_profile_driver *cu, CUgraphNode node, CUstream stream)
{
	struct fm_profile_launching l = {.stream = stream};
	struct fm_cu_kernel_node k = {0};
	int mode = fm_profile_enter(cu);
	fm_cu_result rc = cu->node_kernel(node, &k);

	fm_profile_leave(cu, mode);
	if (rc) {
		fm_profile_count_launch();
		fm_profile_unseen(FM_UNSEEN_FAILED);
		return NULL;
	}
	l.f = k.old.function ? k.old.function : (CUfunction)(void *)k.kernel;
	memcpy(l.grid, k.old.grid, sizeof(l.grid));
	memcpy(l.block, k.old.block, sizeof(l.block));
	l.params = k.old.params;
	l.extra = k.old.extra;
	return fm_profile_before(&l);
}

static fm_cu_result launch_part(
	const struct fm_profile_driver *cu, struct copy *c, size_t i, CUstream stream)
{
	struct fm_profile_look *look = NULL;
	fm_cu_result rc;

	if (c->part[i].type == FM_CU_NODE_EMPTY)
		return FM_CU_SUCCESS;
	rc = enable(cu, c, i, 1);
	if (rc)
		return rc;
	if (c->part[i].type == FM_CU_NODE_KERNEL)
		look = look_at(cu, c->part[i].node, stream);
	fm_tap_inside++;
	rc = cu->graph_launch(c->own, stream);
	fm_tap_inside--;
	fm_profile_after(look, rc);
	return rc ? rc : enable(cu, c, i, 0);
}

/* NULL: there is none, or it was launched often enough. */
static struct copy *begin(CUgraphExec exec)
{
	struct copy *c;

	pthread_mutex_lock(&lock);
	for (c = copies; c && c->exec != exec;)
		c = c->next;
	if (c && (c->busy || c->since >= FM_PROFILE_AGAIN))
		c = NULL;
	if (c)
		c->busy = true;
	pthread_mutex_unlock(&lock);
	return c;
}

/* It is wanted no more, if it cannot be launched so, or was often enough; but how often it was is
 * known until the program's ends. */
static void end(const struct fm_profile_driver *cu, struct copy *c, bool launched)
{
	bool gone;
	int mode;

	if (!launched || c->since + 1 == FM_PROFILE_AGAIN) {
		mode = fm_profile_enter(cu);
		if (c->own)
			cu->exec_destroy(c->own);
		fm_profile_leave(cu, mode);
		c->own = NULL;
		free(c->part);
		c->part = NULL;
	}
	pthread_mutex_lock(&lock);
	c->looked++;
	c->since = launched ? c->since + 1 : FM_PROFILE_AGAIN;
	c->busy = false;
	gone = c->gone;
	pthread_mutex_unlock(&lock);
	if (gone)
		copy_free(c);
}

bool fm_profile_graph_launch(CUgraphExec exec, CUstream stream, fm_cu_result *rc)
{
	const struct fm_profile_driver *cu;
	struct copy *c;
	bool ready;
	int mode, status;

	if (!fm_tap_wanted() || fm_tap_inside || !can(cu = fm_profile_driver()) ||
		cu->capturing(stream, &status) || status != FM_CU_CAPTURE_NONE ||
		!(c = begin(exec)))
		return false;
	mode = fm_profile_enter(cu);
	ready = c->own || make_ready(cu, c);
	fm_profile_leave(cu, mode);
	*rc = FM_CU_SUCCESS;
	for (size_t i = 0; ready && !*rc && i < c->n; i++)
		*rc = launch_part(cu, c, i, stream);
	end(cu, c, ready);
	return ready;
}
