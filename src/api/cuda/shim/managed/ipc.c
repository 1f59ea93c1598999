/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is passed to other processes by the older way (cuIpcGetMemHandle). The driver has no
 * such handles for memory of the arena, so they are ours: a name of a socket, and a secret. Who
 * opens one asks the owner, by that socket, for descriptors of the memory, and maps it. Only
 * processes of the same user are answered, or believed. The memory stays on the device, at both
 * ends.
 *
 * A process without this library has the driver's error for such a handle.
 *
 * Owns: the socket, and the thread that answers; what was given, and what has been opened.
 */
#include "api/cuda/shim/guard/kill.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "managed.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x316370692d6d66) /* "fm-ipc1" */

#define ANOTHER_PROCESSES 201 /* CUDA_ERROR_INVALID_CONTEXT: of one's own memory */

struct token { /* of 64 bytes */
	uint64_t magic, socket;
	uint64_t secret[2];
	uint64_t size;
};

struct answer {
	uint64_t size, offset;
	uint32_t n; /* messages that follow, with a descriptor each; 0: there is no such memory */
};

/* --- the owner --- */

struct given {
	struct given *next;
	struct token token;
	struct fm_cuda_managed *of;
	CUdeviceptr at;
	uint64_t id;
};

static struct {
	pthread_mutex_t lock;
	struct given *all;
	uint64_t socket; /* its name; 0: there is none */
	int fd;
	_Atomic dev_t dev; /* what fd is, as long as the program has not closed it: */
	_Atomic ino_t ino; /* then it may be a socket of its own */
} owner = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};
FM_LOCK_RANK(owner.lock, CUDA_GIVEN);

static bool is_still_ours(int fd)
{
	struct stat is;

	return fd >= 0 && !fstat(fd, &is) && is.st_dev == owner.dev && is.st_ino == owner.ino;
}

static socklen_t address_of(uint64_t name, struct sockaddr_un *a)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1,
				   "fermata-ipc-%016llx", (unsigned long long)name));
}

static bool is_same_user(int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid();
}

static void wait_at_most(int sock, int what, uint64_t ns)
{
	uint64_t us = FM_MAX(ns / FM_US, (uint64_t)1); /* 0 would be without end */
	const struct timeval t = {
		.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};

	setsockopt(sock, SOL_SOCKET, what, &t, sizeof(t));
}

/* One message, with a descriptor unless fd is -1. */
static bool say(int sock, const void *what, size_t size, int fd)
{
	struct iovec io = {.iov_base = (void *)what, .iov_len = size};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} more = {{0}};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *c;

		m.msg_control = more.bytes;
		m.msg_controllen = sizeof(more.bytes);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)size;
}

