/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What executable graphs name: pages of managed memory, each once, for the block around it; or, by
 * a template, runs of pages, which name only themselves. They are collected when a graph is made or
 * updated as a whole. A node that is set alone adds to that what it names, in the place of what it
 * was set to before. A launch goes through the list, without a lock: sets that are replaced are
 * freed when no launch is under way.
 */
#include "base/lockorder.h"
#include "named.h"
#include "shim/map.h"
#include "templates.h"
#include <pthread.h>
#include <stdlib.h>

#define NODES_MOST 65536u /* of a graph; one that is larger names everything */
#define PAGES_MOST 16384u
#define NODE_PAGES 16u  /* of a node that is set alone, */
#define NODES_SET  256u /* and so many such nodes */
#define DEEP       8u   /* graphs within graphs */

/* X(name here, symbol, parameters) */
#define GRAPH_CALLS(X)                                                                           \
	X(nodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t * n))            \
	X(type, "cuGraphNodeGetType", (CUgraphNode node, int *type))                             \
	X(kernel, "cuGraphKernelNodeGetParams_v2",                                               \
		(CUgraphNode node, struct fm_cu_kernel_node * params))                           \
	X(copy, "cuGraphMemcpyNodeGetParams", (CUgraphNode node, struct fm_cu_copy_3d * params)) \
	X(fill, "cuGraphMemsetNodeGetParams", (CUgraphNode node, uint64_t params[16]))           \
	X(part, "cuGraphChildGraphNodeGetGraph", (CUgraphNode node, CUgraph * graph))

static struct calls {
	GRAPH_CALLS(FM_CUDA_MEMBER)
	bool all;
} calls;

static void find_calls(void)
{
	struct calls *c = &calls;
	bool all = true;

	GRAPH_CALLS(FM_CUDA_FIND)
	c->all = all;
}

struct node {
	struct node *_Atomic next;
	CUgraphNode node;
	_Atomic uint32_t n;
	_Atomic uint64_t page[NODE_PAGES];
};

struct set {
	struct set *retired;      /* the next one that is to be freed */
	struct node *_Atomic set; /* nodes that were set alone */
	unsigned nodes;
	_Atomic bool unknown; /* it names everything */
	uint32_t n;
	uint64_t page[];
};

static struct {
	pthread_mutex_t lock;
	struct fm_handles of; /* by executable graph */
	struct set *retired;
	_Atomic unsigned reading; /* launches that go through a set */
} execs = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(execs.lock, CUDA_NAMED);

/* --- what a graph names --- */

struct pages {
	uint64_t *page;
	size_t n, room;
	bool unknown;
};

static uint64_t page_at(uint64_t word)
{
	return word / FM_TOUCH_PAGE * FM_TOUCH_PAGE;
}

/* A run of pages: its length is in the low bits of its first page's address. */
#define RUN_MOST (FM_TOUCH_PAGE - 1)
static uint64_t run_of(uint64_t entry)
{
	return entry % FM_TOUCH_PAGE;
}

