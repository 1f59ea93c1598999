/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of guards: a queue, and the program that launches into it. */
#pragma once
#include "base/util.h"
#include "guard_device.h"

static const struct fm_hw_ops *const ops = &fm_cu_ops;

static struct {
	struct fm_cu_queue q;
	unsigned kernels, counted; /* launched; and all commands */
	uint32_t log[COMMANDS];    /* which kernels, in their order */
	unsigned whole;            /* of so many launches one is all or nothing; 0: none */
	unsigned unguarded;        /* found no room */
	bool closed;
	unsigned inside; /* times that it stood in the middle */
	bool unmarked;   /* something was put that waits, and no launch since */
	unsigned asked, given;
	uint32_t word[COMMANDS / 4]; /* what that waits for */
} p;

static struct fm_gate_words words = {
	.map = &board,
	.map_size = sizeof(board),
	.gate_map = &board,
	.gate_map_size = sizeof(board),
	.gate = &board.words.gate,
	.waiting = &board.words.waiting,
	.progress = &board.words.progress,
};

static void start(uint64_t seed)
{
	for (unsigned i = 0; i < 8; i++) {
		struct command *keep = dev.stream[i].command;

		dev.stream[i] = (struct CUstream_st){
			keep ? keep : malloc(COMMANDS * sizeof(*keep)), 0, 0, false};
		assert_non_null(dev.stream[i].command);
	}
	dev.streams = 1;
	dev.destroyed = 0;
	dev.pad = NULL;
	dev.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	dev.calls = dev.fails_at = 0;
	memset(dev.runs, 0, sizeof(dev.runs));
	memset(dev.rounds, 0, sizeof(dev.rounds));
	dev.left_in_loops = 0;
	dev.meanwhile = NULL;
	for (unsigned i = 0; i < BLOCKS; i++)
		dev.a[i] = dev.b[i] = i;
	memset(&board, 0, sizeof(board));
	memset(&p, 0, sizeof(p));
	fm_cu_queue_init(&p.q, &driver, dev.green ? (CUcontext)40 : (CUcontext)8, (CUcontext)8,
		&dev.stream[0], NULL);
	p.q.guarded = true;
	p.q.loops = dev.loops;
	fm_cu_queue_words(&p.q, &board, sizeof(board));
}

static void make(void)
{
	assert_int_equal(ops->levels(&p.q), 1u << 1 | 1u << 2 | 1u << 3);
	assert_non_null(p.q.guard);
}

/* The driver frees what it has given out when the context ends: here what belongs to no queue. */
static void end_context(void)
{
	struct fm_cu_turnstile *t = fm_cu_turnstile((CUcontext)8, false);
	void *settle = t ? atomic_load(&fm_cu_turnstile_settle(t)->words) : NULL;

	fm_cu_context_gone((CUcontext)8);
	free(settle);
	while (dev.pages)
		free(dev.page[--dev.pages]);
}

static void stop(void)
{
	CUdeviceptr block = p.q.guard->block, area = p.q.guard->area;
	void *shared = p.q.guard->shared;

	p.q.ctx_ends = true;
	ops->close(&p.q);
	end_context();
	ops->release(&p.q, false);
	free((void *)(uintptr_t)block);
	free((void *)(uintptr_t)area);
	free(shared);
}

static void put_gate(void)
{
	assert_int_equal(ops->device_gate.gate(&p.q, &words, p.counted, false), 0);
}

static void cover(void)
{
	if (ops->guardian.unfenced(&p.q))
		put_gate();
}

/* The stream waits for something that the program does when it likes. */
static void put_wait_op(void)
{
	union fm_cu_mem_op op =
		fm_cu_guard_op(FM_CU_OP_WAIT_VALUE_32, (uintptr_t)&p.word[p.asked++], 1);

	assert_in_range(p.asked, 1, FM_ARRAY_LEN(p.word));
	assert_int_equal(driver.stream_mem_ops(&dev.stream[0], 1, &op, 0), 0);
}

static void put_wait(void)
{
	cover();
	put_wait_op();
	p.unmarked = true;
}

static void give(void)
{
	if (p.given < p.asked)
		p.word[p.given++] = 1;
}

static bool awaits_program(void)
{
	const struct command *c = &dev.stream[0].command[dev.stream[0].first];
	CUdeviceptr at = !empty(&dev.stream[0]) && c->kind == OPS ? c->op[c->at].op.address : 0;

	return at >= (uintptr_t)p.word && at < (uintptr_t)(p.word + p.asked) &&
	       !*(uint32_t *)(uintptr_t)at;
}

static void mark(void)
{
	if (p.unmarked)
		assert_true(fm_cu_guard_mark(p.q.guard, &dev.stream[0]));
	p.unmarked = false;
}

static void launch(void)
{
	struct {
		uint64_t kernel, ours[3];
	} packed = {.kernel = p.kernels};
	size_t size = sizeof(packed);
	void *extra[] = {FM_CU_EXTRA_BUFFER, &packed, FM_CU_EXTRA_SIZE, &size, FM_CU_EXTRA_END};
	struct fm_cu_launch_config config = {
		.grid = {BLOCKS, 1, 1}, .block = {1, 1, 1}, .stream = &dev.stream[0]};
	struct fm_cu_guarded l = {
		(CUfunction)16, &config, sizeof(packed), p.whole && !draw(p.whole)};
	void *copy;

	if (fm_cu_guard_graph_open(p.q.guard))
		cover();
	copy = fm_cu_guard_begin(p.q.guard, &l, packed.ours);
	if (!copy) {
		p.unguarded++;
		cover();
		memset(packed.ours, 0, sizeof(packed.ours));
	} else {
		memcpy(copy, &packed.kernel, sizeof(packed.kernel));
		mark();
	}
	assert_int_equal(driver.launch(&config, l.function, NULL, extra), 0);
	if (copy)
		fm_cu_guard_end(p.q.guard, true);
	p.log[p.kernels] = p.kernels;
	p.kernels++;
	p.counted++;
}

/* The scheduler, and its agent. */
static void set_gate(bool closed)
{
	p.closed = closed;
	atomic_store(&board.words.gate, closed);
}

static int pump(void)
{
	int rc;

	if (!p.closed)
		return ops->stop.restore(&p.q);
	rc = ops->stop.interrupt(&p.q);
	p.inside += rc == 0;
	if (p.q.guard->stage != FM_CU_RUNS)
		assert_false(awaits_program());
	return rc;
}

static bool moves(void)
{
	for (unsigned i = 0; i < dev.streams; i++)
		if (!empty(&dev.stream[i]))
			return true;
	return false;
}

/* All that was launched comes to its end. */
static void finish(void)
{
	set_gate(false);
	put_gate();
	while (p.given < p.asked)
		give();
	for (unsigned i = 0; moves() || ops->guardian.stopped(&p.q); i++) {
		pump();
		advance_any(10);
		assert_true(i < 1000000);
	}
	assert_int_equal(atomic_load(&board.words.progress), 2 * p.counted);
}

static void assert_exact(void)
{
	uint32_t a[BLOCKS], b[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++)
		a[i] = b[i] = i;
	for (unsigned k = 0; k < p.kernels; k++)
		for (unsigned i = 0; i < BLOCKS; i++)
			compute(p.log[k], i, a, b);
	assert_memory_equal(a, dev.a, sizeof(a));
	assert_memory_equal(b, dev.b, sizeof(b));
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(dev.runs[i], p.kernels);
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_int_equal(dev.rounds[i], dev.loops * p.kernels);
}
