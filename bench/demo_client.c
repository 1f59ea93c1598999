/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of script/demo: ordinary OpenCL programs that know nothing of Fermata.
 *
 *   demo_client calibrate REQUEST_US KERNEL_US    sizes for this device; all runs use the same
 *   demo_client serve HEIGHT PERIOD_US            a request (net.h) each period
 *   demo_client batch ITERS                       kernels (batch.h) without end, up to DEPTH queued
 *   demo_client chunks ITERS KERNELS PERIOD_US    kernels, so many at once each period
 *
 * serve, batch and chunks print "ready" when they are warm, read "go FROM UNTIL" (CLOCK_MONOTONIC,
 * ns), work, and print one line of JSON. Latency counts from the request's scheduled arrival, so a
 * late start of one request is a part of its latency. The exit status is 0 only if all results were
 * right.
 */
#include "batch.h"
#include "net.h"
#include <inttypes.h>

#define DEPTH      64 /* commands that the batch job keeps queued, in two halves */
#define SAMPLES    100000
#define MIN_HEIGHT 8
#define MAX_HEIGHT 512

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The best of some: what this device can do when nobody else disturbs it. */
static uint64_t request_ns(struct ocl *o, cl_command_queue q, int height)
{
	uint64_t best = UINT64_MAX;
	int logits[NET_LOGITS];
	struct net n;

	net_open(&n, o, height);
	net_run(&n, q, 0, logits); /* compiles for these sizes */
	for (int i = 0; i < 9; i++) {
		uint64_t t0 = now_ns();

		net_run(&n, q, i % NET_INPUTS, logits);
		best = least(best, now_ns() - t0);
	}
	net_close(&n);
	return best;
}

static uint64_t kernel_ns(struct ocl *o, cl_command_queue q, cl_uint iters)
{
	uint64_t best = UINT64_MAX;
	struct batch b;

	batch_open(&b, o, iters);
	batch_enqueue(&b, q, 1, NULL);
	OCL(clFinish(q));
	for (int i = 0; i < 9; i++) {
		uint64_t t0 = now_ns();

		batch_enqueue(&b, q, 16, NULL);
		OCL(clFinish(q));
		best = least(best, (now_ns() - t0) / 16);
	}
	batch_close(&b);
	return best;
}

/* What lies between two measured costs at which the wish lies, within [lo, hi]. */
static uint64_t interpolate(
	uint64_t n0, uint64_t t0, uint64_t n1, uint64_t t1, uint64_t wish, uint64_t lo, uint64_t hi)
{
	double slope = t1 > t0 ? (double)(t1 - t0) / (double)(n1 - n0) : 1;
	double n = (double)n0 + ((double)wish - (double)t0) / slope;

	return n < (double)lo ? lo : n > (double)hi ? hi : (uint64_t)n;
}

static int calibrate(struct ocl *o, uint64_t want_request, uint64_t want_kernel)
{
	cl_command_queue q = ocl_queue(o, 0);
	uint64_t r0 = request_ns(o, q, 16), r1 = request_ns(o, q, 48), k0, k1, request, kernel;
	int height = (int)interpolate(16, r0, 48, r1, want_request, MIN_HEIGHT, MAX_HEIGHT) & ~1;
	cl_uint iters = 64, big = 1024;

	k0 = kernel_ns(o, q, iters);
	while ((k1 = kernel_ns(o, q, big)) < want_kernel / 4 && big < 1u << 24)
		big *= 4;
	iters = (cl_uint)interpolate(iters, k0, big, k1, want_kernel, 16, 1u << 26);
	request = request_ns(o, q, height);
	kernel = kernel_ns(o, q, iters);
	OCL(clReleaseCommandQueue(q));
	printf("{\"device\": \"%s\", \"type\": \"%s\", \"height\": %d, \"request_us\": %.1f, "
	       "\"chain\": %d, \"iters\": %u, \"kernel_us\": %.1f}\n",
		o->name,
		o->type & CL_DEVICE_TYPE_GPU   ? "gpu"
		: o->type & CL_DEVICE_TYPE_CPU ? "cpu"
					       : "accelerator",
		height, (double)request / 1e3, NET_CHAIN, iters, (double)kernel / 1e3);
	return 0;
}

static void wait_for_go(uint64_t *from, uint64_t *until)
{
	char line[128];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin) ||
		sscanf(line, "go %" SCNu64 " %" SCNu64, from, until) != 2)
		die("expected: go FROM UNTIL");
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The smallest sample that at least the fraction q of all does not exceed. v is sorted. */
static double quantile_us(const uint64_t *v, size_t n, double q)
{
	size_t i = (size_t)(q * (double)n);

	if ((double)i < q * (double)n)
		i++;
	return n ? (double)v[i ? i - 1 : 0] / 1e3 : 0;
}