static int by_address(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static void each_once(struct pages *p)
{
	size_t n = 0;

	if (p->n)
		qsort(p->page, p->n, sizeof(*p->page), by_address);
	for (size_t i = 0; i < p->n; i++)
		if (!n || p->page[n - 1] != p->page[i])
			p->page[n++] = p->page[i];
	p->n = n;
}

static void add_entry(struct pages *p, uint64_t entry)
{
	size_t room = p->room ? 2 * p->room : 64;
	uint64_t *more;

	if (p->n == p->room)
		each_once(p);
	if (p->n > p->room / 2 || !p->room) {
		more = p->n < PAGES_MOST ? realloc(p->page, room * sizeof(*more)) : NULL;
		if (!more) {
			p->unknown = true;
			return;
		}
		p->page = more;
		p->room = room;
	}
	p->page[p->n++] = entry;
}

static void add_word(void *pages, uint64_t word)
{
	struct pages *p = pages;

	if (p->unknown || !fm_cuda_named_is_ours(word) ||
		(p->n && p->page[p->n - 1] == page_at(word)))
		return;
	add_entry(p, page_at(word));
}

/* What leads outside of the memory around its address names that memory. */
static void add_span(void *pages, uint64_t address, const struct fm_span *span)
{
	struct fm_cu_block block;
	uint64_t first, end;

	if (!fm_cuda_named_is_ours(address))
		return;
	if (!fm_cuda_managed_find(address, &block) || !block.size ||
		span->from < -(int64_t)(address - block.at) ||
		span->to > (int64_t)(block.at + block.size - address)) {
		add_word(pages, address);
		return;
	}
	first = page_at(address + (uint64_t)span->from);
	end = page_at(address + (uint64_t)span->to - 1) + FM_TOUCH_PAGE;
	add_entry(pages, first + FM_MIN((end - first) / FM_TOUCH_PAGE, RUN_MOST));
}

static bool add_in_part(struct pages *p, CUfunction f, const uint32_t *dims, void *const *params)
{
	struct fm_bound *b = fm_cuda_templates_of(f);
	struct fm_predicted l;

	if (!b || !fm_predict_begin(&fm_cuda_predict, b, dims, params, &l))
		return false;
	fm_params_words(b->rest, (void *[]){l.params}, fm_cuda_named_maps(), add_word, p);
	fm_predict_each(&l, fm_cuda_named_maps(), add_word, add_span, p);
	return true;
}

static void add_kernel(struct pages *p, const struct fm_cu_kernel_node_old *k, CUkernel kernel)
{
	const struct fm_tensor_maps *maps = fm_cuda_named_maps();
	CUfunction f = k->function ? k->function : (CUfunction)kernel;
	const struct fm_shape *shape;
	const void *buffer;
	size_t bytes;

	if (k->extra) {
		buffer = fm_cuda_named_buffer(k->extra, &bytes);
		if (buffer)
			fm_buffer_words(buffer, bytes, maps, add_word, p);
		else
			p->unknown = true;
		return;
	}
	shape = fm_cuda_named_shape(f);
	if (!shape)
		p->unknown = true;
	else if (k->params && !add_in_part(p, f, k->grid, k->params))
		fm_params_words(shape, k->params, maps, add_word, p);
}

static void add_graph(struct pages *p, CUgraph graph, unsigned depth);

static void add_node(struct pages *p, CUgraphNode node, unsigned depth)
{
	union {
		struct fm_cu_kernel_node kernel;
		struct fm_cu_copy_3d copy;
		uint64_t fill[16];
		CUgraph part;
	} of = {.fill = {0}};
	int type = -1;

	p->unknown |= calls.type(node, &type);
	switch (type) {
	case FM_CU_NODE_KERNEL:
		if (calls.kernel(node, &of.kernel))
			p->unknown = true;
		else
			add_kernel(p, &of.kernel.old, of.kernel.kernel);
		break;
	case FM_CU_NODE_COPY:
		p->unknown |= calls.copy(node, &of.copy);
		add_word(p, of.copy.src.device);
		add_word(p, of.copy.dst.device);
		break;
	case FM_CU_NODE_FILL:
		p->unknown |= calls.fill(node, of.fill);
		add_word(p, of.fill[0]);
		break;
	case FM_CU_NODE_GRAPH:
		if (calls.part(node, &of.part))
			p->unknown = true;
		else
			add_graph(p, of.part, depth + 1);
		break;
	default: /* up to words of memory, which are pinned, they use no memory that is managed */
		p->unknown |= type < 0 || type > FM_CU_NODE_WORDS;
	}
}

static void add_graph(struct pages *p, CUgraph graph, unsigned depth)
{
	CUgraphNode *node = NULL;
	size_t n = 0;

	if (depth > DEEP || calls.nodes(graph, NULL, &n) || n > NODES_MOST ||
		!(node = calloc(n + 1, sizeof(*node))) || (n && calls.nodes(graph, node, &n)))
		p->unknown = true;
	for (size_t i = 0; i < n && !p->unknown; i++)
		add_node(p, node[i], depth);
	free(node);
}

/* --- sets --- */

static void set_free(struct set *s)
{
	struct node *next;

	for (struct node *n = s ? atomic_load(&s->set) : NULL; n; n = next) {
		next = atomic_load(&n->next);
		free(n);
	}
	free(s);
}

/* Lock held. Nobody finds it any more. */
static void retire(struct set *s)
{
	if (!s)
		return;
	s->retired = execs.retired;
	execs.retired = s;
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&execs.reading))
		return;
	while ((s = execs.retired)) {
		execs.retired = s->retired;
		set_free(s);
	}
}

/* NULL: there is none from now on. */
static void set_is(CUgraphExec exec, struct set *s)
{
	struct set *old;

	pthread_mutex_lock(&execs.lock);
	old = fm_handles_find(&execs.of, (uintptr_t)exec);
	if (old)
		fm_handles_erase(&execs.of, (uintptr_t)exec, old);
	if (s && !fm_handles_set(&execs.of, (uintptr_t)exec, s))
		set_free(s);
	retire(old);
	pthread_mutex_unlock(&execs.lock);
}

