/* SPDX-License-Identifier: Apache-2.0 */
/* Within the module: templates as they are fitted, printed and read. */
#pragma once
#include "template.h"

/* Holes that are smaller are no holes: memory has pages of this size. */
#define FM_TEMPLATE_HOLE ((uint64_t)2 << 20)

/* num * product / den + plus, rounded up. False: it does not fit. */
bool fm_linear_at(const struct fm_linear *l, uint64_t product, int64_t *value);

/* The key of those words, grids and blocks, but for the words of these pointers. */
uint64_t fm_key_of(const struct fm_launch *l, const struct fm_template *pointer, unsigned n);
/* NULL: these scalars were not seen. */
const struct fm_memo *fm_memo_find(const struct fm_template *t, uint64_t key);

/* So many bytes of parameters is this pointer. */
static inline uint32_t fm_pointer_bytes(enum fm_form form)
{
	return form == FM_FORM_BOX ? 128 : 8;
}

/* A line of a file. */
void fm_templates_print_head(FILE *to, const char *image, size_t kernels);
void fm_templates_print(FILE *to, const struct fm_kernel_templates *k);

void fm_kernel_templates_free(struct fm_kernel_templates *k);
