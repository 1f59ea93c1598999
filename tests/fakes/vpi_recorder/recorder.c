/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"
#include "base/util.h"
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define ON_end(symbol, per_thread, name, since, note, params, ...) \
	EXPORT void symbol CALL_PARAMS(params);
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	EXPORT VPIStatus symbol CALL_PARAMS(params);
#include "api/vpi/calls.def"

static const struct {
	const char *symbol;
	void *fn;
} entries[] = {
#define ON_other(kind, symbol, ...) {#symbol, (void *)symbol},
#include "api/vpi/calls.def"
};

static __thread struct {
	bool on;
	unsigned id;
	VPIStatus rc;
	VPIStream stream;
	struct rec_seen seen;
} expected;
static char thing[16]; /* an event, a context */

/* A stream is given as such, or by where it is written to; the rest are numbers that nobody has
 * heard of. */
EXPORT const void *rec_canary(const char *name, size_t size)
{
	static _Thread_local _Alignas(16) unsigned char bytes[16][32];
	static _Thread_local VPIStream *made;
	static _Thread_local unsigned turn;
	unsigned char *b = bytes[turn++ % 16];
	uint32_t h = 2166136261u;

	made = &expected.stream;
	if (!strcmp(name, "stream"))
		return expected.on && !strncmp(entries[expected.id].symbol, "vpiStreamCreate", 15)
			       ? (const void *)&made
			       : &expected.stream;
	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	for (size_t i = 0; i < size; i++, h = h * 1664525u + 1013904223u)
		b[i] = (unsigned char)(h >> 24);
	return b;
}

EXPORT void rec_expect(unsigned id, VPIStream stream, VPIStatus rc)
{
	expected.on = true;
	expected.id = id;
	expected.rc = rc;
	expected.stream = stream;
	expected.seen = (struct rec_seen){0};
}

EXPORT struct rec_seen rec_seen(void)
{
	expected.on = false;
	return expected.seen;
}

EXPORT void *rec_own(unsigned id)
{
	return entries[id].fn;
}

/* What the shim calls for itself. */
static bool is_shims(const char *symbol)
{
	static const char *const own[] = {
#define SYMBOL(name, symbol, params) symbol,
		FM_VPI_DRIVER(SYMBOL) "vpiEventDestroy",
#undef SYMBOL
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(own); i++)
		if (!strcmp(symbol, own[i]))
			return true;
	return false;
}

struct arg {
	const char *name;
	const void *at;
	size_t size;
};

static VPIStatus called(unsigned id, const struct arg *a, size_t n)
{
	if (!expected.on)
		return FM_VPI_SUCCESS;
	if (id != expected.id) {
		expected.seen.besides += !is_shims(entries[id].symbol);
		return FM_VPI_SUCCESS;
	}
	expected.seen.calls++;
	for (size_t i = 0; i < n; i++)
		expected.seen.differ +=
			memcmp(a[i].at, rec_canary(a[i].name, a[i].size), a[i].size) != 0;
	return expected.rc;
}

#define ARG(type, name)                    \
	{                                  \
#name, &name, sizeof(name) \
	}
#define CALLED(symbol, params)                           \
	const struct arg a[] = {CALL_EACH(ARG, params)}; \
	VPIStatus rc = called(REC_##symbol, a, FM_ARRAY_LEN(a));
#define ON_end(symbol, per_thread, name, since, note, params, ...) \
	void symbol CALL_PARAMS(params)                            \
	{                                                          \
		CALLED(symbol, params)                             \
		(void)rc;                                          \
	}
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	VPIStatus symbol CALL_PARAMS(params)                               \
	{                                                                  \
		CALLED(symbol, params)                                     \
		return rc;                                                 \
	}
#include "api/vpi/calls.def"

/* --- what is not in the table: X(symbol, parameters, what it does) --- */

/* clang-format off */
#define REST(X) \
	X(vpiEventCreate, (uint64_t flags, VPIEvent *event), *event = (VPIEvent)(void *)thing) \
	X(vpiEventDestroy, (VPIEvent event), (void)0) \
	X(vpiEventRecord, (VPIEvent event, VPIStream stream), (void)0) \
	X(vpiEventQuery, (VPIEvent event, VPIEnum *state), *state = 1) \
	X(vpiContextGetCurrent, (VPIContext *context), *context = NULL) \
	X(vpiContextPush, (VPIContext context), (void)0) \
	X(vpiContextPop, (VPIContext *context), (void)0)
/* clang-format on */

#define DEFINE(symbol, params, does)    \
	EXPORT VPIStatus symbol params; \
	VPIStatus symbol params         \
	{                               \
		does;                   \
		return FM_VPI_SUCCESS;  \
	}
REST(DEFINE)
