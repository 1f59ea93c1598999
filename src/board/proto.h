/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a client and the daemon: one SOCK_SEQPACKET socket, one message a packet, native
 * byte order (both ends are on one machine). Rare events are sent as messages; frequent ones go
 * through the board. The receiver validates each message as if an enemy wrote it.
 *
 *   client -> daemon   HELLO (with the board's descriptor), GROUP, HINT, QUEUE, QUEUE_GONE,
 *                      SEGMENT, BELL, MEMORY_BELL (look at my ledger, ledger.h);
 *                      before HELLO: MEMORY (with the ledger's descriptor)
 *   daemon -> client   WELCOME or REFUSED, then WAKE (look at your gates), HINT (remember: an
 *                      operator set it), TRACE (with the descriptor of a ring: record into it,
 *                      trace/ring.h; without: not any more)
 *   both, before HELLO and WELCOME: GATES, with the descriptor of the client's gates in strict mode
 *                      (gates.h). To the client: look there. To the daemon: an earlier daemon
 *                      gave me these.
 *
 * BELL and WAKE carry nothing: the board says what happened. Both are sent without blocking; when
 * the socket is full, the other end has something to wake up for already.
 */
#pragma once
#include "base/err.h"
#include <fermata/hint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_PROTO_MAGIC 0x4d524546u /* "FERM" */
#ifndef FM_PROTO_VERSION           /* tests build a daemon of the next version */
#define FM_PROTO_VERSION 4
#endif
#define FM_NAME_MAX   64 /* with the NUL; printable ASCII without spaces, '/' or quotes */
#define FM_DEVKEY_MAX 96 /* with the NUL; printable ASCII */

/* X(ID, struct name): every message type; the structs below give the exact size of each. */
#define FM_MSG_MAP(X)                           \
	X(FM_MSG_HELLO, fm_msg_hello)           \
	X(FM_MSG_WELCOME, fm_msg_welcome)       \
	X(FM_MSG_REFUSED, fm_msg_refused)       \
	X(FM_MSG_GROUP, fm_msg_group)           \
	X(FM_MSG_HINT, fm_msg_hint)             \
	X(FM_MSG_QUEUE, fm_msg_queue)           \
	X(FM_MSG_QUEUE_GONE, fm_msg_queue_gone) \
	X(FM_MSG_SEGMENT, fm_msg_segment)       \
	X(FM_MSG_BELL, fm_msg_head)             \
	X(FM_MSG_WAKE, fm_msg_head)             \
	X(FM_MSG_GATES, fm_msg_head)            \
	X(FM_MSG_TRACE, fm_msg_head)            \
	X(FM_MSG_MEMORY, fm_msg_head)           \
	X(FM_MSG_MEMORY_BELL, fm_msg_head)

enum fm_msg_type {
	FM_MSG_NONE,
#define FM_MSG_ID(id, type) id,
	FM_MSG_MAP(FM_MSG_ID)
#undef FM_MSG_ID
		FM_MSG_COUNT
};

struct fm_msg_head {
	uint32_t magic;
	uint16_t version;
	uint16_t type; /* enum fm_msg_type */
};

/* First message; carries one descriptor, the board. The client's pid and uid come from SO_PEERCRED.
 */
struct fm_msg_hello {
	struct fm_msg_head head;
	uint32_t board_version;
	uint32_t board_size;
	char api[16]; /* "opencl", "lib", ...: for people */
};

struct fm_msg_welcome {
	struct fm_msg_head head;
	uint32_t daemon_pid;
};

struct fm_msg_refused {
	struct fm_msg_head head;
	int32_t code; /* negative errno */
	char text[128];
};

/* Names a group of this client (index < FM_BOARD_GROUPS). Index 0 exists from the start; the daemon
 * names it after the program and its pid. All clients of one user that give the same name are
 * together one group. An empty name keeps the daemon's own. */
struct fm_msg_group {
	struct fm_msg_head head;
	uint32_t group;
	char name[FM_NAME_MAX];
};

struct fm_msg_hint {
	struct fm_msg_head head;
	uint32_t group;
	uint32_t hint; /* enum fm_hint */
	int64_t value;
};

/* An XQueue came into being in a slot of the board. */
struct fm_msg_queue {
	struct fm_msg_head head;
	uint32_t slot;
	uint32_t group;
	uint32_t levels; /* bit (1 << enum fm_level) for each it can do */
	char device[FM_DEVKEY_MAX];
};

struct fm_msg_queue_gone {
	struct fm_msg_head head;
	uint32_t slot;
};

struct fm_msg_segment {
	struct fm_msg_head head;
	uint32_t group;
	uint32_t begin;   /* 1: begin, 0: end */
	int32_t priority; /* FM_SEGMENT_KEEP of sched.h (INT32_MIN): the group's own */
};

union fm_msg {
	struct fm_msg_head head;
	struct fm_msg_hello hello;
	struct fm_msg_welcome welcome;
	struct fm_msg_refused refused;
	struct fm_msg_group group;
	struct fm_msg_hint hint;
	struct fm_msg_queue queue;
	struct fm_msg_queue_gone queue_gone;
	struct fm_msg_segment segment;
};

/* Sets a message to zeros except for its head, so that nothing of the sender's memory is sent; or
 * sets the head only. Returns the size to send; 0 for an unknown type. */
size_t fm_msg_init(union fm_msg *m, enum fm_msg_type type);
size_t fm_msg_head(union fm_msg *m, enum fm_msg_type type);

/* Check what arrived: size, magic, version, type, every field's range, strings terminated and
 * printable. 0, or -EBADMSG (malformed), -EPROTONOSUPPORT (other version) with a text in err. */
int fm_msg_check(const union fm_msg *m, size_t size, struct fm_err *err);

/* Sends bytes, with a descriptor unless fd is -1. Returns how many were sent, or a negative errno.
 * Never blocks (-EAGAIN), never raises SIGPIPE. */
long fm_send_bytes(int sock, const void *bytes, size_t size, int fd);

/* Send one message, with a descriptor unless fd is -1; never blocks (-EAGAIN), never raises
 * SIGPIPE. */
int fm_msg_send(int sock, const union fm_msg *m, int fd);

/* Receive one message without blocking. Returns its size, 0 at the end of the stream, -EAGAIN when
 * there is none, or another negative errno. A descriptor that came is stored in *fd (else -1),
 * close on exec; more than one, or one with fd NULL, is closed. Not checked: call fm_msg_check().
 */
long fm_msg_recv(int sock, union fm_msg *m, int *fd);

/* The same from an untrusted peer, whose descriptors may take any time to close. At most one is
 * taken, and with fd NULL none. If the message has more, the result is -EBADMSG, and message and
 * descriptors stay in the socket until that is closed. */
long fm_msg_take(int sock, union fm_msg *m, int *fd);

/* Receives bytes of an untrusted peer without blocking. Returns how many came, 0 at the end of the
 * stream, or a negative errno. -EBADMSG: a descriptor is with them; it stays in the socket. */
long fm_recv_bytes(int sock, void *bytes, size_t size);

/* From now on the kernel refuses descriptors that are sent to this socket, or to those that it
 * accepts; the sender gets an error. False: the kernel cannot do that (before Linux 6.16). */
bool fm_refuse_fds(int sock);

/* A client whose work stands at a closed gate takes a daemon that has read nothing for this long as
 * gone. */
#define FM_SILENCE_MAX_S 4

/* The directories in which a daemon may listen, in the order in which clients try them: only
 * $FERMATA_SOCKET if that is set; otherwise the user's ($XDG_RUNTIME_DIR/fermata/, by
 * base/runtime_dir.h), then the system's (/run/fermata/). Returns how many were filled in. */
#define FM_SOCKET_CANDIDATES 2
#define FM_SOCKET_NAME       "client.sock"
#define FM_CONTROL_NAME      "control.sock"
#define FM_SYSTEM_DIR        "/run/fermata"
int fm_socket_dirs(char dirs[FM_SOCKET_CANDIDATES][108]);
