/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case for each row of the table of CUDA's calls that allocates, maps, passes on, pins or ends
 * memory (cuda_job.h). A row without a case, or without a reason why it has none, ends the program.
 *
 *   rows 0     "row I SYMBOL KIND" for each case: the kind that its memory counts as, or "-"
 *   make I     memory of that case, filled
 *   check I    it holds what was put there
 *   end I      it ends
 */
#include "base/util.h"
#include "cuda_job.h"

#define MIB  ((size_t)1 << 20)
#define SIZE (2 * MIB)
#define HUGE (140 * MIB) /* memory of ours of two pieces */

struct thing {
	CUdeviceptr at, range; /* NULL: nothing can be compared */
	size_t size, range_size;
	cu_chunk h, group;
	CUmemoryPool pool;
	CUarray array;
	CUmipmappedArray mipmap;
	CUgraphExec exec;
	CUgraph graph;
	int fd;
};

static const struct cu_access both = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};

/* --- blocks --- */

static void plain(struct job *j, struct thing *t)
{
	(void)j;
	t->size = SIZE;
	CU(cuMemAlloc_v2(&t->at, SIZE));
}

static void pitched(struct job *j, struct thing *t)
{
	size_t pitch;

	(void)j;
	t->size = SIZE;
	CU(cuMemAllocPitch_v2(&t->at, &pitch, 1024, SIZE / 1024, 4));
}

static void unified(struct job *j, struct thing *t)
{
	(void)j;
	t->size = SIZE;
	CU(cuMemAllocManaged(&t->at, SIZE, 1));
}

static void freed(struct job *j, struct thing *t)
{
	(void)j;
	CU(cuMemFree_v2(t->at));
}

static void from_stream(struct job *j, struct thing *t)
{
	t->size = SIZE;
	CU(cuMemAllocAsync(&t->at, SIZE, j->s));
	CU(cuStreamSynchronize(j->s));
}

static void freed_in_stream(struct job *j, struct thing *t)
{
	CU(cuMemFreeAsync(t->at, j->s));
	CU(cuStreamSynchronize(j->s));
}

static void from_pool(struct job *j, struct thing *t)
{
	const struct cu_pool_prop prop = {
		.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, 0}};

	t->size = SIZE;
	CU(cuMemPoolCreate(&t->pool, &prop));
	CU(cuMemAllocFromPoolAsync(&t->at, SIZE, t->pool, j->s));
	CU(cuStreamSynchronize(j->s));
}

static void pool_freed(struct job *j, struct thing *t)
{
	freed_in_stream(j, t);
	CU(cuMemPoolTrimTo(t->pool, 0));
	CU(cuMemPoolDestroy(t->pool));
}

