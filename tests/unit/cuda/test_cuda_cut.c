/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that are cut where use differs, and joined where it does not. */
#include "api/cuda/core/memory/want.h"
#include "memory_world.h"

#define PART FM_CU_PART

static struct fm_cu_arena_sums sums(void)
{
	struct fm_cu_arena_sums s;

	fm_cu_arena_sum(a, &s);
	return s;
}

static unsigned chunks(void)
{
	struct fm_cu_chunk *c;
	unsigned n = 0;

	fm_list_each (c, &a->chunks, all)
		n++;
	return n;
}

static struct fm_cu_chunk *at(CUdeviceptr p)
{
	struct fm_cu_chunk *c = a->chunk_of[(p - a->base) / PAGE];

	assert_non_null(c);
	return c;
}

/* The next turn, in which bytes of a block are named. */
static void name(CUdeviceptr p, size_t bytes)
{
	told.since = fm_touch_turn(&a->touch) + 1;
	fm_touch_range(&a->touch, p, bytes);
	told.since = atomic_load(&a->touch.turn);
}

static void a_part_that_is_in_use_comes_in_alone(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	fill(p = get(300 * MIB), 300 * MIB);
	fm_touch_turn(&a->touch);
	name(p + 140 * MIB, 40 * MIB); /* of the second chunk: parts 0 and 1 */
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(chunks(), 4);
	assert_int_equal(fm_cu_chunk_size(at(p + 128 * MIB)), 2 * PART);
	assert_int_equal(sums().all, 300 * MIB);
	assert_int_equal(dev.claimed, 300 * MIB);
	assert_int_equal(fm_cu_move_in_part(m, 2 * PART), 0);
	assert_int_equal(sums().here, 2 * PART);
	assert_true(fm_cu_chunk_on_device(at(p + 128 * MIB)));
	check(p, 300 * MIB);

	/* From now on that part alone moves. */
	told.out = told.in = 0;
	for (unsigned i = 0; i < 4; i++) {
		name(p + 140 * MIB, 40 * MIB);
		assert_int_equal(fm_cu_move_out(m), 0);
		assert_int_equal(fm_cu_move_in_part(m, 2 * PART), 0);
	}
	assert_int_equal(told.out + told.in, (uint64_t)8 * 2 * PART);
	check(p, 300 * MIB);
	give(p);
	assert_int_equal(chunks(), 0);
	end();
}

/* With a share, the part that is in use is the one that comes back, in the same rest. */
static void the_share_is_for_what_is_in_use(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	fill(p = get(128 * MIB), 128 * MIB);
	fm_touch_turn(&a->touch);
	name(p + 96 * MIB, 2 * MIB);
	set_share(PART);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(sums().here, PART);
	assert_true(fm_cu_chunk_on_device(at(p + 96 * MIB)));
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 128 * MIB);
	end();
}

static void what_is_used_alike_is_joined(void **state)
{
	const bool keeps[] = {true, false};
	CUdeviceptr p;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		start_with(1024 * MIB, keeps[i]);
		fill(p = get(128 * MIB), 128 * MIB);
		fm_touch_turn(&a->touch);
		name(p + 32 * MIB, 32 * MIB);
		assert_int_equal(fm_cu_move_out(m), 0);
		assert_int_equal(chunks(), 3);
		assert_int_equal(fm_cu_move_in(m), 0);
		check(p, 128 * MIB);
		/* Two at a time, where their contents lie apart on the host. */
		name(p, 128 * MIB);
		for (unsigned k = 0; k < 3; k++) {
			assert_int_equal(fm_cu_move_out(m), 0);
			assert_int_equal(fm_cu_move_in(m), 0);
			check(p, 128 * MIB);
		}
		assert_int_equal(chunks(), 1);
		assert_int_equal(dev.claimed, 128 * MIB);
		give(p);
		end();
	}
}

static uint64_t may;
static unsigned asked;

