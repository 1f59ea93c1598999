/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA batch job that the fault tests stop, kill and question: kernels of US microseconds, and
 * after each one that mixes its number into a buffer. It prints "ready", then "at KERNELS TIME"
 * (CLOCK_MONOTONIC, ns) after each few kernels, and obeys lines on stdin:
 *
 *   stop    finish, print "done KERNELS wrong N", exit (0 if nothing is wrong)
 *
 * At the end of stdin it exits at once, so that it never outlives its test. It is not linked with
 * the driver but loads it, as most CUDA programs do. With DEVICES it has a stream on each of so
 * many, which but on the first is idle after one kernel.
 *
 * usage: [US [DEVICES]]
 */
#define CUDA_NO_LINK
#include "../integration/cuda/cuda_conform.h"
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#define STRIDE 4 /* kernels of each kind between two reports */

struct job {
	struct conform c;
	CUstream s;
	CUdeviceptr x, steps;
	CUevent done[2]; /* one stride runs while the next one is enqueued */
	uint64_t ns;
	uint32_t number;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

static void enqueue(struct job *j, CUevent done)
{
	for (int i = 0; i < STRIDE; i++) {
		spin(&j->c, j->s, j->steps, j->ns);
		mix(&j->c, j->s, j->x, j->number++);
	}
	CU(cuEventRecord(done, j->s));
}

/* What the kernels leave in word i, when it was zero. */
static uint32_t expected(uint32_t numbers, uint32_t i)
{
	uint32_t a = 1, c = 0, v = 0;

	for (int k = 0; k < 40; k++) {
		a *= 1664525u;
		c = c * 1664525u + 1013904223u;
	}
	for (uint32_t n = 0; n < numbers; n++)
		v = (v ^ (n + i)) * a + c;
	return v;
}

static int stop(struct job *j)
{
	uint32_t words[WORDS], steps[4] = {0}, should = 0;
	unsigned wrong = 0;

	CU(cuMemcpyDtoHAsync_v2(words, j->x, BYTES, j->s));
	CU(cuMemcpyDtoHAsync_v2(steps, j->steps, sizeof(steps), j->s));
	for (uint32_t i = 0; i < WORDS; i++)
		wrong += words[i] != expected(j->number, i);
	for (uint32_t n = 0; n < j->number; n++)
		should = should * 3u + 1u;
	wrong += steps[0] != should;
	CU(cuStreamDestroy_v2(j->s));
	conform_close(&j->c);
	say("done %u wrong %u\n", j->number, wrong);
	return wrong != 0;
}

static void open_job(struct job *j)
{
	conform_open(&j->c);
	j->s = new_stream(CU_STREAM_NON_BLOCKING);
	CU(cuMemAlloc_v2(&j->x, BYTES));
	CU(cuMemAlloc_v2(&j->steps, BYTES));
	CU(cuMemsetD8_v2(j->x, 0, BYTES));
	CU(cuMemsetD8_v2(j->steps, 0, BYTES));
	CU(cuStreamSynchronize(NULL));
	j->done[0] = new_event();
	j->done[1] = new_event();
}

/* It stays until the process ends. */
static void visit(int device)
{
	struct conform c;
	CUdeviceptr steps;
	CUstream s;

	conform_open_on(&c, device);
	s = new_stream(CU_STREAM_NON_BLOCKING);
	CU(cuMemAlloc_v2(&steps, BYTES));
	spin(&c, s, steps, 1000);
	CU(cuStreamSynchronize(s));
}

/* The one command there is. */
static bool told_to_stop(void)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[32];

	if (!poll(&in, 1, 0))
		return false;
	if (!fgets(line, sizeof(line), stdin))
		_exit(3);
	if (strcmp(line, "stop\n"))
		die("unknown command: %s", line);
	return true;
}

int main(int argc, char **argv)
{
	struct job j = {.ns = 1000u * (argc > 1 ? (uint64_t)atol(argv[1]) : 1000)};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	load_proc(false);
	open_job(&j);
	for (int device = 1; argc > 2 && device < atoi(argv[2]); device++)
		visit(device);
	CU(cuCtxSetCurrent(j.c.ctx));
	enqueue(&j, j.done[0]);
	CU(cuEventSynchronize(j.done[0]));
	say("ready\n");
	enqueue(&j, j.done[0]);
	for (unsigned turn = 0; !told_to_stop(); turn ^= 1) {
		enqueue(&j, j.done[!turn]);
		CU(cuEventSynchronize(j.done[turn]));
		say("at %u %" PRIu64 "\n", j.number - STRIDE, now_ns());
	}
	return stop(&j);
}