/* It keeps what is freed, and the next allocation has that. */
static void kept_pool(struct job *j, struct thing *t)
{
	uint64_t most = UINT64_MAX, used = 0;
	CUdeviceptr first;

	from_pool(j, t);
	first = t->at;
	CU(cuMemPoolSetAttribute(t->pool, CU_POOL_THRESHOLD, &most));
	freed_in_stream(j, t);
	CU(cuMemAllocFromPoolAsync(&t->at, SIZE, t->pool, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuMemPoolGetAttribute(t->pool, CU_POOL_USED, &used));
	if (t->at != first || used < SIZE)
		die("the pool does not keep its memory");
}

static void opened_pool(struct job *j, struct thing *t)
{
	from_pool(j, t);
	CU(cuMemPoolSetAccess(t->pool, &both, 1));
}

/* --- arrays --- */

static void array_2d(struct job *j, struct thing *t)
{
	const struct cu_array_2d what = {1024, 1536, 0x20, 1};

	(void)j;
	CU(cuArrayCreate_v2(&t->array, &what));
}

static void array_3d(struct job *j, struct thing *t)
{
	const struct cu_array what = {.width = 1024, .height = 1536, .format = 0x20, .channels = 1};

	(void)j;
	CU(cuArray3DCreate_v2(&t->array, &what));
}

static void mipmapped(struct job *j, struct thing *t)
{
	const struct cu_array what = {.width = 1024, .height = 1536, .format = 0x20, .channels = 1};

	(void)j;
	CU(cuMipmappedArrayCreate(&t->mipmap, &what, 1));
}

static void array_gone(struct job *j, struct thing *t)
{
	(void)j;
	CU(cuArrayDestroy(t->array));
}

static void mipmap_gone(struct job *j, struct thing *t)
{
	(void)j;
	CU(cuMipmappedArrayDestroy(t->mipmap));
}

/* --- graphs --- */

/* Its memory is there from its launch until it is trimmed. */
static void node(struct job *j, struct thing *t)
{
	struct cu_alloc_node what = {
		.pool = {.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, 0}},
		.size = SIZE};
	CUgraphNode allocates;
	size_t left, all;

	CU(cuGraphCreate(&t->graph, 0));
	CU(cuGraphAddMemAllocNode(&allocates, t->graph, NULL, 0, &what));
	CU(cuGraphInstantiateWithFlags(&t->exec, t->graph, 0));
	CU(cuGraphLaunch(t->exec, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuMemGetInfo_v2(&left, &all)); /* it is looked at then */
	t->at = what.d;
	t->size = SIZE;
}

static void node_gone(struct job *j, struct thing *t)
{
	uint64_t reserved = 1;

	freed_in_stream(j, t);
	CU(cuGraphExecDestroy(t->exec));
	CU(cuGraphDestroy(t->graph));
	CU(cuDeviceGraphMemTrim(j->c.dev));
	CU(cuDeviceGetGraphMemAttribute(j->c.dev, CU_GRAPH_RESERVED, &reserved));
	if (reserved)
		die("graphs keep %llu bytes", (unsigned long long)reserved);
}

/* --- what the program maps --- */

static void create(struct thing *t, size_t size, int handles)
{
	const struct cu_chunk_prop prop = {
		.type = CU_CHUNK_PINNED, .handles = handles, .location = {CU_LOCATION_DEVICE, 0}};

	t->size = t->range_size = size;
	CU(cuMemCreate(&t->h, size, &prop, 0));
	CU(cuMemAddressReserve(&t->range, size, 0, 0, 0));
}

static void map(struct thing *t)
{
	CU(cuMemMap(t->range, t->size, 0, t->h, 0));
	CU(cuMemSetAccess(t->range, t->size, &both, 1));
	t->at = t->range;
}

static void mapped(struct job *j, struct thing *t)
{
	(void)j;
	create(t, SIZE, CU_HANDLE_FD);
	map(t);
}

static void unmapped(struct job *j, struct thing *t)
{
	(void)j;
	CU(cuMemUnmap(t->range, t->size));
	CU(cuMemRelease(t->h));
	CU(cuMemAddressFree(t->range, t->range_size));
}

static void retained(struct job *j, struct thing *t)
{
	cu_chunk again;

	mapped(j, t);
	CU(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)t->at));
	if (again != t->h)
		die("another handle");
	CU(cuMemRelease(again));
}

/* Of memory that the program has not mapped itself. */
static void retained_block(struct job *j, struct thing *t)
{
	cu_chunk handle;

	plain(j, t);
	CU(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)t->at));
	CU(cuMemRelease(handle));
}

static void asked(struct job *j, struct thing *t)
{
	struct cu_chunk_prop prop;
	struct cu_location here = both.location;
	unsigned long long flags = 0;

	mapped(j, t);
	CU(cuMemGetAllocationPropertiesFromHandle(&prop, t->h));
	CU(cuMemGetAccess(&flags, &here, t->at));
	if (prop.handles != CU_HANDLE_FD || prop.location.type != CU_LOCATION_DEVICE ||
		flags != CU_ACCESS_BOTH)
		die("it is said to be something else");
}

