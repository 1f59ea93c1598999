/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that glibc 2.17 does not have, by what it has: hidden, so that they are ours alone.
 * Where glibc.h is not in force, by the compiler's option, the C library's own are used.
 */
#ifdef FM_OLD_LIBC
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

/* A test may have its own. */
#define HIDDEN __attribute__((visibility("hidden"), weak))

/* Until 2.33 these were what the header's functions called. They are there still. */
int __fxstat(int version, int fd, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);

HIDDEN int fstat(int fd, struct stat *st)
{
	return __fxstat(STAT_VERSION, fd, st);
}

HIDDEN int lstat(const char *path, struct stat *st)
{
	return __lxstat(STAT_VERSION, path, st);
}

HIDDEN int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return __fxstatat(STAT_VERSION, dir, path, st, flags);
}

HIDDEN int memfd_create(const char *name, unsigned flags)
{
	return (int)syscall(SYS_memfd_create, name, flags);
}
#endif
