/* SPDX-License-Identifier: Apache-2.0 */
/* What is put into the bodies of kernels: patterns with some words replaced, and branches that look
 * at the stop word now and then. */
#pragma once
#include "code/cuda/ptx_code.h"

struct fm_ptx_writer {
	const struct fm_ptx_code *code;
	const char *text; /* of the program */
	const struct fm_ptx_kernel *k;
	unsigned n;      /* the kernel's number */
	unsigned save;   /* SAVE */
	unsigned budget; /* BUDGET: the weight of a loop that passes between two looks */
	struct fm_buf *out;
};

void fm_ptx_write_string(const struct fm_ptx_writer *w, const char *s);
/* NAME: the kernel's; LABEL: a prefix of labels; and ELSE. */
void fm_ptx_write(const struct fm_ptx_writer *w, const char *pattern, const char *other);
__attribute__((format(printf, 2, 3))) void fm_ptx_write_line(
	const struct fm_ptx_writer *w, const char *form, ...);
void fm_ptx_write_reg(const struct fm_ptx_writer *w, uint32_t reg);
/* Where that branch leads; *label is to be freed. */
const char *fm_ptx_header(const struct fm_ptx_writer *w, uint32_t insn, char **label);
/* The body, with these branches, which lead back, replaced: the n-th of them counts %fm_left down,
 * and when nothing is left goes to LABEL_LOOK<n + 1>. */
void fm_ptx_write_body(const struct fm_ptx_writer *w, const uint32_t *insn, uint32_t n);

/* Adds a text that contains NAME, LABEL and AWAIT: the kernel's name, a prefix for its own labels,
 * and fm_guardian_wait, if it has that. */
void fm_ptx_add_text(struct fm_buf *out, const char *pattern, const char *text,
	const struct fm_ptx_kernel *k, unsigned n, bool waits);

/* Sets the bit of the block in the control block %fm_area, as for one that has not begun, and
 * counts it once: of its threads that come here one goes on. Overwrites %fm_cell, %fm_edge,
 * %fm_keep, %fm_t, %fm_w, %fm_word. */
#define FM_PTX_BLOCK_LEAVES                                   \
	"\tmov.u32 %fm_edge, %ctaid.z;\n"                     \
	"\tmov.u32 %fm_w, %nctaid.y;\n"                       \
	"\tmov.u32 %fm_t, %ctaid.y;\n"                        \
	"\tmad.lo.u32 %fm_edge, %fm_edge, %fm_w, %fm_t;\n"    \
	"\tmov.u32 %fm_w, %nctaid.x;\n"                       \
	"\tmov.u32 %fm_t, %ctaid.x;\n"                        \
	"\tmad.lo.u32 %fm_edge, %fm_edge, %fm_w, %fm_t;\n"    \
	"\tshr.u32 %fm_w, %fm_edge, 5;\n"                     \
	"\tmad.wide.u32 %fm_cell, %fm_w, 4, %fm_area;\n"      \
	"\tand.b32 %fm_edge, %fm_edge, 31;\n"                 \
	"\tmov.u32 %fm_w, 1;\n"                               \
	"\tshl.b32 %fm_w, %fm_w, %fm_edge;\n"                 \
	"\tatom.global.or.b32 %fm_t, [%fm_cell+64], %fm_w;\n" \
	"\tand.b32 %fm_t, %fm_t, %fm_w;\n"                    \
	"\tsetp.ne.u32 %fm_keep, %fm_t, 0;\n"                 \
	"\t@%fm_keep exit;\n"                                 \
	"\tred.global.add.u32 [%fm_area+4], 1;\n"             \
	"\tmov.u64 %fm_word, 1;\n"                            \
	"\tred.global.add.u64 [%fm_area+48], %fm_word;\n"
