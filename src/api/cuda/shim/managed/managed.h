/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the program that may move, where that was asked for (FERMATA_MEMORY): it is in arenas
 * of ours (core/memory), one for each device, and a thread of ours moves it when the daemon wishes
 * it elsewhere. The program's pointers stay what they are, and what it asks about them is answered
 * as the driver answers for memory of cuMemAlloc().
 *
 * Nothing of this is seen by other programs: fm_cuda_manages() is false there.
 *
 * Owns: the arenas, and the mover's thread (mover.c).
 *
 * Locks: `all.lock` (managed.c), while an arena is made; `moves.lock` (mover.c), while memory
 * moves; `wants.lock` (want.c), while the program pins; `vmm.calls` and `vmm.lock` (vmm.c), over
 * what the program maps; `bound.lock` (multicast.c), over what is bound.
 *
 * Threads: any thread of the program; the agent, which wakes the mover; the mover.
 *
 * Fails open: what cannot be managed is the driver's own memory, as it always was.
 */
#pragma once
#include "api/cuda/core/memory/arena.h"
#include "api/cuda/core/memory/vmm.h"
#include "api/cuda/shim/memory/memory.h"
#include "api/cuda/shim/shim.h"

/* Is the program's memory to be managed? The same from the first call on, except that it can become
 * false when the client is made and does not have what is needed. A device that cannot do what it
 * takes is left to the driver alone. */
bool fm_cuda_manages(void);
/* Was it, when the process was first looked at? */
bool fm_cuda_managed_wished(void);

/* What is known of a device whose memory is managed. */
struct fm_cuda_managed {
	_Atomic(struct fm_cu_arena *) arena; /* NULL: not made yet; it is never freed */
	CUdevice dev;
	int row;              /* of fm_account_device() */
	_Atomic bool refused; /* what is allocated there is the driver's */
	/* The daemon counts the device as smaller than it is, and it was full: what the driver says
	 * is free is not for this program. */
	_Atomic bool smaller;
	bool borrows; /* some of it runs from the host, as was last told */
};

/* --- managed.c --- */

/* Is what the program allocates in this call to be managed? If that is refused, it is noted why. */
bool fm_cuda_managed_here(void);
/* Is the device's arena that context's? */
bool fm_cuda_managed_owns(const struct fm_cuda_mem_at *at);
/* Instead of the driver's call. FM_CUDA_NOT_MANAGED: make that. */
#define FM_CUDA_NOT_MANAGED (-1)
fm_cu_result fm_cuda_managed_alloc(CUdeviceptr *at, size_t size);
fm_cu_result fm_cuda_managed_alloc_pitch(
	CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned element);
fm_cu_result fm_cuda_managed_free(CUdeviceptr at);
/* Nobody uses the block any more. */
void fm_cuda_managed_give(CUdeviceptr at);

/* Memory of that kind, for the program to map. FM_CUDA_NOT_MANAGED. */
fm_cu_result fm_cuda_managed_make(struct fm_cuda_managed **m, size_t size,
	const struct fm_cu_memory_kind *kind, struct fm_cu_vmm **vmm);

/* The device whose memory the address is in, and the block around it; NULL: it is not managed.
 * block->size is 0 where nothing is allocated. */
struct fm_cuda_managed *fm_cuda_managed_find(CUdeviceptr p, struct fm_cu_block *block);

/* All that there are: fn is called for each device whose arena has been made. */
void fm_cuda_managed_each(void (*fn)(struct fm_cuda_managed *m, void *arg), void *arg);

/* The context ends: before and after the driver's call, by the same thread. NULL: it has not ended.
 */
void fm_cuda_managed_context_ends(CUcontext ctx);
void fm_cuda_managed_context_gone(CUcontext ctx);
void fm_cuda_managed_fork_child(void);

/* Why memory is not where it is wished to be, or not managed: for all devices, or for one. */
void fm_cuda_managed_trouble(enum fm_mem_trouble trouble);
/* Of one device, if it was that. */
void fm_cuda_managed_trouble_on(
	struct fm_cuda_managed *m, enum fm_mem_trouble was, enum fm_mem_trouble is);
