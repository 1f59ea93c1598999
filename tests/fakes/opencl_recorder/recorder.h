/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenCL driver (ICD) that notes down what it is called with. It has every entry of the loader's
 * dispatch table, and does what the layer needs to make queues of level 2: commands are finished at
 * once. Entries are known by their place in the table. Each takes fourteen words, whatever its
 * parameters: the first six or eight in registers, the others on the stack, as both of the
 * processors have it that the layer is for.
 */
#pragma once
#include "api/opencl/opencl.h"

#define REC_WORDS 14
#define REC_WORD_PARAMS                                                                            \
	uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, \
		uint64_t a7, uint64_t a8, uint64_t a9, uint64_t a10, uint64_t a11, uint64_t a12,   \
		uint64_t a13
#define REC_WORD_ARGS a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13

typedef uint64_t rec_fn(REC_WORD_PARAMS);

#define REC_ENTRY(name)  (offsetof(cl_icd_dispatch, name) / sizeof(void *))
#define REC_ENTRIES      (sizeof(cl_icd_dispatch) / sizeof(void *))
#define REC_BESIDES_MOST 32

/* Whatever the program has a handle of. The loader finds the driver by the first word. */
struct rec_object {
	const cl_icd_dispatch *dispatch;
	cl_command_queue_properties properties; /* of a queue */
	cl_command_queue queue;                 /* of an event */
	_Atomic int refs;                       /* of an event */
};

/* Something that the driver writes for the program: so many bytes to where a parameter points. */
struct rec_out {
	int at; /* which parameter; -1: none */
	size_t size;
};

/* A call that a thread is about to make, and what came of it at the driver. */
struct rec_call {
	unsigned entry, n;             /* its parameters, */
	uint64_t word[REC_WORDS];      /* of which so many bytes count */
	unsigned char size[REC_WORDS]; /* in each; */
	unsigned may_differ;           /* and others may come in these, a bit each */

	uint64_t result;
	cl_int err;            /* CL_SUCCESS: the others are written, too */
	struct rec_out status; /* err */
	struct rec_out event;  /* a new one, with one reference */
	struct rec_out other;  /* REC_OTHER */

	unsigned calls;                     /* how often it came, */
	unsigned differs;                   /* with others in these parameters, */
	struct rec_object *made;            /* the event, */
	unsigned besides[REC_BESIDES_MOST]; /* and what else was called by the same thread */
	unsigned n_besides;
};
#define REC_OTHER 3

/* This thread makes it from now on; NULL: none. */
typedef void rec_expect_fn(struct rec_call *call);
/* From now on the driver tells of no finished command, or at once, also of those before. */
typedef void rec_late_fn(bool late);
/* Events that have references, user events included; and releases of events that had none. */
typedef void rec_events_fn(unsigned *live, unsigned *wrong);
/* What objects begin with. */
typedef const cl_icd_dispatch *rec_dispatch_fn(void);
