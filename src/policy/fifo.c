/* SPDX-License-Identifier: Apache-2.0 */
/* fifo: all groups run, in the device's own order, as on a machine without Fermata. */
#include "policy.h"

static void fifo_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	choice->all = true;
	choice->reason = "native order";
}

/* It has no state. */
static int fifo_copy(const void *self, void *to, struct fm_ent *twin)
{
	return 0;
}

static const struct fm_policy_promise fifo_promises[] = {
	{{NULL},
		FM_PROMISE(CONSERVES) | FM_PROMISE(CALM) | FM_PROMISE(OPEN) | FM_PROMISE(SERVES) |
			FM_PROMISE(EQUAL),
		0},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_fifo;
const struct fm_policy_ops fm_policy_fifo = {
	.name = "fifo",
	.summary = "all groups run, in the device's own order",
	.promises = fifo_promises,
	.decide = fifo_decide,
	.copy = fifo_copy,
};
