/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several versions of one kernel compute the same and differ in what they need: which of them are
 * worth keeping, and which one to launch into a part of the device (`fm_cuda_prune` and
 * `fm_cuda_fit` of <fermata/cuda.h>). After REEF (Han et al., OSDI 2022), kernel selection.
 *
 * A version dominates another one if it is no larger in any of six numbers: the kernel's time, a
 * block's time, registers, shared memory, threads of a block, and blocks. The time in a part of the
 * device, as it is estimated here, is then no longer either, so the best version of all is among
 * those that are kept.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any.
 */
#pragma once
#include <fermata/cuda.h>

bool fm_version_dominates(const struct fm_cuda_version *a, const struct fm_cuda_version *b);
/* kept[i] becomes false for those that another one dominates; of equal ones the first is kept.
 * Returns how many are kept. */
size_t fm_versions_prune(const struct fm_cuda_version *v, size_t n, bool *kept);
/* How long it takes on so many of the device's multiprocessors. UINT64_MAX: it cannot run. */
uint64_t fm_version_time(const struct fm_cuda_version *v, unsigned on, unsigned all);
/* The version that takes the shortest time there among those whose blocks take no longer than
 * block_ns; 0: any. -1: there is none. */
int fm_versions_fit(
	const struct fm_cuda_version *v, size_t n, unsigned on, unsigned all, uint64_t block_ns);
