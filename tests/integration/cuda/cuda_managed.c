/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose memory moves: it allocates, fills and checks as it is told (cuda_job.h).
 *
 *   relaunch N   the graph of graphs, as it was instantiated (0) or updated (1)
 *   alloc MIB    one more block; with 0 a small one. Answers "no memory" if there is none
 *   pitch ROWS   one more block, of rows
 *   pool MIB     one more block, of the device's pool
 *   ownpool MIB  one more block, of a pool that is made for it
 *   handpool MIB one more block, of a pool with handles, so that it can be passed on
 *   graphmem MIB one more block, of a node of a graph, launched
 *   captured MIB one more block, of the pool, while a stream is captured, launched
 *   unified MIB  one more block, of memory that the processor sees, too
 *   global MIB   one more block, a variable of code
 *   packed MIB   one more block, as vmm, compressed
 *   array MIB    one more array, which has no address, so it is never filled; mipmap MIB: the same
 *   again N      N times: a block of 16 MiB of the pool is used, and freed behind that
 *   vmm MIB      one more block, mapped by the program in pieces of 20 MiB, which can be passed on
 *   pass N       pieces of block N, which is such a one, are passed on
 *   export N     pieces of block N, twice: descriptors that stay open are written to the file
 *                $CUDA_HANDLE; import 0: one more block, of the memory that is named there
 *   trim 0       the device's pool gives back what nobody uses; trimown 0: that of ownpool does,
 *                and endpool 0: it ends, when nobody uses any of it
 *   free N       block N; free -1: twice the first, and in its middle: both must be refused
 *   odd 0        sizes that cannot be, and ends of blocks that are none, must be refused as the
 *                driver does, and change nothing; the first block ends in another context
 *   oddmaps 0    sizes and addresses that cannot be, for memory that the program maps, and handles
 *                that are none. Each is answered by a line, "answer WHAT: ERROR"
 *   oddpools 0   the same for memory in the order of streams, and of pools
 *   oddnames 0   the same for the older handles; oddadvice N: advice about block N, and prefetches
 *   oddlaunch 0  the same for buffers of parameters of another size than the kernel's
 *   fill SEED    all blocks, by copies and kernels
 *   check SEED   all blocks hold that
 *   ask 0        what the driver says of the blocks must be what it says of its own memory
 *   hang MS      a kernel that takes so long, which is not waited for
 *   waits KIND   behind some kernels, a copy that waits for them: to memory that the driver does
 *                not know, 0: of two dimensions, 1: of three; from there, 2: in a batch, 3: a large
 *                one. "launched" when the kernels are. All blocks hold what fill 1 has put there
 *   first 0      behind some kernels, the first launch of a function. "launched" as above
 *   stack 0      behind some kernels, a limit of stacks that is larger. "launched" as above
 *   words 0      a stream waits for a word of the first block
 *   give N       a handle of block N for other processes goes into the file $CUDA_HANDLE. Answers
 *                "refused" if there is none
 *   take MIB     one more block: the one in the file, of another process. Answers "refused"
 *   drop N       block N, which is such a one, is closed
 *   own 0        a process cannot open its own
 *   deaf 0       the program closes the sockets that it has not opened
 *   table 0      asks for a table of the driver's that nobody knows
 *   spin N       N short kernels
 *   nodes BYTE   a graph that fills the first block, and is launched
 *   graphs BYTE  two such graphs; update 0 makes of the first, as it was instantiated, the second,
 *                which fills with a byte more
 *   wordnode 0   a node of a graph writes a word of the first block
 *   batch SEED   batches of copies to and from the first bytes of all blocks
 *   late SEED    when the process exits, all blocks still hold that; it says "later" then
 *   end 0        ends the context, and begins anew
 *   renew 0      the same, but blocks that the program has mapped stay: they are of no context
 *   leave N      the same, with a context of its own between that has N MiB. In the driver, in
 *                front of the end of that one, it waits for a line
 *   near DEVICE  makes another device ready, without memory there
 *   enable 0     that one reaches what is on the first
 *   poolaccess 0 it reaches the first one's pool
 *   grant N      it reaches block N, which the program has mapped
 *   reach N      a kernel there writes to block N, of the first device
 *   peers 0      block 0 is copied to that device, within it, and back
 *   other MS     a kernel that takes so long there, and then the first memory
 *   beside MS    when host memory is given back, in another thread: a kernel that takes so long,
 *                and a copy
 *   engine LOOK  opens the library $ENGINE, and with 1 looks for a function of it
 *   card N       block N is registered with a network card, by a function of a version; card -1:
 *                with a piece of memory less, anew; nocard N: no more. Answers "refused"
 *   window N     the same for the processor, by a function that all see; nowindow N, or -1: all by
 *                gdr_close()
 *   lose ERROR   the context dies with that error; 0: it has. A copy is told so, "says ERROR".
 *                After one more word the context is destroyed, "reset", and it waits for the end of
 *                its input
 *   race N       N times: one thread frees a block, while another frees one in a stream
 */
#include "../../fakes/cuda/fake_cuda.h"
#include "base/util.h"
#include "cuda_job.h"
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#define BLOCKS 64
#define MIB    ((size_t)1 << 20)
#define SAMPLE 4096u               /* words that are written and compared at a time */
#define LARGE  ((size_t)128 << 10) /* bytes of a copy for which the driver waits */

#define PIECE  (20 * MIB)
#define PIECES 16

struct pieces {
	cu_chunk h[PIECES];
	int n; /* 0: the block is the driver's */
};

static struct {
	CUdeviceptr at[BLOCKS];
	size_t size[BLOCKS];
	struct pieces of[BLOCKS];
	int n;
} mine;

static void keep(fm_cu_result rc, CUdeviceptr at, size_t size)
{
	if (rc == CU_OUT_OF_MEMORY) {
		puts("no memory");
		return;
	}
	cu_check(rc, "allocation", __FILE__, __LINE__);
	if (mine.n == BLOCKS)
		die("too many blocks");
	mine.at[mine.n] = at;
	mine.size[mine.n++] = size;
}

static void do_alloc(struct job *j, int mib)
{
	size_t size = mib ? (size_t)mib * MIB : 4096;
	CUdeviceptr at = 0;
	fm_cu_result rc = cu.cuMemAlloc_v2(&at, size);

	(void)j;
	keep(rc, at, size);
}

static void do_pitch(struct job *j, int rows)
{
	CUdeviceptr at = 0;
	size_t pitch = 0;
	fm_cu_result rc = cu.cuMemAllocPitch_v2(&at, &pitch, 1000, (size_t)rows, 4);

	(void)j;
	keep(rc, at, pitch * (size_t)rows);
	if (pitch != 1024)
		die("a pitch of %zu", pitch);
}

static void unmap(CUdeviceptr at, size_t mapped, struct pieces *p)
{
	if (mapped)
		CU(cuMemUnmap(at, mapped));
	for (int i = 0; i < p->n; i++)
		CU(cuMemRelease(p->h[i]));
	p->n = 0;
}

