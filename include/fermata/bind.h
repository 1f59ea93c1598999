/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of any device API, bound to groups by the program itself.
 *
 *	#include <fermata/bind.h>
 *
 *	struct fm_binding_hint hints[] = {{FM_HINT_PRIORITY, FM_PRIORITY_HIGH}};
 *	struct fm_binding urgent = {sizeof(urgent), "urgent", hints, 1};
 *
 *	fm_bind("opencl", queue, &urgent);
 *	fm_bind("vulkan", vk_queue, &urgent);
 *
 * Groups are scheduled: the queues of a group run and stop together, whatever their APIs, in this
 * process and in other processes of the same user that use the name. Programs that are scheduled as
 * a whole need neither this header nor a change: see fermata-run(1). <fermata/cuda.h> does more for
 * CUDA: callbacks, suspension, partitions. What is bound by one may be unbound by the other.
 *
 * The functions are in libfermata.so (-lfermata), and in the shims that `fermata run` preloads. The
 * queues are those of Fermata's shims for device APIs, which come into the process by `fermata
 * run`. With FERMATA_BIND_OPTIONAL defined before this header is included, nothing needs to be
 * linked, and a program in which no preloaded library has the functions gets -ENOSYS from each.
 * This needs a position-independent program (the default of most compilers) or library.
 *
 * APIs have the names that `fermata ps` shows, and handles are the driver's own:
 *
 *	"cuda"    CUstream, cudaStream_t. Not the default streams (-EINVAL)
 *	"hip"     hipStream_t. Not the default streams (-EINVAL)
 *	"opencl"  cl_command_queue
 *	"vulkan"  VkQueue
 *	"ze"      ze_command_queue_handle_t, or ze_command_list_handle_t of an immediate list
 *	"acl"     aclrtStream. Not the default streams (-EINVAL)
 *	"vpi"     VPIStream
 *	"cudla"   cudlaDevHandle in standalone mode. In hybrid mode bind the CUDA stream
 *
 * Ownership: handles stay the program's. Structures and strings are not kept. The end of a queue
 * ends its binding. A process has at most 15 names of groups for each API (-ENOSPC), which live as
 * long as the process. Where the user may have no more groups ([limits] of fermatad.conf(5)), the
 * call returns 0 as well, and the queue is in the process's own group. A process has at most 128
 * queues of each API under the scheduler (-ENOSPC).
 *
 * Errors: functions return 0 or a negative errno; a call that fails binds nothing.
 *	-ENOSYS      no shim of that API is in this process; the name may also be none of an API
 *	-ENODEV      Fermata is switched off (FERMATA_DISABLE=1), or there is no driver
 *	-EINVAL      an argument is invalid: NULL, a `size` that is too small, a group's name that
 *	             has not 1 to 63 characters of printable ASCII without spaces, quotes and
 *	             slashes, or a queue that cannot be bound
 *	-ERANGE      a hint does not take the value
 *	-EOPNOTSUPP  Fermata leaves this queue alone (docs/vulkan.md says which)
 *	-EBUSY       CUDA: the stream has unfinished commands. CUDA, HIP and AscendCL: a
 *	             stream is being captured
 * No function prints, exits, or blocks without bound.
 *
 * Units: those of <fermata/hint.h>: times are nanoseconds, memory is bytes.
 *
 * Threads: every function may be called from any thread, but no other thread may use the queue
 * while it is bound or unbound, and none may be called from a function that a driver calls. In the
 * child of a fork() a queue that survives there stays in no group but the process's own, until it
 * is bound again. fm_thread_bind stays in effect for the thread that has forked.
 */
#ifndef FERMATA_BIND_H
#define FERMATA_BIND_H
#include <fermata/hint.h>
#include <stddef.h>
#include <stdint.h>

#ifdef FERMATA_BIND_OPTIONAL
#include <errno.h>
#define FM_BIND_API __attribute__((weak))
#else
#define FM_BIND_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct fm_binding_hint {
	enum fm_hint hint;
	int64_t value;
};

struct fm_binding {
	size_t size;       /* sizeof(struct fm_binding) */
	const char *group; /* NULL: the process's own */
	/* Hints that the group gets with this call; the last of equal ones counts. Others stay as
	 * they are. NULL if there are none. */
	const struct fm_binding_hint *hints;
	size_t hint_count;
};

/*
 * Binds a queue to a group. A queue that is bound already is bound anew. What was launched before
 * counts for the new group, too, if the queue is not idle (CUDA: it must be idle).
 */
FM_BIND_API int fm_bind(const char *api, void *queue, const struct fm_binding *binding);

/* Returns the queue to the process's own group. -ENOENT: it is there, or is not scheduled. */
FM_BIND_API int fm_unbind(const char *api, void *queue);

/*
 * Binds what this thread begins, until it is bound otherwise. NULL: not any more. A queue of any
 * API that comes to the scheduler in this thread joins the group: an OpenCL queue when it is
 * created, others with their first command. Queues that are there already stay where they are, and
 * so do default streams that threads share. A queue stays in the group when the thread's binding,
 * or the thread, ends. The group gets the hints with its first such queue of each API. Where a
 * process has too many names, the queue joins the process's own group. -ENOSYS: no shim of any API
 * has come into this process; the thread is bound all the same, and shims that come later (those of
 * OpenCL and Vulkan, with the first call of their API) heed it. -ENOMEM.
 */
FM_BIND_API int fm_thread_bind(const struct fm_binding *binding);

#ifdef __cplusplus
}
#endif

#ifdef FERMATA_BIND_OPTIONAL
#define FM_BIND_IF(fn, ...) (fn ? fn(__VA_ARGS__) : -ENOSYS)
#define fm_bind(...)        FM_BIND_IF(fm_bind, __VA_ARGS__)
#define fm_unbind(...)      FM_BIND_IF(fm_unbind, __VA_ARGS__)
#define fm_thread_bind(...) FM_BIND_IF(fm_thread_bind, __VA_ARGS__)
#endif
#endif
