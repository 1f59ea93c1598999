/* SPDX-License-Identifier: Apache-2.0 */
/* The page of gates of strict mode: who can do what with it. (As another user: tests/fault,
 * test_strict.py.) */
#include "base/cleanup.h"
#include "board/gates.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)

static void page_is_the_daemons(void **state)
{
	struct fm_gates *g;
	FM_CLEAN_FD int fd = -1;
	struct stat st;

	assert_int_equal(fm_gates_create(&g, &fd, 42), 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(g->pid, 42);
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++)
		assert_int_equal(LOAD(g->slot[i].gate), FM_GATE_OPEN);
	fm_gates_unmap(g);
}

static void reader_sees_and_cannot_write(void **state)
{
	FM_CLEAN_FD int fd = -1, reader = -1;
	struct fm_gates *g, *seen;

	assert_int_equal(fm_gates_create(&g, &fd, 1), 0);
	reader = fm_gates_reader(fd);
	assert_true(reader >= 0);
	assert_int_equal(fm_gates_map(&seen, reader), 0);
	atomic_store(&g->slot[127].gate, FM_GATE_CLOSED);
	assert_int_equal(LOAD(seen->slot[127].gate), FM_GATE_CLOSED);
	assert_ptr_equal(
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0), MAP_FAILED);
	assert_int_equal(mprotect(seen, sizeof(*seen), PROT_READ | PROT_WRITE), -1);
	assert_int_equal(pwrite(reader, "", 1, 0), -1);
	fm_gates_open_all(g);
	assert_int_equal(LOAD(seen->slot[127].gate), FM_GATE_OPEN);
	fm_gates_unmap(seen);
	fm_gates_unmap(g);
}

/* By what the client shows, which is for reading: with the gates as they were. */
static void next_daemon_writes_again(void **state)
{
	FM_CLEAN_FD int fd = -1, reader = -1, again = -1;
	struct fm_gates *g, *seen, *next;

	assert_int_equal(fm_gates_create(&g, &fd, 7), 0);
	reader = fm_gates_reader(fd);
	assert_int_equal(fm_gates_map(&seen, reader), 0);
	atomic_store(&g->slot[5].gate, FM_GATE_CLOSED);
	fm_gates_unmap(g);
	close(fm_take_fd(&fd));
	assert_int_equal(fm_gates_adopt(&next, &again, reader), 0);
	assert_true(fcntl(again, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(next->pid, 7);
	assert_int_equal(LOAD(next->slot[5].gate), FM_GATE_CLOSED);
	fm_gates_open_all(next);
	assert_int_equal(LOAD(seen->slot[5].gate), FM_GATE_OPEN);
	fm_gates_unmap(next);
	fm_gates_unmap(seen);
}

static int forged(size_t size, unsigned seals, mode_t mode, uint32_t magic)
{
	struct fm_gates g = {.magic = magic,
		.version = FM_GATES_VERSION,
		.slots = FM_BOARD_SLOTS,
		.size = sizeof(g)};
	int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0 && !ftruncate(fd, (off_t)size) && !fchmod(fd, mode));
	assert_true(pwrite(fd, &g, 64, 0) == 64);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void assert_refused(int fd, int adopt, int map)
{
	struct fm_gates *g = NULL;
	int out = -1;

	assert_int_equal(fm_gates_adopt(&g, &out, fd), adopt);
	assert_int_equal(out, -1);
	assert_int_equal(fm_gates_map(&g, fd), map);
	if (map)
		assert_null(g);
	fm_gates_unmap(g);
	close(fd);
}

static void what_is_no_page_is_refused(void **state)
{
	const unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW;
	const size_t size = sizeof(struct fm_gates);
	int p[2];

	assert_int_equal(pipe(p), 0);
	assert_refused(p[0], -EINVAL, -EINVAL);
	assert_refused(p[1], -EINVAL, -EINVAL);
	assert_refused(open("/dev/null", O_RDWR), -EINVAL, -EINVAL);
	assert_refused(open("/", O_RDONLY), -EINVAL, -EINVAL);
	assert_refused(forged(size, 0, 0600, FM_GATES_MAGIC), -EINVAL, -EINVAL);
	assert_refused(forged(size, F_SEAL_GROW, 0600, FM_GATES_MAGIC), -EINVAL, -EINVAL);
	assert_refused(forged(size - 1, seals, 0600, FM_GATES_MAGIC), -EINVAL, -EINVAL);
	assert_refused(forged(size + 1, seals, 0600, FM_GATES_MAGIC), -EINVAL, -EINVAL);
	assert_refused(forged(size, seals, 0600, FM_BOARD_MAGIC), -EINVAL, -EINVAL);
	/* Others could have opened it to write. */
	assert_refused(forged(size, seals, 0660, FM_GATES_MAGIC), -EPERM, 0);
	assert_refused(forged(size, seals, 0602, FM_GATES_MAGIC), -EPERM, 0);
}

/* Why a page is not sealed against writing: no daemon after the first could open its gates. */
static void a_write_seal_would_be_for_ever(void **state)
{
	FM_CLEAN_FD int fd = forged(sizeof(struct fm_gates),
		F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, 0600, FM_GATES_MAGIC);
	struct fm_gates *g;
	int out;

	assert_int_equal(fm_gates_adopt(&g, &out, fd), -EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page_is_the_daemons),
		cmocka_unit_test(reader_sees_and_cannot_write),
		cmocka_unit_test(next_daemon_writes_again),
		cmocka_unit_test(what_is_no_page_is_refused),
		cmocka_unit_test(a_write_seal_would_be_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
