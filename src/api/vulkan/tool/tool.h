/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan, for the commands: which programs are given its layer. Their table is fm_api_vulkan.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: one.
 */
#pragma once
#include "api/api.h"

#define TOOL_VULKAN_LAYER    "VK_LAYER_FERMATA_schedule"
#define TOOL_VULKAN_MANIFEST "fermata/vulkan/VkLayer_fermata.json"

/* Read by Vulkan's loader: lists, separated by ':'. Layers; and where they are looked for: instead
 * of the usual places, or besides. */
#define TOOL_VULKAN_LAYERS "VK_INSTANCE_LAYERS"
#define TOOL_VULKAN_ONLY   "VK_LAYER_PATH"
#define TOOL_VULKAN_ADD    "VK_ADD_LAYER_PATH"
