/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an ordinary account can throw at the daemon's client socket, and what another account sees
 * of it. With DIR, where the socket is:
 *
 *   flood DIR fds CLIENTS MESSAGES DESCRIPTORS [first|then]
 *       so many messages of so many descriptors by each: at once, or after it has joined
 *   flood DIR deaths CLIENTS MESSAGES    each a process that joins, sends, and ends without a word
 *   flood DIR bells CLIENTS QUEUES KEY   all queues of all toggle, and ring, until killed
 *   flood DIR honest KEY                 works in the background, until killed
 *   flood DIR memfd MIB [joined]         a board that is too large, and nobody else has
 *   flood DIR linger CLIENTS             a descriptor whose last close waits for long
 *   flood DIR silent CLIENTS             they connect, and say nothing, until killed
 *   flood DIR join SECONDS PAUSE_US      how long it takes to be let in: "P50 P99 MAX N" in us
 *   flood DIR ring SECONDS PAUSE_US KEY  how long from a bell to an open gate, likewise
 */
#include "base/clock.h"
#include "base/util.h"
#include "board/board.h"
#include "board/proto.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_MAX    253
#define ALIVE      100
#define SAMPLES    200000
#define PATIENCE_S 60

static const char *dir;

static void die(const char *what)
{
	fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int dial(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/" FM_SOCKET_NAME, dir);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		die("connect");
	return fd;
}

static bool send_fds(int sock, const void *bytes, size_t size, const int *fds, unsigned n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n) {
		mh.msg_control = control;
		mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
		CMSG_FIRSTHDR(&mh)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&mh)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&mh)->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&mh)), fds, n * sizeof(int));
	}
	return sendmsg(sock, &mh, MSG_NOSIGNAL) >= 0;
}

static size_t init_hello(union fm_msg *m)
{
	size_t size = fm_msg_init(m, FM_MSG_HELLO);

	m->hello.board_version = FM_BOARD_VERSION;
	m->hello.board_size = sizeof(struct fm_board);
	strcpy(m->hello.api, "flood");
	return size;
}

static void say_hello(int sock, int board)
{
	union fm_msg m;
	size_t size = init_hello(&m);

	send_fds(sock, &m, size, &board, board >= 0);
}

static void say_queue(int sock, unsigned slot, const char *key)
{
	union fm_msg m;
	size_t size = fm_msg_init(&m, FM_MSG_QUEUE);

	m.queue.slot = slot;
	m.queue.levels = 1u << FM_LEVEL_PENDING | 1u << FM_LEVEL_QUEUED;
	snprintf(m.queue.device, sizeof(m.queue.device), "%s", key);
	send_fds(sock, &m, size, NULL, 0);
}

static void say_hint(int sock, enum fm_hint hint, int64_t value)
{
	union fm_msg m;
	size_t size = fm_msg_init(&m, FM_MSG_HINT);

	m.hint.hint = hint;
	m.hint.value = value;
	send_fds(sock, &m, size, NULL, 0);
}

static bool hears(int sock, unsigned type)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	union fm_msg m;
	ssize_t n;

	while (poll(&p, 1, PATIENCE_S * 1000) == 1) {
		n = recv(sock, &m, sizeof(m), 0);
		if (n <= 0 || m.head.type == type)
			return n > 0;
		if (m.head.type == FM_MSG_REFUSED)
			return false;
	}
	return false;
}

/* -1: not let in. */
static int join(struct fm_board **board)
{
	int fd, sock = dial();

	if (fm_board_create(board, &fd))
		die("board");
	say_hello(sock, fd);
	close(fd);
	if (hears(sock, FM_MSG_WELCOME))
		return sock;
	close(sock);
	return -1;
}

static int run_fds(unsigned clients, unsigned messages, unsigned n, bool joins)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), fds[FDS_MAX];
	unsigned sent = 0, let_in = 0;
	union fm_msg bell;
	size_t size = fm_msg_init(&bell, FM_MSG_BELL);

	for (unsigned i = 0; i < FDS_MAX; i++)
		fds[i] = null;
	for (unsigned i = 0; i < clients; i++) {
		struct fm_board *board;
		int sock = joins ? join(&board) : dial();

		if (sock < 0)
			continue;
		let_in++;
		for (unsigned j = 0; j < messages; j++) {
			if (!send_fds(sock, &bell, size, fds, n))
				break;
			sent++;
		}
	}
	printf("sent %u by %u\n", sent, let_in);
	return 0;
}

