/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VPI library without a device: streams, events and contexts over the engine of the fake CUDA
 * driver (../cuda/fake.h), and a few algorithms on words of memory. By its documentation:
 *
 *   - "Submits all pending operations for execution" (vpiStreamFlush): until then, or until an
 *     event is recorded, the stream is waited for or it ends, nothing that was submitted begins.
 *   - A function that is submitted to a stream may not call VPI: the process is ended.
 *   - An event that is recorded, waited for or queried belongs to the context of its stream, and a
 *     thread's objects to the context that is current there; other ones are refused.
 *   - Contexts that end take their objects along. Who uses what has ended, or ends an event that is
 *     still to come, has its process ended with a word.
 *   - Each thread has the status of its last call, which it may ask for.
 *
 * FAKE_VPI_US        each algorithm takes so many microseconds
 * FAKE_VPI_LATE_US   a stream comes past an event so much later
 * FAKE_VPI_DEPTH     a stream holds so many commands; who submits one more waits
 * FAKE_VPI_DEAF      events are never signaled
 */
#pragma once
#define VPI_EXPORT __attribute__((visibility("default")))
#include "../../vpi.h"
#include "../cuda/fake.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WORDS 64

enum fv_kind { FV_STREAM = 0x51ea, FV_EVENT, FV_CONTEXT, FV_IMAGE, FV_PAYLOAD, FV_GONE };

/* Handles are never used again, so that who uses one that has ended is found out. */
struct fv_object {
	_Atomic enum fv_kind kind;
	VPIContext context; /* NULL: the one that all share */
	struct fv_object *next;
};

struct fv_op {
	struct fv_op *next;
	void (*run)(struct fv_op *op);
	VPIStream stream;
	VPIImage in, out;
	uint32_t number;
	bool is_slow;
	union {
		VPIHostFunction host;
		VPIHostFunctionEx host_ex;
		VPICUDAHostFunction cuda;
	};
	void *data;
};

struct VPIStreamImpl {
	struct fv_object object;
	CUstream cu;
	uint64_t backends;
	pthread_mutex_t lock;
	struct fv_op *first, **last; /* not begun */
	_Atomic unsigned held;       /* commands that have not ended */
	_Atomic VPIStatus status;    /* of what has run */
};

struct VPIEventImpl {
	struct fv_object object;
	CUevent cu;
	bool recorded;
};

struct VPIContextImpl {
	struct fv_object object;
};

struct VPIImageImpl {
	struct fv_object object;
	uint32_t words[WORDS];
};

struct VPIPayloadImpl {
	struct fv_object object;
};

/* Around each call. */
void fv_enter(const char *call);
VPIStatus fv_done(VPIStatus rc);
__attribute__((noreturn)) void fv_die(const char *text);

/* A new one in the current context; NULL: no memory. */
void *fv_new(enum fv_kind kind, size_t size);
/* False: NULL. Ends the process if it is no such object any more. */
bool fv_is(const void *object, enum fv_kind kind);
void fv_gone(void *object);

/* Behind what the stream has; without an error yet. */
VPIStatus fv_submit(VPIStream stream, uint64_t backend, struct fv_op op);
