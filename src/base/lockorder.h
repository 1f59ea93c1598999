/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of locks. A thread that has a lock waits only for locks that stand below it in
 * FM_LOCKS; docs/design/locks.md says what each guards, and why it stands where it does.
 *
 * A build with FERMATA_LOCK_ORDER (the presets debug, asan, tsan) checks that: each thread keeps a
 * list of what it has, and a lock taken out of order, or one that has no rank, ends the process
 * with a text that names both places. What is loaded into other people's programs never asserts: in
 * every other build the macros here are nothing, and lockorder.c is in no library and no program.
 *
 * A thread that only tries to take a lock may do so in any order, since it does not wait. What it
 * got counts for what it takes next. Each library that is loaded has a list of its own.
 */
#pragma once

/* From the first that is taken to the last: X(rank, lock). */
#define FM_LOCKS(X)                                                                 \
	X(PROCESS, "process.lock of xqueue/client.c")                               \
	X(CUDA_SET, "life of struct fm_cuda_set")                                   \
	X(CUDA_SETS, "sets.lock of api/cuda/shim/sets.c")                           \
	X(CUDA_MOVES, "moves.lock of api/cuda/shim/managed/mover.c")                \
	X(CUDA_GIVEN, "owner.lock of api/cuda/shim/managed/ipc.c")                  \
	X(CUDA_OPENED, "user.lock of api/cuda/shim/managed/ipc.c")                  \
	X(CUDA_VMM, "vmm.calls of api/cuda/shim/managed/vmm.c")                     \
	X(CUDA_WANTS, "wants.lock of api/cuda/shim/managed/want.c")                 \
	X(CUDA_MANAGED, "all.lock of api/cuda/shim/managed/managed.c")              \
	X(CUDA_PEERS, "peers.lock of api/cuda/shim/managed/pointer.c")              \
	X(CUDA_REGISTERED, "registered.lock of api/cuda/shim/managed/registered.c") \
	X(CUDA_NAMED, "execs.lock of api/cuda/shim/managed/named_graphs.c")         \
	X(CUDA_TEMPLATES, "images.lock of api/cuda/shim/managed/templates.c")       \
	X(CUDA_PARTS, "parts.lock of api/cuda/shim/partition.c")                    \
	X(CUDA_CODE, "lock of api/cuda/shim/guard/code.c")                          \
	X(CUDA_FUNCTIONS, "all.lock of api/cuda/shim/functions.c")                  \
	X(CUDA_SWEEP, "sweeping of api/cuda/shim/graph/graph_execs.c")              \
	X(CL_KERNEL, "lock of struct fm_shim_kernel")                               \
	X(CL_PROGRAM, "lock of struct fm_shim_program")                             \
	X(CL_LOADERS, "loaders.lock of api/opencl/shim/layer.c")                    \
	X(VK_LAYER, "lock of api/vulkan/shim/layer.c")                              \
	X(VK_DEVICE, "lock of struct fm_vk_device")                                 \
	X(ZE_TRIAL, "trials.lock of api/ze/core/trial.c")                           \
	X(SHIM_MAP, "lock of shim/queues.c")                                        \
	X(SHIM_GROUPS, "groups.lock of shim/groups.c")                              \
	X(CL_TABLE, "table.lock of api/opencl/shim/table.c")                        \
	X(CUDA_SOLE, "lock of api/cuda/shim/contexts.c")                            \
	X(API_QUEUE, "lock of struct fm_queue_lock")                                \
	X(ZE_MADE, "made.lock of api/ze/shim/queues.c")                             \
	X(SHIM_MADE, "made.lock of shim/queues.c")                                  \
	X(GPU_SEAT, "lock of struct fm_gpu_seat")                                   \
	X(XQ_ORDER, "order of struct fm_xq_cold")                                   \
	X(CUDA_COMING, "one_by_one of api/cuda/shim/guard/guarded.c")               \
	X(CUDA_LEAVING, "fm_cuda_execs_leaving")                                    \
	X(XQ, "lock of struct fm_xq_cold")                                          \
	X(CUDA_EXECS, "execs.lock of api/cuda/shim/graph/graph_execs.c")            \
	X(CU_CAPTURE, "capture_lock of api/cuda/core/cuda.c")                       \
	X(CU_GUARDS, "kept.lock of api/cuda/core/guard/guard.c")                    \
	X(CU_GRAPHS, "all.lock of api/cuda/core/guard/guard_graph.c")               \
	X(CU_STREAMS, "lock of api/cuda/core/guard/guard_streams.c")                \
	X(CU_PLACES, "lock of api/cuda/core/guard/guard_place.c")                   \
	X(CU_TURNSTILES, "lock of api/cuda/core/turnstile.c")                       \
	X(CU_SETTLE, "lock of api/cuda/core/settle.c")                              \
	X(CU_REACH, "reaches.lock of api/cuda/core/reach.c")                        \
	X(CUDA_ASYNC, "fm_cuda_async_lock of api/cuda/shim/managed")                \
	X(CUDA_MULTICAST, "bound.lock of api/cuda/shim/managed/multicast.c")        \
	X(CUDA_MAPPINGS, "vmm.lock of api/cuda/shim/managed/vmm.c")                 \
	X(CU_ARENA, "lock of struct fm_cu_arena")                                   \
	X(CU_SLICE, "rm.lock of api/cuda/core/timeslice.c")                         \
	X(SHIM_CAPTURE, "capture_lock of shim/captures.c")                          \
	X(HIP_TRIAL, "holds.lock of api/hip/core/gate.c")                           \
	X(HIP_WORDS, "words.lock of api/hip/core/gate.c")                           \
	X(ZE_GATE, "gate of struct fm_ze_hwq")                                      \
	X(VK_GATE, "gate of struct fm_vk_queue")                                    \
	X(CL_LATE, "known.lock of api/opencl/opencl.c")                             \
	X(CL_BARRIER, "barrier_lock of struct fm_cl_queue")                         \
	X(CL_GUARD, "lock of struct fm_cl_guard")                                   \
	X(XQ_GATES, "gates of struct fm_xq_cold")                                   \
	X(WATCH, "watch.lock of api/watch.c")                                       \
	X(VPI_QUEUE, "lock of struct fm_vpi_queue")                                 \
	X(SOFT_LOAD, "lock of api/soft/tool/load.c")                                \
	X(SOFT_DEVICE, "lock of struct fm_simdev")                                  \
	X(ACCOUNT, "ask of struct fm_client_memory")                                \
	X(CLIENT, "lock of struct fm_client")                                       \
	X(LOCAL, "lock of local/local.c")                                           \
	X(CUDA_MEMORY, "memory.lock of api/cuda/shim/memory/count.c")               \
	X(CUDA_TELLER, "watches.lock of api/cuda/shim/watch.c")                     \
	X(GPU_SET, "lock of struct fm_gpu_set")                                     \
	X(GPU_QUEUE, "lock of struct fm_cuda_set_queue")                            \
	X(GPU_PARK, "park of struct fm_cu_feed")                                    \
	X(GPU_READ, "reading of struct fm_cu_feed")                                 \
	X(GPU_FEED, "lock of struct fm_cu_feed")                                    \
	X(GPU_BEGIN, "lock of struct fm_cu_graphs")                                 \
	X(GPU_MODULES, "modules.lock of api/cuda/gpusched/gates.c")                 \
	X(LIB_WAITER, "lock of struct fm_waiter")                                   \
	X(LIB_HWQUEUE, "lock of struct fm_hwqueue")                                 \
	X(CUDA_TABLE, "table_lock of api/cuda/shim/hook.c")                         \
	X(SHIM_CALLS, "made_lock of shim/calls/calls.c")                            \
	X(PROFILE_LOOK, "looking of api/cuda/profile/launch.c")                     \
	X(PROFILE_TIME, "timing of api/cuda/profile/rooms.c")                       \
	X(PROFILE_CODE, "lock of api/cuda/profile/kernels.c")                       \
	X(PROFILE_GRAPHS, "lock of api/cuda/profile/graphs.c")                      \
	X(RECORD_LOOK, "looking of api/cuda/record/launch.c")                       \
	X(RECORD_AGAIN, "lock of api/cuda/record/again.c")                          \
	X(RECORD_CODE, "lock of api/cuda/record/code.c")                            \
	X(RECORD_TRACE, "the.lock of api/cuda/record/trace.c")                      \
	X(PROFILE_PATCH, "lock of api/cuda/profile/sanitizer.c")                    \
	X(CLOSING, "left.lock of daemon/deferred_close.c")                          \
	X(STUDY, "lock of struct crew, lab/study_run.c")                            \
	X(SIM_OUT, "lock of struct simulate_out")                                   \
	X(SIM_CREW, "lock of struct crew, sim/run.c")

