/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the code of a kernel says about running it again: do its addresses and branches follow from
 * what memory holds, does it leave the same bits each time, and are all of its accesses marked
 * (marks.h)? What is not certain counts against it.
 */
#pragma once
#include "code/cuda/ptx_scan.h"

enum {
	FM_NATURE_DYNAMIC = 1, /* an address or a branch may follow from a value in memory */
	FM_NATURE_APPROX = 2,  /* the order of its threads, time or place may be in its results */
	FM_NATURE_STRANGE = 4  /* it accesses memory in ways that marks do not tell */
};

struct fm_natures {
	unsigned n;
	struct fm_nature {
		char *name;
		unsigned is;
	} * kernel;
};
/* Of each kernel of a text. 0; -EINVAL: it is not understood; -ENOMEM. Freed in any case. */
int fm_ptx_natures(const char *text, size_t size, struct fm_natures *out);
/* Of one kernel; or -ENOMEM. */
int fm_ptx_nature(const struct fm_ptx *p, const struct fm_ptx_kernel *k, unsigned *is);
void fm_natures_free(struct fm_natures *n);