/* That of a move which nobody wishes any more. */
void fm_cuda_managed_forget_trouble(void);
/* Writes to the ledger where the memory is. */
void fm_cuda_managed_tell(struct fm_cuda_managed *m);

/* --- lost.c: by the mover --- */

/* Where the context is dead, or everywhere: what is out never comes in, and the program is to see
 * what the driver says to that. False: no context is dead, and nothing was given up. */
bool fm_cuda_managed_lose(bool all);
bool fm_cuda_managed_away(void); /* is anything out? */

/* --- full.c: by the mover. A device has no room for what is to come in --- */

/* The driver refuses it now. Returns for how long it has, ns. */
uint64_t fm_cuda_full_refused(void);
/* For how long the program waits for room. UINT64_MAX: for ever. */
uint64_t fm_cuda_full_patience(struct fm_client *c);
void fm_cuda_full_moved(bool out, uint64_t bytes);
void fm_cuda_full_end(void);
/* At the end of a move there: was it refused? */
void fm_cuda_full_tried(struct fm_cuda_managed *m, bool refused);
/* There is room for the next chunk: the daemon takes a device for full as long as it is told so. */
void fm_cuda_full_found(struct fm_cuda_managed *m);
/* As fm_cuda_managed_trouble(); but each device is full for itself. */
void fm_cuda_full_trouble(enum fm_mem_trouble trouble);

/* --- pins.c --- */

/* A reason, by name: a call, and where it returns to, which says whose code made it. */
struct fm_cuda_pinner {
	const char *what;
	const void *from; /* NULL: nobody's */
};
#define FM_CUDA_PINNER(what_) \
	(&(struct fm_cuda_pinner){.what = (what_), .from = __builtin_return_address(0)})
/* Tells people. Any thread; what no client hears of yet is said when there is one. */
void fm_cuda_managed_named(enum fm_mem_kind why, const struct fm_cuda_pinner *by);

/* The block, or what the program has mapped there, stays on the device from now on, for a reason.
 * Memory that is out comes in first. */
void fm_cuda_managed_pin(CUdeviceptr p, enum fm_mem_kind why, const struct fm_cuda_pinner *by);
/* So many bytes do, as of now. */
void fm_cuda_managed_pinned(struct fm_cuda_managed *m, enum fm_mem_kind why, uint64_t bytes);
/* And so many do no more. */
void fm_cuda_managed_unpinned(struct fm_cuda_managed *m, enum fm_mem_kind why, uint64_t bytes);
/* So does all of it, also what is allocated later. */
void fm_cuda_managed_pin_all(enum fm_mem_kind why);
void fm_cuda_managed_pin_new(struct fm_cuda_managed *m); /* a new arena */
bool fm_cuda_managed_all_pinned(void);
/* Is a library loaded that reaches memory by ways of its own? Any thread but the agent. */
bool fm_cuda_managed_engines(void);
/* Has one come since the last call? The mover alone asks. */
bool fm_cuda_managed_engines_came(void);
/* The program looks for a function that may be such a library's. */
void fm_cuda_managed_engine(void);
/* Does a tool that follows the program's memory look into it? */
bool fm_cuda_managed_tools(void);

/* --- async.c: memory in the order of streams --- */

/* Instead of the driver's calls. pool: NULL: the device's. stream: of fm_cuda_stream(). */
fm_cu_result fm_cuda_async_alloc(CUdeviceptr *at, size_t size, CUmemoryPool pool, CUstream stream);
fm_cu_result fm_cuda_async_free(CUdeviceptr at, CUstream stream);
/* The block, if it is of a pool's, ends otherwise. */
void fm_cuda_async_ended(CUdeviceptr at);
/* Is it freed, for the program? Are there any? */
bool fm_cuda_async_is_freed(CUdeviceptr at);
bool fm_cuda_async_any(void);
/* Blocks that nobody uses any more go back, if their pool does not keep them. */
void fm_cuda_async_look(void);
/* What was freed so far; all work of the device's context that it had then has finished: nobody
 * uses it any more. all: also what its pool would keep. */
