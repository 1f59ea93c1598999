/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set with one task. A deadline passes a nanosecond behind the release, so each job is late:
 * usage: cuda_gpu_missed ENGINE [resident]. It is told what to do line by line, as
 * tests/integration/library/set_client.c is:
 *
 * - release N
 * - suspend, resume: by the program
 * - aside N: while the driver waits for the device, to release memory, N jobs are released
 * - state: counts
 * - quit
 */
#include "cuda_gpu_set.h"

static struct {
	unsigned jobs;
	_Atomic bool waits, goes_on;
} aside;

/* In the call of the driver that waits, before it does, until the device has heard of the releases.
 */
static void hold(void)
{
	aside.waits = true;
	while (!aside.goes_on)
		usleep(1000);
}

static void *release_aside(void *arg)
{
	uint64_t released = stats(0).released + aside.jobs;

	while (!aside.waits)
		usleep(1000);
	IS(0, fm_gpu_release(set, 0, aside.jobs));
	while (stats(0).released != released)
		usleep(1000);
	aside.goes_on = true;
	return arg;
}

static void wait_aside(unsigned jobs)
{
	static char memory[4096] __attribute__((aligned(4096)));
	pthread_t thread;

	MUST(fake_cuda_at && !cuMemHostRegister_v2(memory, sizeof(memory), 0));
	aside.jobs = jobs;
	aside.waits = aside.goes_on = false;
	MUST(!pthread_create(&thread, NULL, release_aside, NULL));
	fake_cuda_at("cuMemHostUnregister", hold);
	MUST(!cuMemHostUnregister(memory));
	fake_cuda_at(NULL, hold);
	MUST(!pthread_join(thread, NULL));
}

static void make_late(void)
{
	int error;
	CUcontext ctx = begin();
	struct fm_gpu_task t = {.size = sizeof(t),
		.name = "late",
		.enqueue = enqueue,
		.ctx = &task[0],
		.deadline_ns = 1};

	MUST(ctx);
	task[0] = (struct task){.chunks = 1, .first = launch_nothing};
	set = make("edf", 1, &error);
	if (!set)
		die("no set: %d", error);
	IS(0, fm_gpu_task_add(set, &t));
	IS(0, fm_gpu_set_start(set));
}

static bool answer(const char *line)
{
	char word[16] = "";
	unsigned n = 0;

	sscanf(line, "%15s %u", word, &n);
	if (!strcmp(word, "release"))
		IS(0, fm_gpu_release(set, 0, n));
	else if (!strcmp(word, "suspend"))
		IS(0, fm_gpu_set_suspend(set));
	else if (!strcmp(word, "resume"))
		IS(0, fm_gpu_set_resume(set));
	else if (!strcmp(word, "aside"))
		wait_aside(n);
	else if (!strcmp(word, "quit"))
		IS(0, fm_gpu_set_drain(set, PATIENCE));
	if (!strcmp(word, "state")) {
		struct fm_gpu_stats s = stats(0);

		printf("state released=%llu done=%llu missed=%llu missed_stopped=%llu\n",
			(unsigned long long)s.released, (unsigned long long)s.done,
			(unsigned long long)s.missed, (unsigned long long)s.missed_stopped);
	} else {
		printf("%s 0\n", word);
	}
	return !strcmp(word, "quit");
}

int main(int argc, char **argv)
{
	char line[128];
	bool quits = false;

	if (argc < 2)
		return 2;
	engine = argv[1];
	resident = argc > 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	make_late();
	puts("ready");
	while (!quits && fgets(line, sizeof(line), stdin))
		quits = answer(line);
	fm_gpu_set_free(set);
	return quits ? 0 : 1;
}
