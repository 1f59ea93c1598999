/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Level Zero program over the recorder (fakes/ze_recorder) that makes each call of the shim's
 * table, linked and by dlsym, for two results: for a queue or an immediate list, and for handles
 * that are neither. The loader must be given the program's arguments, once, and the program what
 * the loader returns. It prints what is wrong, and "commands N"; at the end of stdin or a line
 * there "calls N".
 */
#include "base/util.h"
#include "fakes/ze_recorder/recorder.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	extern ze_result_t symbol CALL_PARAMS(params);
#include "api/ze/calls.def"

/* An error that nobody has heard of. */
static const ze_result_t results[] = {FM_ZE_SUCCESS, 0x7654};

/* Handles point to something, since what is made is put where such a parameter points to. */
static void *thing[3][2] = {{thing[0], NULL}, {thing[1], NULL}, {thing[2], NULL}};
enum { QUEUE, IMMEDIATE, OTHER };

static unsigned made, commands, wrong;

#define CANARY(type, name) *(type const *)rec_canary(#name, sizeof(type))
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...)   \
	static ze_result_t call_##symbol(void *fn)                           \
	{                                                                    \
		return ((__typeof__(&symbol))fn)(CALL_EACH(CANARY, params)); \
	}
#include "api/ze/calls.def"

static const struct row {
	const char *symbol, *kind;
	void *linked;
	ze_result_t (*call)(void *fn);
} rows[] = {
#define ON_other(kind, symbol, ...) {#symbol, #kind, (void *)symbol, call_##symbol},
#include "api/ze/calls.def"
};

static bool is(const struct row *r, const char *kind)
{
	return !strcmp(r->kind, kind);
}

/* Is it a command for that handle? */
static bool is_command(const struct row *r, int of)
{
	bool on_queue = !strcmp(r->symbol, "zeCommandQueueExecuteCommandLists");

	return (is(r, "kernel") || is(r, "work") || is(r, "graph")) &&
	       of == (on_queue ? QUEUE : IMMEDIATE);
}

/* A command for what was never made is passed on, and counted as one that was not scheduled, but
 * not where it is for a list, which may be one that is executed later. */
static void one(const struct row *r, void *fn, int of, ze_result_t rc)
{
	struct rec_seen seen;
	ze_result_t got;

	rec_expect((unsigned)(r - rows), thing[of], rc);
	got = r->call(fn);
	seen = rec_seen();
	made++;
	commands += is_command(r, of);
	if (seen.calls == 1 && !seen.differ && !seen.besides && got == rc)
		return;
	wrong++;
	printf("%s: called %u times, %u other arguments, %u other calls, 0x%x in place of 0x%x\n",
		r->symbol, seen.calls, seen.differ, seen.besides, (unsigned)got, (unsigned)rc);
}

static void each_way(const struct row *r, void *handle)
{
	void *ways[] = {r->linked, dlsym(handle, r->symbol)};

	for (size_t i = 0; i < FM_ARRAY_LEN(ways); i++) {
		if (ways[i] != r->linked) {
			wrong++;
			printf("%s: dlsym gives another function\n", r->symbol);
			continue;
		}
		for (size_t k = 0; k < FM_ARRAY_LEN(results); k++)
			for (int of = QUEUE; of <= OTHER; of++)
				if (!is(r, "graph") || is_command(r, of))
					one(r, ways[i], of, results[k]);
	}
}

static void make(int of, unsigned id, void *fn)
{
	rec_expect(id, thing[of], FM_ZE_SUCCESS);
	rows[id].call(fn);
	rec_seen();
}

int main(void)
{
	void *handle = dlopen("libze_loader.so.1", RTLD_NOW);

	if (!handle)
		return 2;
	make(QUEUE, REC_zeCommandQueueCreate, (void *)zeCommandQueueCreate);
	make(IMMEDIATE, REC_zeCommandListCreateImmediate, (void *)zeCommandListCreateImmediate);
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (!is(&rows[i], "own") && !is(&rows[i], "end") && !is(&rows[i], "make"))
			each_way(&rows[i], handle);
	printf("commands %u\n", commands);
	fflush(stdout);
	getchar();
	/* Those that make and end things come last, when what the others have done has been looked
	 * at. */
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (is(&rows[i], "end") || is(&rows[i], "make"))
			each_way(&rows[i], handle);
	printf("calls %u\n", made);
	return wrong != 0;
}
