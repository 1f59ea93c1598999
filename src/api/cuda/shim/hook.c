/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the driver's functions: linking to the driver (our exports come
 * first), dlsym, and cuGetProcAddress. Each way gives the program our functions for the calls of
 * the table, and tells us the driver's.
 */
#include "hook.h"
#include "api/cuda/newest.h"
#include "api/cuda/shim/guard/guarded.h"
#include "api/cuda/shim/guard/modules.h"
#include "api/cuda/shim/managed/managed.h"
#include "api/cuda/shim/managed/registered.h"
#include "api/cuda/shim/memory/nvml.h"
#include "base/lockorder.h"
#include "shim.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define DRIVER "libcuda.so.1"
/* The driver's name if the stand-in has its usual one (cmake/stand_in.cmake), because a look-up in
 * the stand-in would find us. */
#define DRIVER_BEHIND "libcuda-driver.so.1"

#define PER_THREAD_FLAG 2u /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

#define CALL_ENTRY(...) CALL_ENTRY_(__VA_ARGS__, )
#define CALL_ENTRY_(code, symbol, per_thread, name, since, ...) \
	{#symbol, #name, #symbol FM_CUDA_MARK, since, per_thread, code, (void *)symbol, NULL},
#define CODE_HOST    FM_CUDA_IMAGES_ /* of a row release(HOST, ...) */
#define CODE_DEVICE  FM_CUDA_NO_IMAGES
#define CODE_ARRAY   FM_CUDA_NO_IMAGES
#define CODE_ORDERED FM_CUDA_NO_IMAGES
#define CODE_        FM_CUDA_NO_IMAGES
#define ON_release(symbol, per_thread, name, since, note, params, of, ...) \
	CALL_ENTRY(CODE_##of, symbol, per_thread, name, since)
#define ON_code(symbol, per_thread, name, since, note, params, what, ...) \
	CALL_ENTRY(FM_CUDA_IMAGES_##what, symbol, per_thread, name, since)
#define ON_load(...)        CALL_ENTRY(FM_CUDA_IMAGES_, __VA_ARGS__)
#define ON_other(kind, ...) CALL_ENTRY(FM_CUDA_NO_IMAGES, __VA_ARGS__)
struct fm_cuda_call fm_cuda_calls[FM_CUDA_CALLS] = {
#include "api/cuda/calls.def"
};

/* Those behind NVML's are of engines that reach memory by themselves: encoders and optical flow,
 * decoders, ray tracing; and of what registers memory with them. */
const char *const fm_look_up_prefixes[] = {
	"cu", FM_NVML_PREFIX, "Nv", "cuvid", "optix", "ibv_", "mlx5dv_", "gdr_", NULL};

/* The driver, if the program has loaded it; we never load it. It stays loaded from then on, because
 * its functions are in our table. */
static _Atomic(void *) loaded;
static _Atomic bool stood_in; /* the driver is behind the stand-in */

static void *driver(void)
{
	void *h = atomic_load_explicit(&loaded, memory_order_acquire);

	if (h)
		return h;
	h = dlopen(DRIVER_BEHIND, RTLD_NOLOAD | RTLD_LAZY);
	if (h)
		atomic_store(&stood_in, true);
	else
		h = dlopen(DRIVER, RTLD_NOLOAD | RTLD_LAZY);
	if (h)
		atomic_store_explicit(&loaded, h, memory_order_release);
	return h;
}

static void *drivers_own(const char *symbol)
{
	void *h = driver();

	/* A driver by another name that the program is linked to comes after us. */
	return fm_look_up_next(h ? h : RTLD_NEXT, symbol);
}

void *fm_cuda_symbol(const char *symbol)
{
	return fm_look_up_own_quietly(symbol);
}

static fm_cu_result not_there(void)
{
	return FM_CU_ERROR_NOT_INITIALIZED;
}

void *fm_cuda_resolve(enum fm_cuda_id id)
{
	struct fm_cuda_call *call = &fm_cuda_calls[id];
	void *fn = fm_cuda_symbol(call->symbol);

	if (!fn || fn == call->wrapper)
		return (void *)not_there;
	fn = fm_cuda_outside(id, fn);
	atomic_store_explicit(&call->next, fn, memory_order_relaxed);
	return fn;
}

/* The first entry is the function that each launch on a default stream calls. */
static struct {
	FM_LINE _Atomic bool ready;
	struct fm_cu_driver table;
} made;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(table_lock, CUDA_TABLE);

void fm_cuda_driver_fork_child(void)
{
	table_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Look-ups take the dynamic linker's lock, which a thread may have that comes here: it runs a
 * library's constructors. So nothing is looked up with a lock of ours (shim/calls). */
static FM_COLD bool make_table(void)
{
	struct fm_cu_driver t;

	fm_shim_hear_forks();
#define ENTRY(name, symbol, params) t.name = (fm_cu_result(*) params)fm_cuda_symbol(symbol);
	FM_CU_DRIVER(ENTRY)
#undef ENTRY
	if (!t.ctx_get_current || !t.stream_get_ctx)
		return atomic_load(&made.ready);
	pthread_mutex_lock(&table_lock);
	if (!atomic_load(&made.ready)) {
		made.table = t;
		atomic_store_explicit(&made.ready, true, memory_order_release);
	}
	pthread_mutex_unlock(&table_lock);
	return atomic_load(&made.ready);
}

FM_HOT const struct fm_cu_driver *fm_cuda_driver(void)
{
	if (FM_LIKELY(atomic_load_explicit(&made.ready, memory_order_acquire)))
		return &made.table;
	return make_table() ? &made.table : NULL;
}

/* The program has a function of the driver's own that loads code, or hands out functions of it; or
 * one of ours that has left the code as it is. */
static _Atomic bool code_given;

bool fm_cuda_code_given(void)
{
	return atomic_load(&code_given);
}

static void *use(struct fm_cuda_call *call, void *fn)
{
	if (call->code && !atomic_load_explicit(&fm_cuda_rewrites, memory_order_relaxed) &&
		!fm_cuda_managed_wished()) {
		atomic_store_explicit(&code_given, true, memory_order_relaxed);
		if (call->code != FM_CUDA_IMAGES_LOADS)
			return fn;
	}
	if (!atomic_load_explicit(&call->next, memory_order_relaxed) && fn != call->wrapper)
		atomic_store_explicit(&call->next,
			fm_cuda_outside((enum fm_cuda_id)(call - fm_cuda_calls), fn),
			memory_order_relaxed);
	return call->wrapper;
}

static struct fm_cuda_call *by_symbol(const char *symbol)
{
	for (size_t i = 0; i < FM_CUDA_CALLS; i++)
		if (!strcmp(fm_cuda_calls[i].symbol, symbol))
			return &fm_cuda_calls[i];
	return NULL;
}

bool fm_look_up_loaded(const char *symbol)
{
	if (fm_nvml_names(symbol))
		return fm_nvml_loaded();
	return fm_cuda_registers(symbol) ? fm_cuda_registers_loaded(symbol) : driver() != NULL;
}

/* With the stand-in we are in front of the driver wherever the program has put it. */
bool fm_look_up_stood_in(const char *symbol)
{
	return atomic_load(&stood_in) && !fm_nvml_names(symbol);
}

void *fm_look_up_own(const char *symbol)
{
	if (fm_nvml_names(symbol))
		return fm_nvml_own(symbol);
	return fm_cuda_registers(symbol) ? fm_cuda_registers_own(symbol) : drivers_own(symbol);
}

void *fm_look_up_answer(struct fm_look_up *l)
{
	struct fm_cuda_call *call;
	void *fn;

	if (FM_UNLIKELY(fm_nvml_names(l->symbol)))
		return fm_nvml_answer(l);
	if (FM_UNLIKELY(fm_cuda_registers(l->symbol)))
		return fm_cuda_registers_answer(l);
	if (FM_UNLIKELY(strncmp(l->symbol, "cu", 2) != 0 || l->symbol[2] == 'v')) {
		fm_cuda_managed_engine();
		return NULL;
	}
	call = by_symbol(l->symbol);
	fn = call ? fm_look_up_find(l, call->absent, call->wrapper) : NULL;

	return !fn || fn == call->wrapper ? fn : use(call, fn);
}

/* A name has had several functions over time. Is this the one that the driver means? */
static bool means(const struct fm_cuda_call *call, const void *fn)
{
	return atomic_load_explicit(&call->next, memory_order_relaxed) == fn ||
	       fm_cuda_symbol(call->symbol) == fn;
}

static bool newer(const struct fm_cuda_call *a, const struct fm_cuda_call *b, bool per_thread)
{
	return !b || a->since > b->since || (a->since == b->since && a->per_thread == per_thread);
}

/* The symbol at exactly this address; NULL if the driver does not export it. */
static const char *symbol_at(const void *fn)
{
	Dl_info info;

	return dladdr(fn, &info) && info.dli_saddr == fn ? info.dli_sname : NULL;
}

/* What the driver gives for a name if a program asks for that version. */
static void *given(const char *name, int version, uint64_t flags)
{
	fm_cu_result (*get)(const char *, void **, int, uint64_t, unsigned *) =
		fm_cuda_symbol("cuGetProcAddress_v2");
	fm_cu_result (*old)(const char *, void **, int, uint64_t) =
		get ? NULL : fm_cuda_symbol("cuGetProcAddress");
	unsigned status;
	void *fn = NULL;

	if (get ? get(name, &fn, version, flags, &status) : !old || old(name, &fn, version, flags))
		return NULL;
	return fn;
}

/* The version in which the variants for default streams of threads came; a request for an older
 * version gives other functions. */
#define PER_THREAD_SINCE 7000

/*
 * The call for which cuGetProcAddress has given fn. Usually it is the very function that dlsym
 * finds, and that settles it, even if we do not know the function, such as a newer version with
 * other parameters. Otherwise the version decides, by the driver's rule, if the driver gives the
 * same function for a request of only the version that we know. A name may also come with its
 * suffix.
 */
static struct fm_cuda_call *by_request(
	const char *name, const void *fn, int version, uint64_t flags)
{
	struct fm_cuda_call *best = NULL, *exact = NULL;
	const char *symbol;
	bool pt = flags & PER_THREAD_FLAG;
	int since;

	/* The only name that was later given to another function. */
	if (version >= 12000 && !strcmp(name, "cuGraphInstantiate"))
		name = "cuGraphInstantiateWithFlags";
	for (size_t i = 0; i < FM_CUDA_CALLS; i++) {
		struct fm_cuda_call *call = &fm_cuda_calls[i];
		bool named = !strcmp(call->name, name);

		if (!named && strcmp(call->symbol, name))
			continue;
		if (means(call, fn))
			return call;
		if (!named)
			exact = call;
		else if (call->since <= version && newer(call, best, pt))
			best = call;
	}
	best = exact ? exact : best;
	if (!best)
		return NULL;
	if ((symbol = symbol_at(fn)))
		return by_symbol(symbol);
	since = pt ? FM_MAX(best->since, PER_THREAD_SINCE) : best->since;
	return since > version || given(name, since, flags) == fn ? best : NULL;
}

/* It came after the newest version that the table knows. Nobody here can say whether it names
 * memory. */
static bool is_new(const char *name, const void *fn, int version, uint64_t flags)
{
	return version > FM_CUDA_NEWEST && given(name, FM_CUDA_NEWEST, flags) != fn;
}

static FM_COLD void pin_for_new(const char *name, const void *from)
{
	if (!fm_cuda_manages())
		return;
	fm_cuda_managed_named(FM_MEM_PIN_UNKNOWN, &(struct fm_cuda_pinner){name, from});
	fm_cuda_managed_pin_all(FM_MEM_PIN_UNKNOWN);
}

/* from: where the program goes on. */
static void replace(const char *name, void **fn, int version, uint64_t flags, const void *from)
{
	struct fm_cuda_call *call;

	if (!name || !fn || !*fn)
		return;
	call = by_request(name, *fn, version, flags);
	if (call)
		*fn = use(call, *fn);
	else if (FM_UNLIKELY(fm_cuda_managed_wished()) && is_new(name, *fn, version, flags))
		pin_for_new(name, from);
}

fm_cu_result cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
	fm_cu_result rc = NEXT(cuGetProcAddress, (name, fn, version, flags));

	if (rc == FM_CU_SUCCESS)
		replace(name, fn, version, flags, __builtin_return_address(0));
	return rc;
}

fm_cu_result cuGetProcAddress_v2(
	const char *name, void **fn, int version, uint64_t flags, unsigned *status)
{
	fm_cu_result rc = NEXT(cuGetProcAddress_v2, (name, fn, version, flags, status));

	if (rc == FM_CU_SUCCESS)
		replace(name, fn, version, flags, __builtin_return_address(0));
	return rc;
}
