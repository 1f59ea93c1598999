/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of PTX that can be left in the middle of a loop. Where a branch leads back, a thread
 * counts down what it has executed, and now and then looks at the stop word. If that is set, the
 * thread saves its live registers in the save area, together with the number of the branch, and
 * ends. When its block is launched again (FM_GUARD_AGAIN) it loads them and continues there.
 * Threads that had ended before end at once. Each thread does so by itself. So the kernel's threads
 * must neither wait for each other nor share anything but global memory.
 */
#pragma once
#include "code/cuda/ptx_code.h"

struct fm_ptx_loops {
	struct fm_ptx_code code;
	struct fm_ptx_back *back;
	uint32_t n;
	uint16_t save_bytes;
};

/* FM_LOOP_POLLED: it can be left so. The caller frees it in any case. */
enum fm_loop_why fm_ptx_loops_find(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, struct fm_ptx_loops *out);
void fm_ptx_loops_free(struct fm_ptx_loops *l);

/* Writes its body, which goes behind the guardian. `text` is the program's, `n` the kernel's
 * number. */
void fm_ptx_loops_write(const struct fm_ptx_loops *l, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, struct fm_buf *out);
/* All inserted text, except what is the kernel's own. A cache of results uses it in its key. */
extern const char *const fm_ptx_loop_text[];
