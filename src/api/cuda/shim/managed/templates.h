/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates of the program's kernels (predict/template.h): images are named when they are loaded,
 * the agent reads the files of those, and a function gets its templates when it is launched next.
 *
 * Owns: the images that are loaded, and the templates that were read, which are never freed.
 *
 * Locks: `images.lock` (templates.c), when code is loaded or unloaded, at the first launch of a
 * function, and by the agent. None at later launches.
 *
 * Threads: any thread of the program; the agent, which reads files.
 */
#pragma once
#include "api/cuda/shim/shim.h"
#include "predict/predict.h"

/* Are there files of templates that this program may use? The same from the first call on. Else
 * nothing here does anything. */
bool fm_cuda_templates_wanted(void);

/* Do tensor maps name their box? Unless templates are switched off. */
bool fm_cuda_templates_boxes(void);

/* The driver has loaded an image, from memory or from a file. */
void fm_cuda_templates_loaded(
	const void *handle, bool library, const void *image, const char *path);
/* A module or library is about to be unloaded; NULL: handles of functions may mean others. */
void fm_cuda_templates_unloaded(const void *handle);

/* A function, of that module or library, has these parameters. One thread at a time. */
void fm_cuda_templates_learnt(
	const void *function, const void *handle, bool library, const struct fm_layout *layout);

/* Of the agent: reads one file, if one is to be read. True: functions are to be learnt anew. */
bool fm_cuda_templates_look(void);

/* Writes to the ledger what is known of the program's kernels. */
void fm_cuda_templates_tell(void);

/* NULL: the function has none. */
extern struct fm_predict fm_cuda_predict __attribute__((visibility("hidden")));
extern _Atomic bool fm_cuda_templates_any __attribute__((visibility("hidden")));
static inline struct fm_bound *fm_cuda_templates_of(CUfunction f)
{
	return FM_UNLIKELY(atomic_load_explicit(&fm_cuda_templates_any, memory_order_relaxed))
		       ? fm_predict_find(&fm_cuda_predict, f)
		       : NULL;
}
void fm_cuda_templates_fork_child(void);
