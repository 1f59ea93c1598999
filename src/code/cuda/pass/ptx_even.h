/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where all threads of a block go together: branches that lead back, and that all threads which
 * have not ended come to equally often, in the same order among themselves and with all barriers. A
 * barrier of ours can be put there. What is not certain counts against a branch.
 */
#pragma once
#include "code/cuda/ptx_code.h"

struct fm_ptx_sites {
	uint32_t *insn; /* in the order of the text; to be freed */
	uint32_t n;
};
/* FM_KILL_ABLE: there are some. FM_KILL_BARRIERS: threads may go apart at a barrier. */
enum fm_kill_why fm_ptx_even(
	const struct fm_ptx *p, const struct fm_ptx_code *c, struct fm_ptx_sites *out);
/* All branches that lead back. */
enum fm_kill_why fm_ptx_any(const struct fm_ptx_code *c, struct fm_ptx_sites *out);
