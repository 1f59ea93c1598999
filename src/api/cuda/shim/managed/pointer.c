/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program asks about managed memory: answered as the driver answers for memory of
 * cuMemAlloc(), also while it is out. And calls after which something else reaches the memory: it
 * is pinned before them.
 */
#include "api/cuda/core/memory/tables.h"
#include "api/cuda/shim/guard/kill.h"
#include "base/lockorder.h"
#include "base/uuid.h"
#include "managed.h"
#include "xqueue/rest.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { /* CUpointer_attribute */
	OF_CONTEXT = 1,
	OF_TYPE,
	OF_DEVICE_POINTER,
	OF_HOST_POINTER,
	OF_SYNC = 6,
	OF_ID,
	OF_UNIFIED,
	OF_ORDINAL,
	OF_IPC,
	OF_START,
	OF_SIZE,
	OF_MAPPED,
	OF_FLAGS = 16,
	OF_POOL = 17,
	OF_MAPPING_SIZE,
	OF_MAPPING_START,
	OF_MEMORY_ID,
};
#define TYPE_DEVICE      2u  /* CU_MEMORYTYPE_DEVICE */
#define READ_AND_WRITE   3   /* CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE */
#define NOTHING_IS_THERE 500 /* CUDA_ERROR_NOT_FOUND */

struct asked {
	struct fm_cuda_managed *of;
	struct fm_cu_block block;
	CUmemoryPool pool;
	CUdeviceptr p;
};

/* False: the driver knows the answer. */
static bool is_managed(struct asked *a, CUdeviceptr p)
{
	a->p = p;
	a->of = fm_cu_inside ? NULL : fm_cuda_managed_find(p, &a->block);
	a->pool = NULL;
	if (a->of)
		fm_cuda_async_find(a->block.at, &a->block.size, &a->pool);
	return a->of;
}

#define ANSWER(type, value)                    \
	do {                                   \
		*(type *)data = (type)(value); \
		return true;                   \
	} while (0)

/* False: no answer of ours. */
static bool answer(const struct asked *a, int attribute, void *data)
{
	switch (attribute) {
	case OF_CONTEXT:
		ANSWER(CUcontext, fm_cu_arena_context(atomic_load(&a->of->arena)));
	case OF_TYPE:
		ANSWER(unsigned, TYPE_DEVICE);
	case OF_DEVICE_POINTER:
		ANSWER(CUdeviceptr, a->p);
	case OF_ID:
		ANSWER(unsigned long long, a->block.id);
	case OF_SYNC:
	case OF_UNIFIED:
		ANSWER(unsigned char, 0);
	case OF_IPC:
		ANSWER(unsigned char, !a->pool && fm_cu_arena_shares(atomic_load(&a->of->arena)));
	case OF_ORDINAL:
		ANSWER(int, a->of->dev);
	case OF_START:
		ANSWER(CUdeviceptr, a->block.at);
	case OF_SIZE:
		ANSWER(size_t, a->block.size);
	case OF_MAPPED:
		ANSWER(unsigned char, 1);
	case OF_FLAGS:
		ANSWER(int, READ_AND_WRITE);
	case OF_POOL:
		ANSWER(CUmemoryPool, a->pool);
	default:
		return false;
	}
}

/* The same of memory that the program has mapped. What is not answered does not change when it
 * moves, and the driver is asked when it is there. */
static bool answer_mapped(const struct fm_cuda_mapped *m, CUdeviceptr p, int attribute, void *data)
{
	switch (attribute) {
	case OF_TYPE:
		ANSWER(unsigned, TYPE_DEVICE);
	case OF_DEVICE_POINTER:
		ANSWER(CUdeviceptr, p);
	case OF_ID:
	case OF_MEMORY_ID:
		ANSWER(unsigned long long, m->id);
	case OF_ORDINAL:
		ANSWER(int, m->dev);
	case OF_MAPPING_SIZE:
		ANSWER(size_t, m->size);
	case OF_MAPPING_START:
		ANSWER(CUdeviceptr, m->at);
	default:
		return false;
	}
}

static bool is_mapped(struct fm_cuda_mapped *m, CUdeviceptr p)
{
	return !fm_cu_inside && fm_cuda_vmm_find(p, m);
}

static fm_cu_result ask_mapped(void *data, int attribute, CUdeviceptr p)
{
	struct fm_cuda_mapped m;

	if (FM_LIKELY(!is_mapped(&m, p)))
		return NEXT(cuPointerGetAttribute, (data, attribute, p));
	if (data && answer_mapped(&m, p, attribute, data))
		return FM_CU_SUCCESS;
	return FM_CUDA_NAMING(NEXT(cuPointerGetAttribute, (data, attribute, p)));
}

