/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a device: streams are threads of the process, device memory is host memory.
 * It is for tests, so it keeps the rules of order of the driver exactly, and none of its speed.
 *
 * Code is images as the real driver takes them. What the kernels do is written in C (kernels.c), by
 * their names; parameters are those of the image. Blocks are executed one by one. A kernel that was
 * rewritten (docs/cuda-images.md) has the guardian in front of each, exactly; what would go wrong
 * silently on a device, like a launch of it without the guardian's parameters, ends the process
 * with a word.
 *
 * One lock guards all; it is not held while a command runs. Streams complete their commands in
 * order, therefore a moment of a stream's work is a number: a point. They can share a few channels
 * of finite length, as on a device (hwqueues.c): what a program may not rely on it does not get.
 *
 * What it can be made to do, from the environment (unset or 0: not so):
 *   FAKE_CUDA_DEVICES=N        so many devices; CUDA_VISIBLE_DEVICES chooses of them
 *   FAKE_CUDA_INIT=ERROR       cuInit() fails
 *   FAKE_CUDA_OLD, _NEW        a driver of another version: 11.8, 99.0
 *   FAKE_CUDA_NO_MEMOPS        no stream memory operations
 *   FAKE_CUDA_FAIL_REGISTER=E  memory of the host cannot be registered; 1: not supported
 *   FAKE_CUDA_NO_READ_ONLY     nor can memory that the process may only read
 *   FAKE_CUDA_LOST=ERROR@N     the device is lost at the N-th kernel; 0: before all else
 *   FAKE_CUDA_MIG, _MPS        a part of a device; a device that is shared
 *   FAKE_CUDA_SLOW_MEMOPS=US   the call for a single memory operation takes so long
 *   FAKE_CUDA_FAIL=CALL@N/M=E  of calls of that name the N-th fails with this error, and each M-th
 *                              from then on; M 0: it alone. What it would return is left undefined.
 *                              CALL *: of all that can fail so (those that ask fk_fails()).
 *                              E below 0: the process gets that signal instead; E!: the device is
 *                              lost with that error
 *   FAKE_CUDA_THIN             cuLaunchKernel() does nothing, and the kernel neither; nor do
 * cuEventRecord() and cuStreamWaitEvent() with events that are not timed
 *   FAKE_CUDA_BLOCK_US=US      a block takes so much longer, and no processor meanwhile
 *   FAKE_CUDA_NO_VMM           no virtual memory; FAKE_CUDA_NO_HOST_CHUNKS: of the device alone
 *   FAKE_CUDA_GRANULARITY=N    chunks are multiples of so many bytes: 2 MiB
 *   FAKE_CUDA_LEFT=FILE        a byte in it for each time that a block was left in its middle
 *   FAKE_CUDA_LEAKS=FILE       a line in it for what a context, or the process, still has when it
 *                              ends: its kind, and bytes
 *   FAKE_CUDA_DEVICE=FILE      processes that name the same file have one device, in turn, and
 *                              its memory together
 *   FERMATA_TOKEN=FILE         kernels that take time have the token while they do
 *                              (tests/fakes/token)
 *   FAKE_CUDA_CAPACITY=SIZE    memory of a device: 4G; k, M, G. A context takes
 *   FAKE_CUDA_CONTEXT=SIZE     of it, or the 128th part
 *   FAKE_CUDA_CODE=SIZE        of it, that a function's code takes from its first launch on (0)
 *   FAKE_CUDA_MODULE=SIZE      and a module from when it is loaded on
 *   FAKE_CUDA_GREEN=SIZE       and a green context
 *   FAKE_CUDA_STREAM=SIZE      and a context for each stream that the program makes, until it ends
 *   FAKE_CUDA_DIRTY            memory that is allocated holds garbage; chunks are always cleared
 *   CUDA_DEVICE_MAX_CONNECTIONS=N  a context's streams share so many channels: 8, at most 32
 *   FAKE_CUDA_LAUNCHES=FILE    a line in FILE.PID for each kernel launched into a stream: its name,
 *                              blocks, and bytes of shared memory
 *   FAKE_CUDA_ROOM=N           a channel has room for so many commands: 1024, if it is more
 *   FAKE_CUDA_NARROW           streams share few channels; else each has one, of any length
 *   FAKE_CUDA_LOCK             calls that wait for the device keep out all others of the context
 *                              meanwhile, as with NARROW: also first launches, and loading code
 *   FAKE_CUDA_WITHIN_HOST      copies between chunks of the host, and from and to the host, return
 *                              when they are done: as those without chunks do in any case
 *   FAKE_CUDA_COPY=I:O:B       copies to the device and from it take time, by so many GB/s each
 * way, and for both together where both are at work FAKE_CUDA_VMM_US=C:M:A:U   so do calls that
 * create, map, give access to and unmap chunks FAKE_CUDA_MAKE=GB/S        and chunks of the host,
 * to be made FAKE_CUDA_LATE_US=US       what stands behind a wait for a word in the same batch
 * comes, at random, up to so much later FAKE_CUDA_LATE_WORD_US=US  so does a word that stands
 * alone, behind what is before it FAKE_CUDA_FIRST=wait,order then the first launch of a
 * function waits for the device; or returns, and all that is put into the context later waits for
 * the kernel; or either, by the function and by the program itself while it runs (fake_cuda.h).
 */
