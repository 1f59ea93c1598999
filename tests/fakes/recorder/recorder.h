/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver that does nothing but note down what it is called with: it has every function of
 * the shim's own table (src/api/cuda/calls.def), and what little else the shim needs to make
 * queues of level 1. Its functions take twelve words, whatever their parameters: the first six or
 * eight in registers, the others on the stack, as both of the processors have it that the shim is
 * for.
 */
#pragma once
#include "api/cuda/core/types.h"

#define ON_other(kind, symbol, ...) REC_##symbol,
enum {
#include "api/cuda/calls.def"
	REC_CALLS
};

#define REC_WORDS 16
#define REC_WORD_PARAMS                                                                            \
	uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, \
		uint64_t a7, uint64_t a8, uint64_t a9, uint64_t a10, uint64_t a11, uint64_t a12,   \
		uint64_t a13, uint64_t a14, uint64_t a15
#define REC_WORD_ARGS a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15

typedef fm_cu_result rec_fn(REC_WORD_PARAMS);

/* A call that a thread is about to make of the shim, and what came of it at the driver. */
struct rec_call {
	unsigned id, n;                /* its parameters, */
	uint64_t word[REC_WORDS];      /* of which so many bytes count */
	unsigned char size[REC_WORDS]; /* in each */
	size_t list;                   /* so long is what the first of them points to; or 0 */
	fm_cu_result rc;               /* to be returned */

	unsigned calls;          /* how often it came, */
	unsigned differs;        /* with other words in these parameters: a bit each, */
	bool copied;             /* the first one with a copy of the list; */
	const char *besides[16]; /* and what else, that is not for the shim itself */
	unsigned n_besides;
};

/* This thread makes it from now on; NULL: none. */
typedef void rec_expect_fn(struct rec_call *call);
/* The driver's own function. */
typedef void *rec_own_fn(unsigned id);
/* There is no current context from now on, and no stream has one, or as before. */
typedef void rec_deny_fn(bool yes);
