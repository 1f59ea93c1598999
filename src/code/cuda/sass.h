/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the machine code of sm_80 to sm_90 that the rewriting needs. An instruction has 16
 * bytes. */
#pragma once
#include "bytes.h"
#include "device/guardian.h"

#define FM_SASS_BYTES 16
#define FM_SASS_WORDS 2u /* of eight bytes */

/* NULL: there is none. */
const struct fm_guardian *fm_guardian_for(unsigned sm);

/* Do compilers begin kernels like this, by loading the stack pointer? No other first instruction
 * may be executed later. */
bool fm_sass_entry(const uint8_t *code);

struct fm_sass_facts {
	bool loops; /* something branches to the first instruction */
	unsigned traits;
};
/* Examines a kernel's code. `size` is a multiple of 16. -ENOMEM, or 0. */
int fm_sass_look(const uint8_t *code, size_t size, unsigned sm, struct fm_sass_facts *facts);

/* Makes the new first instruction, which is a branch to the guardian, and the bytes to append. The
 * guardian executes the original first instruction, and branches back behind it. `params`: where
 * the guardian's parameters begin in the constant bank. early: it waits for the work in front
 * (guardian.h). Returns where the guardian will begin. */
size_t fm_sass_guard(const uint8_t *code, size_t size, const struct fm_guardian *guardian,
	unsigned params, bool early, uint8_t first[FM_SASS_BYTES], struct fm_buf *tail);
/* The number of bytes that this adds to a section of this size. */
size_t fm_sass_growth(size_t size, const struct fm_guardian *guardian);
/* Is `after` the result of fm_sass_guard for `before`? */
bool fm_sass_guarded(const uint8_t *before, size_t n_before, const uint8_t *after, size_t n_after,
	const struct fm_guardian *guardian, unsigned params, bool early);
