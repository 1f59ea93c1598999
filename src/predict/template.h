/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bytes a kernel touches behind each pointer that it is given: templates. They are fitted to
 * what a profile has seen of its launches, kept in a file for each image of code, and evaluated
 * with the parameters of a launch. A template that is wrong costs bytes and time, and nothing else.
 *
 *	fixed    [from, from + bytes), the same in all launches
 *	linear   the same, where from or bytes is c * P + d, P a product of up to three scalars
 *	strided  `count` pieces of `bytes`, `step` apart; each of the four as above
 *	box      what a tensor map says
 *	memo     as seen with exactly these scalars
 *	any      all of the allocation
 *
 * A scalar is an aligned word of 32 or 64 bits of the parameters (without sign), or an extent of
 * the grid or of a block. Numbers are integers; what does not fit into 64 bits fits no template.
 *
 * Owns: nothing but what its functions return.
 * Locks: none.
 * Threads: any, each with objects of its own. What was read never changes.
 */
#pragma once
#include "base/err.h"
#include "touch.h" /* struct fm_span: here relative to a pointer */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- names --- */

/* An image by its content: 32 hexadecimal digits, and a zero. */
#define FM_IMAGE_ID 33
struct fm_kernel_id {
	char image[FM_IMAGE_ID];
	const char *name; /* of the entry, as the driver has it (cuFuncGetName) */
};
/* Of the part of an image that the device uses: fm_image_part() (code/cuda/image.h) has it. */
void fm_image_id(char id[FM_IMAGE_ID], const void *part, size_t size);

#define FM_TEMPLATE_PARAMS   4096u  /* bytes; kernels with more have no templates */
#define FM_TEMPLATE_NAME     8191u  /* characters of a kernel's name */
#define FM_TEMPLATE_POINTERS 256u   /* of a kernel */
#define FM_TEMPLATE_SPANS    64u    /* of a pointer, in one launch */
#define FM_TEMPLATE_MEMOS    64u    /* of a pointer */
#define FM_TEMPLATE_KERNELS  65536u /* of an image */

/* --- sets of ranges: rising, none empty, none touching its neighbour --- */

struct fm_extents {
	struct fm_span *span;
	size_t n, room;
};
void fm_extents_free(struct fm_extents *e);
/* Joins what overlaps or touches. 0; -EINVAL: nothing is in the range; -ENOMEM, and e is as it was.
 */
int fm_extents_add(struct fm_extents *e, struct fm_span s);
/* Takes the range out, which may split one. As above. */
int fm_extents_cut(struct fm_extents *e, struct fm_span s);
/* Holes smaller than this are filled. */
void fm_extents_close(struct fm_extents *e, uint64_t hole);
/* Bytes in all; UINT64_MAX if they are more. */
uint64_t fm_extents_sum(const struct fm_extents *e);
bool fm_extents_has(const struct fm_extents *e, int64_t at);

/* --- fitting --- */

/* A launch, as a profile has seen it. Observations may come in any order. */
struct fm_observation {
	const struct fm_kernel_id *kernel;
	uint32_t grid[3], block[3];
	/* All parameters as the device has them, from offset 0; what lies between them is 0. */
	const void *params;
	size_t size;
	/* All words of them that are pointers to memory of the device, rising: also those through
	 * which nothing was touched, for their values say nothing about a launch. */
	const struct fm_observed {
		uint32_t at; /* byte offset of the word: a multiple of eight */
		bool map;    /* a tensor map of 128 bytes begins there, a multiple of 64; the spans
				are relative to the address in it */
		const struct fm_span *spans; /* rising */
		unsigned n;
	} * pointers;
	unsigned n;
};

struct fm_fit;
/* NULL: no memory. */
struct fm_fit *fm_fit_new(void);
void fm_fit_free(struct fm_fit *f);
/* Copies what it needs. 0; -EINVAL: a number in it is beyond what is said above, or contradicts
 * another; -ENOSPC: there are too many kernels; -ENOMEM. After an error f is as it was. */
int fm_fit_add(struct fm_fit *f, const struct fm_observation *o);

