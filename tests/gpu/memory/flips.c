/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P7: a command is given behind a closed gate; then the range that it names is mapped to other
 * memory, with other contents; then the gate is opened. Right is what the command makes of the
 * contents that are there when it runs; what was mapped before must not be touched.
 */
#include "commands.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { D1, D2, H1, H2, SETS };
static const struct {
	int from, to;
	const char *name;
} flips[] = {{D1, D2, "device>device"}, {D1, H1, "device>host"}, {H1, D1, "host>device"},
	{H1, H2, "host>host"}};

static struct {
	struct places p;
	handle sets[SETS][2];
	CUdeviceptr windows[SETS]; /* where each is mapped all the time */
	char *contents[5];         /* those of the old chunk, T, and the other places; pinned */
	char *model[PLACES], *seen;
	CUstream mover;
	struct gate gate;
} w;
static int n_commands;

static void name(int i, char *out, size_t size)
{
	char command[100];

	command_name(&commands[i % n_commands], command, sizeof(command));
	snprintf(out, size, "%s %s", flips[i / n_commands].name, command);
}

static void begin(void)
{
	gpu_open(false);
	w.p.s = gpu_stream();
	w.mover = gpu_stream();
	w.p.t = gpu_reserve(RANGE, CHUNK);
	for (int i = 0; i < SETS; i++) {
		w.windows[i] = gpu_reserve(RANGE, CHUNK);
		for (int k = 0; k < 2; k++) {
			CK(chunk_new(&w.sets[i][k], i < H1 ? ON_DEVICE : ON_HOST, CHUNK));
			CK(chunk_map(w.windows[i] + (unsigned)k * CHUNK, CHUNK, w.sets[i][k]));
		}
	}
	CK(cu.cuMemAlloc_v2(&w.p.plain, RANGE));
	w.p.pinned = host_pinned(RANGE);
	w.p.pageable = malloc(RANGE);
	w.seen = host_pinned(RANGE);
	for (unsigned i = 0; i < 5; i++) {
		w.contents[i] = host_pinned(RANGE);
		pattern(w.contents[i], RANGE, i + 1);
	}
	for (int i = 0; i < PLACES; i++)
		w.model[i] = malloc(RANGE);
	w.gate = gate_new();
}

static int map_set(int set)
{
	int rc = vm.cuMemMap(w.p.t, CHUNK, 0, w.sets[set][0], 0);

	rc = rc ? rc : vm.cuMemMap(w.p.t + CHUNK, CHUNK, 0, w.sets[set][1], 0);
	return rc ? rc : chunk_access(w.p.t, RANGE);
}

static void start_with(int from, int to)
{
	CK(cu.cuMemcpyHtoDAsync_v2(w.windows[from], w.contents[0], RANGE, w.mover));
	CK(cu.cuMemcpyHtoDAsync_v2(w.windows[to], w.contents[1], RANGE, w.mover));
	CK(cu.cuMemcpyHtoDAsync_v2(w.p.plain, w.contents[2], RANGE, w.mover));
	memcpy(w.p.pinned, w.contents[3], RANGE);
	memcpy(w.p.pageable, w.contents[4], RANGE);
	for (int i = 0; i < PLACES; i++)
		memcpy(w.model[i], w.contents[i + 1], RANGE);
	CK(cu.cuStreamSynchronize(w.mover));
}

static struct {
	const struct command *c;
	struct prepared r;
	int to, rc, flip_rc, step;
	_Atomic bool late; /* the gate is open: nothing is unmapped any more */
} now;

static void give(void *arg)
{
	(void)arg;
	now.rc = command_give(now.c, &w.p, &now.r);
}

static void flip(void *arg)
{
	(void)arg;
	if (atomic_load(&now.late))
		return;
	now.step = 1;
	now.flip_rc = vm.cuMemUnmap(w.p.t, RANGE);
	now.step = 2;
	if (!now.flip_rc)
		now.flip_rc = map_set(now.to);
	now.step = 3;
}

static bool same(const void *a, const void *b)
{
	return !memcmp(a, b, RANGE);
}

