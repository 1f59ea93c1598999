/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/util.h"
#include "board/board.h"
#include "board/proto.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static union fm_msg sound(enum fm_msg_type type, size_t *size)
{
	union fm_msg m = {0};

	switch (type) {
	case FM_MSG_HELLO:
		m.hello = (struct fm_msg_hello){.board_version = FM_BOARD_VERSION,
			.board_size = sizeof(struct fm_board),
			.api = "test"};
		break;
	case FM_MSG_REFUSED:
		m.refused = (struct fm_msg_refused){.code = -EPERM, .text = "no"};
		break;
	case FM_MSG_GROUP:
		m.group = (struct fm_msg_group){.group = FM_BOARD_GROUPS - 1, .name = "trainer-1"};
		break;
	case FM_MSG_QUEUE:
		m.queue = (struct fm_msg_queue){.levels = 6, .device = "opencl:pthread AMD (1)"};
		break;
	default:
		break;
	}
	*size = fm_msg_head(&m, type);
	return m;
}

static void every_type_passes_with_its_size_only(void **state)
{
	struct fm_err err;
	size_t size;

	for (int t = FM_MSG_NONE + 1; t < FM_MSG_COUNT; t++) {
		union fm_msg m = sound(t, &size);

		assert_true(size >= sizeof(m.head));
		assert_int_equal(fm_msg_check(&m, size, &err), 0);
		assert_int_equal(fm_msg_check(&m, size - 1, &err), -EBADMSG);
		assert_int_equal(fm_msg_check(&m, size + 1, &err), -EBADMSG);
		assert_int_equal(fm_msg_check(&m, 0, &err), -EBADMSG);
		m.head.magic++;
		assert_int_equal(fm_msg_check(&m, size, &err), -EBADMSG);
		m.head.magic--;
		m.head.version++;
		assert_int_equal(fm_msg_check(&m, size, &err), -EPROTONOSUPPORT);
		assert_true(err.hint[0]);
	}
}

static void nothing_else_is_sent(void **state)
{
	union fm_msg m;

	for (unsigned type = FM_MSG_NONE + 1; type < FM_MSG_COUNT; type++) {
		const char *bytes = (const char *)&m;
		size_t size;

		memset(&m, 0xaa, sizeof(m));
		size = fm_msg_init(&m, (enum fm_msg_type)type);
		assert_int_equal(m.head.type, type);
		for (size_t i = sizeof(m.head); i < size; i++)
			assert_int_equal(bytes[i], 0);
	}
}

static void unknown_types_have_no_size(void **state)
{
	union fm_msg m = {0};

	assert_int_equal(fm_msg_head(&m, FM_MSG_NONE), 0);
	assert_int_equal(fm_msg_check(&m, sizeof(m.head), NULL), -EBADMSG);
	assert_int_equal(fm_msg_send(-1, &m, -1), -EINVAL);
	assert_int_equal(fm_msg_head(&m, FM_MSG_COUNT), 0);
	assert_int_equal(fm_msg_check(&m, sizeof(m.head), NULL), -EBADMSG);
}

static void refuse(const union fm_msg *m, size_t size, int code)
{
	struct fm_err err = {0};

	assert_int_equal(fm_msg_check(m, size, &err), code);
	assert_int_equal(err.code, code);
	assert_true(err.text[0]);
}

static void names_are_checked(void **state)
{
	static const char *const bad[] = {
		"a b", "a/b", "a'b", "a\"b", "a\nb", "a\tb", "\xc3\xa9", "`id`"};
	size_t size;
	union fm_msg m = sound(FM_MSG_GROUP, &size);

	for (size_t i = 0; i < FM_ARRAY_LEN(bad); i++) {
		memset(m.group.name, 0, sizeof(m.group.name));
		strcpy(m.group.name, bad[i]);
		refuse(&m, size, -EBADMSG);
	}
	memset(m.group.name, 'x', sizeof(m.group.name));
	refuse(&m, size, -EBADMSG);
	m.group.name[FM_NAME_MAX - 1] = '\0';
	assert_int_equal(fm_msg_check(&m, size, NULL), 0);
	m.group.name[0] = '\0';
	assert_int_equal(fm_msg_check(&m, size, NULL), 0);
	m.group.group = FM_BOARD_GROUPS;
	refuse(&m, size, -EBADMSG);
}

