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
