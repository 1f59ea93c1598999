/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fermata for CUDA servers: several models in one process, each on its own streams, and the
 * urgent one preempts the others.
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
 * The server launches as before. Programs that are scheduled as a whole need neither this header
 * nor a change: see fermata-run(1).
 *
 * The functions are in libfermata-cuda.so, which also intercepts the driver's calls. A server gets
 * it by linking (-lfermata-cuda, in front of -lcuda), by LD_PRELOAD, or by `fermata run`.
 * With FERMATA_CUDA_OPTIONAL defined before this header is included, nothing needs to be linked,
 * and the server also runs without Fermata: if the library is missing, functions return -ENOSYS
 * (fm_cuda_scheduled: false). This needs a position-independent program (the default of most
 * compilers) or library.
 *
 * Streams are CUstream or cudaStream_t, which are the same thing: no header of the vendor is needed
 * here. The default streams (NULL, legacy, per thread) cannot be bound: -EINVAL. Destroying a
 * stream unbinds it.
 *
 * Streams share the device's queues, usually 8, and a stopped stream also holds up the streams that
 * share its queue. A process with more streams should set CUDA_DEVICE_MAX_CONNECTIONS=32 (the
 * maximum) in its environment before the first call of CUDA. Copies of a bound stream wait in the
 * call until no gate is in front of them. If kernels can be stopped in the middle, launches into a
 * stopped stream wait in the call, too.
 *
 * Errors: functions return 0 or a negative errno; a call that fails has no effect. -ENODEV: Fermata
 * is switched off (FERMATA_DISABLE=1), or there is no driver. -EINVAL: an argument is invalid, such
 * as a `size` that is too small. No function prints, exits, or blocks without bound, except for the
 * waits asked for.
 * Units: times are nanoseconds on CLOCK_MONOTONIC.
 *
 * Threads: every function may be called from any thread, with two exceptions: while a stream is
 * bound or unbound no other thread may use it; and, as with CUDA, none may be called from a
 * function that the driver calls (cuLaunchHostFunc). After fork() the child has no streams, as in
 * CUDA, and nothing is bound; fm_cuda_init stays in effect.
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
 * Optional; must come before the first command of any stream and the first binding, otherwise
 * -EBUSY. With the guardian it must come before any use of CUDA: once the program, or the CUDA
 * runtime, has looked up the driver's functions that load kernels, it is -EBUSY, since these
 * kernels would not be rewritten. NULL: the defaults.
 */
struct fm_cuda_options {
	size_t size; /* sizeof(struct fm_cuda_options) */
	/* "fixed-priority", "fair slice=2", ...: schedule in this process, without a daemon. NULL:
	 * according to the environment (FERMATA_LOCAL, FERMATA_SOCKET), else by the user's or the
	 * system's daemon, if there is one. With neither, everything runs at once. */
	const char *local_policy;
	/* Stop kernels between two of their blocks (level 3), not only between two kernels, where
	 * possible: fm_cuda_query returns the levels of a stream. Same as FERMATA_GUARDIAN=1. */
	bool guardian;
	/* Time for which Fermata's thread polls before it sleeps, while groups share the device: it
	 * then stops and continues kernels some ten microseconds earlier, and occupies a
	 * processor. At most 10 ms; 0: FERMATA_SPIN_US, otherwise none. */
	uint64_t spin_ns;
};
FM_CUDA_API int fm_cuda_init(const struct fm_cuda_options *options);

/* Returns whether this process is scheduled at present, by a daemon or by itself. */
FM_CUDA_API bool fm_cuda_scheduled(void);

/*
 * Binds a stream to a group. Groups are scheduled: the streams of a group run and stop together, in
 * this process and in other processes of the same user that use the name. A process has at most 15
 * names, which live as long as the process (-ENOSPC), and at most 128 streams under the scheduler
 * (-ENOSPC); a destroyed stream counts until its work is done. Names have 1 to 63 characters of
 * printable ASCII without spaces, quotes and slashes (-EINVAL).
 *
 * The stream must be idle: -EBUSY while it has unfinished commands (call cuStreamSynchronize) or
 * any stream is being captured. A stream that is bound already is bound anew. The strings and the
 * structure are not kept. A graph that is captured on a stream of level 2 does not stop inside
 * kernels, wherever it is launched.
 *
 * The callbacks report that the stream loses the device and gets it back. preempted: the stream has
 * unfinished commands and has stopped at a gate or inside a kernel, because of the scheduler or
 * fm_cuda_suspend; also if it got work while it was stopped. resumed: the stream may continue. A
 * resumed always follows a preempted, except that there are no calls after unbinding. Callbacks run
 * in a thread of Fermata's own, one at a time for all streams, shortly after the event: a stop of
 * some ten microseconds may not be reported. They may call all functions of this header and of
 * CUDA, and may block, which delays only other callbacks. After fm_cuda_unbind or cuStreamDestroy
 * has returned, no callback begins; fm_cuda_unbind also waits for one that runs in another thread.
 */
