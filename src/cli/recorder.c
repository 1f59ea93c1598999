/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording: the daemon sends names, and read-only descriptors of rings. The rings are drained into
 * a file. New records do not wake the recorder. It looks at the rings now and then, less often if
 * it finds less. It runs as a batch job, so that it does not take a processor from the programs
 * that it records. A ring is a process's own memory. Its contents are read as if an enemy had
 * written them (trace/ring.h), and affect only the records of that process.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/util.h"
#include "cmd/ctl.h"
#include "trace.h"
#include "trace/ring.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#define NAP_MIN   (2 * FM_MS)
#define NAP_MAX   (50 * FM_MS)
#define NICE      5
#define BUFFER    (256 * 1024)
#define SHOW_NS   FM_S
#define LINE_MAX_ (64 * 1024)
#define FDS       64

struct ring {
	uint32_t id;
	int32_t pid;
	char program[32];
	bool gone; /* its process is */
	uint64_t written, lost_told;
	struct fm_trace_reader reader;
};

struct recorder {
	struct trace_wishes wishes;
	int sock, signals;
	FILE *f;
	char line[LINE_MAX_];
	size_t len;
	int fd[FDS]; /* received, oldest first */
	unsigned n_fds;
	struct ring **ring;
	size_t n_rings;
	uint64_t records, lost, unknown; /* of rings that are gone */
	bool connected, exact;
	int why; /* it could not be written */
	struct fm_trace_rec buf[FM_TRACE_RECORDS];
};

static struct ring *ring_find(struct recorder *r, uint32_t id)
{
	for (size_t i = 0; i < r->n_rings; i++)
		if (r->ring[i]->id == id)
			return r->ring[i];
	return NULL;
}

static int take_fd(struct recorder *r)
{
	int fd = r->n_fds ? r->fd[0] : -1;

	if (r->n_fds)
		memmove(r->fd, r->fd + 1, --r->n_fds * sizeof(*r->fd));
	return fd;
}

static void tell_unrecorded(int pid)
{
	fprintf(stderr, "fermata: pid %d is not recorded: it has no trace ring\n", pid);
}

static void add_ring(struct recorder *r, uint32_t id, const json_t *o)
{
	FM_CLEAN_FD int fd = take_fd(r);
	FM_CLEAN_FREE struct ring *new = calloc(1, sizeof(*new));
	struct ring **more = reallocarray(r->ring, r->n_rings + 1, sizeof(*more));

	if (more)
		r->ring = more;
	if (!new || !more || ring_find(r, id) || fm_trace_reader_open(&new->reader, fd)) {
		tell_unrecorded((int)cli_num(o, "pid"));
		return;
	}
	new->id = id;
	new->pid = (int32_t)cli_num(o, "pid");
	snprintf(new->program, sizeof(new->program), "%.31s", cli_str(o, "text"));
	r->ring[r->n_rings++] = fm_take_ptr(new);
}

/* Numbers up to 2^53 are exact, and the daemon sends no others. */
static uint64_t whole(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v)
								: 0;
}

static void take_name(struct recorder *r, const char *kind, const json_t *o)
{
	static const char *const kinds[] = {
		[FM_TN_RING] = "ring",
		[FM_TN_GROUP] = "group",
		[FM_TN_DEVICE] = "device",
		[FM_TN_REASON] = "reason",
		[FM_TN_QUEUE] = "queue",
	};
	struct fm_trace_name n = {
		.id = (uint32_t)whole(o, "id"),
		.pid = (int32_t)whole(o, "pid"),
		.slot = (uint32_t)whole(o, "slot"),
		.group = (uint32_t)whole(o, "group"),
		.device = (uint32_t)whole(o, "device"),
		.since = whole(o, "since"),
	};

	for (uint32_t i = FM_TN_RING; i <= FM_TN_QUEUE; i++)
		if (!strcmp(kind, kinds[i]))
			n.kind = i;
	if (!n.kind)
		return; /* of a later daemon */
	if (n.kind == FM_TN_RING)
		add_ring(r, n.id, o);
	fm_trace_file_name(r->f, &n, cli_str(o, "text"));
}

