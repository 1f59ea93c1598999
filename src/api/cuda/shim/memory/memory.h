/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program allocates on its devices: counted by kind in the client's ledger, and held to
 * the limit of the program's group (xqueue/account.h). The driver makes all of it, and its answers
 * stand; docs/design/decisions has how much of each kind counts, as measured.
 *
 * A block counts from before the driver's call that makes it until after the one that ends it, so
 * that never more is allocated than counts. Nothing here is exact about memory that the driver
 * takes for itself: code, local memory, heaps.
 *
 * Owns: the table of the program's blocks (blocks.h), its pools and its handles of memory.
 *
 * Locks: `memory.lock`, inside calls that allocate or end memory. It is held over no driver call.
 *
 * Threads: any thread of the program.
 */
#pragma once
#include "api/cuda/shim/shim.h"
#include "blocks.h"
#include "xqueue/account.h"

/* The driver gives memory out in these. Smaller allocations share them, up to half of one. */
#define FM_CUDA_MEM_GRANULE ((uint64_t)2 << 20)
#define FM_CUDA_MEM_SMALL   ((uint64_t)1 << 20)
#define FM_CUDA_MEM_MOST    ((uint64_t)INT64_MAX) /* no driver gives more */
#define FM_CUDA_MEM_DEVICES 64

/* What is too much for a number stays too much. */
static inline uint64_t fm_cuda_mem_round(uint64_t n, uint64_t to)
{
	return n > UINT64_MAX - to ? UINT64_MAX / to * to : (n + to - 1) / to * to;
}

/* Where the calling thread allocates. */
struct fm_cuda_mem_at {
	bool counts; /* else the call is none of the program's, or cannot succeed */
	struct fm_client
		*c;    /* NULL: it has none yet, or no row for the device: nothing is refused */
	int row;       /* of fm_account_device() */
	CUcontext ctx; /* a green context's memory is its base's */
	CUdevice dev;
};

/* The current context's device, or another. */
struct fm_cuda_mem_at fm_cuda_mem_here(void);
struct fm_cuda_mem_at fm_cuda_mem_on(CUdevice dev);

/* Is the program held to a limit there, or its memory managed? */
bool fm_cuda_mem_is_held(const struct fm_cuda_mem_at *at);

/* --- count.c: what counts --- */

/* As fm_account_claim(), but pools give back what nobody has in use before a limit refuses. */
int fm_cuda_mem_try(const struct fm_cuda_mem_at *at, enum fm_mem_kind kind, uint64_t bytes);
/* The same, and waits for room if others have what is left of the device. False: it is refused. */
bool fm_cuda_mem_claim(const struct fm_cuda_mem_at *at, enum fm_mem_kind kind, uint64_t bytes);
/* Counts `bytes` more, or fewer, of memory that is there in any case. c: of fm_cuda_memory, as it
 * was when the table was changed; NULL: there was none, so that the table alone knows of it. */
void fm_cuda_mem_differs(struct fm_client *c, CUdevice dev, enum fm_mem_kind kind, int64_t bytes);

/* The process's client, which is made for the sake of memory only if the program was started with
 * a limit, or to be managed: a server may still want to say how its client is to be
 * (fm_cuda_init). Until there is one the table alone counts. */
struct fm_client *fm_cuda_mem_client(void);
/* It is made, or a forked child's: what is in the table counts from now on. */
void fm_cuda_mem_client_made(struct fm_client *c);
/* Does the program have any memory? */
bool fm_cuda_mem_any(void);

/* The driver has no memory for so much: false if others cannot make room, or no longer. A program
 * that has no client yet is given one, and *at knows it then. *until is 0 at first, and is given to
 * room_end() by an allocation that has waited. */
bool fm_cuda_mem_room(struct fm_cuda_mem_at *at, uint64_t bytes, uint64_t *until);
void fm_cuda_mem_room_end(const struct fm_cuda_mem_at *at, uint64_t until);

/* A driver's call that takes so much memory there: where the device is full it is made again when
 * others have made room. What it gives is the driver's last word. */
