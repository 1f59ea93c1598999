/* SPDX-License-Identifier: Apache-2.0 */
/* The guardian as text and as machine code: guardian.c is made by make-guardian. */
#pragma once
#include <stdint.h>

/* With NAME where the kernel's name goes, and LABEL where a prefix of labels does. */
extern const char fm_guardian_ptx[];

struct fm_guardian {
	uint16_t sm;
	uint16_t regs; /* that it needs */
	uint16_t base; /* where its parameters begin in the constant bank, as it stands here */
	const uint64_t *code; /* two words for each instruction */
	unsigned words;
	unsigned go;            /* four words of room for what is done when the kernel may go on */
	const uint16_t *places; /* words that hold the place of a parameter */
	unsigned n_places;
	const uint16_t *exits; /* words that begin an EXIT */
	unsigned n_exits;
};
extern const struct fm_guardian fm_guardians[];
extern const unsigned fm_n_guardians;
