/* SPDX-License-Identifier: Apache-2.0 */
/* Any packet: the check neither reads past it nor lets through a field that would index out of
 * range. */
#include "board/board.h"
#include "board/proto.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_promises(const union fm_msg *m)
{
	switch (m->head.type) {
	case FM_MSG_HELLO:
		must(strnlen(m->hello.api, sizeof(m->hello.api)) < sizeof(m->hello.api));
		break;
	case FM_MSG_GROUP:
		must(m->group.group < FM_BOARD_GROUPS && strnlen(m->group.name, 64) < FM_NAME_MAX);
		break;
	case FM_MSG_HINT:
		must(m->hint.group < FM_BOARD_GROUPS && m->hint.hint < FM_HINT_COUNT);
		break;
	case FM_MSG_QUEUE:
		must(m->queue.slot < FM_BOARD_SLOTS && m->queue.group < FM_BOARD_GROUPS &&
			strnlen(m->queue.device, FM_DEVKEY_MAX) < FM_DEVKEY_MAX);
		break;
	case FM_MSG_QUEUE_GONE:
		must(m->queue_gone.slot < FM_BOARD_SLOTS);
		break;
	case FM_MSG_SEGMENT:
		must(m->segment.group < FM_BOARD_GROUPS);
		break;
	}
}

/* The head is supplied, so that the fuzzer spends its time on fields; an exact heap copy lets the
 * sanitizer see a read past the packet. */
static void check_packet(const uint8_t *data, size_t size, bool with_head)
{
	union fm_msg *m = calloc(1, sizeof(*m));
	struct fm_err err;

	memcpy(m, data, size);
	if (with_head && size >= sizeof(m->head)) {
		unsigned type = m->head.type % (FM_MSG_COUNT + 1);

		size = fm_msg_head(m, (enum fm_msg_type)type);
	}
	if (!fm_msg_check(m, size, &err))
		check_promises(m);
	free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	union fm_msg in;
	int s[2], fd;
	long n;

	if (size > sizeof(union fm_msg))
		size = sizeof(union fm_msg);
	check_packet(data, size, false);
	check_packet(data, size, true);
	if (!size || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s))
		return 0;
	if (send(s[0], data, size, MSG_DONTWAIT) == (ssize_t)size) {
		n = fm_msg_recv(s[1], &in, &fd);
		must(n == (long)size && fd == -1 && !memcmp(&in, data, size));
	}
	close(s[0]);
	close(s[1]);
	return 0;
}
