/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel whose blocks wait at a gate, for tests that stop it there; on the fake driver alone,
 * where toil has one (tests/data/guard/guard.cu). Behind it wait kernels that count, and a host
 * function that looks whether they did. It prints "came C done D" whenever one of both is more than
 * it was, blocks that came to the gate and blocks of it that are done, and obeys lines on stdin:
 *
 *   let N   blocks before number N may pass
 *   open    all may; prints "right" or what is wrong when all has ended, and ends
 *
 * usage: [BLOCKS]
 */
#include "cuda_guard.h"
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#define STEPS 3 /* launches of step behind that of toil */

struct job {
	struct conform c;
	struct guard g;
	CUstream s;
	CUdeviceptr d_out, d_counted, d_gate;
	_Atomic uint32_t *out, *counted, *gate; /* the host's addresses of the same */
	uint32_t blocks, came, done, seen_by_host;
};

static uint32_t count_that_are(const _Atomic uint32_t *words, uint32_t n, uint32_t value)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += atomic_load(&words[i]) == value;
	return sum;
}

static void on_host(void *arg)
{
	struct job *j = arg;

	j->seen_by_host =
		count_that_are(j->out, j->blocks, 1) + count_that_are(j->counted, j->blocks, STEPS);
}

static void begin(struct job *j)
{
	conform_open(&j->c);
	guard_open(&j->g);
	j->s = new_stream(CU_STREAM_NON_BLOCKING);
	j->out = (void *)mapped_words(&j->d_out);
	j->counted = (void *)mapped_words(&j->d_counted);
	j->gate = (void *)mapped_words(&j->d_gate);
	launch(j->g.tick, 1, 1, j->s, NULL);
	CU(cuStreamSynchronize(j->s));
	puts("ready");
	fflush(stdout);
}

static void go(struct job *j)
{
	uint64_t ns = 0;

	launch(j->g.toil, j->blocks, 32, j->s, (void *[]){&j->d_out, &ns, &j->d_gate});
	for (int i = 0; i < STEPS; i++)
		launch(j->g.step, j->blocks, 32, j->s, (void *[]){&j->d_counted});
	CU(cuLaunchHostFunc(j->s, on_host, j));
}

static void report(struct job *j)
{
	uint32_t came = atomic_load(&j->gate[0]);
	uint32_t done = count_that_are(j->out, j->blocks, 1);

	if (came == j->came && done == j->done)
		return;
	j->came = came;
	j->done = done;
	printf("came %u done %u\n", came, done);
	fflush(stdout);
}

static int end(struct job *j)
{
	uint32_t toiled, counted;

	atomic_store(&j->gate[1], UINT32_MAX);
	CU(cuStreamSynchronize(j->s));
	toiled = count_that_are(j->out, j->blocks, 1);
	counted = count_that_are(j->counted, j->blocks, STEPS);
	if (toiled == j->blocks && counted == j->blocks && j->seen_by_host == 2 * j->blocks)
		puts("right");
	else
		printf("%u and %u of %u blocks are right, %u were seen\n", toiled, counted,
			j->blocks, j->seen_by_host);
	CU(cuMemFreeHost((void *)j->out));
	CU(cuMemFreeHost((void *)j->counted));
	CU(cuMemFreeHost((void *)j->gate));
	guard_close(&j->g);
	CU(cuStreamDestroy_v2(j->s));
	conform_close(&j->c);
	return toiled != j->blocks || counted != j->blocks;
}

int main(int argc, char **argv)
{
	struct job j = {.blocks = argc > 1 ? (uint32_t)atoi(argv[1]) : 40};
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char line[64];

	if (!j.blocks || j.blocks > WORDS)
		die("usage: cuda_gate [BLOCKS], up to %d", WORDS);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	load_dlsym(false);
	begin(&j);
	for (;;) {
		report(&j);
		if (poll(&in, 1, 2) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			_exit(1);
		if (!strcmp(line, "open\n"))
			return end(&j);
		if (!strcmp(line, "go\n"))
			go(&j);
		else if (!strncmp(line, "let ", 4))
			atomic_store(&j.gate[1], (uint32_t)atoi(line + 4));
	}
}
