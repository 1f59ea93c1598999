/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph tells of its nodes. */
#include "image.h"
#include <string.h>

enum { NODE_KERNEL, NODE_COPY, NODE_FILL, NODE_HOST, NODE_GRAPH, NODE_EMPTY };
enum { NODE_RECORD = 7, NODE_FREE = 11, NODE_WORDS };

#define ATTRIBUTES 18 /* that there are */

bool fk_node_records(const struct fk_work *w)
{
	return !w->run && w->record.event;
}

/* Of memory that is allocated nothing is kept: an empty node. */
static int type_of(const struct fk_work *w)
{
	static const int type[] = {[FK_COPY] = NODE_COPY,
		[FK_FILL] = NODE_FILL,
		[FK_HOST] = NODE_HOST,
		[FK_FREE] = NODE_FREE,
		[FK_WORDS] = NODE_WORDS};

	if (w->what != FK_OTHER)
		return type[w->what];
	if (fk_work_launch(w))
		return NODE_KERNEL;
	if (fk_graph_of(w))
		return NODE_GRAPH;
	return fk_node_records(w) ? NODE_RECORD : NODE_EMPTY;
}

fm_cu_result cuGraphNodeGetType(CUgraphNode node, int *type)
{
	FK_TRY(fk_enter());
	if (!node || !type)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*type = type_of(&node->work);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *n)
{
	FK_TRY(fk_enter());
	if (!node || !n)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (size_t i = 0; deps && i < *n; i++)
		deps[i] = i < node->after->n ? node->after->node[i] : NULL;
	if (!deps || *n > node->after->n)
		*n = node->after->n;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphKernelNodeGetAttribute(CUgraphNode node, int id, void *value)
{
	struct fk_launch *l;

	FK_TRY(fk_enter());
	l = node ? fk_work_launch(&node->work) : NULL;
	if (!l || !value || id < 1 || id > ATTRIBUTES)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	memset(value, 0, sizeof(l->attr[0].value));
	for (unsigned i = 0; i < l->n_attr; i++)
		if (l->attr[i].id == id)
			memcpy(value, &l->attr[i].value, sizeof(l->attr[i].value));
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphBatchMemOpNodeGetParams(CUgraphNode node, struct cu_words_node *words)
{
	FK_TRY(fk_enter());
	if (!node || !words || node->work.what != FK_WORDS)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*words = (struct cu_words_node){.n = node->work.memop.n, .op = node->work.memop.op};
	return fk_leave(FM_CU_SUCCESS);
}
