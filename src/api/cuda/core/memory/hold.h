/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that others reach for a while (a network card with which it is registered): it stays on
 * the device until it has been let go as often as it was held. What is pinned for another reason
 * meanwhile stays for good.
 *
 * Locks: the arena's. What holds is the caller's.
 */
#pragma once
#include "arena.h"
#include "vmm.h"

/* The chunks that are held, by where they are at home. A chunk that ends is forgotten, and one that
 * is made in its place is another: `number` tells them apart. */
struct fm_cu_holds {
	struct fm_cu_hold {
		const struct fm_cu_arena *of;
		CUdeviceptr at;
		uint64_t number;
	} * one;
	unsigned n, room;
};

/* What is around [at, at + size), blocks of the arena alone; or all of what the program maps. They
 * are added to h. 0, and *bytes that did move until now. -EBUSY: it is on the host, and may
 * come to the device; mapped on the host is good enough with `anywhere', and it stays there.
 * -ENOMEM. Then nothing of this call is held. */
int fm_cu_arena_hold(struct fm_cu_arena *a, CUdeviceptr at, size_t size, unsigned reason,
	bool anywhere, struct fm_cu_holds *h, uint64_t *bytes);
int fm_cu_vmm_hold(struct fm_cu_vmm *v, unsigned reason, bool anywhere, struct fm_cu_holds *h,
	uint64_t *bytes);
/* Those of h that are of this arena, held for that reason: *bytes move again. */
void fm_cu_arena_let_go(
	struct fm_cu_arena *a, unsigned reason, const struct fm_cu_holds *h, uint64_t *bytes);
