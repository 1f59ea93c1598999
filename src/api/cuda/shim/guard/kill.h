/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that may be killed in the middle of their blocks, which then run again: those of the
 * list that FERMATA_GUARDIAN_KILL names (idem/kill/kill.h). What is not known is not killed.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "idem/kill/kill.h"
#include "predict/template.h"
#include <stdatomic.h>

struct fm_cuda_kernel;

/* Launches of the list, of one kernel. */
struct fm_cuda_kills {
	const struct fm_kill_launch *first;
	size_t n;
};

/* Why a launch of a kernel of the list is not killed. */
enum fm_cuda_kill_not {
#define FM_CUDA_KILL_NOT_MAP(X)                        \
	X(FM_CUDA_KILL_UNKNOWN, "launch not in list")  \
	X(FM_CUDA_KILL_POINTERS, "pointers elsewhere") \
	X(FM_CUDA_KILL_SHARED, "memory of others")
#define FM_CUDA_KILL_NOT_ID(id, text) id,
	FM_CUDA_KILL_NOT_MAP(FM_CUDA_KILL_NOT_ID)
#undef FM_CUDA_KILL_NOT_ID
		FM_CUDA_KILL_NOTS
};
const char *fm_cuda_kill_not_text(enum fm_cuda_kill_not why);

/* Is there a list? *why: why it is not believed; or NULL. */
bool fm_cuda_kill_wished(const char **why);
/* The names of the list's kernels of that image, with colons between; NULL: there are none. To be
 * freed. */
char *fm_cuda_kill_names(const char id[FM_IMAGE_ID]);
struct fm_kernel;
struct fm_cuda_kills fm_cuda_kills(const char id[FM_IMAGE_ID], const struct fm_kernel *k);

/* May this launch be killed? params: a copy of the program's own. It takes no lock. */
bool fm_cuda_may_kill(
	struct fm_cuda_kernel *k, const struct fm_cu_launch_config *c, const void *params);

/* Memory may be of another kind from now on; or another process may reach some, or it is another
 * process' own. */
extern _Atomic unsigned fm_cuda_kill_age;
extern _Atomic bool fm_cuda_kill_exported;
static inline void fm_cuda_kill_forget(void)
{
	atomic_fetch_add_explicit(&fm_cuda_kill_age, 1, memory_order_relaxed);
}
