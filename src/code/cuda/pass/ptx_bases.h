/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters that are nothing but addresses: each access to global memory is at one of them, with
 * something added that does not depend on any. So where they point elsewhere, with all else as it
 * was, the kernel does the same there.
 */
#pragma once
#include "code/cuda/ptx_code.h"

/* *bases: bits of the words of 8 bytes of the parameters. FM_KILL_ABLE; FM_KILL_ADDRESS: some
 * access is not so. params: the kernel's. */
enum fm_kill_why fm_ptx_bases(const struct fm_ptx *p, const struct fm_ptx_kernel *k,
	const struct fm_param *params, const struct fm_ptx_code *c, uint64_t *bases);
