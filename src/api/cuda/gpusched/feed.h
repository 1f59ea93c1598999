/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps the streams of a set (gates.h) filled: releases by the host, in the caller's thread,
 * and a thread that puts more chunks behind those that have run, off the path. A task gets chunks
 * only for jobs that are certain to come, so that an idle set has nothing in its streams: those
 * that the host has released, and those that other tasks' jobs in streams will release.
 *
 * Park. The set is parked while its maker's may_run() says no, or the program has parked it. The
 * thread tells the device, which opens no gate from then on, and says when nothing runs any more.
 *
 * A call of the driver may wait for the device while it holds a lock that our calls need. So such a
 * call is made between fm_cu_feed_leave(), which waits until nothing stands in the streams, and
 * fm_cu_feed_stay(). Meanwhile nothing is put there.
 *
 * A task whose enqueue fails is off when its jobs before that one are complete: jobs of other tasks
 * that come after these stand in their streams already.
 *
 * Owns: a thread for each set.
 * Locks: three for each set: over what it counts, held over no call; over news of a park, and over
 * what is read, held over calls of the driver.
 * Threads: any, but for create and destroy.
 */
#pragma once
#include "gates.h"

struct fm_cu_feed;

struct fm_cu_feed_task {
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx);
	void *ctx;
	uint32_t chunks, n_after;
	const uint32_t *after; /* all that is given is copied */
};

/* What the maker is told, and asked. Called without a lock of ours; each may be NULL. */
struct fm_cu_feed_hooks {
	void *arg;
	void (*begin)(void *arg, uint32_t task);    /* a job is about to be put into the stream */
	void (*end)(void *arg, uint32_t task);      /* it has been, or has failed */
	void (*finished)(void *arg, uint64_t jobs); /* of those so many are over, in all */
	void (*failed)(void *arg, uint32_t task, int error);
	bool (*may_run)(void *arg);
	bool (*leaves)(void *arg); /* is somebody between leave and stay? */
	void (*stands)(void *arg); /* fm_cu_feed_stop() was called, and nothing runs any more */
};

/* -EAGAIN, -ENOMEM. `depth` jobs of a task stand in its stream, at most FM_GS_BACKLOG. */
int fm_cu_feed_create(const struct fm_cu_driver *cu, CUcontext ctx, struct fm_cu_gates *gates,
	const struct fm_cu_feed_task *task, uint32_t n, unsigned depth,
	const struct fm_cu_feed_hooks *hooks, struct fm_cu_feed **out);
/* Waits for the threads that are inside. The gates stay. NULL is nothing. Not from within enqueue.
 */
void fm_cu_feed_destroy(struct fm_cu_feed *f);
/* Threads that may be inside when it is destroyed say so; then that waits for them. */
void fm_cu_feed_keep(struct fm_cu_feed *f);
void fm_cu_feed_let_go(struct fm_cu_feed *f);
/* The process exits: no chunk is put any more. */
void fm_cu_feed_end(struct fm_cu_feed *f);

/* Jobs are released, in two steps; the first makes no call. 0, and then the second must follow, as
 * the feed is kept until then; the error with which the task has ended; -ENODEV: the device is
 * lost. */
int fm_cu_feed_ask(struct fm_cu_feed *f, uint32_t task, uint64_t jobs);
int fm_cu_feed_release(struct fm_cu_feed *f, uint32_t task, uint64_t jobs);
/* Until nothing is released that is not complete; -ETIMEDOUT, -ENODEV. CLOCK_MONOTONIC. */
int fm_cu_feed_wait(struct fm_cu_feed *f, uint64_t deadline);
uint64_t fm_cu_feed_pending(struct fm_cu_feed *f); /* jobs */

void fm_cu_feed_park(struct fm_cu_feed *f, bool parked); /* by the program */
/* may_run() has changed. Makes no call. stop: 0, nothing runs; -EINPROGRESS, stands() follows. */
int fm_cu_feed_stop(struct fm_cu_feed *f);
void fm_cu_feed_go_on(struct fm_cu_feed *f);

/* leaves() has become true: waits until nothing stands in the streams. Not from within enqueue. It
 * is false again. */
void fm_cu_feed_leave(struct fm_cu_feed *f);
void fm_cu_feed_stay(struct fm_cu_feed *f);

/* The words of the set (fm_cu_gates_read); `take` is called before they change again. -EIO. */
int fm_cu_feed_read(struct fm_cu_feed *f,
	void (*take)(void *arg, const struct fm_cu_gates_words *words), void *arg);
