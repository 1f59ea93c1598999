/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"
#include <stddef.h>

static const struct fm_trace_info infos[FM_EV_COUNT] = {
#define INFO(name, what, a, au, b, bu, c, cu) \
	[FM_EV_##name] = {#name, what, {{a, FM_TU_##au}, {b, FM_TU_##bu}, {c, FM_TU_##cu}}},
	FM_TRACE_EVENTS(INFO)
#undef INFO
};

const struct fm_trace_info *fm_trace_info(unsigned event)
{
	return event > FM_EV_NONE && event < FM_EV_COUNT ? &infos[event] : NULL;
}

const char *fm_trace_unit_name(enum fm_trace_unit unit)
{
	static const char *const names[] = {
		[FM_TU_NONE] = "",
		[FM_TU_COUNT] = "",
		[FM_TU_NS] = "ns",
		[FM_TU_SIGNED] = "",
		[FM_TU_HINT] = "",
	};

	return names[unit];
}
