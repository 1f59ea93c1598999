/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For script/lib/vulkan_bench; all answer in JSON:
 *
 *	gpu_vulkan job DISPATCH_US DISPATCHES PERIOD_US
 *	                          a job each period, of so many submissions of one dispatch
 *	gpu_vulkan batch DISPATCH_US DISPATCHES
 *	                          fills the device, with so many dispatches in each submission
 *	gpu_vulkan stall DISPATCH_US DISPATCHES
 *	                          the same; how long after its gate's close the last submission
 *ended and after its opening the first, as the program sees it gpu_vulkan open ROUNDS    from a
 *signal of the host until the driver has passed it, with a short command: past the layer, and
 *through it gpu_vulkan cost           what submissions cost past the layer, and through it: both in
 *this process, by turns
 *
 * The first three say "ready" and wait for "go BEGIN END" (CLOCK_MONOTONIC, ns). The last two ask
 * for the layer themselves.
 */
#include "board/board.h"
#include "vk.h"
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LONG  (60000 * MS) /* what takes that long never ends */
#define TURNS 300u         /* of a measurement, as far as there is time for them */
#define TIME  (6000 * MS)

static bool is(const char *a, const char *b)
{
	return !strcmp(a, b);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double part(double *v, unsigned n, double p)
{
	qsort(v, n, sizeof(*v), by_value);
	return n ? v[(unsigned)(p * (n - 1) + 0.5)] : 0;
}

static void must_wait(struct lane *l, uint64_t value)
{
	if (!lane_wait(l, value, LONG))
		die("it does not end", 0);
}

/* --- programs that work beside others --- */

static struct gpu gpu;
static struct lane lane;
static VkCommandBuffer commands;
static uint64_t begin, end;

/* What measures its dispatches has the device for itself: programs like this one, and bench_cuda,
 * take turns until they wait for their work. */
static int take_turn(void)
{
	char path[512];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	char *folder;
	int fd;

	path[n > 0 ? n : 0] = 0;
	folder = strstr(path, "/tests/gpu_vulkan");
	if (folder)
		memcpy(folder, "/bench/bench_cuda", sizeof("/bench/bench_cuda"));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	flock(fd, LOCK_EX);
	return fd;
}

static void get_ready(uint64_t dispatch_ns, unsigned dispatches)
{
	int turn;

	gpu_open(&gpu, NULL, 1);
	lane_open(&lane, &gpu, gpu.compute, 0, gpu_words(&gpu));
	turn = take_turn();
	commands = lane_record(&lane, dispatches, lane_steps(&lane, dispatch_ns));
	/* What was learnt of it while it was measured is forgotten. */
	for (int i = 0; i < 20; i++)
		must_wait(&lane, lane_run(&lane, commands));
	close(turn);
	puts("ready");
	fflush(stdout);
	if (scanf("go %" SCNu64 " %" SCNu64, &begin, &end) != 2)
		exit(1);
}

static void sleep_until(uint64_t ns)
{
	uint64_t now = now_ns();

	if (now < ns)
		sleep_ns(ns - now);
}

static void job(uint64_t dispatch_ns, unsigned submissions, uint64_t period_ns)
{
	static double v[100000], between[100000];
	unsigned n = 0, missed = 0;
	uint64_t ended = 0, now;

	get_ready(dispatch_ns, 1);
	for (uint64_t next = begin; next < end && n < 100000; next += period_ns) {
		uint64_t start;

		sleep_until(next);
		start = now_ns();
		for (unsigned i = 0; i < submissions; i++)
			lane_run(&lane, commands);
		must_wait(&lane, lane.value);
		now = now_ns();
		if (n)
			between[n - 1] = (double)(now - ended) / 1e3;
		v[n++] = (double)(now - start) / 1e3;
		ended = now;
		for (; next + period_ns < now_ns(); missed++)
			next += period_ns;
	}
	printf("{\"requests\": %u, \"missed\": %u, \"p50_us\": %.1f, \"p99_us\": %.1f, "
	       "\"max_us\": %.1f, \"between_p99_us\": %.1f, \"between_max_us\": %.1f}\n",
		n, missed, part(v, n, 0.5), part(v, n, 0.99), part(v, n, 1),
		n > 1 ? part(between, n - 1, 0.99) : 0, n > 1 ? part(between, n - 1, 1) : 0);
}

static void keep_busy(unsigned dispatches)
{
	const unsigned ahead = dispatches >= 64 ? 4 : dispatches >= 8 ? 8 : 64;
	uint64_t from = lane.value, last;

	sleep_until(begin);
	while ((last = now_ns()) < end) {
		if (lane.value - from >= ahead)
			must_wait(&lane, lane.value + 1 - ahead);
		lane_run(&lane, commands);
	}
	printf("{\"per_s\": %.2f",
		(double)((lane_at(&lane) - from) * dispatches) * 1e9 / (double)(last - begin));
}

static void batch(uint64_t dispatch_ns, unsigned dispatches)
{
	get_ready(dispatch_ns, dispatches);
	keep_busy(dispatches);
	printf("}\n");
	fflush(stdout);
	must_wait(&lane, lane.value);
}

/* --- from the close of the gate until nothing ends any more --- */

#define STALLS 10000

static struct watch {
	struct fm_slot *slot;
	uint64_t submission_ns;
	unsigned n, unstood;
	double stall_us[STALLS], go_us[STALLS];
} watching;

/* This process' board, by its mapping. */
static struct fm_board *own_board(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long at = 0;

	while (f && !at && fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:fermata-board"))
			sscanf(line, "%lx", &at);
	if (f)
		fclose(f);
	return (struct fm_board *)at;
}

/* Looks until the gate is as wanted, and when the last submission ended meanwhile (0: none did).
 * When that was; 0: the time is over. */
static uint64_t gate_is(struct fm_slot *s, uint32_t wanted, uint64_t *at, uint64_t *last)
{
	uint64_t now, value;

	while ((now = now_ns()) < end) {
		if (atomic_load_explicit(&s->gate, memory_order_acquire) == wanted)
			return now;
		value = lane_at(&lane);
		if (value != *at)
			*last = now;
		*at = value;
	}
	return 0;
}

static void *watch(void *arg)
{
	struct watch *w = arg;
	uint64_t closed, opened, at = 0, last = 0, first;

	while (w->n < STALLS && (closed = gate_is(w->slot, FM_GATE_CLOSED, &at, &last))) {
		at = lane_at(&lane);
		last = 0;
		opened = gate_is(w->slot, FM_GATE_OPEN, &at, &last);
		if (!opened)
			break;
		if (opened - (last ? last : closed) < 2 * w->submission_ns) {
			w->unstood++;
			continue;
		}
		while ((first = now_ns()) < end && lane_at(&lane) == at)
			;
		w->stall_us[w->n] = last ? (double)(last - closed) / 1e3 : 0;
		w->go_us[w->n++] = (double)(first - opened) / 1e3;
	}
	return NULL;
}

static void stall(uint64_t dispatch_ns, unsigned dispatches)
{
	struct watch *w = &watching;
	struct fm_board *board;
	pthread_t thread;

	get_ready(dispatch_ns, dispatches);
	board = own_board();
	if (!board)
		die("this program is not scheduled", 0);
	w->slot = board->slot;
	w->submission_ns = dispatch_ns * dispatches;
	if (pthread_create(&thread, NULL, watch, w))
		die("no thread", 0);
	keep_busy(dispatches);
	pthread_join(thread, NULL);
	printf(", \"stalls\": %u, \"unstood\": %u, \"p50_us\": %.1f, \"p99_us\": %.1f, "
	       "\"max_us\": %.1f, \"go_p50_us\": %.1f, \"go_p99_us\": %.1f}\n",
		w->n, w->unstood, part(w->stall_us, w->n, 0.5), part(w->stall_us, w->n, 0.99),
		part(w->stall_us, w->n, 1), part(w->go_us, w->n, 0.5), part(w->go_us, w->n, 0.99));
	fflush(stdout);
	must_wait(&lane, lane.value);
}

/* --- past the layer, and through it --- */

enum way { PAST, THROUGH, WAYS };
static const char *const way_name[WAYS] = {"past", "through"};
#define THREADS 8u

static struct gpu gpus[WAYS][THREADS];
static struct lane lanes[WAYS][THREADS];

/* Lanes on queues of one device if it has as many, else each on a device of its own. */
static void open_lanes(unsigned n)
{
	for (int way = PAST; way < WAYS; way++)
		for (unsigned i = 0; i < n; i++) {
			struct gpu *g = &gpus[way][0];

			if (i == 0 || g->queues[g->compute] < n) {
				g = &gpus[way][i];
				gpu_open(g, way == THROUGH ? LAYER : NULL, n);
			}
			lane_open(&lanes[way][i], g, g->compute, g == &gpus[way][0] ? i : 0,
				gpu_words(g));
		}
}

static void close_lanes(unsigned n)
{
	for (int way = PAST; way < WAYS; way++) {
		for (unsigned i = 0; i < n; i++)
			lane_close(&lanes[way][i]);
		for (unsigned i = 0; i < n; i++)
			if (gpus[way][i].device)
				gpu_close(&gpus[way][i]);
	}
}

static void open_gates(unsigned rounds)
{
	static double v[WAYS][10000];
	VkCommandBuffer c[WAYS];

	open_lanes(1);
	for (int way = PAST; way < WAYS; way++)
		c[way] = lane_record(&lanes[way][0], 1, 1);
	for (unsigned i = 0; i < rounds && i < 10000; i++)
		for (int way = PAST; way < WAYS; way++) {
			struct lane *l = &lanes[way][0];
			VkSemaphore gate = timeline_new(l->g);
			uint64_t from;

			lane_submit(l,
				&(struct order){.commands = c[way], .wait = gate, .wait_value = 1});
			sleep_ns(MS);
			from = now_ns();
			timeline_signal(l->g, gate, 1);
			while (lane_at(l) != l->value)
				;
			v[way][i] = (double)(now_ns() - from) / 1e3;
			semaphore_end(l->g, gate);
		}
	for (int way = PAST; way < WAYS; way++)
		printf("%s\"%s_p50_us\": %.1f, \"%s_p99_us\": %.1f", way ? ", " : "{",
			way_name[way], part(v[way], rounds, 0.5), way_name[way],
			part(v[way], rounds, 0.99));
	printf("}\n");
	close_lanes(1);
}

/* Submissions of one dispatch each, 8 ahead: ms for all of them. */
static double stream_ms(struct lane *l, VkCommandBuffer c)
{
	enum { N = 60, AHEAD = 8 };
	uint64_t from = now_ns();

	for (int i = 0; i < N; i++) {
		if (i >= AHEAD)
			must_wait(l, l->value + 1 - AHEAD);
		lane_run(l, c);
	}
	must_wait(l, l->value);
	return (double)(now_ns() - from) / 1e6;
}

/* By turns: the paces of processors and devices change by more than what is looked for. */
static void streams(void)
{
	enum { MOST = 15 };
	double v[WAYS][MOST];
	VkCommandBuffer c[WAYS];
	uint64_t until;
	unsigned t = 0;
	uint32_t steps;

	open_lanes(1);
	steps = lane_steps(&lanes[PAST][0], MS);
	for (int way = PAST; way < WAYS; way++) {
		c[way] = lane_record(&lanes[way][0], 1, steps);
		stream_ms(&lanes[way][0], c[way]);
	}
	for (until = now_ns() + TIME; t < MOST && now_ns() < until; t++)
		for (unsigned i = 0; i < WAYS; i++) {
			unsigned way = (i + t) % 2;

			v[way][t] = stream_ms(&lanes[way][0], c[way]);
		}
	for (int way = PAST; way < WAYS; way++)
		printf("%s\"stream_%s_ms\": %.3f", way ? ", " : "{", way_name[way],
			part(v[way], t, 0.5));
	close_lanes(1);
	memset(gpus, 0, sizeof(gpus));
}

struct burst {
	pthread_t thread;
	struct lane *l;
	VkCommandBuffer c;
	pthread_barrier_t *all;
	double ns;
};

/* The call alone: as many as the driver takes at once. */
static void *submit_burst(void *arg)
{
	enum { N = 64 };
	struct burst *b = arg;
	const VkSubmitInfo batch = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.commandBufferCount = 1,
		.pCommandBuffers = &b->c};
	uint64_t from;

	pthread_barrier_wait(b->all);
	from = now_ns();
	for (int i = 0; i < N; i++)
		VK(b->l->g->submit(b->l->queue, 1, &batch, VK_NULL_HANDLE));
	b->ns = (double)(now_ns() - from) / N;
	return NULL;
}

static double burst_ns(struct burst *b, unsigned n)
{
	pthread_barrier_t all;
	double sum = 0;

	pthread_barrier_init(&all, NULL, n);
	for (unsigned i = 0; i < n; i++) {
		b[i].all = &all;
		if (pthread_create(&b[i].thread, NULL, submit_burst, &b[i]))
			die("no thread", 0);
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(b[i].thread, NULL);
		sum += b[i].ns;
	}
	for (unsigned i = 0; i < n; i++)
		VK(vkQueueWaitIdle(b[i].l->queue));
	pthread_barrier_destroy(&all);
	return sum / n;
}

static void submits(unsigned n)
{
	static double v[WAYS][TURNS];
	static struct burst b[WAYS][THREADS];
	uint64_t until;
	unsigned t = 0;

	open_lanes(n);
	for (int way = PAST; way < WAYS; way++)
		for (unsigned i = 0; i < n; i++)
			b[way][i] = (struct burst){
				.l = &lanes[way][i], .c = lane_record(&lanes[way][i], 0, 0)};
	for (int i = 0; i < 2 * WAYS; i++)
		burst_ns(b[i % WAYS], n);
	for (until = now_ns() + TIME; t < TURNS && now_ns() < until; t++)
		for (unsigned i = 0; i < WAYS; i++) {
			unsigned way = (i + t) % 2;

			v[way][t] = burst_ns(b[way], n);
		}
	for (int way = PAST; way < WAYS; way++)
		printf(", \"submit_%s_%u_ns\": %.0f", way_name[way], n, part(v[way], t, 0.5));
	close_lanes(n);
	memset(gpus, 0, sizeof(gpus));
}

bool measure(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t us = argc > 2 ? strtoull(argv[2], NULL, 10) * 1000 : 0;
	unsigned n = argc > 3 ? (unsigned)atoi(argv[3]) : 0;

	if (is(what, "job") && argc == 5) {
		job(us, n, strtoull(argv[4], NULL, 10) * 1000);
	} else if (is(what, "batch") && argc == 4) {
		batch(us, n);
	} else if (is(what, "stall") && argc == 4) {
		stall(us, n);
	} else if (is(what, "open") && argc == 3) {
		open_gates((unsigned)(us / 1000));
	} else if (is(what, "cost") && argc == 2) {
		streams();
		submits(1);
		submits(THREADS);
		printf("}\n");
	} else {
		return false;
	}
	return true;
}
