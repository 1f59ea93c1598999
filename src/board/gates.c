/* SPDX-License-Identifier: Apache-2.0 */
#include "gates.h"
#include "base/cleanup.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW)

static int reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int map(struct fm_gates **gates, int fd, int prot)
{
	struct fm_gates *g = mmap(NULL, sizeof(*g), prot, MAP_SHARED, fd, 0);

	if (g == MAP_FAILED)
		return -errno;
	*gates = g;
	return 0;
}

static bool sound(const struct fm_gates *g)
{
	return g->magic == FM_GATES_MAGIC && g->version == FM_GATES_VERSION &&
	       g->slots == FM_BOARD_SLOTS && g->size == sizeof(*g);
}

/* Is it a memory file of the right size that cannot change its size? Reading such a file neither
 * blocks nor fails. */
static bool is_page(int fd, struct stat *st)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS_NEEDED) == SEALS_NEEDED && !fstat(fd, st) &&
	       S_ISREG(st->st_mode) && st->st_size == (off_t)sizeof(struct fm_gates);
}

int fm_gates_create(struct fm_gates **gates, int *fd, pid_t pid)
{
	FM_CLEAN_FD int mem = memfd_create("fermata-gates", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct fm_gates *g = NULL;
	int rc;

	if (mem < 0)
		return -errno;
	/* All pages are allocated now: touching one for which there is no memory is a SIGBUS. */
	if (fchmod(mem, 0600) || ftruncate(mem, sizeof(*g)) || fallocate(mem, 0, 0, sizeof(*g)))
		return -errno;
	if (fcntl(mem, F_ADD_SEALS, SEALS_NEEDED | F_SEAL_SEAL))
		return -errno;
	rc = map(&g, mem, PROT_READ | PROT_WRITE);
	if (rc)
		return rc;
	g->magic = FM_GATES_MAGIC;
	g->version = FM_GATES_VERSION;
	g->slots = FM_BOARD_SLOTS;
	g->size = sizeof(*g);
	g->pid = pid;
	*gates = g;
	*fd = fm_take_fd(&mem);
	return 0;
}

int fm_gates_adopt(struct fm_gates **gates, int *out, int fd)
{
	FM_CLEAN_FD int mem = -1;
	struct fm_gates *g = NULL;
	struct stat st;
	int rc;

	if (!is_page(fd, &st))
		return -EINVAL;
	/* Only this user can have made it, or opened it for writing. */
	if (st.st_uid != geteuid() || st.st_mode & 077)
		return -EPERM;
	mem = reopen(fd, O_RDWR);
	if (mem < 0)
		return mem;
	rc = map(&g, mem, PROT_READ | PROT_WRITE);
	if (rc)
		return rc;
	if (!sound(g)) {
		fm_gates_unmap(g);
		return -EINVAL;
	}
	*gates = g;
	*out = fm_take_fd(&mem);
	return 0;
}

int fm_gates_reader(int fd)
{
	return reopen(fd, O_RDONLY);
}

void fm_gates_open_all(struct fm_gates *gates)
{
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++)
		atomic_store_explicit(&gates->slot[i].gate, FM_GATE_OPEN, memory_order_release);
}

int fm_gates_map(struct fm_gates **gates, int fd)
{
	struct fm_gates *g = NULL;
	struct stat st;
	int rc;

	if (!is_page(fd, &st))
		return -EINVAL;
	rc = map(&g, fd, PROT_READ);
	if (rc)
		return rc;
	if (!sound(g)) {
		fm_gates_unmap(g);
		return -EINVAL;
	}
	*gates = g;
	return 0;
}

void fm_gates_unmap(struct fm_gates *gates)
{
	if (gates)
		munmap(gates, sizeof(*gates));
}
