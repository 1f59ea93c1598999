/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"
#include "base/util.h"
#include <stdatomic.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* CUDA_ERROR_NOT_FOUND, CUDA_ERROR_INVALID_CONTEXT */
enum { NOT_FOUND = 500, INVALID_CONTEXT = 201 };

#define PER_THREAD       2 /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
#define PER_THREAD_SINCE 7000

EXPORT rec_expect_fn rec_expect;
EXPORT rec_own_fn rec_own;
EXPORT rec_deny_fn rec_deny;

static __thread struct rec_call *expected;
static _Atomic bool denied;

#define ON_other(kind, symbol, ...) EXPORT rec_fn symbol;
#include "api/cuda/calls.def"

static const struct entry {
	const char *symbol, *name;
	int since;
	bool per_thread;
	rec_fn *fn;
} entries[] = {
#define ON_other(kind, symbol, per_thread, name, since, ...) \
	{#symbol, #name, since, per_thread, symbol},
#include "api/cuda/calls.def"
};

void rec_expect(struct rec_call *call)
{
	expected = call;
}

void *rec_own(unsigned id)
{
	return (void *)entries[id].fn;
}

void rec_deny(bool yes)
{
	atomic_store(&denied, yes);
}

/* --- what is noted --- */

/* What the shim calls for itself. */
static bool is_shims(unsigned id)
{
	static const char *const own[] = {
#define SYMBOL(name, symbol, params) symbol,
		FM_CU_DRIVER(SYMBOL)
#undef SYMBOL
			"cuMemGetAllocationPropertiesFromHandle",
		"cuMemPoolGetAttribute"};

	for (size_t i = 0; i < FM_ARRAY_LEN(own); i++)
		if (!strcmp(entries[id].symbol, own[i]))
			return true;
	return false;
}

static unsigned differing(const struct rec_call *c, const uint64_t *word)
{
	unsigned differs = 0;

	for (unsigned i = 0; i < c->n; i++) {
		uint64_t mask = c->size[i] == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * c->size[i]) - 1;

		differs |= (unsigned)((word[i] & mask) != (c->word[i] & mask)) << i;
	}
	return differs;
}

/* Is it the one that the program has made? One of the shim's own has other words. */
static bool note(unsigned id, const uint64_t *word)
{
	struct rec_call *c = expected;
	unsigned differs;

	if (!c)
		return false;
	differs = differing(c, word);
	if (id == c->id && (!differs || !is_shims(id))) {
		c->calls++;
		c->differs |= differs;
		c->copied =
			differs & 1 && c->list &&
			!memcmp((void *)(uintptr_t)word[0], (void *)(uintptr_t)c->word[0], c->list);
		return true;
	}
	if ((!is_shims(id) || (c->n && !differs)) && c->n_besides < FM_ARRAY_LEN(c->besides))
		c->besides[c->n_besides++] = entries[id].symbol;
	return false;
}

/* --- what the driver does --- */

static fm_cu_result get(const char *name, void **fn, int version, uint64_t flags)
{
	const struct entry *best = NULL;

	if (!strcmp(name, "cuGraphInstantiate") && version >= 12000)
		name = "cuGraphInstantiateWithFlags";
	for (size_t i = 0; i < FM_ARRAY_LEN(entries); i++) {
		const struct entry *e = &entries[i];

		if (strcmp(e->name, name) || e->since > version ||
			(e->per_thread && (!(flags & PER_THREAD) || version < PER_THREAD_SINCE)))
			continue;
		if (!best || e->since > best->since || (e->since == best->since && e->per_thread))
			best = e;
	}
	*fn = best ? (void *)best->fn : NULL;
	return best ? FM_CU_SUCCESS : NOT_FOUND;
}

/* What the shim calls for itself, and what the program asks for functions. It has no memory
 * operations, and everything is over at once. */
static fm_cu_result serve(unsigned id, const uint64_t *word)
{
	switch (id) {
	case REC_cuGetProcAddress:
	case REC_cuGetProcAddress_v2:
		return get((const char *)(uintptr_t)word[0], (void **)(uintptr_t)word[1],
			(int)word[2], word[3]);
	case REC_cuCtxPushCurrent_v2:
	case REC_cuEventRecord:
	case REC_cuEventQuery:
	case REC_cuEventDestroy_v2:
	case REC_cuStreamQuery:
	case REC_cuStreamSynchronize:
		return FM_CU_SUCCESS;
	default:
		return FM_CU_ERROR_NOT_SUPPORTED;
	}
}

static fm_cu_result called(unsigned id, const uint64_t *word)
{
	return note(id, word) ? expected->rc : serve(id, word);
}

#define ON_other(kind, symbol, ...)                                             \
	fm_cu_result symbol(REC_WORD_PARAMS)                                    \
	{                                                                       \
		return called(REC_##symbol, (const uint64_t[]){REC_WORD_ARGS}); \
	}
#include "api/cuda/calls.def"

/* --- what is not in the table: X(symbol, parameters, what it is if there is a context) --- */

static char context, event;

/* clang-format off */
#define REST(X) \
	X(cuCtxGetCurrent, (CUcontext *ctx), *ctx = (CUcontext)(void *)&context) \
	X(cuCtxPopCurrent_v2, (CUcontext *ctx), *ctx = NULL) \
	X(cuCtxGetDevice, (CUdevice *dev), *dev = 0) \
	X(cuDeviceGetAttribute, (int *value, int which, CUdevice dev), *value = 0) \
	X(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice dev), *bytes = (size_t)1 << 32) \
	X(cuDeviceGetUuid_v2, (struct fm_cu_uuid *uuid, CUdevice dev), memset(uuid, 7, sizeof(*uuid))) \
	X(cuStreamGetCtx, (CUstream stream, CUcontext *ctx), *ctx = (CUcontext)(void *)&context) \
	X(cuStreamGetFlags, (CUstream stream, unsigned *flags), *flags = FM_CU_STREAM_NON_BLOCKING) \
	X(cuStreamIsCapturing, (CUstream stream, int *status), *status = FM_CU_CAPTURE_NONE) \
	X(cuEventCreate, (CUevent *made, unsigned flags), *made = (CUevent)(void *)&event) \
	X(cuEventElapsedTime, (float *ms, CUevent start, CUevent end), *ms = 0.01f)
/* clang-format on */

#define DEFINE(symbol, params, does)            \
	EXPORT fm_cu_result symbol params;      \
	fm_cu_result symbol params              \
	{                                       \
		if (atomic_load(&denied))       \
			return INVALID_CONTEXT; \
		does;                           \
		return FM_CU_SUCCESS;           \
	}
REST(DEFINE)
