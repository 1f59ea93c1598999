/* SPDX-License-Identifier: Apache-2.0 */
/* P11, pools: how fast memory of the host is made and registered, in each way, and copied to. */
#include "host.h"
#include <linux/memfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE (2 * MiB)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int host_file(size_t size, bool huge)
{
	int fd = memfd_create("fermata-probe", MFD_CLOEXEC | (huge ? MFD_HUGETLB : 0));

	if (fd >= 0 && ftruncate(fd, (off_t)size)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* At an address that huge pages can have. */
void *host_map(size_t size, int fd, bool huge)
{
	char *room = mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0),
	     *p;

	if (room == MAP_FAILED)
		return NULL;
	p = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE);
	p = mmap(p, size, PROT_READ | PROT_WRITE,
		MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_NORESERVE, fd,
		0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return p;
}

struct part {
	char *p;
	size_t size;
};

static void *populate(void *arg)
{
	const struct part *part = arg;

	if (madvise(part->p, part->size, MADV_POPULATE_WRITE))
		for (size_t i = 0; i < part->size; i += 4096)
			((volatile char *)part->p)[i] = 0;
	return NULL;
}

void host_populate(void *p, size_t size)
{
	struct part parts[THREADS];
	pthread_t threads[THREADS];
	size_t each = (size / THREADS + HUGE - 1) / HUGE * HUGE;
	int n = 0;

	for (size_t at = 0; at < size && n < THREADS; at += each, n++) {
		parts[n] = (struct part){(char *)p + at, size - at < each ? size - at : each};
		if (pthread_create(&threads[n], NULL, populate, &parts[n])) {
			populate(&parts[n]);
			n--;
		}
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* MiB of the mapping that are huge pages. */
static size_t huge_part(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	bool here = false;
	size_t kib = 0, n;
	unsigned long from, to;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = (uintptr_t)p >= from && (uintptr_t)p < to;
		else if (here && (sscanf(line, "AnonHugePages: %zu", &n) == 1 ||
					 sscanf(line, "ShmemPmdMapped: %zu", &n) == 1 ||
					 sscanf(line, "Shared_Hugetlb: %zu", &n) == 1))
			kib += n;
	}
	if (f)
		fclose(f);
	return kib >> 10;
}

static double gbs(double bytes, double us)
{
	return us > 0 ? bytes / us / 1e3 : 0;
}

static double copies(CUdeviceptr device, CUdeviceptr host, size_t size, bool out, CUstream s)
{
	double t, best = 0;

	for (int i = 0; i < 3; i++) {
		t = now_us();
		CK(cu.cuMemcpyAsync(out ? host : device, out ? device : host, size, s));
		CK(cu.cuStreamSynchronize(s));
		t = gbs((double)size, now_us() - t);
		best = t > best ? t : best;
	}
	return best;
}

static struct {
	size_t size;
	CUdeviceptr device;
	CUstream s;
} w;

enum way { HUGETLB, FILE_HUGE, FILE_SMALL, ANON_HUGE, ANON_SMALL, WAYS };
static const char *const ways[] = {"memory file, hugetlb", "memory file, huge if it may",
	"memory file, 4 KiB", "anonymous, huge", "anonymous, 4 KiB"};

static double try_registered(enum way way)
{
	int fd = way <= FILE_SMALL ? host_file(w.size, way == HUGETLB) : -1;
	bool huge = way != FILE_SMALL && way != ANON_SMALL;
	double t0, made, registered, out, in;
	size_t is_huge;
	void *p;

	p = way <= FILE_SMALL && fd < 0 ? NULL : host_map(w.size, fd, huge);
	if (!p || (way == HUGETLB && madvise(p, w.size, MADV_POPULATE_WRITE))) {
		printf("P11 pool, %s: absent\n", ways[way]);
		if (fd >= 0)
			close(fd);
		return 0;
	}
	t0 = now_us();
	host_populate(p, w.size);
	made = now_us() - t0;
	is_huge = huge_part(p);
	t0 = now_us();
	CK(cu.cuMemHostRegister_v2(p, w.size, FM_CU_HOST_REGISTER_PORTABLE));
	registered = now_us() - t0;
	out = copies(w.device, (CUdeviceptr)(uintptr_t)p, w.size, true, w.s);
	in = copies(w.device, (CUdeviceptr)(uintptr_t)p, w.size, false, w.s);
	t0 = now_us();
	CK(cu.cuMemHostUnregister(p));
	t0 = now_us() - t0;
	printf("P11 pool, %s: made %.1f GB/s (%d threads), registered %.1f, both %.1f, "
	       "unregistered %.1f; "
	       "copies out %.1f, in %.1f; %zu MiB of %llu huge\n",
		ways[way], gbs((double)w.size, made), THREADS, gbs((double)w.size, registered),
		gbs((double)w.size, made + registered), gbs((double)w.size, t0), out, in, is_huge,
		w.size / MiB);
	munmap(p, w.size);
	if (fd >= 0)
		close(fd);
	return gbs((double)w.size, made + registered);
}

static void try_pinned(void)
{
	double t0 = now_us(), made, out, in;
	void *p;

	CK(cu.cuMemHostAlloc(&p, w.size, 1));
	made = now_us() - t0;
	out = copies(w.device, (CUdeviceptr)(uintptr_t)p, w.size, true, w.s);
	in = copies(w.device, (CUdeviceptr)(uintptr_t)p, w.size, false, w.s);
	t0 = now_us();
	CK(cu.cuMemFreeHost(p));
	printf("P11 pool, cuMemHostAlloc: made %.1f GB/s, freed %.1f; copies out %.1f, in %.1f\n",
		gbs((double)w.size, made), gbs((double)w.size, now_us() - t0), out, in);
}

enum { CHUNKS_MOST = 64 };
static struct chunks {
	handle h[CHUNKS_MOST];
	int n;
	_Atomic int next;
	size_t each;
} chunks;

static void *make_chunks(void *arg)
{
	(void)arg;
	cu.cuCtxSetCurrent(gpu.ctx);
	for (int i; (i = atomic_fetch_add(&chunks.next, 1)) < chunks.n;)
		CK(chunk_new(&chunks.h[i], ON_HOST, chunks.each));
	return NULL;
}

static double try_chunks(int n_threads)
{
	pthread_t threads[THREADS];
	CUdeviceptr at;
	double t0, made, mapped, out, in;

	chunks.each = 128 * MiB;
	chunks.n = (int)(w.size / chunks.each);
	atomic_store(&chunks.next, 0);
	t0 = now_us();
	for (int i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, make_chunks, NULL))
			_exit(3);
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	made = now_us() - t0;
	at = gpu_reserve(w.size, HUGE);
	t0 = now_us();
	for (int i = 0; i < chunks.n; i++)
		CK(vm.cuMemMap(at + (unsigned)i * chunks.each, chunks.each, 0, chunks.h[i], 0));
	CK(chunk_access(at, w.size));
	mapped = now_us() - t0;
	out = copies(w.device, at, w.size, true, w.s);
	in = copies(w.device, at, w.size, false, w.s);
	CK(vm.cuMemUnmap(at, w.size));
	t0 = now_us();
	for (int i = 0; i < chunks.n; i++)
		CK(vm.cuMemRelease(chunks.h[i]));
	printf("P11 pool, host chunks, %d thread%s: made %.1f GB/s, mapped %.1f, released %.1f; "
	       "copies out %.1f, in %.1f\n",
		n_threads, n_threads > 1 ? "s" : "", gbs((double)w.size, made),
		gbs((double)w.size, mapped), gbs((double)w.size, now_us() - t0), out, in);
	CK(vm.cuMemAddressFree(at, w.size));
	return gbs((double)w.size, made);
}

static void say_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[200] = "?\n";

	if (f && fgets(line, sizeof(line), f))
		printf("P11 %s: %s", path, line);
	if (f)
		fclose(f);
}

int probe_pools(int argc, char **argv)
{
	double best = 0, rate, host;

	w.size = (size_t)(argc > 0 ? atoi(argv[0]) : 2048) * MiB;
	say_file("/sys/kernel/mm/transparent_hugepage/enabled");
	say_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
	say_file("/proc/sys/vm/nr_hugepages");
	gpu_open(false);
	w.s = gpu_stream();
	CK(cu.cuMemAlloc_v2(&w.device, w.size));
	for (enum way way = 0; way < WAYS; way++) {
		rate = try_registered(way);
		best = rate > best ? rate : best;
	}
	try_pinned();
	host = try_chunks(1);
	rate = try_chunks(4);
	printf("== P11 pools, made and registered: best %.1f GB/s; host chunks %.1f, by four "
	       "threads %.1f GB/s\n",
		best, host, rate);
	return 0;
}

/* A virtual machine gives memory to its guest when that is touched first: not what is to be
 * measured. */
int touch_host(int argc, char **argv)
{
	size_t size = (size_t)(argc > 0 ? atoi(argv[0]) : 1024) * MiB;
	void *p = host_map(size, -1, true);

	if (!p)
		return 1;
	host_populate(p, size);
	return 0;
}