static fm_cu_result ask_all_mapped(unsigned n, int *attributes, void **data, CUdeviceptr p)
{
	struct fm_cuda_mapped m;
	fm_cu_result rc = FM_CU_SUCCESS;

	if (FM_LIKELY(!n || !attributes || !data || !is_mapped(&m, p)))
		return NEXT(cuPointerGetAttributes, (n, attributes, data, p));
	for (unsigned i = 0; i < n && !rc; i++)
		if (!answer_mapped(&m, p, attributes[i], data[i]))
			rc = FM_CUDA_NAMING(
				NEXT(cuPointerGetAttributes, (1, &attributes[i], &data[i], p)));
	return rc;
}

/* Calls that put addresses into something. They wait in what stands behind them (outside.c). */
#define OWN_NAMES(symbol, params)                       \
	fm_cu_result symbol CALL_PARAMS(params)         \
	{                                               \
		return NEXT(symbol, CALL_ARGS(params)); \
	}
#define OWN_MAP(...) /* named.c */
#define OWN_WORDS_NODE(symbol, params)                  \
	fm_cu_result symbol CALL_PARAMS(params)         \
	{                                               \
		fm_cuda_pins_words_of(what);            \
		return NEXT(symbol, CALL_ARGS(params)); \
	}
#define OWN_NAMES_BY_HAND(...)
#define OWN_(...)
#define ON_own(symbol, per_thread, name, since, note, params, how) OWN_##how(symbol, params)
#include "api/cuda/calls.def"

fm_cu_result cuPointerGetAttribute(void *data, int attribute, CUdeviceptr p)
{
	struct asked a;

	if (FM_LIKELY(!is_managed(&a, p)))
		return ask_mapped(data, attribute, p);
	if (!data || !a.block.size || attribute == OF_HOST_POINTER)
		return FM_CU_ERROR_INVALID_VALUE;
	if (answer(&a, attribute, data))
		return FM_CU_SUCCESS;
	return FM_CUDA_NAMING(NEXT(cuPointerGetAttribute, (data, attribute, p)));
}

/* Where nothing is allocated the answers are those for an address that the driver does not know. */
fm_cu_result cuPointerGetAttributes(unsigned n, int *attributes, void **data, CUdeviceptr p)
{
	struct asked a;
	fm_cu_result rc = FM_CU_SUCCESS;

	if (FM_LIKELY(!is_managed(&a, p)) || !attributes || !data)
		return ask_all_mapped(n, attributes, data, p);
	if (!a.block.size)
		return NEXT(cuPointerGetAttributes, (n, attributes, data, FM_CUDA_MEM_GRANULE / 2));
	for (unsigned i = 0; i < n && !rc; i++) {
		if (attributes[i] == OF_HOST_POINTER)
			*(void **)data[i] = NULL;
		else if (!answer(&a, attributes[i], data[i]))
			rc = FM_CUDA_NAMING(
				NEXT(cuPointerGetAttributes, (1, &attributes[i], &data[i], p)));
	}
	return rc;
}

/* The one that can be set makes copies and fills synchronous that are not asked to be otherwise,
 * for devices that read the memory themselves. The driver has it for its own memory alone. So those
 * of all memory wait (outside.c), once it was set of a block of ours. */
_Atomic bool fm_cuda_managed_syncs;

fm_cu_result cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr p)
{
	struct asked a;
	fm_cu_result rc;

	fm_cuda_managed_pin(p, FM_MEM_PIN_SHARED, FM_CUDA_PINNER(__func__));
	rc = NEXT(cuPointerSetAttribute, (value, attribute, p));
	if (FM_LIKELY(rc != FM_CU_ERROR_NOT_SUPPORTED) || !value || attribute != OF_SYNC ||
		!is_managed(&a, p) || !a.block.size)
		return rc;
	if (*(const int *)value)
		atomic_store(&fm_cuda_managed_syncs, true);
	return FM_CU_SUCCESS;
}

fm_cu_result cuMemGetAddressRange_v2(CUdeviceptr *at, size_t *size, CUdeviceptr p)
{
	struct fm_cuda_mapped m;
	struct asked a;

	if (FM_LIKELY(!is_managed(&a, p))) {
		if (FM_LIKELY(!is_mapped(&m, p) && !fm_cuda_ipc_find(p, &m.at, &m.size)))
			return NEXT(cuMemGetAddressRange_v2, (at, size, p));
		a.block = (struct fm_cu_block){.at = m.at, .size = m.size};
	}
	if (!a.block.size)
		return NOTHING_IS_THERE;
	if (at)
		*at = a.block.at;
	if (size)
		*size = a.block.size;
	return FM_CU_SUCCESS;
}

