/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs from the host, mapped at its own address: how it comes to be there, how it goes
 * home, and each call of the driver failing once. */
#include "api/cuda/core/memory/flip.h"
#include "api/cuda/core/memory/hold.h"
#include "memory_world.h"

static CUdeviceptr borrow(size_t size)
{
	CUdeviceptr p;

	assert_int_equal(fm_cu_arena_borrow(a, size, &p), 0);
	return p;
}

static struct fm_cu_arena_sums sums(void)
{
	struct fm_cu_arena_sums s;

	fm_cu_arena_sum(a, &s);
	return s;
}

/* What is noted of each chunk is what the driver has, and it has its content in one place. */
static void notes_are_true(void)
{
	uint64_t used = a->spare_pages * PAGE, lent = 0;
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all) {
		unsigned h = handle_at(c->at);

		assert_int_equal(c->mapped, h != 0);
		assert_true(!c->mapped || (c->made && c->handle == h));
		assert_true(!c->made || dev.memory[c->handle].on_host == c->borrowed);
		assert_true(!c->mapped || c->reachable == dev.memory[h].reachable);
		assert_true(c->away || fm_cu_chunk_here(c) || fm_cu_chunk_torn(c) || !c->used);
		assert_true(!c->borrowed || c->away || !c->host.of);
		assert_int_equal(c->waits, 0);
		*(c->borrowed ? &lent : &used) += c->made ? fm_cu_chunk_size(c) : 0;
	}
	*(a->window.borrowed ? &lent : &used) += a->window.made ? fm_cu_chunk_size(&a->window) : 0;
	assert_int_equal(dev.used, used);
	assert_int_equal(dev.host_used, lent);
	assert_int_equal(a->host.lent, lent);
	assert_int_equal(dev.put, dev.done);
	assert_int_equal(dev.pushed, 0);
}

/* --- allocations --- */

static void a_set_larger_than_the_device_is_on_both(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	start(1024 * MIB);
	dev.most = 300 * MIB;
	assert_int_equal(fm_cu_arena_alloc(a, 512 * MIB, &p), -ENOMEM);
	assert_int_equal(dev.used, 0);
	fill(p = borrow(512 * MIB), 512 * MIB);
	assert_int_equal(sums().here, 256 * MIB);
	assert_int_equal(sums().borrowed, 256 * MIB);
	assert_int_equal(sums().host, 0);
	assert_int_equal(dev.claimed, 512 * MIB);
	q = get(40 * MIB); /* there is room for that */
	assert_int_equal(sums().here, 296 * MIB);
	check(p, 512 * MIB);
	give(p);
	assert_int_equal(dev.host_used, 0);
	give(q);
	end();
}

static void small_blocks_use_what_is_borrowed_before_more_is(void **state)
{
	(void)state;
	start(1024 * MIB);
	dev.most = 2 * MIB;
	get(2 * MIB);
	for (unsigned i = 0; i < 4; i++)
		borrow(100);
	assert_int_equal(dev.host_used, 2 * MIB);
	get(100); /* in the same page */
	borrow(20 * MIB);
	assert_int_equal(dev.host_used, 22 * MIB);
	dev.most = UINT64_MAX / 2;
	borrow(20 * MIB);
	assert_int_equal(dev.host_used, 22 * MIB);
	end();
}

static void the_host_is_bounded(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(200 * MIB);
	dev.most = 0;
	borrow(128 * MIB);
	assert_int_equal(fm_cu_arena_borrow(a, 128 * MIB, &p), -ENOMEM);
	told.no_room = true;
	assert_int_equal(fm_cu_arena_borrow(a, 2 * MIB, &p), -ENOMEM);
	told.no_room = false;
	dev.limit = 130 * MIB; /* of the group */
	assert_int_equal(fm_cu_arena_borrow(a, 10 * MIB, &p), -ENOMEM);
	borrow(2 * MIB);
	notes_are_true();
	end();
}

/* What is pinned may be reached by what does not reach the host. */
static void what_is_pinned_is_not_borrowed(void **state)
{
	uint64_t bytes;
	CUdeviceptr p;

	(void)state;
	start(200 * MIB);
	assert_int_equal(fm_cu_arena_pin_all(a, 3, &bytes), 0);
	dev.most = 0;
	assert_int_equal(fm_cu_arena_borrow(a, 20 * MIB, &p), -ENOMEM);
	end();
}

static void nodes_of_the_host(void **state)
{
	(void)state;
	start(512 * MIB);
	dev.most = 0;
	borrow(20 * MIB);
	dev.node = -1;
	borrow(128 * MIB);
	dev.node = 5;
	borrow(128 * MIB);
	dev.no_nodes = true;
	borrow(130 * MIB);
	notes_are_true();
	end();
}