/* One message of just that size, in time; *fd: its descriptor, or -1. */
static bool hear(int sock, void *what, size_t size, int *fd, uint64_t until)
{
	struct iovec io = {.iov_base = what, .iov_len = size};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} more;
	/* Not for more descriptors than one: there is room for another in what aligns. */
	struct msghdr m = {.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = more.bytes,
		.msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t n = -1;
	uint64_t now;

	*fd = -1;
	errno = EINTR; /* signals begin the wait anew */
	while (n < 0 && errno == EINTR && (now = fm_now()) < until) {
		wait_at_most(sock, SO_RCVTIMEO, until - now);
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	}
	for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
			c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(fd, CMSG_DATA(c), sizeof(int));
	if (n == (ssize_t)size && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return true;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return false;
}

/* A secret is compared as a whole: how far it is right takes no time to tell. */
static bool is_known(const struct token *t, struct given *g)
{
	bool found = false;

	pthread_mutex_lock(&owner.lock);
	for (const struct given *it = owner.all; it; it = it->next) {
		if ((it->token.secret[0] ^ t->secret[0]) | (it->token.secret[1] ^ t->secret[1]))
			continue;
		*g = *it;
		found = true;
	}
	pthread_mutex_unlock(&owner.lock);
	return found;
}

static void answer(int sock)
{
	struct fm_cu_shared s = {.n = 0};
	struct answer a = {.n = 0};
	struct given g;
	struct token t;
	bool goes_on;
	int fd;

	wait_at_most(sock, SO_SNDTIMEO, FM_CU_IPC_QUESTION);
	if (!is_same_user(sock) || !hear(sock, &t, sizeof(t), &fd, fm_now() + FM_CU_IPC_QUESTION))
		return;
	if (fd >= 0)
		close(fd);
	fm_cu_inside++;
	if (t.magic == MAGIC && is_known(&t, &g) &&
		!fm_cu_arena_share(atomic_load(&g.of->arena), g.at, g.id, &s))
		a = (struct answer){s.size, s.offset, s.n};
	fm_cu_inside--;
	goes_on = say(sock, &a, sizeof(a), -1);
	for (unsigned i = 0; i < s.n; i++) {
		uint64_t size = s.part[i].size;

		goes_on = goes_on && say(sock, &size, sizeof(size), s.part[i].fd);
		close(s.part[i].fd);
	}
}

static void *answers(void *listener)
{
	int fd = (int)(intptr_t)listener, sock;

	while (is_still_ours(fd)) {
		sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (sock < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (sock < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
					errno == ENOBUFS)) {
			usleep(100000);
			continue;
		}
		if (sock < 0)
			return NULL;
		answer(sock);
		close(sock);
	}
	return NULL;
}

static bool start_thread(int fd)
{
	pthread_attr_t attr;
	sigset_t all, was;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	rc = pthread_create(&thread, &attr, answers, (void *)(intptr_t)fd);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	return !rc;
}

/* Lock held. A program may have closed what it does not know: then there is another. */
static bool is_listening(void)
{
	struct sockaddr_un a;
	struct stat is;
	uint64_t name;
	int fd;

	if (owner.socket && is_still_ours(owner.fd))
		return true;
	if (syscall(SYS_getrandom, &name, sizeof(name), 0) != sizeof(name) || !name)
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (fstat(fd, &is) || bind(fd, (struct sockaddr *)&a, address_of(name, &a)) ||
		listen(fd, SOMAXCONN)) {
		close(fd);
		return false;
	}
	atomic_store(&owner.dev, is.st_dev);
	atomic_store(&owner.ino, is.st_ino);
	if (!start_thread(fd)) {
		close(fd);
		return false;
	}
	owner.fd = fd;
	owner.socket = name;
	return true;
}

/* Lock held. The same block has the same handle each time. NULL: there is none. */
static struct given *give(struct fm_cuda_managed *m, const struct fm_cu_block *b)
{
	struct given *g = owner.all;

	while (g && g->id != b->id)
		g = g->next;
	if (!is_listening())
		return NULL;
	if (g) {
		g->token.socket = owner.socket;
		return g;
	}
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	*g = (struct given){.next = owner.all,
		.token = {.magic = MAGIC, .socket = owner.socket, .size = b->size},
		.of = m,
		.at = b->at,
		.id = b->id};
	if (syscall(SYS_getrandom, g->token.secret, sizeof(g->token.secret), 0) !=
		sizeof(g->token.secret)) {
		free(g);
		return NULL;
	}
	owner.all = g;
	return g;
}

/* Blocks that were given and are gone. Each block has another id, so that they are never mistaken,
 * but they are not to heap up. */
static void forget_gone(void)
{
	struct fm_cu_block b;
	struct given **g, *it;

	pthread_mutex_lock(&owner.lock);
	for (g = &owner.all; (it = *g);) {
		if (fm_cuda_managed_find(it->at, &b) == it->of && b.id == it->id) {
			g = &it->next;
			continue;
		}
		*g = it->next;
		free(it);
	}
	pthread_mutex_unlock(&owner.lock);
}

/* What runs from the host is not the device's to pass on. */
static bool can_share(struct fm_cuda_managed *m, const struct fm_cu_block *b)
{
	struct fm_cu_shared s = {.n = 0};
	int rc;

	fm_cu_inside++;
	rc = fm_cu_arena_share(atomic_load(&m->arena), b->at, b->id, &s);
	fm_cu_inside--;
	while (s.n)
		close(s.part[--s.n].fd);
	return !rc;
}

/* It comes in first, and is not pinned in vain. */
static bool could_share(struct fm_cuda_managed *m, const struct fm_cu_block *b)
{
	return b->size <= FM_CU_SHARED_BYTES &&
	       FM_CUDA_NAMING(fm_cu_arena_could_share(atomic_load(&m->arena), b));
}

/* Of pools and of what the program has mapped the driver has no handles either. */
fm_cu_result cuIpcGetMemHandle(struct fm_cu_ipc_handle *handle, CUdeviceptr p)
{
	struct fm_cuda_managed *m;
	struct fm_cu_block block;
	CUmemoryPool pool;
	struct given *g = NULL;
	size_t size;
	bool can;
	FM_NO_CANCEL;

	atomic_store(&fm_cuda_kill_exported, true);
	m = fm_cu_inside ? NULL : fm_cuda_managed_find(p, &block);
	if (!m || !handle || !block.size || fm_cuda_async_find(block.at, &size, &pool))
		return NEXT(cuIpcGetMemHandle, (handle, p));
	forget_gone();
	if (could_share(m, &block)) {
		fm_cuda_managed_pin(p, FM_MEM_PIN_SHARED, FM_CUDA_PINNER(__func__));
		can = can_share(m, &block);
		pthread_mutex_lock(&owner.lock);
		g = can ? give(m, &block) : NULL;
		if (g) {
			memset(handle, 0, sizeof(*handle));
			memcpy(handle, &g->token, sizeof(g->token));
		}
		pthread_mutex_unlock(&owner.lock);
	}
	if (g)
		return FM_CU_SUCCESS;
	fm_cuda_managed_trouble(FM_MEM_REFUSED_IPC);
	return NEXT(cuIpcGetMemHandle, (handle, p));
}

/* --- who opens it --- */

struct opened {
	struct opened *next;
	uint64_t secret[2];
	CUdevice dev;
	CUdeviceptr base, at;
	size_t size;  /* of all that is mapped from `base` on, */
	size_t bytes; /* and of the block at `at` */
	unsigned refs;
	unsigned n;
	size_t part[FM_CU_SHARED_MOST];
};

static struct {
	pthread_mutex_t lock; /* not over the question to the owner, which may take its time */
	struct opened *all;
	_Atomic bool any; /* there is, or was, one */
} user = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(user.lock, CUDA_OPENED);

void fm_cuda_ipc_fork_child(void)
{
	owner.lock = user.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (is_still_ours(owner.fd))
		close(owner.fd);
	owner.fd = -1;
	owner.socket = 0;
	owner.all = NULL;
	user.all = NULL;
	atomic_store(&user.any, false);
}

/* No descriptor comes with it. */
static bool hear_answer(int sock, struct answer *a, uint64_t until)
{
	int fd;

	if (!hear(sock, a, sizeof(*a), &fd, until))
		return false;
	if (fd >= 0)
		close(fd);
	return fd < 0;
}

/* Descriptors of the memory; nothing that the owner says is believed without a look. */
static bool ask(const struct token *t, struct fm_cu_shared *s)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint64_t until = fm_now() + FM_CU_IPC_ANSWER;
	struct answer a = {.n = 0};
	struct sockaddr_un to;
	bool ok;

	s->n = 0;
	if (sock < 0)
		return false;
	wait_at_most(sock, SO_SNDTIMEO, FM_CU_IPC_ANSWER / 2); /* there are two such waits */
	ok = !connect(sock, (struct sockaddr *)&to, address_of(t->socket, &to)) &&
	     is_same_user(sock) && say(sock, t, sizeof(*t), -1) && hear_answer(sock, &a, until) &&
	     a.size == t->size && a.n && a.n <= FM_CU_SHARED_MOST;
	s->size = a.size;
	s->offset = a.offset;
	for (unsigned i = 0; ok && i < a.n; i++) {
		uint64_t size = 0;

		ok = hear(sock, &size, sizeof(size), &s->part[i].fd, until) && s->part[i].fd >= 0;
		s->n += ok;
		s->part[i].size = size;
		ok = ok && size && size <= (uint64_t)128 << 20 && size % FM_CUDA_MEM_GRANULE == 0;
	}
	close(sock);
	return ok;
}