#define FM_CUDA_PRIORITY_KEEP INT32_MIN
typedef void fm_cuda_callback(struct CUstream_st *stream, uint64_t at_ns, void *ctx);
struct fm_cuda_binding {
	size_t size;       /* sizeof(struct fm_cuda_binding) */
	const char *group; /* NULL: the process's own */
	int32_t priority;  /* of the group, FM_PRIORITY_*; larger: more urgent. Or _KEEP */
	unsigned level;    /* deepest level of preemption to use; 0: the deepest possible */
	fm_cuda_callback *preempted, *resumed; /* may be NULL */
	void *ctx;                             /* argument of the callbacks */
	/* The group's hint `pad` (<fermata/hint.h>): on how many multiprocessors it goes on while a
	 * more urgent group of this process has the device: 8, 16, ... 64, or FM_PAD_AUTO,
	 * FM_PAD_AUTO_AT(5). 0: leave it as it is; FM_CUDA_PAD_NEVER: on none. A program that was
	 * compiled without this member leaves it as it is. */
	int32_t pad;
};
#define FM_CUDA_PAD_NEVER INT32_MIN
FM_CUDA_API int fm_cuda_bind(struct CUstream_st *stream, const struct fm_cuda_binding *binding);
/* Returns the stream to the process's own group, without callbacks. -ENOENT: the stream is not
 * bound. -EBUSY: as above. */
FM_CUDA_API int fm_cuda_unbind(struct CUstream_st *stream);

/* Sets another hint of the stream's group: <fermata/hint.h>. -ENOENT: not bound. -ERANGE. */
FM_CUDA_API int fm_cuda_hint(struct CUstream_st *stream, enum fm_hint hint, int64_t value);

/*
 * Suspends a bound stream, independently of the policy, and resumes it. While the stream is
 * suspended its commands wait in front of the device, and other streams have the device; a launch
 * into a stream at level 1 blocks. A wait for the stream (cuStreamSynchronize) lasts until it is
 * resumed. Both functions are idempotent; suspensions are not counted. wait: return when the stream
 * has stopped; -ETIMEDOUT after timeout_ns (the stream is suspended all the same). That time
 * depends on the level: at level 2 the commands before the next gate finish first, which takes some
 * hundred microseconds or one command. -ECANCELED: the stream was resumed or destroyed meanwhile.
 * -ENOENT: not bound.
 */
FM_CUDA_API int fm_cuda_suspend(struct CUstream_st *stream, bool wait, uint64_t timeout_ns);
FM_CUDA_API int fm_cuda_resume(struct CUstream_st *stream);

/* The state of a bound stream, or of one that has been launched into; else -ENOENT. */
struct fm_cuda_info {
	size_t size;            /* set by the caller: sizeof(struct fm_cuda_info) */
	unsigned level, levels; /* in use; bits (1 << level) of the possible levels */
	/* Commands; completed may lag while the program does not wait for them. */
	uint64_t submitted, completed;
	uint64_t device_ns;   /* device time used, of finished commands */
	uint64_t gates;       /* placed */
	uint64_t preemptions; /* stops as reported to preempted(); 0 without that callback */
	uint64_t interrupts;  /* stops in the middle of a kernel */
	uint64_t guarded;     /* launches that can be stopped in the middle */
	/* With the guardian, for the whole process: kernels that were rewritten, and kernels and
	 * whole images that were left unchanged. */
	uint64_t kernels, kernels_left, images_left;
	bool bound;
	bool suspended; /* by fm_cuda_suspend */
	bool stalled;   /* at rest: idle, or stopped */
	bool scheduled; /* its group may run */
};
FM_CUDA_API int fm_cuda_query(struct CUstream_st *stream, struct fm_cuda_info *info);

/*
 * How much of the device the stream's next commands have, as far as is known now: of a stream that
 * is bound, or has been launched into; else -ENOENT. It may be otherwise a moment later, and of a
 * stream without work it is how the stream was left, until it is launched into again. Cheap
 * enough to be asked before each launch: no call of the driver, no system call.
 */
struct fm_cuda_room {
	size_t size;              /* set by the caller: sizeof(struct fm_cuda_room) */
	unsigned multiprocessors; /* of the device; 0: the driver does not say */
	unsigned place;           /* those of the stream's partition, or of the rest, or all */
	/* Multiprocessors on which its next commands run: `place` while its group has the device;
	 * `pad` while a more urgent group of this process has it; 0: they wait. */
	unsigned free;
	/* On so many it goes on beside more urgent groups (the hint `pad`, also the number that
	 * `auto` has chosen); 0: on none, or that is not possible, or not yet. */
	unsigned pad;
	bool urgent;  /* another group has the device: the stream is stopped, or pads */
	bool padding; /* it runs beside that group at this moment */
};
FM_CUDA_API int fm_cuda_room(struct CUstream_st *stream, struct fm_cuda_room *room);

/*
 * Versions of a kernel: they compute the same, and differ in what they need. A program that has
 * several launches the one that is best where it would run now:
 *
 *	struct fm_cuda_room room = {.size = sizeof(room)};
 *	fm_cuda_room(stream, &room);
 *	i = fm_cuda_fit(versions, n, &room, room.urgent ? 20000 : 0);
 *	launch(kernel[i < 0 ? 0 : i], stream);
 *
 * The numbers are of one launch, with its grid: `fermata-lab profile --rooms` measures them.
 */
