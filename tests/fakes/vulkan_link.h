/* SPDX-License-Identifier: Apache-2.0 */
/* For Vulkan layers of the tests: what the loader hands down the chain of layers. */
#pragma once
#include <vulkan/vk_layer.h>

/* The first struct of the chain that is the loader's, and of this kind. */
#define LINK(layer_info, type, info)                                                      \
	({                                                                                \
		layer_info *l_ = (layer_info *)(info)->pNext;                             \
		while (l_ && (l_->sType != (type) || l_->function != VK_LAYER_LINK_INFO)) \
			l_ = (layer_info *)l_->pNext;                                     \
		l_;                                                                       \
	})