/* The piece of it that begins at `done` is mapped. */
static fm_cu_result map_piece(CUdeviceptr at, size_t done, size_t n, cu_chunk *h)
{
	const struct cu_chunk_prop prop = {
		CU_CHUNK_PINNED, CU_HANDLE_FD, {CU_LOCATION_DEVICE, 0}, NULL, 0, 1, 0, {0}};
	fm_cu_result rc = cu.cuMemCreate(h, n, &prop, 0);

	if (rc)
		return rc;
	rc = cu.cuMemMap(at + done, n, 0, *h, 0);
	if (rc)
		CU(cuMemRelease(*h));
	return rc;
}

static void do_pool(struct job *j, int mib)
{
	size_t size = (size_t)mib * MIB;
	CUdeviceptr at = 0;
	fm_cu_result rc = cu.cuMemAllocAsync(&at, size, j->s);

	keep(rc, at, size);
	CU(cuStreamSynchronize(j->s));
}

static CUmemoryPool last_pool;

static void from_pool(struct job *j, int mib, int types)
{
	const struct cu_pool_prop prop = {.type = CU_CHUNK_PINNED,
		.handles = types,
		.location = {CU_LOCATION_DEVICE, j->c.dev}};
	size_t size = (size_t)mib * MIB;
	CUmemoryPool pool;
	CUdeviceptr at;

	CU(cuMemPoolCreate(&pool, &prop));
	CU(cuMemAllocFromPoolAsync(&at, size, pool, j->s));
	CU(cuStreamSynchronize(j->s));
	keep(FM_CU_SUCCESS, at, size);
	last_pool = pool;
}

static void do_ownpool(struct job *j, int mib)
{
	from_pool(j, mib, 0);
}

static void do_handpool(struct job *j, int mib)
{
	from_pool(j, mib, CU_HANDLE_FD);
}

static void launch_once(struct job *j, CUgraph graph)
{
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, j->s));
	CU(cuStreamSynchronize(j->s));
}

static void do_graphmem(struct job *j, int mib)
{
	struct cu_alloc_node what = {
		.pool = {.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, j->c.dev}},
		.size = (size_t)mib * MIB};
	CUgraphNode node;
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &what));
	launch_once(j, graph);
	keep(FM_CU_SUCCESS, what.d, what.size);
}

static void do_captured(struct job *j, int mib)
{
	size_t size = (size_t)mib * MIB;
	CUgraph graph;
	CUdeviceptr at;

	CU(cuStreamBeginCapture_v2(j->s, 2));
	CU(cuMemAllocAsync(&at, size, j->s));
	CU(cuStreamEndCapture(j->s, &graph));
	launch_once(j, graph);
	keep(FM_CU_SUCCESS, at, size);
}

static void do_unified(struct job *j, int mib)
{
	size_t size = (size_t)mib * MIB;
	CUdeviceptr at;

	(void)j;
	CU(cuMemAllocManaged(&at, size, 1));
	keep(FM_CU_SUCCESS, at, size);
}

static void do_global(struct job *j, int mib)
{
	char code[256];
	CUdeviceptr at;
	CUmodule module;
	size_t size;

	(void)j;
	snprintf(code, sizeof(code),
		".version 8.0\n.target sm_80\n.address_size 64\n"
		".visible .global .align 4 .b8 large[%zu];\n.visible .entry "
		"nothing()\n{\n\tret;\n}\n",
		(size_t)mib * MIB);
	CU(cuModuleLoadData(&module, code));
	CU(cuModuleGetGlobal_v2(&at, &size, module, "large"));
	keep(FM_CU_SUCCESS, at, size);
}

static void do_packed(struct job *j, int mib)
{
	const struct cu_access both = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};
	const struct cu_chunk_prop prop = {
		CU_CHUNK_PINNED, 0, {CU_LOCATION_DEVICE, 0}, NULL, 1, 0, 0, {0}};
	size_t size = (size_t)mib * MIB;
	CUdeviceptr at;
	cu_chunk h;

	(void)j;
	CU(cuMemAddressReserve(&at, size, 0, 0, 0));
	CU(cuMemCreate(&h, size, &prop, 0));
	CU(cuMemMap(at, size, 0, h, 0));
	CU(cuMemSetAccess(at, size, &both, 1));
	keep(FM_CU_SUCCESS, at, size);
}

static void do_array(struct job *j, int mib)
{
	const struct cu_array_2d what = {1024, (size_t)mib * 256, 0x20, 1};
	CUarray array;

	(void)j;
	CU(cuArrayCreate_v2(&array, &what));
}

static void do_mipmap(struct job *j, int mib)
{
	const struct cu_array what = {1024, (size_t)mib * 256, 0, 0x20, 1, 0};
	CUmipmappedArray array;

	(void)j;
	CU(cuMipmappedArrayCreate(&array, &what, 1));
}

static void do_again(struct job *j, int n)
{
	CUdeviceptr at;

	for (int i = 0; i < n; i++) {
		CU(cuMemAllocAsync(&at, 16 * MIB, j->s));
		spin(&j->c, j->s, at, 20000);
		CU(cuMemFreeAsync(at, j->s));
	}
	puts("begun");
}

/* As frameworks grow their segments: access is given to all of it. */
static void do_vmm(struct job *j, int mib)
{
	const struct cu_access both = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};
	size_t size = (size_t)mib * MIB, done = 0, n = 0;
	struct pieces p = {.n = 0};
	fm_cu_result rc = FM_CU_SUCCESS;
	CUdeviceptr at;

	(void)j;
	CU(cuMemAddressReserve(&at, size, 0, 0, 0));
	for (; done < size && !rc; done += rc ? 0 : n) {
		n = FM_MIN(PIECE, size - done);
		rc = map_piece(at, done, n, &p.h[p.n]);
		p.n += !rc;
	}
	if (!rc)
		rc = cu.cuMemSetAccess(at, size, &both, 1);
	if (rc) {
		unmap(at, done, &p);
		CU(cuMemAddressFree(at, size));
	}
	mine.of[mine.n] = p;
	keep(rc, at, size);
}

static void do_pass(struct job *j, int n)
{
	(void)j;
	for (int i = 0; i < mine.of[n].n; i++) {
		int fd;

		CU(cuMemExportToShareableHandle(&fd, mine.of[n].h[i], CU_HANDLE_FD, 0));
		close(fd);
	}
}

static FILE *handle_file(const char *mode)
{
	const char *name = getenv("CUDA_HANDLE");
	FILE *f = name ? fopen(name, mode) : NULL;

	if (!f)
		die("there is no file for a handle");
	return f;
}

/* "PID FD BYTES" for each piece; who may look into the process opens them there. */
static void do_export(struct job *j, int n)
{
	FILE *f = handle_file("w");

	(void)j;
	for (int i = 0; i < mine.of[n].n; i++) {
		size_t left = mine.size[n] - (size_t)i * PIECE;
		int fd, again;

		CU(cuMemExportToShareableHandle(&fd, mine.of[n].h[i], CU_HANDLE_FD, 0));
		CU(cuMemExportToShareableHandle(&again, mine.of[n].h[i], CU_HANDLE_FD, 0));
		close(again);
		fprintf(f, "%d %d %zu\n", (int)getpid(), fd, FM_MIN(PIECE, left));
	}
	fclose(f);
}

