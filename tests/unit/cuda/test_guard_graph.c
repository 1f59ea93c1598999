// SPDX-License-Identifier: Apache-2.0
/* Graphs whose kernels stop between two blocks: launched again and again by the same numbers, among
 * other launches, with gates of their own inside. */
#include "base/util.h"
#include "guard_program.h"

#define NODES 5u

/* Behind so many nodes something comes that is not guarded, with a cover in front of it. */
static const uint32_t seams[] = {1, 3};
static bool with_covers;
/* And waits for the program; and in front of all nodes. */
static bool awaits[FM_ARRAY_LEN(seams) + 1];

/* As the shim has one (api/cuda/shim/graph/graph_guard.c). */
struct graph {
	struct fm_cu_graph *g;
	uint64_t ours[NODES][3];
	uint32_t kernel[NODES];
	bool bare;
	uint64_t seen;
};

/* whole: bits of nodes that are all or nothing. */
static bool try_graph(struct graph *gr, uint32_t kernel, unsigned whole)
{
	const struct fm_cu_launch_config config = {.grid = {BLOCKS, 1, 1}, .block = {1, 1, 1}};
	struct fm_cu_guarded l[NODES];

	*gr = (struct graph){0};
	for (unsigned i = 0; i < NODES; i++)
		l[i] = (struct fm_cu_guarded){
			(CUfunction)16, &config, 8 + FM_GUARD_BYTES, whole >> i & 1};
	gr->g = fm_cu_graph_new(&driver, (CUcontext)8,
		&(struct fm_cu_chain){
			l, seams, NODES, with_covers ? FM_ARRAY_LEN(seams) : 0, awaits});
	if (!gr->g)
		return false;
	for (unsigned i = 0; i < NODES; i++) {
		uint64_t *copy = fm_cu_graph_node(gr->g, i, gr->ours[i]);

		gr->kernel[i] = kernel + i;
		*copy = gr->kernel[i];
	}
	gr->g->waiting = &board.words.waiting;
	return true;
}

static void new_graph(struct graph *gr, uint32_t kernel, unsigned whole)
{
	assert_true(try_graph(gr, kernel, whole));
}

static void free_graph(struct graph *gr)
{
	CUdeviceptr block = gr->g->block;

	assert_int_equal(atomic_load(&gr->g->refs), 1);
	fm_cu_graph_put(gr->g);
	fm_cu_graphs_forget((CUcontext)8);
	free((void *)(uintptr_t)block);
}

static void put_inner_gate(void)
{
	struct command *c = add(&dev.stream[0], OPS);

	c->n = 3;
	for (unsigned i = 0; i < 3; i++) {
		c->op[i].op.operation = i == 1 ? FM_CU_OP_WAIT_VALUE_32 : FM_CU_OP_WRITE_VALUE_32;
		if (i == 1)
			c->op[i].op.flags = FM_CU_WAIT_VALUE_EQ;
		c->op[i].op.address =
			(uintptr_t)(i == 1 ? &board.words.gate : &board.words.waiting);
		c->op[i].op.value = i == 0;
	}
}

static void put_other(uint32_t kernel)
{
	struct command *c = add(&dev.stream[0], KERNEL);

	c->n = BLOCKS;
	c->kernel = kernel;
	p.log[p.kernels++] = kernel;
}

static void put_cover(const struct graph *gr, unsigned i)
{
	struct command *c = add(&dev.stream[0], OPS);

	c->n = FM_CU_COVER_OPS;
	fm_cu_graph_cover(gr->g, i, c->op);
	if (awaits[i + 1])
		put_wait_op();
	put_other(gr->kernel[0] + 50 + i);
}

static void put_nodes(const struct graph *gr)
{
	if (awaits[0])
		put_wait_op();
	for (unsigned i = 0; i < NODES; i++) {
		struct command *c;

		for (unsigned k = 0; k < gr->g->covers; k++)
			if (seams[k] == i)
				put_cover(gr, k);
		c = add(&dev.stream[0], KERNEL);
		c->n = BLOCKS;
		c->kernel = gr->kernel[i];
		memcpy(c->ours, gr->ours[i], sizeof(c->ours));
		if (i == 2)
			put_inner_gate();
		p.log[p.kernels++] = gr->kernel[i];
	}
	p.counted++;
}