static void live_and_die(unsigned messages)
{
	struct fm_board *board;
	int fd, sock = dial();

	if (fm_board_create(&board, &fd))
		die("board");
	fcntl(sock, F_SETFL, O_NONBLOCK);
	say_hello(sock, fd);
	say_queue(sock, 0, "flood:0");
	for (unsigned i = 2; i < messages; i++)
		say_hint(sock, FM_HINT_PRIORITY, i % 2 ? -5 : 5);
	_exit(0);
}

static int run_deaths(unsigned clients, unsigned messages)
{
	unsigned alive = 0;

	for (unsigned i = 0; i < clients; i++) {
		pid_t pid = fork();

		if (!pid)
			live_and_die(messages);
		alive += pid > 0;
		while (alive && waitpid(-1, NULL, alive >= ALIVE ? 0 : WNOHANG) > 0)
			alive--;
	}
	while (wait(NULL) > 0)
		;
	puts("dead");
	return 0;
}

static _Noreturn void run_bells(unsigned clients, unsigned queues, const char *key)
{
	struct fm_board **board = calloc(clients, sizeof(*board));
	int *sock = calloc(clients, sizeof(*sock));
	unsigned n = 0;
	union fm_msg bell;
	size_t size = fm_msg_init(&bell, FM_MSG_BELL);

	for (unsigned i = 0; i < clients; i++) {
		sock[n] = join(&board[n]);
		if (sock[n] < 0)
			continue;
		fcntl(sock[n], F_SETFL, O_NONBLOCK);
		say_hint(sock[n], FM_HINT_PRIORITY, -100);
		for (unsigned j = 0; j < queues; j++)
			say_queue(sock[n], j, key);
		n++;
	}
	printf("joined %u\n", n);
	fflush(stdout);
	for (uint64_t round = 0;; round++)
		for (unsigned i = 0; i < n; i++) {
			for (unsigned j = 0; j < queues; j++) {
				struct fm_slot *s = &board[i]->slot[j];

				if (round % 2)
					atomic_store(&s->done, atomic_load(&s->begun));
				else
					atomic_fetch_add(&s->begun, 1);
			}
			send(sock[i], &bell, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
}

/* Always busy, and never heard of: what is to be stopped for others. */
static _Noreturn void run_honest(const char *key)
{
	struct fm_board *board;
	int sock = join(&board);

	if (sock < 0)
		die("join");
	say_hint(sock, FM_HINT_PRIORITY, -10);
	atomic_store(&board->slot[0].level, FM_LEVEL_QUEUED);
	atomic_store(&board->slot[0].begun, 1);
	say_queue(sock, 0, key);
	puts("joined");
	fflush(stdout);
	for (;;)
		pause();
}

/* Its pages are freed by whoever closes it last. */
static int run_memfd(unsigned mib, bool joined)
{
	int sock, fd = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct fm_board *board;
	union fm_msg bell;
	size_t size = fm_msg_init(&bell, FM_MSG_BELL);

	if (fd < 0 || fallocate(fd, 0, 0, (off_t)mib << 20))
		die("memfd");
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	sock = joined ? join(&board) : dial();
	puts("filled");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	if (joined)
		send_fds(sock, &bell, size, &fd, 1);
	else
		say_hello(sock, fd);
	close(fd);
	puts("sent");
	fflush(stdout);
	getchar();
	return 0;
}

/* A descriptor whose last close waits for a reader who never reads: of a full connection. */
static int reluctant(void)
{
	int listening = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0);
	struct linger linger = {.l_onoff = 1, .l_linger = 600};
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	static char junk[65536];

	if (bind(listening, (struct sockaddr *)&sa, len) || listen(listening, 1) ||
		getsockname(listening, (struct sockaddr *)&sa, &len) ||
		connect(s, (struct sockaddr *)&sa, len) || accept(listening, NULL, NULL) < 0)
		die("a connection to itself");
	close(listening);
	setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	while (send(s, junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
	return s;
}

/* A user may have only so many descriptors under way, which others of it may have there just now.
 * One that is not sent would be closed here last, and linger here. */
static void send_surely(int sock, const union fm_msg *m, size_t size, int fd)
{
	while (!send_fds(sock, m, size, &fd, 1)) {
		if (errno != ETOOMANYREFS)
			die("send");
		usleep(1000);
	}
}

/* A board, in a HELLO; or one behind a message that ends the session, so it is not read. */
static void send_reluctant(int sock, int fd, bool hello)
{
	union fm_msg m;
	size_t size;

	if (hello) {
		size = init_hello(&m);
	} else {
		size = fm_msg_init(&m, FM_MSG_BELL);
		send_fds(sock, &m, size, NULL, 0);
	}
	send_surely(sock, &m, size, fd);
}

/* Half of them are read, as boards, and half are not. */
static int run_linger(unsigned clients)
{
	for (unsigned i = 0; i < clients; i++) {
		int sock = dial(), fd = reluctant();

		send_reluctant(sock, fd, i % 2);
		close(fd);
	}
	puts("sent");
	fflush(stdout);
	getchar(); /* its end would let go of what they linger for */
	return 0;
}

static _Noreturn void run_silent(unsigned clients)
{
	for (unsigned i = 0; i < clients; i++)
		dial();
	puts("connected");
	fflush(stdout);
	for (;;)
		pause();
}

static uint64_t sample[SAMPLES];
static unsigned n_samples;

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void report(void)
{
	qsort(sample, n_samples, sizeof(*sample), by_value);
	if (!n_samples)
		n_samples = 1;
	printf("%.1f %.1f %.1f %u\n", (double)sample[n_samples / 2] / 1e3,
		(double)sample[(n_samples - 1) * 99 / 100] / 1e3,
		(double)sample[n_samples - 1] / 1e3, n_samples);
}

static void note(uint64_t since)
{
	if (n_samples < SAMPLES)
		sample[n_samples++] = fm_now() - since;
}

static int run_join(double seconds, unsigned pause_us)
{
	uint64_t end = fm_now() + (uint64_t)(seconds * 1e9);
	unsigned failed = 0;

	while (fm_now() < end) {
		struct fm_board *board;
		uint64_t at = fm_now();
		int sock = join(&board);

		failed += sock < 0;
		note(at);
		if (sock >= 0)
			close(sock);
		fm_board_unmap(board);
		usleep(pause_us);
	}
	printf("failed %u\n", failed);
	report();
	return 0;
}

/* As the library does: ring, then sleep until told. */
static void one_job(int sock, struct fm_board *board, struct fm_slot *s)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	uint64_t at = fm_now();
	union fm_msg m;
	size_t size = fm_msg_init(&m, FM_MSG_BELL);

	atomic_fetch_add(&s->begun, 1);
	if (atomic_load(&s->bells) & FM_BELL_READY)
		send(sock, &m, size, MSG_NOSIGNAL);
	while (atomic_load(&s->gate) != FM_GATE_OPEN) {
		atomic_store(&board->agent_sleeps, 1);
		if (atomic_load(&s->gate) != FM_GATE_OPEN)
			poll(&p, 1, 1000);
		while (recv(sock, &m, sizeof(m), MSG_DONTWAIT) > 0)
			;
		atomic_store(&board->agent_sleeps, 0);
	}
	note(at);
	atomic_store(&s->done, atomic_load(&s->begun));
	atomic_store(&s->done_at, fm_now());
	if (atomic_load(&s->bells) & FM_BELL_IDLE)
		send(sock, &m, fm_msg_init(&m, FM_MSG_BELL), MSG_NOSIGNAL);
}

static int run_ring(double seconds, unsigned pause_us, const char *key)
{
	uint64_t end = fm_now() + (uint64_t)(seconds * 1e9);
	struct fm_board *board;
	int sock = join(&board);

	if (sock < 0)
		return 1;
	say_hint(sock, FM_HINT_PRIORITY, 50);
	say_queue(sock, 0, key);
	atomic_store(&board->slot[0].level, FM_LEVEL_QUEUED);
	usleep(100000);
	while (fm_now() < end) {
		one_job(sock, board, &board->slot[0]);
		usleep(pause_us);
	}
	report();
	return 0;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: flood DIR fds|deaths|bells|honest|memfd|linger|silent|join|ring ...\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[2] : "";
	unsigned a = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	unsigned b = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
	struct rlimit r;

	if (argc < 4)
		return usage();
	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	dir = argv[1];
	if (!strcmp(what, "fds") && argc > 5)
		return run_fds(a, b, (unsigned)FM_MIN(atoi(argv[5]), FDS_MAX),
			argc > 6 && !strcmp(argv[6], "then"));
	if (!strcmp(what, "deaths") && argc > 4)
		return run_deaths(a, b);
	if (!strcmp(what, "bells") && argc > 5)
		run_bells(a, b, argv[5]);
	if (!strcmp(what, "honest"))
		run_honest(argv[3]);
	if (!strcmp(what, "memfd"))
		return run_memfd(a, argc > 4);
	if (!strcmp(what, "linger"))
		return run_linger(a);
	if (!strcmp(what, "silent"))
		run_silent(a);
	if (!strcmp(what, "join") && argc > 4)
		return run_join(atof(argv[3]), b);
	if (!strcmp(what, "ring") && argc > 5)
		return run_ring(atof(argv[3]), b, argv[5]);
	return usage();
}
