/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program that needs no toolkit, for script/lib/cuda_bench:
 *
 *	bench_cuda launch                              what launches, waits and streams cost:
 *	                                               past the shim, and through it
 *	bench_cuda serve N KERNEL_US PERIOD_US GAP_US [FILE]
 *	                                               a request of N kernels each period, so much
 *	                                               of the CPU's time between two launches; to
 *	                                               FILE when each was begun, had been launched,
 *	                                               and had ended, ns
 *	bench_cuda batch KERNEL_US BLOCKS              as many as the device takes, 200 queued
 *	bench_cuda stall KERNEL_US GRAPH               the same (GRAPH=0), or a graph of so many;
 *	                                               how long after its gate's close it stands
 *
 * All but launch say "ready", wait for "go BEGIN END" (CLOCK_MONOTONIC, ns), and answer in JSON.
 */
#include "past_shim.h"

static double shortest(stream s, const struct kernel *k)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t start = now_ns(), took;

		launch(s, k);
		CU(cuStreamSynchronize(s));
		took = now_ns() - start;
		best = took < best ? took : best;
	}
	return (double)best;
}

/* Who measures its kernels has the device for himself: programs like this one take turns until
 * they wait for their work. */
static int take_turn(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	flock(fd, LOCK_EX);
	return fd;
}

/* Device time of a round of work, of so many threads, measured until it is the same twice. */
static double round_ns(stream s, struct kernel k)
{
	enum { ROUNDS = 3000, TRIES = 20 };
	double ns = 0, before = -1;

	for (int i = 0; i < TRIES && !(ns > 0 && fabs(ns - before) < 0.02 * ns); i++) {
		before = ns;
		k.amount = ROUNDS;
		ns = shortest(s, &k);
		k.amount = 3 * ROUNDS;
		ns = (shortest(s, &k) - ns) / (2 * ROUNDS);
	}
	if (!(ns > 0 && fabs(ns - before) < 0.02 * ns))
		die("the device is too busy to be measured", 0);
	return ns;
}

/* A kernel of as much work as takes so long on a device that does nothing else. */
static struct kernel new_kernel(stream s, uint64_t ns, unsigned blocks, unsigned threads)
{
	struct kernel k = {kernel_work, blocks, threads, ns, 0};

	if (!kernel_work)
		return (struct kernel){kernel_spin, blocks, threads, ns, ns};
	k.amount = (uint64_t)((double)ns / round_ns(s, k)) + 1;
	return k;
}

/* --- what launches, waits and streams cost --- */

struct ground {
	stream a, b;
	event ea, eb;
};

/* The call alone: a burst that the driver's queue takes at once. ns */
static int burst(const struct ground *g, double *v)
{
	enum { BURST = 200 };
	uint64_t start = now_ns();

	for (int i = 0; i < BURST; i++)
		empty(g->a);
	*v = (double)(now_ns() - start) / BURST;
	CU(cuStreamSynchronize(g->a));
	return 1;
}

static int syncs(const struct ground *g, double *v)
{
	enum { N = 100 };

	for (int i = 0; i < N; i++) {
		uint64_t start = now_ns();

		empty(g->a);
		CU(cuStreamSynchronize(g->a));
		v[i] = (double)(now_ns() - start) / 1e3;
	}
	return N;
}

static int ping_pongs(const struct ground *g, double *v)
{
	enum { ROUNDS = 200 };
	uint64_t start = now_ns();

	for (int i = 0; i < ROUNDS; i++) {
		empty(g->a);
		CU(cuEventRecord(g->ea, g->a));
		CU(cuStreamWaitEvent(g->b, g->ea, 0));
		empty(g->b);
		CU(cuEventRecord(g->eb, g->b));
		CU(cuStreamWaitEvent(g->a, g->eb, 0));
	}
	CU(cuStreamSynchronize(g->a));
	*v = (double)(now_ns() - start) / 1e3 / ROUNDS;
	return 1;
}

