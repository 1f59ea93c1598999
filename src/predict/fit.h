/* SPDX-License-Identifier: Apache-2.0 */
/* Within the module: what was seen of a kernel, and the fit of numbers to it. */
#pragma once
#include "base/blake2b.h"
#include "template_internal.h"

struct fm_fit_pointer {
	uint32_t at;
	bool map;
	unsigned n;
	struct fm_span *span;
};

/* A launch; those that are alike are one. */
struct fm_fit_seen {
	uint8_t id[FM_HASH_BYTES];
	uint64_t times;
	uint32_t grid[3], block[3];
	uint8_t *params; /* words of pointers are 0 */
	unsigned n;
	struct fm_fit_pointer pointer[];
};

/* Of more launches that differ, those with the least ids are kept: they are the same, in whatever
 * order launches are added. */
#define FM_FIT_SEEN 512u
struct fm_fit_kernel {
	char image[FM_IMAGE_ID];
	char *name;
	uint32_t size;
	uint64_t launches;
	unsigned n, room;
	struct fm_fit_seen **seen; /* by id */
};

/* fit_kernel.c: the templates of a kernel. 0 or -ENOMEM. */
int fm_fit_kernel(const struct fm_fit_kernel *k, struct fm_kernel_templates *out);

/* --- numbers (fit_linear.c) --- */

/* The scalars that are not the same in all launches: a column for each, with a row for each
 * launch. */
#define FM_FIT_COLUMNS 48u
struct fm_fit_scalars {
	unsigned rows, n;
	struct fm_operand of[FM_FIT_COLUMNS];
	uint64_t *value[FM_FIT_COLUMNS];
	uint64_t *last; /* the last column that was made, which is dropped if it is not needed */
	uint32_t *set;  /* of each row: launches with the same scalars have the same number */
	uint32_t sets;
};
int fm_fit_scalars_init(struct fm_fit_scalars *s, const struct fm_fit_kernel *k,
	const struct fm_template *pointer, unsigned n);
void fm_fit_scalars_free(struct fm_fit_scalars *s);

/* y[i] is to be what row[i] of the scalars gives. The smallest product that does. False: none. */
struct fm_fit_goal {
	const uint32_t *row;
	const int64_t *y;
	unsigned n;
};
bool fm_fit_linear(
	const struct fm_fit_scalars *s, const struct fm_fit_goal *goal, struct fm_linear *out);
