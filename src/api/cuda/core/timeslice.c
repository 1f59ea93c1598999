/* SPDX-License-Identifier: Apache-2.0 */
/* Structures, numbers and offsets are those of NVIDIA's open-gpu-kernel-modules (nvos.h,
 * nvstatuscodes.h, alloc_channel.h, ctrla06c.h), which agree from 580 to 590. */
#include "timeslice.h"
#include "base/lockorder.h"
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
#define SPACE_OFFSET  8  /* NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS.hVASpace */
#define ENGINE_OFFSET 12 /* .engineType */
#define ENGINE_GR0    1
#define ENGINE_GR7    8
#define GET_TIMESLICE 0xa06c0104u
#define SET_TIMESLICE 0xa06c0103u
#define GROUPS_MAX    64

/* The driver's status for handles that it does not know, or no longer knows. */
#define NO_CLIENT   0x23
#define NO_HANDLE   0x33
#define NO_OBJECT   0x57
#define OBJECT_LOST 0x6e

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

/* A channel group of ours. The driver ends it with its device, and with its address space. */
struct tsg {
	int fd; /* the program's descriptor, on which the driver knows the client */
	ino_t inode;
	uint32_t client, handle;
	uint32_t device, space; /* space 0: the device's */
	uint64_t original_us;   /* 0: not asked yet */
	uint64_t set_us;        /* 0: the driver's own */
};

static struct {
	pthread_mutex_t lock;
	struct tsg tsg[GROUPS_MAX];
	unsigned n;
	uint64_t wanted_us;
	bool refused;
} rm = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(rm.lock, CU_SLICE);

static bool is_control_node(int fd, ino_t *inode)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISCHR(st.st_mode) || major(st.st_rdev) != NVIDIA_MAJOR ||
		minor(st.st_rdev) != NVIDIACTL)
		return false;
	*inode = st.st_ino;
	return true;
}

/* -ENOENT: the group has ended. */
static int error_of(uint32_t status)
{
	switch (status) {
	case 0:
		return 0;
	case NO_CLIENT:
	case NO_HANDLE:
	case NO_OBJECT:
	case OBJECT_LOST:
		return -ENOENT;
	default:
		return -EPERM;
	}
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

	/* The program may have closed the descriptor and opened something else under that
	 * number. */
	if (!is_control_node(t->fd, &inode) || inode != t->inode)
		return -EBADF;
	if (syscall(SYS_ioctl, t->fd, _IOWR(RM_MAGIC, RM_CONTROL, struct rm_control), &c) < 0)
		return -errno;
	return error_of(c.status);
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

/* Lock held. The end of a group may have gone unseen. The last group takes its place, so a loop
 * over all of them runs downwards. */
static int apply_or_forget(unsigned i, uint64_t us)
{
	int rc = apply(&rm.tsg[i], us);

	if (rc != -ENOENT && rc != -EBADF)
		return rc;
	rm.tsg[i] = rm.tsg[--rm.n];
	return -ENOENT;
}

static bool ends_with(const struct tsg *t, uint32_t handle)
{
	return t->handle == handle || t->device == handle || t->space == handle ||
	       t->client == handle;
}

/* Lock held. */
static void forget(uint32_t client, uint32_t handle)
{
	for (unsigned i = rm.n; i-- > 0;)
		if (rm.tsg[i].client == client && ends_with(&rm.tsg[i], handle))
			rm.tsg[i] = rm.tsg[--rm.n];
}

/* An older group with the same handle has ended. */
static void add(struct tsg t)
{
	if (!is_control_node(t.fd, &t.inode))
		return;
	pthread_mutex_lock(&rm.lock);
	forget(t.client, t.handle);
	if (rm.n < GROUPS_MAX)
		rm.tsg[rm.n++] = t;
	pthread_mutex_unlock(&rm.lock);
}

static void drop(uint32_t client, uint32_t handle)
{
	pthread_mutex_lock(&rm.lock);
	forget(client, handle);
	pthread_mutex_unlock(&rm.lock);
}

static void seen_alloc(struct tsg t, uint32_t class, uint64_t params)
{
	const char *p = (const char *)(uintptr_t)params;
	uint32_t engine = 0;

	if (class != CLASS_TSG || !p)
		return;
	memcpy(&t.space, p + SPACE_OFFSET, sizeof(t.space));
	memcpy(&engine, p + ENGINE_OFFSET, sizeof(engine));
	if (engine >= ENGINE_GR0 && engine <= ENGINE_GR7)
		add(t);
}

/* The older form begins with the same members. */
static void seen(int fd, unsigned nr, size_t size, const void *arg)
{
	const struct rm_alloc64 *a = arg;
	const struct rm_alloc21 *old = arg;
	const struct rm_free *f = arg;

	if (nr == RM_ALLOC &&
		((size == sizeof(*a) && !a->status) || (size == sizeof(*old) && !old->status)))
		seen_alloc((struct tsg){.fd = fd,
				   .client = old->root,
				   .handle = old->object,
				   .device = old->parent},
			old->class, old->params);
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

/* Lock held. A refusal ends the loop, except when all slices are given back. */
static int apply_all(uint64_t us)
{
	int n = 0, err = 0;

	for (unsigned i = rm.n; i-- > 0;) {
		int rc;

		if (rm.tsg[i].set_us == us)
			continue;
		rc = apply_or_forget(i, us);
		n += !rc;
		err = rc && rc != -ENOENT ? rc : err;
		if (rc == -EPERM && us)
			break;
	}
	return err ? err : n;
}

int fm_cu_timeslice_refresh(void)
{
	int rc, saved = errno;

	pthread_mutex_lock(&rm.lock);
	rc = apply_all(rm.refused ? 0 : rm.wanted_us);
	if (rc == -EPERM && rm.wanted_us && !rm.refused) {
		rm.refused = true;
		apply_all(0);
	}
	pthread_mutex_unlock(&rm.lock);
	errno = saved;
	return rc;
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
	for (unsigned i = rm.n; i-- > 0 && n >= 0;) {
		int rc = apply_or_forget(i, 0);

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