static bool ask(void *cookie, uint64_t bytes)
{
	(void)cookie;
	asked += bytes > may;
	return bytes <= may;
}

static uint64_t may_have(void *cookie)
{
	(void)cookie;
	return may;
}

/* Others would have to give it up, and the program stands still meanwhile. */
static void no_memory_is_asked_for_to_join(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	fill(p = get(128 * MIB), 128 * MIB);
	fm_touch_turn(&a->touch);
	for (unsigned i = 0; i < 2; i++) {
		name(p + 32 * MIB, 32 * MIB);
		assert_int_equal(fm_cu_move_out(m), 0);
		if (!i)
			assert_int_equal(fm_cu_move_in(m), 0);
	}
	/* What was in use is the last on the host. */
	asked = 0;
	may = a->host.bytes + a->host.lent;
	a->host.budget = (struct fm_cu_host_budget){ask, may_have, NULL};
	name(p, 128 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(asked, 0);
	may *= 2; /* without asking */
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(asked, 0);
	assert_true(chunks() < 3);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 128 * MIB);
	give(p);
	end();
}

/* What a turn names is not known: nothing is cut, and nothing is joined. */
static void what_is_not_known_changes_nothing(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	fill(p = get(128 * MIB), 128 * MIB);
	fm_touch_turn(&a->touch);
	name(p, 2 * MIB);
	told.since = 0;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(chunks(), 1);
	assert_int_equal(fm_cu_move_in(m), 0);
	name(p, 2 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(chunks(), 2);
	told.since = 0;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(chunks(), 2);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 128 * MIB);
	end();
}

/* Blocks that share a chunk: a part of which nothing is left goes back to the driver. */
static void parts_of_a_slab_end_with_their_last_block(void **state)
{
	CUdeviceptr p[4], q[5];

	(void)state;
	start(1024 * MIB);
	for (unsigned i = 0; i < 4; i++)
		p[i] = get(100 * MIB);
	for (unsigned i = 0; i < 5; i++) /* they have a chunk together */
		fill(q[i] = get(20 * MIB), 20 * MIB);
	assert_int_equal(chunks(), 5);
	fm_touch_turn(&a->touch);
	name(q[0], 2 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_int_equal(fm_cu_chunk_size(at(q[0])), PART);
	for (unsigned i = 0; i < 5; i++)
		check(q[i], 20 * MIB);
	for (unsigned i = 1; i < 5; i++)
		give(q[i]);
	assert_int_equal(dev.claimed - a->spare_pages * PAGE, 400 * MIB + PART);
	check(q[0], 20 * MIB);
	give(q[0]);
	for (unsigned i = 0; i < 4; i++)
		give(p[i]);
	end();
}

/* Small chunks move for what is in them alone, so they do not become one. */
static void what_was_made_apart_stays_apart(void **state)
{
	unsigned before;

	(void)state;
	start(1024 * MIB);
	for (unsigned i = 0; i < 8; i++)
		get(4 * MIB);
	before = chunks();
	fm_touch_turn(&a->touch);
	name(0, 0);
	told.since = 5;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(chunks(), before);
	assert_true(before > 1);
	assert_int_equal(fm_cu_move_in(m), 0);
	end();
}

/* --- at random --- */

#define BLOCKS 6
static uint64_t seed;
static struct {
	CUdeviceptr at;
	size_t size;
	uint64_t salt; /* of its content */
} block[BLOCKS];
static bool here; /* all memory is mapped */

static uint64_t draw(uint64_t most)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 20) % most;
}

static void write_page(unsigned i, size_t page)
{
	uint64_t v = stamp(block[i].at, page) ^ block[i].salt;

	memcpy(marks(block[i].at + page), &v, sizeof(v));
}

