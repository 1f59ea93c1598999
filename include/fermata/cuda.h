/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fermata for CUDA servers: several models in one process, each on streams of its own, and the
 * urgent one stops the others.
 *
 *	#include <fermata/cuda.h>
 *
 *	struct fm_cuda_options options = {sizeof(options), .local_policy = "fixed-priority"};
 *	struct fm_cuda_binding urgent = {.size = sizeof(urgent), .group = "urgent",
 *		.priority = FM_PRIORITY_HIGH};
 *	struct fm_cuda_binding batch = {.size = sizeof(batch), .group = "batch",
 *		.priority = FM_PRIORITY_LOW};
 *
 *	fm_cuda_init(&options);
 *	fm_cuda_bind(stream_of_the_urgent_model, &urgent);
 *	fm_cuda_bind(stream_of_the_other_model, &batch);
 *
 * The server goes on launching as before. Programs that are to be scheduled as a whole need no
 * change and not this header: see fermata-run(1).
 *
 * The functions are in libfermata-cuda.so, which also takes the driver's calls. It gets into a
 * server by being linked (-lfermata-cuda, in front of -lcuda), by LD_PRELOAD, or by `fermata run`.
 * With FERMATA_CUDA_OPTIONAL defined before this header is included, nothing needs to be linked,
 * and a server runs without Fermata, too: where the library is not there, functions return -ENOSYS
 * (fm_cuda_scheduled: false). That takes a position-independent program (the default of most
 * compilers) or library.
 *
 * Streams are CUstream or cudaStream_t, which are the same thing: no header of the vendor is needed
 * here. The default streams (NULL, legacy, per thread) cannot be bound: -EINVAL. A stream that was
 * destroyed is bound no more.
 *
 * Streams share the device's queues, 8 of them usually, and one that is stopped holds up those that
 * share its own: a process with more streams has CUDA_DEVICE_MAX_CONNECTIONS=32 in its environment,
 * the most there is, before the first call of CUDA. Copies of a bound stream wait in the call until
 * no gate is in front of them; so does, where kernels stop in their middle, what is launched while
 * its stream is stopped.
 *
 * Errors: functions return 0 or a negative errno, and what they did not do has no effect. -ENODEV:
 * Fermata is switched off (FERMATA_DISABLE=1), or there is no driver. -EINVAL: an argument makes no
 * sense, such as a `size` that is too small. Nothing prints, exits, or blocks without bound, save
 * the waits asked for. Times are nanoseconds on CLOCK_MONOTONIC.
 *
 * Threads: every function may be called from any thread, with two exceptions: while a stream is
 * bound or unbound no other thread may use it; and, as of CUDA, none may be called from a function
 * that the driver calls (cuLaunchHostFunc). After fork() the child has no streams, as in CUDA,
 * and nothing is bound; fm_cuda_init still holds.
 */
#ifndef FERMATA_CUDA_H
#define FERMATA_CUDA_H
#include <fermata/hint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef FERMATA_CUDA_OPTIONAL
#include <errno.h>
#define FM_CUDA_API __attribute__((weak))
#else
#define FM_CUDA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

#ifndef FM_FOREVER
#define FM_FOREVER UINT64_MAX
#endif

/*
 * Optional, before the first command of any stream and the first binding: -EBUSY afterwards. With
 * the guardian before the program, or the CUDA runtime for it, has looked for the driver's
 * functions that load kernels: as the first thing that has to do with CUDA. -EBUSY afterwards, too,
 * for those would not be rewritten. NULL: the defaults.
 */
struct fm_cuda_options {
	size_t size; /* sizeof(struct fm_cuda_options) */
	/* "fixed-priority", "fair slice=2", ...: schedule in this process, without a daemon. NULL:
	 * as the environment says (FERMATA_LOCAL, FERMATA_SOCKET), else by the user's or the
	 * system's daemon, if there is one. With neither, everything runs at once. */
	const char *local_policy;
	/* Stop kernels between two of their blocks (level 3), not only between two kernels. A wish:
	 * fm_cuda_query tells what a stream can do. FERMATA_GUARDIAN=1 says the same. */
	bool guardian;
	/* While groups share the device, Fermata's thread keeps looking for so long before it
	 * sleeps: it stops others, and lets them go on, some ten microseconds earlier each time,
	 * and needs a processor for itself. At most 10 ms; 0: as FERMATA_SPIN_US says, else it
	 * sleeps at once. */
	uint64_t spin_ns;
};
FM_CUDA_API int fm_cuda_init(const struct fm_cuda_options *options);

/* Is this process scheduled at present, by a daemon or by itself? */
FM_CUDA_API bool fm_cuda_scheduled(void);