#pragma once
#define CU_EXPORT __attribute__((visibility("default")))
#include "../../cuda.h"
#include "fake_cuda.h"
#include <pthread.h>
#include <stdatomic.h>

CU_EXPORT fake_cuda_refuse_fn fake_cuda_refuse;
CU_EXPORT fake_cuda_early_fn fake_cuda_early;
CU_EXPORT fake_cuda_apart_fn fake_cuda_apart;
CU_EXPORT fake_cuda_lose_fn fake_cuda_lose;
CU_EXPORT fake_cuda_own_fn fake_cuda_own;
CU_EXPORT fake_cuda_at_fn fake_cuda_at;
CU_EXPORT fake_cuda_free_fn fake_cuda_free;
CU_EXPORT fake_cuda_fail_fn fake_cuda_fail;
CU_EXPORT fake_cuda_counted_fn fake_cuda_counted;
CU_EXPORT fake_cuda_engine_fn fake_cuda_engine;
CU_EXPORT fake_cuda_freeze_fn fake_cuda_freeze;
CU_EXPORT fake_cuda_watch_fn fake_cuda_watch;

struct fk_point {
	CUstream stream; /* NULL: nothing to wait for */
	uint64_t seq;
};

/* FK_OURS: a kernel of Fermata's, which touches no memory of the program's. */
enum fk_what {
	FK_OTHER,
	FK_OURS,
	FK_COPY,
	FK_FILL,
	FK_HOST,
	FK_ALLOC,
	FK_FREE,
	FK_WORDS,
	FK_RECORD
};

/* What a command does; it runs without the lock, in the stream's thread or as part of a graph. */
struct fk_work {
	enum fk_what what;
	void (*run)(struct fk_work *w);
	void (*end)(struct fk_work *w);   /* may be NULL: frees what the work owns */
	void (*share)(struct fk_work *w); /* may be NULL: of a copy, lets it own that as well */
	bool keeps_back; /* all that is put into the context later, until it has run */
	union {
		struct {
			void *dst;
			const void *src; /* NULL: the bytes are in `staged` */
			void *staged;
			size_t dst_pitch, src_pitch, width, height;
		} copy;
		struct {
			void *dst;
			size_t n;
			unsigned value, width;
		} set;
		struct {
			CUhostFn fn;
			CUstreamCallback callback;
			CUstream stream; /* as the program named it */
			void *arg;
		} host;
		struct fk_launch *launch;
		struct {
			union fm_cu_mem_op *op;
			unsigned n;
		} memop;
		struct {
			struct fk_record *record;
			CUevent event; /* of a node: what a launch of the graph records */
		} record;
		CUgraph graph; /* all that is in it */
		struct fk_plan *plan;
	};
};