static bool device_holds(CUdeviceptr p, const void *what)
{
	CK(cu.cuMemcpyDtoHAsync_v2(w.seen, p, RANGE, w.mover));
	CK(cu.cuStreamSynchronize(w.mover));
	return same(w.seen, what);
}

/* Compares all that could have changed; says what did. */
static void judge(int from, int to, struct outcome *o)
{
	char *const old[PLACES] = {w.contents[0], w.contents[2], w.contents[3], w.contents[4]};
	const char *what = NULL;

	command_effect(now.c, w.model);
	if (!device_holds(w.windows[from], old[T]))
		what = "the memory that was mapped before was written";
	else if (!device_holds(w.windows[to], w.model[T]))
		what = same(w.seen, w.contents[1]) ? "nothing was written"
						   : "wrong contents were written";
	else if (!device_holds(w.p.plain, w.model[PLAIN]))
		what = "the device's other memory differs: what was mapped before was read, "
		       "perhaps";
	else if (!same(w.p.pinned, w.model[PINNED]) || !same(w.p.pageable, w.model[PAGEABLE]))
		what = "the host's memory differs: what was mapped before was read, perhaps";
	o->is = what ? WRONG : RIGHT;
	if (what) {
		size_t used = strlen(o->text);

		snprintf(o->text + used, sizeof(o->text) - used, "; %s", what);
	}
}

static void one(int i, struct outcome *o)
{
	int from = flips[i / n_commands].from, to = flips[i / n_commands].to;
	bool waited, stood;

	now.c = &commands[i % n_commands];
	now.to = to;
	now.flip_rc = now.step = 0;
	atomic_store(&now.late, false);
	start_with(from, to);
	CK(map_set(from));
	o->rc = command_prepare(now.c, &w.p, &now.r);
	if (!o->rc) {
		CK(gate_close(&w.gate, command_stream(now.c, &w.p)));
		helper_start(0, give, NULL);
		waited = !helper_done(0, 30e3);
		helper_start(1, flip, NULL);
		stood = !helper_done(1, 300e3);
		atomic_store(&now.late, true);
		gate_open(&w.gate);
		if (!helper_done(0, 3e6) || !helper_done(1, 3e6)) {
			snprintf(o->text, sizeof(o->text),
				"after the gate was opened; flip at step %d", now.step);
			_exit(SERIES_HUNG);
		}
		o->rc = now.rc;
		o->after = cu.cuStreamSynchronize(command_stream(now.c, &w.p));
		o->us[0] = helper_took(0);
		o->us[1] = helper_took(1);
		snprintf(o->text, sizeof(o->text), "%s, flip %.0f us%s",
			waited ? "call waited" : "call returned", o->us[1],
			stood ? ", which stood until the gate was opened" : "");
		if (now.flip_rc)
			snprintf(o->text, sizeof(o->text), "the flip failed at step %d: %s",
				now.step, gpu_error(now.flip_rc));
	}
	if (o->rc == ABSENT)
		o->is = MISSING;
	else if (o->rc || now.flip_rc)
		o->is = WRONG;
	else if (!o->after && !now.step)
		o->is = NOTED; /* the flip did not begin in time: nothing was mapped anew */
	else if (!o->after)
		judge(from, to, o);
	command_clean(&now.r);
	if (!o->after)
		CK(vm.cuMemUnmap(w.p.t, RANGE));
}

int probe_flips(int argc, char **argv)
{
	struct series s = {"P7", 0, name, begin, one, 8, argc > 0 ? atof(argv[0]) : 45};
	struct outcome *o;
	int sums[8] = {0};

	n_commands = commands_make();
	s.n = n_commands * (int)(sizeof(flips) / sizeof(*flips));
	o = series_run(&s);
	if (!o)
		return 77;
	for (int i = 0; i < s.n; i++)
		sums[o[i].is]++;
	printf("== P7 commands behind a gate, range mapped anew:");
	for (int i = 0; i <= NOTED; i++)
		printf(" %d %s%s", sums[i], outcome_names[i], i < NOTED ? "," : "\n");
	return 0;
}
