/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P11: three processes on a device that holds the sets of two. In each round one goes out (its
 * memory is unmapped alone, after the copy), another comes in where the first gives room, the third
 * computes. Nothing is made ready for it on the host.
 */
#include "rounds.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared *sh;
int me;
static struct {
	CUdeviceptr home, bad, sink, rest[64];
	handle h[CHUNKS];
	CUevent events[CHUNKS];
	CUstream s;
	CUfunction fill, check, read;
	int n, group, n_rest;
} w;
#define IN_FLIGHT (512 * MiB)
#define LEFT      (384 * MiB) /* of the device, beside two sets */

static uint64_t seed(void)
{
	return 1000 + (uint64_t)me;
}

static size_t chunk(void)
{
	return sh->row.chunk;
}

static CUdeviceptr home(int i)
{
	return w.home + (size_t)i * chunk();
}

/* What of a chunk is used: whole pieces. */
static size_t used(void)
{
	return chunk() / sh->row.piece * sh->row.piece;
}

static void run(CUfunction f, CUdeviceptr p, size_t bytes, void **rest, int n)
{
	uint64_t n16 = bytes / 16;
	void *params[8] = {&p, &n16};

	for (int i = 0; i < n; i++)
		params[2 + i] = rest[i];
	CK(cu.cuLaunchKernel(f, 1056, 1, 1, 256, 1, 1, 0, w.s, params, NULL));
}

static void fill(void)
{
	for (int i = 0; i < w.n; i++) {
		uint64_t s = seed() + (uint64_t)i * chunk() / 16;
		void *rest[] = {&s};

		run(w.fill, home(i), used(), rest, 1);
	}
	CK(cu.cuStreamSynchronize(w.s));
}

static void check(uint64_t step)
{
	uint64_t bad = 0;

	CK(cu.cuMemsetD8Async(w.bad, 0, 8, w.s));
	for (int i = 0; i < w.n; i++) {
		uint64_t s = seed() + (uint64_t)i * chunk() / 16;
		void *rest[] = {&s, &step, &w.bad};

		run(w.check, home(i), used(), rest, 3);
	}
	CK(cu.cuMemcpyDtoHAsync_v2(&bad, w.bad, 8, w.s));
	CK(cu.cuStreamSynchronize(w.s));
	atomic_fetch_add(&sh->bad, bad);
}

static void setup(void)
{
	w.n = (int)(sh->set / chunk());
	w.group = chunk() < 32 * MiB ? (int)(32 * MiB / chunk()) : 1;
	w.home = gpu_reserve(sh->set, 2 * MiB);
	for (int i = 0; i < w.n; i++) {
		CK(chunk_new(&w.h[i], ON_DEVICE, chunk()));
		CK(vm.cuMemMap(home(i), chunk(), 0, w.h[i], 0));
	}
	for (int i = 0; i < w.n || i < 4; i++)
		if (!w.events[i])
			CK(cu.cuEventCreate(&w.events[i], CU_EVENT_DISABLE_TIMING));
	CK(chunk_access(w.home, (size_t)w.n * chunk()));
	room_setup();
	fill();
}

static void copy(int i, bool out)
{
	CUdeviceptr host = room_of(i), device = home(i);

	for (size_t at = 0; at < used(); at += sh->row.piece)
		CK(cu.cuMemcpyAsync(out ? host + at : device + at, out ? device + at : host + at,
			sh->row.piece, w.s));
	CK(cu.cuEventRecord(w.events[i], w.s));
}

/* How many of the chunks from i on have been copied, a group at most. */
static int copied(int i, int issued)
{
	int n = 0;

	while (n < w.group && i + n < issued && !cu.cuEventQuery(w.events[i + n]))
		n++;
	return n;
}

static void leave(void)
{
	int issued = 0, gone = 0, n;
	double t;

	while (gone < w.n) {
		if (issued < w.n && (size_t)(issued - gone) * chunk() < IN_FLIGHT) {
			t = now_us();
			room_get(issued);
			sh->get_us[me] += now_us() - t;
			copy(issued++, true);
		}
		n = copied(gone, issued);
		if (!n)
			continue;
		t = now_us();
		CK(vm.cuMemUnmap(home(gone), (size_t)n * chunk()));
		for (int i = gone; i < gone + n; i++)
			CK(vm.cuMemRelease(w.h[i]));
		sh->unmap_us[me] += now_us() - t;
		gone += n;
		atomic_store(&sh->out, gone);
	}
}

