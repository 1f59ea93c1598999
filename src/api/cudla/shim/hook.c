/* SPDX-License-Identifier: Apache-2.0 */
#include "cudla.h"

const char *const fm_look_up_prefixes[] = {"cudla", NULL};

static const char *const names[] = {FM_CUDLA_LIBRARIES, NULL};
static struct fm_calls_library libraries[] = {{.prefix = "", .names = names}};

#define CALLS_NOT_THERE FM_CUDLA_UNSUPPORTED
#include "shim/calls/hook.h"
