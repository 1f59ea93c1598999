/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that the driver was given rewritten (docs/cuda-images.md): which of the program's functions
 * are kernels that take three parameters more. Each launch of one has to pass them, whatever the
 * path; a stop word of address 0 means that the launch is not guarded.
 */
#pragma once
#include "api/cuda/shim/types.h"
#include "args.h"
#include <stdatomic.h>

struct fm_cuda_code;

struct fm_cuda_kernel {
	const struct fm_kernel *image; /* its name and its own parameters; see args.h */
	enum fm_guard_mode mode;       /* of a first launch, unless it is cooperative */
	bool left;                     /* it is never guarded: by wish */
	_Atomic uint64_t launched;     /* first.c: where it last was so for the first time */
	const char *why;               /* it is not rewritten: the reason, in a word or two */
	struct fm_cuda_code *code;     /* where it is from */
	bool counted;                  /* as left, or for its loops, when the program first
					  wanted it */
};

/* Images are rewritten in this process. Set before main() if the environment asks for it
 * (FERMATA_GUARDIAN=1), and never taken back; what was loaded before stays as it is. */
extern _Atomic bool fm_cuda_rewrites;
void fm_cuda_rewrite_images(void);

/* Some image was rewritten: functions have to be looked at. */
extern _Atomic bool fm_cuda_rewrote;
struct fm_cuda_kernel *fm_cuda_kernel_known(CUfunction f);

/*
 * f: a CUfunction or a CUkernel. NULL: it takes the program's own parameters alone. Without a lock
 * if the handle is known, as all are that our functions have handed out; else the driver is asked.
 * Valid until its module or library is unloaded, or its context ends.
 */
static inline struct fm_cuda_kernel *fm_cuda_kernel(CUfunction f)
{
	struct fm_cuda_kernel *k;

	if (__builtin_expect(!atomic_load_explicit(&fm_cuda_rewrote, memory_order_relaxed), 1))
		return NULL;
	k = fm_cuda_kernel_known(f);
	return k->image ? k : NULL;
}

/* Tell the client, from now on too, what has become of all code that was loaded. */
struct fm_client;
void fm_cuda_code_tell(struct fm_client *c);
void fm_cuda_code_fork_child(void);

/* The driver has ended the context. */
void fm_cuda_code_context_gone(CUcontext ctx);
