/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the program maps itself: its mappings leave before it goes, and are the same when it
 * is back, whichever call of the driver fails. */
#include "api/cuda/core/memory/lost.h"
#include "api/cuda/core/memory/vmm.h"
#include "memory_world.h"

#define ELSEWHERE ((CUdeviceptr)1 << 40) /* addresses of the program's */

static const struct fm_cu_memory_kind plain = {
	.type = FM_CU_MEMORY_PINNED, .location = {FM_CU_LOCATION_DEVICE, 0}};
static const struct fm_cu_memory_access all = {{FM_CU_LOCATION_DEVICE, 0}, 3},
					reads = {{FM_CU_LOCATION_DEVICE, 0}, 1},
					third = {{FM_CU_LOCATION_DEVICE, 3}, 3};

static struct fm_cu_vmm *make(size_t size)
{
	struct fm_cu_vmm *v;

	assert_int_equal(fm_cu_vmm_create(a, size, &plain, false, &v), 0);
	return v;
}

static struct fm_cu_mapping *map_at(struct fm_cu_vmm *v, CUdeviceptr at)
{
	struct fm_cu_mapping *map;

	assert_int_equal(fm_cu_vmm_map(v, at, v->size, 0, &map), 0);
	return map;
}

/* As the shim does it. */
static void open_to(struct fm_cu_mapping *map, const struct fm_cu_memory_access *what)
{
	assert_int_equal(fm_cu_vmm_grant_ready(map, 1), 0);
	for (unsigned i = 0; i < map->n; i++)
		assert_int_equal(access_(map->alias[i].at, map->alias[i].size, what, 1), 0);
	fm_cu_vmm_granted(map, what, 1);
}

static void drop(struct fm_cu_mapping *map)
{
	for (unsigned i = 0; i < map->n; i++)
		assert_int_equal(unmap_(map->alias[i].at, map->alias[i].size), 0);
	fm_cu_vmm_unmapped(map);
}

/* Each alias is there, and is the memory that is at the chunk's home. */
static void is_mapped(const struct fm_cu_mapping *map, unsigned flags)
{
	for (unsigned i = 0; i < map->n; i++) {
		const struct fm_cu_alias *l = &map->alias[i];

		assert_non_null(alias_at(l->at));
		assert_int_equal(alias_at(l->at)->h, handle_at(l->chunk->at));
		assert_int_equal(alias_at(l->at)->flags, flags);
	}
}

static void mark(const struct fm_cu_vmm *v)
{
	for (unsigned i = 0; i < v->n; i++)
		fill(v->chunk[i]->at, fm_cu_chunk_size(v->chunk[i]));
}

static void is_marked(const struct fm_cu_vmm *v)
{
	for (unsigned i = 0; i < v->n; i++)
		check(v->chunk[i]->at, fm_cu_chunk_size(v->chunk[i]));
}

static void kinds_that_move(void **state)
{
	struct fm_cu_memory_kind kind = plain;

	(void)state;
	assert_true(fm_cu_vmm_able(&kind, 20 * MIB));
	assert_true(fm_cu_vmm_able(&kind, 1000 * MIB));
	assert_false(fm_cu_vmm_able(&kind, MIB));
	assert_false(fm_cu_vmm_able(&kind, 0));
	kind.flags[1] = 1;
	assert_true(fm_cu_vmm_able(&kind, 20 * MIB)); /* network cards may use it */
	kind.flags[0] = 1;
	assert_false(fm_cu_vmm_able(&kind, 20 * MIB)); /* compressed */
	kind = plain;
	kind.flags[2] = 1;
	assert_false(fm_cu_vmm_able(&kind, 20 * MIB)); /* of sparse arrays */
	kind = plain;
	kind.handle_types = 1;
	assert_true(fm_cu_vmm_able(&kind, 128 * MIB));
	assert_false(fm_cu_vmm_able(&kind, 130 * MIB)); /* it has one handle for others */
	kind = plain;
	kind.location.type = 3;
	assert_false(fm_cu_vmm_able(&kind, 20 * MIB)); /* of the host */
}