static void import_piece(CUdeviceptr at, int pid, int theirs, size_t size, cu_chunk *h)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, theirs);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die("no %s", path);
	CU(cuMemImportFromShareableHandle(h, (void *)(intptr_t)fd, CU_HANDLE_FD));
	close(fd);
	CU(cuMemMap(at, size, 0, *h, 0));
}

static void do_import(struct job *j, int n)
{
	const struct cu_access both = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};
	FILE *f = handle_file("r");
	struct pieces p = {.n = 0};
	size_t size, all = 0;
	int pid, fd;
	CUdeviceptr at;

	(void)j, (void)n;
	while (fscanf(f, "%d %d %zu", &pid, &fd, &size) == 3)
		all += size;
	CU(cuMemAddressReserve(&at, all, 0, 0, 0));
	rewind(f);
	for (all = 0; fscanf(f, "%d %d %zu", &pid, &fd, &size) == 3; all += size)
		import_piece(at + all, pid, fd, size, &p.h[p.n++]);
	fclose(f);
	CU(cuMemSetAccess(at, all, &both, 1));
	mine.of[mine.n] = p;
	keep(FM_CU_SUCCESS, at, all);
}

static void do_trim(struct job *j, int n)
{
	CUmemoryPool pool;

	(void)n;
	CU(cuDeviceGetDefaultMemPool(&pool, j->c.dev));
	CU(cuMemPoolTrimTo(pool, 0));
}

static void do_trimown(struct job *j, int n)
{
	(void)j, (void)n;
	CU(cuMemPoolTrimTo(last_pool, 0));
}

static void do_endpool(struct job *j, int n)
{
	(void)j, (void)n;
	CU(cuMemPoolDestroy(last_pool));
}

static void do_free(struct job *j, int n)
{
	(void)j;
	if (n >= 0) {
		if (mine.of[n].n) {
			unmap(mine.at[n], mine.size[n], &mine.of[n]);
			CU(cuMemAddressFree(mine.at[n], mine.size[n]));
		} else {
			CU(cuMemFree_v2(mine.at[n]));
		}
		mine.at[n] = mine.at[--mine.n];
		mine.of[n] = mine.of[mine.n];
		mine.of[mine.n].n = 0;
		mine.size[n] = mine.size[mine.n];
		return;
	}
	if (!cu.cuMemFree_v2(mine.at[0] + 512))
		die("the middle of a block was freed");
	CU(cuMemFree_v2(mine.at[0]));
	if (!cu.cuMemFree_v2(mine.at[0]))
		die("a block was freed twice");
	mine.at[0] = mine.at[--mine.n];
	mine.size[0] = mine.size[mine.n];
}

static void gives(const char *what, fm_cu_result rc, fm_cu_result want)
{
	if (rc != want)
		die("%s: %d, and not %d", what, rc, want);
}

static void odd_sizes(struct job *j)
{
	const size_t none[] = {(size_t)1 << 63, SIZE_MAX, SIZE_MAX - 4096};
	CUdeviceptr d = 77;
	size_t pitch = 78;

	gives("no bytes", cu.cuMemAlloc_v2(&d, 0), FM_CU_ERROR_INVALID_VALUE);
	gives("no place", cu.cuMemAlloc_v2(NULL, 4096), FM_CU_ERROR_INVALID_VALUE);
	gives("no rows", cu.cuMemAllocPitch_v2(&d, &pitch, 1000, 0, 4), FM_CU_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < FM_ARRAY_LEN(none); i++) {
		gives("too many bytes", cu.cuMemAlloc_v2(&d, none[i]), CU_OUT_OF_MEMORY);
		gives("too many of a pool", cu.cuMemAllocAsync(&d, none[i], j->s),
			CU_OUT_OF_MEMORY);
	}
	if (d != 77 || pitch != 78)
		die("what was refused has an address");
}

static void do_odd(struct job *j, int n)
{
	CUcontext second;

	(void)n;
	odd_sizes(j);
	gives("nothing is freed", cu.cuMemFree_v2(0), FM_CU_SUCCESS);
	gives("an address of nobody", cu.cuMemFree_v2(77), FM_CU_ERROR_INVALID_VALUE);
	gives("the middle of a block", cu.cuMemFree_v2(mine.at[0] + 4096),
		FM_CU_ERROR_INVALID_VALUE);
	gives("its last byte", cu.cuMemFree_v2(mine.at[0] + mine.size[0] - 1),
		FM_CU_ERROR_INVALID_VALUE);
	CU(cuCtxCreate_v2(&second, 0, j->c.dev));
	gives("from another context", cu.cuMemFree_v2(mine.at[0]), FM_CU_SUCCESS);
	gives("twice, from there", cu.cuMemFree_v2(mine.at[0]), FM_CU_ERROR_INVALID_VALUE);
	CU(cuCtxDestroy_v2(second));
	CU(cuCtxSetCurrent(j->c.ctx));
	gives("twice", cu.cuMemFree_v2(mine.at[0]), FM_CU_ERROR_INVALID_VALUE);
	mine.at[0] = mine.at[--mine.n];
	mine.size[0] = mine.size[mine.n];
}

static void answer(const char *what, fm_cu_result rc)
{
	printf("answer %s: %d\n", what, rc);
}

static const struct cu_access here = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};

/* One of two pieces is mapped at `at`. */
static void odd_mappings(CUdeviceptr at, cu_chunk h)
{
	answer("at an odd address", cu.cuMemMap(at + 4096, PIECE, 0, h, 0));
	answer("behind the addresses", cu.cuMemMap(at + 2 * PIECE, PIECE, 0, h, 0));
	answer("half of them behind", cu.cuMemMap(at + PIECE + 2 * MIB, PIECE, 0, h, 0));
	answer("nothing", cu.cuMemMap(at + PIECE, 0, 0, h, 0));
	answer("more than there is", cu.cuMemMap(at + PIECE, PIECE + 2 * MIB, 0, h, 0));
	answer("without end", cu.cuMemMap(at + PIECE, (size_t)1 << 63, 0, h, 0));
	answer("from 2^63 on", cu.cuMemMap(at + PIECE, PIECE, (size_t)1 << 63, h, 0));
	answer("where something is", cu.cuMemMap(at, PIECE, 0, h, 0));
	answer("access without end", cu.cuMemSetAccess(at, (size_t)1 << 63, &here, 1));
	answer("access to nothing", cu.cuMemSetAccess(at, 0, &here, 1));
	answer("access beyond it", cu.cuMemSetAccess(at, 2 * PIECE, &here, 1));
	answer("a half is unmapped", cu.cuMemUnmap(at, PIECE / 2));
	answer("its middle is unmapped", cu.cuMemUnmap(at + 2 * MIB, 2 * MIB));
	answer("nothing is unmapped", cu.cuMemUnmap(at, 0));
	answer("2^63 are unmapped", cu.cuMemUnmap(at, (size_t)1 << 63));
	answer("freed as a block", cu.cuMemFree_v2(at));
}

