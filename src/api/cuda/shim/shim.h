/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: the table of calls at run time, and the map from streams to XQueues.
 *
 * Owns: the table of the driver's functions; an entry for each stream; what is known of contexts,
 * graphs, code and events.
 *
 * Locks: those of shim/queues.h and api/cuda/core; its own over the table, sole context, code,
 * graphs, partitions, watches and groups. docs/design/locks.md has their order.
 *
 * Threads: any thread of the program, in calls that it makes; the agent, in the hwqueues'
 * operations; the teller (watch.c), which calls the program.
 */
#pragma once
#include "api/cuda/core/cuda.h"
#include "keys.h"
#include "shim/queues.h"
#include "watch.h"

#define EXPORT __attribute__((visibility("default")))

/* --- hook.c: the driver's functions and ours --- */

/* What a call has to do with code. Where no images are rewritten, and no memory is managed,
 * programs get the driver's functions, but for those that need room on the device (LOADS). By the
 * facts of the table. */
enum fm_cuda_images {
	FM_CUDA_NO_IMAGES,
	FM_CUDA_IMAGES_LOADS,
	FM_CUDA_IMAGES_,
	FM_CUDA_IMAGES_KERNEL_NODE = FM_CUDA_IMAGES_,
	FM_CUDA_IMAGES_OLD_KERNEL_NODE = FM_CUDA_IMAGES_,
	FM_CUDA_IMAGES_OTHER_NODE = FM_CUDA_IMAGES_,
	FM_CUDA_IMAGES_WORDS_NODE = FM_CUDA_IMAGES_,
	FM_CUDA_IMAGES_NAMES_BY_HAND = FM_CUDA_IMAGES_,
};

/* A row of the table of calls (api/cuda/calls.def), once for each clone. */
struct fm_cuda_call {
	const char *symbol, *name;
	const char *absent; /* the symbol with a mark (hook.h) */
	int since;
	bool per_thread;
	uint8_t code; /* enum fm_cuda_images */
	void *wrapper;
	_Atomic(void *) next; /* the driver's; NULL: not looked for yet */
};

#define ON_other(kind, symbol, ...) FM_CUDA_##symbol,
enum fm_cuda_id {
#include "api/cuda/calls.def"
	FM_CUDA_CALLS
};
extern struct fm_cuda_call fm_cuda_calls[FM_CUDA_CALLS];

/* The functions that programs call. Each is also the symbol that a program gets if it is linked to
 * the driver itself. */
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	EXPORT fm_cu_result symbol CALL_PARAMS(params);
#include "api/cuda/calls.def"

/* Looks for the driver's function, which is called as `fn args`. If there is none, returns a
 * function that reports this, whatever its parameters. */
FM_COLD void *fm_cuda_resolve(enum fm_cuda_id id);
static inline void *fm_cuda_next(enum fm_cuda_id id)
{
	void *next = atomic_load_explicit(&fm_cuda_calls[id].next, memory_order_relaxed);

	return FM_LIKELY(next) ? next : fm_cuda_resolve(id);
}

/* Call the driver's function of that name: NEXT(cuStreamDestroy, (stream)). Or another one, which
 * takes the same parameters: one of its clones. */
#define NEXT(symbol, args)        NEXT_AS(symbol, FM_CUDA_##symbol, args)
#define NEXT_AS(symbol, id, args) (((__typeof__(&symbol))fm_cuda_next(id))args)

/* A function of the driver that is in no table; NULL if it is not there. */
void *fm_cuda_symbol(const char *symbol);
/* Several of them, from a list of X(name here, symbol, parameters). MEMBER: the members of a
 * struct. FIND: finds them; c points to such a struct. `all` keeps its value if none is missing. */
#define FM_CUDA_MEMBER(name, symbol, params) fm_cu_result(*name) params;
#define FM_CUDA_FIND(name, symbol, params)                        \
	c->name = (fm_cu_result(*) params)fm_cuda_symbol(symbol); \
	all = all && c->name;
/* What we call ourselves; NULL if no driver is loaded. */
const struct fm_cu_driver *fm_cuda_driver(void);
void fm_cuda_driver_fork_child(void);

/* --- queues.c --- */

