/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in the order of streams: what is freed serves again, and never too early. */
#include "cuda_conform.h"

#define MIB ((size_t)1 << 20)

static void seed(CUdeviceptr at, uint32_t number, CUstream s)
{
	uint32_t words[WORDS];

	seed_words(words, WORDS, number);
	CU(cuMemcpyHtoDAsync_v2(at, words, BYTES, s));
	CU(cuStreamSynchronize(s));
}

/* Frees and allocations of one stream follow each other without a wait: little is ever in use. */
static void loop(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr sum = new_words(1), x, y;
	unsigned same = 0;

	CU(cuCtxSynchronize());
	for (uint32_t i = 0, last = 0; i < 60; i++) {
		CU(cuMemAllocAsync(&x, 3 * MIB, s));
		CU(cuMemAllocAsync(&y, BYTES, s));
		fill(c, s, x, i);
		mix(c, s, x, i);
		CU(cuMemcpyDtoDAsync_v2(y, x, BYTES, s));
		join(c, s, sum, sum, y);
		CU(cuMemFreeAsync(x, s));
		CU(cuMemFreeAsync(y, s));
		same += (uint32_t)x == last;
		last = (uint32_t)x;
	}
	note_words(c, "sum", sum, s);
	note(c, "the same block: %d", same == 59);
	CU(cuStreamSynchronize(s));
	CU(cuMemFree_v2(sum));
	CU(cuStreamDestroy_v2(s));
}

/* What one stream has freed but still uses is not another's. */
static void across(struct conform *c)
{
	CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr out = new_words(2), x, y;

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 8; i++) {
		CU(cuMemAllocAsync(&x, BYTES, a));
		seed(x, i, a);
		spin(c, a, x + BYTES - 4, 300000);
		for (uint32_t k = 0; k < 4; k++)
			mix(c, a, x, k);
		join(c, a, out, x, out);
		CU(cuMemFreeAsync(x, a));
		CU(cuMemAllocAsync(&y, BYTES, b));
		fill(c, b, y, 0xdead);
		CU(cuMemFreeAsync(y, b));
		order(a, b);
		CU(cuMemAllocAsync(&y, BYTES, b));
		fill(c, b, y, i);
		join(c, b, out, out, y);
		order(b, a);
		CU(cuMemFreeAsync(y, b));
	}
	note_words(c, "out", out, a);
	CU(cuCtxSynchronize());
	CU(cuMemFree_v2(out));
	CU(cuStreamDestroy_v2(a));
	CU(cuStreamDestroy_v2(b));
}

/* A stream that ends, and one that comes after it, do not stand in one order. */
static void streams_that_end(struct conform *c)
{
	CUdeviceptr out = new_words(3), x, y;
	CUstream last = new_stream(CU_STREAM_NON_BLOCKING);

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 6; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t;

		CU(cuMemAllocAsync(&x, BYTES, s));
		fill(c, s, x, i);
		spin(c, s, x, 300000);
		mix(c, s, x, i);
		join(c, s, out, out, x);
		CU(cuMemFreeAsync(x, s));
		order(s, last);
		CU(cuStreamDestroy_v2(s));
		t = new_stream(CU_STREAM_NON_BLOCKING);
		CU(cuMemAllocAsync(&y, BYTES, t));
		fill(c, t, y, 0xbad);
		CU(cuMemFreeAsync(y, t));
		CU(cuStreamDestroy_v2(t));
		CU(cuStreamSynchronize(last));
	}
	note_words(c, "out", out, last);
	CU(cuStreamSynchronize(last));
	CU(cuMemFree_v2(out));
	CU(cuStreamDestroy_v2(last));
}