static void unmap(const struct fm_cu_driver *cu, struct opened *o)
{
	CUdeviceptr at = o->base;

	for (unsigned i = 0; i < o->n; at += o->part[i++])
		cu->mem_unmap(at, o->part[i]);
	if (o->base)
		cu->mem_unreserve(o->base, o->size);
}

static fm_cu_result map_part(
	const struct fm_cu_driver *cu, struct opened *o, CUdeviceptr at, int fd, size_t size)
{
	const struct fm_cu_memory_access here = {
		{FM_CU_LOCATION_DEVICE, o->dev}, FM_CU_MEMORY_READ_WRITE};
	unsigned long long handle;
	fm_cu_result rc = cu->mem_import(&handle, (void *)(intptr_t)fd, FM_CU_MEMORY_FD);

	if (rc)
		return rc;
	rc = cu->mem_map(at, size, 0, handle, 0);
	cu->mem_release(handle); /* the mapping keeps it */
	if (rc)
		return rc;
	o->part[o->n++] = size;
	return cu->mem_access(at, size, &here, 1);
}

static fm_cu_result map_all(
	const struct fm_cu_driver *cu, struct opened *o, const struct fm_cu_shared *s)
{
	fm_cu_result rc;
	CUdeviceptr at;

	for (unsigned i = 0; i < s->n; i++)
		o->size += s->part[i].size;
	if (s->offset > o->size || s->size > o->size - s->offset)
		return FM_CU_ERROR_INVALID_VALUE;
	rc = cu->mem_reserve(&o->base, o->size, FM_CUDA_MEM_GRANULE, 0, 0);
	if (rc)
		o->base = 0;
	at = o->base;
	for (unsigned i = 0; i < s->n && !rc; at += s->part[i++].size)
		rc = map_part(cu, o, at, s->part[i].fd, s->part[i].size);
	o->at = o->base + s->offset;
	o->bytes = s->size;
	if (rc)
		unmap(cu, o);
	return rc;
}

