// SPDX-License-Identifier: Apache-2.0
/*
 * Memory, descriptors and threads run out, now and then: preloaded, for programs under test.
 *
 *   SCARCE      a file of two words, mapped: how many calls in a thousand fail (a test changes it
 * as it likes); how many have failed SCARCE_IN   only calls from an object whose path contains
 * this; unset: from anywhere
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static struct {
	_Atomic uint32_t per_mille, failed;
} * shared;
static const char *object;
static _Atomic uint64_t dice = 88172645463325252u;

static long direct(long number, ...)
{
	static _Atomic(long (*)(long, ...)) real;
	long a[6];
	va_list ap;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

__attribute__((constructor)) static void open_shared(void)
{
	const char *path = getenv("SCARCE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = (void *)direct(SYS_mmap, NULL, 4096L, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
	close(fd);
	object = getenv("SCARCE_IN");
	if (p != MAP_FAILED)
		shared = p;
}

struct range {
	uintptr_t at;
	bool found;
};

static int holds(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct range *r = arg;

	if (!info->dlpi_name || !strstr(info->dlpi_name, object))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type == PT_LOAD && r->at >= from &&
			r->at < from + info->dlpi_phdr[i].p_memsz)
			r->found = true;
	}
	return r->found;
}

static bool fails(const void *caller)
{
	static _Thread_local bool inside; /* of libc's own, which is asked below */
	struct range r = {.at = (uintptr_t)caller};
	uint64_t x;

	if (!shared || !atomic_load(&shared->per_mille) || inside)
		return false;
	x = atomic_fetch_add(&dice, UINT64_C(0x9e3779b97f4a7c15));
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	if ((x >> 33) % 1000 >= atomic_load(&shared->per_mille))
		return false;
	if (object) {
		inside = true;
		dl_iterate_phdr(holds, &r);
		inside = false;
		if (!r.found)
			return false;
	}
	atomic_fetch_add(&shared->failed, 1);
	errno = ENOMEM;
	return true;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size)
{
	return fails(CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails(CALLER) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails(CALLER) ? NULL : __libc_realloc(p, size);
}

void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (fails(CALLER))
		return MAP_FAILED;
	return (void *)direct(SYS_mmap, at, size, prot, flags, fd, offset);
}

static int no_descriptor(void)
{
	errno = EMFILE;
	return -1;
}

int memfd_create(const char *name, unsigned flags)
{
	return fails(CALLER) ? no_descriptor() : (int)direct(SYS_memfd_create, name, flags);
}

long syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_memfd_create && fails(CALLER))
		return no_descriptor();
	return direct(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int pipe2(int fds[2], int flags)
{
	return fails(CALLER) ? no_descriptor() : (int)direct(SYS_pipe2, fds, flags);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	return fails(CALLER) ? no_descriptor()
			     : (int)direct(SYS_socketpair, domain, type, protocol, fds);
}

int socket(int domain, int type, int protocol)
{
	return fails(CALLER) ? no_descriptor() : (int)direct(SYS_socket, domain, type, protocol);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (fails(CALLER))
		return EAGAIN;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attr, start, arg);
}