/*
 * Bind a stream to a group. The group is what is scheduled: streams of equal group run and stop
 * together, in this process and in others of the same user that use the name; at most 15 names in a
 * process, which live as long as it does (-ENOSPC). Likewise, a 129th stream under the
 * scheduler, of which one that was destroyed is one until its work is done. Names are printable
 * ASCII without spaces, quotes and slashes, at most 63 (-EINVAL).
 *
 * The stream must be idle: -EBUSY while it has unfinished commands (cuStreamSynchronize helps) or
 * any stream is being captured. A stream that was bound before is bound anew. The strings and the
 * structure are not kept. A graph that is captured on a stream of level 2 does not stop
 * inside kernels, wherever it is launched.
 *
 * The functions are told when the stream loses the device and gets it back. preempted: it has
 * unfinished commands, and has come to rest at a gate or inside a kernel, for the scheduler or
 * fm_cuda_suspend has stopped it; also where it had come to have work while it was stopped.
 * resumed: it may go on; always after a preempted, except that after unbinding nothing is told.
 * They are called in a thread of Fermata's own, one at a time for all streams, soon after: a stop
 * that is over within some ten microseconds may never be told. They may call all functions of this
 * header and of CUDA, and may block, which delays other callbacks and nothing else. After
 * fm_cuda_unbind, or cuStreamDestroy, has returned none begins; fm_cuda_unbind also waits for one
 * that is under way in another thread.
 */
#define FM_CUDA_PRIORITY_KEEP INT32_MIN
typedef void fm_cuda_callback(struct CUstream_st *stream, uint64_t at_ns, void *ctx);
struct fm_cuda_binding {
	size_t size;       /* sizeof(struct fm_cuda_binding) */
	const char *group; /* NULL: the process's own */
	int32_t priority;  /* of the group, FM_PRIORITY_*; larger: more urgent. Or _KEEP */
	unsigned level;    /* deepest level of preemption to use; 0: what the stream can */
	fm_cuda_callback *preempted, *resumed; /* NULL: not told */
	void *ctx;                             /* for them */
};
FM_CUDA_API int fm_cuda_bind(struct CUstream_st *stream, const struct fm_cuda_binding *binding);
/* Back to the process's own group, without callbacks. -ENOENT: it is not bound. -EBUSY: as above.
 */
FM_CUDA_API int fm_cuda_unbind(struct CUstream_st *stream);

/* Another hint of the stream's group: <fermata/hint.h>. -ENOENT: not bound. -ERANGE. */
FM_CUDA_API int fm_cuda_hint(struct CUstream_st *stream, enum fm_hint hint, int64_t value);

/*
 * Suspend a bound stream, whatever the policy says, and let it go on. While it is suspended its
 * commands wait in front of the device, and others have the device; a launch into a stream at level
 * 1 blocks. Whoever waits for the stream (cuStreamSynchronize) waits until it is resumed. Both are
 * idempotent, and do not count. wait: until the device has let go of it: -ETIMEDOUT after
 * timeout_ns (suspended all the same). How long that takes depends on the level: with 2, until the
 * commands before its next gate are finished, some hundred microseconds or one command. -ECANCELED:
 * it was resumed, or destroyed, meanwhile. -ENOENT: not bound.
 */
FM_CUDA_API int fm_cuda_suspend(struct CUstream_st *stream, bool wait, uint64_t timeout_ns);
FM_CUDA_API int fm_cuda_resume(struct CUstream_st *stream);

/* Of a bound stream, or of one that has been launched into: else -ENOENT. */
struct fm_cuda_info {
	size_t size;            /* set by the caller: sizeof(struct fm_cuda_info) */
	unsigned level, levels; /* in use; bits (1 << level) of what can be done here */
	/* Commands: those known to be finished, which may lag while nobody waits for them. */
	uint64_t submitted, completed;
	uint64_t device_ns;   /* device time used, of finished commands */
	uint64_t gates;       /* placed */
	uint64_t preemptions; /* stops as preempted() is told of; counted where it was given */
	uint64_t interrupts;  /* stops in the middle of a kernel */
	uint64_t guarded;     /* launches that could be stopped so */
	/* Of the process, with the guardian: kernels that were rewritten for that; and kernels, and
	 * whole images, that were left as they are. */
	uint64_t kernels, kernels_left, images_left;
	bool bound;
	bool suspended; /* by fm_cuda_suspend */
	bool stalled;   /* at rest: idle, or stopped */
	bool scheduled; /* its group may run */
};
FM_CUDA_API int fm_cuda_query(struct CUstream_st *stream, struct fm_cuda_info *info);

