/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the program maps itself: segments that grow and shrink, one memory at several
 * addresses, handles, what is wrong, and what is passed on. */
#include "cuda_conform.h"

#define MIB ((size_t)1 << 20)

static const struct cu_access both = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH},
			      reads = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ};

static struct cu_chunk_prop on(const struct conform *c, int types)
{
	return (struct cu_chunk_prop){
		CU_CHUNK_PINNED, types, {CU_LOCATION_DEVICE, c->dev}, NULL, 0, 0, 0, {0}};
}

static cu_chunk make(const struct conform *c, size_t size, int types)
{
	const struct cu_chunk_prop prop = on(c, types);
	cu_chunk h;

	CU(cuMemCreate(&h, size, &prop, 0));
	return h;
}

static CUdeviceptr range(size_t size)
{
	CUdeviceptr at;

	CU(cuMemAddressReserve(&at, size, 0, 0, 0));
	return at;
}

static void map(CUdeviceptr at, size_t size, cu_chunk h)
{
	CU(cuMemMap(at, size, 0, h, 0));
	CU(cuMemSetAccess(at, size, &both, 1));
}

static void seed(CUdeviceptr at, uint32_t number)
{
	uint32_t words[WORDS];

	seed_words(words, WORDS, number);
	CU(cuMemcpyHtoD_v2(at, words, BYTES));
	CU(cuCtxSynchronize());
}

/* A segment grows by pieces, which are side by side; it is used across them, and shrinks. */
#define PIECES 6
static void segment(struct conform *c)
{
	CUdeviceptr at = range(PIECES * 4 * MIB), edge = at + 4 * MIB - BYTES / 2;
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	cu_chunk h[PIECES];

	for (int i = 0; i < PIECES; i++) {
		h[i] = make(c, 4 * MIB, 0);
		CU(cuMemMap(at + (size_t)i * 4 * MIB, 4 * MIB, 0, h[i], 0));
		if (i % 2)
			CU(cuMemSetAccess(at + (size_t)(i - 1) * 4 * MIB, 8 * MIB, &both, 1));
	}
	seed(edge, 3);
	for (uint32_t i = 0; i < 20; i++) {
		mix(c, s, edge, i);
		CU(cuMemcpyDtoDAsync_v2(at + 20 * MIB, edge, BYTES, s));
		mix(c, s, at + 20 * MIB, ~i);
		CU(cuMemcpyDtoDAsync_v2(edge + 512, at + 20 * MIB, BYTES / 2, s));
	}
	note_words(c, "edge", edge, s);
	CU(cuStreamSynchronize(s));
	CU(cuMemUnmap(at + 8 * MIB, 16 * MIB)); /* four of them */
	for (int i = 2; i < PIECES; i++)
		CU(cuMemRelease(h[i]));
	mix(c, s, edge, 77);
	note_words(c, "edge of the rest", edge, s);
	h[2] = make(c, 4 * MIB, 0);
	map(at + 8 * MIB, 4 * MIB, h[2]);
	seed(at + 8 * MIB, 4);
	join(c, s, edge, at + 8 * MIB, at + 8 * MIB);
	note_words(c, "edge, grown again", edge, s);
	CU(cuStreamSynchronize(s));
	CU(cuMemUnmap(at, 12 * MIB));
	for (int i = 0; i < 3; i++)
		CU(cuMemRelease(h[i]));
	CU(cuMemAddressFree(at, PIECES * 4 * MIB));
	CU(cuStreamDestroy_v2(s));
}