static void queues_are_checked(void **state)
{
	size_t size;
	const union fm_msg good = sound(FM_MSG_QUEUE, &size);
	union fm_msg m = good;

	m.queue.slot = FM_BOARD_SLOTS;
	refuse(&m, size, -EBADMSG);
	m = good;
	m.queue.group = UINT32_MAX;
	refuse(&m, size, -EBADMSG);
	m = good;
	m.queue.levels = 1u << (FM_LEVEL_RUNNING + 1);
	refuse(&m, size, -EBADMSG);
	m = good;
	m.queue.device[0] = '\0';
	refuse(&m, size, -EBADMSG);
	m = good;
	m.queue.device[3] = '\x1b';
	refuse(&m, size, -EBADMSG);
	m = good;
	memset(m.queue.device, 'd', sizeof(m.queue.device));
	refuse(&m, size, -EBADMSG);
	m = sound(FM_MSG_QUEUE_GONE, &size);
	m.queue_gone.slot = FM_BOARD_SLOTS;
	refuse(&m, size, -EBADMSG);
}

static void hints_and_segments_are_checked(void **state)
{
	size_t size;
	union fm_msg m = sound(FM_MSG_HINT, &size);

	m.hint.value = FM_PRIORITY_MAX;
	assert_int_equal(fm_msg_check(&m, size, NULL), 0);
	m.hint.value++;
	refuse(&m, size, -EBADMSG);
	m.hint.value = 0;
	m.hint.hint = FM_HINT_COUNT;
	refuse(&m, size, -EBADMSG);
	m.hint.hint = 0;
	m.hint.group = FM_BOARD_GROUPS;
	refuse(&m, size, -EBADMSG);
	m = sound(FM_MSG_SEGMENT, &size);
	m.segment.priority = INT32_MIN;
	assert_int_equal(fm_msg_check(&m, size, NULL), 0);
	m.segment.priority = INT32_MIN + 1;
	refuse(&m, size, -EBADMSG);
	m.segment.priority = 0;
	m.segment.begin = 2;
	refuse(&m, size, -EBADMSG);
	m.segment.begin = 0;
	m.segment.group = FM_BOARD_GROUPS;
	refuse(&m, size, -EBADMSG);
}

static void greetings_are_checked(void **state)
{
	size_t size;
	union fm_msg m = sound(FM_MSG_HELLO, &size);

	m.hello.board_version++;
	refuse(&m, size, -EPROTONOSUPPORT);
	m.hello.board_version--;
	m.hello.board_size++;
	refuse(&m, size, -EPROTONOSUPPORT);
	m.hello.board_size--;
	memset(m.hello.api, 'a', sizeof(m.hello.api));
	refuse(&m, size, -EBADMSG);
	m = sound(FM_MSG_REFUSED, &size);
	m.refused.code = 0;
	refuse(&m, size, -EBADMSG);
	m.refused.code = -1;
	memset(m.refused.text, 'a', sizeof(m.refused.text));
	refuse(&m, size, -EBADMSG);
}

