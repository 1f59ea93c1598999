// SPDX-License-Identifier: Apache-2.0
/* A machine that has no memory for the board that was mapped last: at SIGUSR1 it is as if its file
 * had become empty. Preloaded. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LARGE 32768 /* boards are larger, gates are smaller */

static void *last;
static size_t last_size;
static int empty = -1;

static void *map(void *at, size_t size, int prot, int flags, int fd, off_t off)
{
	return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, off);
}

static void lose(int sig)
{
	map(last, last_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0);
}

void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t off)
{
	void *p = map(at, size, prot, flags, fd, off);

	if (p != MAP_FAILED && flags & MAP_SHARED && !(flags & MAP_FIXED) && fd >= 0 &&
		size > LARGE) {
		last = p;
		last_size = size;
	}
	return p;
}

void *mmap64(void *at, size_t size, int prot, int flags, int fd, off_t off)
	__attribute__((alias("mmap")));

__attribute__((constructor)) static void begin(void)
{
	empty = memfd_create("empty", MFD_CLOEXEC);
	signal(SIGUSR1, lose);
}
