/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What templates foretell of a launch, beside what it touched: in chunks of 2 MiB of its
 * allocations. Where there is no template the whole allocation is foretold, as it is in a program
 * whose memory is scheduled. For a tensor map both are its box.
 */
#pragma once
#include "predict/template.h"
#include "profile.h"

struct fm_against_sums {
	uint64_t launches, touched, foretold; /* chunks */
	uint64_t missed;                      /* touched and not foretold */
	uint64_t vain;                        /* foretold and not touched */
};
/* Adds a launch. `of' may be NULL: its kernel has no templates. 0, or -ENOMEM. */
int fm_against_add(struct fm_against_sums *sums, const struct fm_profile_launch *l,
	const struct fm_kernel_templates *of);

/* What a kernel counts as, in a table of how many have templates of which form: the first of these
 * that one of its pointers has. */
enum fm_against_form { /* X(ID, name) */
#define FM_AGAINST_MAP(X)                \
	X(FM_AGAINST_UNKNOWN, "none")    \
	X(FM_AGAINST_ANY, "any")         \
	X(FM_AGAINST_MEMO, "memo")       \
	X(FM_AGAINST_STRIDED, "strided") \
	X(FM_AGAINST_LINEAR, "linear")   \
	X(FM_AGAINST_BOX, "box")         \
	X(FM_AGAINST_FIXED, "fixed")     \
	X(FM_AGAINST_NOTHING, "no pointers")
#define FM_AGAINST_ID(id, name) id,
	FM_AGAINST_MAP(FM_AGAINST_ID)
#undef FM_AGAINST_ID
		FM_AGAINST_FORMS
};
const char *fm_against_name(enum fm_against_form form);
enum fm_against_form fm_against_form(const struct fm_kernel_templates *of);