static void do_oddmaps(struct job *j, int n)
{
	const size_t sizes[] = {0, 4096, (size_t)1 << 63, SIZE_MAX, 0 - 2 * MIB};
	struct cu_chunk_prop prop = {
		CU_CHUNK_PINNED, 0, {CU_LOCATION_DEVICE, 0}, NULL, 0, 0, 0, {0}};
	CUdeviceptr at;
	cu_chunk h, none;
	int fd;

	(void)j, (void)n;
	for (unsigned i = 0; i < FM_ARRAY_LEN(sizes); i++) {
		answer("so many addresses", cu.cuMemAddressReserve(&at, sizes[i], 0, 0, 0));
		answer("so much memory", cu.cuMemCreate(&h, sizes[i], &prop, 0));
	}
	answer("no place", cu.cuMemCreate(NULL, PIECE, &prop, 0));
	answer("of no kind", cu.cuMemCreate(&h, PIECE, NULL, 0));
	prop.location.id = 99;
	answer("on no device", cu.cuMemCreate(&h, PIECE, &prop, 0));
	prop.location.id = 0;
	CU(cuMemAddressReserve(&at, 2 * PIECE, 0, 0, 0));
	CU(cuMemCreate(&h, PIECE, &prop, 0));
	CU(cuMemMap(at, PIECE, 0, h, 0));
	CU(cuMemSetAccess(at, PIECE, &here, 1));
	odd_mappings(at, h);
	answer("not made to be passed on",
		cu.cuMemExportToShareableHandle(&fd, h, CU_HANDLE_FD, 0));
	CU(cuMemRelease(h)); /* its mapping keeps it */
	CU(cuMemsetD8_v2(at, 7, PIECE));
	CU(cuCtxSynchronize());
	CU(cuMemUnmap(at, PIECE));
	answer("released twice", cu.cuMemRelease(h));
	answer("mapped when it is gone", cu.cuMemMap(at, PIECE, 0, h, 0));
	answer("unmapped twice", cu.cuMemUnmap(at, PIECE));
	answer("passed on when it is gone",
		cu.cuMemExportToShareableHandle(&fd, h, CU_HANDLE_FD, 0));
	answer("nobody's", cu.cuMemImportFromShareableHandle(&none, (void *)-1, CU_HANDLE_FD));
	answer("of no memory", cu.cuMemImportFromShareableHandle(&none, NULL, CU_HANDLE_FD));
	answer("half of the addresses", cu.cuMemAddressFree(at, PIECE));
	CU(cuMemAddressFree(at, 2 * PIECE));
	answer("addresses that are gone", cu.cuMemAddressFree(at, 2 * PIECE));
}

static void do_oddpools(struct job *j, int n)
{
	const size_t sizes[] = {0, (size_t)1 << 63, SIZE_MAX};
	CUmemoryPool pool;
	CUdeviceptr at = 0;

	(void)n;
	CU(cuDeviceGetDefaultMemPool(&pool, j->c.dev));
	for (unsigned i = 0; i < FM_ARRAY_LEN(sizes); i++) {
		answer("so much", cu.cuMemAllocAsync(&at, sizes[i], j->s));
		answer("so much of it", cu.cuMemAllocFromPoolAsync(&at, sizes[i], pool, j->s));
		answer("but so much", cu.cuMemPoolTrimTo(pool, sizes[i]));
	}
	answer("no place", cu.cuMemAllocAsync(NULL, 4096, j->s));
	answer("of no pool", cu.cuMemAllocFromPoolAsync(&at, 4096, NULL, j->s));
	answer("none gives back", cu.cuMemPoolTrimTo(NULL, 0));
	CU(cuMemAllocAsync(&at, PIECE, j->s));
	answer("its middle", cu.cuMemFreeAsync(at + 2 * MIB, j->s));
	answer("its end", cu.cuMemFreeAsync(at + PIECE, j->s));
	answer("nobody's", cu.cuMemFreeAsync(77, j->s));
	CU(cuMemFreeAsync(at, j->s));
	answer("twice", cu.cuMemFreeAsync(at, j->s));
	answer("and at once", cu.cuMemFree_v2(at));
	CU(cuStreamSynchronize(j->s));
	answer("and later", cu.cuMemFreeAsync(at, j->s));
}

static void do_oddnames(struct job *j, int n)
{
	struct cu_ipc handle;
	CUdeviceptr at;

	(void)j, (void)n;
	answer("of nobody's memory", cu.cuIpcGetMemHandle(&handle, 77));
	answer("of none", cu.cuIpcGetMemHandle(&handle, 0));
	memset(&handle, 0xff, sizeof(handle));
	answer("no handle", cu.cuIpcOpenMemHandle_v2(&at, handle, 1));
	answer("never opened", cu.cuIpcCloseMemHandle(mine.at[0]));
	answer("nobody's", cu.cuIpcCloseMemHandle(77));
}

/* Nothing behind the buffer can be read. */
static void do_oddlaunch(struct job *j, int n)
{
	const size_t sizes[] = {
		(size_t)1 << 63, SIZE_MAX, (size_t)1 << 30, 40000, 3 * sizeof(uint64_t), 8, 0};
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *params = (uint64_t *)(page + 4096) - 3;
	size_t size;
	void *extra[] = {(void *)1, params, (void *)2, &size, NULL};

	(void)n;
	if (page == MAP_FAILED || mprotect(page + 4096, 4096, PROT_NONE))
		die("no page");
	params[0] = j->x;
	params[1] = 1000;
	for (unsigned i = 0; i < FM_ARRAY_LEN(sizes); i++) {
		size = sizes[i];
		answer("parameters of another size",
			cu.cuLaunchKernel(j->c.spin, 1, 1, 1, 1, 1, 1, 0, j->s, NULL, extra));
	}
	extra[2] = NULL;
	answer("of no size", cu.cuLaunchKernel(j->c.spin, 1, 1, 1, 1, 1, 1, 0, j->s, NULL, extra));
	extra[0] = (void *)9;
	answer("no such list",
		cu.cuLaunchKernel(j->c.spin, 1, 1, 1, 1, 1, 1, 0, j->s, NULL, extra));
	size = 2 * sizeof(uint64_t);
	memcpy(extra, (void *[]){(void *)1, params, (void *)2, &size}, 4 * sizeof(*extra));
	answer("of its own", cu.cuLaunchKernel(j->c.spin, 1, 1, 1, 1, 1, 1, 0, j->s, NULL, extra));
	answer("both", cu.cuLaunchKernel(j->c.spin, 1, 1, 1, 1, 1, 1, 0, j->s,
			       (void *[]){&params[0], &params[1]}, extra));
	CU(cuStreamSynchronize(j->s));
	munmap(page, 8192);
}

static void do_oddadvice(struct job *j, int n)
{
	const struct cu_location there = {CU_LOCATION_DEVICE, j->c.dev};

	answer("advice", cu.cuMemAdvise(mine.at[n], mine.size[n], 3, j->c.dev));
	answer("by location", cu.cuMemAdvise_v2(mine.at[n], mine.size[n], 3, there));
	answer("prefetched", cu.cuMemPrefetchAsync(mine.at[n], mine.size[n], j->c.dev, j->s));
	answer("so, too", cu.cuMemPrefetchAsync_v2(mine.at[n], mine.size[n], there, 0, j->s));
	answer("to the host", cu.cuMemPrefetchAsync(mine.at[n], mine.size[n], -1, j->s));
	answer("nothing", cu.cuMemAdvise(mine.at[n], 0, 3, j->c.dev));
	answer("2^63", cu.cuMemPrefetchAsync(mine.at[n], (size_t)1 << 63, j->c.dev, j->s));
	CU(cuStreamSynchronize(j->s));
}