/* Chunks as they become free on the device. */
static void make(int from, int n)
{
	double t = now_us();
	int rc;

	for (int i = from; i < from + n; i++) {
		while ((rc = chunk_new(&w.h[i], ON_DEVICE, chunk())) == CU_OUT_OF_MEMORY &&
			now_us() - t < 2e6)
			;
		CK(rc);
		CK(vm.cuMemMap(home(i), chunk(), 0, w.h[i], 0));
	}
	CK(chunk_access(home(from), (size_t)n * chunk()));
	sh->make_us[me] += now_us() - t;
}

static void come(void)
{
	int issued = 0, in = 0, n;

	while (in < w.n) {
		n = w.n - issued < w.group ? w.n - issued : w.group;
		if (n && atomic_load(&sh->out) >= issued + n &&
			(size_t)(issued - in) * chunk() < IN_FLIGHT) {
			make(issued, n);
			for (int i = issued; i < issued + n; i++) {
				room_get(i); /* what is there; it may not be registered here yet */
				copy(i, false);
			}
			issued += n;
		}
		for (n = copied(in, issued); n > 0; n--)
			room_put(in++);
	}
}

static void compute(void)
{
	void *rest[] = {&w.sink};
	double since = now_us();

	for (uint64_t i = 0; !atomic_load(&sh->stop) && now_us() - since < 8e6; i++) {
		if (i >= 4) {
			CK(cu.cuEventSynchronize(w.events[i & 3]));
			atomic_fetch_add(&sh->read_bytes, (size_t)w.n * chunk());
		}
		if (i == 6) {
			atomic_store(&sh->read_bytes, 0);
			sh->read_us = now_us();
			atomic_store(&sh->computing, 1);
		}
		run(w.read, w.home, (size_t)w.n * chunk(), rest, 1);
		CK(cu.cuEventRecord(w.events[i & 3], w.s));
	}
	CK(cu.cuStreamSynchronize(w.s));
}

static void round_of(void)
{
	int out = sh->round % MOVERS, in = (sh->round + 2) % MOVERS;
	double since = now_us();

	if (me != out && me != in) {
		if (sh->row.beside)
			compute();
		return;
	}
	while (!atomic_load(&sh->go))
		if (now_us() - since > 9e6)
			_exit(3);
	if (me == out)
		leave();
	else
		come();
	sh->ended[me] = now_us();
	if (me == in) {
		atomic_store(&sh->stop, 1);
		check(16);
	}
}

/* The fourth process: what is left of the device, so that what comes in must wait for what goes
 * out. */
static void take_rest(void)
{
	size_t left, total, each;

	CK(cu.cuMemGetInfo_v2(&left, &total));
	while (left > LEFT + 2 * MiB && w.n_rest < 64) {
		each = left - LEFT > 8 * GiB ? 8 * GiB : (left - LEFT) / (2 * MiB) * (2 * MiB);
		if (cu.cuMemAlloc_v2(&w.rest[w.n_rest], each))
			break;
		w.n_rest++;
		CK(cu.cuMemGetInfo_v2(&left, &total));
	}
}

static void give_rest(void)
{
	while (w.n_rest)
		CK(cu.cuMemFree_v2(w.rest[--w.n_rest]));
}

static void teardown(void)
{
	bool here = me != (sh->row.rounds - 1) % MOVERS;

	if (here) {
		check(1);
		CK(vm.cuMemUnmap(w.home, (size_t)w.n * chunk()));
		for (int i = 0; i < w.n; i++)
			CK(vm.cuMemRelease(w.h[i]));
	}
	room_teardown();
	CK(vm.cuMemAddressFree(w.home, sh->set));
}

static void act(void)
{
	switch (sh->action) {
	case SETUP:
		if (me == sh->who)
			setup();
		break;
	case LEAVE:
		if (me == sh->who)
			leave();
		break;
	case TAKE_REST:
		if (me == MOVERS)
			take_rest();
		break;
	case ROUND:
		if (me < MOVERS)
			round_of();
		break;
	case GIVE_REST:
		if (me == MOVERS)
			give_rest();
		break;
	case TEARDOWN:
		if (me < MOVERS)
			teardown();
		break;
	default:
		_exit(0);
	}
}