static void goes_and_comes(void **state)
{
	struct fm_cu_mapping *one, *two, *closed;
	struct fm_cu_vmm *v, *w;

	(void)state;
	start(512 * MIB);
	v = make(20 * MIB);
	w = make(260 * MIB);
	assert_int_equal(w->n, 3);
	assert_int_equal(dev.claimed, 280 * MIB);
	one = map_at(v, ELSEWHERE);
	two = map_at(v, ELSEWHERE + 64 * MIB);
	closed = map_at(w, ELSEWHERE + 512 * MIB);
	open_to(one, &reads);
	open_to(two, &reads);
	open_to(two, &all); /* the last one holds */
	open_to(two, &third);
	assert_int_equal(two->n_granted, 2);
	mark(v);
	mark(w);
	for (unsigned turn = 0; turn < 3; turn++) {
		assert_int_equal(fm_cu_move_out(m), 0);
		assert_int_equal(dev.used, 0);
		assert_null(alias_at(ELSEWHERE));
		assert_int_equal(fm_cu_move_in(m), 0);
		is_mapped(one, 1);
		is_mapped(two, 3);
		is_mapped(closed, 0);
		is_marked(v);
		is_marked(w);
	}
	assert_int_equal(told.out, 3 * 280 * MIB);
	drop(one);
	drop(closed);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	is_marked(w); /* mapped nowhere, it is as it was */
	is_mapped(two, 3);
	drop(two);
	fm_cu_vmm_end(v);
	fm_cu_vmm_end(w);
	end();
}

/* Part of it, across two chunks, as far as a driver allows that. */
static void wrong_parts(void **state)
{
	struct fm_cu_mapping *map;
	struct fm_cu_vmm *v;

	(void)state;
	start(512 * MIB);
	v = make(256 * MIB);
	assert_int_not_equal(fm_cu_vmm_map(v, ELSEWHERE, 0, 0, &map), 0);
	assert_int_not_equal(fm_cu_vmm_map(v, ELSEWHERE, 2 * MIB, 256 * MIB, &map), 0);
	assert_int_not_equal(fm_cu_vmm_map(v, ELSEWHERE, 258 * MIB, 0, &map), 0);
	assert_int_not_equal(fm_cu_vmm_map(v, ELSEWHERE, 256 * MIB, 2 * MIB, &map), 0);
	assert_int_equal(fm_cu_vmm_map(v, ELSEWHERE, 128 * MIB, 128 * MIB, &map), 0);
	assert_int_equal(map->n, 1);
	assert_ptr_equal(map->alias[0].chunk, v->chunk[1]);
	drop(map);
	assert_int_equal(fm_cu_vmm_grant_ready(map_at(v, ELSEWHERE), 5000), -ENOMEM);
	drop((struct fm_cu_mapping *)v->chunk[0]->aliases->of);
	fm_cu_vmm_end(v);
	end();
}

