/* SPDX-License-Identifier: Apache-2.0 */
/* Vulkan programs for tests/gpu/test_vulkan.py and script/lib/vulkan_bench: checks.c, measures.c.
 * They run on the first device that there is, whether it is hardware or lavapipe. */
#include "vk.h"
#include <stdio.h>

int main(int argc, char **argv)
{
	if (check(argc, argv) || measure(argc, argv))
		return 0;
	fputs("usage: gpu_vulkan closed SECONDS | pairs | ring MOST | binary ROUNDS | chain ROUNDS "
	      "| sparse ROUNDS | held | open ROUNDS "
	      "| cost | "
	      "job DISPATCH_US DISPATCHES PERIOD_US | batch DISPATCH_US DISPATCHES | "
	      "stall DISPATCH_US DISPATCHES\n",
		stderr);
	return 2;
}
