/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"
#include "base/util.h"
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	EXPORT aclError symbol CALL_PARAMS(params);
#include "api/acl/calls.def"

static const struct entry {
	const char *symbol;
	void *fn;
} entries[] = {
#define ON_other(kind, symbol, ...) {#symbol, (void *)symbol},
#include "api/acl/calls.def"
};

static __thread struct {
	bool on;
	unsigned id;
	aclError rc;
	struct rec_seen seen;
} expected;

/* What pointers point to: a stream stands wherever one is looked for. */
static aclrtStream into;

EXPORT const void *rec_canary(const char *name, size_t size)
{
	static _Thread_local _Alignas(16) unsigned char bytes[32][32];
	static _Thread_local unsigned turn;
	static const void *const to_stream = &into;
	static char *const text = "an operator";
	static uint32_t none;
	static int of_stream;
	static int *const status = &of_stream;
	unsigned char *b = bytes[turn++ % 32];
	uint32_t h = 2166136261u;

	/* The parameter is the stream itself, or where it is put. */
	if (!strcmp(name, "stream"))
		return expected.id == REC_aclrtCreateStream ||
				       expected.id == REC_aclrtCreateStreamWithConfig ||
				       expected.id == REC_aclrtCreateStreamV2
			       ? (const void *)&to_stream
			       : &into;
	if (!strcmp(name, "status"))
		return &status;
	if (!strcmp(name, "type") && size == sizeof(char *))
		return &text;
	if (!strcmp(name, "flags") && size == sizeof(none))
		return &none;
	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	for (size_t i = 0; i < size; i++, h = h * 1664525u + 1013904223u)
		b[i] = (unsigned char)(h >> 24);
	return b;
}

EXPORT void rec_expect(unsigned id, aclrtStream s, aclError rc)
{
	expected.on = true;
	expected.id = id;
	expected.rc = rc;
	expected.seen = (struct rec_seen){0};
	into = s;
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

struct arg {
	const char *name;
	const void *at;
	size_t size;
};

/* What the shim calls for itself. */
static bool is_shims(const char *symbol)
{
	static const char *const own[] = {
#define SYMBOL(name, symbol, params) symbol,
		FM_ACL_DRIVER(SYMBOL)
#undef SYMBOL
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(own); i++)
		if (!strcmp(symbol, own[i]))
			return true;
	return false;
}

static aclError called(unsigned id, const struct arg *a, size_t n)
{
	if (!expected.on)
		return FM_ACL_SUCCESS;
	if (id != expected.id) {
		expected.seen.besides += !is_shims(entries[id].symbol);
		return FM_ACL_SUCCESS;
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
#define WITH(symbol, params)                                             \
	aclError symbol CALL_PARAMS(params)                              \
	{                                                                \
		const struct arg args_[] = {CALL_EACH(ARG, params)};     \
                                                                         \
		return called(REC_##symbol, args_, FM_ARRAY_LEN(args_)); \
	}
#define WITHOUT(symbol, params)                       \
	aclError symbol(void)                         \
	{                                             \
		return called(REC_##symbol, NULL, 0); \
	}
#define ON_sync(symbol, per_thread, name, since, note, params, of, ...) \
	REC_PARAMS_##symbol(symbol, params)
#define ON_end(symbol, per_thread, name, since, note, params, of, ...) \
	REC_PARAMS_##symbol(symbol, params)
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) WITH(symbol, params)
#include "api/acl/calls.def"

/* --- what is not in the table: X(symbol, parameters, what it does) --- */

/* clang-format off */
#define REST(X) \
	X(aclrtGetCurrentContext, (aclrtContext *context), *context = &into) \
	X(aclrtSetCurrentContext, (aclrtContext context), (void)0) \
	X(aclrtGetDevice, (int32_t *device), *device = 0) \
	X(aclrtCreateEventWithFlag, (aclrtEvent *event, uint32_t flags), *event = &into) \
	X(aclrtDestroyEvent, (aclrtEvent event), (void)0) \
	X(aclrtQueryEventStatus, (aclrtEvent event, int *status), *status = 1)
/* clang-format on */

#define DEFINE(symbol, params, does)   \
	EXPORT aclError symbol params; \
	aclError symbol params         \
	{                              \
		does;                  \
		return FM_ACL_SUCCESS; \
	}
REST(DEFINE)