static void take_line(struct recorder *r, const char *text, size_t len)
{
	CLI_CLEAN_JSON json_t *o = json_loadb(text, len, 0, NULL);
	const char *kind = json_string_value(json_object_get(o, "name"));
	struct ring *gone;

	if (kind)
		take_name(r, kind, o);
	else if (json_object_get(o, "unrecorded"))
		tell_unrecorded((int)cli_num(o, "unrecorded"));
	else if (json_object_get(o, "gone")) {
		gone = ring_find(r, (uint32_t)whole(o, "gone"));
		if (gone)
			gone->gone = true;
	}
}

static void take_descriptors(struct recorder *r, struct msghdr *mh)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t off = 0; CMSG_LEN(off + sizeof(int)) <= c->cmsg_len;
			off += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + off, sizeof(int));
			if (r->n_fds < FDS)
				r->fd[r->n_fds++] = fd;
			else
				close(fd);
		}
	}
}

/* One read. 1: there was something, 0: there is nothing now, -1: the connection is over. */
static int receive(struct recorder *r, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
	struct iovec iov = {r->line + r->len, sizeof(r->line) - r->len};
	struct msghdr mh = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(r->sock, &mh, flags | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	take_descriptors(r, &mh);
	r->len += (size_t)n;
	if (r->len == sizeof(r->line) && !memchr(r->line, '\n', r->len))
		return -1; /* no line is so long */
	return n > 0 ? 1 : -1;
}

/* The next whole line, without its end. NULL: the line has not come yet. */
static char *next_line(struct recorder *r, size_t *len)
{
	char *end = memchr(r->line, '\n', r->len);

	*len = end ? (size_t)(end - r->line) : 0;
	return end ? r->line : NULL;
}

static void drop_line(struct recorder *r, size_t len)
{
	r->len -= len + 1;
	memmove(r->line, r->line + len + 1, r->len);
}

static void take_lines(struct recorder *r)
{
	size_t len;

	while (next_line(r, &len)) {
		take_line(r, r->line, len);
		drop_line(r, len);
	}
}

static bool tells_of_jobs(unsigned event)
{
	switch (event) {
	case FM_EV_decided:
	case FM_EV_loop_slow:
	case FM_EV_segment_sealed:
	case FM_EV_gate_placed:
	case FM_EV_gates_passed:
	case FM_EV_went_on:
	case FM_EV_hold_end:
	case FM_EV_restored:
		return false;
	default:
		return true;
	}
}

/* Keeps only the wanted records. Returns how many. */
static size_t keep_wanted(struct recorder *r, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (tells_of_jobs(r->buf[i].event))
			r->buf[kept++] = r->buf[i];
	return kept;
}

/* Reads everything that is there, so that the connection's end is seen even if a signal comes with
 * it. False: the connection is over.
 */
static bool hear(struct recorder *r)
{
	int rc;

	do {
		rc = receive(r, MSG_DONTWAIT);
		take_lines(r);
	} while (rc > 0);
	return !rc;
}

/* Reads the ring once, so that a process that writes without a pause does not keep the recorder
 * from the other rings. */
static void drain_ring(struct recorder *r, struct ring *g, bool last)
{
	size_t n = fm_trace_read(&g->reader, r->buf, FM_TRACE_RECORDS, last);
	size_t kept = r->wishes.jobs ? keep_wanted(r, n) : n;

	if (kept || g->reader.lost != g->lost_told)
		fm_trace_file_records(r->f, g->id, g->reader.lost, r->buf, (uint32_t)kept);
	g->lost_told = g->reader.lost;
	g->written += kept;
}

static void tell_lost(const struct ring *g)
{
	if (g->reader.lost)
		fprintf(stderr, "fermata: %" PRIu64 " records of %s (pid %d) were lost\n",
			g->reader.lost, g->program, (int)g->pid);
	if (g->reader.unknown)
		fprintf(stderr,
			"fermata: %" PRIu64 " records of %s (pid %d) were of unknown events\n",
			g->reader.unknown, g->program, (int)g->pid);
}

static void end_ring(struct recorder *r, size_t i)
{
	struct ring *g = r->ring[i];

	/* A record that the process is just writing is left out. One that it will never finish
	 * counts as lost. */
	drain_ring(r, g, g->gone);
	tell_lost(g);
	r->records += g->written;
	r->lost = fm_add_sat(r->lost, g->reader.lost);
	fm_trace_reader_close(&g->reader);
	free(g);
	r->ring[i] = r->ring[--r->n_rings];
}

/* Returns how many records the fullest lane had. */
static unsigned drain(struct recorder *r)
{
	unsigned fill = 0;

	for (size_t i = r->n_rings; i-- > 0;) {
		if (r->ring[i]->gone) {
			end_ring(r, i);
		} else {
			drain_ring(r, r->ring[i], false);
			fill = FM_MAX(fill, r->ring[i]->reader.fill);
		}
	}
	return fill;
}

/* The time until the fullest lane is a quarter full, if it goes on filling as fast as before. */
static uint64_t nap_ns(unsigned fill, uint64_t took)
{
	uint64_t quarter = took * (FM_TRACE_LANE / 4) / FM_MAX(fill, 1u);

	return FM_MIN(FM_MAX(quarter, NAP_MIN), NAP_MAX);
}

/* Makes the recorder wait for a free processor instead of taking one, also behind other batch jobs.
 * If that fails, it stays as it is. */
static void step_back(void)
{
	const struct sched_param none = {0};

	if (sched_getscheduler(0) != SCHED_OTHER)
		return;
	sched_setscheduler(0, SCHED_BATCH, &none);
	if (getpriority(PRIO_PROCESS, 0) < NICE)
		setpriority(PRIO_PROCESS, 0, NICE);
}

static uint64_t so_far(const struct recorder *r, uint64_t *lost)
{
	uint64_t records = r->records;

	*lost = r->lost;
	for (size_t i = 0; i < r->n_rings; i++) {
		records += r->ring[i]->written;
		*lost = fm_add_sat(*lost, r->ring[i]->reader.lost);
	}
	return records;
}

static bool is_full(const struct recorder *r)
{
	uint64_t lost;

	return r->wishes.limit && so_far(r, &lost) >= r->wishes.limit;
}

static void show(const struct recorder *r, uint64_t since)
{
	uint64_t lost, records = so_far(r, &lost);

	fprintf(stderr,
		"\rrecording: %.0f s, %zu processes, %" PRIu64 " records, %" PRIu64 " lost ",
		(double)(fm_now() - since) / FM_S, r->n_rings, records, lost);
}

static bool is_over(const struct recorder *r, const struct pollfd *fds)
{
	return fds[1].revents & POLLIN || fds[2].revents || ferror(r->f) || is_full(r);
}

static void record(struct recorder *r, int until)
{
	double seconds = r->wishes.duration;
	uint64_t begin = fm_now(), shown = begin, now = begin, drained;
	uint64_t end = seconds > 0 ? begin + (uint64_t)(seconds * (double)FM_S) : FM_NEVER;
	struct pollfd fds[3] = {{r->sock, POLLIN, 0}, {r->signals, POLLIN, 0}, {until, POLLIN, 0}};
	struct timespec nap = fm_timespec(NAP_MIN);
	bool live = !r->wishes.quiet && isatty(STDERR_FILENO);
	unsigned fill;

	while (now < end && !is_over(r, fds)) {
		ppoll(fds, 3, &nap, NULL);
		if (fds[0].revents)
			r->connected = hear(r);
		take_lines(r); /* some may have come with the answer */
		fill = drain(r);
		fflush(r->f); /* a killed recorder leaves what it has */
		r->why = ferror(r->f) && !r->why ? errno : r->why;
		drained = now;
		now = fm_now();
		nap = fm_timespec(FM_MIN(nap_ns(fill, now - drained), fm_sub_sat(end, now)));
		if (!r->connected)
			break;
		if (live && now - shown > SHOW_NS) {
			shown = now;
			show(r, begin);
		}
	}
	if (live && shown != begin)
		fputc('\n', stderr);
}

void trace_check_group(const struct argp_state *state, const char *name)
{
	CLI_CLEAN_JSON json_t *text = json_string(name);

	if (!*name || !text)
		cli_usage(state, "a group's name is text in UTF-8");
}

static json_t *request(const struct recorder *r)
{
	json_t *o = json_pack("{s:s}", "cmd", "trace"), *groups = json_array();

	for (unsigned i = 0; i < r->wishes.n_groups; i++)
		json_array_append_new(groups, json_string(r->wishes.group[i]));
	if (r->wishes.n_groups)
		json_object_set(o, "groups", groups);
	if (r->wishes.exact)
		json_object_set_new(o, "exact", json_true());
	json_decref(groups);
	return o;
}

static int check_reply(const json_t *reply, struct fm_err *err)
{
	const json_t *e = json_object_get(reply, "error");

	if (!json_is_true(json_object_get(reply, "ok"))) {
		bool old = json_is_object(e) && !strcmp(cli_str(e, "text"), "unknown command");

		fm_err_set(err, -EREMOTEIO, "%s",
			old                 ? "this daemon cannot record"
			: json_is_object(e) ? cli_str(e, "text")
					    : "the daemon refused");
		return fm_err_hint(err, "%s",
			old ? "the daemon is of an older version: restart it" : cli_str(e, "hint"));
	}
	if (whole(reply, "version") == FM_TRACE_VERSION &&
		whole(reply, "records") == FM_TRACE_RECORDS &&
		whole(reply, "record_size") == sizeof(struct fm_trace_rec))
		return 0;
	fm_err_set(err, -EREMOTEIO, "the daemon records in another format");
	return fm_err_hint(err, "install the same version of `fermata' and of fermatad");
}

/* The answer to the request is the first line. */
static int first_line(struct recorder *r, struct fm_err *err)
{
	json_t *reply;
	size_t len;
	int rc;

	while (!next_line(r, &len))
		if (receive(r, 0) <= 0)
			return fm_err_set(err, -ENOTCONN, "the daemon does not answer");
	reply = json_loadb(r->line, len, 0, NULL);
	drop_line(r, len);
	rc = check_reply(reply, err);
	r->exact = json_is_true(json_object_get(reply, "exact"));
	json_decref(reply);
	return rc;
}

static int ask(struct recorder *r, const struct cli *cli, struct fm_err *err)
{
	CLI_CLEAN_JSON json_t *version = NULL;
	FM_CLEAN_FREE char *text = NULL;
	char dir[CTL_PATH];
	json_t *o;
	size_t len;
	int rc = ctl_call(cli, json_pack("{s:s}", "cmd", "version"), &version, dir, err);

	if (rc)
		return rc;
	rc = ctl_open(dir, &r->sock);
	if (rc)
		return fm_err_set(
			err, -ENOTCONN, "the daemon in %s does not answer: %s", dir, strerror(-rc));
	o = request(r);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	len = text ? strlen(text) : 0;
	if (!text)
		return fm_err_set(err, -ENOMEM, "out of memory");
	text[len] = '\n';
	if (send(r->sock, text, len + 1, MSG_NOSIGNAL) != (ssize_t)len + 1)
		return fm_err_set(err, -ENOTCONN, "the daemon in %s does not answer", dir);
	return first_line(r, err);
}

static int catch_signals(struct recorder *r)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signals < 0 ? -errno : 0;
}

