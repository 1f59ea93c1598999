/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Level Zero driver without a device, which the loader finds by ZE_ENABLE_ALT_DRIVERS. Engines
 * are threads of the process, device memory is host memory. It keeps the rules of the specification
 * (https://spec.oneapi.io/level-zero/latest/core/PROG.html and api.html), and is no kinder:
 *
 *   - commands of a queue begin in the order in which they were submitted, and end in any ("there
 * is no implicit definition of the order of completion"): each that works has a thread of its own;
 *   - a barrier without events waits for all before it; one with events for these; and it "blocks
 * all following commands from beginning";
 *   - what "the application must" and "must not" do ends the process with a word where it is not
 * kept: two threads inside calls for one list; a list that is reset, destroyed or executed once
 * more while it is in use; a queue, an event or a context that ends then; a pool of
 * events that ends after its context; an event that is reset
 * before all have gone past who wait for it; one that the host may not see, and looks at.
 *
 * One lock guards all; it is not held while a command works.
 *
 * What it can be made to do, from the environment (unset or 0: not so):
 *   FAKE_ZE_DEVICES=N   so many devices: 1
 *   FAKE_ZE_NPU         they are of the type VPU
 *   FAKE_ZE_ENGINES=N   the queues of a device share so many engines; else each has one
 *   FAKE_ZE_DEPTH=N     a call that submits waits while so many commands are in the queue
 *   FAKE_ZE_SLOW_US=US  a call that appends to an immediate list takes so long
 *   FAKE_ZE_LEAKY       barriers with events do not block what follows
 *   FAKE_ZE_LATE_US=US  at random up to so much later the host sees that an event or a fence is
 *                       signalled
 *   FAKE_ZE_SYNC        a queue whose mode is left to the driver is a synchronous one
 *   FAKE_ZE_ONLY_SYNC   and there are no asynchronous ones
 *   FAKE_ZE_POOLS=N     there is no memory for more event pools
 *   FAKE_ZE_FEW_EVENTS=N  no pool has memory for more events
 *   FAKE_ZE_NO_PCI      devices have no place
 *   FAKE_ZE_LOST=N      the device is lost at the N-th command
 *   FAKE_ZE_DEVICE=FILE processes that name the same file have one device, in turn
 *
 * Modules are the word "kernels"; the kernels are in kernels.c.
 */
#pragma once
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FK_ARGS 8

/* Driver, devices. */
struct _ze_driver_handle_t {
	int unused;
};
struct _ze_device_handle_t {
	unsigned index;
};
extern struct _ze_driver_handle_t fk_driver;
extern struct _ze_device_handle_t fk_device[16];

struct _ze_context_handle_t {
	unsigned uses;  /* commands under way */
	unsigned pools; /* of events */
	bool ended;
};

struct _ze_event_pool_handle_t {
	ze_context_handle_t context;
	bool host_visible;
	uint32_t count, live;
	_Atomic bool *used;
};

struct _ze_event_handle_t {
	struct _ze_event_pool_handle_t *pool;
	uint32_t index;
	bool signalled;
	uint64_t seen_at; /* by the host */
	unsigned uses;    /* commands under way that wait for it or signal it */
};

struct _ze_fence_handle_t {
	bool signalled;
	uint64_t seen_at;
	unsigned uses;
};

struct _ze_module_handle_t {
	int unused;
};

struct fk_arg {
	unsigned char bytes[8];
};

typedef void fk_kernel(const struct fk_arg *arg, uint64_t groups);

struct _ze_kernel_handle_t {
	fk_kernel *fn;
	struct fk_arg arg[FK_ARGS];
};

enum fk_kind {
	FK_KERNEL,
	FK_COPY,
	FK_FILL,
	FK_BARRIER,
	FK_SIGNAL,
	FK_WAIT,
	FK_RESET,
	FK_STAMP,
	FK_END
};

struct fk_command {
	enum fk_kind kind;
	fk_kernel *fn;
	struct fk_arg arg[FK_ARGS];
	uint64_t groups;
	void *dst;
	const void *src;
	size_t size, pattern;
	ze_event_handle_t signal, wait[16];
	uint32_t waits;
	/* of FK_END */
	ze_command_list_handle_t list;
	ze_fence_handle_t fence;
	/* under way */
	ze_command_queue_handle_t queue;
	struct fk_command *next;
};

struct fk_engine {
	pthread_t thread;
	struct fk_command *first, **last;
	unsigned running; /* commands with threads of their own */
};

struct _ze_command_queue_handle_t {
	ze_context_handle_t context;
	struct fk_engine *engine;
	ze_command_queue_mode_t mode;
	bool copies_only;
	uint64_t pending;
};

struct _ze_command_list_handle_t {
	ze_context_handle_t context;
	ze_command_queue_handle_t queue; /* of an immediate list */
	bool copies_only, closed;
	unsigned uses; /* executions under way */
	struct fk_command *command;
	size_t n, room;
	_Atomic bool inside; /* a thread is in a call for it */
	bool recorded;       /* what is appended goes into the graph that this list then is */
};

/* --- engine.c --- */

void fk_lock(void);
void fk_unlock(void);
void fk_changed(void); /* something that others wait for; lock held */
/* Waits with the lock held until it is so, or that time has come; the time comes from the caller.
 */
bool fk_await(bool (*is)(void *of, uint64_t *again_at), void *of, uint64_t timeout);
uint64_t fk_now(void);
uint64_t fk_setting(const char *name);
bool fk_is_lost(void);
/* The word before the end. */
__attribute__((noreturn, format(printf, 1, 2))) void fk_undefined(const char *fmt, ...);

struct fk_engine *fk_engine_for(ze_device_handle_t device, uint32_t index);
/* Puts a copy there. Lock held; it is let go while the queue is full. */
void fk_submit(ze_command_queue_handle_t q, const struct fk_command *c);
/* In its mode. Lock held. */
ze_result_t fk_submitted(ze_command_queue_handle_t q);
ze_result_t fk_queue_wait(ze_command_queue_handle_t q, uint64_t timeout);
void fk_signal(ze_event_handle_t e); /* lock held */
uint64_t fk_late(void);

fk_kernel *fk_kernel_named(const char *name);

/* The function of that name, for the tables. */
void *fk_function(const char *name);