/* A launch of a kernel; not changed once it is made, and shared by all that may execute it. */
struct fk_launch {
	_Atomic unsigned refs;
	struct fk_image *image;
	const struct fk_entry *entry; /* of the image */
	struct fk_variables *variables;
	CUfunction function;
	unsigned grid[3], block[3], shared;
	struct cu_launch_attribute attr[4]; /* the first of those that were given */
	unsigned n_attr;
	void *told;             /* watch.c */
	void **param;           /* pointers to each */
	unsigned char params[]; /* as they stand in the constants, a guardian's included */
};

/* What a kernel in C is told of the block that it is to do; x and n: of the grid's first dimension,
 * number and total: of all. */
struct fk_block {
	const struct fk_launch *launch;
	const void *params;
	unsigned x, n, threads;
	uint64_t number, total;
	struct fk_run *run;
};

/* Behind the pointer that this parameter is, a launch touches so many bytes times the value of
 * another, and some more. With FK_REACH_MIB the other says how many MiB behind the pointer they
 * begin. */
struct fk_reach {
	unsigned char param, by; /* by 0: there is none */
	unsigned short times, more;
};
enum { FK_REACH_MIB = 128 }; /* in `by' */

struct fk_kernel {
	const char *name;
	unsigned short size[7]; /* of the parameters; ends with 0 */
	void (*run)(const struct fk_block *b);
	bool together; /* its blocks wait for each other */
	struct fk_reach reach[3];
};

/* watch.c: a module is loaded, with the lock; a launch is made; it begins. */
void fk_watch_loaded(CUmodule m, CUcontext ctx);
void fk_watch_launched(struct fk_launch *l);
void fk_watch_begins(const struct fk_launch *l);
/* How much there is behind a pointer that is a parameter; a word if nothing is known. */
size_t fk_reach_of(const struct fk_launch *l, unsigned i);
/* Where that begins. */
uint64_t fk_reach_from(const struct fk_launch *l, unsigned i);
uint64_t fk_launch_param(const struct fk_launch *l, unsigned i);

/* freeze.c, around what runs; with the lock. */
void fk_freeze_begins(const struct fk_work *w);
void fk_freeze_ended(const struct fk_work *w);

struct fk_op {
	struct fk_op *next;
	struct fk_work work;
	struct fk_channel *channel; /* NULL: none */
	uint64_t ticket;            /* its place there */
	unsigned n;
	struct fk_point after[];
};

/* A record of an event: shared by the event and the commands that wait for it. */
struct fk_record {
	_Atomic unsigned refs;
	struct fk_point at;
	uint64_t ns; /* when it completed; the point tells whether it has */
};

#define FK_LIMITS 5

/* A green context is one as well, on the primary one of its device. */
struct CUctx_st {
	struct CUctx_st *next;
	bool live, primary;
	CUdevice dev;
	unsigned retained;
	uint64_t bytes; /* that it takes of the device's memory */
	CUstream legacy;
	struct fk_hw *hw; /* NULL: each stream has a queue of its own; green: the primary one's */
	CUgreenCtx green; /* or NULL */
	const void *current; /* green: to one thread at a time */
	unsigned stacked;    /* how often it is on the stacks of threads */
	size_t limit[FK_LIMITS];
};

struct CUgreenCtx_st {
	struct CUctx_st ctx;
	unsigned first, sms; /* multiprocessors */
};

enum fk_kind { FK_OWN, FK_LEGACY, FK_PER_THREAD };

enum fk_pool { FK_COMPUTE, FK_TO_DEVICE, FK_TO_HOST, FK_WITHIN, FK_POOLS };

/* Never freed: those that are destroyed and empty serve again, so that old points stay true. */
struct CUstream_st {
	struct CUstream_st *next;
	CUcontext ctx;
	enum fk_kind kind;
	uint64_t id; /* never used again */
	bool live;
	const void *thread; /* of a per-thread default stream */
	unsigned flags;
	int priority;
	struct fk_channel *channel[FK_POOLS]; /* NULL: none */
	struct fk_op *head, **tail;
	const struct fk_work *running; /* told where there is virtual memory */
	uint64_t submitted, done;
	pthread_cond_t wake, changed; /* for its worker; for those who wait for a point */
	const unsigned char *guard;   /* control block of its latest guarded launch, or NULL */
	bool guard_of_graph;          /* which was one of a graph's */
	struct fk_capture *capture;
	struct fk_nodes *leaves; /* the nodes that the next one depends on, while it captures */
};

