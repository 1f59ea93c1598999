/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HIP's runtime as we call it ourselves, and its gates: for the shim, and for commands that try
 * what a device can do.
 *
 * Owns: a pool of words of signal memory, by device; what a trial of each device has shown.
 * Locks: two in gate.c, innermost: over a trial, and of the pool.
 * Threads: any.
 */
#pragma once
#include "api/hwqueue.h"
#include "api/own.h"
#include "base/util.h"
#include "types.h"

#define FM_HIP_DEVICES 64

/* The newest first; the last is of those who build. */
#define FM_HIP_RUNTIMES "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"

extern const struct fm_owns fm_hip_owns;

/* The runtime may call our functions as part of another call, and so may we: such a call is not
 * counted. */
extern __thread unsigned fm_hip_inside __attribute__((tls_model("initial-exec")));

/* Around calls of ours: they are made on that device, are no part of a capture, and leave no error
 * behind. */
struct fm_hip_visit {
	int device, mode;
	hipError_t error;
};
struct fm_hip_visit fm_hip_enter(const struct fm_hip_driver *hip, int device);
void fm_hip_leave(const struct fm_hip_driver *hip, int device, struct fm_hip_visit v);

/* The same text for the same device in every process. */
void fm_hip_device_key(const struct fm_hip_driver *hip, int device, char *key, size_t size);

/* For `proof/proof.h`: this device with this runtime. */
void fm_hip_proof(const struct fm_hip_driver *hip, int device, char *text, size_t size);

/* --- gate.c: a gate is a wait for a word of signal memory to come to a value --- */

struct fm_hip_word;

/* Does a stream of this device stand at a gate, and go on when it opens, while another stream
 * passes? Tried once, on streams of our own. */
bool fm_hip_gates_hold(const struct fm_hip_driver *hip, int device);
/* A trial that stands for so long, once; only for a command. */
bool fm_hip_gates_stand(const struct fm_hip_driver *hip, int device, uint64_t ns);
struct fm_hip_word *fm_hip_word_get(const struct fm_hip_driver *hip, int device);
void fm_hip_word_put(struct fm_hip_word *w); /* NULL: nothing */
/* Puts a gate behind what the stream has now. 0 or negative errno. */
int fm_hip_gate_put(const struct fm_hip_driver *hip, int device, hipStream_t stream,
	struct fm_hip_word *w, void **gate);
void fm_hip_gate_open(struct fm_hip_word *w, void *gate);
void fm_hip_gates_forget(int device); /* which was reset */
void fm_hip_gates_fork_child(void);
