/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VPI program over the recorder (fakes/vpi_recorder) that makes each call of the shim's table:
 * linked and by dlsym, for two results, with a stream that was made and with one that nobody knows.
 * The library must be given the program's arguments, once, and the program what the library
 * returns. It prints what is wrong, and "commands N strangers N"; at the end of stdin or a line
 * there "calls N".
 */
#include "base/util.h"
#include "fakes/vpi_recorder/recorder.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define ON_end(symbol, per_thread, name, since, note, params, ...) \
	extern void symbol CALL_PARAMS(params);
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	extern VPIStatus symbol CALL_PARAMS(params);
#include "api/vpi/calls.def"

/* An error that nobody has heard of. */
static const VPIStatus results[] = {FM_VPI_SUCCESS, 4321};
static _Alignas(16) char own_stream[16], strange_stream[16];

static unsigned made, commands, strangers, wrong;

#define CANARY(type, name) *(type const *)rec_canary(#name, sizeof(type))
#define ON_end(symbol, per_thread, name, since, note, params, ...)    \
	static VPIStatus call_##symbol(void *fn, VPIStatus rc)        \
	{                                                             \
		((__typeof__(&symbol))fn)(CALL_EACH(CANARY, params)); \
		return rc;                                            \
	}
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...)   \
	static VPIStatus call_##symbol(void *fn, VPIStatus rc)               \
	{                                                                    \
		return ((__typeof__(&symbol))fn)(CALL_EACH(CANARY, params)); \
	}
#include "api/vpi/calls.def"

static const struct row {
	const char *symbol, *kind;
	void *linked;
	VPIStatus (*call)(void *fn, VPIStatus rc);
} rows[] = {
#define ON_other(kind, symbol, ...) {#symbol, #kind, (void *)symbol, call_##symbol},
#include "api/vpi/calls.def"
};

static bool is(const struct row *r, const char *kind)
{
	return !strcmp(r->kind, kind);
}

static void one(const struct row *r, void *fn, char *stream, VPIStatus rc)
{
	struct rec_seen seen;
	VPIStatus got;

	rec_expect((unsigned)(r - rows), (VPIStream)(void *)stream, rc);
	got = r->call(fn, rc);
	seen = rec_seen();
	made++;
	*(stream == own_stream ? &commands : &strangers) += is(r, "work");
	if (seen.calls == 1 && !seen.differ && !seen.besides && got == rc)
		return;
	wrong++;
	printf("%s: called %u times, %u other arguments, %u other calls, %d in place of %d\n",
		r->symbol, seen.calls, seen.differ, seen.besides, got, rc);
}

static void each_way(const struct row *r, void *handle)
{
	void *ways[] = {r->linked, dlsym(handle, r->symbol)};

	for (size_t i = 0; i < FM_ARRAY_LEN(ways); i++) {
		if (ways[i] != r->linked || ways[i] == rec_own((unsigned)(r - rows))) {
			wrong++;
			printf("%s: way %zu gives another function\n", r->symbol, i);
			continue;
		}
		for (size_t k = 0; k < FM_ARRAY_LEN(results); k++) {
			one(r, ways[i], own_stream, results[k]);
			if (!is(r, "make"))
				one(r, ways[i], strange_stream, results[k]);
		}
	}
}

int main(void)
{
	void *handle = dlopen("libnvvpi.so.3", RTLD_NOW);

	if (!handle)
		return 2;
	/* Those that make things come first, those that end them last, when what the others have
	 * done has been looked at. */
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (is(&rows[i], "make"))
			each_way(&rows[i], handle);
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (!is(&rows[i], "make") && !is(&rows[i], "end"))
			each_way(&rows[i], handle);
	printf("commands %u strangers %u\n", commands, strangers);
	fflush(stdout);
	getchar();
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (is(&rows[i], "end"))
			each_way(&rows[i], handle);
	printf("calls %u\n", made);
	return wrong != 0;
}