static void pair(int s[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
}

static void messages_travel_with_their_descriptor(void **state)
{
	FM_CLEAN_FD int a = -1, b = -1, fd = -1, got = -1;
	struct fm_board *board, *again;
	union fm_msg m, in;
	size_t size;
	int s[2];

	pair(s);
	a = s[0];
	b = s[1];
	assert_int_equal(fm_msg_recv(b, &in, &got), -EAGAIN);
	m = sound(FM_MSG_HELLO, &size);
	assert_int_equal(fm_board_create(&board, &fd), 0);
	assert_int_equal(fm_msg_send(a, &m, fd), 0);
	assert_int_equal(fm_msg_recv(b, &in, &got), size);
	assert_memory_equal(&m, &in, size);
	assert_true(got >= 0);
	assert_true(fcntl(got, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fm_board_map(&again, got), 0);
	fm_board_unmap(again);
	fm_board_unmap(board);
	m = sound(FM_MSG_BELL, &size);
	assert_int_equal(fm_msg_send(a, &m, -1), 0);
	close(got);
	assert_int_equal(fm_msg_recv(b, &in, &got), size);
	assert_int_equal(got, -1);
	close(a);
	a = -1;
	assert_int_equal(fm_msg_recv(b, &in, &got), 0);
	assert_int_equal(fm_msg_send(b, &m, -1), -EPIPE);
}

static void send_descriptors(int sock, int fd, size_t n)
{
	char control[CMSG_SPACE(16 * sizeof(int))] = {0};
	struct fm_msg_head head = {0};
	struct iovec iov = {&head, sizeof(head)};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

	if (!n)
		mh.msg_controllen = 0;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
	assert_int_equal(sendmsg(sock, &mh, 0), sizeof(head));
}

/* The lowest free descriptor: unchanged when nothing leaked. */
static int lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void surplus_descriptors_do_not_leak(void **state)
{
	FM_CLEAN_FD int a = -1, b = -1, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int s[2], before, got;
	union fm_msg in;

	pair(s);
	a = s[0];
	b = s[1];
	before = lowest_free();
	for (size_t n = 2; n <= 16; n++) {
		send_descriptors(a, fd, n);
		assert_int_equal(fm_msg_recv(b, &in, &got), sizeof(in.head));
		assert_int_equal(got, -1);
	}
	send_descriptors(a, fd, 1);
	assert_int_equal(fm_msg_recv(b, &in, NULL), sizeof(in.head));
	assert_int_equal(lowest_free(), before);
}

/* What is not wanted is not taken, nor is it closed by who looks. */
static void a_stranger_is_looked_at_first(void **state)
{
	FM_CLEAN_FD int a = -1, b = -1, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int s[2], before, got = 7;
	union fm_msg in;

	pair(s);
	a = s[0];
	b = s[1];
	before = lowest_free();
	assert_int_equal(fm_msg_take(b, &in, &got), -EAGAIN);
	assert_int_equal(got, -1);
	send_descriptors(a, fd, 0);
	assert_int_equal(fm_msg_take(b, &in, NULL), sizeof(in.head));
	send_descriptors(a, fd, 1);
	assert_int_equal(fm_msg_take(b, &in, NULL), -EBADMSG);
	assert_int_equal(fm_recv_bytes(b, &in, sizeof(in)), -EBADMSG);
	assert_int_equal(lowest_free(), before);
	assert_int_equal(fm_msg_take(b, &in, &got), sizeof(in.head)); /* it is still there */
	assert_int_equal(got, before);
	close(got);
	for (size_t n = 2; n <= 16; n++) {
		send_descriptors(a, fd, n);
		assert_int_equal(fm_msg_take(b, &in, &got), -EBADMSG);
		assert_int_equal(got, -1);
		assert_int_equal(lowest_free(), before);
		assert_int_equal(fm_msg_recv(b, &in, NULL), sizeof(in.head));
	}
	close(a);
	a = -1;
	assert_int_equal(fm_msg_take(b, &in, &got), 0);
}

/* Also in a stream, where one read would go across messages. */
static void a_descriptor_behind_bytes_is_seen(void **state)
{
	FM_CLEAN_FD int a = -1, b = -1, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char in[256];
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	a = s[0];
	b = s[1];
	assert_int_equal(fm_recv_bytes(b, in, sizeof(in)), -EAGAIN);
	assert_int_equal(send(a, "12345", 5, 0), 5);
	assert_int_equal(fm_recv_bytes(b, in, sizeof(in)), 5);
	assert_int_equal(send(a, "12345", 5, 0), 5);
	send_descriptors(a, fd, 1);
	assert_int_equal(fm_recv_bytes(b, in, sizeof(in)), -EBADMSG);
}

static void a_full_socket_and_a_long_packet_do_not_block(void **state)
{
	char long_packet[2 * sizeof(union fm_msg)] = {0};
	FM_CLEAN_FD int a = -1, b = -1;
	int s[2], rc, got;
	union fm_msg m, in;
	size_t size;

	pair(s);
	a = s[0];
	b = s[1];
	assert_int_equal(send(a, long_packet, sizeof(long_packet), 0), sizeof(long_packet));
	assert_int_equal(fm_msg_recv(b, &in, &got), -EMSGSIZE);
	m = sound(FM_MSG_BELL, &size);
	do
		rc = fm_msg_send(a, &m, -1);
	while (!rc);
	assert_int_equal(rc, -EAGAIN);
}

static void runtime_dir(char run[64])
{
	strcpy(run, "/tmp/fermata-test-XXXXXX");
	assert_non_null(mkdtemp(run));
	setenv("XDG_RUNTIME_DIR", run, 1);
}

/* Who else could put a socket there is not to be taken for the user's own daemon. */
static void a_runtime_directory_of_others_is_none(void **state)
{
	static const mode_t modes[] = {0755, 0770, 0701, 0777, 01777};
	char dirs[FM_SOCKET_CANDIDATES][108], run[64], link[80];

	unsetenv("FERMATA_SOCKET");
	runtime_dir(run);
	assert_int_equal(fm_socket_dirs(dirs), 2);
	for (size_t i = 0; i < FM_ARRAY_LEN(modes); i++) {
		assert_int_equal(chmod(run, modes[i]), 0);
		assert_int_equal(fm_socket_dirs(dirs), 1);
	}
	chmod(run, 0700);
	assert_int_equal(fm_socket_dirs(dirs), 2);
	snprintf(link, sizeof(link), "%s.link", run);
	assert_int_equal(symlink(run, link), 0);
	setenv("XDG_RUNTIME_DIR", link, 1);
	assert_int_equal(fm_socket_dirs(dirs), 1);
	unlink(link);
	if (!geteuid()) {
		setenv("XDG_RUNTIME_DIR", run, 1);
		assert_int_equal(chown(run, 61001, 61001), 0);
		assert_int_equal(fm_socket_dirs(dirs), 1);
	}
	rmdir(run);
	unsetenv("XDG_RUNTIME_DIR");
}

static void sockets_are_looked_for_in_order(void **state)
{
	char dirs[FM_SOCKET_CANDIDATES][108], deep[200], run[64], own[108];

	unsetenv("FERMATA_SOCKET");
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(fm_socket_dirs(dirs), 1);
	assert_string_equal(dirs[0], FM_SYSTEM_DIR);
	runtime_dir(run);
	assert_int_equal(fm_socket_dirs(dirs), 2);
	snprintf(own, sizeof(own), "%s/fermata", run);
	assert_string_equal(dirs[0], own);
	assert_string_equal(dirs[1], FM_SYSTEM_DIR);
	rmdir(run);
	assert_int_equal(fm_socket_dirs(dirs), 1);
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	assert_int_equal(fm_socket_dirs(dirs), 1);
	setenv("FERMATA_SOCKET", "/tmp/x", 1);
	assert_int_equal(fm_socket_dirs(dirs), 1);
	assert_string_equal(dirs[0], "/tmp/x");
	memset(deep, 'd', sizeof(deep));
	deep[94] = '\0'; /* 94 and "/control.sock" with its NUL make 108 */
	setenv("FERMATA_SOCKET", deep, 1);
	assert_int_equal(fm_socket_dirs(dirs), 1);
	deep[94] = 'd';
	deep[95] = '\0';
	setenv("FERMATA_SOCKET", deep, 1);
	assert_int_equal(fm_socket_dirs(dirs), 0);
	unsetenv("FERMATA_SOCKET");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_passes_with_its_size_only),
		cmocka_unit_test(nothing_else_is_sent),
		cmocka_unit_test(unknown_types_have_no_size),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(queues_are_checked),
		cmocka_unit_test(hints_and_segments_are_checked),
		cmocka_unit_test(greetings_are_checked),
		cmocka_unit_test(messages_travel_with_their_descriptor),
		cmocka_unit_test(surplus_descriptors_do_not_leak),
		cmocka_unit_test(a_stranger_is_looked_at_first),
		cmocka_unit_test(a_descriptor_behind_bytes_is_seen),
		cmocka_unit_test(a_full_socket_and_a_long_packet_do_not_block),
		cmocka_unit_test(sockets_are_looked_for_in_order),
		cmocka_unit_test(a_runtime_directory_of_others_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