struct CUevent_st {
	struct CUevent_st *next;
	CUcontext ctx; /* not a green one */
	unsigned flags;
	struct fk_record *record;   /* the latest, or NULL */
	struct fk_capture *capture; /* it was recorded into a capture last; or NULL */
	struct fk_nodes *leaves;
};

struct fk_nodes {
	unsigned n;
	CUgraphNode node[];
};

struct CUgraphNode_st {
	struct CUgraphNode_st *next;
	struct fk_work work;
	struct fk_nodes *after;
	CUgraphNode origin; /* in the graph that its own is a clone of */
	size_t number;      /* of those ever added to its graph; of a clone, to what it is one of */
	bool early;         /* what it comes behind may not have ended when it begins */
	bool mark;
};

/* Nodes stand in the order in which they were added, which any replay may keep. Kept by the
 * program, by a capture, and by what was made of it. */
struct CUgraph_st {
	struct CUgraph_st *next;
	_Atomic unsigned refs;
	CUgraphNode first, *last;
	size_t n, added;        /* nodes; and with those that are gone */
	CUuserObject object[4]; /* that it keeps; the rest NULL */
};

struct fk_capture {
	uint64_t id;
	unsigned refs; /* streams and events */
	int mode;
	bool invalid, ended;
	CUstream origin;
	const void *thread;
	CUgraph graph;
	bool shared; /* the program has the graph already */
};

#define FK_DEVICES           8
#define FK_PRIORITY_GREATEST (-5)  /* of streams */
#define FK_SMS               132   /* of each: multiprocessors */
#define FK_PARAMS_MAX        32764 /* bytes of a kernel's parameters */

struct fk {
	pthread_mutex_t lock;
	bool inited, forked;
	bool waits_unlocked;       /* calls that wait for the device hold up no others */
	bool one_by_one;           /* a channel executes one command after the other */
	_Atomic fm_cu_result lost; /* what every call answers from now on */
	_Atomic unsigned kernels;  /* begun so far */
	_Atomic bool refuse[FAKE_CUDA_THINGS];
	bool frozen;      /* memory moves (freeze.c) */
	unsigned working; /* commands that run */
	CUcontext contexts;
	CUstream streams;
	CUevent events;
	struct CUctx_st primary[FK_DEVICES];
	uint64_t captures; /* begun so far */
};
extern struct fk fk;

struct fk_thread {
	CUcontext stack[16];
	unsigned depth;
	int capture_mode;
	bool per_thread; /* the call is of the variant for per-thread default streams */
	bool in_callback;
};
extern _Thread_local struct fk_thread fk_self;

#define FK_TRY(call)                       \
	do {                               \
		fm_cu_result rc_ = (call); \
		if (rc_)                   \
			return rc_;        \
	} while (0)

/* fails.c: how this call of that name fails, or 0. */
fm_cu_result fk_fails(const char *call);
void fk_fails_in_child(void);

/* device.c: enter with the lock taken if it succeeds, leave gives `rc` back. */
fm_cu_result fk_enter(void);                /* needs cuInit() */
fm_cu_result fk_enter_ctx(void);            /* and a current context */
fm_cu_result fk_leave(fm_cu_result rc);     /* a device that is lost has the last word */
fm_cu_result fk_leave_any(fm_cu_result rc); /* of calls that ask no device */
void fk_lose(fm_cu_result rc);              /* with the lock */
CUcontext fk_ctx(void);
bool fk_ctx_known(CUcontext ctx);
uint64_t fk_now(void);
const char *fk_env(const char *name); /* NULL unless set to something but 0 */
bool fk_thin(void);           /* FAKE_CUDA_THIN: what a call costs is in front of the driver */
void fk_at(const char *call); /* fake_cuda_at(). Without the lock */
#define FK_UNDEFINED ((void *)0x5ead)
void fk_defined(const void *handle); /* ends the process if it is what such a call returned */

/* devices.c */
fm_cu_result fk_device(
	const void *out, CUdevice dev); /* is it one, and is there room for an answer? */