static void exported(struct job *j, struct thing *t)
{
	int again;

	mapped(j, t);
	CU(cuMemExportToShareableHandle(&t->fd, t->h, CU_HANDLE_FD, 0));
	CU(cuMemExportToShareableHandle(&again, t->h, CU_HANDLE_FD, 0));
	close(again);
}

static void export_gone(struct job *j, struct thing *t)
{
	close(t->fd);
	unmapped(j, t);
}

/* Its own memory, at another address. */
static void imported(struct job *j, struct thing *t)
{
	struct thing other = {.size = SIZE};
	uint32_t word = 0;

	exported(j, t);
	CU(cuMemImportFromShareableHandle(&other.h, (void *)(intptr_t)t->fd, CU_HANDLE_FD));
	CU(cuMemAddressReserve(&other.range, SIZE, 0, 0, 0));
	other.range_size = SIZE;
	map(&other);
	CU(cuMemsetD32_v2(t->at, 0x5eed, 1));
	CU(cuMemcpyDtoH_v2(&word, other.at, sizeof(word)));
	if (word != 0x5eed)
		die("what is imported is other memory");
	unmapped(j, &other);
}

static void address_range(struct job *j, struct thing *t)
{
	plain(j, t);
	CU(cuMemGetHandleForAddressRange(&t->fd, t->at, SIZE, 1, 0));
}

static void address_range_gone(struct job *j, struct thing *t)
{
	close(t->fd);
	freed(j, t);
}

/* --- multicast --- */

static void group(struct thing *t)
{
	const struct cu_multicast_prop prop = {1, HUGE, 0, 0};

	CU(cuMulticastCreate(&t->group, &prop));
	CU(cuMulticastAddDevice(t->group, 0));
	create(t, HUGE, 0);
}

/* At both ends of the memory, through the group. */
static void through_the_group(struct thing *t)
{
	struct thing g = {.h = t->group, .size = HUGE, .range_size = HUGE};
	uint32_t first = 0, last = 0;

	CU(cuMemAddressReserve(&g.range, HUGE, 0, 0, 0));
	map(&g);
	CU(cuMemsetD32_v2(g.at, 7, 1));
	CU(cuMemsetD32_v2(g.at + HUGE - 4, 9, 1));
	CU(cuMemcpyDtoH_v2(&first, t->at, 4));
	CU(cuMemcpyDtoH_v2(&last, t->at + HUGE - 4, 4));
	if (first != 7 || last != 9)
		die("the group is of other memory");
	CU(cuMemUnmap(g.range, HUGE));
	CU(cuMemAddressFree(g.range, HUGE));
}

static void bound(struct job *j, struct thing *t)
{
	(void)j;
	group(t);
	map(t);
	CU(cuMulticastBindMem(t->group, 0, t->h, 0, HUGE, 0));
	if (!cu.cuMulticastBindMem(t->group, 2 * MIB, t->h, 0, 2 * MIB, 0))
		die("it was bound where something is");
	through_the_group(t);
}

static void bound_v2(struct job *j, struct thing *t)
{
	(void)j;
	group(t);
	map(t);
	CU(cuMulticastBindMem_v2(t->group, 0, 0, t->h, 0, HUGE, 0));
	through_the_group(t);
}

static void bound_at(struct job *j, struct thing *t)
{
	(void)j;
	group(t);
	map(t);
	CU(cuMulticastBindAddr(t->group, 0, t->at, HUGE, 0));
	through_the_group(t);
}

static void bound_at_v2(struct job *j, struct thing *t)
{
	(void)j;
	group(t);
	map(t);
	CU(cuMulticastBindAddr_v2(t->group, 0, 0, t->at, HUGE, 0));
	through_the_group(t);
}

