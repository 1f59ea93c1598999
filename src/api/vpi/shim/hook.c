/* SPDX-License-Identifier: Apache-2.0 */
#include "vpi.h"

const char *const fm_look_up_prefixes[] = {"vpi", NULL};

static const char *const names[] = {FM_VPI_LIBRARIES, NULL};
static struct fm_calls_library libraries[] = {{.prefix = "", .names = names}};

#define CALLS_NOT_THERE FM_VPI_NOT_IMPLEMENTED
#define CALLS_DRIVER    struct fm_vpi_driver
#define CALLS_OWN       fm_vpi_owns
#include "shim/calls/hook.h"
