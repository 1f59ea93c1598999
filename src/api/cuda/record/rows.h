/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of api/cuda/calls.def that the recorder stands in front of, each by ON_ROW; included
 * once for each use. */
#define ON_kernel  ON_ROW
#define ON_work    ON_ROW
#define ON_order   ON_ROW
#define ON_record  ON_ROW
#define ON_graph   ON_ROW
#define ON_alloc   ON_ROW
#define ON_release ON_ROW
#include "api/cuda/calls.def"
#undef ON_ROW
