/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves: addresses, blocks, chunks, the way to the host and back, and each call of the
 * driver failing once. */
#include "api/cuda/core/memory/lost.h"
#include "memory_world.h"

/* --- pure parts --- */

static void runs_of_pages_are_found(void **state)
{
	unsigned at = 0, n;

	(void)state;
	assert_int_equal(fm_cu_run_find(0, 64, 64), 0);
	assert_int_equal(fm_cu_run_find(0, 10, 11), -1);
	assert_int_equal(fm_cu_run_find(0x5, 64, 1), 1);
	assert_int_equal(fm_cu_run_find(0x5, 64, 2), 3);
	assert_int_equal(fm_cu_run_find(UINT64_MAX, 64, 1), -1);
	assert_int_equal(fm_cu_run_find(UINT64_MAX >> 1, 64, 1), 63);
	assert_int_equal(fm_cu_run_next(0xf6, &at, &n), 1);
	assert_int_equal(n, 2);
	assert_int_equal(fm_cu_run_next(0xf6, &at, &n), 4);
	assert_int_equal(n, 4);
	assert_true(fm_cu_run_next(0xf6, &at, &n) < 0);
	at = 0;
	assert_int_equal(fm_cu_run_next(UINT64_MAX, &at, &n), 0);
	assert_int_equal(n, 64);
	assert_true(fm_cu_run_next(UINT64_MAX, &at, &n) < 0);
}

/* A list of places against a byte for each. */
static void places_are_what_a_map_of_bytes_says(void **state)
{
	enum { PAGES = 300, LIVE = 60 };
	static bool taken[PAGES];
	struct {
		uint32_t first, n;
	} live[LIVE] = {0};
	struct fm_cu_places p;
	unsigned random = 1;

	(void)state;
	assert_int_equal(fm_cu_places_init(&p, PAGES), 0);
	for (unsigned step = 0; step < 20000; step++) {
		unsigned i = (random = random * 1103515245 + 12345) >> 16 & 0x7fff,
			 n = 1 + i / LIVE % 9;
		typeof(live[0]) *l = &live[i % LIVE];

		if (l->n) {
			for (unsigned k = 0; k < l->n; k++)
				taken[l->first + k] = false;
			fm_cu_places_give(&p, l->first, l->n);
			l->n = 0;
		} else if (!fm_cu_places_take(&p, n, 1, &l->first)) {
			l->n = n;
			for (unsigned k = 0; k < n; k++) {
				assert_false(taken[l->first + k]);
				taken[l->first + k] = true;
			}
		} else {
			for (unsigned at = 0, free = 0; at < PAGES; at++) {
				free = taken[at] ? 0 : free + 1;
				assert_true(free < n);
			}
		}
	}
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i].n)
			fm_cu_places_give(&p, live[i].first, live[i].n);
	assert_int_equal(p.runs, 1);
	assert_int_equal(p.run[0].n, PAGES);
	assert_int_equal(p.taken, 0);
	fm_cu_places_end(&p);
}

static void classes_waste_little(void **state)
{
	unsigned each, was = 0, last = 0;

	(void)state;
	for (size_t size = 1; size <= FM_CU_SMALL_MOST; size++) {
		unsigned class = fm_cu_small_class(size, &each), again;

		assert_true(each >= size && each % 512 == 0 && class < FM_CU_CLASSES);
		assert_true(size <= 2048 || each - size <= each / 5);
		assert_int_equal(fm_cu_small_class(each, &again), class);
		assert_int_equal(again, each);
		assert_true(class == was || (class == was + 1 && each > last));
		was = class;
		last = each;
	}
}

/* --- blocks --- */