/* Fits all that was added, and writes DIR/IMAGE.jsonl for each image, each file whole or not at
 * all. The folder must be there. What a file of that image had before is replaced. */
int fm_fit_write(struct fm_fit *f, const char *dir, struct fm_err *err);
/* The same for one image, to a stream: what such a file has. -ENOENT: nothing was seen of it. */
int fm_fit_print(struct fm_fit *f, const char *image, FILE *to);

enum fm_form { /* X(ID, name) */
#define FM_FORM_MAP(X)                \
	X(FM_FORM_ANY, "any")         \
	X(FM_FORM_FIXED, "fixed")     \
	X(FM_FORM_LINEAR, "linear")   \
	X(FM_FORM_STRIDED, "strided") \
	X(FM_FORM_BOX, "box")         \
	X(FM_FORM_MEMO, "memo")
#define FM_FORM_ID(id, name) id,
	FM_FORM_MAP(FM_FORM_ID)
#undef FM_FORM_ID
		FM_FORMS
};
const char *fm_form_name(enum fm_form form);

/* What came of it, for tables. */
struct fm_fit_counts {
	uint64_t kernels, launches;
	uint64_t pointers[FM_FORMS];
	uint64_t failed; /* launches for which a pointer of their kernel has no template that holds
			  */
};
void fm_fit_count(struct fm_fit *f, struct fm_fit_counts *out);

/* --- templates --- */

enum fm_operand_kind { FM_OPERAND_U32, FM_OPERAND_U64, FM_OPERAND_GRID, FM_OPERAND_BLOCK };
struct fm_operand {
	uint8_t kind; /* enum fm_operand_kind */
	uint16_t at;  /* byte offset, or axis */
};
#define FM_FACTORS 3u
/* num * P / den + plus, rounded up; P is 1 if there are no factors, and then num is 0. */
struct fm_linear {
	int64_t num, den, plus;
	unsigned n;
	struct fm_operand of[FM_FACTORS];
};

struct fm_memo {
	uint64_t key; /* fm_launch_key() */
	unsigned n;
	struct fm_span *span;
};

struct fm_template {
	uint32_t at;
	uint8_t form; /* enum fm_form */
	struct fm_linear from, bytes, step, count;
	unsigned n;
	struct fm_memo *memo; /* by key, rising */
};

struct fm_kernel_templates {
	char *name;
	uint32_t size; /* of the parameters */
	uint64_t launches, failed;
	unsigned n;
	struct fm_template *pointer; /* by offset, rising */
};

struct fm_templates { /* of one image */
	char image[FM_IMAGE_ID];
	unsigned n;
	struct fm_kernel_templates *kernel; /* by name, rising */
};
void fm_templates_free(struct fm_templates *t);
/* NULL: there is none. */
const struct fm_kernel_templates *fm_templates_find(const struct fm_templates *t, const char *name);

/* A text that should be a file of that image. -EINVAL or -ENOMEM with err, whose text begins with
 * `name`; then *t is empty. The text may be anything. */
int fm_templates_parse(struct fm_templates *t, const char *image, const char *name,
	const char *text, size_t size, struct fm_err *err);
/* DIR/IMAGE.jsonl. Also what keeps it from being read: -ENOENT; -EPERM: folder or file are neither
 * the user's nor root's, or others may write there; -EFBIG: it has more bytes than *room (NULL:
 * than 64 MiB), which becomes less by what is read. */
int fm_templates_load(struct fm_templates *t, const char *image, const char *dir, size_t *room,
	struct fm_err *err);

/* --- evaluation --- */

struct fm_launch {
	const uint32_t *grid, *block; /* three each */
	const void *params;
	size_t size;
};
/* What memos are found by. Words of pointers do not count. */
uint64_t fm_launch_key(const struct fm_kernel_templates *k, const struct fm_launch *l);
/* The spans that this launch touches; -1: all of the allocation, for all that is known. Takes no
 * lock, and time that does not depend on the numbers. */
int fm_template_spans(const struct fm_template *t, const struct fm_launch *l, uint64_t key,
	struct fm_span out[FM_TEMPLATE_SPANS]);
