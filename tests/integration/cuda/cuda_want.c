/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says what it knows of its memory (<fermata/memory.h>), as it is told (cuda_job.h).
 *
 *   alloc MIB, vmm MIB   one more block; the second mapped by the program, in pieces of 20 MiB
 *   free N               block N, a slot that is not used again
 *   fill SEED, check SEED   all blocks
 *   soon N, cold N, pin N, unpin N   says that of block N, and prints "rc NUMBER"
 *   half N               pins the first half of it, and prints the same
 *   stat N               prints "stat DEVICE HOST MAPPED EMPTY UNMANAGED PINNED", in MiB
 *   odd 0                calls that are wrong, and memory that is not Fermata's
 *   many N               N times, in two threads: everything there is to say of block 0
 */
#include "cuda_job.h"
#include <errno.h>
#include <fermata/memory.h>
#include <pthread.h>

#define BLOCKS 16
#define MIB    ((size_t)1 << 20)
#define PIECE  (20 * MIB)

static struct {
	CUdeviceptr at[BLOCKS];
	size_t size[BLOCKS];
	bool mapped[BLOCKS];
	int n;
} mine;

static void keep(CUdeviceptr at, size_t size, bool mapped)
{
	mine.at[mine.n] = at;
	mine.size[mine.n] = size;
	mine.mapped[mine.n++] = mapped;
}

static void do_alloc(struct job *j, int mib)
{
	CUdeviceptr at;

	(void)j;
	CU(cuMemAlloc_v2(&at, (size_t)mib * MIB));
	keep(at, (size_t)mib * MIB, false);
}

static void do_vmm(struct job *j, int mib)
{
	const struct cu_chunk_prop prop = {
		CU_CHUNK_PINNED, 0, {CU_LOCATION_DEVICE, 0}, NULL, 0, 0, 0, {0}};
	const struct cu_access both = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};
	size_t size = (size_t)mib * MIB, n;
	CUdeviceptr at;

	(void)j;
	CU(cuMemAddressReserve(&at, size, 0, 0, 0));
	for (size_t done = 0; done < size; done += n) {
		cu_chunk h;

		n = size - done < PIECE ? size - done : PIECE;
		CU(cuMemCreate(&h, n, &prop, 0));
		CU(cuMemMap(at + done, n, 0, h, 0));
		CU(cuMemRelease(h));
	}
	CU(cuMemSetAccess(at, size, &both, 1));
	keep(at, size, true);
}

static void do_free(struct job *j, int n)
{
	(void)j;
	if (mine.mapped[n])
		CU(cuMemUnmap(mine.at[n], mine.size[n]));
	else
		CU(cuMemFree_v2(mine.at[n]));
	mine.size[n] = 0;
}

/* Each block has words of its own, in its first and its last page. */
static void do_fill(struct job *j, int seed)
{
	(void)j;
	for (int i = 0; i < mine.n; i++) {
		unsigned word = (unsigned)(seed * 100 + i);

		if (!mine.size[i])
			continue;
		CU(cuMemcpyHtoD_v2(mine.at[i], &word, 4));
		CU(cuMemsetD32_v2(mine.at[i] + mine.size[i] - MIB, word, MIB / 4));
	}
}

static void do_check(struct job *j, int seed)
{
	(void)j;
	for (int i = 0; i < mine.n; i++) {
		unsigned word = (unsigned)(seed * 100 + i), first = 0, last = 0;

		if (!mine.size[i])
			continue;
		CU(cuMemcpyDtoH_v2(&first, mine.at[i], 4));
		CU(cuMemcpyDtoH_v2(&last, mine.at[i] + mine.size[i] - 4, 4));
		if (first != word || last != word)
			die("block %d has %u and %u, not %u", i, first, last, word);
	}
}

static const void *pointer(CUdeviceptr at)
{
	return (const void *)(uintptr_t)at;
}

static void want(int n, size_t size, enum fm_memory_use use)
{
	printf("rc %d\n", fm_memory_want(pointer(mine.at[n]), size, use));
}

static void do_soon(struct job *j, int n)
{
	(void)j;
	want(n, mine.size[n], FM_MEMORY_SOON);
}

static void do_cold(struct job *j, int n)
{
	(void)j;
	want(n, mine.size[n], FM_MEMORY_COLD);
}

