/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian: OpenCL C rewritten so that a launch can be stopped between two of its work-groups
 * and go on later, each work-group running exactly once. A work-group that has started always ends,
 * so that what it computes does not matter: kernels that are not idempotent are as good as others.
 *
 * Each kernel gets three parameters more and, behind the brace of its body, a prologue. There the
 * first work-item claims its group in `marks` by an atomic exchange, unless the group has run
 * already, or the launch is stopped; the others hear of it across a barrier. Any number of passes
 * over the same range, also at the same time, run each group once.
 *
 * No text is parsed as a compiler would; what is inserted is such that a mistake here does not
 * compile. Parameters and prologue go in as a pair, around a `)` and a `{` with nothing between
 * them but attributes, so the preprocessor keeps both or neither; and the prologue declares local
 * memory, which is an error anywhere but in the outermost block of a kernel. A kernel that was
 * missed keeps its parameters, which the caller sees (fm_guardian_param).
 *
 * Pure text: no OpenCL, no state.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a program is left as it is. */
enum fm_guardian_why {
	FM_GUARDIAN_OK,
	FM_GUARDIAN_NO_KERNEL, /* there is none, or none that could be found for sure */
	FM_GUARDIAN_WAITS,     /* work-groups may wait for each other */
	FM_GUARDIAN_ENQUEUES,  /* kernels enqueue kernels */
	FM_GUARDIAN_PIPES,
	FM_GUARDIAN_PRINTS,  /* the order of what is printed */
	FM_GUARDIAN_STATICS, /* variables of the program: a rewritten one would have its own */
	FM_GUARDIAN_OPTIONS, /* another language, or macros that change ours */
	FM_GUARDIAN_CALLED,  /* a kernel is called as a function */
	FM_GUARDIAN_UNCLEAR, /* the text is not understood */
	FM_GUARDIAN_MEMORY,
	FM_GUARDIAN_WHYS
};

/* In a word or two, for people. */
const char *fm_guardian_reason(enum fm_guardian_why why);

struct fm_guardian_text {
	char *text; /* to be freed; length without the terminating zero */
	size_t len;
	unsigned kernels; /* definitions that were rewritten */
	bool includes;    /* files that were not looked at */
};

/* `options` as for clBuildProgram, may be NULL. On anything but FM_GUARDIAN_OK *out is empty. */
enum fm_guardian_why fm_guardian_rewrite(
	const char *source, size_t len, const char *options, struct fm_guardian_text *out);

/* The parameters, by their names, behind the kernel's own. */
#define FM_GUARDIAN_PARAMS 3
extern const char *const fm_guardian_param[FM_GUARDIAN_PARAMS];

/* What they point to: words of 32 bits. First parameter, one block for each launch: */
enum {
	FM_GUARD_MODE,     /* enum below; written by the host */
	FM_GUARD_LOCAL,    /* the local size, three words, of a group that ran */
	FM_GUARD_LEFT = 4, /* 1: a pass has left groups out; two words, for a pass each */
	FM_GUARD_MARKS = 8 /* a word for each group, in linear order: 0: not run yet */
};
enum {
	FM_GUARD_STOPPABLE, /* look at the stop word */
	FM_GUARD_FINAL,     /* do not: run what is left */
	FM_GUARD_COMPLETE   /* nothing is left: every group returns at once */
};
/* Second parameter: the stop word. Not zero: groups that have not started do not. Third, a number:
 * which word says that this pass leaves groups out. It begins no others then, though it may go on
 * again: those might wait for the ones left out, in places that are needed for these. */