/* Of its memory; false: there is not so much left. */
bool fk_memory_take(CUdevice dev, uint64_t bytes);
void fk_memory_give(CUdevice dev, uint64_t bytes);
uint64_t fk_memory_left(CUdevice dev);

/* channels.c */
void fk_channels_open(CUcontext ctx);
void fk_channels_close(CUcontext ctx);

/* hwqueues.c; all with the lock, and they may let it go meanwhile where they say that they wait. */
void fk_hw_open(CUcontext ctx);
void fk_hw_idle(CUstream s); /* it has nothing pending any more */
void fk_hw_wake_all(void);
/* Wait until nobody waits for the device with the context's lock; and be the one who does. NULL: no
 * context. */
void fk_hw_lock(CUcontext ctx);
bool fk_hw_hold(CUcontext ctx);
void fk_hw_let_go(CUcontext ctx, bool held);
/* The channel for a command that is put next: waits until it has room. */
struct fk_channel *fk_hw_room(CUstream s, const struct fk_work *w);
/* What else it comes after; how many. */
unsigned fk_hw_after(CUcontext ctx, struct fk_point *after);
void fk_hw_put(CUstream s, struct fk_op *op, struct fk_channel *c);
void fk_hw_turn(const struct fk_op *op); /* waits until it is at the head */
void fk_hw_begins(const struct fk_op *op);
void fk_hw_ended(const struct fk_op *op);
/* Is about to be launched: waits for the device if that is the first time, or says that what comes
 * later has to wait for it. */
bool fk_hw_first(const struct fk_launch *l);
void fk_hw_load(CUfunction f);

/* context.c */
fm_cu_result fk_ctx_revive(CUcontext ctx);
void fk_ctx_kill(CUcontext ctx);
fm_cu_result fk_primary_retain(CUdevice dev);
void fk_primary_release(CUdevice dev);

/* queue.c; all with the lock */
fm_cu_result fk_stream_new(CUcontext ctx, enum fk_kind kind, unsigned flags, CUstream *stream);
fm_cu_result fk_stream_find(CUstream handle, CUstream *stream); /* resolves the default streams */
fm_cu_result fk_submit(CUstream s, const struct fk_work *work, const struct fk_point *after,
	unsigned n, struct fk_point *at);
/* Into the stream of that handle, or into its capture; the work is taken over in any case. at may
 * be NULL; *at is empty for a capture. */
fm_cu_result fk_enqueue(CUstream handle, struct fk_work *work, struct fk_point *at);
struct fk_point fk_tail(CUstream s);
bool fk_passed(struct fk_point at);
void fk_wait(struct fk_point at); /* lets the lock go meanwhile */
void fk_wake_all(void);
void fk_wait_ctx(CUcontext ctx);
void fk_work_end(struct fk_work *w);
void fk_work_share(struct fk_work *copy); /* of a work that lives on */

/* event.c */
void fk_record_put(struct fk_record *r);
bool fk_event_known(CUevent event);
void fk_events_ctx_gone(CUcontext ctx);
fm_cu_result fk_record_on(CUevent e, CUstream s);

/* memory.c */
enum fk_place { FK_PAGEABLE, FK_HOLE, FK_PINNED, FK_DEVICE };
struct fk_memory {
	CUcontext ctx;
	void *p;
	size_t size;
	uint64_t id;
	enum fk_place place;
	bool registered; /* not allocated by a call for memory */
	bool managed;
};
enum fk_place fk_place(const void *p);
bool fk_reachable(const void *p); /* by the device */
bool fk_memory_find(const void *p, struct fk_memory *m);
bool fk_touches(CUdeviceptr at);         /* the device does; where nothing is it is lost */
bool fk_writable(const void *p);         /* by the device */
bool fk_within(const void *p, size_t n); /* are these bytes of one allocation? */
void fk_memory_ctx_gone(CUcontext ctx);
void fk_memory_init(void);           /* once */
void fk_wait_device(void);           /* with the lock of the current context */
void *fk_memory_static(size_t size); /* of a module: the device's, all zero; free() ends it */
void fk_memory_static_gone(void *p);

