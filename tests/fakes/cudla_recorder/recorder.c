/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"
#include "base/util.h"
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	EXPORT cudlaStatus symbol CALL_PARAMS(params);
#include "api/cudla/calls.def"

static void *const entries[] = {
#define ON_other(kind, symbol, ...) (void *)symbol,
#include "api/cudla/calls.def"
};

static __thread struct {
	bool on;
	unsigned id;
	cudlaStatus rc;
	cudlaDevHandle device;
	struct rec_seen seen;
} expected;

/* A handle is given as such, or by where it is written to; a task has tensors, and a device is one
 * of its own; the rest are numbers that nobody has heard of. */
EXPORT const void *rec_canary(const char *name, size_t size)
{
	static uint64_t *const tensors[1];
	static const cudlaTask task = {.outputTensor = tensors}, *tasks = &task;
	static const uint64_t two = 2, standalone = FM_CUDLA_STANDALONE;
	static _Thread_local _Alignas(16) unsigned char bytes[16][32];
	static _Thread_local cudlaDevHandle *made;
	static _Thread_local unsigned turn;
	unsigned char *b = bytes[turn++ % 16];
	uint32_t h = 2166136261u;

	made = &expected.device;
	if (!strcmp(name, "device"))
		return expected.id == REC_cudlaCreateDevice ? (const void *)&made
							    : &expected.device;
	if (!strcmp(name, "tasks"))
		return &tasks;
	if (!strcmp(name, "n") || !strcmp(name, "number"))
		return &two;
	if (!strcmp(name, "flags") && expected.id == REC_cudlaCreateDevice)
		return &standalone;
	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	for (size_t i = 0; i < size; i++, h = h * 1664525u + 1013904223u)
		b[i] = (unsigned char)(h >> 24);
	return b;
}

EXPORT void rec_expect(unsigned id, cudlaDevHandle device, cudlaStatus rc)
{
	expected.on = true;
	expected.id = id;
	expected.rc = rc;
	expected.device = device;
	expected.seen = (struct rec_seen){0};
}

EXPORT struct rec_seen rec_seen(void)
{
	expected.on = false;
	return expected.seen;
}

EXPORT void *rec_own(unsigned id)
{
	return entries[id];
}

struct arg {
	const char *name;
	const void *at;
	size_t size;
};

static cudlaStatus called(unsigned id, const struct arg *a, size_t n)
{
	if (!expected.on || id != expected.id) {
		expected.seen.besides++;
		return FM_CUDLA_SUCCESS;
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
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	cudlaStatus symbol CALL_PARAMS(params)                             \
	{                                                                  \
		const struct arg a[] = {CALL_EACH(ARG, params)};           \
                                                                           \
		return called(REC_##symbol, a, FM_ARRAY_LEN(a));           \
	}
#include "api/cudla/calls.def"