enum fm_lock {
	FM_LOCK_NONE,
#define FM_LOCK_ROW(rank, lock) FM_LOCK_##rank,
	FM_LOCKS(FM_LOCK_ROW)
#undef FM_LOCK_ROW
		FM_LOCK_RANKS
};

#ifdef FERMATA_LOCK_ORDER
#include <pthread.h>

void fm_lockorder_set(pthread_mutex_t *m, enum fm_lock rank);
void fm_lockorder_wants(const pthread_mutex_t *m, const char *where);
void fm_lockorder_has(pthread_mutex_t *m, const char *where);
void fm_lockorder_leaves(const pthread_mutex_t *m);
/* What is waited for with a condition must be the last that was taken, for it is taken again. */
pthread_mutex_t *fm_lockorder_waits(pthread_mutex_t *m, const char *where);
/* Within fork handlers, which have reasons of their own. */
void fm_lockorder_exempt(int begins);

/* The lock is taken where it stands in the code: tests tell places by the address of the call. */
#define FM_LOCK_INLINE static inline __attribute__((always_inline))
FM_LOCK_INLINE int fm_lockorder_lock(pthread_mutex_t *m, const char *where)
{
	int rc;

	fm_lockorder_wants(m, where);
	rc = (pthread_mutex_lock)(m);
	if (!rc)
		fm_lockorder_has(m, where);
	return rc;
}
FM_LOCK_INLINE int fm_lockorder_trylock(pthread_mutex_t *m, const char *where)
{
	int rc = (pthread_mutex_trylock)(m);

	if (!rc)
		fm_lockorder_has(m, where);
	return rc;
}
FM_LOCK_INLINE int fm_lockorder_unlock(pthread_mutex_t *m)
{
	fm_lockorder_leaves(m);
	return (pthread_mutex_unlock)(m);
}

