/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a program gets the loader's functions: it is linked to them (our exports come
 * first), or it uses dlsym; functions that a driver alone has come by
 * zeDriverGetExtensionFunctionAddress. Each way gives it our functions for the calls of the table.
 */
#include "base/lockorder.h"
#include "shim/lookup/lookup.h"
#include "ze.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

const char *const fm_look_up_prefixes[] = {"ze", NULL};
_Atomic(void *) fm_ze_next[FM_ZE_CALLS];

static const struct call {
	const char *symbol, *absent; /* with a mark that keeps it from being found */
	void *wrapper;
} calls[FM_ZE_CALLS] = {
#define ON_other(kind, symbol, ...) {#symbol, #symbol FM_LOOK_UP_MARK, (void *)symbol},
#include "api/ze/calls.def"
};

/* The loader, if the program has loaded it; we never load it. From then on it stays loaded. */
static void *loader(void)
{
	static _Atomic(void *) loaded;
	void *h = atomic_load_explicit(&loaded, memory_order_acquire);

	if (!h)
		h = dlopen(FM_ZE_LOADER, RTLD_NOLOAD | RTLD_LAZY);
	if (h)
		atomic_store_explicit(&loaded, h, memory_order_release);
	return h;
}

void *fm_look_up_own(const char *symbol)
{
	void *h = loader();

	/* A loader by another name to which the program is linked comes behind us. */
	return fm_look_up_next(h ? h : RTLD_NEXT, symbol);
}

static ze_result_t not_there(void)
{
	return FM_ZE_UNINITIALIZED;
}

void *fm_ze_resolve(enum fm_ze_id id)
{
	void *fn = fm_look_up_own_quietly(calls[id].symbol);

	if (!fn || fn == calls[id].wrapper)
		return (void *)not_there;
	atomic_store_explicit(&fm_ze_next[id], fn, memory_order_relaxed);
	return fn;
}

static struct {
	pthread_mutex_t lock;
	_Atomic bool ready;
	struct fm_ze_driver of;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(table.lock, ZE_TABLE);

static FM_COLD void make_table(void)
{
	fm_shim_hear_forks(); /* there may be no client yet */
	pthread_mutex_lock(&table.lock);
	if (!atomic_load(&table.ready)) {
#define ENTRY(name, symbol, params) \
	table.of.name = (ze_result_t(*) params)fm_look_up_own_quietly(symbol);
		FM_ZE_DRIVER(ENTRY)
#undef ENTRY
		atomic_store_explicit(
			&table.ready, fm_ze_driver_whole(&table.of), memory_order_release);
	}
	pthread_mutex_unlock(&table.lock);
}

const struct fm_ze_driver *fm_ze_driver(void)
{
	if (FM_UNLIKELY(!atomic_load_explicit(&table.ready, memory_order_acquire)))
		make_table();
	return atomic_load_explicit(&table.ready, memory_order_acquire) ? &table.of : NULL;
}

/* A table that another thread had half made at the fork is made again. */
void fm_ze_hook_fork_child(void)
{
	table.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static size_t by_symbol(const char *symbol)
{
	size_t i = 0;

	while (i < FM_ZE_CALLS && strcmp(calls[i].symbol, symbol))
		i++;
	return i;
}

bool fm_look_up_loaded(const char *symbol)
{
	return loader();
}

bool fm_look_up_stood_in(const char *symbol)
{
	return false;
}

void *fm_look_up_answer(struct fm_look_up *l)
{
	size_t i = by_symbol(l->symbol);
	void *fn, *none = NULL;

	if (i == FM_ZE_CALLS)
		return NULL;
	fn = fm_look_up_find(l, calls[i].absent, calls[i].wrapper);
	if (fn && fn != calls[i].wrapper)
		atomic_compare_exchange_strong(&fm_ze_next[i], &none, fn);
	return fn ? calls[i].wrapper : NULL;
}

/* A driver's function takes the driver's own handles, which the loader's functions may not know: it
 * is ours only if the loader has none of that name, and no other driver has given one. */
static void *extension(const char *name, void *fn)
{
	size_t i = by_symbol(name);
	void *was = NULL;

	if (i == FM_ZE_CALLS || fm_look_up_own_quietly(name))
		return fn;
	if (!atomic_compare_exchange_strong(&fm_ze_next[i], &was, fn) && was != fn)
		return fn;
	return calls[i].wrapper;
}

#define ON_own(symbol, per_thread, name_, since, note, params, ...) \
	ze_result_t symbol CALL_PARAMS(params)                      \
	{                                                           \
		ze_result_t rc = NEXT(symbol, params);              \
                                                                    \
		if (rc == FM_ZE_SUCCESS && name && fn && *fn)       \
			*fn = extension(name, *fn);                 \
		return rc;                                          \
	}
#include "api/ze/calls.def"
