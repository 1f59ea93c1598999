/* SPDX-License-Identifier: Apache-2.0 */
/* fifo: everybody runs, in the device's own order. What a machine without Fermata does. */
#include "policy.h"

static void fifo_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	choice->all = true;
	choice->reason = "native order";
}

extern const struct fm_policy_ops fm_policy_fifo;
const struct fm_policy_ops fm_policy_fifo = {
	.name = "fifo",
	.summary = "everybody runs, in the device's own order",
	.decide = fifo_decide,
};
