/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's kernel driver, as far as backend/cuda/timeslice.c talks to it, without one: preloaded,
 * it answers the ioctls on the node that the fake libcuda opens (fakes/cuda/channels.c). The time
 * slice of all channel groups is one number.
 *
 *   FAKE_RM_LOG=FILE   "get US", "set US" or "refused", a line for each that was asked
 *   FAKE_RM_REFUSE     slices cannot be set
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define RM_CONTROL    0x2a
#define GET_TIMESLICE 0xa06c0104u
#define SET_TIMESLICE 0xa06c0103u
#define REFUSED       0x1b

static _Atomic int node = -1;
static _Atomic uint64_t slice = 2000;

EXPORT void fake_rm_node(int fd);
EXPORT long syscall(long number, ...);

void fake_rm_node(int fd)
{
	node = fd;
}

EXPORT int fstat(int fd, struct stat *st)
{
	int (*next)(int, struct stat *) = dlsym(RTLD_NEXT, "fstat");
	int rc = next(fd, st);

	if (!rc && fd == node) {
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = makedev(195, 255);
	}
	return rc;
}

static void note(const char *what, uint64_t us)
{
	const char *path = getenv("FAKE_RM_LOG");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
	char line[64];

	if (fd < 0)
		return;
	snprintf(line, sizeof(line), "%s %llu\n", what, (unsigned long long)us);
	if (write(fd, line, strlen(line)) < 0)
		abort();
	close(fd);
}

struct control { /* NVOS54 */
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t params_size, status;
};

static void control(struct control *c)
{
	uint64_t *us = (uint64_t *)(uintptr_t)c->params;
	int refuse = getenv("FAKE_RM_REFUSE") != NULL;

	c->status = 0;
	if (c->cmd == GET_TIMESLICE) {
		*us = slice;
		note("get", *us);
	} else if (c->cmd != SET_TIMESLICE || refuse) {
		c->status = REFUSED;
		note("refused", *us);
	} else {
		slice = *us;
		note("set", *us);
	}
}

/* Allocations and ends of objects all succeed, as their status says already. */
static long on_node(unsigned long request, void *arg)
{
	if (_IOC_NR(request) == RM_CONTROL && _IOC_SIZE(request) == sizeof(struct control))
		control(arg);
	return 0;
}

long syscall(long number, ...)
{
	long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_ioctl && (int)a[0] == node)
		return on_node((unsigned long)a[1], (void *)a[2]);
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
