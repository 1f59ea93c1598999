/* SPDX-License-Identifier: Apache-2.0 */
/* As much of the machine code of sm_80 to sm_90 as the rewriting needs: 16 bytes an instruction. */
#pragma once
#include "bytes.h"
#include "device/guardian.h"

#define FM_SASS_BYTES 16
#define FM_SASS_WORDS 2u /* of eight bytes */

/* NULL: there is none. */
const struct fm_guardian *fm_guardian_for(unsigned sm);

/* Whether compilers begin kernels like this: by loading the stack pointer. Nothing else is taken
 * for a first instruction that may be done later. */
bool fm_sass_entry(const uint8_t *code);

struct fm_sass_facts {
	bool loops; /* something branches to the first instruction */
	unsigned traits;
};
/* Looks at a kernel's code; `size` is a multiple of 16. -ENOMEM, else 0. */
int fm_sass_look(const uint8_t *code, size_t size, unsigned sm, struct fm_sass_facts *facts);

/* What the code is to begin with, and to end with besides: a branch to the guardian, in which the
 * first instruction that there was is done, and a branch back behind it. `params` is where the
 * guardian's parameters begin in the constant bank; early: it waits for what is in front of it
 * (guardian.h). Returns where the guardian will begin. */
size_t fm_sass_guard(const uint8_t *code, size_t size, const struct fm_guardian *guardian,
	unsigned params, bool early, uint8_t first[FM_SASS_BYTES], struct fm_buf *tail);
/* How many bytes that adds to a section of this size. */
size_t fm_sass_growth(size_t size, const struct fm_guardian *guardian);
/* Whether `after` is what fm_sass_guard makes of `before`. */
bool fm_sass_guarded(const uint8_t *before, size_t n_before, const uint8_t *after, size_t n_after,
	const struct fm_guardian *guardian, unsigned params, bool early);
