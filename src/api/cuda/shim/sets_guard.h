/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of an enqueue while its chunk is captured (gates.h, FM_CU_GATES_STOPS). A kernel that
 * takes parameters of ours gets those with which the chunk can be stopped inside. For a thread that
 * is in an enqueue (fm_cuda_enqueues).
 */
#pragma once
#include "api/cuda/shim/guard/guarded.h"
#include "sets.h"

/* Before the launch, which is in this stream (of fm_cuda_stream()). */
void fm_cuda_set_guard(const struct fm_cuda_kernel *kernel,
	const struct fm_cu_launch_config *config, bool cooperative, CUstream stream,
	struct fm_cuda_args *a);
