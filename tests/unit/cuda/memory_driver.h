/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of memory that moves: a driver that has memory and nothing else. It ends the test
 * where a real one would end the program. */
#pragma once
#include "api/cuda/core/memory/arena_internal.h"
#include "api/cuda/core/memory/move.h"
#include "api/cuda/core/tune.h"
#include "base/util.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#define PAGE    FM_CU_PAGE
#define HANDLES 512
#define COPIES  64
#define MARK    64 /* bytes that are looked at in each page */

static struct {
	/* Memory, by handle. */
	struct {
		size_t size;
		char *mark; /* MARK bytes for each page */
		CUdeviceptr at;
		bool live, mapped, reachable;
		bool on_host;
		bool cards;        /* network cards may use it */
		unsigned reaching; /* bits of devices */
	} memory[HANDLES];
	/* Where it is mapped, too. */
	struct {
		unsigned h; /* 0: free */
		CUdeviceptr at;
		unsigned flags; /* of device 0 */
	} alias[16];
	uint64_t used, most; /* bytes; most of them */
	bool brim;           /* that is all there is */
	uint64_t host_used, host_most;
	int node;      /* of the host that the driver names; negative: none */
	bool no_nodes; /* the driver makes memory of the thread's own node alone */
	uint64_t claimed, limit, pinned;
	/* Copies, in order, and how many are done. An event stands behind the first `of[]`. */
	struct {
		char *host;
		CUdeviceptr at, from;
		size_t size;
		bool out;
	} copy[COPIES];
	uint64_t put, done;
	uint64_t behind[64];
	unsigned events, streams, registered, pushed;
	uint64_t copied; /* bytes */
	/* Faults: the call of that number fails, and so many in all. */
	unsigned calls, fails_at, fails_for;
	bool failed;
	char failed_name[32];
	CUdevice refused;            /* never reaches anything; 0: none */
	unsigned reserve_most_shift; /* reservations of more fail */
	bool stands;                 /* what is launched does not end */
	bool makes_room;             /* one look later the device has room */
	bool stop;
} dev;

static bool fails(const char *name)
{
	if (++dev.calls < dev.fails_at || !dev.fails_at ||
		dev.calls >= dev.fails_at + FM_MAX(dev.fails_for, 1u))
		return false;
	dev.failed = true;
	snprintf(dev.failed_name, sizeof(dev.failed_name), "%s", name);
	return true;
}
#define FAILS()                                           \
	do {                                              \
		if (fails(__func__))                      \
			return FM_CU_ERROR_INVALID_VALUE; \
	} while (0)

#define BASE ((CUdeviceptr)1 << 44)

static bool in_arena(CUdeviceptr at)
{
	return at - BASE < (CUdeviceptr)1 << 42;
}

