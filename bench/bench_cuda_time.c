/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program. Each kernel notes its own time on the device, for script/lib/time_bench:
 *
 *	bench_cuda_time KERNEL_US [PAUSE_US]   kernels of so much device time, some queued ahead; or
 *	                                       waits for each and pauses
 *
 * A kernel looks at the device's clock all the time. Where two looks lie far apart, the device was
 * another's meanwhile, and that does not count. It says "ready", and to each "go BEGIN END"
 * (CLOCK_MONOTONIC, ns), when all has finished, in JSON what its kernels have had, and the short
 * gaps between two of them. It ends with its input.
 */
#include "cuda_driver.h"

#define AHEAD_NS 20000000 /* about so much is queued */
#define AHEAD    200      /* or so many */

enum { NOTES = 5 };

static const char noting[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry noting(.param .u64 out, .param .u64 ns)\n{\n"
	"	.reg .u64 %out, %ns, %now, %last, %begin, %own, %d, %w;\n"
	"	.reg .u64 %lost, %one;\n"
	"	.reg .pred %p;\n"
	"	ld.param.u64 %out, [out];\n"
	"	ld.param.u64 %ns, [ns];\n"
	"	mov.u64 %begin, %globaltimer;\n"
	"	mov.u64 %last, %begin;\n"
	"	mov.u64 %own, 0;\n"
	"	mov.u64 %lost, 0;\n"
	"again:\n"
	"	mov.u64 %now, %globaltimer;\n"
	"	sub.u64 %d, %now, %last;\n"
	"	mov.u64 %last, %now;\n"
	"	setp.gt.u64 %p, %d, 5000;\n"
	"	selp.u64 %one, 1, 0, %p;\n"
	"	add.u64 %lost, %lost, %one;\n"
	"	selp.u64 %d, 0, %d, %p;\n"
	"	add.u64 %own, %own, %d;\n"
	"	setp.lt.u64 %p, %own, %ns;\n"
	"	@%p bra again;\n"
	/* [0] own, [8] kernels, [16] short gaps, [24] end of the last one, [32] times lost */
	"	ld.global.u64 %w, [%out];\n"
	"	add.u64 %w, %w, %own;\n"
	"	st.global.u64 [%out], %w;\n"
	"	ld.global.u64 %w, [%out+8];\n"
	"	add.u64 %w, %w, 1;\n"
	"	st.global.u64 [%out+8], %w;\n"
	"	ld.global.u64 %d, [%out+24];\n"
	"	sub.u64 %d, %begin, %d;\n"
	"	setp.gt.u64 %p, %d, 15000;\n"
	"	selp.u64 %d, 0, %d, %p;\n"
	"	ld.global.u64 %w, [%out+16];\n"
	"	add.u64 %w, %w, %d;\n"
	"	st.global.u64 [%out+16], %w;\n"
	"	st.global.u64 [%out+24], %last;\n"
	"	ld.global.u64 %w, [%out+32];\n"
	"	add.u64 %w, %w, %lost;\n"
	"	st.global.u64 [%out+32], %w;\n"
	"	ret;\n}\n";

static void sleep_until(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void *find(const char *name)
{
	void *at = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);

	if (!at)
		die(name, 0);
	return at;
}

static void run(stream s, const struct kernel *k, uint64_t pause_ns, uint64_t end)
{
	enum { PARTS = 4 };
	uint64_t each = AHEAD_NS / PARTS / k->ns;
	event e[PARTS];

	each = each < 1 ? 1 : each > AHEAD / PARTS ? AHEAD / PARTS : each;
	for (int i = 0; i < PARTS; i++)
		CU(cuEventCreate(&e[i], 2));
	for (unsigned i = 0; now_ns() < end; i++) {
		if (i >= PARTS)
			CU(cuEventSynchronize(e[i % PARTS]));
		for (uint64_t n = 0; n < (pause_ns ? 1 : each); n++)
			launch(s, k);
		CU(cuEventRecord(e[i % PARTS], s));
		if (!pause_ns)
			continue;
		CU(cuStreamSynchronize(s));
		spend(pause_ns);
	}
	CU(cuStreamSynchronize(s));
}

static int (*read_back)(void *, unsigned long long, size_t);

/* What its kernels have noted between the beginning and the end. */
static void answer(stream s, const struct kernel *k, uint64_t pause_ns)
{
	uint64_t begin, end, started, before[NOTES], w[NOTES];

	while (scanf(" go %" SCNu64 " %" SCNu64 "%*[^\n]", &begin, &end) == 2) {
		if (read_back(before, scratch, sizeof(before)))
			die("cuMemcpyDtoH", 0);
		sleep_until(begin);
		started = now_ns();
		run(s, k, pause_ns, end);
		end = now_ns();
		if (read_back(w, scratch, sizeof(w)))
			die("cuMemcpyDtoH", 0);
		for (int i = 0; i < NOTES; i++)
			w[i] -= before[i];
		printf("{\"own_ms\": %.3f, \"gaps_ms\": %.3f, \"kernels\": %" PRIu64
		       ", \"lost\": %" PRIu64 ", \"elapsed_ms\": %.3f}\n",
			(double)w[0] / 1e6, (double)w[2] / 1e6, w[1], w[4],
			(double)(end - started) / 1e6);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	int (*fill)(unsigned long long, unsigned, size_t);
	struct kernel k = {.blocks = 1, .threads = 1};
	uint64_t pause_ns;
	void *module;
	stream s;

	if (argc < 2 || atof(argv[1]) <= 0)
		die("usage: bench_cuda_time KERNEL_US [PAUSE_US]", argc);
	k.ns = k.amount = (uint64_t)(atof(argv[1]) * 1e3);
	pause_ns = argc > 2 ? (uint64_t)(atof(argv[2]) * 1e3) : 0;
	open_device();
	read_back = find("cuMemcpyDtoH_v2");
	fill = find("cuMemsetD32_v2");
	CU(cuModuleLoadData(&module, noting));
	CU(cuModuleGetFunction(&k.f, module, "noting"));
	if (fill(scratch, 0, 16))
		die("cuMemsetD32", 0);
	s = new_stream();
	launch(s, &k);
	CU(cuStreamSynchronize(s));
	puts("ready");
	fflush(stdout);
	answer(s, &k, pause_ns);
	return 0;
}