/* touch.c; without the lock */
/* Executes a command in its stream's thread. What touches a hole loses the device. */
void fk_run_work(struct fk_work *w);
void fk_catch(void (*run)(void *arg), void *arg);
size_t fk_extent(size_t pitch, size_t width, size_t height); /* of a rectangle, in bytes */

/* arrays.c; without the lock: where a texture's rows are, or 0 */
CUdeviceptr fk_texture_rows(uint64_t texture);
/* An address in a tensor map is not found by its value. */
#define FK_MAP_MASK UINT64_C(0x5555000000000000)

/* capture.c */
fm_cu_result fk_unsafe(void);           /* a call that captures of the mode global forbid */
fm_cu_result fk_no_capture(CUstream s); /* a call that a capturing stream forbids */
fm_cu_result fk_implicit(CUstream s); /* work for the legacy stream while a blocking one captures */
fm_cu_result fk_capture_add(CUstream s, const struct fk_work *work);
fm_cu_result fk_capture_event(CUstream s, CUevent e);
fm_cu_result fk_capture_wait(CUstream s, CUevent e);
void fk_capture_forget(CUevent e);
void fk_captures_ctx_gone(CUcontext ctx);
void fk_capture_leave(CUstream s); /* which is no more */

/* graph.c */
CUgraph fk_graph_new(void);
bool fk_graph_known(CUgraph graph);
CUgraph fk_graph_with(CUgraphNode node);           /* NULL: there is none */
CUgraphNode fk_graph_not_by_device(CUgraph graph); /* that the device cannot launch; or NULL */
struct fk_nodes *fk_nodes_copy(const CUgraphNode *node, size_t n);
/* In one dimension; false: it is in several. */
bool fk_copy_1d(const struct cu_copy_3d *c, struct fk_work *w);
/* As the program does it; an error ends the work. */
fm_cu_result fk_graph_compose(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, struct fk_work *work);
fm_cu_result fk_graph_add(
	CUgraph g, const struct fk_work *work, struct fk_nodes *after, CUgraphNode *node);
void fk_graph_put(CUgraph g);
void fk_graph_publish(CUgraph g);             /* the program has it now */
CUgraph fk_graph_of(const struct fk_work *w); /* if it is one; or NULL */
struct cu_kernel_node fk_node_v1(const void *v1);
fm_cu_result fk_node_set(struct fk_work *at, const struct cu_kernel_node *k);

/* exec.c */
CUgraph fk_plan_graph(const struct fk_work *w); /* if it is a plan; or NULL */
/* Its works, the next ones from *i on; NULL: there are no more. */
const struct fk_work *fk_plan_next(const struct fk_plan *p, size_t *i);

/* nodes.c */
enum { NODE_KERNEL, NODE_COPY, NODE_FILL, NODE_HOST, NODE_GRAPH, NODE_EMPTY };
enum { NODE_RECORD = 7, NODE_ALLOC = 10, NODE_FREE, NODE_WORDS };
bool fk_node_records(const struct fk_work *w); /* an event, each time */
int fk_work_type(const struct fk_work *w);     /* as a node's */

/* module.c */
struct fk_variables {
	_Atomic unsigned refs; /* the module's and its launches' */
	bool *launched;        /* of each of its functions; with the lock */
	unsigned n;
	struct {
		const char *name;
		void *at;
		size_t size;
	} variable[];
};
struct CUfunc_st {
	const struct fk_entry *entry; /* of the module's image */
	CUmodule module;
	unsigned dynamic; /* shared memory that a launch may have besides; 0: as if never set */
	unsigned block[3], size; /* and parameters: for the launches that take none */
	unsigned char *params;
	uint64_t bytes; /* that its code takes of the device's memory */
	bool broken;    /* there was none */
};
fm_cu_result fk_load_code(CUfunction f, bool asked); /* launch.c */
CUfunction fk_function(CUfunction f); /* NULL: it is none; that of the context, for a CUkernel */
struct fk_image *fk_module_image(CUmodule m);
struct fk_variables *fk_module_variables(CUmodule m);
CUfunction fk_module_function(CUmodule m, unsigned i);
void *fk_variable(const struct fk_launch *l, const char *name);
void *fk_variable_if(const struct fk_launch *l, const char *name); /* NULL: there is none */
void fk_variables_put(struct fk_variables *v);
fm_cu_result fk_module_new(struct fk_image *image, CUlibrary library, CUmodule *out);
void fk_module_free(CUmodule m);
CUmodule fk_module_of(CUlibrary library, CUcontext ctx); /* of any, if NULL; NULL: there is none */
void fk_modules_ctx_gone(CUcontext ctx);