/* True: it was guarded. */
static bool launch_graph(struct graph *gr, bool wanted)
{
	struct fm_cu_guard *g = p.q.guard;
	bool guarded = false;

	cover();
	if (wanted && gr->bare && fm_cu_guard_said(g) == gr->seen)
		put_gate();
	if (wanted && (!gr->bare || fm_cu_guard_said(g) != gr->seen))
		guarded = fm_cu_guard_graph(g, gr->g, &dev.stream[0]);
	gr->bare = !guarded;
	gr->seen = fm_cu_guard_said(g);
	if (guarded) {
		p.unmarked |= gr->g->anew;
		mark();
	}
	put_nodes(gr);
	p.unmarked |= awaits[0] || awaits[1] || awaits[2];
	if (guarded)
		fm_cu_guard_end(g, true);
	return guarded;
}

static void stop_it(void)
{
	set_gate(true);
	while (pump() == -EINPROGRESS)
		advance_any(1);
}

/* Gates know it when no launch refers to a graph any more. */
static void finish_all(void)
{
	finish();
	put_gate();
	finish();
	assert_exact();
}

static void test_stops_inside_a_graph(void **state)
{
	struct graph gr;

	start(1);
	make();
	new_graph(&gr, 100, 0);
	assert_true(launch_graph(&gr, true));
	for (unsigned i = 0; i < BLOCKS + 3; i++)
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump(), -EINPROGRESS);
	cover();
	assert_true(advance(&dev.stream[1])); /* the stop word is set */
	set_gate(false);                      /* its own gate shall not hold it */
	while (advance(&dev.stream[0]))
		;
	set_gate(true);
	stop_it();
	assert_int_equal(p.inside, 1);
	assert_int_equal(atomic_load(&board.words.progress), 1);
	finish_all();
	free_graph(&gr);
	stop();
}

/* What is behind a cover waits for what was left out in front of it, and no longer. */
static void test_stops_at_a_cover(void **state)
{
	struct graph gr;
	unsigned covers = 0;

	with_covers = true;
	for (uint64_t seed = 60; seed < 120; seed++) {
		start(seed);
		make();
		new_graph(&gr, 100, 0);
		assert_true(launch_graph(&gr, true));
		while (!dev.runs[0] && !dev.runs[1] && !dev.runs[2])
			assert_true(advance(&dev.stream[0]));
		set_gate(true);
		assert_int_equal(pump(), -EINPROGRESS);
		cover();
		assert_true(advance(&dev.stream[1])); /* the stop word is set */
		set_gate(false);                      /* its own gate shall not hold it */
		while (advance(&dev.stream[0]))
			;
		assert_int_equal(gr.g->words->place, 1);
		assert_int_equal(p.q.guard->stage, FM_CU_STOPPING);
		set_gate(true);
		stop_it();
		assert_int_equal(p.inside, 1);
		assert_int_equal(atomic_load(&board.words.progress), 1);
		assert_true(p.q.guard->cover);
		/* Now and then it is stopped again, at another one. */
		for (unsigned i = 0; i < 6; i++) {
			set_gate(false);
			pump();
			advance_any(draw(30));
			stop_it();
			covers += p.q.guard->cover && ops->guardian.stopped(&p.q);
		}
		finish_all();
		free_graph(&gr);
		stop();
	}
	assert_true(covers > 20);
	with_covers = false;
}

/* One that it is just about to go past holds nobody up: the stop begins when it has. */
static void test_goes_past_a_cover(void **state)
{
	struct graph gr;

	with_covers = true;
	start(7);
	make();
	new_graph(&gr, 100, 0);
	launch_graph(&gr, true);
	while (gr.g->words->place != 1)
		assert_true(advance(&dev.stream[0]));
	assert_true(advance(&dev.stream[0])); /* it has seen that nothing holds */
	set_gate(true);
	assert_int_equal(pump(), -EAGAIN);
	assert_false(ops->guardian.stopped(&p.q));
	assert_int_equal(gr.g->words->hold, 0);
	assert_true(advance(&dev.stream[0]));
	assert_int_equal(pump(), -EINPROGRESS);
	finish_all();
	free_graph(&gr);
	stop();
	with_covers = false;
}

/* Where it may wait for the program it is not stopped. */
static void test_waits_inside_a_graph(void **state)
{
	struct graph gr;

	with_covers = true;
	awaits[0] = true; /* where the launch before has ended there is nothing */
	start(9);
	make();
	new_graph(&gr, 100, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(launch_graph(&gr, true));
		put_gate();
	}
	give();
	do
		assert_true(advance(&dev.stream[0]));
	while (!awaits_program());
	set_gate(true);
	assert_int_equal(pump(), -EAGAIN);
	assert_false(ops->guardian.stopped(&p.q));
	assert_int_equal(gr.g->words->hold, 0);
	finish_all();
	free_graph(&gr);
	stop();
	with_covers = awaits[0] = false;
}

