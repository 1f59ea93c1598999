/* SPDX-License-Identifier: Apache-2.0 */
/* An inference server: several models on one CUDA device, in one process. See README.md. */
#include "listen.h"
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE_MAX (64u << 20)

struct server {
	struct engine engine;
	const char *socket, *image;
	unsigned device, connections, port;
	struct listener *listener;
	struct http *http;
};

enum {
	KEY_QUEUE = 256,
	KEY_RESERVE,
	KEY_ELASTIC,
	KEY_FILL,
	KEY_BESIDE,
	KEY_PAD,
	KEY_VERSIONS,
	KEY_SPIN,
	KEY_HTTP,
	KEY_CONNECTIONS,
	KEY_IMAGE
};

static const struct argp_option options[] = {
	{"real-time", 'r', "NAME=KIND", 0, "A model whose requests are urgent", 0},
	{"best-effort", 'b', "NAME=KIND", 0, "A model whose requests have time", 0},
	{"mode", 'm', "MODE", 0,
		"sequential, streams, priority-streams (the default), level2, guardian or "
		"partition; "
		"the last three need Fermata in the process",
		0},
	{"socket", 's', "PATH", 0, "Listen on this Unix socket", 0},
	{"http", KEY_HTTP, "PORT", 0, "Listen on this port of localhost", 0},
	{"device", 'd', "N", 0, "The CUDA device (default: 0)", 0},
	{"image", KEY_IMAGE, "FILE", 0,
		"Kernels from this cubin, fatbin or PTX, made of kernels.cu (default: built in, "
		"PTX)",
		0},
	{"queue", KEY_QUEUE, "N", 0,
		"So many requests may wait for a model; others are refused (default: 16)", 0},
	{"connections", KEY_CONNECTIONS, "N", 0,
		"So many clients at a time, of either kind (default: 64)", 0},
	{"reserve-sms", KEY_RESERVE, "N", 0,
		"partition: multiprocessors for real-time models (default: 32)", 0},
	{"elastic", KEY_ELASTIC, "US", 0,
		"partition: the others have those as well after so many microseconds without "
		"real-time work (default: never)",
		0},
	{"fill-sms", KEY_FILL, "N", 0,
		"level2 and guardian: best-effort models keep at most so many multiprocessors for "
		"a second request each, "
		"which nobody stops (default: none)",
		0},
	{"beside", KEY_BESIDE, NULL, 0,
		"level2 and guardian: best-effort models run beside each other, not in turns", 0},
	{"pad", KEY_PAD, "N", 0,
		"guardian: best-effort models that are stopped go on meanwhile on N "
		"multiprocessors, 8 to 64 in eights, or `auto'",
		0},
	{"versions", KEY_VERSIONS, "NAME", OPTION_ARG_OPTIONAL,
		"level2, guardian and partition: measure versions of each convolution at the "
		"start, and launch the one that fits in what real-time models leave free; with "
		"NAME, in all modes: launch this one alone",
		0},
	{"spin", KEY_SPIN, "US", 0,
		"Threads of real-time models look for work and answers for so many microseconds "
		"before "
		"they sleep (default: 0)",
		0},
	{0}};

static unsigned number(struct argp_state *state, const char *text, unsigned least, unsigned most)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || v < least || v > most)
		argp_error(state, "`%s': a number from %u to %u is wanted", text, least, most);
	return (unsigned)v;
}

static void add(struct server *s, struct argp_state *state, const char *text, bool urgent)
{
	const char *failed = engine_add(&s->engine, text, urgent);

	if (failed)
		argp_error(state, "%s", failed);
}