static void unbound(struct job *j, struct thing *t)
{
	CU(cuMulticastUnbind(t->group, 0, 0, HUGE));
	if (!cu.cuMulticastUnbind(t->group, 0, 0, HUGE))
		die("it was unbound twice");
	CU(cuMemRelease(t->group));
	unmapped(j, t);
}

/* --- words, pointers, other processes --- */

#define AT_A_WORD(name, call)                            \
	static void name(struct job *j, struct thing *t) \
	{                                                \
		plain(j, t);                             \
		CU(call);                                \
		CU(cuStreamSynchronize(j->s));           \
	}
AT_A_WORD(writes_32, cuStreamWriteValue32_v2(j->s, t->at, 5, 0))
AT_A_WORD(writes_64, cuStreamWriteValue64_v2(j->s, t->at, 5, 0))
AT_A_WORD(waits_32, cuStreamWaitValue32_v2(j->s, t->at, 0, 0)) /* at least that */
AT_A_WORD(waits_64, cuStreamWaitValue64_v2(j->s, t->at, 0, 0))

static void batch_of_words(struct job *j, struct thing *t)
{
	union fm_cu_mem_op op = {.op = {.operation = FM_CU_OP_WRITE_VALUE_32, .value = 5}};

	plain(j, t);
	op.op.address = t->at;
	CU(cuStreamBatchMemOp_v2(j->s, 1, &op, 0));
	CU(cuStreamSynchronize(j->s));
}

static void words_node(struct job *j, struct thing *t)
{
	union fm_cu_mem_op op = {.op = {.operation = FM_CU_OP_WRITE_VALUE_32, .value = 5}};
	const struct cu_words_node what = {.ctx = j->c.ctx, .n = 1, .op = &op};
	CUgraphNode n;

	plain(j, t);
	op.op.address = t->at;
	CU(cuGraphCreate(&t->graph, 0));
	CU(cuGraphAddBatchMemOpNode(&n, t->graph, NULL, 0, &what));
	CU(cuGraphDestroy(t->graph));
}

static void pointer(struct job *j, struct thing *t)
{
	int which[] = {CU_POINTER_SIZE};
	size_t size = 0, sizes = 0, range = 0;
	CUdeviceptr base = 0;

	plain(j, t);
	CU(cuPointerGetAttribute(&size, CU_POINTER_SIZE, t->at + 99));
	CU(cuPointerGetAttributes(1, which, (void *[]){&sizes}, t->at + 99));
	CU(cuMemGetAddressRange_v2(&base, &range, t->at + 99));
	if (size != SIZE || sizes != SIZE || range != SIZE || base != t->at)
		die("it is said to be something else");
}

/* The driver cannot be told so of memory that is mapped. */
static void waited_for(struct job *j, struct thing *t)
{
	unsigned yes = 1;

	plain(j, t);
	CU(cuPointerSetAttribute(&yes, CU_POINTER_SYNC, t->at));
}

static void given(struct job *j, struct thing *t)
{
	struct cu_ipc handle;

	plain(j, t);
	CU(cuIpcGetMemHandle(&handle, t->at));
}

/* The memory of another process, whose handle is in the file $CUDA_HANDLE. */
static void opened(struct job *j, struct thing *t)
{
	FILE *f = fopen(getenv("CUDA_HANDLE"), "r");
	struct cu_ipc handle;

	(void)j;
	if (!f || fread(&handle, sizeof(handle), 1, f) != 1)
		die("no handle");
	fclose(f);
	t->size = SIZE;
	CU(cuIpcOpenMemHandle_v2(&t->at, handle, 1));
}

static void closed(struct job *j, struct thing *t)
{
	(void)j;
	CU(cuIpcCloseMemHandle(t->at));
}

static void host_memory(struct job *j, struct thing *t)
{
	void *p;

	(void)j;
	t->size = SIZE;
	CU(cuMemHostAlloc(&p, SIZE, 0));
	t->at = (uintptr_t)p;
}