/* At its own gate it stands; nobody looks at it again until that opens. */
static void test_stands_at_its_own_gate(void **state)
{
	struct graph gr;

	start(2);
	make();
	new_graph(&gr, 100, 0);
	launch_graph(&gr, true);
	set_gate(true);
	while (advance(&dev.stream[0]))
		;
	assert_int_equal(atomic_load(&board.words.waiting), 1);
	assert_int_equal(pump(), -EALREADY);
	assert_true(ops->guardian.stopped(&p.q));
	finish_all();
	free_graph(&gr);
	stop();
}

/* The same numbers again: what was decided of the launch before does not count. */
static void test_each_launch_is_decided_anew(void **state)
{
	struct graph gr;

	for (unsigned whole = 0; whole < 1u << NODES; whole++) {
		with_covers = whole & 1;
		start(3 + whole);
		make();
		new_graph(&gr, 100, whole);
		for (unsigned i = 0; i < 6; i++) {
			assert_true(launch_graph(&gr, true));
			cover();
			advance_any(draw(60));
			stop_it();
			set_gate(false);
			pump();
		}
		finish_all();
		free_graph(&gr);
		stop();
	}
	with_covers = false;
}

/* One that was not guarded runs when the next one, which is, is told to stop: not by that word. */
static void test_not_the_one_in_front(void **state)
{
	struct graph gr;

	start(40);
	make();
	new_graph(&gr, 100, 0);
	assert_false(launch_graph(&gr, false));
	assert_true(launch_graph(&gr, true));
	advance(&dev.stream[0]);
	set_gate(true);
	assert_int_equal(pump(), -EALREADY);
	assert_int_equal(p.q.guard->shared->hold, 0);
	finish_all();
	free_graph(&gr);
	stop();
}

/* Nor does it go into a segment with others. */
static void test_needs_gates(void **state)
{
	const struct fm_cu_launch_config config = {.grid = {BLOCKS, 1, 1}, .block = {1, 1, 1}};
	const struct fm_cu_guarded l = {(CUfunction)16, &config, 8 + FM_GUARD_BYTES, false};
	uint64_t ours[3];
	struct graph gr;

	start(41);
	make();
	new_graph(&gr, 100, 0);
	launch();
	assert_false(fm_cu_guard_graph(p.q.guard, gr.g, &dev.stream[0]));
	assert_true(launch_graph(&gr, true));
	assert_true(fm_cu_guard_graph_open(p.q.guard));
	assert_null(fm_cu_guard_begin(p.q.guard, &l, ours));
	p.unguarded = 0;
	launch(); /* puts one */
	assert_int_equal(p.unguarded, 0);
	assert_false(fm_cu_guard_graph_open(p.q.guard));
	fm_cu_graph_loosen(gr.g);
	assert_false(launch_graph(&gr, true));
	finish_all();
	free_graph(&gr);
	stop();
}

/* What is kept of a launch of a graph is not mistaken for the launch behind it, whatever was in
 * that memory before. */
static void test_record_of_a_graph(void **state)
{
	uint64_t *word;
	struct graph gr;

	start(44);
	make();
	new_graph(&gr, 100, 0);
	word = (uint64_t *)(void *)p.q.guard->records.ring;
	for (size_t i = 0; i < FM_CU_RECORD_BYTES / sizeof(*word); i++)
		word[i] = 2; /* the number of launch() below */
	assert_true(launch_graph(&gr, true));
	launch();
	cover();
	while (dev.runs[0] + dev.runs[1] + dev.runs[2] <= 3 * NODES)
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump(), -EINPROGRESS);
	stop_it();
	assert_int_equal(p.inside, 1);
	finish_all();
	free_graph(&gr);
	stop();
}

/* Of a graph that has left out all there is to it, nothing has run. */
static void test_counts_for_itself(void **state)
{
	struct graph gr;

	start(43);
	make();
	launch();
	cover();
	while (!dev.runs[0] && !dev.runs[1] && !dev.runs[2])
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	pump();
	assert_true(advance(&dev.stream[1])); /* the stop word is set */
	stop_it();
	assert_int_equal(p.inside, 1);
	finish();
	new_graph(&gr, 100, 0);
	launch_graph(&gr, true);
	p.inside = 0;
	set_gate(true);
	pump();
	put_gate();
	assert_true(advance(&dev.stream[1])); /* the stop word is set */
	set_gate(false);
	while (advance(&dev.stream[0]))
		;
	set_gate(true);
	stop_it();
	assert_int_equal(p.inside, 0);
	finish_all();
	free_graph(&gr);
	stop();
}

