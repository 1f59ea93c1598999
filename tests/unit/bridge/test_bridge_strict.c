/* SPDX-License-Identifier: Apache-2.0 */
/* Strict mode in the bridge: gate words that the client cannot write, and what opens them. */
#include "bridge_world.h"
#include <unistd.h>

#define SOON   (FM_S / 2)
#define BEFORE (FM_S - FM_MS)

/* The client's gates, from now on. Mapped to the end, as the bridge uses them to its end. */
static struct fm_gates *page_of(struct world *w, struct client *c)
{
	struct fm_gates *g;
	int fd;

	assert_int_equal(fm_gates_create(&g, &fd, 11), 0);
	close(fd);
	fm_bridge_gates(w->b, c->c, g, w->now);
	return g;
}

static bool is_open(const struct fm_gates *g, uint32_t slot)
{
	return atomic_load(&g->slot[slot].gate) == FM_GATE_OPEN;
}

static void suspend(struct world *w, struct client *c, bool yes)
{
	fm_bridge_group_suspend(w->b, group_of(c, 0), yes, w->now);
	pass(w, 1);
}

static void both_words_say_the_same(void **state)
{
	struct world *w = *state;
	struct fm_gates *g = page_of(w, &w->a);

	assert_int_equal(add_queue(w, &w->a, 3), 0);
	for (int i = 0; i < 2; i++) {
		assert_true(is_open(g, 3) && open_gate(&w->a, 3));
		suspend(w, &w->a, true);
		assert_true(!is_open(g, 3) && !open_gate(&w->a, 3));
		assert_true(is_open(g, 2) && is_open(g, 4));
		suspend(w, &w->a, false);
	}
}

/* The board's word is the client's to write; what it says there changes nothing. */
static void lies_in_the_board_are_not_asked(void **state)
{
	struct world *w = *state;
	struct fm_gates *g = page_of(w, &w->a);

	suspend(w, &w->a, true);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_false(is_open(g, 0));
	atomic_store(&w->a.board->slot[0].gate, FM_GATE_OPEN);
	ring(w, &w->a);
	pass(w, FM_S);
	assert_false(is_open(g, 0));
	atomic_store(&w->a.board->slot[1].gate, FM_GATE_CLOSED);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	assert_false(is_open(g, 1));
	suspend(w, &w->a, false);
	assert_true(is_open(g, 0) && is_open(g, 1));
}

static int gone(struct world *w, struct client *c, uint32_t slot)
{
	return tell(w, c, (union fm_msg){.queue_gone = {.slot = slot}}, FM_MSG_QUEUE_GONE);
}

static void queue_gone_while_open_leaves_it_open(void **state)
{
	struct world *w = *state;
	struct fm_gates *g = page_of(w, &w->a);

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(gone(w, &w->a, 0), 0);
	assert_true(is_open(g, 0));
}

static void queue_gone_while_closed_opens_it_later(void **state)
{
	struct world *w = *state;
	struct fm_gates *g = page_of(w, &w->a);

	assert_int_equal(add_queue(w, &w->a, 64), 0);
	suspend(w, &w->a, true);
	assert_int_equal(gone(w, &w->a, 64), 0);
	pass(w, BEFORE);
	assert_false(is_open(g, 64));
	pass(w, 2 * FM_MS);
	assert_true(is_open(g, 64));
}

static void queue_gone_while_closed_opens_at_the_next_turn(void **state)
{
	struct world *w = *state;
	struct fm_gates *g = page_of(w, &w->a);

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	suspend(w, &w->a, true);
	assert_int_equal(gone(w, &w->a, 0), 0);
	pass(w, SOON);
	assert_false(is_open(g, 0));
	suspend(w, &w->a, false);
	assert_true(is_open(g, 0) && is_open(g, 1));
}

/* The time that was set for the queue that is gone does not open the gate of the one that came. */
static void slot_taken_again_is_the_new_queues(void **state)
{
	struct world *w = *state;
	struct fm_gates *g = page_of(w, &w->a);

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	suspend(w, &w->a, true);
	assert_int_equal(gone(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	pass(w, 3 * FM_S);
	assert_false(is_open(g, 0));
}

/* From the daemon before: as they were, until the client says which queues there are. */
static void page_that_was_there_before(void **state)
{
	struct world *w = *state;
	struct fm_gates *g;
	int fd;

	assert_int_equal(fm_gates_create(&g, &fd, 11), 0);
	close(fd);
	for (uint32_t i = 0; i < 3; i++)
		atomic_store(&g->slot[i].gate, FM_GATE_CLOSED);
	fm_bridge_gates(w->b, w->a.c, g, w->now);
	pass(w, SOON);
	assert_true(!is_open(g, 0) && !is_open(g, 1) && !is_open(g, 2) && is_open(g, 3));
	suspend(w, &w->a, true);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	assert_false(is_open(g, 1));
	pass(w, FM_S);
	assert_true(is_open(g, 0) && !is_open(g, 1) && is_open(g, 2));
	suspend(w, &w->a, false);
	assert_true(is_open(g, 1));
}

static void client_that_leaves_opens_nothing(void **state)
{
	struct world *w = *state;
	struct fm_gates *g = page_of(w, &w->a);

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	suspend(w, &w->a, true);
	assert_int_equal(gone(w, &w->a, 1), 0);
	fm_bridge_detach(w->b, w->a.c, w->now);
	pass(w, 3 * FM_S);
	assert_true(!is_open(g, 0) && !is_open(g, 1));
}

static void end_of_the_bridge_opens_all(void **state)
{
	struct world *w = *state;
	struct fm_gates *g = page_of(w, &w->a);

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	suspend(w, &w->a, true);
	assert_int_equal(gone(w, &w->a, 1), 0);
	fm_bridge_free(w->b);
	w->b = NULL;
	assert_true(is_open(g, 0) && is_open(g, 1));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_words_say_the_same),
		TEST(lies_in_the_board_are_not_asked),
		TEST(queue_gone_while_open_leaves_it_open),
		TEST(queue_gone_while_closed_opens_it_later),
		TEST(queue_gone_while_closed_opens_at_the_next_turn),
		TEST(slot_taken_again_is_the_new_queues),
		TEST(page_that_was_there_before),
		TEST(client_that_leaves_opens_nothing),
		TEST(end_of_the_bridge_opens_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