/* The first line, and the first of hw, are what launches read or write. */
struct fm_cuda_queue {
	FM_LINE FM_SHIM_ENTRY;
	_Atomic uint64_t guarded; /* launches */
	_Atomic uint32_t awaits;  /* waits put into it so far (guarded.h, fm_cuda_awaits), */
	uint32_t marked;          /* and how many of them are marked, under its order */
	_Atomic uint64_t told_at; /* the launches at which its share was last computed: */
	_Atomic unsigned part;
	_Atomic bool ordered;  /* what only orders may wait for others, before the next copy */
	_Atomic bool unsealed; /* kernels were captured that a graph could leave blocks of out */
	bool blocking;         /* the legacy stream and this one wait for each other */
	bool bound;            /* the program bound it to a group of its choice, */

	FM_LINE struct fm_cu_queue hw;
	unsigned group;              /* of the client */
	CUgreenCtx green;            /* the green context of the stream, if it matters; or NULL */
	struct fm_cuda_watch *watch; /* to be told of stops; or NULL */
	unsigned all_sms, place_sms; /* multiprocessors: of the device, and of the stream's part */
};

/* Takes the place in the map of a stream that could not be given an XQueue. */
extern struct fm_cuda_queue fm_cuda_refused __attribute__((visibility("hidden")));

/* In one clone of a call the NULL stream is the thread's own, in the other the context's. */
static inline CUstream fm_cuda_stream(CUstream stream, bool per_thread)
{
	if (FM_LIKELY(stream))
		return stream;
	return per_thread ? FM_CU_STREAM_PER_THREAD : FM_CU_STREAM_LEGACY;
}

static inline bool fm_cuda_is_default(CUstream stream)
{
	return (uintptr_t)stream <= (uintptr_t)FM_CU_STREAM_PER_THREAD;
}

/* What each launch reads in addition to its queue, in one cache line. */
extern struct fm_cuda_hot {
	/* Nonzero: launches need more than counting. FM_CUDA_EVER: something is rewritten or bound,
	 * or may be. FM_CUDA_CAPTURE is added once for each capture under way. */
	FM_LINE _Atomic unsigned careful;
	/* contexts.c: the queue of the legacy stream, if this process has only ever had one context
	 * current; NULL: it has had several, or that queue is not in the map. */
	_Atomic(struct fm_cuda_queue *) sole;
	_Atomic(struct fm_xq *) sole_xq;
} fm_cuda_hot __attribute__((visibility("hidden")));
#define FM_CUDA_EVER    1u
#define FM_CUDA_CAPTURE 2u
static inline void fm_cuda_be_careful(void)
{
	atomic_fetch_or(&fm_cuda_hot.careful, FM_CUDA_EVER);
}

/* The context has become current to a thread. */
void fm_cuda_becomes_current(CUcontext ctx);
/* Has more than one context been current, or was there a stream of a green one? */
bool fm_cuda_several_contexts(void);
void fm_cuda_green_stream(void);
/* The queue has entered the map, or has left it. Called under the lock of the map. */
void fm_cuda_sole_made(struct fm_cuda_queue *q);
void fm_cuda_sole_gone(struct fm_cuda_queue *q);
void fm_cuda_contexts_fork_child(void);

struct fm_cuda_queue *fm_cuda_find_default(CUstream stream);

/* stream: of fm_cuda_stream(). NULL: none yet. */
static inline struct fm_cuda_queue *fm_cuda_find(CUstream stream)
{
	if (!fm_cuda_is_default(stream))
		return fm_shim_look_up((uintptr_t)stream);
	if (stream == FM_CU_STREAM_LEGACY) {
		struct fm_cuda_queue *q =
			atomic_load_explicit(&fm_cuda_hot.sole, memory_order_acquire);

		if (FM_LIKELY(q))
			return q;
	}
	return fm_cuda_find_default(stream);
}

/* The stream's queue if it has an XQueue, or NULL. */
static inline struct fm_cuda_queue *fm_cuda_find_governed(CUstream stream)
{
	struct fm_cuda_queue *q = fm_cuda_find(stream);

	return q == &fm_cuda_refused ? NULL : q;
}

/* Does the queue have a guard, though it must never be stopped in the middle of a kernel? */
static inline bool fm_cuda_by_wish_whole(const struct fm_cuda_queue *q)
{
	return q->xq->levels & 1u << FM_LEVEL_RUNNING && q->xq->level < FM_LEVEL_RUNNING;
}