/* Memory is freed by another call than the one of its kind. */
static void either_way(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x, y, z;
	void *pool = &pool;
	size_t size;

	CU(cuMemAllocAsync(&x, 5 * MIB, s));
	CU(cuMemAlloc_v2(&y, 5 * MIB));
	seed(y, 4, s);
	fill(c, s, x, 3);
	mix(c, s, x, 3);
	join(c, s, y, x, y);
	note_words(c, "y", y, s);
	CU(cuMemGetAddressRange_v2(&z, &size, x + MIB));
	note(c, "range: %d", z == x && size >= 5 * MIB);
	CU(cuMemFree_v2(x));
	note(c, "again: %d", cu.cuMemFree_v2(x) != 0);
	note(c, "again, in a stream: %d", cu.cuMemFreeAsync(x, s) != 0);
	CU(cuMemFreeAsync(y, s));
	note(c, "twice in a stream: %d", cu.cuMemFreeAsync(y, s) != 0);
	note(c, "in the middle: %d", cu.cuMemFreeAsync(y + 512, s) != 0);
	note(c, "no size: %d", cu.cuMemAllocAsync(&x, 0, s));
	note(c, "nowhere: %d", cu.cuMemAllocAsync(NULL, 4096, s));
	CU(cuStreamSynchronize(s));
	CU(cuStreamDestroy_v2(s));
}

static uint64_t figure(CUmemoryPool pool, int which)
{
	uint64_t n = 0;

	CU(cuMemPoolGetAttribute(pool, which, &n));
	return n;
}

/* A pool of the program's own: its figures, its threshold, its end. */
static void own_pool(struct conform *c)
{
	const struct cu_pool_prop prop = {
		.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, c->dev}};
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x, y, out = new_words(5);
	uint64_t most = UINT64_MAX, none = 0;
	CUmemoryPool pool;

	CU(cuCtxSynchronize());
	CU(cuMemPoolCreate(&pool, &prop));
	CU(cuMemPoolSetAttribute(pool, CU_POOL_THRESHOLD, &most));
	note(c, "threshold: %d", figure(pool, CU_POOL_THRESHOLD) == most);
	CU(cuMemAllocFromPoolAsync(&x, 4 * MIB, pool, s));
	CU(cuMemAllocFromPoolAsync(&y, 2 * MIB, pool, s));
	note(c, "used: %llu", (unsigned long long)figure(pool, CU_POOL_USED));
	fill(c, s, x, 7);
	mix(c, s, x, 1);
	CU(cuMemcpyDtoDAsync_v2(y, x, BYTES, s));
	CU(cuMemFreeAsync(x, s));
	CU(cuStreamSynchronize(s));
	note(c, "used: %llu, at most %llu", (unsigned long long)figure(pool, CU_POOL_USED),
		(unsigned long long)figure(pool, CU_POOL_USED_HIGH));
	note(c, "kept: %d", figure(pool, CU_POOL_RESERVED) >= 6 * MIB);
	CU(cuMemPoolTrimTo(pool, 0));
	note(c, "trimmed: %d", figure(pool, CU_POOL_RESERVED) < 6 * MIB);
	CU(cuMemPoolSetAttribute(pool, CU_POOL_USED_HIGH, &none));
	note(c, "at most: %llu", (unsigned long long)figure(pool, CU_POOL_USED_HIGH));
	CU(cuMemPoolDestroy(pool)); /* with memory in use */
	mix(c, s, y, 2);
	join(c, s, out, out, y);
	CU(cuMemFreeAsync(y, s));
	note_words(c, "out", out, s);
	CU(cuStreamSynchronize(s));
	note(c, "its end: %d", cu.cuMemAllocFromPoolAsync(&x, 4096, pool, s) != 0);
	CU(cuMemFree_v2(out));
	CU(cuStreamDestroy_v2(s));
}

