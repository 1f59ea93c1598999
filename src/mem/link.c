/* SPDX-License-Identifier: Apache-2.0 */
/* Links: of several devices behind one bridge, and what a change of turns costs. */
#include "mem.h"

void fm_mem_divide(uint64_t rate, const uint64_t *wants, unsigned n, uint64_t *part)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		part[i] = 0;
		left += wants[i] > 0;
	}
	while (left) {
		uint64_t each = rate / left;
		unsigned before = left;

		for (unsigned i = 0; i < n; i++)
			if (!part[i] && wants[i] && wants[i] <= each) {
				part[i] = wants[i];
				rate -= wants[i];
				left--;
			}
		if (left < before)
			continue;
		for (unsigned i = 0; i < n; i++)
			part[i] = !part[i] && wants[i] ? each : part[i];
		return;
	}
}

struct fm_mem_link fm_mem_link_beside(
	const struct fm_mem_link *link, uint64_t bridge, unsigned others)
{
	uint64_t most = FM_MAX(bridge / (others + 1ull), UINT64_C(1));
	struct fm_mem_link l = *link;

	l.in = FM_MIN(l.in, most);
	l.out = FM_MIN(l.out, most);
	l.both = FM_MIN(l.both, most);
	return l;
}

uint64_t fm_mem_handover_ns(uint64_t over, unsigned groups, const struct fm_mem_link *link)
{
	uint64_t one_way = FM_MIN(link->in, link->out), rate = FM_MIN(one_way, link->both / 2);

	return groups > 1 && over ? fm_mem_ns(over / (groups - 1), rate) : 0;
}
