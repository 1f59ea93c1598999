/* SPDX-License-Identifier: Apache-2.0 */
/* The software device is libfermata's: nothing is put between it and programs. */
#include "api/api.h"
#include "load/load.h"

extern const struct load_ops tool_soft_load;

const struct fm_api fm_api_soft = {
	.name = "sim",
	.load = &tool_soft_load,
};
