/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's kernel driver, as far as api/cuda/core/timeslice.c talks to it, without one: preloaded,
 * it answers the ioctls on the node that the fake libcuda opens (fakes/cuda/channels.c); or linked
 * with a test. An object ends with its parent, and a channel group with its address space.
 *
 *   FAKE_RM_LOG=FILE   "get US", "set US", "refused US" or "unknown US", a line for each that was
 *                      asked
 *   FAKE_RM_REFUSE     slices cannot be set
 */
#include "rm.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define GET_TIMESLICE 0xa06c0104u
#define SET_TIMESLICE 0xa06c0103u
#define REFUSED       0x1b
#define TAKEN         0x19
#define FULL          0x1a
#define OBJECTS       256

struct object {
	uint32_t client, parent, space, handle, class; /* client 0: there is none */
	uint64_t us;
	bool refuses;
};

static _Atomic int node = -1;
static struct {
	pthread_mutex_t lock;
	struct object object[OBJECTS];
	unsigned asked;
} rm = {.lock = PTHREAD_MUTEX_INITIALIZER};

EXPORT long syscall(long number, ...);

EXPORT void fake_rm_node(int fd)
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

/* The same, as programs for an older C library have it. */
EXPORT int __fxstat(int version, int fd, struct stat *st);
EXPORT int __fxstat(int version, int fd, struct stat *st)
{
	return fstat(fd, st);
}

static struct object *object_of(uint32_t client, uint32_t handle)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (client && rm.object[i].client == client && rm.object[i].handle == handle)
			return &rm.object[i];
	return NULL;
}

EXPORT uint64_t fake_rm_slice(uint32_t client, uint32_t handle)
{
	const struct object *o;
	uint64_t us;

	pthread_mutex_lock(&rm.lock);
	o = object_of(client, handle);
	us = o ? o->us : 0;
	pthread_mutex_unlock(&rm.lock);
	return us;
}

EXPORT void fake_rm_refuse(uint32_t client, uint32_t handle, bool refuse)
{
	struct object *o;

	pthread_mutex_lock(&rm.lock);
	o = object_of(client, handle);
	if (o)
		o->refuses = refuse;
	pthread_mutex_unlock(&rm.lock);
}

EXPORT unsigned fake_rm_asked(void)
{
	unsigned n;

	pthread_mutex_lock(&rm.lock);
	n = rm.asked;
	pthread_mutex_unlock(&rm.lock);
	return n;
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

static uint32_t control(struct rm_control *c)
{
	struct object *o = object_of(c->client, c->object);
	uint64_t *us = (uint64_t *)(uintptr_t)c->params;

	rm.asked++;
	if (!o || o->class != CLASS_TSG) {
		note("unknown", *us);
		return object_of(c->client, c->client) ? RM_NO_OBJECT : RM_NO_CLIENT;
	}
	if (c->cmd == GET_TIMESLICE) {
		*us = o->us;
		note("get", *us);
		return 0;
	}
	if (c->cmd != SET_TIMESLICE || o->refuses || getenv("FAKE_RM_REFUSE")) {
		note("refused", *us);
		return REFUSED;
	}
	o->us = *us;
	note("set", *us);
	return 0;
}

static uint32_t make(struct object o, uint64_t params)
{
	struct object *at = rm.object;

	if (o.class == CLASS_CLIENT)
		o.client = o.handle;
	else if (!object_of(o.client, o.parent))
		return object_of(o.client, o.client) ? RM_NO_OBJECT : RM_NO_CLIENT;
	if (object_of(o.client, o.handle))
		return TAKEN;
	if (o.class == CLASS_TSG) {
		o.us = RM_SLICE;
		o.space = ((const struct rm_tsg *)(uintptr_t)params)->space;
	}
	while (at < rm.object + OBJECTS && at->client)
		at++;
	if (at == rm.object + OBJECTS)
		return FULL;
	*at = o;
	return 0;
}

static uint32_t end(uint32_t client, uint32_t handle)
{
	struct object *o = object_of(client, handle);

	if (!o)
		return object_of(client, client) ? RM_NO_OBJECT : RM_NO_CLIENT;
	*o = (struct object){0};
	for (o = rm.object; o < rm.object + OBJECTS; o++)
		if (o->client == client && (o->parent == handle || o->space == handle))
			end(client, o->handle);
	return 0;
}

static uint32_t end_one(uint32_t client, uint32_t handle)
{
	const struct object *o = object_of(client, handle);

	return o && o->refuses ? REFUSED : end(client, handle);
}

#define MAKE(a)                                   \
	make((struct object){.client = (a)->root, \
		     .parent = (a)->parent,       \
		     .handle = (a)->object,       \
		     .class = (a)->class},        \
		(a)->params)

/* All else succeeds, as its status says already. */
static void answer(unsigned nr, size_t size, void *arg)
{
	struct rm_alloc64 *a = arg;
	struct rm_alloc21 *old = arg;
	struct rm_control *c = arg;
	struct rm_xfer *x = arg;
	struct rm_free *f = arg;

	if (nr == RM_XFER && size == sizeof(*x))
		answer(x->cmd, x->size, (void *)(uintptr_t)x->ptr);
	else if (nr == RM_ALLOC && size == sizeof(*a))
		a->status = MAKE(a);
	else if (nr == RM_ALLOC && size == sizeof(*old))
		old->status = MAKE(old);
	else if (nr == RM_FREE && size == sizeof(*f))
		f->status = end_one(f->root, f->object);
	else if (nr == RM_CONTROL && size == sizeof(*c))
		c->status = control(c);
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
	if (number != SYS_ioctl || (int)a[0] != node)
		return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	pthread_mutex_lock(&rm.lock);
	answer(_IOC_NR((unsigned long)a[1]), _IOC_SIZE((unsigned long)a[1]), (void *)a[2]);
	pthread_mutex_unlock(&rm.lock);
	return 0;
}