static size_t next(const struct job *j, size_t at, size_t size)
{
	(void)j;
	return at + SAMPLE * 4 == size ? size : FM_MIN(at + MIB / 2, size - SAMPLE * 4);
}

static void pattern(uint32_t *words, int block, size_t at, int seed)
{
	seed_words(words, SAMPLE,
		(uint32_t)seed * 2654435761u + (uint32_t)block * 977 + (uint32_t)(at / 512));
}

/* The size of a block is at least that of a sample... */
static size_t sample_of(size_t size)
{
	return FM_MIN(size, SAMPLE * sizeof(uint32_t));
}

static void do_fill(struct job *j, int seed)
{
	uint32_t words[SAMPLE];

	for (int i = 0; i < mine.n; i++)
		for (size_t at = 0; at < mine.size[i];
			at = mine.size[i] < SAMPLE * 4 ? mine.size[i] : next(j, at, mine.size[i])) {
			pattern(words, i, at, seed);
			CU(cuMemcpyHtoDAsync_v2(
				mine.at[i] + at, words, sample_of(mine.size[i]), j->s));
			CU(cuStreamSynchronize(j->s));
		}
}

static void do_check(struct job *j, int seed)
{
	uint32_t words[SAMPLE], is[SAMPLE];

	for (int i = 0; i < mine.n; i++)
		for (size_t at = 0; at < mine.size[i];
			at = mine.size[i] < SAMPLE * 4 ? mine.size[i] : next(j, at, mine.size[i])) {
			pattern(words, i, at, seed);
			CU(cuMemcpyDtoHAsync_v2(
				is, mine.at[i] + at, sample_of(mine.size[i]), j->s));
			CU(cuStreamSynchronize(j->s));
			if (memcmp(words, is, sample_of(mine.size[i])))
				die("block %d differs at %zu", i, at);
		}
}

static void do_ask(struct job *j, int n)
{
	int which[] = {CU_POINTER_TYPE, CU_POINTER_HOST, CU_POINTER_SIZE};
	void *host = &host;
	unsigned type, types;
	size_t size, sizes;
	CUdeviceptr base;
	CUcontext ctx;
	int ordinal;

	(void)n;
	for (int i = 0; i < mine.n; i++) {
		CUdeviceptr p = mine.at[i] + mine.size[i] / 2;

		CU(cuPointerGetAttribute(&type, CU_POINTER_TYPE, p));
		CU(cuPointerGetAttribute(&ctx, CU_POINTER_CONTEXT, p));
		CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ORDINAL, p));
		CU(cuPointerGetAttribute(&base, CU_POINTER_START, p));
		CU(cuPointerGetAttribute(&size, CU_POINTER_SIZE, p));
		if (type != CU_MEMORY_DEVICE || ctx != j->c.ctx || ordinal != 0 ||
			base != mine.at[i] || size != mine.size[i])
			die("block %d is said to be something else", i);
		CU(cuPointerGetAttributes(3, which, (void *[]){&types, &host, &sizes}, mine.at[i]));
		if (types != CU_MEMORY_DEVICE || host || sizes != mine.size[i])
			die("block %d is said to be something else, all at once", i);
		CU(cuMemGetAddressRange_v2(&base, &size, p));
		if (base != mine.at[i] || size != mine.size[i])
			die("block %d is said to be elsewhere", i);
	}
}

static void do_hang(struct job *j, int ms)
{
	spin(&j->c, j->s, j->x, (uint64_t)ms * 1000000);
	puts("hangs");
}

static uint32_t pageable[LARGE / 4];

static void copy_down(struct job *j, bool two)
{
	const struct cu_copy_2d flat = {.src_type = CU_MEMORY_DEVICE,
		.src_device = mine.at[0],
		.src_pitch = 512,
		.dst_type = CU_MEMORY_HOST,
		.dst_host = pageable,
		.dst_pitch = 512,
		.width = 512,
		.height = 8};
	const struct cu_copy_3d box = {
		.src = {.type = CU_MEMORY_DEVICE, .device = mine.at[0], .pitch = 512, .height = 8},
		.dst = {.type = CU_MEMORY_HOST, .host = pageable, .pitch = 512, .height = 8},
		.width = 512,
		.height = 8,
		.depth = 1};
	uint32_t want[SAMPLE];

	if (two)
		CU(cuMemcpy2DAsync_v2(&flat, j->s));
	else
		CU(cuMemcpy3DAsync_v2(&box, j->s));
	pattern(want, 0, 0, 1);
	if (memcmp(pageable, want, 512 * 8))
		die("the copy had not ended");
}

static void copy_up(struct job *j, bool batch)
{
	struct cu_copy_attributes attrs = {.order = 1};
	CUdeviceptr from = (uintptr_t)pageable;
	size_t size = 512, at = 0;

	pattern(pageable, 0, 0, 1);
	if (batch)
		CU(cuMemcpyBatchAsync_v2(&mine.at[0], &from, &size, 1, &attrs, &at, 1, j->s));
	else
		CU(cuMemcpyHtoDAsync_v2(mine.at[0], pageable, LARGE, j->s));
}

static void do_waits(struct job *j, int kind)
{
	memset(pageable, 0, sizeof(pageable));
	for (int i = 0; i < 20; i++)
		spin(&j->c, j->s, j->x, 20000000);
	puts("launched");
	if (kind < 2)
		copy_down(j, kind == 0);
	else
		copy_up(j, kind == 2);
}

/* The driver loads its code then, and waits for what is in front. */
static void do_first(struct job *j, int n)
{
	uint64_t ns = 1000;
	CUmodule module;
	CUfunction f;

	(void)n;
	CU(cuModuleLoadData(&module, cuda_ptx));
	CU(cuModuleGetFunction(&f, module, "spin"));
	for (int i = 0; i < 20; i++)
		spin(&j->c, j->s, j->x, 20000000);
	puts("launched");
	launch(f, 1, 1, j->s, (void *[]){&j->x, &ns});
	CU(cuStreamSynchronize(j->s));
	CU(cuModuleUnload(module));
}

/* The driver makes room for the stacks of all threads anew, when nobody uses it. */
static void do_stack(struct job *j, int n)
{
	static size_t bytes = 1024;

	(void)n;
	for (int i = 0; i < 20; i++)
		spin(&j->c, j->s, j->x, 20000000);
	puts("launched");
	CU(cuCtxSetLimit(0, bytes += 1024));
	CU(cuStreamSynchronize(j->s));
}

static void do_words(struct job *j, int n)
{
	(void)n;
	CU(cuStreamWriteValue32_v2(j->s, mine.at[0], 5, 0));
	CU(cuStreamWaitValue32_v2(j->s, mine.at[0], 5, CU_WAIT_EQ));
}

static void do_retain(struct job *j, int which)
{
	cu_chunk handle;

	(void)j;
	CU(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)mine.at[which]));
	CU(cuMemRelease(handle));
}

