/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a client's bell to the closed gate of another, through the real daemon: what a decision
 * costs that takes a process to wake up. Then the same, and the daemon's memory, with 1,000 groups
 * on the device.
 *
 *   bench_core_wake [FERMATAD [ROUNDS]]
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hist.h"
#include "base/util.h"
#include "board/board.h"
#include "board/proto.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define ROUNDS   5000
#define GROUPS   1000
#define DEVICE   "sim:bench"
#define PATIENCE FM_S

struct client {
	int sock;
	struct fm_board *board;
};

struct bench {
	char dir[64];
	pid_t daemon;
	struct client low, high;
	unsigned joined; /* clients: they name groups */
	struct fm_hist wake;
};

static void die(const struct bench *b, const char *what)
{
	fprintf(stderr, "bench_core_wake: %s: %s\n", what, strerror(errno));
	if (b->daemon > 0)
		kill(b->daemon, SIGTERM);
	exit(1);
}

static void say(struct bench *b, struct client *c, union fm_msg m, enum fm_msg_type type, int fd)
{
	int rc;

	fm_msg_head(&m, type);
	while ((rc = fm_msg_send(c->sock, &m, fd)) == -EAGAIN)
		poll(&(struct pollfd){c->sock, POLLOUT, 0}, 1, 100);
	if (rc) {
		errno = -rc;
		die(b, "sending to the daemon");
	}
}

static bool connect_to(struct client *c, const char *dir)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/" FM_SOCKET_NAME, dir);
	c->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return c->sock >= 0 && !connect(c->sock, (struct sockaddr *)&sa, sizeof(sa));
}

static void join(struct bench *b, struct client *c, int64_t priority)
{
	union fm_msg m = {.hello = {.board_version = FM_BOARD_VERSION,
				  .board_size = sizeof(struct fm_board),
				  .api = "bench"}};
	struct pollfd answer = {.events = POLLIN};
	FM_CLEAN_FD int fd = -1;

	if (!connect_to(c, b->dir) || fm_board_create(&c->board, &fd))
		die(b, "joining the daemon");
	say(b, c, m, FM_MSG_HELLO, fd);
	answer.fd = c->sock;
	if (poll(&answer, 1, 1000) != 1 || fm_msg_recv(c->sock, &m, NULL) <= 0 ||
		m.head.type != FM_MSG_WELCOME)
		die(b, "waiting to be welcomed");
	/* Clients of one process would be one group if they named none. */
	m = (union fm_msg){0};
	snprintf(m.group.name, sizeof(m.group.name), "bench-%u", ++b->joined);
	say(b, c, m, FM_MSG_GROUP, -1);
	m = (union fm_msg){.hint = {.hint = FM_HINT_PRIORITY, .value = priority}};
	say(b, c, m, FM_MSG_HINT, -1);
	say(b, c, (union fm_msg){.queue = {.levels = 6, .device = DEVICE}}, FM_MSG_QUEUE, -1);
}

static void start_daemon(struct bench *b, const char *program)
{
	struct timespec pause = fm_timespec(10 * FM_MS);
	char conf[96], path[108];
	struct stat st;
	FILE *f;

	strcpy(b->dir, "/tmp/fermata-bench-XXXXXX");
	if (!mkdtemp(b->dir))
		die(b, "making a directory");
	snprintf(conf, sizeof(conf), "%s/conf", b->dir);
	f = fopen(conf, "we");
	if (!f || fputs("[limits]\ngroups = 0\nqueues = 0\nclients = 0\n", f) < 0 || fclose(f))
		die(b, "writing the settings");
	b->daemon = fork();
	if (!b->daemon) {
		execl(program, program, "--dir", b->dir, "--config", conf, (char *)NULL);
		_exit(127);
	}
	snprintf(path, sizeof(path), "%s/" FM_CONTROL_NAME, b->dir);
	for (int i = 0; i < 500 && stat(path, &st); i++)
		nanosleep(&pause, NULL);
	nanosleep(&pause, NULL);
	if (waitpid(b->daemon, NULL, WNOHANG))
		die(b, "starting the daemon");
}

static void stop_daemon(struct bench *b)
{
	static const char *const left[] = {"conf", "fermatad.pid"};
	char path[96];

	kill(b->daemon, SIGTERM);
	waitpid(b->daemon, NULL, 0);
	for (unsigned i = 0; i < FM_ARRAY_LEN(left); i++) {
		snprintf(path, sizeof(path), "%s/%s", b->dir, left[i]);
		unlink(path);
	}
	rmdir(b->dir);
}

static void await_gate(struct bench *b, struct client *c, uint32_t gate)
{
	uint64_t end = fm_now() + PATIENCE;

	while (atomic_load_explicit(&c->board->slot[0].gate, memory_order_acquire) != gate)
		if (fm_now() > end)
			die(b, gate == FM_GATE_OPEN ? "a gate stayed closed"
						    : "a gate stayed open");
}

static void begin(struct client *c)
{
	struct fm_slot *s = &c->board->slot[0];

	atomic_fetch_add(&s->begun, 1);
	atomic_fetch_add(&s->released, 1);
}

