/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may tell the fake driver that it runs on, by dlsym(). */
#pragma once
#include <stddef.h>

enum fake_cuda_thing {
	FAKE_CUDA_MEMORY, /* allocations fail: out of memory */
	FAKE_CUDA_EVENTS, /* events cannot be created: the same */
	FAKE_CUDA_STREAMS,
	FAKE_CUDA_GUARDED, /* images with a guardian are not taken */
	FAKE_CUDA_THINGS
};

typedef void fake_cuda_refuse_fn(enum fake_cuda_thing thing, int yes);

/* The device is lost: nothing goes on, and calls return this error, in this process. */
typedef void fake_cuda_lose_fn(int error);

/* Memory moves from now on, or no more: no command may run meanwhile, or the program ends. */
typedef void fake_cuda_freeze_fn(int yes);

/* How many launches there were that may begin early. */
typedef unsigned fake_cuda_early_fn(void);
/* Those of this thread are, from now on or no more, of kernels that need not wait. */
typedef void fake_cuda_apart_fn(int yes);

/* What the driver itself has by a name of its symbols, whoever else exports one. */
typedef void *fake_cuda_own_fn(const char *symbol);

/* The nth call of that name from now on fails with this error, once; "*": of all names; nth 0: none
 * does. An error below 0 is a signal that the process gets there. And how many such calls there
 * were. */
typedef void fake_cuda_fail_fn(const char *call, unsigned nth, int error);
typedef unsigned fake_cuda_counted_fn(void);

/* Something else than streams reads and writes there from now on, or no more: a network card, a
 * video engine. Who unmaps any of it is ended with a word. */
typedef void fake_cuda_engine_fn(unsigned long long at, size_t size, int yes);

/* How much memory is left of a device of the machine. */
typedef unsigned long fake_cuda_free_fn(unsigned which);

/* The next call of that name calls this first, in its thread; "NAME, behind": last. "the wait for
 * the device" is that of a call which has the context's lock; the function may not call the driver.
 */
typedef void fake_cuda_at_fn(const char *call, void (*fn)(void));

/* Somebody looks at what kernels touch: a tool that is told of each module that is loaded, with the
 * driver's lock held; says for each launch what it is to be told with (NULL: nothing); and hears,
 * in the stream's thread, that the kernel begins, and of each range that it touches. */
struct fake_cuda_watch {
	void (*loaded)(void *ctx, void *module);
	void *(*launched)(void *function, void *module);
	void (*begins)(void *told);
	void (*touches)(void *told, unsigned long long at, size_t bytes);
};
typedef void fake_cuda_watch_fn(const struct fake_cuda_watch *w);
