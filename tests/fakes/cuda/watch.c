/* SPDX-License-Identifier: Apache-2.0 */
/* A tool that looks at what kernels touch (fake_cuda.h). */
#include "device/accessed.h"
#include "device/touched.h"
#include "image.h"
#include <string.h>

static const struct fake_cuda_watch *_Atomic watch;

void fake_cuda_watch(const struct fake_cuda_watch *w)
{
	watch = w;
}

void fk_watch_loaded(CUmodule m, CUcontext ctx)
{
	const struct fake_cuda_watch *w = watch;

	if (w)
		w->loaded(ctx, m);
}

void fk_watch_launched(struct fk_launch *l)
{
	const struct fake_cuda_watch *w = watch;

	if (w)
		l->told = w->launched(l->function, l->function->module);
}

typedef void touches_fn(void *told, unsigned long long at, size_t bytes);

static void tell(const struct fk_launch *l, touches_fn *touches, void *told)
{
	for (unsigned i = 0; i < l->entry->n_params; i++) {
		uint64_t at = l->entry->param[i].size == 8 ? fk_reach_from(l, i) : 0;
		bool is;

		pthread_mutex_lock(&fk.lock);
		is = at && fk_place((void *)(uintptr_t)at) == FK_DEVICE;
		pthread_mutex_unlock(&fk.lock);
		if (is)
			touches(told, at, fk_reach_of(l, i));
	}
}

static void marks(void *table, unsigned long long at, size_t bytes)
{
	fm_touched_mark(table, at, bytes);
}

/* Of a text that has marks, those are made: its word says where. */
static void make_marks(const struct fk_launch *l)
{
	void *word = fk_variable_if(l, FM_TOUCHED_TABLE);
	uint64_t table = 0;

	if (word)
		memcpy(&table, word, sizeof(table));
	if (table)
		tell(l, marks, (void *)(uintptr_t)table);
}

/* A kernel of which the fake does not know in which way it does may do anything. */
static void make_kinds(const struct fk_launch *l)
{
	void *word = fk_variable_if(l, FM_ACCESSED_TABLE);
	uint64_t table = 0;

	if (word)
		memcpy(&table, word, sizeof(table));
	if (table && !fk_again_find(l->entry->name))
		((struct fm_accessed *)(uintptr_t)table)->outside = 1;
}

void fk_watch_begins(const struct fk_launch *l)
{
	const struct fake_cuda_watch *w = l->told ? watch : NULL;

	make_marks(l);
	make_kinds(l);
	if (!w)
		return;
	w->begins(l->told);
	tell(l, w->touches, l->told);
}
