/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace point costs: switched off, and a record, by one thread and by two at once, and where
 * the kernel has yet to find the memory. */
#include "base/clock.h"
#include "trace/trace.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOPS  2000000
#define ROUNDS 15

/* Processor time of the thread: what others take meanwhile does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * FM_S + (uint64_t)ts.tv_nsec;
}

static double loop_ns(bool clock)
{
	uint64_t start = cpu_ns();

	for (unsigned i = 0; i < LOOPS; i++)
		FM_TRACE(gate_placed, clock ? fm_now() : i, 1, 0, i, 0, 0);
	return (double)(cpu_ns() - start) / LOOPS;
}

static void *loop_thread(void *arg)
{
	*(double *)arg = loop_ns(false);
	return NULL;
}

static double two_ns(void)
{
	pthread_t thread;
	double other = 0, own;

	if (pthread_create(&thread, NULL, loop_thread, &other))
		exit(1);
	own = loop_ns(false);
	pthread_join(thread, NULL);
	return own > other ? own : other;
}

/* The first lap, in which each page is one that nobody has, or only who reads. */
static double lap_ns(bool read)
{
	int fd = fm_trace_ring_create();
	struct fm_trace_reader reader;
	struct fm_trace_rec rec;
	uint64_t start;

	if (fd < 0 || fm_trace_switch(fd) || fm_trace_reader_open(&reader, fd))
		exit(1);
	FM_TRACE(gate_placed, 1, 1, 0, 0, 0, 0);
	if (read)
		fm_trace_read(&reader, &rec, 1, false);
	start = cpu_ns();
	for (unsigned i = 0; i < FM_TRACE_LANE; i++)
		FM_TRACE(gate_placed, i, 1, 0, i, 0, 0);
	start = cpu_ns() - start;
	fm_trace_reader_close(&reader);
	close(fd);
	return (double)start / FM_TRACE_LANE;
}

static double fresh_ns(void)
{
	return lap_ns(false);
}

static double found_ns(void)
{
	return lap_ns(true);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double by_clock_ns(void)
{
	return loop_ns(true);
}

static double known_ns(void)
{
	return loop_ns(false);
}

static void measure(const char *what, double (*loop)(void))
{
	double ns[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++)
		ns[i] = loop();
	qsort(ns, ROUNDS, sizeof(ns[0]), ascending);
	printf("%-44s %7.2f ns (of %d: %.2f to %.2f)\n", what, ns[ROUNDS / 2], ROUNDS, ns[0],
		ns[ROUNDS - 1]);
}

int main(void)
{
	int fd = fm_trace_ring_create();

	measure("trace point, off", known_ns);
	if (fd < 0 || fm_trace_switch(fd))
		return 1;
	measure("record, by a time that is known", known_ns);
	measure("record, with a look at the clock", by_clock_ns);
	measure("record, two threads into one ring", two_ns);
	measure("record, first lap, nobody has read yet", fresh_ns);
	measure("record, first lap, once somebody reads", found_ns);
	close(fd);
	return 0;
}