static fm_cu_result reserve_(
	CUdeviceptr *at, size_t size, size_t align, CUdeviceptr wish, uint64_t f)
{
	(void)align, (void)wish, (void)f;
	if (dev.reserve_most_shift && size > (size_t)1 << dev.reserve_most_shift)
		return FM_CU_ERROR_OUT_OF_MEMORY;
	*at = BASE;
	return 0;
}
static fm_cu_result unreserve_(CUdeviceptr at, size_t size)
{
	(void)size;
	assert_true(at == BASE);
	return 0;
}
static fm_cu_result create_(
	unsigned long long *h, size_t size, const struct fm_cu_memory_kind *kind, uint64_t flags)
{
	bool host = kind->location.type != FM_CU_LOCATION_DEVICE;
	uint64_t *used = host ? &dev.host_used : &dev.used;

	assert_int_equal(flags, 0);
	assert_int_equal(size % PAGE, 0);
	FAILS();
	if (kind->location.type == FM_CU_LOCATION_HOST_NODE) {
		assert_int_equal(kind->location.id, dev.node);
		if (dev.no_nodes)
			return FM_CU_ERROR_INVALID_VALUE;
	} else if (host) {
		assert_int_equal(kind->location.type, FM_CU_LOCATION_HOST_NEAR);
	}
	if (*used + size > (host ? dev.host_most : dev.most))
		return FM_CU_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 1; i < HANDLES; i++) {
		if (dev.memory[i].live)
			continue;
		dev.memory[i].live = true;
		dev.memory[i].size = size;
		dev.memory[i].mark = malloc(size / PAGE * MARK);
		memset(dev.memory[i].mark, 0xdb, size / PAGE * MARK);
		dev.memory[i].on_host = host;
		dev.memory[i].cards = kind->flags[1];
		*used += size;
		*h = i;
		return 0;
	}
	fail_msg("too many handles");
	return 1;
}
static typeof(&dev.alias[0]) alias_at(CUdeviceptr at)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(dev.alias); i++)
		if (dev.alias[i].h && at - dev.alias[i].at < dev.memory[dev.alias[i].h].size)
			return &dev.alias[i];
	return NULL;
}
static unsigned aliases_of(unsigned h)
{
	unsigned n = 0;

	for (size_t i = 0; i < FM_ARRAY_LEN(dev.alias); i++)
		n += dev.alias[i].h == h;
	return n;
}
static fm_cu_result map_alias_(CUdeviceptr at, unsigned h)
{
	unsigned i = 0;

	while (dev.alias[i].h)
		i++;
	assert_true(i < FM_ARRAY_LEN(dev.alias));
	dev.alias[i] = (typeof(dev.alias[0])){.h = h, .at = at};
	return 0;
}
static fm_cu_result release_(unsigned long long h)
{
	assert_int_equal(aliases_of((unsigned)h), 0);
	assert_true(h < HANDLES && dev.memory[h].live && !dev.memory[h].mapped);
	FAILS();
	free(dev.memory[h].mark);
	*(dev.memory[h].on_host ? &dev.host_used : &dev.used) -= dev.memory[h].size;
	memset(&dev.memory[h], 0, sizeof(dev.memory[h]));
	return 0;
}
static unsigned handle_at(CUdeviceptr at)
{
	for (unsigned i = 1; i < HANDLES; i++)
		if (dev.memory[i].mapped && at - dev.memory[i].at < dev.memory[i].size)
			return i;
	return 0;
}
static fm_cu_result map_(
	CUdeviceptr at, size_t size, size_t offset, unsigned long long h, uint64_t flags)
{
	(void)offset, (void)flags;
	assert_true(h < HANDLES && dev.memory[h].live && (!dev.memory[h].mapped || !in_arena(at)));
	assert_int_equal(size, dev.memory[h].size);
	for (size_t i = 0; i < size; i += PAGE)
		assert_true(!handle_at(at + i) && !alias_at(at + i));
	FAILS();
	if (!in_arena(at))
		return map_alias_(at, (unsigned)h);
	dev.memory[h].mapped = true;
	dev.memory[h].at = at;
	return 0;
}
static fm_cu_result unmap_(CUdeviceptr at, size_t size)
{
	unsigned h = in_arena(at) ? handle_at(at) : alias_at(at) ? alias_at(at)->h : 0;

	assert_true(h && dev.memory[h].size == size);
	assert_true(in_arena(at) ? dev.memory[h].at == at : alias_at(at)->at == at);
	for (uint64_t i = dev.done; i < dev.put; i++) /* of a running copy */
		assert_true(
			handle_at(dev.copy[i % COPIES].at) != h &&
			(!dev.copy[i % COPIES].from || handle_at(dev.copy[i % COPIES].from) != h));
	FAILS();
	if (!in_arena(at)) {
		alias_at(at)->h = 0;
		return 0;
	}
	dev.memory[h].mapped = dev.memory[h].reachable = false;
	dev.memory[h].reaching = 0;
	return 0;
}
static fm_cu_result access_(
	CUdeviceptr at, size_t size, const struct fm_cu_memory_access *access, size_t n)
{
	unsigned h = in_arena(at) ? handle_at(at) : 0;

	if (!in_arena(at)) {
		assert_true(alias_at(at) && alias_at(at)->at == at);
		FAILS();
		for (size_t i = 0; i < n; i++) {
			if (dev.refused && access[i].location.id == dev.refused)
				return FM_CU_ERROR_INVALID_VALUE;
			if (!access[i].location.id)
				alias_at(at)->flags = (unsigned)access[i].flags;
		}
		return 0;
	}
	assert_true(h && dev.memory[h].at == at && dev.memory[h].size == size);
	FAILS();
	for (size_t i = 0; i < n; i++)
		if (dev.refused && access[i].location.id == dev.refused)
			return FM_CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(access[i].flags, FM_CU_MEMORY_READ_WRITE);
		dev.memory[h].reaching |= 1u << access[i].location.id;
	}
	dev.memory[h].reachable = true;
	return 0;
}