/* Lock held. */
static struct opened *find_opened(const struct token *t, CUdevice dev)
{
	struct opened *o = user.all;

	while (o && (memcmp(o->secret, t->secret, sizeof(o->secret)) || o->dev != dev))
		o = o->next;
	return o;
}

/* Lock held. */
static fm_cu_result map_new(
	const struct token *t, CUdevice dev, const struct fm_cu_shared *s, struct opened **opened)
{
	struct opened *o = calloc(1, sizeof(*o));
	fm_cu_result rc;

	if (!o)
		return FM_CU_ERROR_OUT_OF_MEMORY;
	o->dev = dev;
	memcpy(o->secret, t->secret, sizeof(o->secret));
	rc = map_all(fm_cuda_driver(), o, s);
	if (rc) {
		free(o);
		return rc;
	}
	o->next = user.all;
	user.all = o;
	atomic_store(&user.any, true);
	*opened = o;
	return rc;
}

/* Lock held, which is given up while the owner is asked; another thread may have opened it since.
 */
static fm_cu_result open_new(const struct token *t, CUdevice dev, struct opened **opened)
{
	struct fm_cu_shared s;
	fm_cu_result rc = FM_CU_SUCCESS;
	bool answered;

	pthread_mutex_unlock(&user.lock);
	answered = ask(t, &s);
	pthread_mutex_lock(&user.lock);
	*opened = find_opened(t, dev);
	if (!*opened)
		rc = answered ? map_new(t, dev, &s, opened) : FM_CU_ERROR_INVALID_VALUE;
	while (s.n)
		close(s.part[--s.n].fd);
	return rc;
}

