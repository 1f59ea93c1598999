/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the host has for what leaves the device, and pages made in advance. A page fault
 * beyond the limit of a cgroup ends a process of that cgroup, so the limit is looked at before.
 */
#include "api/cuda/core/tune.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "chunk.h"
#include "host.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* --- room --- */

static bool read_file(const char *path, char *text, size_t size)
{
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;

	if (n < 0)
		return false;
	text[n] = 0;
	return true;
}

static uint64_t meminfo(const char *what)
{
	char text[4096], *at;

	if (!read_file("/proc/meminfo", text, sizeof(text)))
		return 0;
	at = strstr(text, what);
	return at ? strtoull(at + strlen(what), NULL, 10) << 10 : 0;
}

uint64_t fm_cu_host_most(void)
{
	return meminfo("MemTotal:") / 2;
}

/* The number in a file of a folder of the cgroup; `none` if there is no number. */
static uint64_t cgroup_number(const char *folder, const char *file, uint64_t none)
{
	char path[PATH_MAX], text[64], *end;
	int n = snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", folder, file);
	uint64_t value;

	if (n < 0 || (size_t)n >= sizeof(path) || !read_file(path, text, sizeof(text)))
		return none;
	value = strtoull(text, &end, 10);
	return end == text ? none : value;
}

/* What the cgroups of the process leave, from its own up to the root of what it can see. */
static uint64_t cgroup_room(void)
{
	char text[PATH_MAX + 256], *folder, *end;
	uint64_t room = UINT64_MAX;

	if (!read_file("/proc/self/cgroup", text, sizeof(text)))
		return room;
	folder = strncmp(text, "0::/", 4) ? strstr(text, "\n0::/") : text;
	if (!folder)
		return room;
	folder = strchr(folder, '/');
	folder[strcspn(folder, "\n")] = 0;
	do {
		uint64_t most = cgroup_number(folder, "memory.max", UINT64_MAX);
		uint64_t used = most == UINT64_MAX ? 0 : cgroup_number(folder, "memory.current", 0);

		room = FM_MIN(room, fm_sub_sat(most, used));
		end = strrchr(folder, '/');
		if (end)
			*end = 0;
	} while (end);
	return room;
}

struct fm_cu_host_room fm_cu_host_room(void)
{
	return (struct fm_cu_host_room){meminfo("MemAvailable:"), cgroup_room()};
}

bool fm_cu_host_has_room(uint64_t bytes, uint64_t uncounted)
{
	struct fm_cu_host_room room = fm_cu_host_room();
	uint64_t cgroup = fm_sub_sat(room.cgroup, uncounted);

	return FM_MIN(room.machine, cgroup) >= fm_add_sat(bytes, FM_CU_HOST_LEFT);
}

/* --- pages --- */

struct part {
	char *at;
	size_t size;
	int rc;
};

static int touch(char *at, size_t size)
{
	if (!madvise(at, size, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL) /* Linux before 5.14 does not have it */
		return -errno;
	for (size_t i = 0; i < size; i += 4096)
		((volatile char *)at)[i] = 0;
	return 0;
}

static void *touch_part(void *part)
{
	struct part *p = part;

	p->rc = touch(p->at, p->size);
	return NULL;
}

/* Signals of the program are for its own threads. */
static bool start(pthread_t *thread, struct part *p)
{
	sigset_t all, was;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	rc = pthread_create(thread, NULL, touch_part, p);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return !rc;
}

/* The kernel clears pages at some 5 to 10 GB/s in one thread. */
int fm_cu_host_populate(char *at, size_t size)
{
	struct part part[FM_CU_POPULATE_THREADS];
	pthread_t thread[FM_CU_POPULATE_THREADS];
	bool started[FM_CU_POPULATE_THREADS] = {false};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = (unsigned)FM_MAX(1, FM_MIN(cpus / 2, FM_CU_POPULATE_THREADS));
	size_t each = (size / n + FM_CU_PAGE - 1) / FM_CU_PAGE * FM_CU_PAGE, from = 0;
	int rc = 0;
	FM_NO_CANCEL;

	madvise(at, size, MADV_HUGEPAGE);
	for (unsigned i = 0; i < n; i++, from += part[i - 1].size) {
		part[i] = (struct part){at + from, FM_MIN(each, size - from), 0};
		started[i] = i && part[i].size && start(&thread[i], &part[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		if (started[i])
			pthread_join(thread[i], NULL);
		else if (part[i].size)
			touch_part(&part[i]);
		rc = rc ? rc : part[i].rc;
	}
	return rc;
}
