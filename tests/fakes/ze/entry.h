/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions by their names, which the loader's have, too: here they have others. */
#pragma once
#include "fake.h"

#define ENTRY(name, params)           \
	ze_result_t fk_##name params; \
	ze_result_t fk_##name params
