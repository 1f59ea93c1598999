/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "core.h"

#define OWNER struct fm_vpi_driver
static const struct fm_own own[] = {
	{"vpiEventDestroy", offsetof(OWNER, event_destroy)}, FM_VPI_DRIVER(FM_OWN)};
const struct fm_owns fm_vpi_owns = {own, FM_ARRAY_LEN(own), 1 FM_VPI_NEEDED(FM_OWN_COUNT)};
