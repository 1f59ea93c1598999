/* SPDX-License-Identifier: Apache-2.0 */
/* The list of policies. Another policy takes one more line here. Commands show them in this order.
 */
#include "policy.h"
#include <string.h>

/* X(NAME): fm_policy_NAME is in a file of its own. */
#define POLICIES(X)               \
	X(fifo)                   \
	X(fixed_priority)         \
	X(heterogeneous_priority) \
	X(foreground)             \
	X(round_robin)            \
	X(fair)                   \
	X(bandwidth)              \
	X(edf)                    \
	X(k_edf)                  \
	X(least_laxity)           \
	X(srtf)                   \
	X(mlfq)

#define DECLARE(name) extern const struct fm_policy_ops fm_policy_##name;
POLICIES(DECLARE)

#define POINTER(name) &fm_policy_##name,
const struct fm_policy_ops *const fm_policies[] = {POLICIES(POINTER) NULL};

const struct fm_policy_ops *fm_policy_find(const char *name)
{
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}
