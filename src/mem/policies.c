/* SPDX-License-Identifier: Apache-2.0 */
#include "mem.h"

static const struct fm_mem_policy jit = {"jit",
	"memory for the next turn comes in just in time, beside the group that runs", true, true,
	FM_VICTIMS_NEXT};
static const struct fm_mem_policy opt = {"opt",
	"what is missing comes in at the switch; what is used last goes out", true, false,
	FM_VICTIMS_NEXT};
static const struct fm_mem_policy lru = {"lru",
	"what is missing comes in at the switch; what was used longest ago goes out", true, false,
	FM_VICTIMS_LAST};
static const struct fm_mem_policy whole = {"whole",
	"at the switch, all of a group comes in and all of the others goes out", true, false,
	FM_VICTIMS_ALL};
static const struct fm_mem_policy none = {
	"none", "nothing moves: what has no room is used where it is", false, false, 0};

const struct fm_mem_policy *const fm_mem_policies[] = {&jit, &opt, &lru, &whole, &none, NULL};

const struct fm_mem_policy *fm_mem_policy_find(const char *name)
{
	for (const struct fm_mem_policy *const *p = fm_mem_policies; *p; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}
