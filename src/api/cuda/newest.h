/* SPDX-License-Identifier: Apache-2.0 */
/* The newest version of CUDA in the table of calls: as long as this union is. */
#pragma once
#include "api/calls.h"

union fm_cuda_newest {
#define ON_other(kind, symbol, per_thread, name, since, ...) char symbol[since];
#include "api/cuda/calls.def"
};
#define FM_CUDA_NEWEST ((int)sizeof(union fm_cuda_newest))
