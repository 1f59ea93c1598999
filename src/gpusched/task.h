/* SPDX-License-Identifier: Apache-2.0 */
/* What set.c and task.c ask of each other. */
#pragma once
#include "set.h"

/* Keeps the text for fm_gpu_set_why(), and returns rc. The lock is not held. */
__attribute__((format(printf, 3, 4))) int fm_gpu_fail(
	struct fm_gpu_set *s, int rc, const char *text, ...);

/* Likewise: that the set is over, and why. */
int fm_gpu_over(struct fm_gpu_set *s, int rc);

/* 0; -EINVAL for NULL; -EBADF in a child. */
int fm_gpu_usable(const struct fm_gpu_set *s);

/* Before a start: are there tasks, and can each `after` come true? Makes s->after anew. */
int fm_gpu_check_set(struct fm_gpu_set *s);

/* Does the set keep its deadlines for certain? 0; -EDQUOT; -EINVAL, -EOPNOTSUPP: that is not known
 * of such a set. */
int fm_gpu_admit(struct fm_gpu_set *s);