void fm_cuda_named_exec(CUgraphExec exec, CUgraph graph)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct pages p = {0};
	struct set *s;

	pthread_once(&once, find_calls);
	fm_cu_inside++;
	if (calls.all)
		add_graph(&p, graph, 0);
	else
		p.unknown = true;
	fm_cu_inside--;
	each_once(&p);
	s = calloc(1, sizeof(*s) + p.n * sizeof(s->page[0]));
	if (s) {
		s->n = (uint32_t)p.n;
		atomic_store(&s->unknown, p.unknown);
		if (p.n)
			memcpy(s->page, p.page, p.n * sizeof(s->page[0]));
	}
	free(p.page);
	set_is(exec, s);
}

void fm_cuda_named_exec_ends(CUgraphExec exec)
{
	set_is(exec, NULL);
}

void fm_cuda_named_exec_unknown(CUgraphExec exec)
{
	struct set *s;

	pthread_mutex_lock(&execs.lock);
	s = fm_handles_find(&execs.of, (uintptr_t)exec);
	if (s)
		atomic_store(&s->unknown, true);
	pthread_mutex_unlock(&execs.lock);
}

/* Lock held. NULL: there are too many. */
static struct node *node_of(struct set *s, CUgraphNode node)
{
	struct node *n = atomic_load(&s->set);

	while (n && n->node != node)
		n = atomic_load(&n->next);
	if (n || s->nodes == NODES_SET || !(n = calloc(1, sizeof(*n))))
		return n;
	n->node = node;
	s->nodes++;
	atomic_store(&n->next, atomic_load(&s->set));
	atomic_store(&s->set, n);
	return n;
}

void fm_cuda_named_node(CUgraphExec exec, CUgraphNode node,
	const struct fm_cu_kernel_node_old *kernel, CUkernel k, const void *words, size_t words_n)
{
	struct pages p = {0};
	struct node *n = NULL;
	struct set *s;

	if (kernel)
		add_kernel(&p, kernel, k);
	else
		fm_buffer_words(words, words_n * 8, fm_cuda_named_maps(), add_word, &p);
	each_once(&p);
	pthread_mutex_lock(&execs.lock);
	s = fm_handles_find(&execs.of, (uintptr_t)exec);
	if (s && !p.unknown && p.n <= NODE_PAGES)
		n = node_of(s, node);
	if (s && !n)
		atomic_store(&s->unknown, true);
	for (uint32_t i = 0; n && i < p.n; i++)
		atomic_store(&n->page[i], p.page[i]);
	if (n)
		atomic_store(&n->n, (uint32_t)p.n);
	pthread_mutex_unlock(&execs.lock);
	free(p.page);
}

/* --- launches --- */

/* Until this turn, runs of pages name the block around them. */
static _Atomic uint32_t distrusted;

void fm_cuda_named_graphs_distrust(void)
{
	atomic_store(&distrusted, atomic_load(&fm_cuda_predict.turn) + FM_PREDICT_DISTRUST);
}

static FM_COLD void name_run(uint64_t entry)
{
	uint64_t at = page_at(entry);
	bool whole = atomic_load_explicit(&distrusted, memory_order_relaxed) >
		     atomic_load_explicit(&fm_cuda_predict.turn, memory_order_relaxed);

	if (whole)
		fm_cuda_named_words(&at, 1);
	else
		fm_cuda_named_part(at, run_of(entry) * FM_TOUCH_PAGE);
}

static FM_HOT void name_entries(const uint64_t *entry, uint32_t n)
{
	if (FM_LIKELY(!atomic_load_explicit(&fm_cuda_templates_any, memory_order_relaxed))) {
		fm_cuda_named_words(entry, n);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		if (run_of(entry[i]))
			name_run(entry[i]);
		else
			fm_cuda_named_words(&entry[i], 1);
}

static void name_nodes(const struct set *s)
{
	uint64_t page[NODE_PAGES];

	for (struct node *n = atomic_load(&s->set); n; n = atomic_load(&n->next)) {
		uint32_t pages = FM_MIN(atomic_load(&n->n), NODE_PAGES);

		for (uint32_t i = 0; i < pages; i++)
			page[i] = atomic_load(&n->page[i]);
		name_entries(page, pages);
	}
}

FM_HOT void fm_cuda_named_launch(CUgraphExec exec)
{
	const struct set *s;

	atomic_fetch_add(&execs.reading, 1);
	atomic_thread_fence(memory_order_seq_cst);
	s = fm_handles_find(&execs.of, (uintptr_t)exec);
	if (FM_LIKELY(s)) {
		name_entries(s->page, s->n);
		name_nodes(s);
	}
	if (FM_UNLIKELY(!s || atomic_load(&s->unknown)))
		fm_cuda_named_all();
	atomic_fetch_sub(&execs.reading, 1);
}

/* What the parent knows is left as it is: a launch of another thread may have been in it. */
void fm_cuda_named_graphs_fork_child(void)
{
	execs.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	execs.of = (struct fm_handles){0};
	execs.retired = NULL;
	atomic_store(&execs.reading, 0);
}