static void pinned_stays(void **state)
{
	struct fm_cu_mapping *map;
	struct fm_cu_vmm *v, *w;
	uint64_t bytes;

	(void)state;
	start(512 * MIB);
	v = make(20 * MIB);
	w = make(20 * MIB);
	map = map_at(v, ELSEWHERE);
	assert_int_equal(fm_cu_vmm_pin(v, 3, false, &bytes), 0);
	assert_int_equal(bytes, 20 * MIB);
	assert_int_equal(fm_cu_vmm_pin(v, 4, false, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.used, 20 * MIB);
	is_mapped(map, 0);
	assert_int_equal(fm_cu_vmm_pin(w, 3, false, &bytes), -EBUSY);
	assert_int_equal(fm_cu_move_in(m), 0);
	drop(map);
	dev.pinned = 20 * MIB; /* as its user has counted it */
	fm_cu_vmm_end(v);
	fm_cu_vmm_end(w);
	end();
}

/* It is of no context: with the arena's gone it stays, and moves again with the next. */
static void outlives_a_context(void **state)
{
	struct fm_cu_mapping *map;
	struct fm_cu_vmm *v;

	(void)state;
	start_with(512 * MIB, true);
	v = make(20 * MIB);
	map = map_at(v, ELSEWHERE);
	open_to(map, &all);
	mark(v);
	get(30 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	fm_cu_digests_end(a->digests, false); /* as a driver does it */
	a->digests = NULL;
	fm_cu_arena_context_gone(a);
	assert_int_equal(a->host.bytes, 0);
	assert_int_equal(dev.used, (20 + a->spare_pages * 2) * MIB);
	is_mapped(map, 3);
	is_marked(v);
	fm_cu_move_end(m, true);
	fm_cu_arena_context_is(a, (CUcontext)8, true);
	m = fm_cu_move_create(a, &(struct fm_cu_move_ops){.goes_on = goes_on,
					 .moved = moved,
					 .enter = enter_,
					 .leave = leave_,
					 .nap = nap_});
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.used, 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	is_mapped(map, 3);
	is_marked(v);
	drop(map);
	fm_cu_vmm_end(v);
	end();
}

/* Where there is no room it runs from the host, at the same addresses, and comes home later. */
static void runs_from_the_host(void **state)
{
	struct fm_cu_memory_kind kind = plain;
	struct fm_cu_mapping *map;
	struct fm_cu_vmm *v;
	uint64_t bytes;

	(void)state;
	start(512 * MIB);
	kind.flags[1] = 1;
	assert_int_equal(fm_cu_vmm_create(a, 140 * MIB, &kind, false, &v), 0);
	map = map_at(v, ELSEWHERE);
	open_to(map, &reads);
	mark(v);
	for (unsigned turn = 0; turn < 2; turn++) {
		assert_int_equal(fm_cu_move_out(m), 0);
		assert_int_equal(fm_cu_move_in_part(m, 20 * MIB), 0);
		assert_int_equal(dev.used, 12 * MIB);
		is_mapped(map, 1);
		is_marked(v);
		assert_int_equal(fm_cu_vmm_pin(v, 3, false, &bytes), -EBUSY);
		assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
		assert_int_equal(dev.used, 140 * MIB);
		is_mapped(map, 1);
		is_marked(v);
		for (unsigned i = 0; i < v->n; i++)
			assert_true(dev.memory[v->chunk[i]->handle].cards);
	}
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in_part(m, 20 * MIB), 0);
	assert_int_equal(fm_cu_vmm_pin(v, 3, true, &bytes), 0);
	assert_int_equal(bytes, 140 * MIB);
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	assert_int_equal(dev.used, 12 * MIB); /* something waits for a word of it there */
	is_mapped(map, 1);
	drop(map);
	dev.pinned = 140 * MIB; /* as its user has counted it */
	fm_cu_vmm_end(v);
	end();
}

/* Its handle is another memory's by then. */
static void lost_memory_is_not_mapped(void **state)
{
	struct fm_cu_mapping *map;
	struct fm_cu_vmm *v;
	CUdeviceptr other;

	(void)state;
	start(512 * MIB);
	v = make(20 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	fm_cu_arena_lose(a);
	other = get(20 * MIB);
	assert_int_equal(fm_cu_vmm_map(v, ELSEWHERE, v->size, 0, &map), FM_CU_ERROR_INVALID_VALUE);
	assert_null(alias_at(ELSEWHERE));
	fm_cu_vmm_end(v);
	assert_int_equal(fm_cu_arena_free(a, other), 0);
	end();
}

/* A device that cannot reach it any more does not keep the others from it. */
static void lost_peer(void **state)
{
	struct fm_cu_mapping *map;
	struct fm_cu_vmm *v;

	(void)state;
	start(512 * MIB);
	v = make(20 * MIB);
	map = map_at(v, ELSEWHERE);
	open_to(map, &all);
	open_to(map, &third);
	assert_int_equal(fm_cu_move_out(m), 0);
	dev.refused = 3;
	assert_int_equal(fm_cu_move_in(m), 0);
	is_mapped(map, 3);
	drop(map);
	fm_cu_vmm_end(v);
	end();
}

/* A limit, and a device that is full, leave nothing behind. */
static void no_memory(void **state)
{
	struct fm_cu_vmm *v = NULL;

	(void)state;
	start(512 * MIB);
	dev.limit = 200 * MIB;
	assert_int_equal(fm_cu_vmm_create(a, 260 * MIB, &plain, false, &v), -ENOMEM);
	assert_int_equal(dev.claimed, 0);
	dev.limit = UINT64_MAX / 2;
	dev.most = 200 * MIB;
	assert_int_equal(fm_cu_vmm_create(a, 260 * MIB, &plain, false, &v), -ENOMEM);
	assert_int_equal(dev.used, 0);
	assert_null(v);
	assert_int_equal(fm_cu_vmm_create(a, (size_t)1 << 60, &plain, false, &v), -ENOMEM);
	end();
}

/* Moves out and in while one call fails; then all works, and everything is as it was. False: there
 * are no more calls. */
static bool with_a_fault(unsigned at)
{
	struct fm_cu_mapping *one, *two;
	struct fm_cu_vmm *v, *w;

	start(512 * MIB);
	v = make(20 * MIB);
	w = make(130 * MIB);
	one = map_at(v, ELSEWHERE);
	two = map_at(v, ELSEWHERE + 64 * MIB);
	open_to(one, &all);
	open_to(two, &reads);
	open_to(two, &third);
	mark(v);
	mark(w);
	dev.fails_at = dev.calls + at;
	for (unsigned turn = 0; turn < 2; turn++) {
		fm_cu_move_out(m);
		fm_cu_move_in(m);
	}
	assert_int_equal(fm_cu_move_in(m), 0);
	is_mapped(one, 3);
	is_mapped(two, 1);
	is_marked(v);
	is_marked(w);
	at = dev.failed;
	dev.fails_at = 0;
	drop(one);
	drop(two);
	fm_cu_vmm_end(v);
	fm_cu_vmm_end(w);
	end();
	return at;
}

static void each_call_of_the_driver_may_fail_once(void **state)
{
	unsigned at = 1;

	(void)state;
	while (with_a_fault(at))
		at++;
	assert_true(at > 60);
}

/* Nor does one that fails while it is made or mapped leave a part of a mapping. */
static void making_may_fail(void **state)
{
	struct fm_cu_mapping *map;
	struct fm_cu_vmm *v;
	bool failed = true;

	(void)state;
	for (unsigned at = 1; failed; at++) {
		start(512 * MIB);
		dev.fails_at = dev.calls + at;
		if (!fm_cu_vmm_create(a, 260 * MIB, &plain, false, &v)) {
			bool mapped = !fm_cu_vmm_map(v, ELSEWHERE, v->size, 0, &map);

			assert_true(mapped || dev.failed);
			dev.fails_at = 0;
			if (mapped)
				drop(map);
			for (size_t p = 0; p < v->size; p += PAGE)
				assert_null(alias_at(ELSEWHERE + p));
			fm_cu_vmm_end(v);
		}
		failed = dev.failed;
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_that_move),
		cmocka_unit_test(goes_and_comes),
		cmocka_unit_test(wrong_parts),
		cmocka_unit_test(pinned_stays),
		cmocka_unit_test(outlives_a_context),
		cmocka_unit_test(runs_from_the_host),
		cmocka_unit_test(lost_memory_is_not_mapped),
		cmocka_unit_test(lost_peer),
		cmocka_unit_test(no_memory),
		cmocka_unit_test(each_call_of_the_driver_may_fail_once),
		cmocka_unit_test(making_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
