/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"
#include "base/lockorder.h"
#include "shim/queues.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static void *loaded(struct fm_calls_library *l)
{
	void *h = atomic_load_explicit(&l->handle, memory_order_acquire);

	for (const char *const *name = l->names; !h && *name; name++)
		h = dlopen(*name, RTLD_NOLOAD | RTLD_LAZY);
	if (h)
		atomic_store_explicit(&l->handle, h, memory_order_release);
	return h;
}

/* The next library from *i on that may have the symbol, and is loaded. */
static void *next_library(const char *symbol, size_t *i)
{
	while (*i < fm_calls.n_libraries) {
		struct fm_calls_library *l = &fm_calls.libraries[(*i)++];
		void *h = strncmp(symbol, l->prefix, strlen(l->prefix)) ? NULL : loaded(l);

		if (h)
			return h;
	}
	return NULL;
}

void *fm_look_up_own(const char *symbol)
{
	size_t i = 0;
	void *h = next_library(symbol, &i), *fn;

	/* A library by another name to which the program is linked comes behind us. */
	if (!h || !fm_calls.several)
		return fm_look_up_next(h ? h : RTLD_NEXT, symbol);
	for (; h; h = next_library(symbol, &i)) {
		fn = fm_look_up_next(h, symbol);
		if (fn)
			return fn;
	}
	return fm_look_up_next(RTLD_NEXT, symbol);
}

bool fm_look_up_loaded(const char *symbol)
{
	return next_library(symbol, &(size_t){0});
}

bool fm_look_up_stood_in(const char *symbol)
{
	return false;
}

void *fm_calls_resolve(size_t call)
{
	void *fn = fm_look_up_own_quietly(fm_calls.calls[call].symbol);

	if (!fn || fn == fm_calls.calls[call].wrapper)
		return fm_calls.not_there;
	atomic_store_explicit(&fm_calls_next[call], fn, memory_order_relaxed);
	return fn;
}

size_t fm_calls_find(const char *symbol)
{
	size_t i = 0;

	while (i < fm_calls.n && strcmp(fm_calls.calls[i].symbol, symbol))
		i++;
	return i;
}

void *fm_calls_use(size_t call, void *fn)
{
	void *was = NULL;

	if (fn == fm_calls.calls[call].wrapper ||
		atomic_compare_exchange_strong(&fm_calls_next[call], &was, fn) || was == fn ||
		!fm_calls.several)
		return fm_calls.calls[call].wrapper;
	return fn;
}

void *fm_look_up_answer(struct fm_look_up *l)
{
	size_t i = fm_calls_find(l->symbol);
	void *fn;

	if (i == fm_calls.n)
		return NULL;
	fn = fm_look_up_find(l, fm_calls.calls[i].absent, fm_calls.calls[i].wrapper);
	return fn ? fm_calls_use(i, fn) : NULL;
}

static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(made_lock, SHIM_CALLS);
static _Atomic bool made;

static void fill(const struct fm_own *own, void *fn)
{
	pthread_mutex_lock(&made_lock);
	if (fn && !atomic_load(&made))
		memcpy((char *)fm_calls.driver + own->at, &fn, sizeof(fn));
	pthread_mutex_unlock(&made_lock);
}

/* Look-ups take the dynamic linker's lock, which a thread may have that comes here: it runs a
 * library's constructors. So nothing is looked up with a lock of ours. */
static FM_COLD void make_driver(void)
{
	const struct fm_owns *own = fm_calls.own;

	fm_shim_hear_forks(); /* there may be no client yet */
	for (size_t i = 0; i < own->n; i++)
		fill(&own->of[i], fm_look_up_own_quietly(own->of[i].symbol));
	pthread_mutex_lock(&made_lock);
	if (!atomic_load(&made))
		atomic_store_explicit(
			&made, fm_own_whole(own, fm_calls.driver), memory_order_release);
	pthread_mutex_unlock(&made_lock);
}

void *fm_calls_driver(void)
{
	if (FM_UNLIKELY(!atomic_load_explicit(&made, memory_order_acquire)))
		make_driver();
	return atomic_load_explicit(&made, memory_order_acquire) ? fm_calls.driver : NULL;
}

void fm_calls_forget(void)
{
	fm_shim_forget_queues();
	made_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