/* What is written at one address is read at the other, and stays while it is mapped at none. */
static void aliases(struct conform *c)
{
	CUdeviceptr one = range(8 * MIB), two = range(4 * MIB), three = one + 4 * MIB;
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	cu_chunk h = make(c, 4 * MIB, 0);

	map(one, 4 * MIB, h);
	map(two, 4 * MIB, h);
	seed(one + MIB, 5);
	for (uint32_t i = 0; i < 20; i++) {
		mix(c, s, one + MIB, i);
		mix(c, s, two + MIB, i + 100);
	}
	note_words(c, "by the second", two + MIB, s);
	CU(cuStreamSynchronize(s));
	CU(cuMemUnmap(one, 4 * MIB));
	mix(c, s, two + MIB, 7);
	CU(cuStreamSynchronize(s));
	CU(cuMemUnmap(two, 4 * MIB));
	usleep(2000);
	map(three, 4 * MIB, h);
	mix(c, s, three + MIB, 8);
	note_words(c, "by the third", three + MIB, s);
	CU(cuStreamSynchronize(s));
	CU(cuMemUnmap(three, 4 * MIB));
	CU(cuMemRelease(h));
	CU(cuMemAddressFree(one, 8 * MIB));
	CU(cuMemAddressFree(two, 4 * MIB));
	CU(cuStreamDestroy_v2(s));
}

/* Memory lives while there is a handle or a mapping. */
static void handles(struct conform *c)
{
	CUdeviceptr at = range(4 * MIB), two = range(4 * MIB);
	cu_chunk h = make(c, 4 * MIB, 0), again, more;
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	struct cu_chunk_prop want = on(c, 0), got;

	map(at, 4 * MIB, h);
	seed(at, 6);
	CU(cuMemRelease(h));
	note(c, "released twice: %d", cu.cuMemRelease(h));
	mix(c, s, at, 1);
	CU(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + MIB)));
	CU(cuMemRetainAllocationHandle(&more, (void *)(uintptr_t)at));
	note(c, "the same handle: %d", again == more);
	CU(cuMemGetAllocationPropertiesFromHandle(&got, again));
	note(c, "properties differ: %d", memcmp(&got, &want, sizeof(got)) != 0);
	CU(cuMemRelease(more));
	map(two, 4 * MIB, again);
	CU(cuMemRelease(again));
	mix(c, s, two, 2);
	note_words(c, "at", at, s);
	CU(cuStreamSynchronize(s));
	note(c, "of a range in use: %d", cu.cuMemAddressFree(at, 4 * MIB));
	CU(cuMemUnmap(at, 4 * MIB));
	note_words(c, "two", two, s);
	CU(cuStreamSynchronize(s));
	CU(cuMemUnmap(two, 4 * MIB));
	note(c, "of nothing: %d", cu.cuMemRetainAllocationHandle(&more, (void *)(uintptr_t)at));
	note(c, "properties of nothing: %d", cu.cuMemGetAllocationPropertiesFromHandle(&got, h));
	CU(cuMemAddressFree(at, 4 * MIB));
	CU(cuMemAddressFree(two, 4 * MIB));
	CU(cuStreamDestroy_v2(s));
}