/* The first launch on a stream makes its queue. NULL: the launch bypasses us, and is counted as a
 * call of that name. */
FM_COLD struct fm_cuda_queue *fm_cuda_first(
	CUstream stream, const struct fm_cuda_queue *found, const char *call);

/* The key of a stream in the map; 0: it has none now (no context). */
uintptr_t fm_cuda_key(CUstream stream);

CUcontext fm_cuda_current(void); /* the thread's; NULL: none */

/* The domain of what runs in a context (board.h). */
uint32_t fm_cuda_domain(const struct fm_cu_driver *cu, CUcontext base);

/* server.c: functions of <fermata/cuda.h>. */
/* For <fermata/bind.h>. */
int fm_cuda_bind_any(void *queue, const struct fm_binding *b);
int fm_cuda_unbind_any(void *queue);

/* room.c: functions of <fermata/cuda.h>. Sets all_sms and place_sms; a context of the queue's
 * device is current. */
void fm_cuda_room_learn(struct fm_cuda_queue *q, CUstream stream);

/* partition.c: functions of <fermata/cuda.h>. Where are the streams of a green context? */
enum fm_cuda_place fm_cuda_place_of(CUgreenCtx green);
/* What fm_cu_queue.pad_green is: outside of the partition, if there is one. */
int fm_cuda_pad_green(CUcontext base, unsigned k, CUgreenCtx *green, unsigned *all);
/* The driver has ended the context. */
void fm_cuda_partition_ends(CUcontext ctx);
void fm_cuda_partition_gone(CUcontext ctx);
void fm_cuda_partition_fork_child(void);
/* Has no stream of a green context had work for this long, as far as is known? */
bool fm_cuda_idle_for(CUgreenCtx green, uint64_t ns);

/* What a program binds a stream to. */
struct fm_cuda_terms {
	unsigned group;
	enum fm_level level;
	struct fm_cuda_watch *watch; /* taken over, unless it fails */
};
/* priority.c: a stream was created so, ends; the index of the group that it joins thereby. Without
 * --by-stream-priority: 0, the process's own. */
void fm_cuda_priority_created(CUstream stream, int priority);
void fm_cuda_priority_ends(CUstream stream);
unsigned fm_cuda_priority_group(struct fm_client *c, CUstream stream);
void fm_cuda_priority_fork_child(void);
/* The stream is idle, and no other thread uses it. Makes its XQueue anew by these terms. 0;
 * -EINVAL: it is no stream; -EBUSY: it is not idle, or something is being captured; -ENOSPC;
 * -ENODEV. */
int fm_cuda_bind_queue(CUstream stream, const struct fm_cuda_terms *terms);
/* -ENOENT: it was not bound. -EBUSY. */
int fm_cuda_unbind_queue(CUstream stream);
/* What is known of a stream that has an XQueue, for a thread that does not launch on it. It has a
 * reference to the XQueue (fm_xq_unref). False: there is no XQueue. */
struct fm_cuda_view {
	struct fm_xq *xq;
	bool bound;
	unsigned group;
	uint64_t stops;
	uint64_t guarded; /* launches */
	unsigned all_sms, place_sms;
};
bool fm_cuda_view(CUstream stream, struct fm_cuda_view *v);

/* How far a queue had come at some time. The queue is named, because it may be gone when the mark
 * is used. */
struct fm_cuda_mark {
	uintptr_t key;
	uint64_t generation;
	uint64_t mark; /* work launched (fm_xq_mark) */
	uint64_t all;  /* and all that only orders it */
	uint64_t ours; /* and our own entries; 0: not known */
};

static inline struct fm_cuda_mark fm_cuda_mark(struct fm_cuda_queue *q)
{
	uint64_t mark = fm_xq_mark(q->xq);

	return (struct fm_cuda_mark){.key = q->key,
		.generation = q->generation,
		.mark = mark,
		.all = fm_cu_all(&q->hw, fm_xq_own_mark(q->xq, mark)),
		.ours = atomic_load(&q->hw.ours_put)};
}

/* The driver has said that the queue was idle, and as far as is known the program has not begun to
 * put anything into it since. */
