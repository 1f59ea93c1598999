/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that the device must pass before anything may be stopped. Behind the first launch in a
 * context of a kernel that uses system calls of the device (an assertion, printf, malloc), a driver
 * lets nothing of any stream run until that kernel has run. The driver may provide what other
 * kernels need in this way, too. If such a kernel were behind a gate that closes, nothing of ours
 * would run that is needed to go on.
 *
 * Behind such a launch its stream writes a word of the host's memory. There is one word for each
 * stream in which such a launch is under way. There are twice as many words as a process can have
 * queues, because some queues that are gone may not have written theirs yet.
 */
#pragma once
#include "driver.h"
#include <pthread.h>
#include <stdatomic.h>

#define FM_CU_SETTLE_WORDS 256

struct fm_cu_settle {
	_Atomic(_Atomic uint32_t *) words; /* NULL: there are none */
	CUdeviceptr at;
	struct {
		uint64_t queue;
		_Atomic uint32_t want;
	} of[FM_CU_SETTLE_WORDS];
	_Atomic unsigned used; /* this many of them have been used at most */
	_Atomic bool never;    /* this can no longer be known */
};

/* Takes zeroed host memory for the words, of FM_CU_SETTLE_BYTES, and its address on the device. It
 * lives as long as the context. */
#define FM_CU_SETTLE_BYTES (FM_CU_SETTLE_WORDS * sizeof(uint32_t))
void fm_cu_settle_init(struct fm_cu_settle *s, void *words, CUdeviceptr at);
/* The context is gone. */
void fm_cu_settle_forget(struct fm_cu_settle *s);
void fm_cu_settle_fork_child(void);

/* This thread has just launched something in the stream. The stream's context is current. queue: a
 * number that no other stream has or ever had. */
void fm_cu_settle_behind(
	struct fm_cu_settle *s, const struct fm_cu_driver *cu, CUstream stream, uint64_t queue);
/* Has the device passed all of them? Any thread. */
bool fm_cu_settled(const struct fm_cu_settle *s);