/* --- what passes memory on --- */

fm_cu_result cuMemGetHandleForAddressRange(
	void *handle, CUdeviceptr p, size_t size, int type, unsigned long long flags)
{
	atomic_store(&fm_cuda_kill_exported, true);
	fm_cuda_managed_pin(p, FM_MEM_PIN_SHARED, FM_CUDA_PINNER(__func__));
	fm_cuda_vmm_pin(p, size, FM_MEM_PIN_SHARED, FM_CUDA_PINNER(__func__));
	return NEXT(cuMemGetHandleForAddressRange, (handle, p, size, type, flags));
}

static void pin_for_table(const struct fm_cu_uuid *id, const struct fm_cuda_pinner *by)
{
	char what[FM_PIN_WHAT] = "table ";

	fm_uuid_text(id->bytes, what + strlen(what));
	if (fm_cuda_manages())
		fm_cuda_managed_named(FM_MEM_PIN_UNKNOWN,
			&(struct fm_cuda_pinner){.what = what, .from = by->from});
	fm_cuda_managed_pin_all(FM_MEM_PIN_UNKNOWN);
}

/* The driver's own tables of functions: what is called in them is not seen. One that the driver
 * does not have is no table. */
fm_cu_result cuGetExportTable(const void **table, const struct fm_cu_uuid *id)
{
	fm_cu_result rc = NEXT(cuGetExportTable, (table, id));

	if (rc == FM_CU_SUCCESS && id && !fm_cu_inside && !fm_cu_table_harmless(id))
		pin_for_table(id, FM_CUDA_PINNER(__func__));
	return rc;
}

/* --- other devices --- */

/* Whose memory which device reaches: a context's, or (NULL) all of a device. */
struct peer {
	CUcontext of;
	CUdevice on, by;
};

static void open_one(struct fm_cuda_managed *m, void *arg)
{
	const struct peer *p = arg;
	struct fm_cu_arena *a = atomic_load(&m->arena);

	if (p->of ? fm_cu_arena_context(a) == p->of : m->dev == p->on)
		fm_cu_arena_peer(a, p->by);
}

/* What was opened so far, for arenas that are made later. */
static struct {
	pthread_mutex_t lock;
	unsigned n, room;
	struct peer *one;
} peers = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(peers.lock, CUDA_PEERS);

void fm_cuda_managed_peers_fork_child(void)
{
	peers.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	peers.one = NULL;
	peers.n = peers.room = 0;
}

void fm_cuda_managed_peers_gone(CUcontext ctx)
{
	unsigned n = 0;

	pthread_mutex_lock(&peers.lock);
	for (unsigned i = 0; i < peers.n; i++)
		if (peers.one[i].of != ctx)
			peers.one[n++] = peers.one[i];
	peers.n = n;
	pthread_mutex_unlock(&peers.lock);
}

void fm_cuda_managed_open(struct fm_cuda_managed *m)
{
	pthread_mutex_lock(&peers.lock);
	for (unsigned i = 0; i < peers.n; i++)
		open_one(m, &peers.one[i]);
	pthread_mutex_unlock(&peers.lock);
}

/* Lock held. Each once: one that is closed and opened again is as it was. */
static void note_peer(const struct peer *p)
{
	unsigned room = peers.room ? 2 * peers.room : 8;
	struct peer *more;

	for (unsigned i = 0; i < peers.n; i++)
		if (peers.one[i].of == p->of && peers.one[i].on == p->on &&
			peers.one[i].by == p->by)
			return;
	if (peers.n == peers.room) {
		more = realloc(peers.one, room * sizeof(*more));
		if (!more)
			return;
		peers.one = more;
		peers.room = room;
	}
	peers.one[peers.n++] = *p;
}

static void is_opened(const struct peer *p)
{
	unsigned naming = fm_cuda_naming_begin(); /* the mover maps what is opened here */

	pthread_mutex_lock(&peers.lock);
	note_peer(p);
	fm_cuda_managed_each(open_one, (void *)p);
	pthread_mutex_unlock(&peers.lock);
	fm_cuda_naming_end(naming);
}

void fm_cuda_managed_reached(CUdevice dev, CUdevice by)
{
	is_opened(&(struct peer){NULL, dev, by});
}

fm_cu_result cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	fm_cu_result rc = NEXT(cuCtxEnablePeerAccess, (peer, flags));
	const struct fm_cu_driver *cu = fm_cuda_driver();
	struct peer p = {.of = peer};

	if (!rc && !fm_cu_inside && fm_cuda_managed_wished() && cu && cu->ctx_get_device &&
		!cu->ctx_get_device(&p.by))
		is_opened(&p);
	return rc;
}