static inline bool fm_cuda_known_idle(struct fm_cuda_queue *q)
{
	uint64_t idle_at = atomic_load(&q->hw.idle_at);

	return idle_at >= fm_xq_own_begun(q->xq) + fm_count_sum(&q->hw.orders);
}

/* The driver has said that everything before m is finished. The caller owns a use of q. since: as
 * in fm_xq_waited(). */
static inline void fm_cuda_finished(
	struct fm_cuda_queue *q, const struct fm_cuda_mark *m, uint64_t since)
{
	fm_cu_idle_at(&q->hw, m->all, m->ours);
	fm_xq_waited(q->xq, m->mark, since);
}

void fm_cuda_synced(const struct fm_cuda_mark *m, size_t n, uint64_t since);
/* Marks of all queues of a context, at most FM_BOARD_SLOTS; returns how many. */
size_t fm_cuda_marks(CUcontext ctx, struct fm_cuda_mark *m);

/* The XQueues of a context, or of all if ctx is NULL, for which both predicates are true (NULL:
 * always true). Each has a reference (fm_xq_unref). Returns how many. */
size_t fm_cuda_keep(CUcontext ctx, struct fm_xq **xq, bool (*is)(const struct fm_cuda_queue *q),
	bool (*besides)(const struct fm_cuda_queue *q));
/* The queue of a context's legacy stream; NULL: none. */
struct fm_cuda_queue *fm_cuda_find_legacy(CUcontext ctx);

/* Call these before the driver's call that ends the stream or the context. */
void fm_cuda_close_stream(CUstream stream);
void fm_cuda_close_context(CUcontext ctx);
/* This thread's own default streams, which end with it. */
void fm_cuda_close_thread(void);

/* --- nodes.c --- */
/* The parameters of a node as the driver is given them: `what`, or *copy, with ours in `a` and
 * `room` (of fm_cuda_node_room(what)). NULL: the driver would not take them. */
struct fm_cuda_args;
size_t fm_cuda_node_room(const struct CUgraphNodeParams_st *what);
struct CUgraphNodeParams_st *fm_cuda_node(struct CUgraphNodeParams_st *what,
	struct CUgraphNodeParams_st *copy, struct fm_cuda_args *a, void *room);

/* --- events.c: what an event stands behind (events.h). Lossy: the last 1024 or so. --- */
void fm_cuda_events_clear(void);
/* Graphs record events from now on. It is not known which, and when, so nothing is known of any
 * event then. */
FM_COLD void fm_cuda_events_in_graph(void);

/* --- capture.c --- */
FM_COLD bool fm_cuda_capturing(CUstream stream); /* also if it is not known */
void fm_cuda_capture_begin(void);
void fm_cuda_capture_begun(CUstream stream, fm_cu_result rc);
void fm_cuda_capture_ended(CUstream stream);
/* fm_cuda_captures_look: a context is about to end, so find out which captures are in it.
 * fm_cuda_captures_gone: it has ended. */
void fm_cuda_captures_look(void);
void fm_cuda_captures_gone(CUcontext ctx);
/* This thread ends. */
void fm_cuda_captures_of_thread_end(void);
void fm_cuda_captures_clear(void);

/* --- graph.c: in which graphs gates were captured. Lossy: nothing is known of a forgotten graph.
 * --- */
/* A capture whose graph is empty. whole: its kernels are never stopped in their middle. */
void fm_cuda_graph_begun(CUstream stream, bool whole);
void fm_cuda_graph_entered(void); /* a capture into a graph that was there */
/* The number of the capture that the stream takes part in, not 0; others may be under way as well.
 * If the driver does not tell, how many have begun. */
uint64_t fm_cuda_graph_number(CUstream stream);
/* May there be gates in the graph into which the stream is captured? The bodies of conditional
 * nodes accept none, and they cannot be told from other graphs that we have not seen made. */
bool fm_cuda_graph_takes_gates(CUstream stream);
void fm_cuda_graph_gated(CUstream stream); /* a gate was captured */
/* A launch of exec was captured, as a part of the graph. */
void fm_cuda_graph_nested(CUstream stream, CUgraphExec exec);
/* Called before a capture into the graph: what is there will be what is captured. */
void fm_cuda_graph_recaptured(CUgraph graph);
/* Is it known that there are no gates in it? Takes no lock. */
bool fm_cuda_graph_plain(CUgraphExec exec);
void fm_cuda_graphs_clear(void);
