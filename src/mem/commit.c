/* SPDX-License-Identifier: Apache-2.0 */
/* What may be promised: allocations and requests. */
#include "mem.h"
#include <errno.h>

#define MIB (UINT64_C(1) << 20)

uint64_t fm_mem_reserve(uint64_t capacity)
{
	return FM_MAX(capacity / 50, FM_MIN(512 * MIB, capacity / 16));
}

enum fm_mem_no fm_mem_may_commit(const struct fm_mem_budget *b, unsigned claim, uint64_t bytes)
{
	const struct fm_mem_claim *c = &b->claim[claim];
	uint64_t limit = c->limit ? c->limit : b->capacity, all = bytes;

	if (fm_add_sat(c->committed, bytes) > limit)
		return FM_MEM_LIMIT;
	for (unsigned i = 0; i < b->claims; i++)
		all = fm_add_sat(all, b->claim[i].committed);
	all = fm_add_sat(all, b->reserve);
	return all > fm_add_sat(b->capacity, b->host) ? FM_MEM_FULL : FM_MEM_YES;
}

int fm_mem_may_request(
	const struct fm_mem_budget *b, unsigned claim, uint64_t request, uint64_t *left)
{
	uint64_t others = 0;

	for (unsigned i = 0; i < b->claims; i++)
		if (i != claim)
			others = fm_add_sat(others, b->claim[i].request);
	*left = fm_sub_sat(fm_sub_sat(b->capacity, b->reserve), others);
	return request <= *left ? 0 : -ENOSPC;
}
