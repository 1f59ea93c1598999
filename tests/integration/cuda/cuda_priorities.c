/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that creates streams with priorities, and knows nothing of Fermata: two of each kind,
 * and the default stream. It is told what to do line by line.
 *
 *   work       kernels in all of them at once; then the counters must be right
 *   wait       the urgent stream waits for one of the least urgent, by an event
 *   many N     N times: creates streams and destroys them, with priorities that change; one of them
 *              gets work
 *   fork       a child that uses nothing of CUDA ends
 */
#include "cuda_conform.h"
#include <sys/wait.h>

#define KERNELS   20
#define KERNEL_NS 300000

static const int priorities[] = {-5, -1, 0, 0, 1, 99};
enum { STREAMS = sizeof(priorities) / sizeof(priorities[0]), ALL = STREAMS + 1 };

static struct {
	struct conform c;
	CUstream s[ALL]; /* the last is the default stream */
	CUdeviceptr out;
	uint32_t *word, wanted[ALL];
} w;

static void start(void)
{
	void *p;

	conform_open(&w.c);
	for (int i = 0; i < STREAMS; i++)
		if (priorities[i] || i % 2)
			CU(cuStreamCreateWithPriority(
				&w.s[i], CU_STREAM_NON_BLOCKING, priorities[i]));
		else
			CU(cuStreamCreate(&w.s[i], CU_STREAM_NON_BLOCKING));
	CU(cuMemHostAlloc(&p, 4096, 1 | 2)); /* portable, mapped */
	memset(p, 0, 4096);
	CU(cuMemHostGetDevicePointer_v2(&w.out, p, 0));
	w.word = p;
}

static void launch_in(int i)
{
	spin(&w.c, w.s[i], w.out + (CUdeviceptr)i * sizeof(uint32_t), KERNEL_NS);
	w.wanted[i] = w.wanted[i] * 3 + 1;
}

static void check_all(void)
{
	CU(cuCtxSynchronize());
	for (int i = 0; i < ALL; i++)
		if (w.word[i] != w.wanted[i])
			die("stream %d has %u, not %u", i, w.word[i], w.wanted[i]);
}

static void do_work(void)
{
	for (int k = 0; k < KERNELS; k++)
		for (int i = 0; i < ALL; i++)
			launch_in(i);
	check_all();
}

static void do_wait(void)
{
	for (int k = 0; k < KERNELS; k++)
		launch_in(STREAMS - 1);
	order(w.s[STREAMS - 1], w.s[0]);
	launch_in(0);
	check_all();
}

static void do_many(int n)
{
	for (int k = 0; k < n; k++) {
		CUstream s[3];

		for (int i = 0; i < 3; i++)
			CU(cuStreamCreateWithPriority(
				&s[i], CU_STREAM_NON_BLOCKING, (k + i) % 3 - 1));
		spin(&w.c, s[k % 3], w.out, 1000);
		w.wanted[0] = w.wanted[0] * 3 + 1;
		CU(cuStreamSynchronize(s[k % 3]));
		for (int i = 0; i < 3; i++)
			CU(cuStreamDestroy_v2(s[i]));
	}
	check_all();
}

static void do_fork(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(7);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		die("the child did not end as it should");
	do_work();
}

int main(int argc, char **argv)
{
	char line[64];
	int n;

	conform_options(&argc, &argv);
	start();
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "work\n"))
			do_work();
		else if (!strcmp(line, "wait\n"))
			do_wait();
		else if (!strcmp(line, "fork\n"))
			do_fork();
		else if (sscanf(line, "many %d", &n) == 1)
			do_many(n);
		else
			die("what is %s", line);
		printf("did %s", line);
		fflush(stdout);
	}
	return 0;
}