static void small_blocks_share_a_page_and_it_goes_with_the_last(void **state)
{
	CUdeviceptr p[5000];
	struct fm_cu_block b, c;

	(void)state;
	start(0);
	for (unsigned i = 0; i < 5000; i++) {
		p[i] = get(100);
		assert_int_equal(p[i] % 512, 0);
		assert_true(fm_cu_arena_find(a, p[i] + 99, &b));
		assert_true(b.at == p[i] && b.size == 100);
		assert_false(fm_cu_arena_find(a, p[i] + 100, &b));
	}
	assert_int_equal(dev.used, 2 * PAGE);
	assert_int_equal(dev.claimed, dev.used);
	assert_true(fm_cu_arena_find(a, p[8], &b));
	assert_int_equal(fm_cu_arena_free(a, p[7] + 512), 0); /* the one behind it */
	assert_int_equal(fm_cu_arena_free(a, p[8]), -EINVAL);
	assert_int_equal(fm_cu_arena_free(a, p[7] + 1), -EINVAL);
	assert_true(get(50) == p[8]);
	assert_true(fm_cu_arena_find(a, p[8], &c) && c.at == b.at);
	assert_true(c.id != b.id); /* another block, whoever has a handle of that one */
	for (unsigned i = 0; i < 5000; i++)
		give(p[i]);
	assert_int_equal(fm_cu_arena_free(a, p[0]), -EINVAL);
	assert_int_equal(dev.used, 2 * PAGE); /* kept for the next ones */
	assert_int_equal(a->spares, 2);
	end();
}

static void blocks_of_pages_are_carved_out_of_slabs(void **state)
{
	CUdeviceptr p[100];
	struct fm_cu_block b, c;

	(void)state;
	start(0);
	for (unsigned i = 0; i < 100; i++) {
		p[i] = get(20 * MIB - 5);
		assert_int_equal((p[i] - a->base) % PAGE, 0);
	}
	/* At most a quarter more than what was asked for. */
	assert_true(dev.used >= 2000 * MIB && dev.used <= 2500 * MIB);
	assert_true(fm_cu_arena_find(a, p[3] + 20 * MIB - 6, &b) && b.at == p[3]);
	assert_false(fm_cu_arena_find(a, p[3] + 20 * MIB - 5, &c));
	assert_true(fm_cu_arena_find(a, p[4], &c) && c.id != b.id);
	assert_int_equal(fm_cu_arena_free(a, p[3] + PAGE), -EINVAL);
	for (unsigned i = 0; i < 100; i++)
		give(p[i]);
	assert_true(dev.used <= 64 * MIB);
	end();
}

static void large_blocks_have_their_own_chunks(void **state)
{
	CUdeviceptr p, q;
	struct fm_cu_block b;

	(void)state;
	start(0);
	p = get(300 * MIB + 1);
	assert_int_equal(dev.used, 302 * MIB);
	assert_true(fm_cu_arena_find(a, p + 300 * MIB, &b) && b.at == p && b.size == 300 * MIB + 1);
	q = get(128 * MIB);
	give(p);
	p = get(300 * MIB); /* in the same place */
	give(q);
	give(p);
	assert_int_equal(fm_cu_arena_alloc(a, 0, &p), -EINVAL);
	assert_int_equal(fm_cu_arena_alloc(a, (size_t)1 << 63, &p), -ENOMEM);
	assert_int_equal(fm_cu_arena_alloc(a, SIZE_MAX, &p), -ENOMEM);
	assert_false(fm_cu_arena_find(a, 17, &b));
	end();
}

static void a_smaller_reservation_does(void **state)
{
	const struct fm_cu_arena_use use = {
		claim_, unclaim_, NULL, 0, false, NULL, NULL, NULL, NULL, -1};

	(void)state;
	memset(&dev, 0, sizeof(dev));
	dev.reserve_most_shift = 36;
	assert_int_equal(fm_cu_arena_create(&a, &driver, (CUcontext)8, 0, &use), 0);
	assert_int_equal(fm_cu_arena_range(a).size, (size_t)1 << 36);
	fm_cu_arena_destroy(a);
	dev.reserve_most_shift = 30;
	assert_int_equal(fm_cu_arena_create(&a, &driver, (CUcontext)8, 0, &use), -ENOMEM);
}

/* What is kept for later goes before an allocation fails; a limit counts it, too. */
static void spares_go_before_memory_ends(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	start(0);
	dev.most = 66 * MIB;
	p = get(20 * MIB);
	give(p);
	assert_int_equal(dev.used, 20 * MIB);
	p = get(60 * MIB);
	assert_int_equal(fm_cu_arena_alloc(a, 60 * MIB, &q), -ENOMEM);
	give(p);
	dev.limit = 64 * MIB;
	p = get(64 * MIB);
	assert_int_equal(fm_cu_arena_alloc(a, 1, &q), -ENOMEM);
	give(p);
	end();
}

