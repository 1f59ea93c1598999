/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose text has marks: the module's own word says where their table is. */
#pragma once
#include "agent.h"

bool fm_profile_marks_has(const struct fm_profile_function *k);
/* Launches behind this in the stream mark that table; 0: none. */
bool fm_profile_marks_table(const struct fm_profile_driver *cu, struct fm_profile_function *k,
	CUdeviceptr table, CUstream stream);

/* The text with marks in it, to be loaded instead of the program's; to be freed. NULL: the image is
 * none, or marks are not wanted. */
char *fm_profile_marked(const void *image);
/* Where the word of a module, or of a library, is that was loaded so. */
CUdeviceptr fm_profile_marks_word(void *handle, bool library);