static void host_gone(struct job *j, struct thing *t)
{
	(void)j;
	CU(cuMemFreeHost((void *)(uintptr_t)t->at));
}

static void registered(struct job *j, struct thing *t)
{
	void *p = aligned_alloc(4096, SIZE);

	(void)j;
	t->size = SIZE;
	CU(cuMemHostRegister_v2(p, SIZE, 0));
	t->at = (uintptr_t)p;
}

static void unregistered(struct job *j, struct thing *t)
{
	(void)j;
	CU(cuMemHostUnregister((void *)(uintptr_t)t->at));
	free((void *)(uintptr_t)t->at);
}

static void filled_by_a_graph(struct job *j, struct thing *t)
{
	struct cu_fill_node fill = {.value = 3, .width = 1, .n = 4096, .height = 1};
	struct cu_copy_3d copy = {.width = 4096, .height = 1, .depth = 1};
	CUgraphNode n[2];

	plain(j, t);
	fill.dst = t->at;
	copy.src = (struct cu_place_3d){
		.type = CU_MEMORY_DEVICE, .device = t->at, .pitch = 4096, .height = 1};
	copy.dst = copy.src;
	copy.dst.device = t->at + 4096;
	CU(cuGraphCreate(&t->graph, 0));
	CU(cuGraphAddMemsetNode(&n[0], t->graph, NULL, 0, &fill, j->c.ctx));
	CU(cuGraphAddMemcpyNode(&n[1], t->graph, &n[0], 1, &copy, j->c.ctx));
	CU(cuGraphInstantiateWithFlags(&t->exec, t->graph, 0));
}

