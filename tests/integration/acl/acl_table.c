/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program over the recorder (fakes/acl_recorder) that makes each call of the shim's table: linked
 * and by dlsym, for two results, into a stream of its own and the NULL stream. The library must be
 * given the program's arguments, once, and the program what the library returns. It prints what is
 * wrong, and "commands N"; at the end of stdin or a line there "calls N".
 */
#include "base/util.h"
#include "fakes/acl_recorder/recorder.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	extern aclError symbol CALL_PARAMS(params);
#include "api/acl/calls.def"

/* An error that nobody has heard of. */
static const aclError results[] = {FM_ACL_SUCCESS, 4321};
static _Alignas(16) char own_stream[16];

static unsigned made, commands, wrong;

#define CANARY(type, name) *(type const *)rec_canary(#name, sizeof(type))
#define WITH(symbol, params)                                                 \
	static aclError call_##symbol(void *fn)                              \
	{                                                                    \
		return ((__typeof__(&symbol))fn)(CALL_EACH(CANARY, params)); \
	}
#define WITHOUT(symbol, params)                   \
	static aclError call_##symbol(void *fn)   \
	{                                         \
		return ((aclError(*)(void))fn)(); \
	}
#define ON_sync(symbol, per_thread, name, since, note, params, of, ...) \
	REC_PARAMS_##symbol(symbol, params)
#define ON_end(symbol, per_thread, name, since, note, params, of, ...) \
	REC_PARAMS_##symbol(symbol, params)
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) WITH(symbol, params)
#include "api/acl/calls.def"

static const struct row {
	const char *symbol, *kind;
	void *linked;
	aclError (*call)(void *fn);
} rows[] = {
#define ON_other(kind, symbol, ...) {#symbol, #kind, (void *)symbol, call_##symbol},
#include "api/acl/calls.def"
};

static bool is(const struct row *r, const char *kind)
{
	return !strcmp(r->kind, kind);
}

static void one(const struct row *r, void *fn, aclrtStream stream, aclError rc)
{
	unsigned id = (unsigned)(r - rows);
	struct rec_seen seen;
	aclError got;

	rec_expect(id, stream, rc);
	got = r->call(fn);
	seen = rec_seen();
	made++;
	commands += is(r, "kernel") || is(r, "work") || is(r, "graph");
	if (seen.calls == 1 && !seen.differ && !seen.besides && got == rc)
		return;
	wrong++;
	printf("%s: called %u times, %u other arguments, %u other calls, %d in place of %d\n",
		r->symbol, seen.calls, seen.differ, seen.besides, got, rc);
}

/* What began is ended, so that what comes next is not captured. */
static void each_result(const struct row *r, void *fn, aclrtStream stream)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(results); i++)
		one(r, fn, stream, results[i]);
	if (is(r, "capture")) {
		rec_expect(REC_aclmdlRICaptureEnd, stream, FM_ACL_SUCCESS);
		aclmdlRICaptureEnd(stream, NULL);
		rec_seen();
	}
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
		each_result(r, ways[i], own_stream);
		if (!is(r, "end") && !is(r, "make"))
			each_result(r, ways[i], NULL);
	}
}

int main(void)
{
	void *handle = dlopen("libascendcl.so", RTLD_NOW);

	if (!handle)
		return 2;
	/* Those that end things come last, when what the others have done has been looked at. */
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (!is(&rows[i], "end"))
			each_way(&rows[i], handle);
	printf("commands %u\n", commands);
	fflush(stdout);
	getchar();
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (is(&rows[i], "end"))
			each_way(&rows[i], handle);
	printf("calls %u\n", made);
	return wrong != 0;
}