static int stream_us(const struct ground *g, double *v, uint64_t ns)
{
	int n = (int)(30000000 / ns);
	uint64_t start = now_ns();

	for (int i = 0; i < n; i++)
		spin(g->a, ns, 132);
	CU(cuStreamSynchronize(g->a));
	*v = (double)(now_ns() - start) / 1e3 / n;
	return 1;
}

static int stream_3(const struct ground *g, double *v)
{
	return stream_us(g, v, 3000);
}

static int stream_30(const struct ground *g, double *v)
{
	return stream_us(g, v, 30000);
}

static int stream_300(const struct ground *g, double *v)
{
	return stream_us(g, v, 300000);
}

/* A turn measures once or more, to v, and leaves the device idle. */
static const struct cost {
	const char *p50, *p99;
	int (*turn)(const struct ground *g, double *v);
	int turns; /* of each way */
} costs[] = {
	{"launch_ns", NULL, burst, 300},
	{"sync_p50_us", "sync_p99_us", syncs, 100},
	{"ping_pong_us", NULL, ping_pongs, 80},
	{"stream_3_us", NULL, stream_3, 15},
	{"stream_30_us", NULL, stream_30, 15},
	{"stream_300_us", NULL, stream_300, 15},
};
enum { COSTS = sizeof(costs) / sizeof(costs[0]), MOST = 10000 };

/* Turns are short: the processor's own pace, and the driver's, change by more than what is looked
 * for. */
static void measure(const struct cost *c, const struct ground *g, bool both, double said[WAYS][2])
{
	static double v[WAYS][MOST];
	int n[WAYS] = {0};

	for (int t = 0; t < c->turns; t++) {
		for (int i = 0; i <= both; i++) {
			enum way way = both && (i + t) % 2 ? THROUGH : PAST;

			go(way);
			n[way] += c->turn(g, v[way] + n[way]);
		}
	}
	for (int way = PAST; way <= both; way++) {
		said[way][0] = part(v[way], n[way], 0.5);
		said[way][1] = part(v[way], n[way], 0.99);
	}
}

