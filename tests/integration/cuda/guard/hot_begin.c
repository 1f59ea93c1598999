/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around a launch, each part a function of its own (test_hot_functions.py). */
#include "xqueue/xqueue.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT FM_HOT uint64_t hot_begin(struct fm_xq *q, uint64_t key, bool waits);
EXPORT FM_HOT void hot_end(struct fm_xq *q);

uint64_t hot_begin(struct fm_xq *q, uint64_t key, bool waits)
{
	return fm_xq_begin(q, key, waits);
}

void hot_end(struct fm_xq *q)
{
	fm_xq_end(q);
}
