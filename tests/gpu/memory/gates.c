/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P12, gates: who reads a stream's word "I wait" may read it when the stream is already past its
 * gate: the word is taken back a moment later. Is that so; does it help to wait once more after it
 * was taken back; and what does each such word cost?
 */
#include "gpu.h"
#include <stdlib.h>
#include <unistd.h>

enum { OPS_MOST = 4, GATES = 1000, AHEAD = 48, ROUNDS = 9 };
enum form { NOTHING, WAIT, ANNOUNCED, WITHDRAWN, TWICE, FORMS };
static const char *const forms[] = {"no gate", "wait", "announce, wait", "announce, wait, withdraw",
	"announce, wait, withdraw, wait"};
static const unsigned n_ops[] = {0, 1, 2, 3, 4};

/* Words of the host that the device writes, and one that it reads. */
struct words {
	_Atomic uint32_t gate, pad[31], waiting, pad2[31], passed;
};
static struct {
	struct words *words;
	CUdeviceptr at;
	CUstream s;
} w;

static CUdeviceptr at(const void *word)
{
	return w.at + (CUdeviceptr)((const char *)word - (const char *)w.words);
}

static union fm_cu_mem_op op(unsigned what, const void *word, uint32_t v)
{
	return (union fm_cu_mem_op){
		.op = {what, at(word), v, what == FM_CU_OP_WAIT_VALUE_32 ? CU_WAIT_GEQ : 0, 0}};
}

static int gate(enum form form, uint32_t number)
{
	union fm_cu_mem_op wait = op(FM_CU_OP_WAIT_VALUE_32, &w.words->gate, 1),
			   all[OPS_MOST] = {wait};

	if (form == NOTHING)
		return 0;
	if (form > WAIT) {
		all[0] = op(FM_CU_OP_WRITE_VALUE_32, &w.words->waiting, number);
		all[1] = wait;
		all[2] = op(FM_CU_OP_WRITE_VALUE_32, &w.words->waiting, 0);
		all[3] = wait;
	}
	return cu.cuStreamBatchMemOp_v2(w.s, n_ops[form], all, 0);
}

static void kernel(uint64_t ns)
{
	static CUdeviceptr word;
	void *params[] = {&word, &ns};

	if (!word)
		CK(cu.cuMemAlloc_v2(&word, 256));
	CK(cu.cuLaunchKernel(gpu.spin, 1, 1, 1, 1, 1, 1, 0, w.s, params, NULL));
}

/* ns of device time that each gate adds between kernels of 20 us. */
static double cost(enum form form)
{
	double ns[ROUNDS];
	CUevent from, to;
	float ms;

	CK(cu.cuEventCreate(&from, 0));
	CK(cu.cuEventCreate(&to, 0));
	for (int r = 0; r < ROUNDS; r++) {
		CK(cu.cuEventRecord(from, w.s));
		for (int i = 0; i < GATES; i++) {
			CK(gate(form, 1));
			if (i % 4 == 0)
				kernel(20000);
		}
		CK(cu.cuEventRecord(to, w.s));
		CK(cu.cuEventSynchronize(to));
		CK(cu.cuEventElapsedTime(&ms, from, to));
		ns[r] = (double)ms * 1e6 / GATES;
	}
	cu.cuEventDestroy_v2(from);
	cu.cuEventDestroy_v2(to);
	return part_of(ns, ROUNDS, 0.5);
}

struct races {
	long closed, taken, wrong,
		silent; /* times closed; taken to be at rest; went on all the same; stood unsaid */
	bool stuck;
};

/* Is there progress within that time, though the gate is closed and the stream is said to wait? */
static bool goes_on(uint32_t passed, double us)
{
	double since = now_us();

	while (now_us() - since < us)
		if (atomic_load(&w.words->passed) != passed)
			return true;
	return false;
}

static void wait_busy(double us)
{
	double since = now_us();

	while (now_us() - since < us)
		;
}

static void close_once(struct races *r)
{
	double since = now_us();
	uint32_t said, passed;

	atomic_store(&w.words->gate, 0);
	r->closed++;
	do {
		said = atomic_load(&w.words->waiting);
	} while (!said && now_us() - since < 2000);
	if (said) {
		/* All before its gate has ended: so much has passed, or one more if it goes on. */
		passed = atomic_load(&w.words->passed);
		r->taken++;
		r->wrong += passed > said - 1 || goes_on(passed, 15);
	}
	r->silent += !said;
	passed = atomic_load(&w.words->passed);
	atomic_store(&w.words->gate, 1);
	if (rand() % 8) /* now and then so long that it must be seen */
		wait_busy(rand() % 30);
	else
		goes_on(passed, 5e3);
}

static struct races race(enum form form, double seconds)
{
	double end = now_us() + seconds * 1e6;
	struct races r = {0};
	uint32_t number = 1;

	atomic_store(&w.words->gate, 1);
	atomic_store(&w.words->passed, 0);
	atomic_store(&w.words->waiting, 0);
	while (now_us() < end && !r.stuck) {
		double since = now_us();
		uint32_t passed = 0, now;

		for (int i = 0; i < AHEAD; i++, number++) {
			CK(gate(form, number));
			CK(cu.cuStreamWriteValue32_v2(w.s, at(&w.words->passed), number, 0));
			kernel(1000);
		}
		while ((now = atomic_load(&w.words->passed)) < number - 1 - AHEAD / 4 && !r.stuck) {
			since = now == passed ? since : now_us();
			passed = now;
			close_once(&r);
			r.stuck = now_us() - since > 3e6; /* without any progress */
		}
	}
	atomic_store(&w.words->gate, 1);
	CK(cu.cuStreamSynchronize(w.s));
	return r;
}

int probe_gates(int argc, char **argv)
{
	double none, ns, before = 0, seconds = argc > 0 ? atof(argv[0]) : 2;
	struct races withdrawn, twice;

	gpu_open(false);
	w.words = host_registered(2 * MiB);
	CK(cu.cuMemHostGetDevicePointer_v2(&w.at, w.words, 0));
	w.s = gpu_stream();
	atomic_store(&w.words->gate, 1);
	cost(NOTHING);
	none = cost(NOTHING);
	for (enum form form = WAIT; form < FORMS; form++) {
		ns = cost(form) - none;
		printf("P12 gate, %s: %.0f ns, %+.0f for the last word\n", forms[form], ns,
			ns - before);
		before = ns;
	}
	withdrawn = race(WITHDRAWN, seconds);
	printf("P12 gate, %s: closed %ld times, taken to be at rest %ld, went on all the same %ld, "
	       "unsaid for 2 ms %ld%s\n",
		forms[WITHDRAWN], withdrawn.closed, withdrawn.taken, withdrawn.wrong,
		withdrawn.silent, withdrawn.stuck ? ", STUCK" : "");
	twice = race(TWICE, seconds);
	printf("P12 gate, %s: %s, closed %ld times, taken to be at rest %ld, went on all the same "
	       "%ld, unsaid for 2 ms %ld%s\n",
		forms[TWICE], twice.wrong || twice.stuck ? "wrong" : "right", twice.closed,
		twice.taken, twice.wrong, twice.silent, twice.stuck ? ", STUCK" : "");
	printf("== P12 gates: %.0f ns with all four words; taken to be at rest and went on: %ld of "
	       "%ld without the second "
	       "wait, %ld of %ld with it\n",
		before, withdrawn.wrong, withdrawn.taken, twice.wrong, twice.taken);
	return 0;
}