static void set_mode(struct server *s, struct argp_state *state, const char *text)
{
	int mode = mode_find(text);

	if (mode < 0)
		argp_error(state, "there is no mode `%s'", text);
	s->engine.streams.mode = (enum mode)mode;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct server *s = state->input;

	switch (key) {
	case 'r':
	case 'b':
		add(s, state, arg, key == 'r');
		return 0;
	case 'm':
		set_mode(s, state, arg);
		return 0;
	case 's':
		s->socket = arg;
		return 0;
	case 'd':
		s->device = number(state, arg, 0, 63);
		return 0;
	case KEY_HTTP:
		s->port = number(state, arg, 1, 65535);
		return 0;
	case KEY_IMAGE:
		s->image = arg;
		return 0;
	case KEY_QUEUE:
		s->engine.limit = number(state, arg, 1, 4096);
		return 0;
	case KEY_CONNECTIONS:
		s->connections = number(state, arg, 1, LISTEN_MAX);
		return 0;
	case KEY_RESERVE:
		s->engine.streams.reserve = number(state, arg, 1, 1024);
		return 0;
	case KEY_ELASTIC:
		s->engine.streams.elastic_ns = number(state, arg, 1, 1000000) * (uint64_t)1000;
		return 0;
	case KEY_FILL:
		s->engine.streams.fill = number(state, arg, 1, 1024);
		return 0;
	case KEY_BESIDE:
		s->engine.streams.beside = true;
		return 0;
	case KEY_PAD:
		s->engine.streams.pad =
			!strcmp(arg, "auto") ? STREAMS_PAD_AUTO : (int)number(state, arg, 8, 64);
		if (s->engine.streams.pad > 0 && s->engine.streams.pad % 8)
			argp_error(state, "--pad: a multiple of 8 is wanted");
		return 0;
	case KEY_VERSIONS:
		s->engine.versions = true;
		s->engine.version = arg ? versions_find(arg) : -1;
		if (arg && s->engine.version < 0)
			argp_error(state, "there is no version `%s'", arg);
		return 0;
	case KEY_SPIN:
		s->engine.spin_ns = number(state, arg, 0, 10000) * (uint64_t)1000;
		s->engine.streams.spin_ns = s->engine.spin_ns;
		return 0;
	case ARGP_KEY_ARG:
		return ARGP_ERR_UNKNOWN;
	case ARGP_KEY_END:
		if (!s->engine.models)
			argp_error(state, "no model: give --real-time or --best-effort");
		if (!s->socket && !s->port)
			argp_error(state, "nowhere to listen: give --socket or --http");
		if ((s->engine.streams.fill || s->engine.streams.beside) &&
			!mode_stops(s->engine.streams.mode))
			argp_error(state, "--fill-sms and --beside go with the modes level2 and "
					  "guardian");
		if (s->engine.streams.pad && s->engine.streams.mode != MODE_GUARDIAN)
			argp_error(state, "--pad goes with the mode guardian");
		if (s->engine.versions && s->engine.version < 0 &&
			s->engine.streams.mode < MODE_LEVEL2)
			argp_error(state, "--versions goes with the modes level2, guardian and "
					  "partition");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {.options = options,
	.parser = parse,
	.doc = "An inference server: several models on one CUDA device, in one process.\v"
	       "KIND is a network, with what differs from the usual: "
	       "resnet50[,batch=N][,size=N][,width=N][,depth=N]. Networks: resnet18, resnet50, "
	       "vgg16, mlp. Their weights are made up.\n\n"
	       "Requests are lines: `infer MODEL PICTURE', where PICTURE is a number of which the "
	       "picture is made, and `stats'. SIGTERM: requests that are there are served first."};

/* A whole file, with a 0 behind it. */
static const char *read_image(const char *path, char **image)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = -1;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0 && st.st_size <= IMAGE_MAX)
		*image = calloc(1, (size_t)st.st_size + 1);
	while (*image && n < (size_t)st.st_size) {
		got = read(fd, *image + n, (size_t)st.st_size - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	if (fd >= 0)
		close(fd);
	return got > 0 ? NULL : wrong("%s: it cannot be read, or is no image", path);
}

static const char *start(struct server *s, char **image)
{
	const char *failed = NULL;

	TRY(streams_init(&s->engine.streams));
	TRY(driver_load());
	if (s->image)
		TRY(read_image(s->image, image));
	TRY(engine_start(&s->engine, (int)s->device, *image));
	if (s->socket)
		TRY(listener_open(&s->listener, &s->engine, s->socket, s->connections));
	if (s->port)
		s->http = http_start(&s->engine, (unsigned short)s->port, s->connections, &failed);
	return failed;
}

/* Until a signal comes. */
static void serve(struct server *s, int signals)
{
	struct pollfd at[] = {{.fd = signals, .events = POLLIN},
		{.fd = s->listener ? listener_fd(s->listener) : -1, .events = POLLIN}};
	struct signalfd_siginfo signal;

	printf("ready: %s, %u model%s, on %s\n", mode_names[s->engine.streams.mode],
		s->engine.models, s->engine.models > 1 ? "s" : "", s->engine.device.name);
	fflush(stdout);
	while (poll(at, 2, -1) < 0 || !(at[0].revents & POLLIN))
		if (at[1].revents & POLLIN)
			listener_accept(s->listener);
	while (read(signals, &signal, sizeof(signal)) < 0 && errno == EINTR)
		;
}

static void stop(struct server *s)
{
	engine_drain(&s->engine);
	if (s->listener)
		listener_close(s->listener);
	if (s->http)
		http_stop(s->http);
	engine_stop(&s->engine);
}

int main(int argc, char **argv)
{
	static struct server s = {.connections = 64,
		.engine = {.limit = 16, .streams = {.mode = MODE_PRIORITY, .reserve = 32}}};
	char *image = NULL;
	const char *failed;
	sigset_t ends;
	int signals;

	argp_parse(&argp, argc, argv, 0, NULL, &s);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signals = signalfd(-1, &ends, SFD_CLOEXEC);
	failed = signals < 0 ? "no signals can be had" : start(&s, &image);
	free(image);
	if (failed)
		fprintf(stderr, "server: %s\n", failed);
	else
		serve(&s, signals);
	/* Whoever cannot wait for the rest says so again. */
	close(signals);
	sigprocmask(SIG_UNBLOCK, &ends, NULL);
	stop(&s);
	return failed ? 1 : 0;
}
