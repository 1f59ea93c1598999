/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts marks into a PTX text: in front of each access to global memory a call that tells which
 * bytes (device/touched.h). Kernels keep their parameters: the table's address is in a word of the
 * module. The driver compiles the result, and refuses what is not right in it.
 */
#pragma once
#include <stddef.h>

/* `size` does not count a zero at the end; *out ends with one, and is to be freed. 0; -EINVAL: it
 * is not understood, or has marks; -EOPNOTSUPP: it has accesses that take more than an address and
 * a size, or one between instructions that hand on the carry flag; -ENOMEM. */
int fm_ptx_marks(const char *text, size_t size, char **out);

/* The same, with marks that tell what each access does (device/accessed.h), also to variables of
 * the module. Accesses that are not understood have none: nature.h says which kernels have such. */
int fm_ptx_marks_kinds(const char *text, size_t size, char **out);
