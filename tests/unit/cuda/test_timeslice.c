// SPDX-License-Identifier: Apache-2.0
/* The process's channel groups, as they are seen in libcuda's ioctls, and their time slice, on a
 * fake of NVIDIA's kernel driver (fakes/rm), which knows what has ended whether or not that was
 * seen. */
#include "../../fakes/rm/rm.h"
#include "api/cuda/core/timeslice.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENT 0xc1d00001u
#define DEVICE 0x5c000000u
#define SPACE  0x5c000100u
#define GROUP  0x5c000200u

static int node;

/* As libcuda makes its ioctls: by our function, or, unseen, by another way. */
static int seen(unsigned long request, void *arg)
{
	return fm_cu_ioctl(node, request, arg);
}

static int unseen(unsigned long request, void *arg)
{
	return (int)syscall(SYS_ioctl, node, request, arg);
}

typedef int way(unsigned long request, void *arg);

static void make(uint32_t parent, uint32_t handle, uint32_t class, struct rm_tsg *params)
{
	struct rm_alloc64 a = {.root = CLIENT,
		.parent = parent,
		.object = handle,
		.class = class,
		.params = (uintptr_t)params,
		.params_size = params ? sizeof(*params) : 0};

	assert_int_equal(seen(_IOWR('F', RM_ALLOC, struct rm_alloc64), &a), 0);
	assert_int_equal(a.status, 0);
}

static void make_group_on(uint32_t device, uint32_t handle)
{
	make(device, handle, CLASS_TSG, &(struct rm_tsg){.space = SPACE, .engine = RM_GRAPHICS});
}

static void make_group(uint32_t handle)
{
	make_group_on(DEVICE, handle);
}

static void end(way *by, uint32_t handle)
{
	struct rm_free f = {.root = CLIENT, .object = handle};

	assert_int_equal(by(_IOWR('F', RM_FREE, struct rm_free), &f), 0);
	assert_int_equal(f.status, 0);
}

static uint64_t slice(uint32_t handle)
{
	return fake_rm_slice(CLIENT, handle);
}

/* As no group is known any more: nothing is asked. */
static void none_known(void)
{
	unsigned asked = fake_rm_asked();

	assert_int_equal(fm_cu_timeslice(7), 0);
	assert_int_equal(fake_rm_asked(), asked);
}

/* A process with a client, a device and an address space on that. */
static int setup(void **state)
{
	node = memfd_create("nvidiactl", MFD_CLOEXEC);
	fake_rm_node(node);
	make(0, CLIENT, CLASS_CLIENT, NULL);
	make(CLIENT, DEVICE, CLASS_DEVICE, NULL);
	make(DEVICE, SPACE, CLASS_SPACE, NULL);
	return 0;
}

static int teardown(void **state)
{
	struct rm_free f = {.root = CLIENT, .object = CLIENT};

	unseen(_IOWR('F', RM_FREE, struct rm_free), &f);
	close(node);
	fm_cu_timeslice_fork_child(); /* forgets all */
	return 0;
}

