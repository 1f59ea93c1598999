/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver of fermata-lab-bench(1) that asks the server: each client is a connection, its
 * model_name a model of the server's. Answers are compared with those to the same pictures when
 * nothing else was asked: one that differs ends the run.
 *
 *     INFERENCE_SOCKET=PATH fermata-lab bench --native --threads --driver inference_bench.so
 * WORKLOAD
 *
 * INFERENCE_SPIN_US: clients look for an answer for so long before they sleep;
 * INFERENCE_SPIN_MODEL: only those of this model. INFERENCE_LOG: of each client a file of that
 * name, a dot and its task's, with a line for each request: when it began and ended
 * (CLOCK_MONOTONIC, ns), and how long the server says that it ran. The command's own histograms are
 * of coarser stuff.
 */
#include <errno.h>
#include <fermata/bench.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PICTURES 8

struct record {
	uint64_t begin, end, run;
};

struct client {
	int fd;
	char model[64], task[64];
	uint64_t spin_ns;
	unsigned next;
	uint64_t digest[PICTURES]; /* when it was alone */
	char text[512];            /* the last answer; or what is wrong */
	struct record *record;     /* what did not fit into memory is not there */
	size_t records, room;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A line; NULL: there is none to come. */
static const char *receive(struct client *c)
{
	uint64_t until = c->spin_ns ? now() + c->spin_ns : 0;
	size_t n = 0;

	while (n < sizeof(c->text) - 1) {
		int how = until && now() < until ? MSG_DONTWAIT : 0;
		ssize_t got = recv(c->fd, c->text + n, sizeof(c->text) - 1 - n, how);

		if (got < 0 && (errno == EINTR || (how && errno == EAGAIN)))
			continue;
		if (got <= 0)
			return NULL;
		n += (size_t)got;
		if (c->text[n - 1] == '\n') {
			c->text[n - 1] = 0;
			return c->text;
		}
	}
	return NULL;
}

static const char *ask(struct client *c, unsigned picture, uint64_t *digest)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "infer %s %u\n", c->model, picture);
	const char *at;

	if (send(c->fd, line, (size_t)n, MSG_NOSIGNAL) != n || !receive(c))
		return "the server is gone";
	at = strstr(c->text, " digest=");
	if (strncmp(c->text, "ok ", 3) || !at || sscanf(at, " digest=%" SCNx64, digest) != 1)
		return c->text;
	return NULL;
}

static const char *dial(struct client *c)
{
	const char *path = getenv("INFERENCE_SOCKET"), *spin = getenv("INFERENCE_SPIN_US");
	const char *spins = getenv("INFERENCE_SPIN_MODEL");
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	if (!path || strlen(path) >= sizeof(at.sun_path))
		return "INFERENCE_SOCKET is not the path of the server's socket";
	strcpy(at.sun_path, path);
	if (spin && (!spins || !strcmp(spins, c->model)))
		c->spin_ns = strtoull(spin, NULL, 10) * 1000;
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&at, sizeof(at))) {
		snprintf(c->text, sizeof(c->text), "%s: %s", path, strerror(errno));
		return c->text;
	}
	return NULL;
}

static void keep(struct client *c, uint64_t begin)
{
	const char *run = strstr(c->text, " run_us=");

	if (c->records == c->room) {
		size_t room = c->room * 2 + 1024;
		struct record *more = reallocarray(c->record, room, sizeof(*more));

		if (!more)
			return;
		c->record = more;
		c->room = room;
	}
	c->record[c->records++] =
		(struct record){begin, now(), run ? (uint64_t)(strtod(run + 8, NULL) * 1e3) : 0};
}

static void write_log(const struct client *c, const char *to)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s.%s", to, c->task);
	f = fopen(path, "we");
	for (size_t i = 0; f && i < c->records; i++)
		fprintf(f, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", c->record[i].begin,
			c->record[i].end, c->record[i].run);
	if (f)
		fclose(f);
}

static void close_client(void *client)
{
	const char *log = getenv("INFERENCE_LOG");
	struct client *c = client;

	if (log && c->records)
		write_log(c, log);
	free(c->record);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

static const char *prepare(struct client *c, const struct fm_bench_open *how)
{
	const char *wrong;

	if ((size_t)snprintf(c->model, sizeof(c->model), "%s", how->model->name) >=
		sizeof(c->model))
		return "the model's name is too long";
	if ((size_t)snprintf(c->task, sizeof(c->task), "%s", how->task) >= sizeof(c->task))
		return "the task's name is too long";
	wrong = dial(c);
	for (unsigned i = 0; !wrong && i < PICTURES; i++)
		wrong = ask(c, i, &c->digest[i]);
	return wrong;
}

static const char *open_client(const struct fm_bench_driver *self, const struct fm_bench_open *how,
	void **client, struct fm_bench_device *device)
{
	static _Thread_local char text[512];
	struct client *c = calloc(1, sizeof(*c));
	const char *wrong;

	(void)self;
	if (!c)
		return "out of memory";
	c->fd = -1;
	wrong = prepare(c, how);
	if (wrong) {
		snprintf(text, sizeof(text), "%s", wrong);
		close_client(c);
		return text;
	}
	strcpy(device->name, "inference server");
	strcpy(device->platform, "examples/server");
	strcpy(device->driver, "1");
	*client = c;
	return NULL;
}

static const char *phase(void *client, enum fm_bench_phase phase)
{
	struct client *c = client;
	unsigned picture = c->next % PICTURES;
	uint64_t digest, begin = now();
	const char *wrong;

	if (phase != FM_BENCH_INFER)
		return NULL;
	c->next++;
	wrong = ask(c, picture, &digest);
	if (!wrong)
		keep(c, begin);
	if (wrong || digest == c->digest[picture])
		return wrong;
	snprintf(c->text, sizeof(c->text),
		"the answer to picture %u is %016" PRIx64 ", and was %016" PRIx64 " alone", picture,
		digest, c->digest[picture]);
	return c->text;
}

const struct fm_bench_driver *fm_bench_driver(unsigned abi)
{
	static const struct fm_bench_driver driver = {.size = sizeof(driver),
		.abi = FM_BENCH_ABI,
		.name = "inference server",
		.open = open_client,
		.phase = phase,
		.close = close_client};

	return abi == FM_BENCH_ABI ? &driver : NULL;
}