static void finish(struct client *c)
{
	struct fm_slot *s = &c->board->slot[0];

	atomic_store(&s->done_at, fm_now());
	atomic_store(&s->done, atomic_load(&s->released));
}

/* The low one is always busy: it finishes what the device had when its gate closed, and the next
 * command stands at the gate. The pause lets the daemon fall asleep. */
static void one_round(struct bench *b)
{
	struct timespec pause = fm_timespec(500 * FM_US);
	uint64_t start;

	nanosleep(&pause, NULL);
	begin(&b->high);
	start = fm_now();
	say(b, &b->high, (union fm_msg){0}, FM_MSG_BELL, -1);
	await_gate(b, &b->low, FM_GATE_CLOSED);
	fm_hist_add(&b->wake, fm_now() - start);
	atomic_fetch_add(&b->low.board->slot[0].begun, 1);
	finish(&b->low);
	finish(&b->high);
	say(b, &b->high, (union fm_msg){0}, FM_MSG_BELL, -1);
	await_gate(b, &b->low, FM_GATE_OPEN);
	atomic_store(&b->low.board->slot[0].released, atomic_load(&b->low.board->slot[0].begun));
}

static double cpu_ms(pid_t pid)
{
	unsigned long user = 0, system = 0;
	FM_CLEAN_FILE FILE *f = NULL;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			  &system) != 2)
		return -1;
	return 1e3 * (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* A line of /proc/PID/status in KiB. Boards are their clients' memory: RssShmem, not RssAnon. */
static long memory_kib(pid_t pid, const char *name)
{
	FM_CLEAN_FILE FILE *f = NULL;
	char path[32], line[128];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			return atol(line + strlen(name) + 1);
	return -1;
}

/* The daemon's own measure, without the kernel's share: from its wake-up to the gates stored. */
static void print_reaction(const struct bench *b, const char *name)
{
	static const char ask[] = "{\"cmd\":\"stats\"}\n";
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	FM_CLEAN_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	double p50, p99, max;
	char reply[8192];
	const char *at;
	ssize_t n = -1;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/" FM_CONTROL_NAME, b->dir);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 &&
		write(fd, ask, sizeof(ask) - 1) > 0)
		n = read(fd, reply, sizeof(reply) - 1);
	reply[n < 0 ? 0 : n] = '\0';
	at = strstr(reply, "\"react_us\"");
	if (!at ||
		sscanf(at,
			"\"react_us\": {\"count\": %*u, \"p50\": %lf, \"p99\": %lf, \"max\": %lf",
			&p50, &p99, &max) != 3)
		die(b, "asking the daemon for its stats");
	printf("%s_react_p50 %.1f us\n%s_react_p99 %.1f us\n%s_react_max %.1f us\n", name, p50,
		name, p99, name, max);
}

static void measure(struct bench *b, const char *name, int rounds)
{
	double before = cpu_ms(b->daemon);

	fm_hist_reset(&b->wake);
	for (int i = 0; i < rounds; i++)
		one_round(b);
	printf("%s_p50 %.1f us\n", name, (double)fm_hist_quantile(&b->wake, 0.50) / FM_US);
	printf("%s_p99 %.1f us\n", name, (double)fm_hist_quantile(&b->wake, 0.99) / FM_US);
	printf("%s_max %.1f us\n", name, (double)b->wake.max / FM_US);
	print_reaction(b, name);
	printf("%s_daemon_cpu %.1f us/round\n", name, (cpu_ms(b->daemon) - before) * 1e3 / rounds);
	printf("%s_daemon_rss %ld KiB\n", name, memory_kib(b->daemon, "VmRSS"));
	printf("%s_daemon_private %ld KiB\n", name, memory_kib(b->daemon, "RssAnon"));
}

/* With a daemon of its own, which counts since its start. */
static void groups_of(struct bench *b, const char *daemon, int groups, const char *name, int rounds)
{
	start_daemon(b, daemon);
	join(b, &b->low, FM_PRIORITY_LOW);
	join(b, &b->high, FM_PRIORITY_HIGH);
	begin(&b->low);
	say(b, &b->low, (union fm_msg){0}, FM_MSG_BELL, -1);
	for (int i = 2; i < groups; i++)
		join(b, &(struct client){0}, FM_PRIORITY_NORMAL);
	measure(b, name, rounds);
	stop_daemon(b);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
	struct rlimit files = {0};
	static struct bench b;
	char program[4096];

	if (rounds < 1) {
		fputs("usage: bench_core_wake [FERMATAD [ROUNDS]]\n", stderr);
		return 2;
	}
	snprintf(program, sizeof(program), "%.*s../bin/fermatad",
		(int)(strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 - argv[0] : 0), argv[0]);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	groups_of(&b, argc > 1 ? argv[1] : program, 2, "wake", rounds);
	groups_of(&b, argc > 1 ? argv[1] : program, GROUPS, "wake_1000_groups", rounds);
	return 0;
}