static void contents_are_right(void)
{
	for (unsigned i = 0; here && i < BLOCKS; i++)
		for (size_t at = 0; at < block[i].size; at += PAGE) {
			uint64_t v = stamp(block[i].at, at) ^ block[i].salt;

			assert_memory_equal(marks(block[i].at + at), &v, sizeof(v));
		}
}

/* Each page of a block is of one chunk, and what is noted of chunks sums up. */
static void sums_are_right(void)
{
	uint64_t used = a->spare_pages * PAGE, lent = 0, all = used;
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all) {
		uint64_t host = (uint64_t)__builtin_popcountll(c->held);

		for (uint32_t i = 0; i < c->pages; i++)
			assert_ptr_equal(a->chunk_of[c->page + i], c);
		assert_true(c->pages && c->pages <= FM_CU_CHUNK_PAGES);
		assert_int_equal(c->at, a->base + c->page * PAGE);
		assert_int_equal(c->used & ~fm_cu_run_mask(0, c->pages), 0);
		assert_int_equal(c->cold & ~c->used, 0);
		assert_int_equal(c->held & ~fm_cu_run_mask(0, c->pages), 0);
		assert_int_equal(c->out & ~c->held, 0);
		assert_int_equal(c->host.of ? c->host.pages : 0, host);
		assert_true(c->away || fm_cu_chunk_here(c) || fm_cu_chunk_torn(c) || !c->used);
		if (c->host.of)
			assert_int_equal(
				c->host.of->used & fm_cu_run_mask(c->host.first, c->host.pages),
				fm_cu_run_mask(c->host.first, c->host.pages));
		*(c->borrowed ? &lent : &used) += c->made ? fm_cu_chunk_size(c) : 0;
		all += fm_cu_chunk_size(c);
	}
	assert_int_equal(dev.used, used);
	assert_int_equal(dev.host_used, lent);
	assert_int_equal(dev.claimed, all);
	assert_int_equal(sums().all, all);
	for (unsigned i = 0; i < BLOCKS; i++)
		for (size_t p = 0; p < block[i].size; p += PAGE)
			assert_true(at(block[i].at + p)->used >>
					    ((block[i].at + p - at(block[i].at + p)->at) / PAGE) &
				    1);
}

static bool in_use(const struct fm_cu_chunk *c, unsigned first, unsigned n)
{
	return fm_cu_want_named(a, c, fm_cu_run_mask(first, n)) >= told.since;
}

/* No chunk that is out is used in part; and what is side by side and used alike is one, but for a
 * rest that is to be copied on the host. */
static void cuts_are_where_use_differs(void)
{
	unsigned apart = 0, part = (unsigned)(PART / PAGE);
	struct fm_cu_chunk *c, *n;

	fm_list_each (c, &a->chunks, all) {
		bool first = in_use(c, 0, part);

		if (!c->away || c->made || c->stays || !told.since)
			continue;
		for (unsigned i = part; i < c->pages; i += part)
			if (c->used & fm_cu_run_mask(0, part) &&
				c->used >> i & fm_cu_run_mask(0, part))
				assert_int_equal(in_use(c, i, part), first);
		n = a->chunk_of[c->page + c->pages];
		if (!n || !n->away || n->made || n->stays || c->made_as != n->made_as)
			continue;
		apart += in_use(c, 0, 64) == in_use(n, 0, 64) &&
			 (c->host.of == n->host.of &&
				 c->host.first + c->host.pages == n->host.first);
	}
	assert_int_equal(apart, 0);
}

static void allocate(unsigned i)
{
	const size_t size[] = {
		2 * MIB, 3 * MIB, 20 * MIB, 70 * MIB, 130 * MIB, 200 * MIB, 128 * MIB};

	if (!here || block[i].at)
		return;
	block[i].size = size[draw(FM_ARRAY_LEN(size))];
	if (fm_cu_arena_alloc(a, block[i].size, &block[i].at)) {
		block[i].at = block[i].size = 0;
		return;
	}
	block[i].salt = draw(UINT32_MAX);
	for (size_t at = 0; at < block[i].size; at += PAGE)
		write_page(i, at);
}

