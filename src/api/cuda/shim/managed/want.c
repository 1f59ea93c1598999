/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <fermata/memory.h>, for libfermata, which finds these two by name. Addresses are the program's:
 * of blocks, which are the arena's own, or of what the program has mapped.
 */
#pragma GCC visibility push(default)
#include <fermata/memory.h>
#pragma GCC visibility pop
#include "api/cuda/core/memory/want.h"
#include "base/cancel.h"
#include "base/lockorder.h"
#include "managed.h"
#include "xqueue/rest.h"
#include <errno.h>
#include <pthread.h>

__attribute__((visibility("default"))) int fm_cuda_memory_want(
	const void *p, size_t n, enum fm_memory_use use);
__attribute__((visibility("default"))) int fm_cuda_memory_stat(
	const void *p, size_t n, struct fm_memory_stat *stat);

static struct {
	pthread_mutex_t lock; /* what the daemon is asked for is what is pinned then */
} wants = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(wants.lock, CUDA_WANTS);

/* --- ranges --- */

struct range {
	CUdeviceptr at;
	size_t size;
	fm_cuda_piece_fn *fn;
	void *arg;
};

static void in_arena(struct fm_cuda_managed *m, void *arg)
{
	const struct range *r = arg;
	struct fm_cu_range a = fm_cu_arena_range(atomic_load(&m->arena));
	CUdeviceptr from = FM_MAX(r->at, a.at), end = FM_MIN(r->at + r->size, a.at + a.size);

	if (from < end)
		r->fn(m, from, end - from, r->arg);
}

static void each_piece(CUdeviceptr at, size_t size, fm_cuda_piece_fn *fn, void *arg)
{
	struct range r = {at, size, fn, arg};

	fm_cuda_managed_each(in_arena, &r);
	fm_cuda_vmm_each(at, size, fn, arg);
}

static struct fm_cu_arena *arena(struct fm_cuda_managed *m)
{
	return atomic_load(&m->arena);
}

/* --- where it is --- */

static void sum_piece(struct fm_cuda_managed *m, CUdeviceptr at, size_t size, void *sums)
{
	fm_cu_want_sum(arena(m), at, size, sums);
}

static uint64_t managed_bytes(const struct fm_cu_want_sums *s)
{
	return s->device + s->host + s->mapped + s->empty;
}

/* Several mappings of the same memory count once for each address. */
int fm_cuda_memory_stat(const void *p, size_t n, struct fm_memory_stat *stat)
{
	struct fm_cu_want_sums s = {0};
	FM_NO_CANCEL;

	if (fm_client_switched_off())
		return -ENOSYS;
	each_piece((CUdeviceptr)(uintptr_t)p, n, sum_piece, &s);
	*stat = (struct fm_memory_stat){.size = stat->size,
		.device = s.device,
		.host = s.host,
		.mapped = s.mapped,
		.empty = s.empty,
		.unmanaged = fm_sub_sat(n, managed_bytes(&s)),
		.pinned = s.pinned};
	return 0;
}

/* --- what is wanted --- */

static void make_cold(struct fm_cuda_managed *m, CUdeviceptr at, size_t size, void *unused)
{
	(void)unused;
	fm_cu_want_cold(arena(m), at, size);
}

static void make_hot(struct fm_cuda_managed *m, CUdeviceptr at, size_t size, void *unused)
{
	(void)unused;
	fm_cu_want_soon(arena(m), at, size);
}

static void unpin_piece(struct fm_cuda_managed *m, CUdeviceptr at, size_t size, void *now)
{
	fm_cu_want_unpin(arena(m), at, size, *(bool *)now);
}

static void tell(struct fm_cuda_managed *m, void *unused)
{
	(void)unused;
	fm_cuda_managed_tell(m);
}

static void unpin_all(CUdeviceptr at, size_t size)
{
	struct fm_client *c = fm_shim_has_client();
	unsigned shard;
	bool now = fm_rest_call_try(c, &shard);

	each_piece(at, size, unpin_piece, &now);
	if (!now)
		return;
	fm_rest_call_end(c, shard);
	fm_cuda_managed_each(tell, NULL);
	fm_account_bell(c);
}