static void wrong(struct conform *c)
{
	struct cu_chunk_prop prop = on(c, 0);
	CUdeviceptr at = range(16 * MIB), block;
	cu_chunk h = make(c, 4 * MIB, 0), k = make(c, 2 * MIB, 0), l;
	unsigned long long flags;
	int fd;

	CU(cuMemAlloc_v2(&block, 2 * MIB)); /* what is the driver's, or may be */
	note(c, "size: %d", cu.cuMemCreate(&l, MIB, &prop, 0));
	note(c, "no size: %d", cu.cuMemCreate(&l, 0, &prop, 0));
	note(c, "flags: %d", cu.cuMemCreate(&l, 2 * MIB, &prop, 1));
	note(c, "nothing: %d", cu.cuMemCreate(&l, 2 * MIB, NULL, 0));
	prop.location.id = 60;
	note(c, "device: %d", cu.cuMemCreate(&l, 2 * MIB, &prop, 0));
	note(c, "half: %d", cu.cuMemMap(at, 2 * MIB, 0, h, 0));
	note(c, "half, later: %d", cu.cuMemMap(at, 2 * MIB, 2 * MIB, h, 0));
	note(c, "more: %d", cu.cuMemMap(at, 8 * MIB, 0, h, 0));
	note(c, "no range: %d", cu.cuMemMap(2 * MIB, 4 * MIB, 0, h, 0));
	note(c, "map flags: %d", cu.cuMemMap(at, 4 * MIB, 0, h, 1));
	CU(cuMemMap(at, 4 * MIB, 0, h, 0));
	CU(cuMemMap(at + 4 * MIB, 2 * MIB, 0, k, 0));
	note(c, "twice: %d", cu.cuMemMap(at + 2 * MIB, 2 * MIB, 0, k, 0));
	note(c, "cut: %d", cu.cuMemUnmap(at, 2 * MIB));
	note(c, "cut behind: %d", cu.cuMemUnmap(at + 2 * MIB, 4 * MIB));
	note(c, "access cut: %d", cu.cuMemSetAccess(at, 2 * MIB, &both, 1));
	note(c, "access cut behind: %d", cu.cuMemSetAccess(at + 2 * MIB, 4 * MIB, &both, 1));
	note(c, "access to a hole: %d", cu.cuMemSetAccess(at, 8 * MIB, &both, 1));
	note(c, "no access: %d", cu.cuMemSetAccess(at, 4 * MIB, NULL, 1));
	CU(cuMemSetAccess(at, 6 * MIB, &reads, 1));
	CU(cuMemGetAccess(&flags, &both.location, at + 4 * MIB));
	note(c, "access: %llu", flags);
	CU(cuMemSetAccess(at, 4 * MIB, &both, 1));
	CU(cuMemGetAccess(&flags, &both.location, at));
	note(c, "access: %llu", flags);
	note(c, "export: %d", cu.cuMemExportToShareableHandle(&fd, h, CU_HANDLE_FD, 0));
	note(c, "range in use: %d", cu.cuMemAddressFree(at, 16 * MIB));
	CU(cuMemUnmap(at, 6 * MIB));
	note(c, "unmapped again: %d", cu.cuMemUnmap(at, 6 * MIB));
	CU(cuMemRelease(h));
	CU(cuMemRelease(k));
	note(c, "released: %d", cu.cuMemMap(at, 4 * MIB, 0, h, 0));
	note(c, "no handle: %d", cu.cuMemRelease(0x123456789));
	CU(cuMemAddressFree(at, 16 * MIB));
	CU(cuMemFree_v2(block));
}

/* It has one handle, however large it is. What is not written is zeros. */
#define LARGE (132 * MIB)
static void large(struct conform *c)
{
	CUdeviceptr at = range(LARGE), base, edge = at + 128 * MIB - BYTES / 2;
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	cu_chunk h = make(c, LARGE, 0);
	size_t size;

	map(at, LARGE, h);
	seed(edge, 9);
	for (uint32_t i = 0; i < 4; i++)
		mix(c, s, edge, i);
	note_words(c, "edge", edge, s);
	note_words(c, "zeros", at + LARGE - BYTES, s);
	CU(cuStreamSynchronize(s));
	CU(cuMemGetAddressRange_v2(&base, &size, edge));
	note(c, "range: %d %zu", base == at, size);
	CU(cuMemUnmap(at, LARGE));
	CU(cuMemRelease(h));
	CU(cuMemAddressFree(at, LARGE));
	CU(cuStreamDestroy_v2(s));
}