/* Also while it is out, as at the end of a rest. */
static void release(unsigned i)
{
	if (block[i].at)
		give(block[i].at);
	block[i].at = block[i].size = 0;
}

static void use(unsigned i)
{
	size_t from = PAGE * draw(block[i].size / PAGE + 1), bytes = PAGE * draw(70);

	if (!block[i].at)
		return;
	from = FM_MIN(from, block[i].size);
	bytes = FM_MIN(bytes, block[i].size - from);
	fm_touch_range(&a->touch, block[i].at + from, bytes);
	for (size_t p = from; here && p < from + bytes && draw(2); p += PAGE)
		write_page(i, p); /* the same, mostly */
}

static void say(unsigned i)
{
	size_t from = PAGE * draw(block[i].size / PAGE + 1), bytes = PAGE * draw(40);

	if (!block[i].at)
		return;
	switch (draw(4)) {
	case 0:
		fm_cu_want_cold(a, block[i].at + from, bytes);
		break;
	case 1:
		fm_cu_want_soon(a, block[i].at + from, bytes);
		break;
	case 2:
		fm_cu_want_pin(a, block[i].at + from, bytes, 3);
		break;
	default:
		fm_cu_want_unpin(a, block[i].at, block[i].size, here);
	}
}

static void come(void)
{
	int rc;

	switch (draw(4)) {
	case 0:
		rc = fm_cu_move_in(m);
		break;
	case 1:
		rc = fm_cu_move_in_part(m, draw(500 * MIB));
		break;
	case 2:
		rc = fm_cu_move_borrow(m);
		break;
	default:
		rc = fm_cu_move_in_part(m, 0);
	}
	if (rc)
		rc = fm_cu_move_in(m);
	if (!rc) {
		here = true;
		fm_cu_want_settle(a);
	}
}

static void go(void)
{
	if (here)
		fm_touch_turn(&a->touch);
	told.since = fm_touch_since(&a->touch, (uint32_t)draw(4));
	here = false;
	set_share(draw(3) ? 0 : draw(400 * MIB));
	if (!fm_cu_move_out(m))
		cuts_are_where_use_differs();
}

static void one_step(void)
{
	unsigned i = (unsigned)draw(BLOCKS);

	switch (draw(9)) {
	case 0:
	case 1:
		allocate(i);
		break;
	case 2:
		release(i);
		break;
	case 3:
	case 4:
		use(i);
		break;
	case 5:
		say(i);
		break;
	case 6:
	case 7:
		go();
		break;
	default:
		come();
	}
	sums_are_right();
	contents_are_right();
}

static void split_join_sum(void **state)
{
	unsigned cut = 0;

	(void)state;
	for (unsigned k = 0; k < 10; k++) {
		seed = k;
		start_with(2048 * MIB, k & 1);
		memset(block, 0, sizeof(block));
		here = true;
		for (unsigned i = 0; i < 120; i++) {
			one_step();
			cut = FM_MAX(cut, chunks());
		}
		if (!here)
			assert_int_equal(fm_cu_move_in(m), 0);
		here = true;
		contents_are_right();
		for (unsigned i = 0; i < BLOCKS; i++)
			release(i);
		sums_are_right();
		end();
	}
	assert_true(cut > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_that_is_in_use_comes_in_alone),
		cmocka_unit_test(the_share_is_for_what_is_in_use),
		cmocka_unit_test(what_is_used_alike_is_joined),
		cmocka_unit_test(no_memory_is_asked_for_to_join),
		cmocka_unit_test(what_is_not_known_changes_nothing),
		cmocka_unit_test(parts_of_a_slab_end_with_their_last_block),
		cmocka_unit_test(what_was_made_apart_stays_apart),
		cmocka_unit_test(split_join_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
