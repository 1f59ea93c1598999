// SPDX-License-Identifier: Apache-2.0
/*
 * What fm_xqueue_submit() adds to a launch that nobody competes with: the same callback called
 * directly, and submitted to an XQueue of its own. The callback is next to nothing, so that the
 * difference is all Fermata's. The median of several rounds, interleaved, so that a change of clock
 * speed meets both.
 *
 *   bench_lib_submit [SUBMISSIONS]
 */
#include <fermata/fermata.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 21

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A device that has finished before anybody asks. */
static int launch(void *ctx, void *arg)
{
	unsigned long *count = ctx;

	*(volatile unsigned long *)count += 1;
	return 0;
}

static int sync_queue(void *ctx)
{
	return 0;
}

static int track(void *ctx, void (*reached)(void *cookie), void *cookie)
{
	reached(cookie);
	return 0;
}

static int deactivate(void *ctx, void **gate)
{
	*gate = ctx;
	return 0;
}

static void reactivate(void *ctx, void *gate)
{
}

static const struct fm_hwqueue_ops ops = {.size = sizeof(ops),
	.sync = sync_queue,
	.track = track,
	.deactivate = deactivate,
	.reactivate = reactivate};

static fm_xqueue *make_queue(unsigned long *count, unsigned level)
{
	const struct fm_xqueue_options o = {.size = sizeof(o), .level = level};
	fm_hwqueue *h;
	fm_xqueue *q;

	if (fm_hwqueue_create(&h, "bench:0", &ops, count) || fm_xqueue_create(&q, h, &o)) {
		fprintf(stderr, "bench_lib_submit: cannot make a queue\n");
		exit(1);
	}
	return q;
}

static double direct(unsigned long *count, unsigned long n)
{
	int (*volatile fn)(void *ctx, void *arg) = launch; /* as a driver's function is called */
	double start = now_ns();

	for (unsigned long i = 0; i < n; i++)
		fn(count, NULL);
	return (now_ns() - start) / (double)n;
}

static double submitted(fm_xqueue *q, unsigned long n)
{
	const struct fm_command c = {.fn = launch};
	double start = now_ns(), spent;

	for (unsigned long i = 0; i < n; i++)
		if (fm_xqueue_submit(q, &c, NULL))
			exit(1);
	spent = now_ns() - start;
	fm_xqueue_wait_all(q, FM_FOREVER);
	return spent / (double)n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), by_value);
	return v[ROUNDS / 2];
}

static const char *mode_of(fm_xqueue *q)
{
	struct fm_xqueue_info i = {.size = sizeof(i)};

	if (fm_xqueue_query(q, &i))
		exit(1);
	return i.level == 0 ? "off" : fm_scheduled() ? "scheduled" : "unscheduled";
}

static void measure(unsigned level, unsigned long n)
{
	double plain[ROUNDS], through[ROUNDS], p, t;
	unsigned long count = 0;
	fm_xqueue *q = make_queue(&count, level);
	const char *mode = mode_of(q);

	submitted(q, n); /* estimates are learnt */
	for (int i = 0; i < ROUNDS; i++) {
		plain[i] = direct(&count, n);
		through[i] = submitted(q, n);
	}
	fm_xqueue_destroy(q);
	if (count != (2 * ROUNDS + 1) * n)
		exit(1);
	p = median(plain);
	t = median(through);
	printf("lib_submit %s level=%u direct %.1f ns\n", mode, level, p);
	printf("lib_submit %s level=%u submit %.1f ns\n", mode, level, t);
	printf("lib_submit %s level=%u added %.1f ns\n", mode, level, t - p);
	printf("lib_submit %s level=%u ratio %.1f x\n", mode, level, t / p);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;

	if (n == 0 || n > 100000000) {
		fprintf(stderr, "usage: bench_lib_submit [SUBMISSIONS]\n");
		return 2;
	}
	for (unsigned level = 1; level <= 2; level++)
		measure(level, n);
	return 0;
}