static int serve(struct ocl *o, int height, uint64_t period)
{
	static uint64_t latency[SAMPLES];
	cl_command_queue q = ocl_queue(o, 0);
	uint64_t from, until, at, service = 0;
	int logits[NET_LOGITS];
	size_t n = 0, wrong = 0;
	struct net net;

	net_open(&net, o, height);
	net_host_reference(&net);
	for (int i = 0; i < 3 * NET_INPUTS; i++)
		net_run(&net, q, i % NET_INPUTS, logits);
	wait_for_go(&from, &until);
	for (at = from; at < until && n < SAMPLES; at += period, n++) {
		int input = (int)(n % NET_INPUTS);
		uint64_t begin, end;

		sleep_until(at);
		begin = now_ns();
		net_run(&net, q, input, logits);
		end = now_ns();
		latency[n] = end - at;
		service += end - begin;
		wrong += memcmp(logits, net.expected[input], sizeof(logits)) != 0;
	}
	net_close(&net);
	OCL(clReleaseCommandQueue(q));
	qsort(latency, n, sizeof(latency[0]), compare);
	printf("{\"requests\": %zu, \"wrong\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f, "
	       "\"max_us\": %.1f, \"service_us\": %.1f}\n",
		n, wrong, quantile_us(latency, n, 0.5), quantile_us(latency, n, 0.99),
		quantile_us(latency, n, 1), n ? (double)service / (double)n / 1e3 : 0);
	return wrong || !n;
}

/* Kernels that completed within the window, taking each half of the queue to complete evenly. */
static double within(uint64_t t0, uint64_t t1, uint64_t from, uint64_t until, unsigned n)
{
	uint64_t lo = t0 > from ? t0 : from, hi = t1 < until ? t1 : until;

	return hi > lo ? (double)n * (double)(hi - lo) / (double)(t1 - t0) : 0;
}

static int batch(struct ocl *o, cl_uint iters)
{
	cl_command_queue q = ocl_queue(o, 0);
	cl_event half[2] = {NULL, NULL};
	uint64_t from, until, t0, t1;
	double kernels = 0;
	unsigned wrong, turn = 0;
	struct batch b;

	batch_open(&b, o, iters);
	batch_enqueue(&b, q, DEPTH, NULL);
	OCL(clFinish(q));
	wait_for_go(&from, &until);
	batch_enqueue(&b, q, DEPTH / 2, &half[0]);
	for (t0 = now_ns(); t0 < until; t0 = t1, turn ^= 1) {
		batch_snapshot(&b, q);
		batch_enqueue(&b, q, DEPTH / 2, &half[turn ^ 1]);
		OCL(clWaitForEvents(1, &half[turn]));
		OCL(clReleaseEvent(half[turn]));
		t1 = now_ns();
		kernels += within(t0, t1, from, until, DEPTH / 2);
	}
	OCL(clReleaseEvent(half[turn]));
	wrong = batch_check(&b, q);
	batch_close(&b);
	OCL(clReleaseCommandQueue(q));
	printf("{\"kernels\": %.1f, \"per_s\": %.2f, \"wrong\": %u}\n", kernels,
		kernels * 1e9 / (double)(until - from), wrong);
	return wrong != 0;
}

/* Each period a chunk of work, which is submitted at once and is due at the period's end; one that
 * comes while the last one is not done waits for it. */
static int chunks(struct ocl *o, cl_uint iters, unsigned kernels, uint64_t period)
{
	static uint64_t latency[SAMPLES];
	cl_command_queue q = ocl_queue(o, 0);
	uint64_t from, until, at;
	size_t n = 0, late = 0;
	struct batch b;
	unsigned wrong;

	batch_open(&b, o, iters);
	batch_enqueue(&b, q, kernels, NULL);
	OCL(clFinish(q));
	wait_for_go(&from, &until);
	for (at = from; at + period <= until && n < SAMPLES; at += period, n++) {
		sleep_until(at);
		batch_enqueue(&b, q, kernels, NULL);
		OCL(clFinish(q));
		latency[n] = now_ns() - at;
		late += latency[n] > period;
	}
	batch_snapshot(&b, q);
	wrong = batch_check(&b, q);
	batch_close(&b);
	OCL(clReleaseCommandQueue(q));
	qsort(latency, n, sizeof(latency[0]), compare);
	printf("{\"chunks\": %zu, \"late\": %zu, \"p50_us\": %.1f, \"max_us\": %.1f, "
	       "\"wrong\": %u}\n",
		n, late, quantile_us(latency, n, 0.5), quantile_us(latency, n, 1), wrong);
	return wrong || !n;
}

static uint64_t number(const char *s, uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long v = strtoull(s, &end, 10);

	if (end == s || *end || v < min || v > max)
		die("%s: not a number from %" PRIu64 " to %" PRIu64, s, min, max);
	return v;
}

int main(int argc, char **argv)
{
	struct ocl o;
	int rc;

	if (argc == 4 && !strcmp(argv[1], "calibrate")) {
		ocl_open(&o);
		rc = calibrate(&o, 1000 * number(argv[2], 100, 1000000),
			1000 * number(argv[3], 1, 1000000));
	} else if (argc == 4 && !strcmp(argv[1], "serve")) {
		ocl_open(&o);
		rc = serve(&o, (int)number(argv[2], MIN_HEIGHT, MAX_HEIGHT) & ~1,
			1000 * number(argv[3], 100, 60000000));
	} else if (argc == 3 && !strcmp(argv[1], "batch")) {
		ocl_open(&o);
		rc = batch(&o, (cl_uint)number(argv[2], 1, 1u << 26));
	} else if (argc == 5 && !strcmp(argv[1], "chunks")) {
		ocl_open(&o);
		rc = chunks(&o, (cl_uint)number(argv[2], 1, 1u << 26),
			(unsigned)number(argv[3], 1, 100000),
			1000 * number(argv[4], 100, 60000000));
	} else {
		die("usage: demo_client calibrate REQUEST_US KERNEL_US | serve HEIGHT PERIOD_US | "
		    "batch ITERS | chunks ITERS KERNELS PERIOD_US");
	}
	OCL(clReleaseContext(o.ctx));
	return rc;
}
