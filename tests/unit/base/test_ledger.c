/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "board/ledger.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD offsetof(struct fm_ledger, managed)

static void created_ledger_is_sealed_and_allows_everything(void **state)
{
	struct fm_ledger *l = NULL;
	FM_CLEAN_FD int fd = -1;

	assert_int_equal(fm_ledger_create(&l, &fd), 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		assert_int_equal(atomic_load(&l->device[i].capacity), 0);
		assert_int_equal(atomic_load(&l->device[i].claimed), 0);
		assert_true(atomic_load(&l->device[i].allowed) == UINT64_MAX);
	}
	fm_ledger_unmap(l);
}

static void two_mappings_share_words(void **state)
{
	struct fm_ledger *client, *daemon;
	FM_CLEAN_FD int fd = -1;

	assert_int_equal(fm_ledger_create(&client, &fd), 0);
	assert_int_equal(fm_ledger_map(&daemon, fd), 0);
	assert_ptr_not_equal(client, daemon);
	atomic_store(&client->device[3].claimed, 77);
	assert_int_equal(atomic_load(&daemon->device[3].claimed), 77);
	atomic_store(&daemon->device[3].allowed, 99);
	assert_int_equal(atomic_load(&client->device[3].allowed), 99);
	fm_ledger_unmap(daemon);
	fm_ledger_unmap(client);
}

static int memory_file(off_t size, int seals, const struct fm_ledger *head)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	if (head)
		assert_int_equal(pwrite(fd, head, HEAD, 0), HEAD);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void refuses(int fd)
{
	struct fm_ledger *l = NULL;

	assert_int_equal(fm_ledger_map(&l, fd), -EINVAL);
	assert_null(l);
	if (fd >= 0)
		close(fd);
}

static void hostile_descriptors_are_refused(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	const off_t size = sizeof(struct fm_ledger);
	struct fm_ledger head = {.magic = FM_LEDGER_MAGIC,
		.version = FM_LEDGER_VERSION,
		.devices = FM_LEDGER_DEVICES,
		.size = sizeof(head)};
	struct fm_ledger wrong = head, *l;
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
	refuses(memory_file(size, seals, NULL));
	refuses(memory_file(size, seals | F_SEAL_WRITE, &head));
	wrong.magic++;
	refuses(memory_file(size, seals, &wrong));
	wrong = head;
	wrong.version++;
	refuses(memory_file(size, seals, &wrong));
	wrong = head;
	wrong.devices++;
	refuses(memory_file(size, seals, &wrong));
	/* The very same with nothing wrong is taken: the refusals above are for their reasons. */
	fd = memory_file(size, seals, &head);
	assert_int_equal(fm_ledger_map(&l, fd), 0);
	fm_ledger_unmap(l);
	close(fd);
}

static void child_after_fork_has_nothing(void **state)
{
	struct fm_ledger *l;
	FM_CLEAN_FD int fd = -1;
	int status;
	pid_t pid;

	assert_int_equal(fm_ledger_create(&l, &fd), 0);
	atomic_store(&l->device[0].claimed, 9);
	pid = fork();
	if (!pid) {
		fm_ledger_detach(l);
		if (atomic_load(&l->device[0].claimed))
			_exit(1);
		atomic_store(&l->device[0].claimed, 1000);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(atomic_load(&l->device[0].claimed), 9);
	fm_ledger_unmap(l);
}

static void kinds_have_names_and_some_are_pinned(void **state)
{
	for (unsigned k = 0; k < FM_MEM_KINDS; k++) {
		assert_non_null(fm_mem_kind_name((enum fm_mem_kind)k));
		for (unsigned j = 0; j < k; j++)
			assert_string_not_equal(fm_mem_kind_name((enum fm_mem_kind)k),
				fm_mem_kind_name((enum fm_mem_kind)j));
	}
	assert_null(fm_mem_kind_name(FM_MEM_KINDS));
	assert_false(fm_mem_pinned(FM_MEM_MOVABLE));
	assert_true(fm_mem_pinned(FM_MEM_PIN_WISH) && fm_mem_pinned(FM_MEM_PIN_UNKNOWN));
	assert_false(fm_mem_pinned(FM_MEM_PLAIN) || fm_mem_pinned(FM_MEM_CONTEXT));
}

static void troubles_have_a_text_and_a_remedy(void **state)
{
	assert_string_equal(fm_mem_trouble_text(FM_MEM_FINE), "");
	assert_string_equal(fm_mem_trouble_text(FM_MEM_TROUBLES), "");
	assert_string_equal(fm_mem_trouble_remedy((enum fm_mem_trouble) - 1), "");
	for (unsigned t = 1; t < FM_MEM_TROUBLES; t++) {
		assert_true(*fm_mem_trouble_text((enum fm_mem_trouble)t));
		assert_true(*fm_mem_trouble_remedy((enum fm_mem_trouble)t));
	}
}

static void pins_are_noted_once_and_are_bounded(void **state)
{
	static struct fm_ledger_pins pins;
	struct fm_mem_pin pin;
	char longer[200], what[8];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	for (unsigned i = 0; i < 3; i++)
		fm_ledger_pin(&pins, FM_MEM_PIN_UNKNOWN, longer, "lib\033[2J.so");
	assert_true(fm_ledger_pinned(&pins, 0, &pin));
	assert_int_equal(pin.kind, FM_MEM_PIN_UNKNOWN);
	assert_int_equal(strlen(pin.what), FM_PIN_WHAT - 1);
	assert_string_equal(pin.by, "lib_[2J.so");
	assert_false(fm_ledger_pinned(&pins, 1, &pin));
	for (unsigned i = 0; i < 2 * FM_LEDGER_PINS; i++) {
		snprintf(what, sizeof(what), "%u", i);
		fm_ledger_pin(&pins, FM_MEM_PIN_WISH, what, "");
	}
	assert_true(fm_ledger_pinned(&pins, FM_LEDGER_PINS - 1, &pin));
	assert_string_equal(pin.what, "6");
}

static void lying_pins_are_cut_and_left_out(void **state)
{
	static struct fm_ledger_pins pins;
	struct fm_mem_pin pin;

	memset(&pins, 0xff, sizeof(pins));
	for (unsigned i = 0; i < FM_LEDGER_PINS; i++)
		assert_false(fm_ledger_pinned(&pins, i, &pin));
	atomic_store(&pins.pin[3].kind, FM_MEM_PIN_ENGINE);
	atomic_store(&pins.pin[4].kind, FM_MEM_PLAIN);
	atomic_store(&pins.pin[5].kind, FM_MEM_KINDS);
	assert_true(fm_ledger_pinned(&pins, 3, &pin));
	assert_int_equal(strlen(pin.what), FM_PIN_WHAT - 1);
	assert_int_equal(strspn(pin.by, "_"), FM_PIN_BY - 1);
	assert_false(fm_ledger_pinned(&pins, 4, &pin));
	assert_false(fm_ledger_pinned(&pins, 5, &pin));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(created_ledger_is_sealed_and_allows_everything),
		cmocka_unit_test(two_mappings_share_words),
		cmocka_unit_test(hostile_descriptors_are_refused),
		cmocka_unit_test(child_after_fork_has_nothing),
		cmocka_unit_test(kinds_have_names_and_some_are_pinned),
		cmocka_unit_test(troubles_have_a_text_and_a_remedy),
		cmocka_unit_test(pins_are_noted_once_and_are_bounded),
		cmocka_unit_test(lying_pins_are_cut_and_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
