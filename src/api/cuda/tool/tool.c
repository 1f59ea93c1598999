/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

static void doctor(const struct fm_api *api, struct doctor *d)
{
	if (!tool_cuda_doctor(d))
		return;
	tool_cuda_doctor_guard(d);
	tool_cuda_doctor_memory(d);
}

static const struct fm_api_probe probes[] = {
	{"cuda", tool_cuda_probe},
	{"guardian", tool_cuda_probe_guard},
	{"memory", tool_cuda_probe_memory},
	{0},
};

const struct fm_api fm_api_cuda = {
	.name = "cuda",
	.takes_wishes = true,
	.inject = tool_cuda_inject,
	.doctor = doctor,
	.probe = probes,
	.load = &tool_cuda_load,
};
