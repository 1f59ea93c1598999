/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the shims of other APIs that put work onto CUDA streams, such as cuDLA's: CUDA's shim, which
 * has the stream's XQueue, exports this. It is no part of include/fermata.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any that may launch onto the stream.
 *
 * Fails open: the symbol is weak, and NULL where CUDA's shim is not loaded.
 */
#pragma once

/* Makes the call as one command of the stream, like a copy: it may wait, before it, until the
 * program may run, and what CUDA itself is called for in it is no command of its own. kind: below
 * 64, for estimates. name: what is counted if the stream is not scheduled. Returns what the call
 * does. */
__attribute__((weak)) int fm_cuda_on_stream(
	void *stream, unsigned kind, const char *name, int (*call)(void *arg), void *arg);