/* The marks of one page; the device dies for an address that is not mapped. */
static char *marks(CUdeviceptr at)
{
	unsigned h = handle_at(at);

	assert_true(h && dev.memory[h].reachable);
	return dev.memory[h].mark + (at - dev.memory[h].at) / PAGE * MARK;
}

static void run_copy(void)
{
	typeof(dev.copy[0]) *c = &dev.copy[dev.done++ % COPIES];

	for (size_t i = 0; i < c->size; i += PAGE) {
		if (c->from)
			memcpy(marks(c->at + i), marks(c->from + i), MARK);
		else if (!c->host)
			memset(marks(c->at + i), 0, MARK);
		else if (c->out)
			memcpy(c->host + i, marks(c->at + i), MARK);
		else
			memcpy(marks(c->at + i), c->host + i, MARK);
	}
	dev.copied += c->host || c->from ? c->size : 0;
}
static fm_cu_result put(char *host, CUdeviceptr at, size_t size, bool out)
{
	assert_true(dev.put - dev.done < COPIES);
	assert_true(size <= FM_CU_PIECE && size % PAGE == 0);
	assert_true(dev.pushed);
	marks(at);
	marks(at + size - PAGE);
	dev.copy[dev.put % COPIES] =
		(typeof(dev.copy[0])){.host = host, .at = at, .size = size, .out = out};
	dev.put++;
	return 0;
}
static fm_cu_result within_(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream s)
{
	(void)s;
	FAILS();
	marks(from);
	marks(from + size - PAGE);
	put(NULL, to, size, false);
	dev.copy[(dev.put - 1) % COPIES].from = from;
	return 0;
}
static fm_cu_result out_(void *to, CUdeviceptr from, size_t size, CUstream s)
{
	(void)s;
	FAILS();
	if (!in_arena(from)) { /* of alloc_(), which is the host's */
		memcpy(to, (void *)(uintptr_t)from, size);
		return 0;
	}
	return put(to, from, size, true);
}
static fm_cu_result in_(CUdeviceptr to, const void *from, size_t size, CUstream s)
{
	(void)s;
	FAILS();
	return put((char *)from, to, size, false);
}
static fm_cu_result fill_(CUdeviceptr to, unsigned value, size_t n, CUstream s)
{
	(void)s;
	FAILS();
	assert_int_equal(value, 0);
	if (in_arena(to))
		return put(NULL, to, n * 4, false);
	memset((void *)(uintptr_t)to, 0, n * 4);
	return 0;
}
static fm_cu_result alloc_(CUdeviceptr *at, size_t size)
{
	FAILS();
	*at = (CUdeviceptr)(uintptr_t)malloc(size);
	assert_false(in_arena(*at));
	return 0;
}
static fm_cu_result free_(CUdeviceptr at)
{
	free((void *)(uintptr_t)at);
	return 0;
}
static fm_cu_result host_alloc_(void **at, size_t size, unsigned flags)
{
	(void)flags;
	FAILS();
	*at = malloc(size);
	return 0;
}
static fm_cu_result host_free_(void *at)
{
	free(at);
	return 0;
}
static fm_cu_result module_load_(CUmodule *module, const void *image)
{
	FAILS();
	assert_ptr_equal(image, fm_digest_image);
	*module = (CUmodule)16;
	return 0;
}
static fm_cu_result module_function_(CUfunction *f, CUmodule module, const char *name)
{
	FAILS();
	assert_ptr_equal(module, (CUmodule)16);
	assert_string_equal(name, FM_DIGEST_KERNEL);
	*f = (CUfunction)24;
	return 0;
}
/* Of the marks: a page is as good as a tile of them. */
static fm_cu_result launch_(
	const struct fm_cu_launch_config *config, CUfunction f, void **params, void **extra)
{
	static _Alignas(16) char tile[FM_DIGEST_TILE];
	CUdeviceptr at = *(CUdeviceptr *)params[0], out = *(CUdeviceptr *)params[2];
	uint64_t tiles = *(uint64_t *)params[1];

	FAILS();
	assert_ptr_equal(f, (CUfunction)24);
	assert_null(extra);
	for (unsigned i = 0; tiles && i < config->grid[1]; i++) {
		memcpy(tile, marks(at + i * PAGE), MARK);
		fm_digest_add(
			(struct fm_digest *)(uintptr_t)out + i, params[3], tile, sizeof(tile));
	}
	return 0;
}
static fm_cu_result stream_query_(CUstream s)
{
	(void)s;
	FAILS();
	if (dev.done < dev.put) {
		run_copy();
		return FM_CU_ERROR_NOT_READY;
	}
	return dev.stands ? FM_CU_ERROR_NOT_READY : 0;
}
static fm_cu_result attribute_(int *value, int which, CUdevice d)
{
	(void)d;
	assert_true(which == 134 || which == 110);
	*value = which == 134 ? dev.node : 1;
	return 0;
}
static fm_cu_result event_create_(CUevent *e, unsigned flags)
{
	(void)flags;
	FAILS();
	*e = (CUevent)(uintptr_t)++dev.events;
	return 0;
}
static fm_cu_result event_destroy_(CUevent e)
{
	(void)e;
	return 0;
}
static fm_cu_result record_(CUevent e, CUstream s)
{
	(void)s;
	FAILS();
	dev.behind[(uintptr_t)e % 64] = dev.put;
	return 0;
}
static fm_cu_result query_(CUevent e)
{
	FAILS();
	if (dev.done < dev.behind[(uintptr_t)e % 64]) {
		run_copy();
		return FM_CU_ERROR_NOT_READY;
	}
	return 0;
}
static fm_cu_result stream_create_(CUstream *s, unsigned flags, int priority)
{
	(void)flags, (void)priority;
	FAILS();
	*s = (CUstream)(uintptr_t)++dev.streams;
	return 0;
}
static fm_cu_result stream_destroy_(CUstream s)
{
	(void)s;
	return 0;
}
static fm_cu_result sync_(CUstream s)
{
	(void)s;
	while (dev.done < dev.put)
		run_copy();
	return 0;
}
static fm_cu_result register_(void *p, size_t size, unsigned flags)
{
	(void)p, (void)size, (void)flags;
	FAILS();
	dev.registered++;
	return 0;
}
static fm_cu_result unregister_(void *p)
{
	(void)p;
	FAILS();
	dev.registered--;
	return 0;
}
static fm_cu_result push_(CUcontext c)
{
	assert_true(c == (CUcontext)8);
	dev.pushed++;
	return 0;
}
static fm_cu_result pop_(CUcontext *c)
{
	*c = (CUcontext)8;
	assert_true(dev.pushed--);
	return 0;
}

