/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

static bool may_miss(const struct fm_vpi_driver *vpi, const void *member)
{
	return member == &vpi->status_peek || member == &vpi->status_take;
}

bool fm_vpi_driver_whole(const struct fm_vpi_driver *vpi)
{
	bool whole = true;

#define LOOK(name, result, symbol, params) \
	whole = whole && (vpi->name || may_miss(vpi, &vpi->name));
	FM_VPI_DRIVER(LOOK)
#undef LOOK
	return whole;
}
