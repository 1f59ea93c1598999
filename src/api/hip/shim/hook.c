/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the runtime's functions: it is linked to them (our exports come
 * first), or it uses dlsym or hipGetProcAddress. Each way gives it our functions for the calls of
 * the table, and tells us the runtime's.
 */
#include "base/lockorder.h"
#include "hip.h"
#include "shim/lookup/lookup.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

const char *const fm_look_up_prefixes[] = {"hip", NULL};
_Atomic(void *) fm_hip_next[FM_HIP_CALLS];

static const struct call {
	const char *symbol, *absent; /* with a mark that keeps it from being found */
	void *wrapper;
} calls[FM_HIP_CALLS] = {
#define ON_other(kind, symbol, ...) {#symbol, #symbol FM_LOOK_UP_MARK, (void *)symbol},
#include "api/hip/calls.def"
};

/* The runtime, if the program has loaded it; we never load it. From then on it stays loaded. */
static void *runtime(void)
{
	static const char *const names[] = FM_HIP_RUNTIMES;
	static _Atomic(void *) loaded;
	void *h = atomic_load_explicit(&loaded, memory_order_acquire);

	for (size_t i = 0; !h && i < FM_ARRAY_LEN(names); i++)
		h = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
	if (h)
		atomic_store_explicit(&loaded, h, memory_order_release);
	return h;
}

void *fm_look_up_own(const char *symbol)
{
	void *h = runtime();

	/* A runtime by another name to which the program is linked comes behind us. */
	return fm_look_up_next(h ? h : RTLD_NEXT, symbol);
}

static hipError_t not_there(void)
{
	return FM_HIP_NOT_INITIALIZED;
}

void *fm_hip_resolve(enum fm_hip_id id)
{
	void *fn = fm_look_up_own_quietly(calls[id].symbol);

	if (!fn || fn == calls[id].wrapper)
		return (void *)not_there;
	atomic_store_explicit(&fm_hip_next[id], fn, memory_order_relaxed);
	return fn;
}

static struct {
	pthread_mutex_t lock;
	_Atomic bool ready;
	struct fm_hip_driver table;
} made = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(made.lock, HIP_TABLE);

static FM_COLD void make_table(void)
{
	struct fm_hip_driver *t = &made.table;

	fm_shim_hear_forks(); /* there may be no client yet */
	pthread_mutex_lock(&made.lock);
	if (!atomic_load(&made.ready)) {
#define ENTRY(name, symbol, params) t->name = (hipError_t(*) params)fm_look_up_own_quietly(symbol);
		FM_HIP_DRIVER(ENTRY)
#undef ENTRY
		atomic_store_explicit(&made.ready, fm_hip_driver_whole(t), memory_order_release);
	}
	pthread_mutex_unlock(&made.lock);
}

const struct fm_hip_driver *fm_hip_driver(void)
{
	if (FM_UNLIKELY(!atomic_load_explicit(&made.ready, memory_order_acquire)))
		make_table();
	return atomic_load_explicit(&made.ready, memory_order_acquire) ? &made.table : NULL;
}

/* A table that another thread had half made at the fork is made again. */
void fm_hip_hook_fork_child(void)
{
	made.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static size_t by_symbol(const char *symbol)
{
	size_t i = 0;

	while (i < FM_HIP_CALLS && strcmp(calls[i].symbol, symbol))
		i++;
	return i;
}

static void *use(size_t i, void *fn)
{
	void *none = NULL;

	if (fn != calls[i].wrapper)
		atomic_compare_exchange_strong(&fm_hip_next[i], &none, fn);
	return calls[i].wrapper;
}

bool fm_look_up_loaded(const char *symbol)
{
	return runtime();
}

bool fm_look_up_stood_in(const char *symbol)
{
	return false;
}

void *fm_look_up_answer(struct fm_look_up *l)
{
	size_t i = by_symbol(l->symbol);
	void *fn;

	if (i == FM_HIP_CALLS)
		return NULL;
	fn = fm_look_up_find(l, calls[i].absent, calls[i].wrapper);
	return fn ? use(i, fn) : NULL;
}

/* The runtime returns its own function for the name, or for its variant. If it means anything else
 * by a name, the call is not ours. */
static void replace(const char *name, void **fn, bool per_thread)
{
	char variant[64];

	for (int spt = per_thread; spt >= 0; spt--) {
		size_t i;

		snprintf(variant, sizeof(variant), spt ? "%s_spt" : "%s", name);
		i = by_symbol(variant);
		if (i < FM_HIP_CALLS &&
			(*fn == calls[i].wrapper || *fn == fm_look_up_own_quietly(variant))) {
			*fn = use(i, *fn);
			return;
		}
	}
}

static hipError_t given(hipError_t rc, const char *name, void **fn, uint64_t flags, bool per_thread)
{
	if (rc == FM_HIP_SUCCESS && name && fn && *fn)
		replace(name, fn, per_thread ? flags != 1 : flags == FM_HIP_PROC_PER_THREAD);
	return rc;
}

#define ON_own(symbol, per_thread, name_, since, note, params, ...)                                \
	hipError_t symbol CALL_PARAMS(params)                                                      \
	{                                                                                          \
		void *next = atomic_load(&fm_hip_next[FM_HIP_##symbol]);                           \
                                                                                                   \
		next = next ? next : fm_hip_resolve(FM_HIP_##symbol);                              \
		return given(((hipError_t(*) CALL_PARAMS(params))next)CALL_ARGS(params), name, fn, \
			flags, per_thread);                                                        \
	}
#include "api/hip/calls.def"
