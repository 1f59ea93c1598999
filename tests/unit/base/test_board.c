/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "board/board.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)

static void created_board_is_sealed_open_and_empty(void **state)
{
	struct fm_board *b = NULL;
	FM_CLEAN_FD int fd = -1;

	assert_int_equal(fm_board_create(&b, &fd), 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++) {
		assert_int_equal(LOAD(b->slot[i].gate), FM_GATE_OPEN);
		assert_int_equal(fm_slot_pending(&b->slot[i]), 0);
		assert_int_equal(LOAD(b->slot[i].bells), 0);
	}
	fm_board_unmap(b);
}

static void two_mappings_share_words(void **state)
{
	struct fm_board *client, *daemon;
	FM_CLEAN_FD int fd = -1;

	assert_int_equal(fm_board_create(&client, &fd), 0);
	assert_int_equal(fm_board_map(&daemon, fd), 0);
	assert_ptr_not_equal(client, daemon);
	atomic_store(&client->slot[7].begun, 3);
	assert_int_equal(fm_slot_pending(&daemon->slot[7]), 3);
	atomic_store(&daemon->slot[7].gate, FM_GATE_CLOSED);
	assert_int_equal(LOAD(client->slot[7].gate), FM_GATE_CLOSED);
	fm_board_unmap(daemon);
	fm_board_unmap(client);
}

static void private_board_needs_no_descriptor(void **state)
{
	struct fm_board *b;

	assert_int_equal(fm_board_create(&b, NULL), 0);
	assert_int_equal(b->magic, FM_BOARD_MAGIC);
	assert_int_equal(LOAD(b->slot[FM_BOARD_SLOTS - 1].gate), FM_GATE_OPEN);
	fm_board_unmap(b);
}

static void pending_of_a_liar_is_none(void **state)
{
	struct fm_slot s = {0};

	atomic_store(&s.begun, 2);
	atomic_store(&s.done, 5);
	assert_int_equal(fm_slot_pending(&s), 0);
}

static int memory_file(off_t size, int seals, const struct fm_board *head)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	if (head)
		assert_int_equal(pwrite(fd, head, offsetof(struct fm_board, agent_sleeps), 0),
			offsetof(struct fm_board, agent_sleeps));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void refuses(int fd)
{
	struct fm_board *b = NULL;

	assert_int_equal(fm_board_map(&b, fd), -EINVAL);
	assert_null(b);
	if (fd >= 0)
		close(fd);
}

static void hostile_descriptors_are_refused(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	const off_t size = sizeof(struct fm_board);
	struct fm_board head = {.magic = FM_BOARD_MAGIC,
		.version = FM_BOARD_VERSION,
		.slots = FM_BOARD_SLOTS,
		.size = sizeof(head)};
	struct fm_board wrong = head, *b;
	int p[2], fd;

	refuses(-1);
	refuses(open("/dev/zero", O_RDWR));
	refuses(open("/proc/self/exe", O_RDONLY));
	assert_int_equal(pipe(p), 0);
	close(p[1]);
	refuses(p[0]);
	refuses(memory_file(size, 0, &head));
	refuses(memory_file(size, F_SEAL_GROW, &head));
	refuses(memory_file(size, F_SEAL_SHRINK, &head));
	refuses(memory_file(size - 1, seals, &head));
	refuses(memory_file(size + 4096, seals, &head));
	refuses(memory_file(0, seals, NULL));
	refuses(memory_file(size, seals, NULL));
	refuses(memory_file(size, seals | F_SEAL_WRITE, &head));
	wrong.version++;
	refuses(memory_file(size, seals, &wrong));
	wrong = head;
	wrong.slots--;
	refuses(memory_file(size, seals, &wrong));
	wrong = head;
	wrong.size++;
	refuses(memory_file(size, seals, &wrong));
	/* The very same with nothing wrong is taken: the refusals above are for their reasons. */
	fd = memory_file(size, seals, &head);
	assert_int_equal(fm_board_map(&b, fd), 0);
	fm_board_unmap(b);
	close(fd);
}

static void child_after_fork_detaches(void **state)
{
	struct fm_board *b;
	FM_CLEAN_FD int fd = -1;
	int status;
	pid_t pid;

	assert_int_equal(fm_board_create(&b, &fd), 0);
	atomic_store(&b->slot[0].gate, FM_GATE_CLOSED);
	atomic_store(&b->slot[0].begun, 9);
	atomic_store(&b->slot[0].bells, FM_BELL_READY);
	pid = fork();
	if (!pid) {
		fm_board_detach(b);
		if (LOAD(b->slot[0].gate) != FM_GATE_OPEN || LOAD(b->slot[0].begun) != 9 ||
			LOAD(b->slot[0].bells))
			_exit(1);
		atomic_store(&b->slot[0].begun, 1000);
		fm_board_unmap(b);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(LOAD(b->slot[0].gate), FM_GATE_CLOSED);
	assert_int_equal(LOAD(b->slot[0].begun), 9);
	fm_board_unmap(b);
}

static void names_of_calls_are_read_back(void **state)
{
	static const char longest[] =
		"an_exceedingly_long_name_of_a_call_that_is_cut_off_somewhere";
	struct fm_board_call row = {0};
	struct fm_call call;

	fm_board_call_name(&row, "cuLaunchKernel");
	assert_true(fm_board_call_is(&row, "cuLaunchKernel"));
	assert_false(fm_board_call_is(&row, "cuLaunchKernelEx"));
	assert_false(fm_board_call_is(&row, "cuLaunch"));
	assert_false(fm_board_call_read(&row, &call)); /* not counted yet */
	atomic_store(&row.ungoverned, 3);
	assert_true(fm_board_call_read(&row, &call));
	assert_string_equal(call.name, "cuLaunchKernel");
	assert_int_equal(call.ungoverned, 3);
	assert_int_equal(call.undivided, 0);
	row = (struct fm_board_call){.undivided = 1};
	fm_board_call_name(&row, longest);
	assert_true(fm_board_call_is(&row, longest));
	assert_true(fm_board_call_read(&row, &call));
	assert_int_equal(strlen(call.name), FM_CALL_MAX - 1);
	assert_memory_equal(call.name, longest, FM_CALL_MAX - 1);
	atomic_store(&row.name[FM_CALL_MAX - 1], 'x'); /* no end */
	assert_false(fm_board_call_read(&row, &call));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(created_board_is_sealed_open_and_empty),
		cmocka_unit_test(two_mappings_share_words),
		cmocka_unit_test(private_board_needs_no_descriptor),
		cmocka_unit_test(pending_of_a_liar_is_none),
		cmocka_unit_test(hostile_descriptors_are_refused),
		cmocka_unit_test(child_after_fork_detaches),
		cmocka_unit_test(names_of_calls_are_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