static bool is_own(const struct token *t)
{
	bool own;

	pthread_mutex_lock(&owner.lock);
	own = t->socket && t->socket == owner.socket;
	pthread_mutex_unlock(&owner.lock);
	return own;
}

static fm_cu_result open_handle(CUdeviceptr *ptr, const struct token *t)
{
	struct fm_cuda_mem_at here = fm_cuda_mem_here();
	fm_cu_result rc = FM_CU_SUCCESS;
	struct opened *o;
	FM_NO_CANCEL;

	if (!ptr || !here.ctx)
		return FM_CU_ERROR_INVALID_VALUE;
	if (is_own(t))
		return ANOTHER_PROCESSES;
	pthread_mutex_lock(&user.lock);
	o = find_opened(t, here.dev);
	if (!o)
		rc = open_new(t, here.dev, &o);
	if (!rc) {
		o->refs++;
		*ptr = o->at;
		fm_cuda_mem_opened(o->at, o->size);
	}
	pthread_mutex_unlock(&user.lock);
	return rc;
}

fm_cu_result fm_cuda_ipc_open(CUdeviceptr *ptr, const struct fm_cu_ipc_handle *handle)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	struct token t;

	memcpy(&t, handle, sizeof(t));
	if (fm_cu_inside || t.magic != MAGIC || !cu || !cu->mem_import || !cu->mem_reserve ||
		!cu->mem_unreserve || !cu->mem_map || !cu->mem_unmap || !cu->mem_access ||
		!cu->mem_release)
		return FM_CUDA_NOT_MANAGED;
	return open_handle(ptr, &t);
}

static bool is_opened(CUdeviceptr ptr)
{
	struct opened *o;

	pthread_mutex_lock(&user.lock);
	for (o = user.all; o && o->at != ptr; o = o->next)
		;
	pthread_mutex_unlock(&user.lock);
	return o;
}

/* What uses it comes to an end first, as in the driver. */
static fm_cu_result close_opened(CUdeviceptr ptr)
{
	struct opened **at, *o;
	FM_NO_CANCEL;

	pthread_mutex_lock(&user.lock);
	for (at = &user.all; (o = *at) && o->at != ptr; at = &o->next)
		;
	if (o && !--o->refs) {
		*at = o->next;
		unmap(fm_cuda_driver(), o);
		free(o);
	}
	pthread_mutex_unlock(&user.lock);
	return o ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result fm_cuda_ipc_close(CUdeviceptr ptr)
{
	fm_cu_result rc;

	if (fm_cu_inside || !atomic_load(&user.any) || !is_opened(ptr))
		return FM_CUDA_NOT_MANAGED;
	rc = cuCtxSynchronize(); /* ours: it waits for gates outside the driver */
	return rc ? rc : close_opened(ptr);
}

/* The range around an address of memory that was opened. */
bool fm_cuda_ipc_find(CUdeviceptr p, CUdeviceptr *at, size_t *size)
{
	struct opened *o;

	if (FM_LIKELY(!atomic_load_explicit(&user.any, memory_order_relaxed)))
		return false;
	pthread_mutex_lock(&user.lock);
	for (o = user.all; o && p - o->at >= o->bytes; o = o->next)
		;
	if (o) {
		*at = o->at;
		*size = o->bytes;
	}
	pthread_mutex_unlock(&user.lock);
	return o;
}