/* A slab that would grow takes what the block needs where there is no more. */
static void a_slab_does_with_less(void **state)
{
	(void)state;
	start(0);
	for (unsigned i = 0; i < 10; i++)
		get(60 * MIB);
	dev.most = dev.used + 2 * MIB;
	get(2 * MIB);
	end();
}

/* --- moves --- */

static void memory_goes_out_and_comes_back(void **state)
{
	const size_t size[] = {300 * MIB, 2 * MIB, 20 * MIB, 6 * MIB, 128 * MIB};
	CUdeviceptr p[5];
	struct fm_cu_arena_sums s;
	uint64_t was;

	(void)state;
	start(1024 * MIB);
	for (unsigned i = 0; i < 5; i++)
		fill(p[i] = get(size[i]), size[i]);
	give(p[3]); /* a hole in a slab is not copied */
	was = dev.claimed;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.used, 0);
	assert_true(dev.claimed <= was);
	assert_int_equal(told.out, 450 * MIB);
	assert_int_equal(dev.copied, 450 * MIB);
	fm_cu_arena_sum(a, &s);
	assert_int_equal(s.host, 450 * MIB);
	assert_int_equal(s.here, 0);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.copied, 450 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_int_equal(told.in, 450 * MIB);
	for (unsigned i = 0; i < 5; i++)
		if (i != 3)
			check(p[i], size[i]);
	fm_cu_arena_sum(a, &s);
	assert_int_equal(s.host, 0);
	assert_int_equal(s.here, dev.used);
	fm_cu_move_trim(m);
	assert_int_equal(dev.registered, 0);
	assert_int_equal(a->host.bytes, 0);
	end();
}

/* Freed on the host: its memory there is free again, and the rest comes back right. */
static void what_is_freed_on_the_host_does_not_come_back(void **state)
{
	CUdeviceptr p, q, r;

	(void)state;
	start(512 * MIB);
	fill(p = get(2 * MIB), 2 * MIB);
	fill(q = get(40 * MIB), 40 * MIB);
	fill(r = get(128 * MIB), 128 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	give(r);
	give(p);
	dev.copied = 0;
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_int_equal(dev.copied, 40 * MIB);
	check(q, 40 * MIB);
	for (struct fm_cu_host_segment *s = a->host.segments; s; s = s->next)
		assert_int_equal(s->used, 0);
	end();
}

static void what_is_pinned_stays(void **state)
{
	struct fm_cu_block b;
	uint64_t bytes;
	CUdeviceptr p, q;

	(void)state;
	start(512 * MIB);
	p = get(200 * MIB);
	q = get(130 * MIB);
	assert_int_equal(fm_cu_arena_pin(a, p + 5, 3, &bytes), 0);
	assert_int_equal(bytes, 200 * MIB);
	assert_int_equal(fm_cu_arena_pin(a, p, 4, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_true(fm_cu_arena_find(a, p, &b));
	assert_int_equal(b.stays, 3);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.used, 200 * MIB);
	assert_int_equal(fm_cu_arena_pin(a, q, 3, &bytes), -EBUSY);
	assert_int_equal(fm_cu_arena_pin_all(a, 3, &bytes), -EBUSY);
	assert_int_equal(fm_cu_arena_pin(a, q + 200 * MIB, 3, &bytes), -ENOENT);
	assert_int_equal(fm_cu_move_in(m), 0);
	/* All of it; and what is counted as pinned goes as pinned. */
	assert_int_equal(fm_cu_arena_pin_all(a, 4, &bytes), 0);
	assert_int_equal(bytes, 130 * MIB);
	dev.pinned = 330 * MIB;
	get(128 * MIB);
	assert_int_equal(dev.pinned, 458 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.used, 458 * MIB);
	end();
	assert_int_equal(dev.pinned, 0);
}

/* What another device reaches it reaches also after a move, and what is allocated later. */
static void other_devices_reach_it_wherever_it_was(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	start(512 * MIB);
	p = get(130 * MIB);
	assert_int_equal(dev.memory[handle_at(p)].reaching, 1);
	assert_int_equal(fm_cu_arena_peer(a, 3), 0);
	assert_int_equal(fm_cu_arena_peer(a, 3), 0);
	assert_int_equal(dev.memory[handle_at(p)].reaching, 9);
	q = get(20 * MIB);
	assert_int_equal(dev.memory[handle_at(q)].reaching, 9);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_arena_peer(a, 4), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_int_equal(dev.memory[handle_at(p)].reaching, 25);
	assert_int_equal(dev.memory[handle_at(q)].reaching, 25);
	for (CUdevice d = 5; d < 5 + FM_CU_REACHING - 3; d++)
		assert_int_equal(fm_cu_arena_peer(a, d), 0);
	assert_int_equal(fm_cu_arena_peer(a, 40), -ENOSPC);
	end();
}

/* A device that cannot reach this memory does not keep it from coming in. */
static void a_device_that_is_refused_changes_nothing(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(512 * MIB);
	dev.refused = 4;
	fill(p = get(130 * MIB), 130 * MIB);
	assert_int_equal(fm_cu_arena_peer(a, 4), -EIO);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_arena_peer(a, 4), 0); /* nobody is asked */
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 130 * MIB);
	end();
}

