/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	EXPORT ze_result_t symbol CALL_PARAMS(params);
#include "api/ze/calls.def"

static const char *const symbols[] = {
#define ON_other(kind, symbol, ...) #symbol,
#include "api/ze/calls.def"
};

static __thread struct {
	bool on;
	unsigned id;
	ze_result_t rc;
	struct rec_seen seen;
} expected;

/* What the shim looks at behind a pointer is there; the rest are numbers that nobody has heard of.
 */
EXPORT const void *rec_canary(const char *name, size_t size)
{
	static const ze_group_count_t groups = {2, 3, 4}, *groups_at = &groups;
	static const ze_command_queue_desc_t desc = {.stype = FM_ZE_TYPE_QUEUE,
						     .mode = FM_ZE_MODE_ASYNCHRONOUS},
					     *desc_at = &desc;
	static const uint64_t two = 2;
	static void *const lists[2] = {(void *)0x1230, (void *)0x4560}, *const *lists_at = lists;
	static _Thread_local _Alignas(16) unsigned char bytes[16][32];
	static _Thread_local unsigned turn;
	extern __thread void *rec_handle;
	unsigned char *b = bytes[turn++ % 16];
	uint32_t h = 2166136261u;

	if (!strcmp(name, "queue") || !strcmp(name, "list"))
		return &rec_handle;
	if (!strcmp(name, "groups"))
		return &groups_at;
	if (!strcmp(name, "desc"))
		return &desc_at;
	if (!strcmp(name, "lists"))
		return &lists_at;
	if (!strcmp(name, "n"))
		return &two;
	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	for (size_t i = 0; i < size; i++, h = h * 1664525u + 1013904223u)
		b[i] = (unsigned char)(h >> 24);
	return b;
}

__thread void *rec_handle;

EXPORT void rec_expect(unsigned id, void *handle, ze_result_t rc)
{
	expected.on = true;
	expected.id = id;
	expected.rc = rc;
	expected.seen = (struct rec_seen){0};
	rec_handle = handle;
}

EXPORT struct rec_seen rec_seen(void)
{
	expected.on = false;
	return expected.seen;
}

/* What the shim calls for itself. */
static bool is_shims(const char *symbol)
{
	static const char *const own[] = {
#define SYMBOL(name, symbol, params) symbol,
		FM_ZE_DRIVER(SYMBOL)
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

static ze_result_t called(unsigned id, const struct arg *a, size_t n)
{
	if (!expected.on)
		return FM_ZE_SUCCESS;
	if (id != expected.id) {
		expected.seen.besides += !is_shims(symbols[id]);
		return 0x7abc;
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
	ze_result_t symbol CALL_PARAMS(params)                             \
	{                                                                  \
		const struct arg a[] = {CALL_EACH(ARG, params)};           \
                                                                           \
		return called(REC_##symbol, a, FM_ARRAY_LEN(a));           \
	}
#include "api/ze/calls.def"

/* --- what is not in the table: X(symbol, parameters, what it does, what it returns) --- */

/* clang-format off */
#define REST(X) \
	X(zeDeviceGetProperties, (ze_device_handle_t device, struct fm_ze_device *p), strcpy(p->name, "recorder"), FM_ZE_SUCCESS) \
	X(zeCommandListCreate, (ze_context_handle_t c, ze_device_handle_t d, const struct fm_ze_list_desc *desc, ze_command_list_handle_t *list), *list = NULL, 0x7abc) \
	X(zeCommandListClose, (ze_command_list_handle_t list), (void)0, FM_ZE_SUCCESS) \
	X(zeEventPoolCreate, (ze_context_handle_t c, const struct fm_ze_pool_desc *desc, uint32_t n, ze_device_handle_t *devices, ze_event_pool_handle_t *pool), *pool = NULL, 0x7abc) \
	X(zeEventPoolDestroy, (ze_event_pool_handle_t pool), (void)0, FM_ZE_SUCCESS) \
	X(zeEventCreate, (ze_event_pool_handle_t pool, const struct fm_ze_event_desc *desc, ze_event_handle_t *event), *event = NULL, 0x7abc) \
	X(zeEventDestroy, (ze_event_handle_t event), (void)0, FM_ZE_SUCCESS) \
	X(zeEventHostSignal, (ze_event_handle_t event), (void)0, FM_ZE_SUCCESS) \
	X(zeEventHostReset, (ze_event_handle_t event), (void)0, FM_ZE_SUCCESS) \
	X(zeEventQueryStatus, (ze_event_handle_t event), (void)0, FM_ZE_SUCCESS)
/* clang-format on */

#define DEFINE(symbol, params, does, returns) \
	EXPORT ze_result_t symbol params;     \
	ze_result_t symbol params             \
	{                                     \
		does;                         \
		return returns;               \
	}
REST(DEFINE)