static void do_give(struct job *j, int n)
{
	struct cu_ipc handle, again;
	FILE *f;

	(void)j;
	if (cu.cuIpcGetMemHandle(&handle, mine.at[n])) {
		puts("refused");
		return;
	}
	CU(cuIpcGetMemHandle(&again, mine.at[n]));
	if (memcmp(&handle, &again, sizeof(handle)))
		die("it is another handle the second time");
	f = handle_file("w");
	if (fwrite(&handle, sizeof(handle), 1, f) != 1)
		die("a handle cannot be written");
	fclose(f);
}

static fm_cu_result open_handle(CUdeviceptr *at)
{
	struct cu_ipc handle;
	FILE *f = handle_file("r");

	if (fread(&handle, sizeof(handle), 1, f) != 1)
		die("a handle cannot be read");
	fclose(f);
	return cu.cuIpcOpenMemHandle_v2(at, handle, 1);
}

static void do_take(struct job *j, int mib)
{
	size_t size = mib ? (size_t)mib * MIB : 4096, said;
	CUdeviceptr at, again, base;

	(void)j;
	if (open_handle(&at)) {
		puts("refused");
		return;
	}
	CU(cuMemGetAddressRange_v2(&base, &said, at + size / 2));
	if (base != at || said != size)
		die("it is said to be elsewhere, or %zu bytes", said);
	if (open_handle(&again) || again != at)
		die("it is elsewhere the second time");
	CU(cuIpcCloseMemHandle(again));
	keep(FM_CU_SUCCESS, at, size);
}

static void do_drop(struct job *j, int n)
{
	(void)j;
	CU(cuIpcCloseMemHandle(mine.at[n]));
	if (!cu.cuIpcCloseMemHandle(mine.at[n]))
		die("it was closed twice");
	mine.at[n] = mine.at[--mine.n];
	mine.size[n] = mine.size[mine.n];
}

static void do_own(struct job *j, int n)
{
	CUdeviceptr at;

	(void)j, (void)n;
	if (!open_handle(&at))
		die("a process has opened its own memory");
}

/* As programs that become daemons close what they do not know. */
static void do_deaf(struct job *j, int n)
{
	struct sockaddr_un a;
	int closed = 0;

	(void)j, (void)n;
	for (int fd = 3; fd < 1024; fd++) {
		socklen_t size = sizeof(a);

		if (getsockname(fd, (struct sockaddr *)&a, &size) || a.sun_family != AF_UNIX ||
			strncmp(a.sun_path + 1, "fermata-ipc-", 12) != 0)
			continue;
		close(fd);
		closed++;
	}
	if (!closed)
		die("nobody listens");
}

/* One that nobody knows, one that cuBLAS asks for, one that the driver does not have. */
static void do_table(struct job *j, int which)
{
	static const char *const ids[] = {"nobody knows it.",
		"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2",
		"it is not there."};
	int (*get)(const void **, const void *) = dlsym(driver_handle(), "cuGetExportTable");
	const void *table;

	(void)j;
	if (!get)
		die("there are no tables");
	if (!get(&table, ids[which]) == (which == 2))
		die("the wrong tables are there");
}

/* Of a driver to come. */
static void do_newer(struct job *j, int n)
{
	void *fn = NULL;

	(void)j, (void)n;
	if (cu.cuGetProcAddress_v2("cuMemsetD8Async", &fn, 99000, 0, &(int){0}) || !fn)
		die("there is no newer function");
}

static void do_spin(struct job *j, int n)
{
	for (int i = 0; i < n; i++)
		spin(&j->c, j->s, j->x, 20000);
}

static void do_nodes(struct job *j, int byte)
{
	const struct cu_fill_node fill = {.dst = mine.at[0],
		.value = (unsigned)byte,
		.width = 1,
		.n = mine.size[0],
		.height = 1};
	uint8_t is[64], want[64];
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, j->c.ctx));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuMemcpyDtoH_v2(is, mine.at[0] + mine.size[0] - sizeof(is), sizeof(is)));
	memset(want, byte, sizeof(want));
	if (memcmp(is, want, sizeof(is)))
		die("a graph did not fill the block");
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

/* Between blocks and pageable memory, and within a block, all in one batch. */
static void do_batch(struct job *j, int seed)
{
	static uint32_t words[BLOCKS][64], is[BLOCKS][64];
	struct cu_copy_attributes attrs[2] = {{.order = 1}, {.order = 1}};
	CUdeviceptr dst[2 * BLOCKS], src[2 * BLOCKS];
	size_t size[2 * BLOCKS], at[2] = {0, 1}, failed;

	for (int way = 0; way < 2; way++) {
		for (int i = 0; i < mine.n; i++) {
			seed_words(words[i], 64, (uint32_t)(seed + i));
			dst[2 * i] = way ? (uintptr_t)is[i] : mine.at[i];
			src[2 * i] = way ? mine.at[i] : (uintptr_t)words[i];
			dst[2 * i + 1] = mine.at[i] + 2048;
			src[2 * i + 1] = mine.at[i] + 1024;
			size[2 * i] = size[2 * i + 1] = sizeof(words[i]);
		}
		if (cu.cuMemcpyBatchAsync_v2 && !way)
			CU(cuMemcpyBatchAsync_v2(
				dst, src, size, 2 * (size_t)mine.n, attrs, at, 2, j->s));
		else if (cu.cuMemcpyBatchAsync)
			CU(cuMemcpyBatchAsync(
				dst, src, size, 2 * (size_t)mine.n, attrs, at, 2, &failed, j->s));
		CU(cuStreamSynchronize(j->s));
	}
	if (memcmp(words, is, sizeof(words[0]) * (size_t)mine.n))
		die("a batch did not copy");
}

static struct {
	CUgraph graph[2];
	CUgraphExec exec;
	int byte;
} kept;

static void do_graphs(struct job *j, int byte)
{
	struct cu_fill_node fill = {.dst = mine.at[0], .width = 1, .n = mine.size[0], .height = 1};
	CUgraphNode node;

	kept.byte = byte;
	for (int i = 0; i < 2; i++) {
		fill.value = (unsigned)(byte + i);
		CU(cuGraphCreate(&kept.graph[i], 0));
		CU(cuGraphAddMemsetNode(&node, kept.graph[i], NULL, 0, &fill, j->c.ctx));
	}
	CU(cuGraphInstantiateWithFlags(&kept.exec, kept.graph[0], 0));
}

static void do_relaunch(struct job *j, int n)
{
	unsigned char is;

	CU(cuMemsetD8Async(mine.at[0], 0, 1, j->s));
	CU(cuGraphLaunch(kept.exec, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuMemcpyDtoH_v2(&is, mine.at[0], 1));
	if (is != kept.byte + n)
		die("the graph is not what it was");
}

static void do_update(struct job *j, int n)
{
	struct cu_update result;
	unsigned char is;

	(void)n;
	CU(cuGraphExecUpdate_v2(kept.exec, kept.graph[1], &result));
	CU(cuGraphLaunch(kept.exec, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuMemcpyDtoH_v2(&is, mine.at[0], 1));
	if (is != kept.byte + 1)
		die("the graph is not what it was updated to");
}

static void do_wordnode(struct job *j, int n)
{
	union fm_cu_mem_op op = {
		.op = {.operation = FM_CU_OP_WRITE_VALUE_32, .address = mine.at[0], .value = 5}};
	const struct cu_words_node what = {.ctx = j->c.ctx, .n = 1, .op = &op};
	CUgraphNode node;
	CUgraph graph;

	(void)n;
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &what));
	CU(cuGraphDestroy(graph));
}

