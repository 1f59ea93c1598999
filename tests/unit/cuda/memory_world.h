/* SPDX-License-Identifier: Apache-2.0 */
/* An arena and its moves, on the driver of memory_driver.h. */
#pragma once
#include "memory_driver.h"

#define MIB ((size_t)1 << 20)

static struct fm_cu_arena *a;
static struct fm_cu_move *m;
static struct {
	uint64_t out, in, kept;
	unsigned naps, naps_most;
	bool no_room, mapped;
	uint32_t since;              /* what is named from then on is in use */
	uint64_t share, share_after; /* the second is what it is after the next time it is asked */
} told;

static bool goes_on(void *cookie)
{
	(void)cookie;
	return !dev.stop && told.naps < told.naps_most;
}
static void moved(void *cookie, bool out, uint64_t bytes, uint64_t kept)
{
	(void)cookie;
	*(out ? &told.out : &told.in) += bytes;
	told.kept += kept;
}
static bool enter_(void *cookie)
{
	(void)cookie;
	return true;
}
static void leave_(void *cookie)
{
	(void)cookie;
}
static void nap_(void *cookie, uint64_t ns)
{
	(void)cookie, (void)ns;
	told.naps++;
	if (dev.makes_room)
		dev.most = UINT64_MAX;
}
static uint64_t share_(void *cookie)
{
	uint64_t share = told.share;

	(void)cookie;
	told.share = told.share_after;
	return share;
}
static uint32_t since_(void *cookie)
{
	(void)cookie;
	return told.since;
}
static bool mapped_(void *cookie)
{
	(void)cookie;
	return told.mapped;
}
static inline void set_share(uint64_t bytes)
{
	told.share = told.share_after = bytes;
}
static bool room(uint64_t bytes, uint64_t uncounted)
{
	(void)bytes, (void)uncounted;
	return !told.no_room;
}

static int no_pages_yet(char *at, size_t size)
{
	(void)at, (void)size;
	return 0;
}

static void start_with(uint64_t host, bool keeps)
{
	const struct fm_cu_arena_use use = {
		claim_, unclaim_, NULL, host, keeps, NULL, NULL, NULL, NULL, -1};
	const struct fm_cu_move_ops ops = {
		goes_on, moved, enter_, leave_, nap_, NULL, share_, since_, NULL, mapped_, NULL};

	memset(&dev, 0, sizeof(dev));
	memset(&told, 0, sizeof(told));
	told.naps_most = 1000000;
	dev.most = dev.limit = dev.host_most = UINT64_MAX / 2;
	assert_int_equal(fm_cu_arena_create(&a, &driver, (CUcontext)8, 0, &use), 0);
	a->host.has_room = room;
	a->host.populate = no_pages_yet;
	m = fm_cu_move_create(a, &ops);
	assert_non_null(m);
}

static inline void start(uint64_t host)
{
	start_with(host, false);
}

static void end(void)
{
	dev.fails_at = 0;
	fm_cu_move_end(m, false);
	fm_cu_arena_destroy(a);
	assert_int_equal(dev.used, 0);
	assert_int_equal(dev.host_used, 0);
	assert_int_equal(dev.claimed, 0);
}

static CUdeviceptr get(size_t size)
{
	CUdeviceptr p;

	assert_int_equal(fm_cu_arena_alloc(a, size, &p), 0);
	return p;
}
static inline void give(CUdeviceptr p)
{
	assert_int_equal(fm_cu_arena_free(a, p), 0);
}

static uint64_t stamp(CUdeviceptr p, size_t at)
{
	return (p + at) * UINT64_C(0x9e3779b97f4a7c15) ^ 0x5555;
}
static void fill(CUdeviceptr p, size_t size)
{
	for (size_t i = 0; i < size; i += PAGE) {
		uint64_t v = stamp(p, i);

		memcpy(marks(p + i), &v, sizeof(v));
	}
}
static void check(CUdeviceptr p, size_t size)
{
	for (size_t i = 0; i < size; i += PAGE) {
		uint64_t v = stamp(p, i);

		assert_memory_equal(marks(p + i), &v, sizeof(v));
	}
}