static void a_host_that_is_full_leaves_the_rest_on_the_device(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	start(200 * MIB);
	fill(p = get(128 * MIB), 128 * MIB);
	fill(q = get(128 * MIB), 128 * MIB);
	assert_int_equal(fm_cu_move_out(m), -ENOMEM);
	assert_int_equal(dev.used, 128 * MIB);
	check(p, 128 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(q, 128 * MIB);
	end();
}

static void it_waits_for_room_on_the_device(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(512 * MIB);
	fill(p = get(256 * MIB), 256 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	dev.most = 128 * MIB;
	told.naps_most = told.naps + 100;
	assert_int_equal(fm_cu_move_in(m), -ENOMEM);
	told.naps_most = 1000000;
	dev.makes_room = true;
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 256 * MIB);
	end();
}

static uint64_t here(void)
{
	struct fm_cu_arena_sums s;

	fm_cu_arena_sum(a, &s);
	return s.here - s.pinned;
}

/* Out only as far as the share says, and in again as far as it says later. */
static void a_share_stays_and_comes_in_early(void **state)
{
	CUdeviceptr p, q;
	uint64_t bytes;

	(void)state;
	start(1024 * MIB);
	fill(p = get(512 * MIB), 512 * MIB); /* four chunks */
	fill(q = get(130 * MIB), 130 * MIB);
	assert_int_equal(fm_cu_arena_pin(a, q, 3, &bytes), 0);
	set_share(UINT64_MAX);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 512 * MIB);
	assert_int_equal(told.out, 0);
	set_share(300 * MIB); /* not in the middle of a chunk */
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 256 * MIB);
	assert_int_equal(dev.used, (256 + 130) * MIB);
	set_share(383 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 256 * MIB);
	set_share(384 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 384 * MIB);
	assert_int_equal(told.in, 128 * MIB);
	set_share(0);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 0);
	set_share(512 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 512 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 512 * MIB);
	check(q, 130 * MIB);
	end();
}

static void a_share_that_changes_is_heeded(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	fill(p = get(512 * MIB), 512 * MIB);
	told.share = 0; /* one chunk begins to go out, and no more */
	told.share_after = 384 * MIB;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 384 * MIB);
	told.share = 512 * MIB; /* and here one comes in that must go again, with another */
	told.share_after = 256 * MIB;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 256 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 512 * MIB);
	end();
}

/* What others need without a plan stays free: memory fits only with that. */
static void memory_leaves_room_for_what_nobody_plans(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	fill(p = get(512 * MIB), 512 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	dev.most = 256 * MIB;
	dev.brim = true;
	set_share(512 * MIB);
	assert_int_equal(fm_cu_move_out(m), -ENOSPC);
	assert_int_equal(here(), 128 * MIB);
	dev.brim = false;
	assert_int_equal(fm_cu_move_out(m), -ENOSPC);
	assert_int_equal(here(), 256 * MIB);
	dev.most = UINT64_MAX;
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 512 * MIB);
	end();
}

