/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that may begin early. These are programmatic launches of kernels whose guardian waits
 * for the work in front of them in their stream (image.h). So the device prepares a launch while
 * the one before ends, which takes less time than the guardian's look. What the kernel itself does
 * begins when it would have begun.
 */
#include "guarded.h"
#include <stdlib.h>
#include <string.h>

#define ATTRIBUTES 8u /* at most, ours included */

/* 0: not known yet; 1: yes; -1: not wanted, or the driver cannot do it. */
static _Atomic int early;

static FM_COLD bool find_out(void)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	const char *v = secure_getenv("FERMATA_GUARDIAN_EARLY");
	bool yes = cu && cu->launch && (!v || strcmp(v, "0") != 0);

	atomic_store(&early, yes ? 1 : -1);
	return yes;
}

static FM_HOT bool wanted(void)
{
	int known = atomic_load_explicit(&early, memory_order_relaxed);

	return FM_LIKELY(known) ? known > 0 : find_out();
}

/* A launch that has this attribute itself is excluded. */
static FM_HOT bool may_have_it(const struct fm_cu_launch_config *c)
{
	bool whole = false;

	if (c->n_attributes >= ATTRIBUTES || !fm_cu_guard_repeats(c, &whole) || whole)
		return false;
	for (unsigned i = 0; i < c->n_attributes; i++)
		if (c->attributes[i].id == FM_CU_LAUNCH_OVERLAPS)
			return false;
	return true;
}

FM_HOT bool fm_cuda_may_be_early(
	const struct fm_cuda_kernel *kernel, const struct fm_cu_launch_config *config)
{
	return kernel->image->early && !kernel->left &&
	       !(kernel->image->traits & FM_KERNEL_CLUSTER) && wanted() && may_have_it(config);
}

FM_HOT bool fm_cuda_early(const struct fm_cu_launch_config *given, CUstream stream, CUfunction f,
	void **params, void **extra, fm_cu_result *rc)
{
	struct fm_cu_launch_config c = *given;
	struct fm_cu_attribute a[ATTRIBUTES];

	for (unsigned i = 0; i < c.n_attributes; i++)
		a[i] = c.attributes[i];
	a[c.n_attributes++] = (struct fm_cu_attribute){.id = FM_CU_LAUNCH_OVERLAPS, .value = {1}};
	c.attributes = a;
	c.stream = stream;
	*rc = NEXT(cuLaunchKernelEx, ((const void *)&c, f, params, extra));
	/* If the error has another reason, the program's own call returns it, too. */
	if (FM_LIKELY(*rc != FM_CU_ERROR_NOT_SUPPORTED && *rc != FM_CU_ERROR_INVALID_VALUE))
		return true;
	if (*rc == FM_CU_ERROR_NOT_SUPPORTED)
		atomic_store(&early, -1);
	return false;
}