struct fm_cuda_version {
	uint64_t time_ns;            /* of all of its blocks, alone on the whole device */
	uint64_t block_ns;           /* of one block */
	uint32_t registers;          /* of a thread */
	uint32_t shared;             /* bytes of shared memory of a block */
	uint32_t threads;            /* of a block */
	uint32_t blocks;             /* of the grid */
	uint32_t per_multiprocessor; /* blocks that a multiprocessor holds at a time */
	uint32_t unused;             /* 0 */
};
/* Returns how many of the versions are worth keeping. kept[i] becomes false for those that another
 * one dominates: it is no larger in any of the first six numbers. Of equal ones the first is kept.
 * -EINVAL: there are more than 65536. Takes time with the square of n. */
FM_CUDA_API int fm_cuda_prune(const struct fm_cuda_version *versions, size_t n, bool *kept);
/* Returns the index of the version that takes the shortest time on the multiprocessors that are
 * free in the room, among those whose blocks take no longer than block_ns (0: any). A block that
 * has begun ends before more urgent work has its multiprocessor. -ENOENT: there is none, or nothing
 * is free. */
FM_CUDA_API int fm_cuda_fit(const struct fm_cuda_version *versions, size_t n,
	const struct fm_cuda_room *room, uint64_t block_ns);

/*
 * Partitions (green contexts: a driver of CUDA 12.5 or later). fm_cuda_reserve reserves at least
 * `sms` multiprocessors of the current device, rounded up to the device's granularity, and stores
 * their number in *got (may be NULL). A process has one partition per device, which lives as long
 * as the process: a second call with the same size returns 0, with another size -EBUSY.
 * -EOPNOTSUPP: the driver has no green contexts, or the current context is not the device's primary
 * one. -ENOSPC: nothing would be left for the rest.
 *
 * fm_cuda_stream_create makes a non-blocking stream in the current context's device, and binds it.
 * It is destroyed by cuStreamDestroy.
 *   FM_CUDA_PARTITION  in the partition, with the driver's highest priority: it starts at once,
 *                      whatever runs in the rest.
 *   FM_CUDA_REST       outside the partition. For the scheduler the rest is a device of its own
 *                      ("GPU-...:rest"): it and streams elsewhere do not stop each other.
 *   FM_CUDA_WHOLE      on the whole device, as cuStreamCreate does. A stream in the partition that
 *                      has work stops it, if its group is of lower priority.
 *   FM_CUDA_BY_GROUP   chosen by the user of the program, by names of groups: `fermata run
 *                      --partition`, FERMATA_PARTITION="16:urgent:rt-*". The first such stream on a
 *                      device reserves that number of multiprocessors; streams of these groups are
 *                      in the partition, others in the rest. Without such a choice, or if the
 *                      device has no partitions: the whole device.
 * -ENOENT: there is no partition. A kernel whose blocks wait for each other must fit into its
 * multiprocessors: the driver checks this only for cooperative launches.
 */
enum fm_cuda_place { FM_CUDA_WHOLE, FM_CUDA_PARTITION, FM_CUDA_REST, FM_CUDA_BY_GROUP };
FM_CUDA_API int fm_cuda_reserve(unsigned sms, unsigned *got);
FM_CUDA_API int fm_cuda_stream_create(struct CUstream_st **stream, enum fm_cuda_place place,
	const struct fm_cuda_binding *binding);

/*
 * A best-effort queue that uses the partition's multiprocessors only while the partition is idle.
 * It has two streams, one on the whole device and one in the rest. fm_cuda_elastic_stream returns
 * the stream for the next batch of commands, which is ordered behind earlier batches (by an event,
 * if the stream changes): the whole device once streams in the partition have been idle for
 * idle_ns, otherwise the rest. Launched commands stay in their stream, so batches should be short.
 * Both streams are bound by `binding`. Use by one thread at a time, and not while the streams are
 * captured. fm_cuda_elastic_destroy destroys the streams; their commands run to their end.
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
#define fm_cuda_room(...)            FM_CUDA_IF(fm_cuda_room, __VA_ARGS__)
#define fm_cuda_prune(...)           FM_CUDA_IF(fm_cuda_prune, __VA_ARGS__)
#define fm_cuda_fit(...)             FM_CUDA_IF(fm_cuda_fit, __VA_ARGS__)
#define fm_cuda_reserve(...)         FM_CUDA_IF(fm_cuda_reserve, __VA_ARGS__)
#define fm_cuda_stream_create(...)   FM_CUDA_IF(fm_cuda_stream_create, __VA_ARGS__)
#define fm_cuda_elastic_create(...)  FM_CUDA_IF(fm_cuda_elastic_create, __VA_ARGS__)
#define fm_cuda_elastic_stream(...)  FM_CUDA_IF(fm_cuda_elastic_stream, __VA_ARGS__)
#define fm_cuda_elastic_destroy(...) FM_CUDA_IF(fm_cuda_elastic_destroy, __VA_ARGS__)
#endif
#endif
