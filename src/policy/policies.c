/* SPDX-License-Identifier: Apache-2.0 */
/* The table of policies: the one file to touch when adding one. */
#include "policy.h"
#include <string.h>

extern const struct fm_policy_ops fm_policy_fifo, fm_policy_fixed_priority,
	fm_policy_heterogeneous_priority, fm_policy_foreground, fm_policy_round_robin,
	fm_policy_fair, fm_policy_bandwidth, fm_policy_edf, fm_policy_k_edf, fm_policy_least_laxity,
	fm_policy_srtf, fm_policy_mlfq;

const struct fm_policy_ops *const fm_policies[] = {
	&fm_policy_fifo,
	&fm_policy_fixed_priority,
	&fm_policy_heterogeneous_priority,
	&fm_policy_foreground,
	&fm_policy_round_robin,
	&fm_policy_fair,
	&fm_policy_bandwidth,
	&fm_policy_edf,
	&fm_policy_k_edf,
	&fm_policy_least_laxity,
	&fm_policy_srtf,
	&fm_policy_mlfq,
	NULL,
};

const struct fm_policy_ops *fm_policy_find(const char *name)
{
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}
