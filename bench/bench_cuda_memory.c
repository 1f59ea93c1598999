/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: bench_cuda_memory MIB BLOCK [USED]   (script/memory-bench runs it)
 * Takes so many MiB of the device in blocks of BLOCK MiB, fills them, says "ready"; then answers
 * lines: "check" with "right" or "wrong N" (of all words), "busy" with "busy" (it reads all of its
 * memory again and again), "idle" with "idle N" (GiB that it has read). "decode FROM TO" (ns of the
 * monotonic clock) with "decode TOKENS WAIT": a token reads all of its memory once, and is waited
 * for, as a decoder does with its weights; WAIT ms was the longest time from one to the next. With
 * USED it reads only so many percent of its memory, by kernels of a sixteenth of a block at most.
 * After "part FROM TO", answered with "part", it reads from so many percent of it to so many.
 */
#include "cuda_driver.h"
#include <stdatomic.h>
#include <stdbool.h>

#define MORE(X)                                                             \
	X(cuMemHostAlloc, (void **, size_t, unsigned))                      \
	X(cuMemsetD32Async, (unsigned long long, unsigned, size_t, stream)) \
	X(cuMemcpyDtoHAsync_v2, (void *, unsigned long long, size_t, stream))

static struct {
	MORE(MEMBER)
} more;

