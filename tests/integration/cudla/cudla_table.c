/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cuDLA program over the recorder (fakes/cudla_recorder) that makes each call of the shim's
 * table: linked and by dlsym, for two results, with a standalone handle that was made and with one
 * that nobody knows. The library must be given the program's arguments, once, and the program what
 * the library returns. It prints what is wrong, and "commands N strangers N"; at the end of stdin
 * or a line there "calls N".
 */
#include "base/util.h"
#include "fakes/cudla_recorder/recorder.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	extern cudlaStatus symbol CALL_PARAMS(params);
#include "api/cudla/calls.def"

/* An error that nobody has heard of. */
static const cudlaStatus results[] = {FM_CUDLA_SUCCESS, 4321};
static _Alignas(16) char own_device[16], strange_device[16];

static unsigned made, commands, strangers, wrong;

#define CANARY(type, name) *(type const *)rec_canary(#name, sizeof(type))
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...)   \
	static cudlaStatus call_##symbol(void *fn)                           \
	{                                                                    \
		return ((__typeof__(&symbol))fn)(CALL_EACH(CANARY, params)); \
	}
#include "api/cudla/calls.def"

static const struct row {
	const char *symbol, *kind;
	void *linked;
	cudlaStatus (*call)(void *fn);
} rows[] = {
#define ON_other(kind, symbol, ...) {#symbol, #kind, (void *)symbol, call_##symbol},
#include "api/cudla/calls.def"
};

static bool is(const struct row *r, const char *kind)
{
	return !strcmp(r->kind, kind);
}

static void one(const struct row *r, void *fn, char *device, cudlaStatus rc)
{
	struct rec_seen seen;
	cudlaStatus got;

	rec_expect((unsigned)(r - rows), (cudlaDevHandle)(void *)device, rc);
	got = r->call(fn);
	seen = rec_seen();
	made++;
	*(device == own_device ? &commands : &strangers) += is(r, "work");
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
			one(r, ways[i], own_device, results[k]);
			if (!is(r, "make"))
				one(r, ways[i], strange_device, results[k]);
		}
	}
}

static void all(const char *kind, void *handle)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (is(&rows[i], kind))
			each_way(&rows[i], handle);
}

int main(void)
{
	void *handle = dlopen("libcudla.so.1", RTLD_NOW);

	if (!handle)
		return 2;
	all("make", handle);
	all("work", handle);
	printf("commands %u strangers %u\n", commands, strangers);
	fflush(stdout);
	getchar();
	all("end", handle);
	printf("calls %u\n", made);
	return wrong != 0;
}