/* A pin, on one device after the other: the sum of each is asked for, and then all are made. */
struct pin {
	const struct fm_cuda_managed *on;
	struct fm_client *c;
	uint64_t bytes;
	int rc;
};

static void add_pins(struct fm_cuda_managed *m, CUdeviceptr at, size_t size, void *arg)
{
	struct pin *pin = arg;
	uint64_t bytes = 0;
	int rc = m == pin->on ? fm_cu_want_pins(arena(m), at, size, &bytes) : 0;

	pin->bytes += bytes;
	pin->rc = pin->rc ? pin->rc : rc;
}

/* What several mappings name twice is asked for twice, and given back. */
static void pin_piece(struct fm_cuda_managed *m, CUdeviceptr at, size_t size, void *arg)
{
	struct pin *pin = arg;
	uint64_t bytes = 0;

	if (m != pin->on)
		return;
	fm_cu_want_pins(arena(m), at, size, &bytes);
	if (!fm_cu_want_pin(arena(m), at, size, FM_MEM_PIN_PROGRAM))
		pin->bytes -= FM_MIN(pin->bytes, bytes);
}

struct pins {
	CUdeviceptr at;
	size_t size;
	int rc;
};

/* Lock held, and memory does not move. */
static void pin_on(struct fm_cuda_managed *m, void *arg)
{
	struct pins *pins = arg;
	struct pin pin = {.on = m, .c = fm_shim_has_client()};

	if (pins->rc)
		return;
	each_piece(pins->at, pins->size, add_pins, &pin);
	pins->rc = pin.rc;
	if (!pins->rc && pin.bytes)
		pins->rc = fm_account_keep(pin.c, m->row, pin.bytes);
	if (pins->rc || !pin.bytes)
		return;
	each_piece(pins->at, pins->size, pin_piece, &pin);
	fm_account_unkeep(pin.c, m->row, pin.bytes);
	fm_cuda_managed_named(
		FM_MEM_PIN_PROGRAM, &(struct fm_cuda_pinner){.what = "fm_memory_want"});
	fm_cuda_managed_tell(m);
}

static int pin_all(CUdeviceptr at, size_t size)
{
	struct pins pins = {at, size, 0};
	unsigned shard;

	if (!fm_rest_call_try(fm_shim_has_client(), &shard))
		return -EBUSY;
	pthread_mutex_lock(&wants.lock);
	fm_cuda_managed_each(pin_on, &pins);
	pthread_mutex_unlock(&wants.lock);
	fm_rest_call_end(fm_shim_has_client(), shard);
	return pins.rc;
}

/* Memory that is on the device needs no more than its name. */
static void bring_in(const struct fm_cu_want_sums *s)
{
	if (s->host || s->empty || s->mapped)
		fm_cuda_mover_expect();
}

void fm_cuda_want_home(CUdeviceptr at, size_t size)
{
	each_piece(at, size, make_hot, NULL);
	fm_cuda_mover_expect();
}

int fm_cuda_memory_want(const void *p, size_t n, enum fm_memory_use use)
{
	const CUdeviceptr at = (CUdeviceptr)(uintptr_t)p;
	struct fm_cu_want_sums s = {0};
	int rc = 0;
	FM_NO_CANCEL;

	if (fm_client_switched_off())
		return -ENOSYS;
	each_piece(at, n, sum_piece, &s);
	if (!managed_bytes(&s) || !fm_shim_has_client())
		return -ENOENT;
	if (use == FM_MEMORY_COLD)
		each_piece(at, n, make_cold, NULL);
	else if (use == FM_MEMORY_UNPIN)
		unpin_all(at, n);
	else
		each_piece(at, n, make_hot, NULL);
	if (use == FM_MEMORY_PIN)
		rc = pin_all(at, n);
	if (use == FM_MEMORY_SOON || rc == -EBUSY)
		bring_in(&s);
	return rc;
}

void fm_cuda_want_fork_child(void)
{
	wants.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