#define FM_CUDA_WITH_ROOM(at, bytes, call)                                \
	({                                                                \
		uint64_t until_ = 0;                                      \
		fm_cu_result is_;                                         \
                                                                          \
		do {                                                      \
			is_ = (call);                                     \
		} while (FM_UNLIKELY(is_ == FM_CU_ERROR_OUT_OF_MEMORY) && \
			 fm_cuda_mem_room(at, bytes, &until_));           \
		fm_cuda_mem_room_end(at, until_);                         \
		is_;                                                      \
	})

/* A launch, for which the driver may load code or enlarge the memory of threads: it says that there
 * is no memory, and has launched nothing. True: it is to be tried again. The launch counts as begun
 * meanwhile, so the program's own memory stays where it is. */
struct fm_cuda_mem_launch {
	struct fm_cuda_mem_at at;
	uint64_t until;
	unsigned tries; /* twice at most: it may be one that never fits */
};
bool fm_cuda_mem_launch_room(struct fm_cuda_mem_launch *l);

/* The driver's call of a launch, which is made again where others can make room. */
#define FM_CUDA_LAUNCH_WITH_ROOM(call)                                \
	({                                                            \
		fm_cu_result is_ = (call);                            \
                                                                      \
		if (FM_UNLIKELY(is_ == FM_CU_ERROR_OUT_OF_MEMORY)) {  \
			struct fm_cuda_mem_launch room_ = {0};        \
                                                                      \
			while (is_ == FM_CU_ERROR_OUT_OF_MEMORY &&    \
				fm_cuda_mem_launch_room(&room_))      \
				is_ = (call);                         \
			fm_cuda_mem_room_end(&room_.at, room_.until); \
		}                                                     \
		is_;                                                  \
	})

/* A call outside of launches that loads code, or makes what the driver needs for some. If the
 * program's own memory goes out meanwhile, it waits until that is back. */
bool fm_cuda_mem_load_room(struct fm_cuda_mem_launch *l);

/* The driver's call, or one around it that can be made again. */
#define FM_CUDA_LOAD_WITH_ROOM(call)                                     \
	({                                                               \
		fm_cu_result loaded_ = (call);                           \
                                                                         \
		if (FM_UNLIKELY(loaded_ == FM_CU_ERROR_OUT_OF_MEMORY)) { \
			struct fm_cuda_mem_launch room_ = {0};           \
                                                                         \
			while (loaded_ == FM_CU_ERROR_OUT_OF_MEMORY &&   \
				fm_cuda_mem_load_room(&room_))           \
				loaded_ = (call);                        \
			fm_cuda_mem_room_end(&room_.at, room_.until);    \
		}                                                        \
		loaded_;                                                 \
	})

/* A block that is about to be made. */
struct fm_cuda_making {
	struct fm_cuda_mem_at at;
	enum fm_mem_kind kind;
	uint64_t size;    /* that the program wants, as the driver rounds it */
	uint64_t claimed; /* so far */
	CUdeviceptr was;  /* the program's variable, before the driver writes it */
};

/* False: it is refused, and the driver is not to be called. kind: FM_MEM_PLAIN becomes
 * FM_MEM_SMALL if the block is to share a granule. */
bool fm_cuda_mem_begin(struct fm_cuda_making *m, enum fm_mem_kind kind, uint64_t size);
/* After the driver's call: the block has that key. Returns what the program is told: rc, or that
 * there is no memory, if a small block would have needed a granule that is refused. size: as it
 * came out. */
fm_cu_result fm_cuda_mem_made(struct fm_cuda_making *m, enum fm_cuda_space space, uint64_t key,
	uint64_t size, fm_cu_result rc);

/* Around the driver's call that ends a block: it is taken out of the table before, so it is ended
 * once. False: nothing is known of it. */
struct fm_cuda_ending {
	struct fm_cuda_block block; /* key 0: unknown */
	struct fm_client *c;        /* with which it counted */
	uint64_t contexts;          /* that had ended by then */
};
struct fm_cuda_ending fm_cuda_mem_take(enum fm_cuda_space space, uint64_t key);
fm_cu_result fm_cuda_mem_ended(const struct fm_cuda_ending *e, fm_cu_result rc);

/* The context has ended: so has what was made in it. The program's pools and handles stay. */
void fm_cuda_mem_context_gone(CUcontext ctx);
void fm_cuda_mem_fork_child(void);