uint64_t fm_cuda_async_mark(void);
void fm_cuda_async_finished(CUdevice dev, uint64_t mark, bool all);
void fm_cuda_async_gone(CUdevice dev); /* the context, with all blocks */
/* Any context, before and after the driver's call. base: the one that is waited for instead of a
 * green one, else the same. A green one may leave work: the second is not for those. */
void fm_cuda_async_context_ends(CUcontext ctx, CUcontext base);
void fm_cuda_async_context_gone(CUcontext ctx);
/* Of a pool's block that begins there: its size as the program has it. */
bool fm_cuda_async_find(CUdeviceptr at, size_t *size, CUmemoryPool *pool);
/* The driver has made it, is about to end it, or has trimmed it. */
void fm_cuda_async_pool_made(CUmemoryPool pool, const struct fm_cu_pool_props *props);
void fm_cuda_async_pool_ends(CUmemoryPool pool);
void fm_cuda_async_trim(CUmemoryPool pool, uint64_t keep);
void fm_cuda_async_fork_child(void);

/* --- ipc.c: memory of other processes, by the older way --- */

/* Instead of the driver's calls; FM_CUDA_NOT_MANAGED: the handle, or the memory, is the driver's.
 * Also in processes whose own memory is not managed. */
fm_cu_result fm_cuda_ipc_open(CUdeviceptr *ptr, const struct fm_cu_ipc_handle *handle);
fm_cu_result fm_cuda_ipc_close(CUdeviceptr ptr);
/* The block around an address of such memory. */
bool fm_cuda_ipc_find(CUdeviceptr p, CUdeviceptr *at, size_t *size);
void fm_cuda_ipc_fork_child(void);

/* --- vmm.c: memory that the program maps --- */

/* Instead of the driver's calls. FM_CUDA_NOT_MANAGED: the handle, or all of the range, is not ours.
 */
fm_cu_result fm_cuda_vmm_create(CUmemGenericAllocationHandle *handle, size_t size,
	const struct fm_cu_memory_kind *kind, unsigned long long flags);
fm_cu_result fm_cuda_vmm_release(CUmemGenericAllocationHandle handle);
fm_cu_result fm_cuda_vmm_map(CUdeviceptr at, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags);
fm_cu_result fm_cuda_vmm_unmap(CUdeviceptr at, size_t size);
fm_cu_result fm_cuda_vmm_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr at);

/* What is mapped around an address: false if it is not ours. */
struct fm_cuda_mapped {
	CUdeviceptr at;
	size_t size;
	uint64_t id; /* of the memory */
	CUdevice dev;
};
bool fm_cuda_vmm_find(CUdeviceptr p, struct fm_cuda_mapped *m);
/* The driver's handles of a part of such memory, which will not move again: pieces of it, in order,
 * for the caller to free. It comes to the device first; what finds no room there within four
 * seconds stays where it is with `anywhere', and is busy else. -ENOENT: the handle is none of ours;
 * -EINVAL, -EBUSY, -ENOMEM. */
#define FM_CUDA_PASSED_HOME 64 /* chunks of one handle that are asked for at a time */
struct fm_cuda_passed {
	CUmemGenericAllocationHandle handle;
	size_t offset, size;
};
int fm_cuda_vmm_pass(CUmemGenericAllocationHandle handle, size_t offset, size_t size, bool anywhere,
	struct fm_cuda_passed **list, unsigned *n, const struct fm_cuda_pinner *by);
/* Whatever of it is in that range stays on the device from now on. */
void fm_cuda_vmm_pin(
	CUdeviceptr at, size_t size, enum fm_mem_kind why, const struct fm_cuda_pinner *by);
/* What of a range of the program's the program has mapped, at its home in the arena. fn is called
 * with a lock, and calls nothing here. */
typedef void fm_cuda_piece_fn(struct fm_cuda_managed *m, CUdeviceptr at, size_t size, void *arg);
void fm_cuda_vmm_each(CUdeviceptr at, size_t size, fm_cuda_piece_fn *fn, void *arg);
/* As long as it is held (core/memory/hold.h). */
struct fm_cu_holds;
int fm_cuda_vmm_hold(CUdeviceptr at, size_t size, enum fm_mem_kind why, bool anywhere,
	struct fm_cu_holds *h, const struct fm_cuda_pinner *by);
