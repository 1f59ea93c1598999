/* SPDX-License-Identifier: Apache-2.0 */
/* Structures, numbers and offsets are those of NVIDIA's open-gpu-kernel-modules (nvos.h,
 * alloc_channel.h, ctrla06c.h), which agree from 580 to 590. */
#include "timeslice.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RM_MAGIC      'F'
#define RM_FREE       0x29
#define RM_CONTROL    0x2a
#define RM_ALLOC      0x2b
#define RM_XFER       211
#define NVIDIA_MAJOR  195
#define NVIDIACTL     255
#define CLASS_TSG     0xa06c
#define ENGINE_OFFSET 12 /* NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS.engineType */
#define ENGINE_GR0    1
#define ENGINE_GR7    8
#define GET_TIMESLICE 0xa06c0104u
#define SET_TIMESLICE 0xa06c0103u
#define GROUPS_MAX    64

struct rm_xfer {
	uint32_t cmd, size;
	uint64_t ptr;
};

struct rm_free { /* NVOS00 */
	uint32_t root, parent, object, status;
};

struct rm_alloc21 { /* NVOS21 */
	uint32_t root, parent, object, class;
	uint64_t params;
	uint32_t params_size, status;
};

struct rm_alloc64 { /* NVOS64 */
	uint32_t root, parent, object, class;
	uint64_t params, rights;
	uint32_t params_size, flags, status, pad;
};

struct rm_control { /* NVOS54 */
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t params_size, status;
};

_Static_assert(sizeof(struct rm_alloc21) == 32 && sizeof(struct rm_alloc64) == 48, "NVOS21, 64");
_Static_assert(sizeof(struct rm_control) == 32 && sizeof(struct rm_free) == 16, "NVOS54, 00");

/* A channel group of ours. */
struct tsg {
	int fd; /* the program's, on which the driver knows the client; -1: free */
	ino_t inode;
	uint32_t client, handle;
	uint64_t original_us; /* 0: not asked yet */
	uint64_t set_us;      /* 0: the driver's own */
};

static struct {
	pthread_mutex_t lock;
	struct tsg tsg[GROUPS_MAX];
	unsigned n;
	uint64_t wanted_us;
	bool refused;
} rm = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_control_node(int fd, ino_t *inode)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISCHR(st.st_mode) || major(st.st_rdev) != NVIDIA_MAJOR ||
		minor(st.st_rdev) != NVIDIACTL)
		return false;
	*inode = st.st_ino;
	return true;
}

static int control(const struct tsg *t, uint32_t cmd, uint64_t *us)
{
	struct rm_control c = {.client = t->client,
		.object = t->handle,
		.cmd = cmd,
		.params = (uintptr_t)us,
		.params_size = sizeof(*us),
		.status = UINT32_MAX};
	ino_t inode;

	/* The program may have closed it and opened something else of that number. */
	if (!is_control_node(t->fd, &inode) || inode != t->inode)
		return -EBADF;
	if (syscall(SYS_ioctl, t->fd, _IOWR(RM_MAGIC, RM_CONTROL, struct rm_control), &c) < 0)
		return -errno;
	return c.status ? -EPERM : 0;
}

/* Lock held. */
static int apply(struct tsg *t, uint64_t us)
{
	int rc = t->original_us ? 0 : control(t, GET_TIMESLICE, &t->original_us);
	uint64_t value = us ? us : t->original_us;

	if (!rc && value)
		rc = control(t, SET_TIMESLICE, &value);
	if (!rc)
		t->set_us = us;
	return rc;
}

static void add(int fd, uint32_t client, uint32_t handle)
{
	struct tsg t = {.fd = fd, .client = client, .handle = handle};

	if (!is_control_node(fd, &t.inode))
		return;
	pthread_mutex_lock(&rm.lock);
	if (rm.n < GROUPS_MAX)
		rm.tsg[rm.n++] = t;
	pthread_mutex_unlock(&rm.lock);
}

static void drop(uint32_t client, uint32_t handle)
{
	pthread_mutex_lock(&rm.lock);
	for (unsigned i = rm.n; i-- > 0;)
		if (rm.tsg[i].client == client && (rm.tsg[i].handle == handle || handle == client))
			rm.tsg[i] = rm.tsg[--rm.n];
	pthread_mutex_unlock(&rm.lock);
}

static void seen_alloc(int fd, uint32_t client, uint32_t handle, uint32_t class, const void *params)
{
	uint32_t engine = 0;

	if (class != CLASS_TSG || !params)
		return;
	memcpy(&engine, (const char *)params + ENGINE_OFFSET, sizeof(engine));
	if (engine >= ENGINE_GR0 && engine <= ENGINE_GR7)
		add(fd, client, handle);
}

static void seen(int fd, unsigned nr, size_t size, const void *arg)
{
	const struct rm_alloc64 *a = arg;
	const struct rm_alloc21 *old = arg;
	const struct rm_free *f = arg;

	if (nr == RM_ALLOC && size == sizeof(*a) && !a->status)
		seen_alloc(fd, a->root, a->object, a->class, (const void *)(uintptr_t)a->params);
	else if (nr == RM_ALLOC && size == sizeof(*old) && !old->status)
		seen_alloc(fd, old->root, old->object, old->class,
			(const void *)(uintptr_t)old->params);
	else if (nr == RM_FREE && size == sizeof(*f) && !f->status)
		drop(f->root, f->object);
}

void fm_cu_ioctl_seen(int fd, unsigned long request, void *arg)
{
	const struct rm_xfer *x = arg;
	int saved = errno;

	if (_IOC_TYPE(request) != RM_MAGIC || !arg)
		return;
	if (_IOC_NR(request) == RM_XFER && _IOC_SIZE(request) == sizeof(*x))
		seen(fd, x->cmd, x->size, (const void *)(uintptr_t)x->ptr);
	else
		seen(fd, _IOC_NR(request), _IOC_SIZE(request), arg);
	errno = saved;
}

int fm_cu_timeslice_refresh(void)
{
	int n = 0, rc = 0, saved = errno;

	pthread_mutex_lock(&rm.lock);
	for (unsigned i = 0; i < rm.n && !rm.refused; i++) {
		if (rm.tsg[i].set_us == rm.wanted_us)
			continue;
		rc = apply(&rm.tsg[i], rm.wanted_us);
		rm.refused = rc == -EPERM;
		n += !rc;
	}
	pthread_mutex_unlock(&rm.lock);
	errno = saved;
	return rc ? rc : n;
}

int fm_cu_timeslice(uint64_t us)
{
	pthread_mutex_lock(&rm.lock);
	rm.wanted_us = us;
	pthread_mutex_unlock(&rm.lock);
	return fm_cu_timeslice_refresh();
}

int fm_cu_timeslice_try(void)
{
	int n = 0;

	pthread_mutex_lock(&rm.lock);
	for (unsigned i = 0; i < rm.n && n >= 0; i++) {
		int rc = apply(&rm.tsg[i], 0);

		n = rc == -EPERM ? rc : n + !rc;
	}
	pthread_mutex_unlock(&rm.lock);
	return n;
}

int fm_cu_ioctl(int fd, unsigned long request, void *arg)
{
	long rc = syscall(SYS_ioctl, fd, request, arg);

	if (FM_UNLIKELY(_IOC_TYPE(request) == RM_MAGIC) && rc == 0)
		fm_cu_ioctl_seen(fd, request, arg);
	return (int)rc;
}

void fm_cu_timeslice_fork_child(void)
{
	rm.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	rm.n = 0;
	rm.wanted_us = 0;
	rm.refused = false;
}