/* --- out, and then borrowed --- */

static void what_has_no_room_runs_from_the_host(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	start(1024 * MIB);
	fill(p = get(256 * MIB), 256 * MIB);
	fill(q = get(20 * MIB), 20 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	dev.most = 128 * MIB;
	told.naps_most = told.naps + 100;
	assert_int_equal(fm_cu_move_in(m), -ENOMEM);
	told.naps_most = 1000000;
	assert_int_equal(fm_cu_move_borrow(m), 0);
	check(p, 256 * MIB);
	check(q, 20 * MIB);
	assert_int_equal(sums().here, 128 * MIB);
	assert_int_equal(sums().borrowed, 148 * MIB);
	assert_int_equal(sums().host, 0);
	notes_are_true();
	/* It stays there when the rest goes out, and comes in again. */
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.used, 0);
	assert_int_equal(sums().borrowed, 148 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 256 * MIB);
	/* And home, as far as there is room. */
	dev.most = 260 * MIB;
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), -ENOMEM);
	assert_int_equal(sums().borrowed, 20 * MIB);
	dev.most = UINT64_MAX / 2;
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	assert_int_equal(sums().borrowed, 0);
	assert_int_equal(dev.host_used, 0);
	check(p, 256 * MIB);
	check(q, 20 * MIB);
	notes_are_true();
	end();
}

/* The device has room, and is to be another's. */
static void a_share_of_it_comes_in(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	start(1024 * MIB);
	fill(p = get(384 * MIB), 384 * MIB);
	fill(q = get(20 * MIB), 20 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in_part(m, 160 * MIB), 0);
	assert_int_equal(sums().here, 148 * MIB);
	assert_int_equal(sums().borrowed, 256 * MIB);
	check(p, 384 * MIB);
	check(q, 20 * MIB);
	assert_int_equal(fm_cu_move_home(m, 280 * MIB), 0);
	assert_int_equal(sums().here, 276 * MIB);
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	assert_int_equal(sums().borrowed, 0);
	check(p, 384 * MIB);
	/* A host without room: what cannot run from there comes in all the same. */
	assert_int_equal(fm_cu_move_out(m), 0);
	told.no_room = true;
	assert_int_equal(fm_cu_move_in_part(m, 0), 0);
	assert_int_equal(sums().here, 404 * MIB);
	check(p, 384 * MIB);
	notes_are_true();
	end();
}

static bool runs_from_host(CUdeviceptr p)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		if (p - c->at < fm_cu_chunk_size(c))
			return c->borrowed && fm_cu_chunk_here(c);
	return false;
}

/* What is beyond the share, and not in use, stays on the host when the rest goes out and comes in;
 * what comes to be in use comes to the device while the process rests. */
static void what_is_not_in_use_stays_on_the_host(void **state)
{
	struct fm_touch *t;
	CUdeviceptr p[3];

	(void)state;
	start(1024 * MIB);
	t = fm_cu_arena_touch(a);
	for (int i = 0; i < 3; i++)
		fill(p[i] = get(128 * MIB), 128 * MIB);
	fm_touch_turn(t);
	fm_touch_word(t, p[0]);
	told.since = 2;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in_part(m, 128 * MIB), 0);
	assert_true(!runs_from_host(p[0]) && runs_from_host(p[1]) && runs_from_host(p[2]));
	assert_false(fm_cu_move_has_room(m, UINT64_MAX));
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	assert_true(runs_from_host(p[1]) && runs_from_host(p[2]));
	told.in = told.out = 0;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in_part(m, 128 * MIB), 0);
	assert_int_equal(told.in + told.out, 2 * 128 * MIB);
	notes_are_true();

	fm_touch_turn(t);
	fm_touch_word(t, p[1]);
	assert_true(fm_cu_move_has_room(m, 256 * MIB));
	assert_false(fm_cu_move_has_room(m, 255 * MIB));
	set_share(256 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_true(!runs_from_host(p[0]) && !runs_from_host(p[1]) && runs_from_host(p[2]));
	/* In the place of what is not in use any more. */
	fm_touch_turn(t);
	fm_touch_word(t, p[2]);
	fm_touch_word(t, p[1]);
	told.since = 4;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_false(runs_from_host(p[2]));
	assert_int_equal(sums().here, 256 * MIB);
	assert_int_equal(sums().host, 128 * MIB);
	notes_are_true();
	assert_int_equal(fm_cu_move_in_part(m, 256 * MIB), 0);
	assert_true(runs_from_host(p[0]) && !runs_from_host(p[1]) && !runs_from_host(p[2]));
	for (int i = 0; i < 3; i++)
		check(p[i], 128 * MIB);
	end();
}

