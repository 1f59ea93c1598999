/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"
#include "base/clock.h"
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct bench_page *map(int fd)
{
	void *page =
		mmap(NULL, sizeof(struct bench_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

struct bench_page *bench_page_new(int *fd)
{
	struct bench_page *page = NULL;

	*fd = memfd_create("fermata-bench", MFD_CLOEXEC);
	if (*fd >= 0 && !ftruncate(*fd, sizeof(*page)))
		page = map(*fd);
	if (!page && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return page;
}

struct bench_page *bench_page_map(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_size == sizeof(struct bench_page) ? map(fd) : NULL;
}

void bench_page_free(struct bench_page *page)
{
	if (page)
		munmap(page, sizeof(*page));
}

void bench_ring(struct bench_seat *seat)
{
	atomic_fetch_add(&seat->bell, 1);
	syscall(SYS_futex, &seat->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void bench_tell(struct bench_seat *seat, enum bench_go go)
{
	atomic_store(&seat->go, go);
	bench_ring(seat);
}

void bench_sleep(struct bench_seat *seat, uint32_t heard, uint64_t until)
{
	const struct timespec t = fm_timespec(until);

	syscall(SYS_futex, &seat->bell, FUTEX_WAIT_BITSET, heard, until == FM_NEVER ? NULL : &t,
		NULL, FUTEX_BITSET_MATCH_ANY);
}
