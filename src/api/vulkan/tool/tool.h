/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files by which commands deal with Vulkan: fm_api_vulkan is their table.
 *
 * Owns: nothing that lasts: a driver is loaded in a probe's process.
 * Locks: none.
 * Threads: one, that of main(); in a probe's process also the watcher (api/watch.h).
 */
#pragma once
#include "api/api.h"
#include "doctor/doctor.h"
#include <limits.h>

#define TOOL_VULKAN_LAYER    "VK_LAYER_FERMATA_schedule"
#define TOOL_VULKAN_MANIFEST "fermata/vulkan/VkLayer_fermata.json"

/* Read by Vulkan's loader: lists, separated by ':'. Layers; and where they are looked for: instead
 * of the usual places, or besides. */
#define TOOL_VULKAN_LAYERS "VK_INSTANCE_LAYERS"
#define TOOL_VULKAN_ONLY   "VK_LAYER_PATH"
#define TOOL_VULKAN_ADD    "VK_ADD_LAYER_PATH"

/* The folder of our manifest. */
int tool_vulkan_find(char dir[PATH_MAX], struct fm_err *err);

void tool_vulkan_installed(struct doctor *d);
void tool_vulkan_doctor(const struct fm_api *api, struct doctor *d);
void tool_vulkan_probe(FILE *out); /* in a probe's process */
void tool_vulkan_probe_layer(FILE *out);
