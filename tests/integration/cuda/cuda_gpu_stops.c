/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that launch themselves (<fermata/gpu_sched.h>, engine "graphs"), whose chunks are
 * stopped inside kernels: one case of those below, which test_cuda_gpu_stops.py runs with the
 * guardian on the fake driver, or "random ROUNDS SEED". The kernels are those of tests/data/guard,
 * whose results tell if a block ran twice, not at all, or in another order. Whatever is not as it
 * should be ends it with a text.
 */
#include "cuda_gpu_set.h"

/* GUARD_IMAGES: their folder, from the build. */
extern const char guard_text[];
__asm__(".section .rodata\n.balign 16\nguard_text: .incbin \"" GUARD_IMAGES "/text.ptx\"\n.quad 0\n"
	".previous");

/* Notes its number behind those that have run. */
static const char note_text[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry graph_chunk(.param .u64 log, .param .u64 number)\n{\n.reg .b64 %rd<7>;\n"
	"ld.param.u64 %rd1, [log];\nld.param.u64 %rd2, [number];\natom.add.u64 %rd3, [%rd1], 1;\n"
	"and.b64 %rd4, %rd3, 4095;\nshl.b64 %rd5, %rd4, 3;\nadd.u64 %rd6, %rd1, %rd5;\n"
	"st.u64 [%rd6+8], %rd2;\nret;\n}\n";

enum { LOG = 4096, BLOCKS = 24, N = 256, WORKERS = 3, LAUNCHES = 4 };

static struct {
	CUmodule module[2];
	CUfunction note, toil, chain, step;
	CUstream own;
	CUdeviceptr log, out, gate, x[WORKERS], steps[WORKERS];
	uint64_t seen[1 + LOG];
} m;

static CUdeviceptr words(size_t n)
{
	CUdeviceptr d;

	MUST(!cuMemAlloc_v2(&d, n * 4) && !cuMemsetD8_v2(d, 0, n * 4));
	return d;
}

static void open_context(void)
{
	begin();
	MUST(!cuModuleLoadData(&m.module[0], note_text) &&
		!cuModuleLoadData(&m.module[1], guard_text));
	MUST(!cuModuleGetFunction(&m.note, m.module[0], "graph_chunk"));
	MUST(!cuModuleGetFunction(&m.toil, m.module[1], "toil"));
	MUST(!cuModuleGetFunction(&m.chain, m.module[1], "chain"));
	MUST(!cuModuleGetFunction(&m.step, m.module[1], "step"));
	MUST(!cuStreamCreate(&m.own, 1));
	m.log = words(2 * (1 + LOG));
	m.out = words(BLOCKS);
	m.gate = words(2);
	for (unsigned i = 0; i < WORKERS; i++) {
		m.x[i] = words(2 * N);
		m.steps[i] = words(BLOCKS);
	}
	MUST(!cuCtxSynchronize());
}

static void read_words(void *to, CUdeviceptr from, size_t bytes)
{
	MUST(!cuMemcpyDtoHAsync_v2(to, from, bytes, m.own) && !cuStreamSynchronize(m.own));
}

static unsigned slots = 1;

static void new_set(const char *policy)
{
	int error = 0;

	set = make(policy, slots, &error);
	if (!set)
		die("no set: %d", error);
}

static int add_task(
	unsigned number, int (*chunk)(struct CUstream_st *stream), unsigned chunks, int priority)
{
	struct fm_gpu_task t = {.size = sizeof(t),
		.enqueue = enqueue,
		.n_chunks = chunks,
		.priority = priority,
		.ctx = &task[number]};

	task[number] = (struct task){.number = number, .chunks = chunks, .first = chunk};
	return fm_gpu_task_add(set, &t);
}

static int note(CUstream stream, uint64_t number)
{
	void *params[] = {&m.log, &number};

	return cuLaunchKernel(m.note, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) ? -EIO : 0;
}

/* --- a chunk that stands in its first kernel --- */

/* Of toil, blocks from gate[1] on stand until that is larger, or they are told to stop. */
static void open_gate(unsigned blocks)
{
	MUST(!cuMemsetD32Async(m.gate + 4, blocks, 1, m.own) && !cuStreamSynchronize(m.own));
}

static int toil(struct CUstream_st *stream)
{
	uint64_t ns = 0;
	void *params[] = {&m.out, &ns, &m.gate};

	return cuLaunchKernel(m.toil, BLOCKS, 1, 1, 1, 1, 1, 0, stream, params, NULL) ? -EIO : 0;
}

static int step_once(CUstream stream, unsigned i)
{
	void *params[] = {&m.steps[i]};

	return cuLaunchKernel(m.step, BLOCKS, 1, 1, 1, 1, 1, 0, stream, params, NULL) ? -EIO : 0;
}

static int victim(struct CUstream_st *stream)
{
	return toil(stream) || step_once(stream, 0) ? -EIO : 0;
}

/* One whose blocks may wait for each other, as far as is seen. */
static int victim_as_a_whole(struct CUstream_st *stream)
{
	return toil(stream) || note(stream, 100) ? -EIO : 0;
}

static int victim_with_a_fill(struct CUstream_st *stream)
{
	return toil(stream) || cuMemsetD32Async(m.x[0], 1, 1, stream) ? -EIO : 0;
}

static int urgent(struct CUstream_st *stream)
{
	return note(stream, 1);
}

static void check_each_once(CUdeviceptr of, unsigned times)
{
	unsigned out[BLOCKS];

	read_words(out, of, sizeof(out));
	for (unsigned i = 0; i < BLOCKS; i++)
		if (out[i] != times)
			die("block %u ran %u times, not %u", i, out[i], times);
}

/* The answer comes behind what was released before. */
static uint64_t started(void)
{
	return stats(FM_GPU_SET).started;
}

static void make_two(const char *policy, int (*chunk)(struct CUstream_st *stream))
{
	open_context();
	new_set(policy);
	IS(0, add_task(0, chunk, 1, 1));
	IS(1, add_task(1, urgent, 1, 5));
	IS(0, fm_gpu_set_start(set));
}

/* Until blocks of toil have begun, and not all of these have ended. */
static void stand_in(void)
{
	unsigned out[BLOCKS], begun, ended;

	do {
		read_words(&begun, m.gate, sizeof(begun));
		read_words(out, m.out, sizeof(out));
		ended = 0;
		for (unsigned i = 0; i < BLOCKS; i++)
			ended += out[i];
	} while (begun == ended);
}

/* Stopped in its first kernel, and once more there. */
static void stopped_for_the_urgent(void)
{
	make_two("fixed-priority", victim);
	open_gate(2);
	IS(0, fm_gpu_release(set, 0, 1));
	for (unsigned i = 0; i < 2; i++) {
		stand_in();
		IS(0, fm_gpu_release(set, 1, 1));
		while (stats(1).done == i)
			sched_yield();
		MUST(!stats(0).done);
	}
	open_gate(BLOCKS);
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(0).done == 1 && stats(1).done == 2 && started() == 5);
	IS(0, fm_gpu_set_start(set)); /* nothing is left of the stops */
	IS(0, fm_gpu_release(set, 0, 2));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	fm_gpu_set_free(set);
	check_each_once(m.out, 3);
	check_each_once(m.steps[0], 3);
	read_words(m.seen, m.log, sizeof(m.seen));
	MUST(m.seen[0] == 2);
}

/* What runs goes on to its end, and then comes what is more urgent. */
static void not_stopped(const char *policy, int (*chunk)(struct CUstream_st *stream))
{
	make_two(policy, chunk);
	open_gate(2);
	IS(0, fm_gpu_release(set, 0, 2));
	stand_in();
	IS(0, fm_gpu_release(set, 1, 1));
	MUST(started() == 1 && stats(FM_GPU_SET).running == 1 && !stats(1).done);
	open_gate(BLOCKS);
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(started() == 3);
	fm_gpu_set_free(set);
	check_each_once(m.out, 2);
	read_words(m.seen, m.log, sizeof(m.seen));
	MUST(m.seen[1] == (chunk == victim_as_a_whole ? 100 : 1));
}

static void not_with_a_fill(void)
{
	not_stopped("fixed-priority", victim_with_a_fill);
}

static void not_as_a_whole(void)
{
	not_stopped("fixed-priority", victim_as_a_whole);
}

static void not_for_a_turn(void)
{
	not_stopped("fair", victim);
}

static void not_for_who_comes_later(void)
{
	not_stopped("fifo", victim);
}

/* Nor when the set is to stand: it is launched once. */
static void not_when_suspended(void)
{
	make_two("fixed-priority", victim);
	open_gate(2);
	IS(0, fm_gpu_release(set, 0, 1));
	stand_in();
	IS(0, fm_gpu_set_suspend(set));
	MUST(stats(FM_GPU_SET).running == 1);
	open_gate(BLOCKS);
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(started() == 1);
	fm_gpu_set_free(set);
	check_each_once(m.out, 1);
	check_each_once(m.steps[0], 1);
}

static void not_in_a_resident_set(void)
{
	resident = true;
	not_when_suspended();
	not_stopped("fixed-priority", victim);
}

static void not_on_several_slots(void)
{
	slots = 2;
	not_when_suspended();
}

static void stands_inside_while_it_is_suspended(void)
{
	make_two("fixed-priority", victim);
	open_gate(2);
	IS(0, fm_gpu_release(set, 0, 1));
	stand_in();
	IS(0, fm_gpu_set_suspend(set));
	while (stats(FM_GPU_SET).running)
		sched_yield();
	IS(0, fm_gpu_release(set, 1, 1));
	MUST(!stats(FM_GPU_SET).done && started() == 1);
	open_gate(BLOCKS);
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(started() == 3);
	fm_gpu_set_free(set);
	check_each_once(m.out, 1);
	check_each_once(m.steps[0], 1);
	read_words(m.seen, m.log, sizeof(m.seen));
	MUST(m.seen[0] == 1);
}

/* Nobody goes on with it; else nothing is wrong. */
static void freed_while_it_stands_inside(void)
{
	unsigned out[BLOCKS], n = 0;

	make_two("fixed-priority", victim);
	open_gate(2);
	IS(0, fm_gpu_release(set, 0, 1));
	stand_in();
	IS(0, fm_gpu_set_suspend(set));
	while (stats(FM_GPU_SET).running)
		sched_yield();
	fm_gpu_set_free(set);
	read_words(out, m.out, sizeof(out));
	for (unsigned i = 0; i < BLOCKS; i++) {
		MUST(out[i] <= 1);
		n += out[i];
	}
	MUST(n && n < BLOCKS);
	MUST(!cuCtxSynchronize());
}

static void each_call_fails(void)
{
	unsigned told = 0;

	MUST(fake_cuda_fail);
	open_context();
	open_gate(BLOCKS);
	for (unsigned nth = 1;; nth++) {
		int error = 0, rc;
		unsigned counted;

		fake_cuda_fail("*", nth, 999);
		set = make("fifo", 1, &error);
		MUST(set || error);
		if (set) {
			add_task(0, victim, 1, 1);
			rc = fm_gpu_set_start(set);
			if (!rc) {
				rc = fm_gpu_release(set, 0, 2);
				rc |= fm_gpu_set_drain(set, PATIENCE);
				MUST(rc || stats(FM_GPU_SET).done == 2);
			}
			told += rc != 0;
			fm_gpu_set_free(set);
		}
		counted = fake_cuda_counted();
		fake_cuda_fail("", 0, 0);
		if (counted < nth)
			break;
		MUST(nth < 2000);
	}
	MUST(told > 10);
}

/* --- at random --- */

static int work(CUstream stream, unsigned i, unsigned chunk)
{
	for (unsigned k = 0; k < LAUNCHES; k++) {
		unsigned n = N, number = chunk * LAUNCHES + k;
		void *params[] = {&m.x[i], &n, &number};

		if (cuLaunchKernel(m.chain, BLOCKS, 1, 1, 1, 1, 1, 0, stream, params, NULL) ||
			step_once(stream, i))
			return -EIO;
	}
	return 0;
}

static int enqueue_work(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	return work(stream, ((struct task *)ctx)->number, chunk);
}

/* What `chain' does, in order. */
static void check_chain(unsigned i, unsigned chunks, uint64_t jobs)
{
	static uint32_t should[2 * N], is[2 * N];

	memset(should, 0, sizeof(should));
	for (uint64_t k = 0; k < jobs * chunks * LAUNCHES; k++) {
		uint32_t number = (uint32_t)(k % (chunks * LAUNCHES));
		const uint32_t *from = should + (number & 1) * N;
		uint32_t *to = should + (~number & 1) * N;

		for (unsigned at = 0; at < N; at++)
			to[at] = from[(at + 17) % N] * 31u + from[(at + N / 2) % N] + number;
	}
	read_words(is, m.x[i], sizeof(is));
	if (memcmp(is, should, sizeof(is)))
		die("task %u: its %llu jobs have computed something else", i,
			(unsigned long long)jobs);
}

static void at_random(unsigned rounds, unsigned seed)
{
	uint64_t chunks = 0, done[WORKERS];
	CUdeviceptr d;

	open_context();
	new_set("fixed-priority");
	for (unsigned i = 0; i < WORKERS; i++) {
		struct fm_gpu_task t = {.size = sizeof(t),
			.enqueue = enqueue_work,
			.n_chunks = 1 + i % 2,
			.priority = (int)i,
			.ctx = &task[i]};

		task[i].number = i;
		IS((int)i, fm_gpu_task_add(set, &t));
	}
	IS(0, fm_gpu_set_start(set));
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF) /* until it is known */
		return;
	srand(seed);
	for (unsigned n = 0; n < rounds; n++) {
		unsigned i = (unsigned)rand() % WORKERS, what = (unsigned)rand() % 16;

		if (stats(i).released - stats(i).done < 32)
			IS(0, fm_gpu_release(set, i, 1 + (unsigned)rand() % 3));
		if (what == 0)
			IS(0, fm_gpu_set_suspend(set));
		if (what < 2)
			IS(0, fm_gpu_set_resume(set));
		if (what == 2)
			MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d));
	}
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	for (unsigned i = 0; i < WORKERS; i++) {
		done[i] = stats(i).done;
		MUST(done[i] == stats(i).released);
		chunks += done[i] * (1 + i % 2);
	}
	chunks = started() - chunks;
	fm_gpu_set_free(set);
	for (unsigned i = 0; i < WORKERS; i++) {
		check_chain(i, 1 + i % 2, done[i]);
		check_each_once(m.steps[i], (unsigned)done[i] * (1 + i % 2) * LAUNCHES);
	}
	printf("done %llu\n", (unsigned long long)chunks);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"urgent", stopped_for_the_urgent},
		{"fill", not_with_a_fill},
		{"whole", not_as_a_whole},
		{"turn", not_for_a_turn},
		{"later", not_for_who_comes_later},
		{"resident", not_in_a_resident_set},
		{"slots", not_on_several_slots},
		{"suspended", stands_inside_while_it_is_suspended},
		{"freed", freed_while_it_stands_inside},
		{"fails", each_call_fails},
	};

	engine = "graphs";
	if (argc > 3 && !strcmp(argv[1], "random")) {
		at_random((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			puts("ok");
			return 0;
		}
	return 2;
}
