/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host for what leaves the device: made in several ways. */
#pragma once
#include "gpu.h"

enum { THREADS = 8 };
/* Touches all pages by several threads; the mapping may be of a file. */
void host_populate(void *p, size_t size);
/* A mapping without pages yet: anonymous and huge, or of a memory file `fd`. NULL: not to be had.
 */
void *host_map(size_t size, int fd, bool huge);
int host_file(size_t size, bool huge); /* a memory file; -1 */
