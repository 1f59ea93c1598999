/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A HIP program over the recorder (fakes/hip_recorder) that makes each call of the shim's table:
 * linked, by dlsym, hipGetProcAddress and hipGetDriverEntryPoint, for two results, into a stream of
 * its own and the NULL stream. The runtime must be given the program's arguments, once, and the
 * program what the runtime returns. It prints what is wrong, and "commands N past N"; at the end of
 * stdin or a line there "calls N".
 */
#include "base/util.h"
#include "fakes/hip_recorder/recorder.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	extern hipError_t symbol CALL_PARAMS(params);
#include "api/hip/calls.def"

/* An error that nobody has heard of. */
static const hipError_t results[] = {FM_HIP_SUCCESS, 4321};
static _Alignas(16) char own_stream[16];

static unsigned made, commands, past, wrong;

#define CANARY(type, name) *(type const *)rec_canary(#name, sizeof(type))
#define WITH(symbol, params)                                                 \
	static hipError_t call_##symbol(void *fn)                            \
	{                                                                    \
		return ((__typeof__(&symbol))fn)(CALL_EACH(CANARY, params)); \
	}
#define WITHOUT(symbol)                             \
	static hipError_t call_##symbol(void *fn)   \
	{                                           \
		return ((hipError_t(*)(void))fn)(); \
	}
#define OF_QUEUE(symbol, params)                                        WITH(symbol, params)
#define OF_STREAM(symbol, params)                                       WITH(symbol, params)
#define OF_DEVICE(symbol, params)                                       WITHOUT(symbol)
#define ON_sync(symbol, per_thread, name, since, note, params, of, ...) OF_##of(symbol, params)
#define ON_end(symbol, per_thread, name, since, note, params, of, ...)  OF_##of(symbol, params)
#define OWN_LOOKUP(symbol, params)                \
	static hipError_t call_##symbol(void *fn) \
	{                                         \
		return FM_HIP_SUCCESS;            \
	}
#define OWN_MULTI(symbol, params)                                          WITH(symbol, params)
#define OWN_CONFIGURE(symbol, params)                                      WITH(symbol, params)
#define ON_own(symbol, per_thread, name, since, note, params, how)         OWN_##how(symbol, params)
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) WITH(symbol, params)
#include "api/hip/calls.def"

static const struct row {
	const char *symbol, *name, *kind, *how;
	bool per_thread;
	void *linked;
	hipError_t (*call)(void *fn);
} rows[] = {
#define ROW(symbol, name, kind, how, per_thread) \
	{#symbol, #name, kind, how, per_thread, (void *)symbol, call_##symbol},
#define ON_own(symbol, per_thread, name, since, note, params, how) \
	ROW(symbol, name, "own", #how, per_thread)
#define ON_other(kind, symbol, per_thread, name, ...) ROW(symbol, name, #kind, "", per_thread)
#include "api/hip/calls.def"
};

static bool is(const struct row *r, const char *kind)
{
	return !strcmp(r->kind, kind);
}

static bool is_command(const struct row *r)
{
	return is(r, "kernel") || is(r, "work") || is(r, "graph");
}

static void *by_request(const struct row *r)
{
	void *fn = NULL;

	hipGetProcAddress(r->name, &fn, 700, r->per_thread ? FM_HIP_PROC_PER_THREAD : 0, NULL);
	return fn;
}

static void *by_entry_point(const struct row *r)
{
	void *fn = NULL;

	if (r->per_thread)
		hipGetDriverEntryPoint_spt(r->name, &fn, 0, NULL);
	else
		hipGetDriverEntryPoint(r->name, &fn, 0, NULL);
	return fn;
}

static void one(const struct row *r, void *fn, hipStream_t stream, hipError_t rc)
{
	unsigned id = (unsigned)(r - rows);
	struct rec_seen seen;
	hipError_t got;

	rec_expect(id, stream, rc);
	got = r->call(fn);
	seen = rec_seen();
	made++;
	commands += is_command(r);
	past += !strcmp(r->how, "MULTI");
	if (seen.calls == 1 && !seen.differ && !seen.besides && got == rc)
		return;
	wrong++;
	printf("%s: called %u times, %u other arguments, %u other calls, %d in place of %d\n",
		r->symbol, seen.calls, seen.differ, seen.besides, got, rc);
}

/* What began is ended, so that what comes next is not captured. */
static void each_result(const struct row *r, void *fn, hipStream_t stream)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(results); i++)
		one(r, fn, stream, results[i]);
	if (is(r, "capture")) {
		rec_expect(REC_hipStreamEndCapture, stream, FM_HIP_SUCCESS);
		hipStreamEndCapture(
			r->per_thread && !stream ? FM_HIP_STREAM_PER_THREAD : stream, NULL);
		rec_seen();
	}
}

static void each_way(const struct row *r, void *handle)
{
	void *ways[] = {r->linked, dlsym(handle, r->symbol), by_request(r), by_entry_point(r)};

	for (size_t i = 0; i < FM_ARRAY_LEN(ways); i++) {
		if (ways[i] != r->linked || ways[i] == rec_own((unsigned)(r - rows))) {
			wrong++;
			printf("%s: way %zu gives another function\n", r->symbol, i);
			continue;
		}
		each_result(r, ways[i], (hipStream_t)(void *)own_stream);
		if (!is(r, "end") && !is(r, "make"))
			each_result(r, ways[i], NULL);
	}
}

int main(void)
{
	void *handle = dlopen("libamdhip64.so.6", RTLD_NOW);

	if (!handle)
		return 2;
	/* Those that end things come last, when what the others have done has been looked at. */
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].how, "LOOKUP") && !is(&rows[i], "end"))
			each_way(&rows[i], handle);
	printf("commands %u past %u\n", commands, past);
	fflush(stdout);
	getchar();
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (is(&rows[i], "end"))
			each_way(&rows[i], handle);
	printf("calls %u\n", made);
	return wrong != 0;
}
