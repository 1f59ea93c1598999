/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEFT_PART 16

/* For tests: another folder for /sys, and for /proc where it has one. */
static bool read_text(const char *path, char *text, size_t size)
{
	const char *root = secure_getenv("FERMATA_TEST_SYSFS");
	char file[PATH_MAX];
	FM_CLEAN_FD int fd = -1;
	ssize_t n;

	snprintf(file, sizeof(file), "%s%s", root ? root : "", path);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && root && !strncmp(path, "/proc/", 6))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, size - 1) : -1;
	text[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

/* A line of /proc/meminfo, which has KiB. */
static uint64_t line_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) << 10 : UINT64_MAX;
}

static uint64_t number_in(const char *path)
{
	char text[64], *end;
	uint64_t v;

	if (!read_text(path, text, sizeof(text)))
		return UINT64_MAX;
	v = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : v;
}

uint64_t machine_host_left(void)
{
	uint64_t most = number_in("/sys/fs/cgroup/memory.max"), used = 0, all, left;
	char text[4096];

	if (!read_text("/proc/meminfo", text, sizeof(text)))
		return UINT64_MAX;
	all = line_of(text, "MemTotal:");
	left = line_of(text, "MemAvailable:");
	if (all == UINT64_MAX || left == UINT64_MAX)
		return UINT64_MAX;
	if (most != UINT64_MAX)
		used = number_in("/sys/fs/cgroup/memory.current");
	left = FM_MIN(left, used == UINT64_MAX ? most : fm_sub_sat(most, used));
	return fm_sub_sat(left, FM_MIN(all, most) / LEFT_PART);
}

uint64_t machine_own(pid_t pid)
{
	uint64_t size, resident, shared;
	long page = sysconf(_SC_PAGESIZE);
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	if (pid <= 0 || page <= 0 || !read_text(path, text, sizeof(text)) ||
		sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &size, &resident, &shared) != 3)
		return UINT64_MAX;
	return fm_sub_sat(resident, shared) * (uint64_t)page;
}

/* The state is behind the name, which may have any character in it. */
bool machine_is_stopped(pid_t pid)
{
	char path[64], text[256], *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (pid <= 0 || !read_text(path, text, sizeof(text)))
		return false;
	state = strrchr(text, ')');
	return state && (!strncmp(state, ") T ", 4) || !strncmp(state, ") t ", 4));
}

void machine_place(const char *bus, struct fm_bridge_place *place)
{
	place->node = fm_pci_node(bus);
	fm_pci_bridge(bus, place->link);
}
