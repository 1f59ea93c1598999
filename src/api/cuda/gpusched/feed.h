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
 * Of a resident set (gates.h) the tasks that are released by themselves, by period or word, have
 * jobs in their streams in advance. The thread renews the resident's stay, and launches it when it
 * has gone and there is something for it. While it is gone, because the set is parked, the thread
 * has what is released by period decided at its time, and looks at words by copies. So it is for as
 * long as its maker bars residents. In a leave, and when the set ends, jobs that stand in advance
 * run without a release. The maker knows of no such job, and its may_run() may say no for as long
 * as there is none: so one is counted for all of them until they have run.
 *
 * A task whose enqueue fails is off when its jobs before that one are complete: jobs of other tasks
 * that come after these stand in their streams already. Those that stand there in advance count as
 * released then.
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
	bool period; /* is it released by one? Not, if it comes after others, too */
	uint32_t chunks, n_after;
	const uint32_t *after; /* all that is given is copied */
	uint64_t dropped;      /* jobs, before this start */
};

/* What the maker is told, and asked. Called without a lock of ours; each may be NULL. */
struct fm_cu_feed_hooks {
	void *arg;
	/* A job is about to be put into the stream; it has been, or has failed. If it stands there
	 * in advance, both are called when it is known to be released. */
	void (*begin)(void *arg, uint32_t task);
	void (*end)(void *arg, uint32_t task);
	void (*count)(void *arg);  /* a job stands there that is to run, whether or not it is
				    * released; it is one of those that are over at last */
	bool (*traces)(void *arg); /* does anybody want notes? */
	void (*note)(void *arg, const struct fm_gates_note *note); /* in order */
	void (*finished)(void *arg, uint64_t jobs); /* of those so many are over, in all */
	void (*failed)(void *arg, uint32_t task, int error);
	bool (*may_run)(void *arg);
	bool (*leaves)(void *arg); /* is somebody between leave and stay? */
	bool (*bars)(void *arg);   /* is nothing to reside, whatever the set is? */
	/* How things are, after decisions and parks: for people, so not after each. By the thread;
	 * the words last for the call. */
	void (*show)(void *arg, const struct fm_cu_gates_words *words, bool parked);
	void (*stands)(void *arg); /* fm_cu_feed_stop() was called, and nothing runs any more */
};

/* `words`: of the tasks of a resident set, in memory of the device.
 * -EAGAIN, -ENOMEM. `depth` jobs of a task stand in its stream, at most FM_GS_BACKLOG. */
int fm_cu_feed_create(const struct fm_cu_driver *cu, CUcontext ctx, struct fm_cu_gates *gates,
	const struct fm_cu_feed_task *task, uint32_t n, unsigned depth, CUdeviceptr words,
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
/* From now on its word releases the task, too, until the feed ends. */
void fm_cu_feed_word(struct fm_cu_feed *f, uint32_t task);
/* No releases by period, nor jobs in advance, any more. */
void fm_cu_feed_drain(struct fm_cu_feed *f);
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
/* Before the end: until what stands in the streams may run, or nothing does. */
void fm_cu_feed_await_turn(struct fm_cu_feed *f, uint64_t deadline);
/* For good, before the feed is destroyed: what stands there in advance runs in order. It waits for
 * that until then. */
void fm_cu_feed_retire(struct fm_cu_feed *f, uint64_t deadline);

uint64_t fm_cu_feed_refused(const struct fm_cu_feed *f); /* fm_cu_gates_refused() */

/* The words of the set (fm_cu_gates_read); `take` is called before they change again. -EIO. */
int fm_cu_feed_read(struct fm_cu_feed *f,
	void (*take)(void *arg, const struct fm_cu_gates_words *words), void *arg);