/* Memory of another process has been opened there, once more. */
void fm_cuda_mem_opened(CUdeviceptr ptr, size_t size);

/* A figure of the driver's about all of something: now it is that. */
void fm_cuda_mem_settle(enum fm_cuda_space space, uint64_t key, uint64_t bytes);
/* For all that the driver has figures about; and having it give back what nobody has in use, as it
 * does itself when a device is full. pools.c. */
void fm_cuda_mem_settle_all(void);
void fm_cuda_mem_make_room(void);

/* --- context.c: around a call that makes a context of the device --- */

struct fm_cuda_mem_context {
	struct fm_cuda_mem_at at;
	uint64_t before; /* free; 0: it is not counted */
};
struct fm_cuda_mem_context fm_cuda_mem_context_begin(CUdevice dev);
/* So much room is asked for where the device has none for a context. */
uint64_t fm_cuda_mem_context_takes(const struct fm_cuda_mem_context *x);
void fm_cuda_mem_context_made(const struct fm_cuda_mem_context *x, CUcontext ctx, fm_cu_result rc);

/* --- globals.c: variables of code, around calls that load it --- */

struct fm_cuda_globals {
	struct fm_cuda_making m;
	uint64_t bytes; /* 0: it has none, or they count already */
	bool read;      /* the image was understood */
	uint64_t key;   /* of a library in a context */
};
/* A module, in the current context. False: it is refused, and not to be loaded. */
bool fm_cuda_globals_begin(struct fm_cuda_globals *g, const void *image, const char *path);
fm_cu_result fm_cuda_globals_made(struct fm_cuda_globals *g, CUmodule module, fm_cu_result rc);
/* A library has been loaded, for no context as yet. */
void fm_cuda_globals_library(CUlibrary library, const void *image, const char *path);
bool fm_cuda_globals_any_library(void);
/* Something of the library is wanted in the current context. False: it is refused. */
bool fm_cuda_globals_use(struct fm_cuda_globals *g, CUlibrary library);
fm_cu_result fm_cuda_globals_used(struct fm_cuda_globals *g, CUlibrary library, fm_cu_result rc);
/* The driver has said where a variable is. */
void fm_cuda_globals_found(const void *code, uint64_t at, uint64_t size);
/* Around the driver's call that unloads a module or a library. */
#define FM_CUDA_GLOBALS_CONTEXTS 8
struct fm_cuda_unloading {
	unsigned n;
	struct fm_cuda_ending of[FM_CUDA_GLOBALS_CONTEXTS];
};
void fm_cuda_globals_take(struct fm_cuda_unloading *u, const void *code);
void fm_cuda_globals_ended(struct fm_cuda_unloading *u, const void *code, fm_cu_result rc);
void fm_cuda_globals_fork_child(void);

/* --- handles.c: lock held. What the memory of a handle counts. --- */
int64_t fm_cuda_handle_bytes(const struct fm_cuda_block *b);

/* --- pools.c --- */

/* The driver's, of a device: the one from which it takes memory, and the one that it began with.
 * NULL: it has none. */
CUmemoryPool fm_cuda_pool_in_use(CUdevice dev);
CUmemoryPool fm_cuda_pool_default(CUdevice dev);

/* A block of a pool's has ended. */
void fm_cuda_pool_freed(uint64_t pool, uint64_t size);
/* A node that allocates is about to come into a graph. False: a limit does not allow it. */
bool fm_cuda_graph_allocates(uint64_t size);
/* A graph was made ready or launched, or has ended: that may have made or ended memory. */
void fm_cuda_graph_settle_slow(void);
extern _Atomic bool fm_cuda_graphs_allocate;
static inline void fm_cuda_graph_settle(void)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_graphs_allocate, memory_order_relaxed)))
		fm_cuda_graph_settle_slow();
}

/* --- within the folder: the table, under its lock --- */

extern struct fm_cuda_memory {
	pthread_mutex_t lock;
	struct fm_client *client; /* what is in the table counts there; NULL: there is none yet */
	struct fm_cuda_blocks blocks;
	uint64_t mappings; /* of handles */
} fm_cuda_memory __attribute__((visibility("hidden")));
