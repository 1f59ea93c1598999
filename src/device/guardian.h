/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian as text and as machine code: guardian.c is made by make-guardian.
 *
 * Owns: images of code, as constants.
 * Locks: none.
 * Threads: any: all is read only.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* With NAME where the kernel's name goes, and LABEL where a prefix of labels does. */
extern const char fm_guardian_ptx[];
/* In front of it, where the language and the device have it: the kernel may be launched so that it
 * begins before what is in front of it in its stream has ended (a programmatic launch); it waits
 * there until that has. */
extern const char fm_guardian_wait[];

struct fm_guardian {
	uint16_t sm;
	uint16_t regs; /* that it needs */
	uint16_t base; /* where its parameters begin in the constant bank, as it stands here */
	const uint64_t *code; /* two words for each instruction */
	unsigned words;
	unsigned go;            /* four words of room for what is done when the kernel may go on */
	unsigned wait;          /* the word that begins fm_guardian_wait; `words`: it has none */
	const uint16_t *places; /* words that hold the place of a parameter */
	unsigned n_places;
	const uint16_t *exits; /* words that begin an EXIT */
	unsigned n_exits;
};
extern const struct fm_guardian fm_guardians[];
static inline bool fm_guardian_waits(const struct fm_guardian *g)
{
	return g->wait < g->words;
}
extern const unsigned fm_n_guardians;