#define FM_LOCK_TEXT_(line)        #line
#define FM_LOCK_TEXT(line)         FM_LOCK_TEXT_(line)
#define FM_LOCK_HERE               __FILE__ ":" FM_LOCK_TEXT(__LINE__)
#define FM_LOCK_NAME_(name, count) name##count
#define FM_LOCK_NAME(name, count)  FM_LOCK_NAME_(name, count)

#define fm_lock_rank(m, rank) fm_lockorder_set(m, FM_LOCK_##rank)
#define FM_LOCK_RANK_AT(fn, lock, rank)                        \
	__attribute__((constructor(101))) static void fn(void) \
	{                                                      \
		fm_lockorder_set(&(lock), FM_LOCK_##rank);     \
	}                                                      \
	_Static_assert(1, "")
#define FM_LOCK_RANK(lock, rank) \
	FM_LOCK_RANK_AT(FM_LOCK_NAME(fm_rank_of_lock_, __COUNTER__), lock, rank)
#define fm_lock_fork_begin() fm_lockorder_exempt(1)
#define fm_lock_fork_end()   fm_lockorder_exempt(0)

#define pthread_mutex_lock(m)    fm_lockorder_lock(m, FM_LOCK_HERE)
#define pthread_mutex_trylock(m) fm_lockorder_trylock(m, FM_LOCK_HERE)
#define pthread_mutex_unlock(m)  fm_lockorder_unlock(m)
#define pthread_cond_wait(c, m)  (pthread_cond_wait)(c, fm_lockorder_waits(m, FM_LOCK_HERE))
#define pthread_cond_timedwait(c, m, t) \
	(pthread_cond_timedwait)(c, fm_lockorder_waits(m, FM_LOCK_HERE), t)
#else
/* The rank of a lock: of one that pthread_mutex_init() has made; beside the definition of another.
 */
#define fm_lock_rank(m, rank)    ((void)0)
#define FM_LOCK_RANK(lock, rank) _Static_assert(FM_LOCK_##rank, "")
/* Around what a fork handler takes out of order; the reason stands in docs/design/locks.md. */
#define fm_lock_fork_begin()     ((void)0)
#define fm_lock_fork_end()       ((void)0)
#endif
