/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P9: whether calls that are said to be asynchronous wait for their stream, which stands at a
 * closed gate: with the range on the device, in a chunk of the host, in registered memory.
 */
#include "commands.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { DEVICE, NUMA, REGISTERED, KINDS };
static const char *const kind_names[] = {"device", "host_chunk", "registered"};
static int n_commands, of[COMMANDS_MOST], n_of;
static struct {
	struct places p;
	CUdeviceptr t[KINDS];
	char *contents[PLACES], *model[PLACES], *seen;
	CUstream mover;
	struct gate gate;
	const struct command *c;
	struct prepared r;
	int rc;
} w;

static void name(int i, char *out, size_t size)
{
	char command[100];

	command_name(&commands[of[i % n_of]], command, sizeof(command));
	snprintf(out, size, "%s %s", kind_names[i / n_of], command);
}

static void begin(void)
{
	CUdeviceptr registered;

	gpu_open(false);
	w.p.s = gpu_stream();
	w.mover = gpu_stream();
	for (enum kind k = DEVICE; k <= NUMA; k++) {
		w.t[k] = gpu_reserve(RANGE, CHUNK);
		for (unsigned i = 0; i < 2; i++) {
			handle h;

			CK(chunk_new(&h, k == DEVICE ? ON_DEVICE : ON_HOST, CHUNK));
			CK(chunk_map(w.t[k] + i * CHUNK, CHUNK, h));
		}
	}
	CK(cu.cuMemHostGetDevicePointer_v2(&registered, host_registered(RANGE), 0));
	w.t[REGISTERED] = registered;
	CK(cu.cuMemAlloc_v2(&w.p.plain, RANGE));
	w.p.pinned = host_pinned(RANGE);
	w.p.pageable = malloc(RANGE);
	w.seen = host_pinned(RANGE);
	for (unsigned i = 0; i < PLACES; i++) {
		w.contents[i] = host_pinned(RANGE);
		pattern(w.contents[i], RANGE, i + 1);
		w.model[i] = malloc(RANGE);
	}
	w.gate = gate_new();
}

static void start(void)
{
	CK(cu.cuMemcpyHtoDAsync_v2(w.p.t, w.contents[T], RANGE, w.mover));
	CK(cu.cuMemcpyHtoDAsync_v2(w.p.plain, w.contents[PLAIN], RANGE, w.mover));
	memcpy(w.p.pinned, w.contents[PINNED], RANGE);
	memcpy(w.p.pageable, w.contents[PAGEABLE], RANGE);
	for (int i = 0; i < PLACES; i++)
		memcpy(w.model[i], w.contents[i], RANGE);
	CK(cu.cuStreamSynchronize(w.mover));
}

static bool device_holds(CUdeviceptr p, const void *what)
{
	CK(cu.cuMemcpyDtoHAsync_v2(w.seen, p, RANGE, w.mover));
	CK(cu.cuStreamSynchronize(w.mover));
	return !memcmp(w.seen, what, RANGE);
}

static bool as_it_must(void)
{
	command_effect(w.c, w.model);
	return device_holds(w.p.t, w.model[T]) && device_holds(w.p.plain, w.model[PLAIN]) &&
	       !memcmp(w.p.pinned, w.model[PINNED], RANGE) &&
	       !memcmp(w.p.pageable, w.model[PAGEABLE], RANGE);
}

static void give(void *arg)
{
	(void)arg;
	w.rc = command_give(w.c, &w.p, &w.r);
}

static void one(int i, struct outcome *o)
{
	bool waited;

	w.c = &commands[of[i % n_of]];
	w.p.t = w.t[i / n_of];
	start();
	o->rc = command_prepare(w.c, &w.p, &w.r);
	if (!o->rc) {
		CK(gate_close(&w.gate, w.p.s));
		helper_start(0, give, NULL);
		waited = !helper_done(0, 120e3);
		gate_open(&w.gate);
		if (!helper_done(0, 3e6))
			_exit(SERIES_HUNG);
		o->rc = w.rc;
		o->after = cu.cuStreamSynchronize(w.p.s);
		o->us[0] = waited ? -1 : helper_took(0);
		if (waited)
			snprintf(o->text, sizeof(o->text), "waits for the stream");
		else
			snprintf(o->text, sizeof(o->text), "returns after %.1f us", o->us[0]);
	}
	if (o->rc == ABSENT)
		o->is = MISSING;
	else
		o->is = !o->rc && !o->after && as_it_must() ? RIGHT : WRONG;
	command_clean(&w.r);
}

static void cell(const struct outcome *o, char *out, size_t size)
{
	if (o->is == RIGHT && o->us[0] < 0)
		snprintf(out, size, "WAITS");
	else if (o->is == RIGHT)
		snprintf(out, size, "%.1f us", o->us[0]);
	else
		snprintf(out, size, "%s%s%s", outcome_names[o->is], o->rc > 0 ? " " : "",
			o->rc > 0 ? gpu_error(o->rc) : "");
}

int probe_returns(int argc, char **argv)
{
	struct series s = {"P9", 0, name, begin, one, 8, argc > 0 ? atof(argv[0]) : 40};
	int waits[KINDS] = {0}, wrong = 0;
	struct outcome *o;

	n_commands = commands_make();
	for (int i = 0; i < n_commands; i++)
		if (!command_waits(&commands[i]))
			of[n_of++] = i;
	s.n = KINDS * n_of;
	o = series_run(&s);
	if (!o)
		return 77;
	printf("%-44s %-22s %-22s %-22s\n", "P9: the call returns", "device", "host chunk",
		"registered");
	for (int k = 0; k < n_of; k++) {
		char what[100], cells[KINDS][60];

		command_name(&commands[of[k]], what, sizeof(what));
		for (int i = 0; i < KINDS; i++) {
			const struct outcome *one_ = &o[i * n_of + k];

			cell(one_, cells[i], sizeof(cells[i]));
			waits[i] += one_->is == RIGHT && one_->us[0] < 0;
			wrong += one_->is != RIGHT && one_->is != MISSING;
		}
		printf("%-44s %-22s %-22s %-22s\n", what, cells[0], cells[1], cells[2]);
	}
	printf("== P9 calls that wait for their stream, of %d: device %d, host chunk %d, "
	       "registered %d; %d wrong\n",
		n_of, waits[DEVICE], waits[NUMA], waits[REGISTERED], wrong);
	return 0;
}
