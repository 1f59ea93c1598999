/* SPDX-License-Identifier: Apache-2.0 */
#include "memfile.h"
#include "base/cleanup.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW)

/* Memory can be set aside beyond a file's end before the file is sealed. It is freed with the file.
 * Where pages are large, one page may be there. */
#define BLOCKS_MOST ((4u << 20) / 512)

static int sealed_file(const char *name, size_t size)
{
	FM_CLEAN_FD int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct rlimit limit;

	if (fd < 0)
		return -errno;
	/* Beyond the file size limit, ftruncate() would raise a signal that ends the program. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size)
		return -EFBIG;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, SEALS_NEEDED | F_SEAL_SEAL) < 0)
		return -errno;
	return fm_take_fd(&fd);
}

static int map(void **at, int fd, size_t size)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*at = p;
	return 0;
}

int fm_memfile_create(void **at, int *fd, const char *name, const struct fm_memfile_head *head)
{
	FM_CLEAN_FD int file = -1;
	int rc;

	if (fd) {
		file = sealed_file(name, head->size);
		if (file < 0)
			return file;
	}
	rc = map(at, file, head->size);
	if (rc)
		return rc;
	memcpy(*at, head, sizeof(*head));
	if (fd)
		*fd = fm_take_fd(&file);
	return 0;
}

int fm_memfile_map(void **at, int fd, const struct fm_memfile_head *head)
{
	/* F_GET_SEALS succeeds on memory files alone, so the file cannot lie on a file system that
	 * blocks or fails under the reader. Sealed against shrinking, it raises SIGBUS only if the
	 * machine has no memory for a page that its client has given back (src/daemon/bus.h): so
	 * its head is not read there. */
	int seals = fcntl(fd, F_GET_SEALS), rc;
	struct fm_memfile_head is;
	struct stat st;

	if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED)
		return -EINVAL;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != (off_t)head->size ||
		st.st_blocks > (blkcnt_t)BLOCKS_MOST)
		return -EINVAL;
	if (pread(fd, &is, sizeof(is), 0) != sizeof(is) || memcmp(&is, head, sizeof(is)) != 0)
		return -EINVAL;
	rc = map(at, fd, head->size);
	return rc && rc != -ENOMEM ? -EINVAL : rc;
}
