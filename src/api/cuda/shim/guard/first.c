/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First launches. A driver may load a function's code at its first launch, or when something is
 * asked of it, and memory for it may have to grow. The driver then waits for all of the device,
 * with locks that the agent needs before stopped kernels can go on. So these calls count as calls
 * that wait (turnstile.h), and nothing is stopped in its middle until the device has gone past the
 * launch (settle.h).
 *
 * A table of hashes has what was launched and what was loaded. Entries are forgotten when handles
 * may be used again, or when the table is full. The next launch then counts as a first one again.
 */
#include "api/cuda/shim/memory/memory.h"
#include "api/cuda/shim/sets.h"
#include "guarded.h"

#define KNOWN (1u << 13)
#define PROBE 16u

enum { LAUNCHED = 1, LOADED = 2 };

static _Atomic uint64_t known[KNOWN]; /* hashes; 0: none */
static _Atomic uint64_t age;          /* a part of each hash: when it grows, all are forgotten */

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

_Atomic uint64_t fm_cuda_graphs_age;

static uint64_t hash(CUcontext ctx, const void *what, uint64_t how)
{
	uint64_t h = mix((uintptr_t)what + how);

	h = mix(h + (uintptr_t)ctx);
	return mix(h + atomic_load(&age)) | 1;
}

/* A known kernel keeps the last context that it was launched in, which saves a look-up. */
static inline uint64_t place(CUcontext ctx)
{
	return (uintptr_t)ctx + mix(atomic_load(&age));
}

static bool is_known(uint64_t h)
{
	for (unsigned i = 0; i < PROBE; i++)
		if (atomic_load_explicit(&known[(h / 2 + i) % KNOWN], memory_order_relaxed) == h)
			return true;
	return false;
}

void fm_cuda_first_forget(void)
{
	atomic_fetch_add(&age, 1);
	for (unsigned i = 0; i < KNOWN; i++)
		atomic_store_explicit(&known[i], 0, memory_order_relaxed);
}

static void add(uint64_t h)
{
	if (is_known(h))
		return;
	for (unsigned i = 0; i < PROBE; i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(&known[(h / 2 + i) % KNOWN], &none, h))
			return;
	}
	fm_cuda_first_forget();
}

/* Green contexts count apart: the driver may keep something for each. */
FM_HOT bool fm_cuda_is_first(
	const struct fm_cuda_queue *q, const void *what, const struct fm_cuda_kernel *kernel)
{
	if (FM_LIKELY(kernel && atomic_load_explicit(&kernel->launched, memory_order_relaxed) ==
					place(q->hw.ctx)))
		return false;
	return !is_known(hash(q->hw.ctx, what, LAUNCHED));
}

void fm_cuda_first_launched(
	struct fm_cuda_queue *q, const void *what, struct fm_cuda_kernel *kernel, CUstream stream)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile(q->hw.base, false);

	if (t)
		fm_cu_settle_behind(
			fm_cu_turnstile_settle(t), fm_cuda_driver(), stream, q->generation);
	add(hash(q->hw.ctx, what, LAUNCHED));
	add(hash(q->hw.base, what, LOADED));
	if (kernel)
		atomic_store_explicit(&kernel->launched, place(q->hw.ctx), memory_order_relaxed);
}

/* --- calls that load --- */

struct fm_cuda_loading fm_cuda_load_begin(const void *what)
{
	struct fm_cuda_loading l = {0};

	if (fm_cu_inside || fm_cuda_enqueues ||
		FM_LIKELY(!atomic_load_explicit(&fm_cuda_ways, memory_order_relaxed) &&
			  !atomic_load_explicit(&fm_cuda_sets_live, memory_order_relaxed)))
		return l;
	l.what = what;
	l.ctx = fm_cuda_current();
	l.waits = !what || !is_known(hash(l.ctx, what, LOADED));
	if (l.waits)
		l.turnstile = fm_cuda_wait_begin(NULL);
	return l;
}

void fm_cuda_load_end(struct fm_cuda_loading l, fm_cu_result rc)
{
	if (l.waits)
		fm_cuda_wait_end(l.turnstile);
	if (l.turnstile && l.what && rc == FM_CU_SUCCESS)
		add(hash(l.ctx, l.what, LOADED));
}

#define REGISTERS 4 /* CU_FUNC_ATTRIBUTE_NUM_REGS */

/* A driver before CUDA 12.4 loads what something is asked of. */
static fm_cu_result load(CUfunction f)
{
	fm_cu_result (*load_it)(CUfunction f) =
		(fm_cu_result(*)(CUfunction))fm_cuda_symbol("cuFuncLoad");
	fm_cu_result (*ask)(int *value, int which, CUfunction f) =
		(fm_cu_result(*)(int *, int, CUfunction))fm_cuda_symbol("cuFuncGetAttribute");
	int registers;

	if (load_it)
		return load_it(f);
	return ask ? ask(&registers, REGISTERS, f) : FM_CU_ERROR_NOT_SUPPORTED;
}

/* Another thread may be in a capture that allows no such call. */
fm_cu_result fm_cuda_load_now(const void *function)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	fm_cu_result (*function_of)(CUfunction * f, CUkernel k) =
		(fm_cu_result(*)(CUfunction *, CUkernel))fm_cuda_symbol("cuKernelGetFunction");
	CUfunction f = (CUfunction)(uintptr_t)function;
	fm_cu_result rc;
	int mode;

	if (!cu)
		return FM_CU_ERROR_NOT_SUPPORTED;
	mode = fm_cu_enter(cu);
	rc = load(f);
	if (rc && function_of && !function_of(&f, (CUkernel)(uintptr_t)function))
		rc = load(f);
	fm_cu_leave(cu, mode);
	return rc;
}

void fm_cuda_load(const void *function)
{
	struct fm_cuda_loading l = fm_cuda_load_begin(function);

	fm_cuda_load_end(l, l.waits ? fm_cuda_load_now(function) : FM_CU_SUCCESS);
}

#define ON_load(symbol, per_thread, name, since, note, params, what)             \
	fm_cu_result symbol CALL_PARAMS(params)                                  \
	{                                                                        \
		return FM_CUDA_LOAD_WITH_ROOM(                                   \
			FM_CUDA_LOADING(what, NEXT(symbol, CALL_ARGS(params)))); \
	}
#include "api/cuda/calls.def"