/* The driver's own pools: with a limit, and one that keeps streams apart. */
static void other_pools(struct conform *c)
{
	const struct cu_pool_prop small = {.type = CU_CHUNK_PINNED,
					  .location = {CU_LOCATION_DEVICE, c->dev},
					  .most = 8 * MIB},
				  plain = {.type = CU_CHUNK_PINNED,
					  .location = {CU_LOCATION_DEVICE, c->dev}};
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUmemoryPool limited, apart, was;
	CUdeviceptr x, y;
	int no = 0;

	CU(cuMemPoolCreate(&limited, &small));
	CU(cuMemAllocFromPoolAsync(&x, 6 * MIB, limited, s));
	note(c, "limit: %d", cu.cuMemAllocFromPoolAsync(&y, 6 * MIB, limited, s));
	seed(x, 8, s);
	mix(c, s, x, 1);
	note_words(c, "limited", x, s);
	CU(cuMemFreeAsync(x, s));
	CU(cuMemPoolCreate(&apart, &plain));
	CU(cuMemPoolSetAttribute(apart, 2, &no));
	CU(cuDeviceGetMemPool(&was, c->dev));
	CU(cuDeviceSetMemPool(c->dev, apart)); /* what cuMemAllocAsync() takes it from */
	CU(cuMemAllocAsync(&x, BYTES, s));
	note(c, "used: %d", figure(apart, CU_POOL_USED) >= BYTES);
	seed(x, 9, s);
	mix(c, s, x, 2);
	note_words(c, "apart", x, s);
	CU(cuMemFreeAsync(x, s));
	CU(cuStreamSynchronize(s));
	CU(cuDeviceSetMemPool(c->dev, was));
	CU(cuMemPoolDestroy(limited));
	CU(cuMemPoolDestroy(apart));
	CU(cuStreamDestroy_v2(s));
}

/* Nodes that allocate are the driver's. */
static void captured(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr out = new_words(6), x, y;
	CUgraphExec exec;
	CUgraph graph;

	CU(cuCtxSynchronize());
	CU(cuMemAllocAsync(&y, BYTES, s));
	seed(y, 10, s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	CU(cuMemAllocAsync(&x, BYTES, s));
	CU(cuMemcpyDtoDAsync_v2(x, y, BYTES, s));
	mix(c, s, x, 1);
	join(c, s, out, out, x);
	CU(cuMemFreeAsync(x, s));
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 5; i++)
		CU(cuGraphLaunch(exec, s));
	note_words(c, "out", out, s);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	note(c, "in a graph: %d", cuMemFreeAsync(y, s)); /* it is not the graph's */
	if (!cuStreamEndCapture(s, &graph) && graph)
		CU(cuGraphDestroy(graph));
	note_words(c, "y", y, s);
	CU(cuMemFreeAsync(y, s));
	CU(cuStreamSynchronize(s));
	CU(cuMemFree_v2(out));
	CU(cuStreamDestroy_v2(s));
}

/* Nodes of several graphs: one allocates, the next works, another frees. */
static void across_graphs(struct conform *c)
{
	struct cu_alloc_node what = {
		.pool = {.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, c->dev}},
		.size = 3 * MIB};
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUgraphExec exec[2];
	CUgraph graph[2];
	CUgraphNode node;
	uint64_t used = 0, reserved = 0;

	CU(cuGraphCreate(&graph[0], 0));
	CU(cuGraphAddMemAllocNode(&node, graph[0], NULL, 0, &what));
	CU(cuGraphCreate(&graph[1], 0));
	CU(cuGraphAddMemFreeNode(&node, graph[1], NULL, 0, what.d));
	for (int i = 0; i < 2; i++)
		CU(cuGraphInstantiateWithFlags(&exec[i], graph[i], 0));
	for (uint32_t i = 0; i < 4; i++) {
		CU(cuGraphLaunch(exec[0], s));
		seed(what.d, i, s);
		mix(c, s, what.d, i);
		note_words(c, "of the graph", what.d, s);
		note(c, "again: %d", cuGraphLaunch(exec[0], s));
		CU(cuGraphLaunch(exec[1], s));
		CU(cuStreamSynchronize(s));
	}
	CU(cuDeviceGetGraphMemAttribute(c->dev, CU_GRAPH_USED, &used));
	CU(cuDeviceGraphMemTrim(c->dev));
	CU(cuDeviceGetGraphMemAttribute(c->dev, CU_GRAPH_RESERVED, &reserved));
	note(c, "in use: %d", (int)used);
	note(c, "reserved: %d", (int)reserved);
	for (int i = 0; i < 2; i++) {
		CU(cuGraphExecDestroy(exec[i]));
		CU(cuGraphDestroy(graph[i]));
	}
	CU(cuStreamDestroy_v2(s));
}