static const char read_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry read_all(.param .u64 p, .param .u64 n)\n{\n"
	".reg .u64 %rd<6>;\n.reg .u32 %r<11>;\n.reg .pred %p;\n"
	"ld.param.u64 %rd0, [p];\nld.param.u64 %rd1, [n];\n"
	"mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"
	"mad.lo.u32 %r3, %r0, %r1, %r2;\ncvt.u64.u32 %rd2, %r3;\n"
	"mov.u32 %r4, %nctaid.x;\nmul.lo.u32 %r4, %r4, %r1;\ncvt.u64.u32 %rd3, %r4;\n"
	"mov.u32 %r9, 0;\n"
	"again: setp.ge.u64 %p, %rd2, %rd1;\n@%p bra done;\n"
	"shl.b64 %rd4, %rd2, 4;\nadd.u64 %rd5, %rd0, %rd4;\n"
	"ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd5];\n"
	"xor.b32 %r9, %r9, %r5;\nxor.b32 %r9, %r9, %r8;\n"
	"add.u64 %rd2, %rd2, %rd3;\nbra again;\n"
	"done: setp.eq.u32 %p, %r9, 305419897;\n@%p st.global.u32 [%rd0], %r9;\nret;\n}\n";

enum { PARTS_MOST = 4096, PART_MOST = 512 };
static struct {
	unsigned long long at[PARTS_MOST]; /* of blocks: a kernel reads one */
	int n, first, used;
	size_t part;
	void *kernel_read; /* NULL: this driver has no kernel of that name; it spins */
	stream s;
	uint32_t *seen; /* of the host */
} w;

static uint32_t word_of(int i)
{
	return 0x9e3779b9u * (uint32_t)(i + 1);
}

/* False: this driver cannot run such a kernel. */
static bool read_part(int i)
{
	uint64_t n = w.part / 16;
	void *params[] = {&w.at[i], &n};

	if (w.kernel_read)
		return !cu.cuLaunchKernel(
			w.kernel_read, 1056, 1, 1, 256, 1, 1, 0, w.s, params, NULL);
	spin(w.s, 20000, 1);
	return true;
}

static void find_more(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *module;

#define FIND_MORE(name, params)                   \
	*(void **)&more.name = dlsym(lib, #name); \
	if (!more.name)                           \
		die("the driver lacks " #name, 0);
	MORE(FIND_MORE)
	if (!cu.cuModuleLoadData(&module, read_ptx) &&
		cu.cuModuleGetFunction(&w.kernel_read, module, "read_all"))
		w.kernel_read = NULL;
	CU(cuStreamCreate(&w.s, 1));
}

/* MiB: a whole number of them is a block. */
static size_t part_of(size_t block, size_t most)
{
	size_t part = block < most ? block : most;

	part = part ? part : 1;
	while (block % part)
		part--;
	return part;
}

static void take(size_t mib, size_t block, size_t part)
{
	unsigned long long at;

	w.part = part << 20;
	if (more.cuMemHostAlloc((void **)&w.seen, w.part, 0))
		die("no memory of the host", 0);
	for (size_t had = 0; had < mib && w.n < PARTS_MOST; had += block) {
		CU(cuMemAlloc_v2(&at, block << 20));
		for (size_t k = 0; k < block / part && w.n < PARTS_MOST; k++, w.n++) {
			w.at[w.n] = at + k * w.part;
			if (more.cuMemsetD32Async(w.at[w.n], word_of(w.n), w.part / 4, w.s))
				die("a fill failed", 0);
		}
	}
	if (!read_part(0))
		w.kernel_read = NULL;
	CU(cuStreamSynchronize(w.s));
}

static long wrong_words(void)
{
	long wrong = 0;

	for (int i = 0; i < w.n; i++) {
		if (more.cuMemcpyDtoHAsync_v2(w.seen, w.at[i], w.part, w.s))
			die("a copy failed", 0);
		CU(cuStreamSynchronize(w.s));
		for (size_t k = 0; k < w.part / 4; k++)
			wrong += w.seen[k] != word_of(i);
	}
	return wrong;
}

static struct {
	_Atomic bool on;
	pthread_t thread;
	double gib;
} busy;

static void *read_on(void *arg)
{
	event ends[4];

	(void)arg;
	for (int i = 0; i < 4; i++)
		CU(cuEventCreate(&ends[i], 2));
	busy.gib = 0;
	for (uint64_t k = 0; atomic_load(&busy.on); k++) {
		if (k >= 4) {
			CU(cuEventSynchronize(ends[k & 3]));
			busy.gib += (double)w.part / (1 << 30);
		}
		if (!read_part(w.first + (int)(k % (uint64_t)w.used)))
			die("a launch failed", 0);
		CU(cuEventRecord(ends[k & 3], w.s));
	}
	CU(cuStreamSynchronize(w.s));
	return NULL;
}

static void *current;

static void *read_thread(void *arg)
{
	CU(cuCtxSetCurrent(current));
	return read_on(arg);
}

static void decode(uint64_t from, uint64_t to)
{
	uint64_t tokens = 0, longest = 0, last = from, now;

	while ((now = now_ns()) < from)
		usleep(200);
	for (; now < to; last = now) {
		for (int i = 0; i < w.used; i++)
			if (!read_part(w.first + i))
				die("a launch failed", 0);
		CU(cuStreamSynchronize(w.s));
		now = now_ns();
		longest = now - last > longest ? now - last : longest;
		tokens += now < to;
	}
	printf("decode %" PRIu64 " %.1f\n", tokens, (double)longest / 1e6);
}

static bool read_from(unsigned from, unsigned to)
{
	int first = w.n * (int)from / 100;

	if (from >= to || to > 100 || w.n * (int)to / 100 == first)
		return false;
	w.first = first;
	w.used = w.n * (int)to / 100 - first;
	return true;
}

static void answer(const char *line)
{
	unsigned first, last;
	uint64_t from, to;
	long wrong;

	if (!strncmp(line, "check", 5)) {
		wrong = wrong_words();
		if (wrong)
			printf("wrong %ld\n", wrong);
		else
			puts("right");
	} else if (!strncmp(line, "busy", 4) && !atomic_load(&busy.on)) {
		atomic_store(&busy.on, true);
		if (pthread_create(&busy.thread, NULL, read_thread, NULL))
			die("no thread", 0);
		puts("busy");
	} else if (sscanf(line, "decode %" SCNu64 " %" SCNu64, &from, &to) == 2) {
		decode(from, to);
	} else if (sscanf(line, "part %u %u", &first, &last) == 2 && !atomic_load(&busy.on) &&
		   read_from(first, last)) {
		puts("part");
	} else if (!strncmp(line, "idle", 4) && atomic_load(&busy.on)) {
		atomic_store(&busy.on, false);
		pthread_join(busy.thread, NULL);
		printf("idle %.1f\n", busy.gib);
	} else {
		puts("?");
	}
}

int main(int argc, char **argv)
{
	char line[64];
	int n[3] = {0, 0, 100};

	for (int i = 1; i < argc && i < 4; i++)
		n[i - 1] = atoi(argv[i]);
	if (argc < 3 || argc > 4 || n[0] < 1 || n[1] < 1 || n[2] < 1 || n[2] > 100) {
		fprintf(stderr, "usage: bench_cuda_memory MIB BLOCK [USED]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_device();
	CU(cuDevicePrimaryCtxRetain(&current, 0));
	find_more();
	take((size_t)n[0], (size_t)n[1],
		part_of((size_t)n[1], argc == 4 ? (size_t)n[1] / 16 : PART_MOST));
	w.used = (w.n * n[2] + 99) / 100;
	puts("ready");
	while (fgets(line, sizeof(line), stdin))
		answer(line);
	return 0;
}
