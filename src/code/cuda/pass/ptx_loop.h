/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of PTX that can be left in the middle of a loop. Where a branch leads back, a thread
 * counts down what it has executed, and now and then looks at the stop word. If that is set, the
 * thread puts all its registers that still matter into the save area, notes at which branch it was,
 * and ends. When its block is launched again (FM_GUARD_AGAIN) it takes them back and goes on there;
 * threads that had ended before end at once. Each thread does so by itself: so the kernel must be
 * one of threads that neither wait for each other nor share anything but global memory.
 */
#pragma once
#include "code/cuda/ptx_code.h"

struct fm_ptx_loops {
	struct fm_ptx_code code;
	struct fm_ptx_back *back;
	uint32_t n;
	uint16_t save_bytes;
};

/* FM_LOOP_POLLED: it can be left so. To be freed either way. */
enum fm_loop_why fm_ptx_loops_find(
	const struct fm_ptx *p, const struct fm_ptx_kernel *k, struct fm_ptx_loops *out);
void fm_ptx_loops_free(struct fm_ptx_loops *l);

/* Its body, to be put behind the guardian: `text` is the program's, `n` the kernel's number. */
void fm_ptx_loops_write(const struct fm_ptx_loops *l, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, struct fm_buf *out);
/* Text with NAME, LABEL and AWAIT in it: the kernel's name, a prefix of labels of its own, and, if
 * it has that, fm_guardian_wait. */
void fm_ptx_add_text(struct fm_buf *out, const char *pattern, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, bool waits);

/* All that is written, but for what is the kernel's own: for who keeps results. */
extern const char *const fm_ptx_loop_text[];