static void it_is_set_and_given_back(void **state)
{
	make_group(GROUP);
	make_group(GROUP + 1);
	assert_int_equal(fm_cu_timeslice(1), 2);
	assert_int_equal(slice(GROUP), 1);
	assert_int_equal(slice(GROUP + 1), 1);
	make_group(GROUP + 2);
	assert_int_equal(fm_cu_timeslice_refresh(), 1);
	assert_int_equal(slice(GROUP + 2), 1);
	assert_int_equal(fm_cu_timeslice(0), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(slice(GROUP + i), RM_SLICE);
	end(seen, GROUP);
	end(seen, GROUP + 1);
	end(seen, GROUP + 2);
	none_known();
}

static void those_that_copy_are_left_alone(void **state)
{
	make(DEVICE, GROUP, CLASS_TSG, &(struct rm_tsg){.space = SPACE, .engine = RM_COPIES});
	none_known();
	assert_int_equal(slice(GROUP), RM_SLICE);
}

/* The older form of the ioctl that makes one, and both inside the one that large ones need. */
static void every_form_is_seen(void **state)
{
	struct rm_tsg params = {.space = SPACE, .engine = RM_GRAPHICS};
	struct rm_alloc21 old = {.root = CLIENT,
		.parent = DEVICE,
		.object = GROUP,
		.class = CLASS_TSG,
		.params = (uintptr_t)&params};
	struct rm_alloc64 new = {.root = CLIENT,
		.parent = DEVICE,
		.object = GROUP + 2,
		.class = CLASS_TSG,
		.params = (uintptr_t)&params};
	struct rm_free f = {.root = CLIENT};
	struct rm_xfer x = {.cmd = RM_ALLOC, .size = sizeof(old), .ptr = (uintptr_t)&old};

	assert_int_equal(seen(_IOWR('F', RM_ALLOC, struct rm_alloc21), &old), 0);
	old.object = GROUP + 1;
	assert_int_equal(seen(_IOWR('F', RM_XFER, struct rm_xfer), &x), 0);
	x = (struct rm_xfer){.cmd = RM_ALLOC, .size = sizeof(new), .ptr = (uintptr_t) & new};
	assert_int_equal(seen(_IOWR('F', RM_XFER, struct rm_xfer), &x), 0);
	assert_int_equal(fm_cu_timeslice(1), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(slice(GROUP + i), 1);
	x = (struct rm_xfer){.cmd = RM_FREE, .size = sizeof(f), .ptr = (uintptr_t)&f};
	for (uint32_t i = 0; i < 3; i++) {
		f.object = GROUP + i;
		assert_int_equal(seen(_IOWR('F', RM_XFER, struct rm_xfer), &x), 0);
		assert_int_equal(f.status, 0);
	}
	none_known();
}

/* What the driver did not do has not happened. */
static void what_fails_is_not_believed(void **state)
{
	struct rm_tsg params = {.engine = RM_GRAPHICS};
	struct rm_alloc21 old = {.root = CLIENT,
		.parent = DEVICE + 1,
		.object = GROUP,
		.class = CLASS_TSG,
		.params = (uintptr_t)&params};
	struct rm_alloc64 new = {.root = CLIENT,
		.parent = DEVICE + 1,
		.object = GROUP,
		.class = CLASS_TSG,
		.params = (uintptr_t)&params};
	struct rm_free f = {.root = CLIENT, .object = GROUP};

	seen(_IOWR('F', RM_ALLOC, struct rm_alloc21), &old);
	seen(_IOWR('F', RM_ALLOC, struct rm_alloc64), &new);
	assert_int_equal(old.status, RM_NO_OBJECT);
	assert_int_equal(new.status, RM_NO_OBJECT);
	none_known();
	make_group(GROUP);
	fake_rm_refuse(CLIENT, GROUP, true);
	seen(_IOWR('F', RM_FREE, struct rm_free), &f);
	assert_int_not_equal(f.status, 0);
	fake_rm_refuse(CLIENT, GROUP, false);
	assert_int_equal(fm_cu_timeslice(1), 1);
}

/* It ends with its device, its address space, and its client; those of another device stay. */
static void a_group_ends_with_what_it_hangs_on(void **state)
{
	static const uint32_t parent[] = {SPACE, DEVICE, CLIENT};

	make(CLIENT, DEVICE + 1, CLASS_DEVICE, NULL);
	make(DEVICE + 1, GROUP + 1, CLASS_TSG, &(struct rm_tsg){.engine = RM_GRAPHICS});
	for (size_t i = 0; i < sizeof(parent) / sizeof(*parent); i++) {
		unsigned asked;

		make_group(GROUP);
		end(seen, parent[i]);
		assert_int_equal(slice(GROUP), 0);
		asked = fake_rm_asked();
		if (parent[i] == CLIENT)
			break;
		assert_int_equal(fm_cu_timeslice(1), 1);
		assert_int_equal(fm_cu_timeslice(0), 1);
		assert_int_equal(fake_rm_asked() - asked, i ? 2 : 3); /* its own, the first time */
		if (parent[i] == DEVICE)
			make(CLIENT, DEVICE, CLASS_DEVICE, NULL);
		make(DEVICE, SPACE, CLASS_SPACE, NULL);
	}
	none_known();
}

/* Nobody has seen how it ended. That is no refusal: the others get theirs, and give it back. */
static void one_that_has_ended_is_forgotten(void **state)
{
	unsigned asked;

	for (uint32_t i = 0; i < 3; i++)
		make_group(GROUP + i);
	assert_int_equal(fm_cu_timeslice(1), 3);
	end(unseen, GROUP + 1);
	assert_int_equal(fm_cu_timeslice(0), 2);
	assert_int_equal(slice(GROUP), RM_SLICE);
	assert_int_equal(slice(GROUP + 2), RM_SLICE);
	end(unseen, GROUP);
	assert_int_equal(fm_cu_timeslice(1), 1);
	assert_int_equal(slice(GROUP + 2), 1);
	asked = fake_rm_asked();
	assert_int_equal(fm_cu_timeslice(0), 1);
	assert_int_equal(fake_rm_asked() - asked, 1);
	end(unseen, CLIENT);
	assert_int_equal(fm_cu_timeslice_try(), 0);
	none_known();
}

/* A handle is given out again: the new one has a slice of its own to give back. */
static void a_handle_comes_again(void **state)
{
	unsigned asked;

	make_group(GROUP);
	assert_int_equal(fm_cu_timeslice(1), 1);
	end(unseen, GROUP);
	make_group(GROUP);
	asked = fake_rm_asked();
	assert_int_equal(fm_cu_timeslice_refresh(), 1);
	assert_int_equal(fake_rm_asked() - asked, 2);
	assert_int_equal(slice(GROUP), 1);
	assert_int_equal(fm_cu_timeslice(0), 1);
	assert_int_equal(slice(GROUP), RM_SLICE);
}

/* The driver is left alone from then on, and those that had one already give it back. */
static void one_is_refused(void **state)
{
	unsigned asked;

	for (uint32_t refused = 0; refused < 3; refused++) {
		for (uint32_t i = 0; i < 3; i++)
			make_group(GROUP + i);
		fake_rm_refuse(CLIENT, GROUP + refused, true);
		assert_int_equal(fm_cu_timeslice(1), -EPERM);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(slice(GROUP + i), RM_SLICE);
		asked = fake_rm_asked();
		assert_int_equal(fm_cu_timeslice(0), 0);
		assert_int_equal(fm_cu_timeslice(1), 0);
		assert_int_equal(fake_rm_asked(), asked);
		assert_int_equal(fm_cu_timeslice_try(), -EPERM);
		teardown(state);
		setup(state);
	}
}

static void all_are_refused(void **state)
{
	unsigned asked = fake_rm_asked();

	for (uint32_t i = 0; i < 3; i++) {
		make_group(GROUP + i);
		fake_rm_refuse(CLIENT, GROUP + i, true);
	}
	assert_int_equal(fm_cu_timeslice(1), -EPERM);
	assert_int_equal(fake_rm_asked() - asked, 2); /* what one had, and to set it */
}

/* One that cannot be given back keeps nobody else from it, and is tried again. */
static void one_refuses_to_be_given_back(void **state)
{
	for (uint32_t i = 0; i < 3; i++)
		make_group(GROUP + i);
	assert_int_equal(fm_cu_timeslice(1), 3);
	fake_rm_refuse(CLIENT, GROUP + 1, true);
	assert_int_equal(fm_cu_timeslice(0), -EPERM);
	assert_int_equal(slice(GROUP), RM_SLICE);
	assert_int_equal(slice(GROUP + 1), 1);
	assert_int_equal(slice(GROUP + 2), RM_SLICE);
	fake_rm_refuse(CLIENT, GROUP + 1, false);
	assert_int_equal(fm_cu_timeslice_refresh(), 1);
	assert_int_equal(slice(GROUP + 1), RM_SLICE);
}

/* The program has closed the descriptor, or has something else there: nothing is said to that. */
static void the_descriptor_is_gone(void **state)
{
	unsigned asked;
	int other;

	make_group(GROUP);
	assert_int_equal(fm_cu_timeslice(1), 1);
	asked = fake_rm_asked();
	other = memfd_create("nvidiactl", MFD_CLOEXEC);
	assert_int_equal(dup2(other, node), node);
	assert_int_equal(fm_cu_timeslice(0), 0);
	none_known();
	make_group(GROUP + 1);
	fake_rm_node(-1);
	assert_int_equal(fm_cu_timeslice(1), 0);
	none_known();
	fake_rm_node(node);
	make_group(GROUP + 2);
	close(node);
	assert_int_equal(fm_cu_timeslice(3), 0);
	assert_int_equal(fake_rm_asked(), asked);
	assert_int_equal(dup2(other, node), node);
	none_known();
	close(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_is_set_and_given_back),
		TEST(those_that_copy_are_left_alone),
		TEST(every_form_is_seen),
		TEST(what_fails_is_not_believed),
		TEST(a_group_ends_with_what_it_hangs_on),
		TEST(one_that_has_ended_is_forgotten),
		TEST(a_handle_comes_again),
		TEST(one_is_refused),
		TEST(all_are_refused),
		TEST(one_refuses_to_be_given_back),
		TEST(the_descriptor_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