static _Noreturn void child(const char *kernels)
{
	CUmodule m;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	gpu_open(false);
	m = gpu_module(kernels);
	w.fill = gpu_function(m, "big_fill");
	w.check = gpu_function(m, "big_check");
	w.read = gpu_function(m, "big_read");
	w.s = gpu_stream();
	CK(cu.cuMemAlloc_v2(&w.bad, 256));
	CK(cu.cuMemAlloc_v2(&w.sink, 256));
	for (int n = 1;; n++) {
		atomic_fetch_add(&sh->done, 1);
		while (atomic_load(&sh->step) < n)
			wait_us(50);
		act();
	}
}

/* --- the parent --- */

static pid_t pids[MOVERS + 1];

/* False: not all were done in time, or one ended. */
static bool await(int n, double seconds)
{
	double since = now_us();

	while (atomic_load(&sh->done) < n) {
		for (int i = 0; i <= MOVERS; i++)
			if (waitpid(pids[i], NULL, WNOHANG) == pids[i])
				return false;
		if (now_us() - since > seconds * 1e6)
			return false;
		wait_us(100);
	}
	return true;
}

static void tell(enum action a, int who)
{
	sh->action = a;
	sh->who = who;
	atomic_store(&sh->done, 0);
	atomic_fetch_add(&sh->step, 1);
}

static bool all(enum action a, int who)
{
	tell(a, who);
	return await(MOVERS + 1, 12);
}

/* GB/s of both directions; 0: it failed. */
static double one_round(int r, double *read_rate)
{
	int out = r % MOVERS, in = (r + 2) % MOVERS;
	double since, t0, t1;

	sh->round = r;
	atomic_store(&sh->go, 0);
	atomic_store(&sh->out, 0);
	atomic_store(&sh->stop, 0);
	atomic_store(&sh->computing, 0);
	tell(ROUND, 0);
	for (since = now_us();
		sh->row.beside && !atomic_load(&sh->computing) && now_us() - since < 5e6;)
		wait_us(100);
	t0 = now_us();
	atomic_store(&sh->go, 1);
	if (!await(MOVERS + 1, 12))
		return 0;
	t1 = sh->ended[out] > sh->ended[in] ? sh->ended[out] : sh->ended[in];
	*read_rate = sh->row.beside
			     ? (double)atomic_load(&sh->read_bytes) / (t1 - sh->read_us) / 1e3
			     : 0;
	return 2.0 * (double)(sh->set / chunk()) * (double)used() / (t1 - t0) / 1e3;
}

static const char *const modes[] = {"shared", "own", "chunks_new", "chunks_kept"};

static bool one_row(const struct row *row, double *steady)
{
	double rates[ROUNDS_MOST], reads[ROUNDS_MOST], sorted[ROUNDS_MOST];
	int n = row->rounds, skip = n - 6;

	memset(sh->make_us, 0, sizeof(sh->make_us));
	memset(sh->get_us, 0, sizeof(sh->get_us));
	memset(sh->unmap_us, 0, sizeof(sh->unmap_us));
	sh->row = *row;
	sh->n_free = 0;
	sh->grown = 0;
	atomic_store(&sh->bad, 0);
	if (ftruncate(sh->fd, 0) || ftruncate(sh->fd, (off_t)pool_size(MOVERS)))
		return false;
	for (int i = 0; i < MOVERS; i++)
		if (!all(SETUP, i))
			return false;
	if (!all(LEAVE, 2) || !all(TAKE_REST, 0))
		return false;
	for (int r = 0; r < n; r++)
		if (!(rates[r] = one_round(r, &reads[r])))
			return false;
	if (!all(GIVE_REST, 0) || !all(TEARDOWN, 0))
		return false;
	memcpy(sorted, rates + skip, sizeof(double) * (size_t)(n - skip));
	*steady = part_of(sorted, n - skip, 0.5);
	printf("P11 rounds, %s, %llu MiB in %llu%s: %s; GB/s in and out: steady %.1f (%.1f to "
	       "%.1f), first four %.1f %.1f %.1f "
	       "%.1f; reader %.0f GB/s; ms a round: room %.1f, make and map %.1f, unmap %.1f\n",
		modes[row->mode], row->piece / MiB, row->chunk / MiB,
		row->beside ? ", beside a reader" : "", atomic_load(&sh->bad) ? "wrong" : "right",
		*steady, sorted[0], sorted[n - skip - 1], rates[0], rates[1], rates[2], rates[3],
		part_of(reads, n, 0.5),
		(sh->get_us[0] + sh->get_us[1] + sh->get_us[2]) / 1e3 / (n + 1),
		(sh->make_us[0] + sh->make_us[1] + sh->make_us[2]) / 1e3 / n,
		(sh->unmap_us[0] + sh->unmap_us[1] + sh->unmap_us[2]) / 1e3 / (n + 1));
	return true;
}