static fm_cu_result info_(size_t *left, size_t *total)
{
	FAILS();
	/* So much more as memory that comes in must leave to others, unless it is full. */
	*total = dev.most;
	*left = fm_add_sat(dev.most - FM_MIN(dev.used, dev.most),
		dev.brim ? 0 : FM_MIN(FM_CU_KEPT_FREE, dev.most / 128));
	return 0;
}

static const struct fm_cu_driver driver = {
	.mem_info = info_,
	.ctx_push = push_,
	.ctx_pop = pop_,
	.mem_reserve = reserve_,
	.mem_unreserve = unreserve_,
	.mem_create = create_,
	.mem_release = release_,
	.mem_map = map_,
	.mem_unmap = unmap_,
	.mem_access = access_,
	.host_register = register_,
	.host_unregister = unregister_,
	.copy_to_host = out_,
	.copy_to_device = in_,
	.stream_create = stream_create_,
	.stream_destroy = stream_destroy_,
	.stream_synchronize = sync_,
	.event_create = event_create_,
	.event_destroy = event_destroy_,
	.event_record = record_,
	.event_query = query_,
	.copy_within = within_,
	.device_get_attribute = attribute_,
	.fill = fill_,
	.mem_alloc = alloc_,
	.mem_free = free_,
	.host_alloc = host_alloc_,
	.host_free = host_free_,
	.module_load = module_load_,
	.module_function = module_function_,
	.launch = launch_,
	.stream_query = stream_query_,
};

static int claim_(void *cookie, uint64_t bytes, unsigned pinned)
{
	(void)cookie;
	if (pinned)
		dev.pinned += bytes;
	if (dev.claimed + bytes > dev.limit)
		return -ENOMEM;
	dev.claimed += bytes;
	return 0;
}
static void unclaim_(void *cookie, uint64_t bytes, unsigned pinned)
{
	(void)cookie;
	assert_true(dev.claimed >= bytes);
	if (pinned)
		dev.pinned -= bytes;
	dev.claimed -= bytes;
}