static void empty_memory_is_borrowed_without_a_copy(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	fill(p = get(2 * MIB), 2 * MIB);
	get(2 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	give(p); /* what was in it is nobody's */
	dev.most = 0;
	dev.copied = 0;
	assert_int_equal(fm_cu_move_borrow(m), 0);
	assert_int_equal(dev.copied, 2 * MIB);
	end();
}

/* The program may write what runs from the host: no copy of before counts. */
static void no_copy_of_before_is_kept(void **state)
{
	struct fm_cu_host_segment *s;
	CUdeviceptr p;

	(void)state;
	start_with(1024 * MIB, true);
	fill(p = get(256 * MIB), 256 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	dev.most = 0;
	assert_int_equal(fm_cu_move_borrow(m), 0);
	for (s = a->host.segments; s; s = s->next)
		assert_int_equal(s->used, 0);
	memset(marks(p), 7, MARK);
	dev.most = UINT64_MAX / 2;
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	for (unsigned i = 0; i < MARK; i++)
		assert_int_equal(marks(p)[i], 7);
	end();
}

static void a_host_without_room_leaves_it_out(void **state)
{
	CUdeviceptr p;

	(void)state;
	start(512 * MIB);
	fill(p = get(384 * MIB), 384 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	dev.most = 0;
	assert_int_equal(fm_cu_move_borrow(m), -ENOMEM);
	notes_are_true();
	assert_int_equal(sums().borrowed, 128 * MIB);
	dev.most = UINT64_MAX / 2;
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 384 * MIB);
	end();
}

static void the_end_of_a_context_ends_what_is_borrowed(void **state)
{
	(void)state;
	start(512 * MIB);
	dev.most = 0;
	borrow(256 * MIB);
	fm_cu_arena_context_gone(a);
	assert_int_equal(dev.host_used, 0);
	assert_int_equal(a->host.lent, 0);
	end();
}

/* --- each call of the driver fails once --- */

/* Out, borrowed, home and out again while one call fails; then all works, and the content is what
 * it was. */
static bool with_a_fault(unsigned at)
{
	const size_t size[] = {20 * MIB, 130 * MIB};
	CUdeviceptr p[2];

	start_with(1024 * MIB, false);
	for (unsigned i = 0; i < 2; i++)
		fill(p[i] = get(size[i]), size[i]);
	assert_int_equal(fm_cu_move_out(m), 0);
	dev.most = 0;
	dev.fails_at = dev.calls + at;
	for (unsigned turn = 0; turn < 2; turn++) {
		told.naps_most = told.naps + 1000;
		if (turn)
			fm_cu_move_in_part(m, 0);
		else
			fm_cu_move_borrow(m);
		told.naps_most = 1000000;
		notes_are_true();
		dev.most = UINT64_MAX / 2;
		fm_cu_move_home(m, UINT64_MAX);
		notes_are_true();
		fm_cu_move_out(m);
		notes_are_true();
		dev.most = 0;
	}
	dev.most = UINT64_MAX / 2;
	if (fm_cu_move_in(m))
		assert_int_equal(fm_cu_move_in(m), 0);
	if (fm_cu_move_home(m, UINT64_MAX))
		assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	assert_int_equal(sums().borrowed, 0);
	for (unsigned i = 0; i < 2; i++)
		check(p[i], size[i]);
	notes_are_true();
	at = dev.failed;
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

/* The driver refuses to map the new memory, and then the old one: it is mended later. */
static void a_torn_chunk_is_mended(void **state)
{
	const struct fm_cu_move_ops ops = {
		goes_on, moved, enter_, leave_, nap_, NULL, NULL, NULL, NULL, NULL, NULL};
	unsigned torn = 0;

	(void)state;
	for (unsigned first = 1; first < 20; first++) {
		struct fm_cu_chunk *c;
		CUdeviceptr p;

		start(512 * MIB);
		dev.most = 0;
		fill(p = borrow(20 * MIB), 20 * MIB);
		dev.most = UINT64_MAX / 2;
		assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0); /* streams are made */
		dev.fails_at = dev.calls + first;
		dev.fails_for = 2;
		c = fm_list_first(&a->chunks, struct fm_cu_chunk, all);
		assert_true(fm_cu_chunk_on_device(c));
		dev.pushed++;
		fm_cu_flip(a, c, false, (CUstream)8, &ops);
		dev.pushed--;
		torn += fm_cu_chunk_torn(c);
		notes_are_true();
		dev.fails_at = 0;
		assert_int_equal(fm_cu_move_in(m), 0);
		check(p, 20 * MIB);
		assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
		check(p, 20 * MIB);
		notes_are_true();
		end();
	}
	assert_true(torn > 0);
}

/* --- a limit that has sunk --- */

static uint64_t most;

static uint64_t most_(void *cookie)
{
	(void)cookie;
	return most;
}

static void what_exceeds_a_limit_runs_from_the_host(void **state)
{
	const struct fm_cu_move_ops ops = {
		goes_on, moved, enter_, leave_, nap_, NULL, share_, NULL, most_, NULL, NULL};
	CUdeviceptr p;

	(void)state;
	start_with(4096 * MIB, true);
	fm_cu_move_end(m, false);
	m = fm_cu_move_create(a, &ops);
	most = UINT64_MAX;
	fill(p = get(512 * MIB), 512 * MIB);
	assert_int_equal(fm_cu_move_shrink(m, 300 * MIB), 0);
	assert_int_equal(sums().here, 256 * MIB);
	assert_int_equal(sums().borrowed, 256 * MIB);
	check(p, 512 * MIB);
	assert_int_equal(fm_cu_move_shrink(m, 300 * MIB), 0);
	assert_int_equal(sums().here, 256 * MIB);
	/* It may come in for a share, but not beyond what is allowed. */
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	assert_int_equal(sums().here, 512 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(sums().here, 0);
	most = 128 * MIB;
	set_share(384 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(sums().here, 128 * MIB);
	assert_int_equal(sums().borrowed, 256 * MIB);
	set_share(512 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(sums().borrowed, 384 * MIB);
	check(p, 512 * MIB);
	most = UINT64_MAX;
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	/* The host has no room: it is on the device after all. */
	set_share(0);
	assert_int_equal(fm_cu_move_out(m), 0);
	most = 128 * MIB;
	dev.host_most = 0;
	set_share(512 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(sums().here, 512 * MIB);
	assert_int_equal(fm_cu_move_shrink(m, 0), -ENOMEM);
	check(p, 512 * MIB);
	give(p);
	end();
}

/* A card holds memory of the device; what is on the host stays there only if it has to. */
static void what_runs_from_the_host_is_not_held(void **state)
{
	struct fm_cu_holds h = {0};
	uint64_t bytes;
	CUdeviceptr p;

	(void)state;
	start(1024 * MIB);
	dev.most = 300 * MIB;
	fill(p = borrow(512 * MIB), 512 * MIB);
	assert_int_equal(fm_cu_arena_hold(a, p, 512 * MIB, 4, false, &h, &bytes), -EBUSY);
	assert_int_equal(bytes, 0);
	assert_int_equal(h.n, 0);
	assert_int_equal(sums().pinned, 0);
	assert_int_equal(fm_cu_arena_hold(a, p, 512 * MIB, 4, true, &h, &bytes), 0);
	assert_int_equal(bytes, 512 * MIB);
	assert_int_equal(h.n, 4);
	/* What stays where it is anyway is not waited for. */
	assert_int_equal(fm_cu_arena_hold(a, p, 512 * MIB, 4, false, &h, &bytes), 0);
	assert_int_equal(bytes, 0);
	fm_cu_arena_let_go(a, 4, &h, &bytes);
	assert_int_equal(bytes, 512 * MIB);
	free(h.one);
	check(p, 512 * MIB);
	give(p);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_runs_from_the_host_is_not_held),
		cmocka_unit_test(what_exceeds_a_limit_runs_from_the_host),
		cmocka_unit_test(a_set_larger_than_the_device_is_on_both),
		cmocka_unit_test(small_blocks_use_what_is_borrowed_before_more_is),
		cmocka_unit_test(the_host_is_bounded),
		cmocka_unit_test(what_is_pinned_is_not_borrowed),
		cmocka_unit_test(nodes_of_the_host),
		cmocka_unit_test(what_has_no_room_runs_from_the_host),
		cmocka_unit_test(a_share_of_it_comes_in),
		cmocka_unit_test(what_is_not_in_use_stays_on_the_host),
		cmocka_unit_test(empty_memory_is_borrowed_without_a_copy),
		cmocka_unit_test(no_copy_of_before_is_kept),
		cmocka_unit_test(a_host_without_room_leaves_it_out),
		cmocka_unit_test(the_end_of_a_context_ends_what_is_borrowed),
		cmocka_unit_test(each_call_of_the_driver_may_fail_once),
		cmocka_unit_test(a_torn_chunk_is_mended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