/* library.c */
CUfunction fk_kernel_function(CUfunction f); /* f is a CUkernel, or NULL comes back */

/* launch.c: a launch as a work; the function and the shape are checked. */
fm_cu_result fk_kernel_work(struct fk_work *w, CUfunction f, const unsigned *grid,
	const unsigned *block, unsigned shared, void **params, void **extra);
struct fk_launch *fk_work_launch(const struct fk_work *w); /* if it is one; or NULL */

/* guardian.c */
/* Before a command: may it run? What is not a guarded launch may not while blocks of one in front
 * of it are left out. With the lock. */
void fk_guard_check(CUstream s, const struct fk_work *w);
/* The same, before a graph, and before each of its nodes. Without the lock. */
void fk_guard_check_graph(const struct fk_plan *p);
void fk_guard_check_node(const struct fk_work *w);
/* The stream whose thread this is. */
extern _Thread_local CUstream fk_worker;
bool fk_launch_guarded(const struct fk_launch *l);
/* Likewise, in mode 3: as a part of a graph that is launched again as it is. */
bool fk_launch_in_row(const struct fk_launch *l);
/* It may begin early: its guardian has to wait, or it itself. */
void fk_launch_early(const struct fk_launch *l);
/* Does an attribute of it say so? */
bool fk_launch_overlaps(const struct fk_launch *l);
void fk_launch_run(const struct fk_launch *l);
/* For a block that waits for what others do: lets the processor go. False: it waits in vain. */
bool fk_block_pause(const struct fk_block *b);
/* The multiprocessor on which it runs: any that its stream's context has. */
unsigned fk_block_sm(const struct fk_block *b);
/* Is the launch's stop word set? */
bool fk_block_stopped(const struct fk_block *b);

/* In a kernel with a loop, whose threads all go through it together, with a value each. Where it
 * begins: in which round. What was left is taken back. */
uint32_t fk_loop_begin(const struct fk_block *b, uint32_t *v);
/* Before a round. True: it is left here, and the block ends. */
bool fk_loop_leaves(const struct fk_block *b, uint32_t round, const uint32_t *v);

/* In a kernel that may be killed. True: its block ends here, and nothing is kept of it. */
bool fk_kill_leaves(const struct fk_block *b);

/* turns.c: a block is at work for so long, and uses no processor meanwhile. Returns how long that
 * was; lost: it was another process's turn so often in between. */
uint64_t fk_take(uint64_t ns, uint64_t *lost);

/* kernels.c */
const struct fk_kernel *fk_kernel_find(const char *name);
/* nets.c: those of examples/server */
const struct fk_kernel *fk_net_find(const char *name);
/* again.c: those of tests/data/again, which make their own marks of device/accessed.h */
const struct fk_kernel *fk_again_find(const char *name);
/* sets.c */
void fk_set(const struct fk_block *b);
void fk_rows_chunk(const struct fk_block *b);
void fk_rows_store(const struct fk_block *b);
void fk_rows_toil(const struct fk_block *b);
/* set_graphs.c */
void fk_set_graph(const struct fk_block *b);
void fk_set_graphs_heard(const struct fk_block *b);
void fk_graph_chunk(const struct fk_block *b);
void fk_graph_meet(const struct fk_block *b);
void fk_graph_launches(const struct fk_block *b);
/* science.c: those of bench/science.h */
const struct fk_kernel *fk_science_find(const char *name);

/* What the real driver would not forgive, or answers with nonsense, and no test may do: says so and
 * ends the process. */
__attribute__((noreturn, format(printf, 1, 2))) void fk_die(const char *fmt, ...);