static struct {
	struct job *j;
	int seed;
} late;

static void at_exit(void)
{
	if (!late.j)
		return;
	do_check(late.j, late.seed);
	puts("later");
}

static void do_late(struct job *j, int seed)
{
	late.j = j;
	late.seed = seed;
}

static void do_end(struct job *j, int n)
{
	(void)n;
	conform_close(&j->c);
	memset(&mine, 0, sizeof(mine));
	memset(j, 0, sizeof(*j));
	conform_open(&j->c);
	begin(j);
}

static void do_renew(struct job *j, int n)
{
	(void)n;
	conform_close(&j->c);
	memset(j, 0, sizeof(*j));
	conform_open(&j->c);
	begin(j);
}

/* Within the driver, in front of the end of a context. */
static void in_the_end(void)
{
	char word[32];

	puts("leaves");
	if (scanf("%31s", word) != 1)
		die("no line");
}

static void do_leave(struct job *j, int mib)
{
	fake_cuda_at_fn *at;
	CUdeviceptr block;
	CUcontext ctx;

	*(void **)&at = dlsym(driver_handle(), "fake_cuda_at");
	conform_close(&j->c);
	CU(cuCtxCreate_v2(&ctx, 0, j->c.dev));
	CU(cuMemAlloc_v2(&block, (size_t)mib * MIB));
	CU(cuMemsetD8_v2(block, 7, (size_t)mib * MIB));
	CU(cuCtxSynchronize());
	if (at)
		at("cuCtxDestroy", in_the_end);
	CU(cuCtxDestroy_v2(ctx));
	memset(&mine, 0, sizeof(mine));
	memset(j, 0, sizeof(*j));
	conform_open(&j->c);
	begin(j);
}

static struct {
	struct conform c;
	CUstream s;
	void *x; /* of the host */
} near;

static void do_near(struct job *j, int device)
{
	conform_open_on(&near.c, device);
	CU(cuMemHostAlloc(&near.x, 4096, 0));
	near.s = new_stream(CU_STREAM_NON_BLOCKING);
	spin(&near.c, near.s, (CUdeviceptr)(uintptr_t)near.x, 1000);
	CU(cuStreamSynchronize(near.s));
	CU(cuCtxSetCurrent(j->c.ctx));
}

static void do_enable(struct job *j, int n)
{
	(void)n;
	CU(cuCtxSetCurrent(near.c.ctx));
	CU(cuCtxEnablePeerAccess(j->c.ctx, 0));
	CU(cuCtxSetCurrent(j->c.ctx));
}

static void do_grant(struct job *j, int n)
{
	const struct cu_access both = {{CU_LOCATION_DEVICE, near.c.dev}, CU_ACCESS_BOTH};

	(void)j;
	CU(cuMemSetAccess(mine.at[n], mine.size[n], &both, 1));
}

static void do_poolaccess(struct job *j, int n)
{
	const struct cu_access both = {{CU_LOCATION_DEVICE, near.c.dev}, CU_ACCESS_BOTH};
	struct cu_location there = both.location;
	CUmemoryPool pool;
	int flags = 0;

	(void)n;
	CU(cuDeviceGetDefaultMemPool(&pool, j->c.dev));
	CU(cuMemPoolSetAccess(pool, &both, 1));
	CU(cuMemPoolGetAccess(&flags, pool, &there));
	if (flags != CU_ACCESS_BOTH)
		die("the pool is not reached");
}

static void do_reach(struct job *j, int n)
{
	static uint32_t before[SAMPLE], is[SAMPLE];

	CU(cuMemcpyDtoH_v2(before, mine.at[n], sizeof(before)));
	CU(cuCtxSetCurrent(near.c.ctx));
	mix(&near.c, near.s, mine.at[n], 1);
	CU(cuStreamSynchronize(near.s));
	CU(cuCtxSetCurrent(j->c.ctx));
	CU(cuMemcpyDtoH_v2(is, mine.at[n], sizeof(is)));
	if (!memcmp(is, before, sizeof(is)))
		die("the other device did not reach block %d", n);
	CU(cuMemcpyHtoD_v2(mine.at[n], before, sizeof(before)));
}

static void do_peers(struct job *j, int n)
{
	CUdeviceptr there[2];

	(void)n;
	CU(cuCtxSetCurrent(near.c.ctx));
	for (int i = 0; i < 2; i++)
		CU(cuMemAlloc_v2(&there[i], mine.size[0]));
	CU(cuMemcpyPeer(there[0], near.c.ctx, mine.at[0], j->c.ctx, mine.size[0]));
	CU(cuCtxSynchronize());
	CU(cuMemcpyPeerAsync(there[1], near.c.ctx, there[0], near.c.ctx, mine.size[0], near.s));
	CU(cuStreamSynchronize(near.s));
	CU(cuCtxSetCurrent(j->c.ctx));
	CU(cuMemsetD8_v2(mine.at[0], 0, mine.size[0]));
	CU(cuMemcpyPeer(mine.at[0], j->c.ctx, there[1], near.c.ctx, mine.size[0]));
	CU(cuCtxSynchronize());
	CU(cuCtxSetCurrent(near.c.ctx));
	for (int i = 0; i < 2; i++)
		CU(cuMemFree_v2(there[i]));
	CU(cuCtxSetCurrent(j->c.ctx));
}

static void do_other(struct job *j, int ms)
{
	CUdeviceptr block;

	CU(cuCtxSetCurrent(near.c.ctx));
	spin(&near.c, near.s, (CUdeviceptr)(uintptr_t)near.x, (uint64_t)ms * 1000000);
	puts("launched");
	CU(cuMemAlloc_v2(&block, 4 * MIB));
	puts("allocated");
	CU(cuMemFree_v2(block));
	CU(cuCtxSetCurrent(j->c.ctx));
}

static struct {
	fake_cuda_at_fn *at;
	sem_t come;
	_Atomic bool launched, inside;
} wait;

static void in_the_lock(void)
{
	atomic_store(&wait.inside, true);
}

/* Within the driver, which will wait for the device, in a thread of the shim's. It gives this
 * program time to launch something there. */
static void in_the_wait(void)
{
	sem_post(&wait.come);
	for (int i = 0; i < 300 && !atomic_load(&wait.launched); i++)
		usleep(1000);
	wait.at("the wait for the device", in_the_lock);
}

static void do_beside(struct job *j, int ms)
{
	CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
	uint32_t word = 3;

	sem_init(&wait.come, 0, 0);
	*(void **)&wait.at = dlsym(driver_handle(), "fake_cuda_at");
	wait.at("cuMemHostUnregister", in_the_wait);
	while (sem_wait(&wait.come))
		;
	spin(&j->c, j->s, j->x, (uint64_t)ms * 1000000);
	atomic_store(&wait.launched, true);
	puts("launched");
	while (!atomic_load(&wait.inside))
		usleep(1000);
	CU(cuMemcpyHtoDAsync_v2(j->arrived, &word, sizeof(word), other));
	puts("copied");
}