static bool start(const char *kernels)
{
	struct rlimit files = {8192, 8192};

	setrlimit(RLIMIT_NOFILE, &files);
	fflush(stdout);
	for (me = 0; me <= MOVERS; me++) {
		pids[me] = fork();
		if (!pids[me])
			child(kernels);
		if (pids[me] < 0)
			return false;
	}
	return await(MOVERS + 1, 25);
}

static void stop(void)
{
	for (int i = 0; i <= MOVERS; i++)
		if (pids[i] > 0) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
}

static bool start_again(const char *kernels)
{
	atomic_store(&sh->step, 0);
	atomic_store(&sh->done, 0);
	atomic_store(&sh->lock, 0);
	return start(kernels);
}

int probe_rounds(int argc, char **argv)
{
	static const struct row rows[] = {{SHARED, 128 * MiB, 128 * MiB, true, 27},
		{SHARED, 128 * MiB, 20 * MiB, true, 27}, {OWN, 128 * MiB, 128 * MiB, true, 10},
		{CHUNKS_NEW, 128 * MiB, 128 * MiB, true, 8}, {SHARED, 32 * MiB, 32 * MiB, true, 27},
		{SHARED, 20 * MiB, 20 * MiB, true, 27}, {SHARED, 2 * MiB, 2 * MiB, true, 27},
		{SHARED, 128 * MiB, 128 * MiB, false, 27},
		{CHUNKS_KEPT, 128 * MiB, 128 * MiB, true, 10}, {OWN, 128 * MiB, 20 * MiB, true, 10},
		{CHUNKS_NEW, 32 * MiB, 32 * MiB, true, 8}};
	enum { N = sizeof(rows) / sizeof(*rows) };
	double steady[N] = {0}, end;
	int done = 0, n = argc > 3 ? atoi(argv[3]) : N;

	if (argc < 1) {
		fprintf(stderr, "usage: gpu_memory p11 KERNELS [MIB [SECONDS [ROWS]]]\n");
		return 2;
	}
	gpu_find();
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		return 1;
	sh->set = (size_t)(argc > 1 ? atoi(argv[1]) : 2048) * MiB / SLAB * SLAB;
	end = now_us() + (argc > 2 ? atof(argv[2]) : 55) * 1e6;
	sh->fd = host_file(SLAB, false);
	if (sh->fd < 0 || !start(argv[0])) {
		printf("P11 rounds: could not start\n");
		stop();
		return 1;
	}
	for (; done < n && done < N && now_us() < end; done++) {
		if (sh->set / rows[done].chunk > CHUNKS)
			continue;
		if (!one_row(&rows[done], &steady[done])) {
			printf("P11 rounds, %s, %llu MiB: failed, or not done in time\n",
				modes[rows[done].mode], rows[done].chunk / MiB);
			stop();
			if (!start_again(argv[0]))
				break;
		}
	}
	stop();
	printf("== P11 rounds of three, %llu MiB each, steady GB/s:", sh->set / MiB);
	for (int i = 0; i < done; i++)
		printf(" %s %llu/%llu%s %.1f%s", modes[rows[i].mode], rows[i].piece / MiB,
			rows[i].chunk / MiB, rows[i].beside ? "" : " alone", steady[i],
			i + 1 < done ? ";" : "\n");
	return 0;
}