static void do_pin(struct job *j, int n)
{
	(void)j;
	want(n, mine.size[n], FM_MEMORY_PIN);
}

static void do_unpin(struct job *j, int n)
{
	(void)j;
	want(n, mine.size[n], FM_MEMORY_UNPIN);
}

static void do_half(struct job *j, int n)
{
	(void)j;
	want(n, mine.size[n] / 2, FM_MEMORY_PIN);
}

static struct fm_memory_stat stat_of(CUdeviceptr at, size_t size)
{
	struct fm_memory_stat s = {.size = sizeof(s)};
	int rc = fm_memory_stat(pointer(at), size, &s);

	if (rc)
		die("stat of %zu bytes says %d", size, rc);
	if (s.device + s.host + s.mapped + s.empty + s.unmanaged != size || s.pinned > s.device)
		die("the parts of %zu bytes do not add up", size);
	return s;
}

static void do_stat(struct job *j, int n)
{
	struct fm_memory_stat s = stat_of(mine.at[n], mine.size[n]);

	(void)j;
	printf("stat %zu %zu %zu %zu %zu %zu\n", (size_t)(s.device / MIB), (size_t)(s.host / MIB),
		(size_t)(s.mapped / MIB), (size_t)(s.empty / MIB), (size_t)(s.unmanaged / MIB),
		(size_t)(s.pinned / MIB));
}

static void is(const char *what, int rc, int expected)
{
	if (rc != expected)
		die("%s says %d, not %d", what, rc, expected);
}

static void do_odd(struct job *j, int n)
{
	struct fm_memory_stat s = {.size = sizeof(s) - 1};
	const void *p = pointer(mine.at[0]);
	int local;

	(void)j, (void)n;
	is("no bytes", fm_memory_want(p, 0, FM_MEMORY_COLD), -EINVAL);
	is("a range without end", fm_memory_want(p, SIZE_MAX, FM_MEMORY_COLD), -EINVAL);
	is("an unknown use", fm_memory_want(p, 1, (enum fm_memory_use)77), -EINVAL);
	is("a small structure", fm_memory_stat(p, 1, &s), -EINVAL);
	is("no structure", fm_memory_stat(p, 1, NULL), -EINVAL);
	for (int use = FM_MEMORY_SOON; use <= FM_MEMORY_UNPIN; use++) {
		is("the host's memory", fm_memory_want(&local, 4, (enum fm_memory_use)use),
			-ENOENT);
		is("the first page", fm_memory_want(NULL, 4096, (enum fm_memory_use)use), -ENOENT);
	}
	s = stat_of(mine.at[0], mine.size[0] + 256 * MIB);
	if (s.unmanaged < 128 * MIB)
		die("what nobody has is told as managed");
	s = stat_of(1, SIZE_MAX / 2);
	if (s.device < mine.size[0])
		die("a range of all addresses has %zu bytes", (size_t)s.device);
	s = stat_of(mine.at[0] + 3, 5);
	if (s.device != 5)
		die("5 bytes are %zu", (size_t)s.device);
}

static void *says(void *times)
{
	for (int i = 0; i < *(int *)times; i++) {
		CUdeviceptr at = mine.at[0] + (size_t)i % mine.size[0];
		int rc = fm_memory_want(pointer(at), MIB, (enum fm_memory_use)(i % 4));

		stat_of(at, 3 * MIB);
		if (rc && rc != -EBUSY && rc != -ENOSPC)
			die("use %d says %d", i % 4, rc);
	}
	return NULL;
}

static void do_many(struct job *j, int n)
{
	pthread_t other;

	(void)j;
	pthread_create(&other, NULL, says, &n);
	says(&n);
	pthread_join(other, NULL);
	fm_memory_want(pointer(mine.at[0]), mine.size[0], FM_MEMORY_UNPIN);
}

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"alloc", do_alloc},
		{"vmm", do_vmm},
		{"free", do_free},
		{"fill", do_fill},
		{"check", do_check},
		{"soon", do_soon},
		{"cold", do_cold},
		{"pin", do_pin},
		{"unpin", do_unpin},
		{"half", do_half},
		{"stat", do_stat},
		{"odd", do_odd},
		{"many", do_many},
		{0},
	};

	return job_main(argc, argv, commands);
}