static void random_program(uint64_t seed, struct graph gr[2])
{
	start(seed);
	make();
	new_graph(&gr[0], 100, 0);
	new_graph(&gr[1], 201, draw(1u << NODES));
	p.whole = draw(4);
	for (unsigned i = 0; i < 1500; i++) {
		switch (draw(18)) {
		case 0:
			set_gate(!p.closed);
			break;
		case 1:
			put_gate();
			break;
		case 2:
			cover();
			break;
		case 3:
			if (p.closed || !fm_cu_guard_uncovered(p.q.guard))
				assert_int_equal(
					ops->device_gate.write_fence(&p.q, &words, p.counted), 0);
			break;
		case 4:
			launch();
			break;
		case 5:
		case 6:
			launch_graph(&gr[draw(2)], draw(5));
			break;
		case 7:
			pump();
			break;
		case 8:
			if (!draw(4))
				put_wait();
			break;
		case 9:
			give();
			give();
			break;
		default:
			advance_any(draw(16));
		}
	}
	finish_all();
}

static void test_any_order_is_exact(void **state)
{
	struct graph gr[2];
	unsigned inside = 0;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		with_covers = seed % 2;
		for (unsigned i = 0; i < FM_ARRAY_LEN(awaits); i++)
			awaits[i] = seed >> (i + 2) & 1;
		random_program(seed, gr);
		inside += p.inside;
		free_graph(&gr[0]);
		free_graph(&gr[1]);
		stop();
	}
	assert_true(inside > 400);
	with_covers = false;
	memset(awaits, 0, sizeof(awaits));
}

/* It may be given back by the program at once. */
static void test_given_back_under_way(void **state)
{
	struct graph gr;
	CUdeviceptr block;

	start(42);
	make();
	new_graph(&gr, 100, 0);
	block = gr.g->block;
	launch_graph(&gr, true);
	fm_cu_graph_put(gr.g);
	advance(&dev.stream[0]);
	stop_it();
	finish_all();
	/* Its block serves the next one. */
	new_graph(&gr, 200, 0);
	assert_true(gr.g->block == block);
	launch_graph(&gr, true);
	advance(&dev.stream[0]);
	stop_it();
	finish_all();
	free_graph(&gr);
	stop();
}

static void test_no_graph(void **state)
{
	struct graph gr;
	unsigned made = 0;

	for (unsigned at = 1; at < 20; at++) {
		with_covers = at >= 10;
		start(at);
		make();
		dev.fails_at = dev.calls + at % 10;
		made += try_graph(&gr, 100, 0);
		dev.fails_at = 0;
		if (!gr.g) /* what was begun serves the next one */
			new_graph(&gr, 100, 0);
		free_graph(&gr);
		stop();
	}
	assert_in_range(made, 4, 14);
	with_covers = false;
}

/* The driver fails from some call on: nobody is held for ever. */
static void test_fails_open(void **state)
{
	struct graph gr;

	for (unsigned at = 1; at < 80; at++) {
		with_covers = at >= 40;
		start(at);
		make();
		new_graph(&gr, 100, 4);
		launch_graph(&gr, true);
		cover();
		advance(&dev.stream[0]);
		stop_failing(at % 40);
		/* What was launched last may be told to stop still: not what comes. */
		if (atomic_load(&gr.g->spoilt)) {
			assert_false(launch_graph(&gr, true));
			assert_true(fm_cu_graph_prepare(gr.g, &dev.stream[0]));
			while (moves())
				advance_any(20);
			assert_int_equal(*(uint32_t *)(uintptr_t)gr.g->block, 0);
			assert_true(!gr.g->words || !gr.g->words->hold);
		}
		free((void *)(uintptr_t)gr.g->block);
		fm_cu_graphs_forget((CUcontext)8);
		fm_cu_graph_put(gr.g);
		stop();
	}
	with_covers = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stops_inside_a_graph),
		cmocka_unit_test(test_stops_at_a_cover),
		cmocka_unit_test(test_goes_past_a_cover),
		cmocka_unit_test(test_waits_inside_a_graph),
		cmocka_unit_test(test_stands_at_its_own_gate),
		cmocka_unit_test(test_each_launch_is_decided_anew),
		cmocka_unit_test(test_not_the_one_in_front),
		cmocka_unit_test(test_needs_gates),
		cmocka_unit_test(test_record_of_a_graph),
		cmocka_unit_test(test_counts_for_itself),
		cmocka_unit_test(test_any_order_is_exact),
		cmocka_unit_test(test_given_back_under_way),
		cmocka_unit_test(test_no_graph),
		cmocka_unit_test(test_fails_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
