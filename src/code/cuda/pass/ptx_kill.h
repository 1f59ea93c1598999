/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of PTX that can be ended in their middle, to run again from their beginning. Where a
 * branch leads back, a thread counts down what it has executed, and now and then looks at the stop
 * word. If that is set, its block notes that it was left out, as if it had not begun, and ends.
 * Nothing is saved. The caller has to know that the block may run again (docs/idempotence.md), and
 * says so with each launch (FM_GUARD_KILL).
 *
 * Where threads of a block need each other, the whole block ends at once: its first thread looks,
 * and a barrier tells the others, at branches that all of them come to (ptx_even.h). Where none
 * reads what another one has written, each thread looks and ends by itself.
 */
#pragma once
#include "ptx_even.h"

struct fm_ptx_kill {
	struct fm_ptx_code code;
	struct fm_ptx_sites sites;
	uint64_t bases; /* ptx_bases.h */
	bool whole;     /* blocks end at once */
};

/* FM_KILL_ABLE: it can be. params: the kernel's. The caller frees it in any case. */
enum fm_kill_why fm_ptx_kill_find(const struct fm_ptx *p, const struct fm_ptx_kernel *k,
	const struct fm_param *params, struct fm_ptx_kill *out);
void fm_ptx_kill_free(struct fm_ptx_kill *l);

/* Writes its body, which goes behind the guardian. `text` is the program's, `n` the kernel's
 * number. */
void fm_ptx_kill_write(const struct fm_ptx_kill *l, const char *text, const struct fm_ptx_kernel *k,
	unsigned n, struct fm_buf *out);

/* All inserted text, except what is the kernel's own, and numbers that change it. */
extern const char *const fm_ptx_kill_text[];