/* It has been away since the graph was made. */
static void graph_gone(struct job *j, struct thing *t)
{
	unsigned char is[2] = {0};

	CU(cuGraphLaunch(t->exec, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuMemcpyDtoH_v2(&is[0], t->at + 4095, 1));
	CU(cuMemcpyDtoH_v2(&is[1], t->at + 8191, 1));
	if (is[0] != 3 || is[1] != 3)
		die("the graph reached other memory");
	CU(cuGraphExecDestroy(t->exec));
	CU(cuGraphDestroy(t->graph));
	freed(j, t);
}

/* --- the table --- */

#define FAKE "the fake driver does not have it"

static const struct row {
	const char *symbol;
	void (*make)(struct job *j, struct thing *t);
	void (*end)(struct job *j, struct thing *t);
	const char *kind; /* that it counts as; or, without a case, why there is none */
} rows[] = {
	{"cuMemAlloc_v2", plain, freed, "movable"},
	{"cuMemFree_v2", plain, freed, "movable"},
	{"cuMemAllocPitch_v2", pitched, freed, "movable"},
	{"cuMemAllocManaged", unified, freed, "unified"},
	{"cuMemAllocAsync", from_stream, freed_in_stream, "movable"},
	{"cuMemFreeAsync", plain, freed_in_stream, "movable"},
	{"cuMemAllocFromPoolAsync", from_pool, pool_freed, "movable"},
	{"cuMemPoolCreate", from_pool, pool_freed, "movable"},
	{"cuMemPoolDestroy", from_pool, pool_freed, "movable"},
	{"cuMemPoolTrimTo", from_pool, pool_freed, "movable"},
	{"cuMemPoolSetAttribute", kept_pool, pool_freed, "movable"},
	{"cuMemPoolGetAttribute", kept_pool, pool_freed, "movable"},
	{"cuMemPoolSetAccess", opened_pool, pool_freed, "movable"},
	{"cuArrayCreate_v2", array_2d, array_gone, "array"},
	{"cuArray3DCreate_v2", array_3d, array_gone, "array"},
	{"cuArrayDestroy", array_3d, array_gone, "array"},
	{"cuMipmappedArrayCreate", mipmapped, mipmap_gone, "array"},
	{"cuMipmappedArrayDestroy", mipmapped, mipmap_gone, "array"},
	{"cuGraphAddMemAllocNode", node, node_gone, "graph"},
	{"cuDeviceGraphMemTrim", node, node_gone, "graph"},
	{"cuMemCreate", mapped, unmapped, "movable"},
	{"cuMemRelease", mapped, unmapped, "movable"},
	{"cuMemMap", mapped, unmapped, "movable"},
	{"cuMemUnmap", mapped, unmapped, "movable"},
	{"cuMemSetAccess", mapped, unmapped, "movable"},
	{"cuMemAddressFree", mapped, unmapped, "movable"},
	{"cuMemRetainAllocationHandle", retained, unmapped, "movable"},
	{"cuMemRetainAllocationHandle", retained_block, freed, "retained"},
	{"cuMemGetAllocationPropertiesFromHandle", asked, unmapped, "movable"},
	{"cuMemGetAccess", asked, unmapped, "movable"},
	{"cuMemExportToShareableHandle", exported, export_gone, "shared"},
	{"cuMemImportFromShareableHandle", imported, export_gone, "shared"},
	{"cuMemGetHandleForAddressRange", address_range, address_range_gone, "shared"},
	{"cuMulticastBindMem", bound, unbound, "shared"},
	{"cuMulticastBindMem_v2", bound_v2, unbound, "shared"},
	{"cuMulticastBindAddr", bound_at, unbound, "shared"},
	{"cuMulticastBindAddr_v2", bound_at_v2, unbound, "shared"},
	{"cuMulticastUnbind", bound, unbound, "shared"},
	{"cuStreamWriteValue32_v2", writes_32, freed, "stream-words"},
	{"cuStreamWriteValue64_v2", writes_64, freed, "stream-words"},
	{"cuStreamWaitValue32_v2", waits_32, freed, "stream-words"},
	{"cuStreamWaitValue64_v2", waits_64, freed, "stream-words"},
	{"cuStreamBatchMemOp_v2", batch_of_words, freed, "stream-words"},
	{"cuGraphAddBatchMemOpNode", words_node, freed, "stream-words"},
	{"cuPointerGetAttribute", pointer, freed, "movable"},
	{"cuPointerGetAttributes", pointer, freed, "movable"},
	{"cuMemGetAddressRange_v2", pointer, freed, "movable"},
	{"cuPointerSetAttribute", waited_for, freed, "shared"},
	{"cuIpcGetMemHandle", given, freed, "shared"},
	{"cuIpcOpenMemHandle_v2", opened, closed, "imported"},
	{"cuIpcCloseMemHandle", opened, closed, "imported"},
	{"cuMemFreeHost", host_memory, host_gone, "-"},
	{"cuMemHostUnregister", registered, unregistered, "-"},
	{"cuGraphAddMemsetNode", filled_by_a_graph, graph_gone, "movable"},
	{"cuGraphAddMemcpyNode", filled_by_a_graph, graph_gone, "movable"},
	{"cuMemAlloc", NULL, NULL, "of 32 bits"},
	{"cuMemFree", NULL, NULL, "of 32 bits"},
	{"cuMemAllocPitch", NULL, NULL, "of 32 bits"},
	{"cuArrayCreate", NULL, NULL, "of 32 bits"},
	{"cuArray3DCreate", NULL, NULL, "of 32 bits"},
	{"cuIpcOpenMemHandle", NULL, NULL, FAKE},
	{"cuStreamWaitValue32", NULL, NULL, FAKE},
	{"cuStreamWaitValue64", NULL, NULL, FAKE},
	{"cuStreamWriteValue32", NULL, NULL, FAKE},
	{"cuStreamWriteValue64", NULL, NULL, FAKE},
	{"cuStreamBatchMemOp", NULL, NULL, FAKE},
	{"cuGraphBatchMemOpNodeSetParams", NULL, NULL, FAKE},
	{"cuGraphMemcpyNodeSetParams", NULL, NULL, FAKE},
	{"cuGraphMemsetNodeSetParams", NULL, NULL, FAKE},
	{"cuMemHostGetDevicePointer_v2", NULL, NULL, "names memory of the host"},
	{"cuTexRefSetAddress_v2", NULL, NULL, FAKE},
	{"cuTexRefSetAddress2D_v2", NULL, NULL, FAKE},
	{"cuTexRefSetAddress2D_v3", NULL, NULL, FAKE},
};

/* Of the shim's table; commands are in tests/unit/cuda/test_cuda_naming.c. */
#define TEXT(...) #__VA_ARGS__
static const struct {
	const char *kind, *symbol, *facts, *params;
	bool clone; /* for the default stream of a thread */
} table[] = {
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	{#kind, #symbol, TEXT(__VA_ARGS__), TEXT params, per_thread},
#include "api/cuda/calls.def"
};

static bool is_of_memory(size_t i)
{
	static const char *const types[] = {"(CUdeviceptr", "CUmemGenericAllocationHandle",
		"(CUmemoryPool", "CUDA_MEMCPY", "CUDA_MEMSET_NODE_PARAMS", "fm_cu_words_node"};

	if (table[i].clone)
		return false;
	if (!strcmp(table[i].kind, "alloc") || !strcmp(table[i].kind, "release") ||
		strstr(table[i].facts, "pins_word"))
		return true;
	for (size_t k = 0; k < FM_ARRAY_LEN(types) && !strcmp(table[i].kind, "own"); k++)
		if (strstr(table[i].params, types[k]))
			return true;
	return false;
}

static void look_for_cases(void)
{
	for (size_t i = 0, k; i < FM_ARRAY_LEN(table); i++) {
		if (!is_of_memory(i))
			continue;
		for (k = 0; k < FM_ARRAY_LEN(rows); k++)
			if (!strcmp(rows[k].symbol, table[i].symbol))
				break;
		if (k == FM_ARRAY_LEN(rows))
			die("the row %s has no case", table[i].symbol);
	}
	for (size_t k = 0, i; k < FM_ARRAY_LEN(rows); k++) {
		for (i = 0; i < FM_ARRAY_LEN(table); i++)
			if (is_of_memory(i) && !strcmp(rows[k].symbol, table[i].symbol))
				break;
		if (i == FM_ARRAY_LEN(table))
			die("there is no row %s", rows[k].symbol);
	}
}

static struct thing things[FM_ARRAY_LEN(rows)];

static void do_rows(struct job *j, int n)
{
	(void)j, (void)n;
	look_for_cases();
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (rows[i].make)
			printf("row %zu %s %s\n", i, rows[i].symbol, rows[i].kind);
}

#define STEP (256 * (size_t)1024)

static void do_make(struct job *j, int i)
{
	struct thing *t = &things[i];

	rows[i].make(j, t);
	for (size_t at = 0; t->at && at < t->size; at += STEP)
		CU(cuMemsetD32_v2(t->at + at, (unsigned)(i * 1000 + (int)(at / STEP)), 1));
}

static void do_check(struct job *j, int i)
{
	struct thing *t = &things[i];
	unsigned is = 0;

	(void)j;
	for (size_t at = 0; t->at && at < t->size; at += STEP) {
		CU(cuMemcpy((uintptr_t)&is, t->at + at, sizeof(is)));
		if (is != (unsigned)(i * 1000 + (int)(at / STEP)))
			die("%s: it differs at %zu", rows[i].symbol, at);
	}
}

static void do_end(struct job *j, int i)
{
	size_t left, all;

	rows[i].end(j, &things[i]);
	things[i] = (struct thing){0};
	CU(cuMemGetInfo_v2(&left, &all)); /* what is freed in streams is looked at then */
}

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"rows", do_rows},
		{"make", do_make},
		{"check", do_check},
		{"end", do_end},
		{0},
	};

	return job_main(argc, argv, commands);
}