static void do_engine(struct job *j, int look)
{
	void *engine = dlopen(getenv("ENGINE"), RTLD_NOW | RTLD_LOCAL);

	(void)j;
	if (!engine)
		die("%s", dlerror());
	if (look && dlsym(engine, "NvEncodeAPICreateInstance"))
		die("it is there");
}

struct ibv_mr {
	void *context, *pd, *addr;
	size_t length;
};
struct gdr_mh {
	unsigned long h;
};

static struct ibv_mr *mr[BLOCKS];
static struct gdr_mh window[BLOCKS];

static void *card(const char *name, const char *version)
{
	void *h = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL), *fn;

	fn = h ? dlvsym(h, name, version) : NULL;
	if (!fn)
		die("%s", dlerror());
	if (dlvsym(h, name, "IBVERBS_9"))
		die("%s is of any version", name);
	return fn;
}

static void do_card(struct job *j, int n)
{
	struct ibv_mr *(*reg)(void *, void *, size_t, int) = card("ibv_reg_mr", "IBVERBS_1.1");
	int (*again)(struct ibv_mr *, int, void *, void *, size_t, int) =
		card("ibv_rereg_mr", "IBVERBS_1.1");

	(void)j;
	if (n < 0) {
		if (again(mr[0], 1, NULL, (void *)(uintptr_t)mine.at[1], 2 * MIB, 7))
			puts("refused");
		return;
	}
	mr[n] = reg(NULL, (void *)(uintptr_t)mine.at[n], mine.size[n], 7);
	if (!mr[n])
		puts("refused");
	else if (mr[n]->addr != (void *)(uintptr_t)mine.at[n] || mr[n]->length != mine.size[n])
		die("something else is registered");
}

static void do_nocard(struct job *j, int n)
{
	int (*dereg)(struct ibv_mr *) = card("ibv_dereg_mr", "IBVERBS_1.1");

	(void)j;
	if (dereg(mr[n]))
		die("it stays registered");
}

static void do_window(struct job *j, int n)
{
	void *h = dlopen("libgdrapi.so.2", RTLD_NOW | RTLD_GLOBAL);
	int (*pin)(void *, unsigned long, size_t, uint64_t, uint32_t, struct gdr_mh *) = NULL;

	(void)j;
	*(void **)&pin = h ? dlsym(RTLD_DEFAULT, "gdr_pin_buffer") : NULL;
	if (!pin)
		die("%s", dlerror());
	if (dlsym(RTLD_DEFAULT, "gdr_pin_buffer_v2"))
		die("there is a function that the library does not have");
	if (pin(NULL, mine.at[n], mine.size[n], 0, 0, &window[n]))
		puts("refused");
}

static void do_nowindow(struct job *j, int n)
{
	int (*unpin)(void *, struct gdr_mh) = NULL, (*end)(void *) = NULL;

	*(void **)&end = dlsym(RTLD_DEFAULT, "gdr_close");
	(void)j;
	*(void **)&unpin = dlsym(RTLD_DEFAULT, "gdr_unpin_buffer");
	if (n < 0 ? end(NULL) : unpin(NULL, window[n]))
		die("it stays");
}

static void do_lose(struct job *j, int error)
{
	fake_cuda_lose_fn *lose;
	char line[32];
	uint32_t word;

	*(void **)&lose = dlsym(driver_handle(), "fake_cuda_lose");
	if (!lose)
		die("only the fake driver can be told to");
	if (error)
		lose(error);
	printf("says %d\n", cu.cuMemcpyDtoH_v2(&word, mine.at[0], sizeof(word)));
	if (scanf("%31s", line) == 1)
		cu.cuDevicePrimaryCtxReset_v2(j->c.dev);
	puts("reset");
	while (getchar() != EOF)
		;
	exit(0);
}

struct racing {
	struct job *j;
	int n;
};

static void *free_at_once(void *racing)
{
	struct racing *r = racing;

	CU(cuCtxSetCurrent(r->j->c.ctx));
	for (int i = 0; i < r->n; i++) {
		CUdeviceptr block;

		CU(cuMemAlloc_v2(&block, 2 * MIB));
		CU(cuMemFree_v2(block));
	}
	return NULL;
}

static void do_race(struct job *j, int n)
{
	struct racing r = {j, n};
	pthread_t thread;

	if (pthread_create(&thread, NULL, free_at_once, &r))
		die("no thread");
	for (int i = 0; i < n; i++) {
		CUdeviceptr block;

		CU(cuMemAlloc_v2(&block, 2 * MIB));
		spin(&j->c, j->s, block, 200000);
		CU(cuMemFreeAsync(block, j->s));
	}
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"alloc", do_alloc},
		{"pitch", do_pitch},
		{"vmm", do_vmm},
		{"pool", do_pool},
		{"ownpool", do_ownpool},
		{"handpool", do_handpool},
		{"graphmem", do_graphmem},
		{"captured", do_captured},
		{"unified", do_unified},
		{"global", do_global},
		{"packed", do_packed},
		{"array", do_array},
		{"mipmap", do_mipmap},
		{"again", do_again},
		{"pass", do_pass},
		{"export", do_export},
		{"import", do_import},
		{"trim", do_trim},
		{"trimown", do_trimown},
		{"endpool", do_endpool},
		{"free", do_free},
		{"odd", do_odd},
		{"fill", do_fill},
		{"check", do_check},
		{"ask", do_ask},
		{"hang", do_hang},
		{"waits", do_waits},
		{"first", do_first},
		{"stack", do_stack},
		{"words", do_words},
		{"retain", do_retain},
		{"give", do_give},
		{"take", do_take},
		{"drop", do_drop},
		{"own", do_own},
		{"deaf", do_deaf},
		{"oddmaps", do_oddmaps},
		{"oddpools", do_oddpools},
		{"oddnames", do_oddnames},
		{"oddlaunch", do_oddlaunch},
		{"oddadvice", do_oddadvice},
		{"table", do_table},
		{"newer", do_newer},
		{"spin", do_spin},
		{"nodes", do_nodes},
		{"batch", do_batch},
		{"graphs", do_graphs},
		{"relaunch", do_relaunch},
		{"update", do_update},
		{"wordnode", do_wordnode},
		{"late", do_late},
		{"end", do_end},
		{"renew", do_renew},
		{"leave", do_leave},
		{"near", do_near},
		{"enable", do_enable},
		{"poolaccess", do_poolaccess},
		{"grant", do_grant},
		{"reach", do_reach},
		{"peers", do_peers},
		{"other", do_other},
		{"beside", do_beside},
		{"engine", do_engine},
		{"card", do_card},
		{"nocard", do_nocard},
		{"window", do_window},
		{"nowindow", do_nowindow},
		{"lose", do_lose},
		{"race", do_race},
		{0},
	};

	atexit(at_exit); /* in front of what drivers register: it runs behind that */
	return job_main(argc, argv, commands);
}
