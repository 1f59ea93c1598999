/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver that does nothing but note down what it is called with: it has every function of
 * the shim's own tables (src/api/cuda/shim/calls.h), and what little else the shim needs to make
 * queues of level 1. Its functions take twelve words, whatever their parameters: the first six or
 * eight in registers, the others on the stack, as both of the processors have it that the shim is
 * for.
 */
#pragma once
#include "api/cuda/shim/calls.h"

/* ENTRY(symbol, name, since, per_thread, code, params), once for each symbol of the tables, is what
 * REC_TABLE comes to. */
#define REC_BOTH(name, suffix, clone, since, params)           \
	ENTRY(name##suffix, name, since, false, false, params) \
	ENTRY(name##suffix##_##clone, name, since, true, false, params)
#define REC_LAUNCH(name, suffix, clone, since, stream, work, waits, key, params, args) \
	REC_BOTH(name, suffix, clone, since, params)
#define REC_STREAM(name, suffix, clone, since, what, params, args) \
	REC_BOTH(name, suffix, clone, since, params)
#define REC_SINGLE(name, suffix, since, stream, work, waits, key, params, args) \
	ENTRY(name##suffix, name, since, false, false, params)
#define REC_MULTI(name, suffix, since, params) \
	ENTRY(name##suffix, name, since, false, false, params)
#define REC_OTHER(name, suffix, since, what, params) \
	ENTRY(name##suffix, name, since, false, false, params)
#define REC_CODE(name, suffix, since, what, params) \
	ENTRY(name##suffix, name, since, false, true, params)
#define REC_LOAD(name, suffix, since, why, what, params, args) \
	ENTRY(name##suffix, name, since, false, true, params)
/* clang-format off */
#define REC_TABLE \
	FM_CUDA_LAUNCHES(REC_LAUNCH) \
	FM_CUDA_RECORDS(REC_LAUNCH) \
	FM_CUDA_GRAPHS(REC_LAUNCH) \
	FM_CUDA_STREAM_CALLS(REC_STREAM) \
	FM_CUDA_SINGLES(REC_SINGLE) \
	FM_CUDA_MULTIS(REC_MULTI) \
	FM_CUDA_OTHER_CALLS(REC_OTHER) \
	FM_CUDA_CODE_CALLS(REC_CODE) \
	FM_CUDA_LOAD_CALLS(REC_LOAD)
/* clang-format on */

#define ENTRY(symbol, name, since, per_thread, code, params) REC_##symbol,
enum { REC_TABLE REC_CALLS };
#undef ENTRY

#define REC_WORDS 12
#define REC_WORD_PARAMS                                                                            \
	uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, \
		uint64_t a7, uint64_t a8, uint64_t a9, uint64_t a10, uint64_t a11
#define REC_WORD_ARGS a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11

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
