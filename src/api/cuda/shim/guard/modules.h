/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that the driver was given rewritten (docs/cuda-images.md): which of the program's functions
 * are kernels that take three more parameters. Every launch of such a kernel must pass them,
 * whatever its path; a stop word of address 0 means that the launch is not guarded.
 */
#pragma once
#include "api/cuda/core/types.h"
#include "args.h"
#include "kill.h"
#include <stdatomic.h>

struct fm_cuda_code;

struct fm_cuda_kernel {
	const struct fm_kernel *image; /* its name and its own parameters; see args.h */
	enum fm_guard_mode mode;       /* the mode of a first launch, unless that is cooperative */
	bool left;                     /* by wish it is never guarded */
	_Atomic uint64_t launched;     /* first.c: where it last had a first launch */
	const char *why;               /* why it is not rewritten, in a word or two */
	struct fm_cuda_code *code;     /* the code that it is from */
	struct fm_cuda_kills kills;    /* launches that may be killed; kill.h */
	bool kill_counted;             /* why it cannot be */
	_Atomic unsigned kill_told;    /* why launches are not: bits of fm_cuda_kill_not */
	bool counted;                  /* as left, or for its loops, when the program first
					  wanted it */
};

/* Are images rewritten in this process? Set before main() if the environment asks for it
 * (FERMATA_GUARDIAN=1), and never cleared; what was loaded before stays as it is. */
extern _Atomic bool fm_cuda_rewrites;
void fm_cuda_rewrite_images(void);

/* Some image was rewritten, so functions must be looked at. */
extern _Atomic bool fm_cuda_rewrote;
struct fm_cuda_kernel *fm_cuda_kernel_known(CUfunction f);

/*
 * f: a CUfunction or a CUkernel. NULL: it takes only the program's own parameters. Takes no lock if
 * the handle is known, as are all handles that our functions have handed out; else the driver is
 * asked. Valid until its module or library is unloaded, or its context ends.
 */
static inline struct fm_cuda_kernel *fm_cuda_kernel(CUfunction f)
{
	struct fm_cuda_kernel *k;

	if (__builtin_expect(!atomic_load_explicit(&fm_cuda_rewrote, memory_order_relaxed), 1))
		return NULL;
	k = fm_cuda_kernel_known(f);
	return k->image ? k : NULL;
}

/* Tells the client, now and from now on, what was done to all code that was loaded. */
struct fm_client;
void fm_cuda_code_tell(struct fm_client *c);
void fm_cuda_code_fork_child(void);

/* Counts a kernel of which a launch is not killed, for that reason. */
void fm_cuda_code_not_killed(struct fm_cuda_kernel *k, enum fm_cuda_kill_not why);

/* The driver has ended the context. */
void fm_cuda_code_context_gone(CUcontext ctx);