/*
 * Partitions (green contexts: a driver of CUDA 12.5 or later). fm_cuda_reserve sets at least `sms`
 * multiprocessors of the current device apart, as many as the device's granularity makes of them,
 * and tells how many in *got (may be NULL). One partition for a device in a process, which lives as
 * long as the process: the same once more is 0, another size is -EBUSY. -EOPNOTSUPP: the driver has
 * no green contexts, or the current context is not the device's primary one. -ENOSPC: nothing would
 * be left for the rest.
 *
 * fm_cuda_stream_create makes a non-blocking stream in the current context's device, and binds it.
 * It is destroyed by cuStreamDestroy.
 *   FM_CUDA_PARTITION  in the partition, with the driver's highest priority: it starts at once
 *                      whatever runs in the rest.
 *   FM_CUDA_REST       in what the partition leaves. It is a device of its own to the scheduler
 *                      ("GPU-...:rest"): streams elsewhere do not stop it, nor it them.
 *   FM_CUDA_WHOLE      on the whole device, as cuStreamCreate does. A stream in the partition that
 *                      has work stops it, if its group is of lower priority.
 *   FM_CUDA_BY_GROUP   as whoever runs the program says, by names of groups: `fermata run
 *                      --partition`, FERMATA_PARTITION="16:urgent:rt-*". With the first such stream
 *                      on a device so many multiprocessors are reserved; streams of these groups
 *                      are in the partition, others in the rest. Where nothing is said, or there
 *                      is no partition to be had: the whole device.
 * -ENOENT: there is no partition. A kernel whose blocks wait for each other must fit into the
 * multiprocessors it gets: cooperative launches are checked by the driver, others by nobody.
 */
enum fm_cuda_place { FM_CUDA_WHOLE, FM_CUDA_PARTITION, FM_CUDA_REST, FM_CUDA_BY_GROUP };
FM_CUDA_API int fm_cuda_reserve(unsigned sms, unsigned *got);
FM_CUDA_API int fm_cuda_stream_create(struct CUstream_st **stream, enum fm_cuda_place place,
	const struct fm_cuda_binding *binding);

/*
 * A best-effort queue that gives the partition's multiprocessors back when they are needed, and has
 * them when they are not: two streams, one on the whole device and one in the rest, of which
 * fm_cuda_elastic_stream tells where to launch the next batch of commands, in order behind what was
 * launched before (by an event, where the stream changes). The whole device, once streams in the
 * partition have been idle for idle_ns; else the rest. What was launched stays where it is: batches
 * should be short. Both streams are bound as `binding` says. Use by one thread at a time.
 * Not while the streams are captured. fm_cuda_elastic_destroy destroys the streams, whose commands
 * go on to their end.
 */
struct fm_cuda_elastic;
FM_CUDA_API int fm_cuda_elastic_create(
	struct fm_cuda_elastic **e, uint64_t idle_ns, const struct fm_cuda_binding *binding);
FM_CUDA_API int fm_cuda_elastic_stream(struct fm_cuda_elastic *e, struct CUstream_st **stream);
FM_CUDA_API int fm_cuda_elastic_destroy(struct fm_cuda_elastic *e);

#ifdef __cplusplus
}
#endif

#ifdef FERMATA_CUDA_OPTIONAL
#define FM_CUDA_IF(fn, ...)          (fn ? fn(__VA_ARGS__) : -ENOSYS)
#define fm_cuda_init(...)            FM_CUDA_IF(fm_cuda_init, __VA_ARGS__)
#define fm_cuda_scheduled()          (fm_cuda_scheduled && fm_cuda_scheduled())
#define fm_cuda_bind(...)            FM_CUDA_IF(fm_cuda_bind, __VA_ARGS__)
#define fm_cuda_unbind(...)          FM_CUDA_IF(fm_cuda_unbind, __VA_ARGS__)
#define fm_cuda_hint(...)            FM_CUDA_IF(fm_cuda_hint, __VA_ARGS__)
#define fm_cuda_suspend(...)         FM_CUDA_IF(fm_cuda_suspend, __VA_ARGS__)
#define fm_cuda_resume(...)          FM_CUDA_IF(fm_cuda_resume, __VA_ARGS__)
#define fm_cuda_query(...)           FM_CUDA_IF(fm_cuda_query, __VA_ARGS__)
#define fm_cuda_reserve(...)         FM_CUDA_IF(fm_cuda_reserve, __VA_ARGS__)
#define fm_cuda_stream_create(...)   FM_CUDA_IF(fm_cuda_stream_create, __VA_ARGS__)
#define fm_cuda_elastic_create(...)  FM_CUDA_IF(fm_cuda_elastic_create, __VA_ARGS__)
#define fm_cuda_elastic_stream(...)  FM_CUDA_IF(fm_cuda_elastic_stream, __VA_ARGS__)
#define fm_cuda_elastic_destroy(...) FM_CUDA_IF(fm_cuda_elastic_destroy, __VA_ARGS__)
#endif
#endif
