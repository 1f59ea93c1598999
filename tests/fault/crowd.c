/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many short programs that use the library, each a process with a group and a queue of its own on
 * one device:
 *
 *   crowd short RATE SECONDS   so many a second, for so long; at the end "short STARTED wrong N"
 *   crowd join N               N at once: "joined" when each is set up; at a line on stdin each
 *                              does some work and ends: "done wrong N"
 */
#include <errno.h>
#include <fermata/fermata.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMANDS 3
#define PATIENCE UINT64_C(60000000000)
#define ALIVE    100 /* at a time: a machine that is too slow starts fewer a second */

static void count(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static int work(fm_xqueue *q)
{
	atomic_uint finished = 0;
	const struct fm_command c = {.device_ns = 50000, .done = count, .arg = &finished};
	uint64_t seq = 0;
	int rc = 0;

	for (int i = 0; i < COMMANDS && !rc; i++)
		rc = fm_xqueue_submit(q, &c, &seq);
	rc = rc ? rc : fm_xqueue_wait(q, seq, PATIENCE);
	return rc ? rc : finished == COMMANDS ? 0 : -EILSEQ;
}

static int set_up(fm_xqueue **q, fm_sim_device **dev)
{
	fm_hwqueue *hwq;
	int rc = fm_sim_device_create(dev, "shared:0", NULL);

	rc = rc ? rc : fm_sim_hwqueue_create(&hwq, *dev);
	return rc ? rc : fm_xqueue_create(q, hwq, NULL);
}

/* A whole program: it ends as programs do, or as one that is in a hurry. */
static void live(unsigned n)
{
	fm_sim_device *dev;
	fm_xqueue *q;
	int rc = set_up(&q, &dev);

	rc = rc ? rc : work(q);
	if (n % 3 == 0)
		_exit(rc != 0);
	rc = rc ? rc : fm_xqueue_destroy(q);
	exit(rc != 0);
}

static unsigned reap(bool all, unsigned *alive)
{
	unsigned wrong = 0;
	int status;

	while (*alive && waitpid(-1, &status, all || *alive >= ALIVE ? 0 : WNOHANG) > 0) {
		wrong += status != 0;
		--*alive;
	}
	return wrong;
}

static int run_short(unsigned rate, unsigned seconds)
{
	unsigned alive = 0, wrong = 0, n;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (n = 0; n < rate * seconds; n++) {
		pid_t pid = fork();

		if (pid == 0)
			live(n);
		alive += pid > 0;
		wrong += pid < 0;
		wrong += reap(false, &alive);
		next.tv_nsec += 1000000000 / rate;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	wrong += reap(true, &alive);
	printf("short %u wrong %u\n", n, wrong);
	return wrong != 0;
}

/* start: closed when all may set themselves up; go: when they may work. */
static void member(const int start[2], const int told[2], const int go[2])
{
	fm_sim_device *dev;
	fm_xqueue *q = NULL;
	char c;
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(start[1]);
	close(go[1]);
	if (read(start[0], &c, 1))
		exit(2);
	rc = set_up(&q, &dev);
	if (write(told[1], "", 1) != 1 || read(go[0], &c, 1))
		exit(2);
	rc = rc ? rc : work(q);
	exit(rc || fm_xqueue_destroy(q));
}

static int run_join(unsigned n)
{
	unsigned alive = 0, wrong = 0;
	int start[2], told[2], go[2];
	char line[16];

	if (pipe(start) || pipe(told) || pipe(go))
		return 2;
	for (unsigned i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0)
			member(start, told, go);
		alive += pid > 0;
		wrong += pid < 0;
	}
	close(start[1]);
	for (unsigned i = 0; i < alive; i++)
		if (read(told[0], line, 1) != 1)
			return 2;
	puts("joined");
	if (!fgets(line, sizeof(line), stdin))
		return 2;
	close(go[1]);
	while (alive)
		wrong += reap(true, &alive);
	printf("done wrong %u\n", wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 4 && !strcmp(argv[1], "short"))
		return run_short((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
	if (argc == 3 && !strcmp(argv[1], "join"))
		return run_join((unsigned)atoi(argv[2]));
	fprintf(stderr, "usage: crowd short RATE SECONDS | crowd join N\n");
	return 2;
}
