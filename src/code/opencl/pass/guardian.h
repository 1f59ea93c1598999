/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian rewrites OpenCL C so that a launch can be stopped between two of its work-groups and
 * continued later. Each work-group runs exactly once and, once started, to its end, so this is safe
 * for any kernel, also for one that is not idempotent.
 *
 * Each kernel gets three more parameters and, at the beginning of its body, a prologue. In the
 * prologue the first work-item claims its group in `marks` by an atomic exchange, unless the group
 * has already run or the launch is stopped. The other work-items learn the result behind a barrier.
 * So any number of passes over the same range, also at the same time, run each group once.
 *
 * The text is not parsed as by a compiler. Instead, the insertions are such that a mistake does not
 * compile: parameters and prologue are inserted as a pair, around a `)` and a `{` with nothing but
 * attributes between them, so the preprocessor keeps both or neither; and the prologue declares
 * local memory, which is an error except in the outermost block of a kernel. A kernel that is
 * missed keeps its parameters, and the caller sees that (fm_guardian_param).
 *
 * The module works on text alone: it does not call OpenCL.
 *
 * Owns: nothing: tokens point into the caller's text.
 * Locks: none.
 * Threads: any, each with a text of its own.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a program is not rewritten. */
enum fm_guardian_why {
	FM_GUARDIAN_OK,
	FM_GUARDIAN_NO_KERNEL, /* there is none, or none was found for sure */
	FM_GUARDIAN_WAITS,     /* work-groups may wait for each other */
	FM_GUARDIAN_ENQUEUES,  /* kernels enqueue kernels */
	FM_GUARDIAN_PIPES,
	FM_GUARDIAN_PRINTS,  /* the output would come in another order */
	FM_GUARDIAN_STATICS, /* program variables: the rewritten program would have copies */
	FM_GUARDIAN_OPTIONS, /* another language, or macros that change the insertions */
	FM_GUARDIAN_CALLED,  /* a kernel is called as a function */
	FM_GUARDIAN_UNCLEAR, /* the text is not understood */
	FM_GUARDIAN_MEMORY,
	FM_GUARDIAN_WHYS
};

/* In a word or two, for messages. */
const char *fm_guardian_reason(enum fm_guardian_why why);

struct fm_guardian_text {
	char *text; /* to be freed by the caller; len is without the terminating zero */
	size_t len;
	unsigned kernels; /* rewritten definitions */
	bool includes;    /* it includes files, which were not read */
};

/* options: as for clBuildProgram; may be NULL. *out is empty unless it returns FM_GUARDIAN_OK. */
enum fm_guardian_why fm_guardian_rewrite(
	const char *source, size_t len, const char *options, struct fm_guardian_text *out);

/* The names of the parameters that follow the kernel's own. */
#define FM_GUARDIAN_PARAMS 3
extern const char *const fm_guardian_param[FM_GUARDIAN_PARAMS];

/* The first parameter points to one block of 32-bit words for each launch: */
enum {
	FM_GUARD_MODE,     /* one of the enum below; written by the host */
	FM_GUARD_LOCAL,    /* the local size of a group that has run: three words */
	FM_GUARD_LEFT = 4, /* 1: a pass has left groups out; a word for each of two passes */
	FM_GUARD_MARKS = 8 /* a word for each group, in linear order; 0: not run yet */
};
enum {
	FM_GUARD_STOPPABLE, /* obey the stop word */
	FM_GUARD_FINAL,     /* ignore it: run all groups that are left */
	FM_GUARD_COMPLETE   /* no group is left: every group returns at once */
};
/* The second parameter points to the stop word. While it is not zero, no further group starts. The
 * third is a number: the index of the word by which this pass notes that it has left groups out.
 * From then on the pass starts no group, even if the stop word is zero again: such a group might
 * wait for one left out, and occupy the place that that one needs. */
