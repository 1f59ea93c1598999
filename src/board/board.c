/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"
#include "memfile.h"
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* The head of a board, at its beginning. */
static const struct fm_memfile_head board_head = {.magic = FM_BOARD_MAGIC,
	.version = FM_BOARD_VERSION,
	.rows = FM_BOARD_SLOTS,
	.size = sizeof(struct fm_board)};
_Static_assert(offsetof(struct fm_board, magic) == 0 && offsetof(struct fm_board, version) == 4 &&
		       offsetof(struct fm_board, slots) == 6 &&
		       offsetof(struct fm_board, size) == 8,
	"board_head");

static void open_gates(struct fm_board *b)
{
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++) {
		atomic_store_explicit(&b->slot[i].gate, FM_GATE_OPEN, memory_order_relaxed);
		atomic_store_explicit(&b->slot[i].bells, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&b->contended, 0, memory_order_relaxed);
	atomic_store_explicit(&b->rest, 0, memory_order_relaxed);
	atomic_store_explicit(&b->rest_leave, 0, memory_order_relaxed);
}

int fm_board_create(struct fm_board **board, int *fd)
{
	void *at;
	int rc = fm_memfile_create(&at, fd, "fermata-board", &board_head);

	if (!rc)
		*board = at;
	return rc;
}

int fm_board_map(struct fm_board **board, int fd)
{
	void *at;
	int rc = fm_memfile_map(&at, fd, &board_head);

	if (!rc)
		*board = at;
	return rc;
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
