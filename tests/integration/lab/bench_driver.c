/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver of `fermata-lab bench` that does what its models are called: "ok" serves each request at
 * once; "open" cannot be opened; "infer:N", "die:N" and "stuck:N" fail, are killed, and never end,
 * in the N-th request. With BENCH_DRIVER=old it is of another version of the interface, with
 * BENCH_DRIVER=torn its table is not whole.
 */
#include <fermata/bench.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct client {
	char what[16];
	unsigned at, n;
};

static const char *open_client(const struct fm_bench_driver *self, const struct fm_bench_open *how,
	void **client, struct fm_bench_device *device)
{
	struct client *c;

	(void)self;
	if (how->size < sizeof(*how) || !strcmp(how->model->name, "open"))
		return "it is shut";
	c = calloc(1, sizeof(*c));
	if (!c)
		return "out of memory";
	sscanf(how->model->name, "%15[a-z]:%u", c->what, &c->at);
	snprintf(device->name, sizeof(device->name), "test:%u", how->device);
	snprintf(device->platform, sizeof(device->platform), "%.100s", how->model->client);
	*client = c;
	return NULL;
}

static const char *act(struct client *c)
{
	const struct timespec ms = {0, 1000000};

	nanosleep(&ms, NULL);
	if (++c->n != c->at)
		return NULL;
	if (!strcmp(c->what, "infer"))
		return "it is tired";
	if (!strcmp(c->what, "die"))
		kill(getpid(), SIGKILL);
	if (!strcmp(c->what, "stuck"))
		fputs("it is stuck\n", stderr);
	while (!strcmp(c->what, "stuck"))
		pause();
	return NULL;
}

static const char *phase(void *client, enum fm_bench_phase phase)
{
	return phase == FM_BENCH_INFER ? act(client) : NULL;
}

const struct fm_bench_driver *fm_bench_driver(unsigned abi)
{
	static const struct fm_bench_driver whole = {.size = sizeof(whole),
		.abi = FM_BENCH_ABI,
		.name = "test",
		.open = open_client,
		.phase = phase,
		.close = free};
	static const struct fm_bench_driver torn = {.size = sizeof(torn), .abi = FM_BENCH_ABI};
	const char *how = getenv("BENCH_DRIVER");

	if (abi != FM_BENCH_ABI || (how && !strcmp(how, "old")))
		return NULL;
	return how && !strcmp(how, "torn") ? &torn : &whole;
}