static uint64_t real_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * FM_S + (uint64_t)ts.tv_nsec;
}

void trace_disconnect(struct recorder **r)
{
	while (*r && (*r)->n_fds)
		close((*r)->fd[--(*r)->n_fds]);
	if (*r && (*r)->sock >= 0)
		close((*r)->sock);
	if (*r && (*r)->signals >= 0)
		close((*r)->signals);
	if (*r)
		free((*r)->ring);
	free(*r);
	*r = NULL;
}

int trace_connect(struct recorder **out, const struct cli *cli, const struct trace_wishes *wishes,
	struct fm_err *err)
{
	TRACE_CLEAN struct recorder *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return fm_err_set(err, -ENOMEM, "out of memory");
	r->wishes = *wishes;
	r->sock = r->signals = -1;
	rc = catch_signals(r);
	if (rc)
		return fm_err_set(err, rc, "cannot watch for signals: %s", strerror(-rc));
	rc = ask(r, cli, err);
	if (!rc)
		*out = fm_take_ptr(r);
	return rc;
}

/* The connection ends later, since the rings are written only while it is there. */
int trace_run(struct recorder *r, FILE *f, int until, struct trace_outcome *out)
{
	r->f = f;
	r->connected = true;
	setvbuf(f, NULL, _IOFBF, BUFFER);
	step_back();
	fm_trace_file_begin(f, fm_now(), real_now());
	fflush(f);
	record(r, until);
	*out = (struct trace_outcome){.gone = !r->connected, .full = is_full(r), .exact = r->exact};
	while (r->n_rings)
		end_ring(r, r->n_rings - 1);
	fm_trace_file_end(f, out->gone ? FM_TE_DAEMON_GONE : FM_TE_ASKED);
	out->records = r->records;
	out->lost = r->lost;
	if (!fflush(f) && !ferror(f))
		return 0;
	return -(r->why ? r->why : errno);
}
