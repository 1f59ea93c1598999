/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels found in a PTX text. */
#pragma once
#include "bytes.h"

struct fm_ptx_kernel {
	size_t name, name_len;
	size_t list, list_end; /* behind the `(` of the parameters, and at the `)` */
	bool has_list, has_params;
	size_t body, body_end; /* behind the `{` and at the `}` */
	unsigned n_params;
	struct fm_param *params; /* to be freed */
	uint32_t bytes;
	uint32_t align; /* the largest of a parameter */
	unsigned traits;
};

struct fm_ptx {
	char *text; /* with comments and strings blanked out; of the same length */
	size_t size;
	unsigned base;
	unsigned sm;
	unsigned version; /* of the language: 62 for 6.2 */
	unsigned n;
	struct fm_ptx_kernel *kernel;
};

/* `base`: where parameters begin in the constant bank of the device it will be compiled for. */
enum fm_image_why fm_ptx_scan(const char *text, size_t size, unsigned base, struct fm_ptx *out);
void fm_ptx_free(struct fm_ptx *p);

/* Bytes of the variables that the text declares outside of functions, in .global and .const. False:
 * out of memory, or not understood. */
bool fm_ptx_globals(const char *text, size_t size, uint64_t *bytes);
