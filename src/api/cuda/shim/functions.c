// SPDX-License-Identifier: Apache-2.0
#include "functions.h"
#include "api/cuda/shim/guard/guarded.h"
#include "api/cuda/shim/sets.h"
#include "base/lockorder.h"
#include "shim.h"
#include "shim/map.h"
#include <stdlib.h>
#include <string.h>

/* A handle; or, as an alias, the module of a library, of which its functions are. */
struct function {
	struct function *next;
	const void *handle, *container;
	CUcontext ctx; /* NULL: of a library, and so of each context */
	bool alias;
};

static struct {
	pthread_mutex_t lock;
	struct function *first;
	struct fm_handles known; /* the same, by their handles */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(all.lock, CUDA_FUNCTIONS);

static struct function *find(const void *handle)
{
	return fm_handles_find(&all.known, (uintptr_t)handle);
}

/* Without memory for it, it is loaded at its first launch. The lock is held. */
static void add(struct function given)
{
	struct function *f = malloc(sizeof(*f));

	if (!f)
		return;
	*f = given;
	f->next = all.first;
	if (fm_handles_set(&all.known, (uintptr_t)f->handle, f))
		all.first = f;
	else
		free(f);
}

static void remove_all(bool (*goes)(const struct function *f, const void *arg), const void *arg)
{
	struct function **at = &all.first, *f;

	pthread_mutex_lock(&all.lock);
	while ((f = *at)) {
		if (!goes(f, arg)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		fm_handles_erase(&all.known, (uintptr_t)f->handle, f);
		free(f);
	}
	pthread_mutex_unlock(&all.lock);
}

static void note(const void *container, bool library, const void *handle, CUcontext ctx)
{
	const struct function *module;

	pthread_mutex_lock(&all.lock);
	module = library ? NULL : find(container);
	if (!find(handle))
		add((struct function){.handle = handle,
			.container = module && module->alias ? module->container : container,
			.ctx = ctx});
	pthread_mutex_unlock(&all.lock);
}

void fm_cuda_function_got(const void *container, bool library, const void *handle)
{
	CUcontext ctx;

	if (fm_cu_inside || !handle)
		return;
	if (!find(handle)) {
		ctx = library ? NULL : fm_cuda_current();
		if (!library && !ctx)
			return;
		note(container, library, handle, ctx);
	}
	if (atomic_load(&fm_cuda_sets_live))
		fm_cuda_load(handle); /* unless it is loaded there */
}

void fm_cuda_functions_module(CUlibrary library, CUmodule module)
{
	CUcontext ctx = fm_cuda_current();

	pthread_mutex_lock(&all.lock);
	if (!find(module))
		add((struct function){
			.handle = module, .container = library, .ctx = ctx, .alias = true});
	pthread_mutex_unlock(&all.lock);
}

static bool is_of(const struct function *f, const void *container)
{
	return f->container == container;
}

void fm_cuda_functions_unload(const void *container)
{
	remove_all(is_of, container);
}

static bool is_in(const struct function *f, const void *ctx)
{
	return f->ctx && f->ctx == ctx;
}

bool fm_cuda_functions_any(void)
{
	bool any;

	pthread_mutex_lock(&all.lock);
	any = all.first;
	pthread_mutex_unlock(&all.lock);
	return any;
}

void fm_cuda_functions_context_gone(CUcontext ctx)
{
	remove_all(is_in, ctx);
}

void fm_cuda_functions_fork_child(void)
{
	all.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	all.first = NULL;
	memset(&all.known, 0, sizeof(all.known));
}

void fm_cuda_functions_load(CUcontext ctx)
{
	struct fm_cu_turnstile *t = fm_cuda_wait_begin(ctx);

	pthread_mutex_lock(&all.lock);
	for (const struct function *f = all.first; f; f = f->next)
		if (!f->alias && (!f->ctx || f->ctx == ctx))
			fm_cuda_load_now(f->handle);
	pthread_mutex_unlock(&all.lock);
	fm_cuda_wait_end(t);
}