/* Past the shim, and through it if there is one. */
static void bench_launch(void)
{
	static const char *const names[WAYS] = {"past", "through"};
	double said[COSTS][WAYS][2], unused;
	struct ground g = {.a = new_stream(), .b = new_stream()};
	bool both = find_ways();

	CU(cuEventCreate(&g.ea, 2));
	CU(cuEventCreate(&g.eb, 2));
	for (int i = 0; i < 3; i++) { /* what is learnt at the start is learnt */
		stream_us(&g, &unused, 10000);
		ping_pongs(&g, &unused);
	}
	for (int i = 0; i < COSTS; i++)
		measure(&costs[i], &g, both, said[i]);
	for (int way = PAST; way <= both; way++) {
		printf("%s\"%s\": {", way ? ", " : "{", names[way]);
		for (int i = 0; i < COSTS; i++) {
			printf("%s\"%s\": %.3f", i ? ", " : "", costs[i].p50, said[i][way][0]);
			if (costs[i].p99)
				printf(", \"%s\": %.3f", costs[i].p99, said[i][way][1]);
		}
		printf("}");
	}
	printf("}\n");
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void write_times(const char *path, uint64_t (*times)[3], int n)
{
	FILE *f = fopen(path, "we");

	if (!f)
		die(path, 0);
	for (int i = 0; i < n; i++)
		fprintf(f, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", times[i][0], times[i][1],
			times[i][2]);
	if (fclose(f))
		die(path, 0);
}

static void serve(
	int kernels, uint64_t kernel_ns, uint64_t period_ns, uint64_t gap_ns, const char *path)
{
	static double v[200000];
	static uint64_t times[200000][3];
	int turn = take_turn();
	stream s = new_stream();
	struct kernel k = new_kernel(s, kernel_ns, 132, 64);
	uint64_t begin, end;
	int n = 0, missed = 0;

	launch(s, &k);
	CU(cuStreamSynchronize(s));
	close(turn);
	wait_for_go(&begin, &end);
	for (uint64_t next = begin; next < end && n < 200000; next += period_ns) {
		uint64_t start;

		sleep_until(next);
		start = now_ns();
		for (int i = 0; i < kernels; i++) {
			launch(s, &k);
			spend(gap_ns);
		}
		times[n][0] = start;
		times[n][1] = now_ns();
		CU(cuStreamSynchronize(s));
		times[n][2] = now_ns();
		v[n] = (double)(times[n][2] - start) / 1e3;
		n++;
		while (next + period_ns <
			now_ns()) { /* requests that were missed are not made up for */
			next += period_ns;
			missed++;
		}
	}
	printf("{\"requests\": %d, \"missed\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": "
	       "%.1f}\n",
		n, missed, part(v, n, 0.5), part(v, n, 0.99), part(v, n, 1));
	if (path)
		write_times(path, times, n);
}

/* --- programs that fill the device --- */

#define WIDE 1024 /* threads of a block: two such blocks fill a multiprocessor */

struct load {
	stream s;
	struct kernel kernel;
	graph_exec graph; /* NULL: kernels of their own */
	int graph_kernels;
};

static struct load new_load(uint64_t kernel_ns, unsigned blocks, int graph_kernels)
{
	struct load l = {.graph_kernels = graph_kernels};
	int turn = take_turn();
	graph g;

	l.s = new_stream();

	l.kernel = new_kernel(l.s, kernel_ns, blocks, WIDE);
	/* What was learnt of the kernel while it was measured is forgotten. */
	for (uint64_t i = 0; i < 20 || i * kernel_ns < 100000000; i++)
		launch(l.s, &l.kernel);
	CU(cuStreamSynchronize(l.s));
	close(turn);
	if (!graph_kernels)
		return l;
	CU(cuStreamBeginCapture_v2(l.s, 0));
	for (int i = 0; i < graph_kernels; i++)
		launch(l.s, &l.kernel);
	CU(cuStreamEndCapture(l.s, &g));
	CU(cuGraphInstantiateWithFlags(&l.graph, g, 0));
	CU(cuGraphLaunch(l.graph, l.s));
	CU(cuStreamSynchronize(l.s));
	return l;
}

static unsigned launch_some(const struct load *l)
{
	unsigned n = l->kernel.ns > 5000000 ? 1 : 20;

	if (l->graph) {
		CU(cuGraphLaunch(l->graph, l->s));
		return (unsigned)l->graph_kernels;
	}
	for (unsigned i = 0; i < n; i++)
		launch(l->s, &l->kernel);
	return n;
}

/* As many kernels as the device takes, 200 or so queued. */
static void keep_busy(const struct load *l, uint64_t begin, uint64_t end)
{
	enum { PARTS = 10 };
	event e[PARTS];
	uint64_t n = 0, last;

	for (int i = 0; i < PARTS; i++)
		CU(cuEventCreate(&e[i], 2));
	sleep_until(begin);
	for (unsigned i = 0, each = 0; (last = now_ns()) < end; i++) {
		if (i >= PARTS) {
			CU(cuEventSynchronize(e[i % PARTS]));
			n += each;
		}
		each = launch_some(l);
		CU(cuEventRecord(e[i % PARTS], l->s));
	}
	printf("{\"kernels\": %" PRIu64 ", \"per_s\": %.2f", n,
		(double)n * 1e9 / (double)(last - begin));
}

static void batch(uint64_t kernel_ns, unsigned blocks)
{
	struct load l = new_load(kernel_ns, blocks, 0);
	uint64_t begin, end;

	wait_for_go(&begin, &end);
	keep_busy(&l, begin, end);
	printf("}\n");
	fflush(stdout);
	CU(cuStreamSynchronize(l.s));
}

/* --- from the close of the gate to the stall, as the victim's own board shows it --- */

#define STALLS 20000

static struct watch {
	uint64_t end;
	int n;
	double stall_us[STALLS], go_us[STALLS];
} watching;

/* Spins until the gate is as wanted; when it was seen. 0: the time is over. */
static uint64_t gate_is(struct fm_slot *s, uint32_t wanted, uint64_t end)
{
	uint64_t now = now_ns();

	while (atomic_load_explicit(&s->gate, memory_order_acquire) != wanted)
		if ((now = now_ns()) >= end)
			return 0;
	return now;
}

/* The gate is closed: when the device began to wait there. A gate that it just passes makes it wait
 * for less than HOLD. 0: the gate opened first, or the time is over. */
static uint64_t stands_since(struct fm_slot *s, uint64_t end)
{
	enum { HOLD = 20000 };
	uint64_t since = 0, now = 0;

	while (!since || now - since < HOLD) {
		now = now_ns();
		if (now >= end || atomic_load(&s->gate) != FM_GATE_CLOSED)
			return 0;
		if (!fm_slot_waits(s))
			since = 0;
		else if (!since)
			since = now;
	}
	return since;
}

static void *watch(void *board)
{
	struct fm_slot *s = ((struct fm_board *)board)->slot;
	struct watch *w = &watching;
	uint64_t closed, stood, open;

	while (w->n < STALLS && (closed = gate_is(s, FM_GATE_CLOSED, w->end))) {
		stood = stands_since(s, w->end);
		open = gate_is(s, FM_GATE_OPEN, w->end);
		if (!stood || !open)
			continue;
		while (fm_slot_waits(s))
			;
		w->go_us[w->n] = (double)(now_ns() - open) / 1e3;
		w->stall_us[w->n++] = (double)(stood > closed ? stood - closed : 0) / 1e3;
	}
	return NULL;
}

static void stall(uint64_t kernel_ns, int graph_kernels)
{
	struct load l = new_load(kernel_ns, 264, graph_kernels);
	struct fm_board *board = own_board();
	struct watch *w = &watching;
	pthread_t thread;
	uint64_t begin;

	if (!board)
		die("this program is not governed", 0);
	wait_for_go(&begin, &w->end);
	if (pthread_create(&thread, NULL, watch, board))
		die("no thread", 0);
	keep_busy(&l, begin, w->end);
	pthread_join(thread, NULL);
	printf(", \"stalls\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, "
	       "\"go_p50_us\": %.1f, \"go_p99_us\": %.1f}\n",
		w->n, part(w->stall_us, w->n, 0.5), part(w->stall_us, w->n, 0.99),
		part(w->stall_us, w->n, 1), part(w->go_us, w->n, 0.5), part(w->go_us, w->n, 0.99));
	fflush(stdout);
	CU(cuStreamSynchronize(l.s));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!(strcmp(what, "launch") == 0 && argc == 2) &&
		!(strcmp(what, "serve") == 0 && (argc == 6 || argc == 7)) &&
		!(strcmp(what, "batch") == 0 && argc == 4) &&
		!(strcmp(what, "stall") == 0 && argc == 4)) {
		fputs("usage: bench_cuda launch | serve N KERNEL_US PERIOD_US GAP_US [FILE] | "
		      "batch "
		      "KERNEL_US "
		      "BLOCKS | stall KERNEL_US GRAPH\n",
			stderr);
		return 2;
	}
	open_device();
	if (*what == 'l')
		bench_launch();
	else if (strcmp(what, "serve") == 0)
		serve(atoi(argv[2]), strtoull(argv[3], NULL, 10) * 1000,
			strtoull(argv[4], NULL, 10) * 1000, strtoull(argv[5], NULL, 10) * 1000,
			argc == 7 ? argv[6] : NULL);
	else if (*what == 'b')
		batch(strtoull(argv[2], NULL, 10) * 1000, (unsigned)atoi(argv[3]));
	else
		stall(strtoull(argv[2], NULL, 10) * 1000, atoi(argv[3]));
	return 0;
}