static void asked(struct conform *c)
{
	int which[] = {CU_POINTER_TYPE, CU_POINTER_ORDINAL, CU_POINTER_MAPPING_SIZE,
		CU_POINTER_MAPPING_START, CU_POINTER_DEVICE, CU_POINTER_HANDLES};
	unsigned long long got[6] = {0}, id, same;
	CUdeviceptr at = range(8 * MIB), start, p = at + 5 * MIB;
	cu_chunk h = make(c, 4 * MIB, CU_HANDLE_FD);
	unsigned type, managed, mapped;
	size_t size, whole;

	map(at + 4 * MIB, 4 * MIB, h);
	CU(cuPointerGetAttribute(&type, CU_POINTER_TYPE, p));
	CU(cuPointerGetAttribute(&managed, CU_POINTER_MANAGED, p));
	CU(cuPointerGetAttribute(&mapped, CU_POINTER_MAPPED, p));
	CU(cuPointerGetAttribute(&start, CU_POINTER_START, p));
	CU(cuPointerGetAttribute(&whole, CU_POINTER_SIZE, p));
	note(c, "type %u managed %u mapped %u range %lld %zu", type, managed, mapped,
		(long long)(start - at), whole);
	CU(cuPointerGetAttributes(
		6, which, (void *[]){&got[0], &got[1], &got[2], &got[3], &got[4], &got[5]}, p));
	note(c, "type %llu device %llu mapping %llu at %lld, p %lld, types %llu", got[0], got[1],
		got[2], (long long)(got[3] - at), (long long)(got[4] - at), got[5]);
	CU(cuPointerGetAttribute(&id, CU_POINTER_CHUNK_ID, p));
	usleep(3000);
	CU(cuPointerGetAttribute(&same, CU_POINTER_CHUNK_ID, p));
	note(c, "the id stays: %d", id == same);
	CU(cuMemGetAddressRange_v2(&start, &size, p));
	note(c, "block %lld %zu", (long long)(start - at), size);
	note(c, "a hole: %d", cu.cuMemGetAddressRange_v2(&start, &size, at));
	note(c, "copies that wait: %d", cu.cuPointerSetAttribute(&type, CU_POINTER_SYNC, p));
	CU(cuMemUnmap(at + 4 * MIB, 4 * MIB));
	CU(cuMemRelease(h));
	CU(cuMemAddressFree(at, 8 * MIB));
}

/* Who has the descriptor writes there, whenever it likes. */
static void passed_on(struct conform *c)
{
	CUdeviceptr at = range(4 * MIB), theirs = range(4 * MIB);
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	cu_chunk h = make(c, 4 * MIB, CU_HANDLE_FD), in;
	int fd;

	map(at, 4 * MIB, h);
	seed(at, 10);
	usleep(2000);
	CU(cuMemExportToShareableHandle(&fd, h, CU_HANDLE_FD, 0));
	CU(cuMemImportFromShareableHandle(&in, (void *)(intptr_t)fd, CU_HANDLE_FD));
	map(theirs, 4 * MIB, in);
	close(fd);
	for (uint32_t i = 0; i < 10; i++) {
		mix(c, s, at, i);
		mix(c, s, theirs, i + 50);
		CU(cuStreamSynchronize(s));
		usleep(500);
	}
	note_words(c, "both", at, s);
	CU(cuStreamSynchronize(s));
	CU(cuMemUnmap(theirs, 4 * MIB));
	CU(cuMemRelease(in));
	CU(cuMemUnmap(at, 4 * MIB));
	CU(cuMemRelease(h));
	CU(cuMemAddressFree(at, 4 * MIB));
	CU(cuMemAddressFree(theirs, 4 * MIB));
	CU(cuStreamDestroy_v2(s));
}

/* A graph that was made before, with nodes of each kind. */
static void graphs(struct conform *c)
{
	CUdeviceptr at = range(4 * MIB);
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	cu_chunk h = make(c, 4 * MIB, 0);
	CUgraphExec exec;
	CUgraph graph;

	map(at, 4 * MIB, h);
	seed(at, 11);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	mix(c, s, at, 1);
	CU(cuMemcpyDtoDAsync_v2(at + MIB, at, BYTES, s));
	CU(cuMemsetD32Async(at + 2 * MIB, 5, WORDS, s));
	mix(c, s, at + MIB, 2);
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 10; i++) {
		CU(cuGraphLaunch(exec, s));
		CU(cuStreamSynchronize(s));
		usleep(500);
	}
	note_words(c, "at", at, s);
	note_words(c, "copied", at + MIB, s);
	note_words(c, "filled", at + 2 * MIB, s);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	CU(cuStreamSynchronize(s));
	CU(cuMemUnmap(at, 4 * MIB));
	CU(cuMemRelease(h));
	CU(cuMemAddressFree(at, 4 * MIB));
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"segment", segment},
		{"aliases", aliases},
		{"handles", handles},
		{"wrong", wrong},
		{"large", large},
		{"asked", asked},
		{"passed on", passed_on},
		{"graphs", graphs},
		{0},
	};

	return conform_main(argc, argv, cases);
}