void fm_cuda_vmm_fork_child(void);

/* --- multicast.c --- */

void fm_cuda_multicast_fork_child(void);
/* The program has given a handle of the driver's back. */
void fm_cuda_multicast_released(CUmemGenericAllocationHandle group);

/* --- want.c: what the program says of its memory --- */

void fm_cuda_want_fork_child(void);

/* --- pointer.c --- */

/* Opens a new arena to the devices that were to reach its context's memory. */
void fm_cuda_managed_open(struct fm_cuda_managed *m);
/* Another context may have that handle from now on. */
void fm_cuda_managed_peers_gone(CUcontext ctx);
void fm_cuda_managed_peers_fork_child(void);
/* The memory of a device is opened to another, if it is managed. */
void fm_cuda_managed_reached(CUdevice dev, CUdevice by);

/* Is there any managed memory? Other programs pay for nothing but this look. */
extern _Atomic bool fm_cuda_managed_any __attribute__((visibility("hidden")));

/* Do copies and fills that no stream orders wait for their end? */
extern _Atomic bool fm_cuda_managed_syncs __attribute__((visibility("hidden")));

/* Has any of it ever run from the host? */
extern _Atomic bool fm_cuda_managed_mapped __attribute__((visibility("hidden")));

/* Words of memory for which streams wait, or which they write: waits look at them for as long as
 * they like, and are not counted as work. Within the call itself, whose caller is named. */
void fm_cuda_pins_words_slow(
	const union fm_cu_mem_op *ops, unsigned n, const struct fm_cuda_pinner *by);
FM_INLINE_HOT void fm_cuda_pins_words(const union fm_cu_mem_op *ops, unsigned n)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_managed_any, memory_order_relaxed)) && ops)
		fm_cuda_pins_words_slow(ops, n, FM_CUDA_PINNER("a word for a stream"));
}
/* Those of a node of a graph. */
FM_INLINE_HOT void fm_cuda_pins_words_of(const struct fm_cu_words_node *node)
{
	if (node)
		fm_cuda_pins_words(node->op, node->n);
}
FM_INLINE_HOT void fm_cuda_pins_word(CUdeviceptr at)
{
	const union fm_cu_mem_op op = {.op = {.address = at}};

	fm_cuda_pins_words(&op, 1);
}

/* Around a driver's call that names addresses of device memory: it waits while memory is out. */
unsigned fm_cuda_naming_begin_slow(void);
void fm_cuda_naming_end_slow(unsigned begun);
static inline unsigned fm_cuda_naming_begin(void)
{
	return FM_UNLIKELY(atomic_load_explicit(&fm_cuda_managed_any, memory_order_relaxed))
		       ? fm_cuda_naming_begin_slow()
		       : 0;
}
static inline void fm_cuda_naming_end(unsigned begun)
{
	if (FM_UNLIKELY(begun))
		fm_cuda_naming_end_slow(begun);
}

#define FM_CUDA_NAMING(call)                               \
	({                                                 \
		unsigned naming_ = fm_cuda_naming_begin(); \
		fm_cu_result is_ = (call);                 \
                                                           \
		fm_cuda_naming_end(naming_);               \
		is_;                                       \
	})

/* --- mover.c --- */

/* The agent has looked around: the daemon may wish memory to be elsewhere, or be gone. */
void fm_cuda_mover_look(struct fm_client *c);
/* There is something new to look at. */
void fm_cuda_mover_wake(void);
/* The program expects its memory: what is out is asked to come in, as if a call waited for it. */
void fm_cuda_mover_expect(void);
/* The same; and what of it runs from the host comes to the device, if there is room. */
void fm_cuda_want_home(CUdeviceptr at, size_t size);
/* The context of that arena ends, and no move is under way in it from now on. */
void fm_cuda_mover_context_ends(struct fm_cuda_managed *m);
void fm_cuda_mover_fork_child(void);
