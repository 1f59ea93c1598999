/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the part: tables of functions that the driver hands out by an identifier
 * (cuGetExportTable). They are not documented, and what is called in them is not seen. Which of
 * them are known to reach no memory of the program's, and to start no work?
 */
#pragma once
#include "api/cuda/core/driver.h"
#include <stdbool.h>

/* By the list, or by FERMATA_MEMORY_TABLES: identifiers for which the user answers. */
bool fm_cu_table_harmless(const struct fm_cu_uuid *id);
