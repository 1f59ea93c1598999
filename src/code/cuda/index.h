/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of each kernel, looked up once for a whole image. */
#pragma once
#include "elf.h"

enum {
	FM_TEXT_FIRST_RELOCATED = 1 << 0, /* a relocation changes the first instruction */
	FM_TEXT_CALLS = 1 << 1,           /* a relocation names a function of this image */
	FM_TEXT_FUNCTION = 1 << 2,        /* a function begins at its first instruction */
	FM_TEXT_SHARED = 1 << 3           /* two do */
};

struct fm_index {
	unsigned general; /* section .nv.info, or 0 */
	unsigned *info;   /* for a section of code, the section of its attributes, or 0 */
	unsigned *bank;   /* and the section of its constants, bank 0 */
	unsigned *symbol; /* for a section, the symbol of the section itself, or 0 */
	uint8_t *text;    /* for a section of code, flags as above */
	bool *address;    /* for a symbol that is a kernel: its address is stored somewhere */
	uint32_t *regs;   /* for a symbol, the place of its count of registers in .nv.info, or 0 */
};

enum fm_image_why fm_index_make(const struct fm_elf *e, struct fm_index *x);
void fm_index_free(struct fm_index *x);
