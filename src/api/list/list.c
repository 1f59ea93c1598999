/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FM_API_ROWS is made of FERMATA_APIS in CMakeLists.txt: API(cuda) API(opencl) ...
 *
 * Owns: the list. It is a constant.
 * Locks: none.
 * Threads: any.
 */
#include "api/api.h"
#include <stddef.h>

#define API(name) extern const struct fm_api fm_api_##name;
FM_API_ROWS
#undef API

#define API(name) &fm_api_##name,
const struct fm_api *const fm_apis[] = {FM_API_ROWS NULL};
#undef API