static void an_early_load_does_not_wait_for_room(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	fill(p = get(512 * MIB), 512 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	dev.most = 256 * MIB;
	set_share(512 * MIB);
	assert_int_equal(fm_cu_move_out(m), -ENOSPC);
	assert_int_equal(here(), 256 * MIB);
	dev.most = UINT64_MAX;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(here(), 512 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 512 * MIB);
	end();
}

static void it_stops_where_it_is_told_to(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(512 * MIB);
	fill(p = get(256 * MIB), 256 * MIB);
	dev.stop = true;
	assert_int_equal(fm_cu_move_out(m), -ECANCELED);
	assert_int_equal(dev.used, 256 * MIB);
	dev.stop = false;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 256 * MIB);
	end();
}

static void the_end_of_a_context_ends_its_memory(void **state)
{
	(void)state;
	start(512 * MIB);
	get(10);
	get(256 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	get(20 * MIB);
	fm_cu_arena_context_gone(a);
	assert_int_equal(dev.used, 0);
	assert_int_equal(dev.claimed, 0);
	assert_null(fm_cu_arena_context(a));
	fm_cu_arena_context_is(a, (CUcontext)8, true);
	get(256 * MIB);
	end();
}

/* --- each call of the driver fails once --- */

/* What was out when the context died counts no more, and is freed as ever. */
static void what_is_lost_is_nowhere(void **state)
{
	struct fm_cu_arena_sums s;
	CUdeviceptr p, q;
	uint64_t bytes;

	(void)state;
	start(UINT64_MAX);
	p = get(20 * MIB);
	q = get(130 * MIB);
	fill(p, 20 * MIB);
	fill(q, 130 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_true(fm_cu_arena_away(a));
	fm_cu_arena_lose(a);
	assert_false(fm_cu_arena_away(a));
	assert_int_equal(dev.claimed, 0);
	fm_cu_arena_sum(a, &s);
	assert_true(!s.all && !s.here && !s.host);
	assert_int_equal(fm_cu_arena_pin(a, q, 3, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	give(p);
	p = get(4 * MIB); /* there is a new chunk for it */
	fill(p, 4 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 4 * MIB);
	give(q);
	end();
}

/* What is noted of each chunk is what the driver has, and each content is in one place. */
static void notes_are_true(void)
{
	struct fm_cu_chunk *c;
	uint64_t used = a->spare_pages * PAGE;

	fm_list_each (c, &a->chunks, all) {
		unsigned h = handle_at(c->at);

		assert_int_equal(c->mapped, h != 0);
		assert_true(!c->mapped || (c->made && c->handle == h));
		assert_true(!c->made || dev.memory[c->handle].live);
		assert_true(!c->mapped || c->reachable == dev.memory[h].reachable);
		assert_true(c->away || !c->used || fm_cu_chunk_here(c));
		assert_int_equal(c->waits, 0);
		assert_true(!c->away || !c->out || c->host.of);
		assert_true(c->away || !c->out);
		assert_true(c->away || !c->host.of || (c->digests && c->digests->known));
		used += c->made ? fm_cu_chunk_size(c) : 0;
	}
	assert_int_equal(dev.used, used);
	assert_int_equal(dev.put, dev.done);
	assert_int_equal(dev.pushed, 0);
}

/* Allocates, moves out and in, and frees, while one call fails; then all works, and the content is
 * what it was. */
static bool with_a_fault(unsigned at, bool keeps)
{
	const size_t size[] = {20 * MIB, 130 * MIB, 512};
	CUdeviceptr p[3] = {0};

	start_with(512 * MIB, false);
	a->digests = keeps ? fm_cu_digests_create(&driver) : NULL;
	dev.fails_at = dev.calls + at;
	for (unsigned i = 0; i < 3; i++) {
		if (!fm_cu_arena_alloc(a, size[i], &p[i]))
			fill(p[i], size[i]);
		else
			p[i] = 0;
		notes_are_true();
	}
	for (unsigned i = 0; i < 3; i++)
		if (!p[i])
			fill(p[i] = get(size[i]), size[i]);
	for (unsigned turn = 0; turn < 2; turn++) {
		fm_cu_move_out(m);
		notes_are_true();
		fm_cu_move_in(m);
		notes_are_true();
	}
	fm_cu_move_trim(m);
	assert_int_equal(fm_cu_move_in(m), 0);
	for (unsigned i = 0; i < 3; i++)
		check(p[i], size[i]);
	for (unsigned i = 0; i < 3; i++)
		give(p[i]);
	notes_are_true();
	if (!dev.failed)
		dev.fails_at = 0;
	at = dev.failed;
	end();
	return at;
}

static void each_call_of_the_driver_may_fail_once(void **state)
{
	unsigned at = 1;

	(void)state;
	while (with_a_fault(at, false))
		at++;
	assert_true(at > 80);
	at = 1;
	while (with_a_fault(at, true))
		at++;
	assert_true(at > 60);
}

/* From that call on all calls fail, on the way out or on the way in. Nobody waits for what was
 * moving, it counts as long as the driver has it, and the end of the context ends it. */
static bool with_a_death(unsigned at, bool out)
{
	struct fm_cu_arena_sums s;
	CUdeviceptr p, q;
	bool died;

	start(512 * MIB);
	p = get(20 * MIB);
	q = get(130 * MIB);
	fill(p, 20 * MIB);
	fill(q, 130 * MIB);
	if (!out)
		assert_int_equal(fm_cu_move_out(m), 0);
	dev.fails_at = dev.calls + at;
	dev.fails_for = UINT32_MAX / 2;
	fm_cu_move_out(m);
	fm_cu_move_in(m);
	died = dev.failed;
	fm_cu_arena_lose(a);
	assert_false(fm_cu_arena_away(a));
	fm_cu_move_in(m);
	assert_false(fm_cu_arena_away(a));
	fm_cu_arena_sum(a, &s);
	assert_int_equal(s.host, 0);
	assert_int_equal(s.all, dev.claimed);
	assert_true(dev.used <= dev.claimed);
	give(p);
	fm_cu_arena_context_gone(a);
	end();
	return died;
}

static void a_context_may_die_at_each_call(void **state)
{
	unsigned at = 1;

	(void)state;
	while (with_a_death(at, true))
		at++;
	assert_true(at > 40);
	at = 1;
	while (with_a_death(at, false))
		at++;
	assert_true(at > 20);
}

/* --- host memory --- */

static void host_memory_is_bounded_and_used_again(void **state)
{
	struct fm_cu_host_pool p;
	struct fm_cu_host_run r[3];

	(void)state;
	memset(&dev, 0, sizeof(dev));
	fm_cu_host_init(&p, 16 * MIB);
	p.has_room = room;
	assert_int_equal(fm_cu_host_take(&p, &driver, 4, &r[0]), 0);
	assert_int_equal(fm_cu_host_take(&p, &driver, 4, &r[1]), 0);
	memset(fm_cu_host_at(&r[0]), 1, 8 * MIB);
	memset(fm_cu_host_at(&r[1]), 2, 8 * MIB);
	assert_int_equal(fm_cu_host_at(&r[0])[8 * MIB - 1], 1);
	assert_int_equal(fm_cu_host_take(&p, &driver, 1, &r[2]), -ENOMEM);
	fm_cu_host_give(&p, &r[0]);
	assert_int_equal(fm_cu_host_take(&p, &driver, 3, &r[2]), 0);
	assert_int_equal(p.bytes, 16 * MIB);
	fm_cu_host_give(&p, &r[1]);
	fm_cu_host_trim(&p, &driver);
	assert_int_equal(p.bytes, 8 * MIB);
	fm_cu_host_give(&p, &r[2]);
	fm_cu_host_trim(&p, &driver);
	assert_int_equal(p.bytes, 0);
	assert_int_equal(dev.registered, 0);
}

static void the_host_is_asked(void **state)
{
	(void)state;
	assert_true(fm_cu_host_most() > 0);
	assert_false(fm_cu_host_has_room(UINT64_MAX, 0));
	assert_false(fm_cu_host_has_room(fm_cu_host_most() * 2, 0));
}

static uint64_t budget, taken;

static bool take_of_budget(void *cookie, uint64_t bytes)
{
	(void)cookie;
	if (bytes > taken && bytes > budget)
		return false;
	taken = bytes;
	return true;
}

static uint64_t may_take(void *cookie)
{
	(void)cookie;
	return budget;
}

/* The pool has no more than its budget, and says what it has; and what it has is where it is to be,
 * or it says that, too. */
static void test_host_budget(void **state)
{
	struct fm_cu_host_pool p;
	struct fm_cu_host_run r[3];

	(void)state;
	budget = 12 * MIB;
	taken = 0;
	fm_cu_host_init(&p, UINT64_MAX);
	p.budget = (struct fm_cu_host_budget){take_of_budget, may_take, NULL};
	p.node = 1000; /* there is none: its memory comes from elsewhere */
	assert_int_equal(fm_cu_host_take(&p, &driver, 4, &r[0]), 0);
	assert_true(taken == 8 * MIB && p.strayed == taken);
	assert_int_equal(fm_cu_host_take(&p, &driver, 3, &r[1]), -ENOMEM);
	assert_true(taken == 8 * MIB);
	p.node = 0;
	assert_int_equal(fm_cu_host_take(&p, &driver, 2, &r[1]), 0);
	assert_true(taken == 12 * MIB && p.strayed <= taken);
	assert_false(fm_cu_host_lend(&p, 2 * MIB));
	budget = 4 * MIB;
	assert_true(fm_cu_host_excess(&p) == 8 * MIB && !fm_cu_host_unused(&p));
	fm_cu_host_give(&p, &r[0]);
	assert_true(fm_cu_host_unused(&p) == 8 * MIB);
	fm_cu_host_trim(&p, &driver);
	assert_true(taken == 4 * MIB && !fm_cu_host_excess(&p) && !p.strayed);
	fm_cu_host_give(&p, &r[1]);
	fm_cu_host_trim(&p, &driver);
	assert_true(!taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host_budget),
		cmocka_unit_test(runs_of_pages_are_found),
		cmocka_unit_test(places_are_what_a_map_of_bytes_says),
		cmocka_unit_test(classes_waste_little),
		cmocka_unit_test(small_blocks_share_a_page_and_it_goes_with_the_last),
		cmocka_unit_test(blocks_of_pages_are_carved_out_of_slabs),
		cmocka_unit_test(large_blocks_have_their_own_chunks),
		cmocka_unit_test(a_smaller_reservation_does),
		cmocka_unit_test(spares_go_before_memory_ends),
		cmocka_unit_test(a_slab_does_with_less),
		cmocka_unit_test(memory_goes_out_and_comes_back),
		cmocka_unit_test(what_is_freed_on_the_host_does_not_come_back),
		cmocka_unit_test(what_is_pinned_stays),
		cmocka_unit_test(other_devices_reach_it_wherever_it_was),
		cmocka_unit_test(a_device_that_is_refused_changes_nothing),
		cmocka_unit_test(a_host_that_is_full_leaves_the_rest_on_the_device),
		cmocka_unit_test(it_waits_for_room_on_the_device),
		cmocka_unit_test(a_share_stays_and_comes_in_early),
		cmocka_unit_test(a_share_that_changes_is_heeded),
		cmocka_unit_test(memory_leaves_room_for_what_nobody_plans),
		cmocka_unit_test(an_early_load_does_not_wait_for_room),
		cmocka_unit_test(it_stops_where_it_is_told_to),
		cmocka_unit_test(the_end_of_a_context_ends_its_memory),
		cmocka_unit_test(what_is_lost_is_nowhere),
		cmocka_unit_test(each_call_of_the_driver_may_fail_once),
		cmocka_unit_test(a_context_may_die_at_each_call),
		cmocka_unit_test(host_memory_is_bounded_and_used_again),
		cmocka_unit_test(the_host_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
