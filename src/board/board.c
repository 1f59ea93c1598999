/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"
#include "base/cleanup.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW)

/* Memory can be set aside beyond a file's end before the file is sealed. It is freed with the file.
 * Where pages are large, one page may be there. */
#define BLOCKS_MOST ((4u << 20) / 512)

static void open_gates(struct fm_board *b)
{
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++) {
		atomic_store_explicit(&b->slot[i].gate, FM_GATE_OPEN, memory_order_relaxed);
		atomic_store_explicit(&b->slot[i].bells, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&b->contended, 0, memory_order_relaxed);
}

static int board_memfd(void)
{
	FM_CLEAN_FD int fd = memfd_create("fermata-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct rlimit limit;

	if (fd < 0)
		return -errno;
	/* Beyond the file size limit, ftruncate() would raise a signal that ends the program. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < sizeof(struct fm_board))
		return -EFBIG;
	if (ftruncate(fd, sizeof(struct fm_board)) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, SEALS_NEEDED | F_SEAL_SEAL) < 0)
		return -errno;
	return fm_take_fd(&fd);
}

static int map(struct fm_board **board, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, sizeof(**board), PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*board = p;
	return 0;
}

int fm_board_create(struct fm_board **board, int *fd)
{
	FM_CLEAN_FD int memfd = -1;
	struct fm_board *b = NULL;
	int rc;

	if (fd) {
		memfd = board_memfd();
		if (memfd < 0)
			return memfd;
	}
	rc = map(&b, memfd);
	if (rc)
		return rc;
	b->magic = FM_BOARD_MAGIC;
	b->version = FM_BOARD_VERSION;
	b->slots = FM_BOARD_SLOTS;
	b->size = sizeof(*b);
	if (fd)
		*fd = fm_take_fd(&memfd);
	*board = b;
	return 0;
}

/* The head of a board, at its beginning. */
struct head {
	uint32_t magic;
	uint16_t version, slots;
	uint32_t size;
};
_Static_assert(offsetof(struct fm_board, magic) == 0 && offsetof(struct fm_board, version) == 4 &&
		       offsetof(struct fm_board, slots) == 6 &&
		       offsetof(struct fm_board, size) == 8,
	"struct head");

static bool is_sound(const struct head *h)
{
	return h->magic == FM_BOARD_MAGIC && h->version == FM_BOARD_VERSION &&
	       h->slots == FM_BOARD_SLOTS && h->size == sizeof(struct fm_board);
}

int fm_board_map(struct fm_board **board, int fd)
{
	/* F_GET_SEALS succeeds on memory files alone, so a board cannot lie on a file system that
	 * blocks or fails under the reader. Sealed against shrinking, it raises SIGBUS only if the
	 * machine has no memory for a page that its client has given back (src/daemon/bus.h): so
	 * its head is not read there. */
	int seals = fcntl(fd, F_GET_SEALS);
	struct fm_board *b = NULL;
	struct head head;
	struct stat st;
	int rc;

	if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED)
		return -EINVAL;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != (off_t)sizeof(*b) ||
		st.st_blocks > (blkcnt_t)BLOCKS_MOST)
		return -EINVAL;
	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || !is_sound(&head))
		return -EINVAL;
	rc = map(&b, fd);
	if (rc)
		return rc == -ENOMEM ? rc : -EINVAL;
	*board = b;
	return 0;
}

void fm_board_unmap(struct fm_board *board)
{
	if (board)
		munmap(board, sizeof(*board));
}

void fm_board_detach(struct fm_board *board)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t size = sizeof(*board);
	void *copy = mmap(NULL, size, prot, flags, -1, 0);

	/* The copy is finished before it replaces the original, so that no thread sees a closed
	 * gate or a counter of zero in between. If memory is short, an empty board is used: it is
	 * private, too. */
	if (copy != MAP_FAILED) {
		memcpy(copy, board, size);
		open_gates(copy);
		if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, board) == board)
			return;
		munmap(copy, size);
	}
	if (mmap(board, size, prot, flags | MAP_FIXED, -1, 0) == board)
		open_gates(board);
}

bool fm_board_call_is(const struct fm_board_call *row, const char *name)
{
	for (unsigned i = 0; i < FM_CALL_MAX - 1; i++) {
		if (atomic_load_explicit(&row->name[i], memory_order_relaxed) != name[i])
			return false;
		if (!name[i])
			return true;
	}
	return true;
}

void fm_board_call_name(struct fm_board_call *row, const char *name)
{
	for (unsigned i = 0; i < FM_CALL_MAX - 1 && name[i]; i++)
		atomic_store_explicit(&row->name[i], name[i], memory_order_relaxed);
}

static bool in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == ' ' || c == '-' || c == '(' || c == ')';
}

bool fm_board_call_read(const struct fm_board_call *row, struct fm_call *call)
{
	unsigned n = 0;
	char c;

	call->ungoverned = atomic_load_explicit(&row->ungoverned, memory_order_acquire);
	call->undivided = atomic_load_explicit(&row->undivided, memory_order_acquire);
	if (!call->ungoverned && !call->undivided)
		return false;
	while ((c = atomic_load_explicit(&row->name[n], memory_order_relaxed))) {
		if (n == FM_CALL_MAX - 1 || !in_name(c))
			return false;
		call->name[n++] = c;
	}
	call->name[n] = 0;
	return n > 0;
}
