/* SPDX-License-Identifier: Apache-2.0 */
/* Hints about memory that the memory there is does not allow. */
#include "base/size.h"
#include "demand.h"
#include <errno.h>

static bool is_on(const struct fm_bridge_group *g, const struct bdevice *d)
{
	return memory_capacity_of(g, d) > 0;
}

uint64_t memory_requested(const struct fm_bridge_group *g, const struct bdevice *d)
{
	return is_on(g, d) ? (uint64_t)FM_MAX(demand_hint(g, FM_HINT_MEMORY_REQUEST), INT64_C(0))
			   : 0;
}

static int refuse_limit(uint64_t limit, uint64_t device, uint64_t host, struct fm_err *err)
{
	char l[FM_SIZE_TEXT], d[FM_SIZE_TEXT], h[FM_SIZE_TEXT];

	fm_err_set(err, -ERANGE, "memory-limit %s is more than there is", fm_size_short(limit, l));
	fm_err_hint(err, "the device has %s and the host has %s", fm_size_short(device, d),
		fm_size_short(host, h));
	return -ERANGE;
}

static int refuse_request(uint64_t request, uint64_t device, uint64_t others, struct fm_err *err)
{
	char r[FM_SIZE_TEXT], f[FM_SIZE_TEXT], d[FM_SIZE_TEXT], o[FM_SIZE_TEXT];

	fm_err_set(err, -ENOSPC, "memory-request %s is more than the %s that are free",
		fm_size_short(request, r), fm_size_short(fm_sub_sat(device, others), f));
	fm_err_hint(err,
		"the device has %s, of which other groups request or keep %s; "
		"`fermata ps --memory' lists them",
		fm_size_short(device, d), fm_size_short(others, o));
	return -ENOSPC;
}

static int allows_on(struct fm_bridge *b, const struct fm_bridge_group *g, const struct bdevice *d,
	enum fm_hint h, uint64_t v, struct fm_err *err)
{
	uint64_t device = memory_capacity(b, d), others;

	if (!device)
		return 0;
	if (h == FM_HINT_MEMORY_LIMIT)
		return b->memory.host && v > fm_add_sat(device, b->memory.host)
			       ? refuse_limit(v, device, b->memory.host, err)
			       : 0;
	others = keeps_others(b, g, d, &device);
	return v > fm_sub_sat(device, others) ? refuse_request(v, device, others, err) : 0;
}

/* A group whose devices are not known yet may come to any of those that are. */
int fm_bridge_memory_allows(struct fm_bridge *b, const struct fm_bridge_group *g, enum fm_hint h,
	int64_t v, struct fm_err *err)
{
	struct bdevice *d;
	bool known = false, fits = false;
	int rc = 0;

	if ((h != FM_HINT_MEMORY_LIMIT && h != FM_HINT_MEMORY_REQUEST) || v <= 0)
		return 0;
	fm_list_each (d, &b->devices, link)
		known |= g && is_on(g, d);
	fm_list_each (d, &b->devices, link) {
		int no = known && !is_on(g, d) ? 0 : allows_on(b, g, d, h, (uint64_t)v, err);

		rc = no ? no : rc;
		fits |= !no && !known && memory_capacity(b, d);
	}
	return fits ? 0 : rc;
}
