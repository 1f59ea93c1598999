/* SPDX-License-Identifier: Apache-2.0 */
#include "unread.h"
#include "base/parse.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/table.h"
#include "policy/policy.h"
#include <string.h>

/* Read by the scheduler itself, whatever the policy. */
#define BY_ALL                                                                             \
	(FM_READS(FM_HINT_GANG) | FM_READS(FM_HINT_LEVEL) | FM_READS(FM_HINT_GUARD_FROM) | \
		FM_READS(FM_HINT_MEMORY_LIMIT) | FM_READS(FM_HINT_MEMORY_REQUEST) |        \
		FM_READS(FM_HINT_MEMORY_PIN) | FM_READS(FM_HINT_IDLE_OUT) | FM_READS(FM_HINT_PAD))

/* "edf, k-edf and least-laxity do" */
static void who_reads(enum fm_hint h, char *text, size_t size)
{
	const struct fm_policy_ops *who[32];
	size_t n = 0, len = 0;

	for (const struct fm_policy_ops *const *p = fm_policies; *p && n < FM_ARRAY_LEN(who); p++)
		if ((*p)->reads & FM_READS(h))
			who[n++] = *p;
	text[0] = '\0';
	for (size_t i = 0; i < n && len < size; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%s",
			i == 0       ? ""
			: i + 1 == n ? " and "
				     : ", ",
			who[i]->name);
	if (n && len < size)
		snprintf(text + len, size - len, n > 1 ? " do" : " does");
}

static void tell(const char *policy, uint32_t reads, uint32_t hints)
{
	char others[200], name[64];

	snprintf(name, sizeof(name), "%s", policy);
	table_clean(name);
	for (unsigned h = 0; h < FM_HINT_COUNT; h++) {
		if (!(hints & ~reads & ~BY_ALL & FM_READS(h)))
			continue;
		who_reads((enum fm_hint)h, others, sizeof(others));
		fprintf(stderr, "fermata: the policy in force, %s, does not read the hint %s; %s\n",
			name, fm_hint_name((enum fm_hint)h), others);
	}
}

void unread_tell(const json_t *policy, uint32_t hints)
{
	const json_t *list = json_object_get(policy, "reads"), *name;
	uint32_t reads = 0;
	size_t i;

	json_array_foreach (list, i, name)
		for (unsigned h = 0; h < FM_HINT_COUNT; h++)
			if (!strcmp(json_string_value(name) ?: "", fm_hint_name((enum fm_hint)h)))
				reads |= FM_READS(h);
	if (json_is_array(list))
		tell(cli_str(policy, "name"), reads, hints);
}

void unread_tell_local(const char *policy, uint32_t hints)
{
	const struct fm_policy_ops *ops;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(policy, " "), policy);
	ops = fm_policy_find(name);
	if (ops)
		tell(name, ops->reads, hints);
}