/* A graph that was made ready before there was the memory that it fills. */
static void set_later(struct conform *c)
{
	struct cu_fill_node fill = {.value = 7, .width = 4, .n = WORDS, .height = 1};
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr unified, plain;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	CU(cuMemAllocManaged(&unified, BYTES, 1));
	fill.dst = unified;
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, c->ctx));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, s));
	CU(cuMemAlloc_v2(&plain, BYTES));
	fill.dst = plain;
	for (uint32_t i = 0; i < 4; i++) {
		seed(plain, i, s);
		fill.value = i;
		CU(cuGraphExecMemsetNodeSetParams(exec, node, &fill, c->ctx));
		CU(cuGraphLaunch(exec, s));
		mix(c, s, plain, i);
		note_words(c, "plain", plain, s);
	}
	note_words(c, "unified", unified, s);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	CU(cuMemFree_v2(plain));
	CU(cuMemFree_v2(unified));
	CU(cuStreamDestroy_v2(s));
}

static void advise(struct conform *c, const char *what, CUdeviceptr at, CUstream s)
{
	const struct cu_location here = {CU_LOCATION_DEVICE, c->dev};

	note(c, what, 0);
	note(c, "advice: %d", cuMemAdvise(at, BYTES, 3, c->dev));
	note(c, "advice by location: %d", cuMemAdvise_v2(at, BYTES, 3, here));
	note(c, "fetched: %d", cuMemPrefetchAsync(at, BYTES, c->dev, s));
	note(c, "fetched by location: %d", cuMemPrefetchAsync_v2(at, BYTES, here, 0, s));
	CU(cuStreamSynchronize(s));
}

/* Advice is for unified memory; other memory stays what it is. */
static void advised(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr plain = new_words(WORDS), pooled, unified;

	CU(cuMemAllocAsync(&pooled, BYTES, s));
	CU(cuMemAllocManaged(&unified, BYTES, 1));
	seed(plain, 1, s);
	seed(pooled, 2, s);
	seed(unified, 3, s);
	advise(c, "plain: %d", plain, s);
	advise(c, "of a pool: %d", pooled, s);
	advise(c, "unified: %d", unified, s);
	advise(c, "nowhere: %d", 4096, s);
	mix(c, s, plain, 1);
	mix(c, s, pooled, 1);
	mix(c, s, unified, 1);
	note_words(c, "plain", plain, s);
	note_words(c, "of a pool", pooled, s);
	note_words(c, "unified", unified, s);
	CU(cuMemFreeAsync(pooled, s));
	CU(cuStreamSynchronize(s));
	CU(cuMemFree_v2(plain));
	CU(cuMemFree_v2(unified));
	CU(cuStreamDestroy_v2(s));
}

static void *one_of_several(void *conform)
{
	struct conform *c = conform;
	CUstream s;
	CUdeviceptr x;

	CU(cuCtxSetCurrent(c->ctx));
	s = new_stream(CU_STREAM_NON_BLOCKING);
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t word;

		CU(cuMemAllocAsync(&x, (i % 5 + 1) * BYTES, s));
		fill(c, s, x, i);
		CU(cuMemcpyDtoHAsync_v2(&word, x + BYTES - 4, 4, s));
		CU(cuStreamSynchronize(s));
		if (word != i + WORDS - 1)
			die("a block was another's: %u, not %u", word, i);
		CU(cuMemFreeAsync(x, s));
	}
	CU(cuStreamSynchronize(s));
	CU(cuStreamDestroy_v2(s));
	return NULL;
}

static void threads(struct conform *c)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, one_of_several, c))
			die("no thread");
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	note(c, "done: %d", 1);
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"loop", loop},
		{"across", across},
		{"streams that end", streams_that_end},
		{"either way", either_way},
		{"own pool", own_pool},
		{"other pools", other_pools},
		{"captured", captured},
		{"across graphs", across_graphs},
		{"set later", set_later},
		{"advised", advised},
		{"threads", threads},
		{0},
	};

	return conform_main(argc, argv, cases);
}
