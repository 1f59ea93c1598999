/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of guards: a device whose streams move by single blocks and single words, in an
 * order that is drawn, and its driver. Kernels depend on all blocks of the one before, so what is
 * left out, done twice, or done too early shows.
 */
#pragma once
#include "api/cuda/core/cuda.h"
#include "api/cuda/core/guard/guard_internal.h"
#include "code/cuda/image.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS   7u
#define COMMANDS 20000u
#define WORDS    64u

/* --- the device --- */

enum kind { OPS, KERNEL, TO_HOST, TO_DEVICE, FILL };

struct command {
	enum kind kind;
	unsigned n, at; /* operations, or blocks; the next one */
	union fm_cu_mem_op op[6];
	uint64_t ours[3];
	unsigned kernel, begun, started; /* of the blocks: bits */
	void *to;
	const void *from;
	size_t size;
};

struct CUstream_st {
	struct command *command;
	unsigned first, n;
	bool inside; /* one of its blocks is in its loop */
};

static struct {
	struct CUstream_st stream[8];
	unsigned streams, destroyed, greens_destroyed;
	void *page[64]; /* of the host's memory, for words of graphs */
	unsigned pages;
	CUgreenCtx green; /* whose streams the program's are; NULL: no such */
	CUstream pad;     /* the stream of another green context; NULL: no such */
	bool in_green;
	unsigned pad_takes; /* of so many launches it does not take one; 0: it takes all */
	bool no_green;      /* it has no room for one more */
	bool no_wide;       /* nor does it wait for words of 64 bits */
	uint64_t random;
	unsigned calls, fails_at; /* the driver's; from which on they fail. 0: never */
	bool passes_slowly;
	bool halted;    /* it does nothing while the agent asks */
	unsigned loops; /* blocks go through a loop so often, and can be left there */
	void (*meanwhile)(unsigned round);
	uint32_t a[BLOCKS], b[BLOCKS];
	unsigned rounds[BLOCKS], left_in_loops;
	unsigned runs[BLOCKS]; /* of the kernel that counts them */
} dev;

static struct {
	_Alignas(64) struct fm_board_like {
		uint64_t head;
		_Atomic uint32_t gate, waiting;
		_Atomic uint64_t progress;
		_Atomic uint32_t memory;
	} words;
} board;

static unsigned draw(unsigned n)
{
	dev.random ^= dev.random << 13;
	dev.random ^= dev.random >> 7;
	dev.random ^= dev.random << 17;
	return (unsigned)(dev.random % n);
}

static bool fails(void)
{
	dev.calls++;
	return dev.fails_at && dev.calls >= dev.fails_at;
}

#define TRY()                       \
	do {                        \
		if (fails())        \
			return 700; \
	} while (0)

static struct command *add(CUstream s, enum kind kind)
{
	struct command *c;

	assert_true(s->n < COMMANDS);
	c = &s->command[s->n++];
	*c = (struct command){.kind = kind};
	return c;
}

static bool empty(CUstream s)
{
	return s->first == s->n;
}

/* A block looks, as the guardian does. Should it end at once? */
static bool left_out(struct command *c, unsigned block)
{
	char *base = (char *)(uintptr_t)c->ours[1];
	uint32_t stop = *(uint32_t *)(uintptr_t)c->ours[0], *count = (uint32_t *)(base + 4);
	uint64_t *first = (uint64_t *)(base + 8), *decided = (uint64_t *)(base + 16);
	uint64_t launch = c->ours[2] >> 2, mode = c->ours[2] & 3;
	uint32_t *map = (uint32_t *)(base + 64), bit = 1u << block;

	if (!stop && !mode)
		return false;
	if (mode == FM_GUARD_GRID) {
		if (*decided >> 2 != launch)
			*decided = launch << 2 | (stop ? 2 : 1);
		if (!(*decided & 2))
			return false;
		*first = *first ? *first : launch;
		*count += *first == launch;
		return true;
	}
	if (mode == FM_GUARD_AGAIN && !(*map & bit))
		return true;
	if (mode == FM_GUARD_AGAIN && !stop) {
		*map &= ~bit;
		return false;
	}
	if (!*first || *first == launch) {
		*first = launch;
		*map |= bit;
		++*count;
	}
	return true;
}

/* What kernel k does in a block: of the other buffer, a neighbour's word. */
static void compute(unsigned k, unsigned block, uint32_t *a, uint32_t *b)
{
	uint32_t *to = k % 2 ? a : b, *from = k % 2 ? b : a;

	to[block] = from[(block + 1) % BLOCKS] * 31 + from[(block + 3) % BLOCKS] + k;
}

static bool advance(CUstream s);

/* What others do meanwhile. */
static void others_advance(CUstream s)
{
	CUstream other = &dev.stream[draw(dev.streams)];

	if (other != s && !other->inside)
		advance(other);
}

/* A block in its loop, which looks as it goes round. False: it was left there. */
static bool loops(CUstream s, const struct command *c, unsigned block)
{
	char *base = (char *)(uintptr_t)c->ours[1];
	uint32_t *stop = (uint32_t *)(uintptr_t)c->ours[0], *state = NULL, round = 0;
	uint64_t *first = (uint64_t *)(base + 8), mode = c->ours[2] & 3;

	if (stop && mode != FM_GUARD_GRID)
		state = (uint32_t *)(uintptr_t) * (uint64_t *)(base + FM_LOOP_AREA);
	if (state && mode == FM_GUARD_AGAIN && state[block]) {
		round = state[block];
		state[block] = 0;
	}
	s->inside = true;
	for (; round < dev.loops; round++) {
		others_advance(s);
		if (dev.meanwhile)
			dev.meanwhile(round);
		if (round && state && *stop && (!*first || *first == c->ours[2] >> 2)) {
			state[block] = round;
			*first = c->ours[2] >> 2;
			*(uint32_t *)(base + 64) |= 1u << block;
			++*(uint32_t *)(base + 4);
			++*(uint64_t *)(base + FM_LOOP_LEFT);
			dev.left_in_loops++;
			break;
		}
		dev.rounds[block]++;
	}
	s->inside = false;
	return round == dev.loops;
}

static void run_block(CUstream s, struct command *c)
{
	unsigned block = draw(BLOCKS);

	while (c->started & 1u << block)
		block = (block + 1) % BLOCKS;
	c->started |= 1u << block;
	if ((!c->ours[0] || !left_out(c, block)) && loops(s, c, block)) {
		compute(c->kernel, block, dev.a, dev.b);
		dev.runs[block]++;
	}
}

static bool reached(const union fm_cu_mem_op *op, const void *at)
{
	bool wide = op->op.operation == FM_CU_OP_WAIT_VALUE_64;
	uint64_t word = wide ? *(const uint64_t *)at : *(const uint32_t *)at;

	if (op->op.flags == FM_CU_WAIT_VALUE_NOR)
		return ~((uint32_t)word | (uint32_t)op->op.value);
	if (wide && op->op.flags == FM_CU_WAIT_VALUE_GEQ)
		return (int64_t)(word - op->op.value) >= 0;
	if (op->op.flags == FM_CU_WAIT_VALUE_GEQ)
		return (int32_t)((uint32_t)word - (uint32_t)op->op.value) >= 0;
	return (uint32_t)word == (uint32_t)op->op.value;
}

/* False: it waits. */
static bool run_op(const union fm_cu_mem_op *op)
{
	void *at = (void *)(uintptr_t)op->op.address;

	if (op->op.operation == FM_CU_OP_WRITE_VALUE_32)
		*(uint32_t *)at = (uint32_t)op->op.value;
	else if (op->op.operation == FM_CU_OP_WRITE_VALUE_64)
		*(uint64_t *)at = op->op.value;
	else
		return reached(op, at);
	return true;
}

/* The next block, or the next operation, of a stream. False: it waits, or is empty. */
static bool advance(CUstream s)
{
	struct command *c = &s->command[s->first];

	if (empty(s))
		return false;
	if (c->kind == OPS && !run_op(&c->op[c->at]))
		return false;
	if (c->kind == KERNEL)
		run_block(s, c);
	if (c->kind == TO_HOST || c->kind == TO_DEVICE)
		memcpy(c->to, c->from, c->size);
	if (c->kind == FILL)
		memset(c->to, 0, c->size);
	if (++c->at >= c->n)
		s->first++;
	return true;
}

static void advance_any(unsigned n)
{
	while (n--) {
		CUstream s = &dev.stream[draw(dev.streams)];

		if (!s->inside)
			advance(s);
	}
}

/* --- its driver --- */

static fm_cu_result drv_push(CUcontext ctx)
{
	TRY();
	return 0;
}

static fm_cu_result drv_pop(CUcontext *ctx)
{
	return 0;
}

static fm_cu_result drv_current(CUcontext *ctx)
{
	*ctx = (CUcontext)8;
	return 0;
}

static fm_cu_result drv_register(void *p, size_t size, unsigned flags)
{
	return 0;
}

static fm_cu_result drv_pointer(CUdeviceptr *d, void *p, unsigned flags)
{
	*d = (uintptr_t)p;
	return 0;
}

static fm_cu_result drv_host_alloc(void **p, size_t size, unsigned flags)
{
	TRY();
	*p = aligned_alloc(64, (size + 63) & ~(size_t)63);
	if (*p && size == 4096)
		dev.page[dev.pages++] = *p;
	return *p ? 0 : 2;
}

static fm_cu_result drv_host_free(void *p)
{
	free(p);
	return 0;
}

static fm_cu_result drv_alloc(CUdeviceptr *d, size_t size)
{
	TRY();
	*d = (uintptr_t)aligned_alloc(64, (size + 63) & ~(size_t)63);
	return *d ? 0 : 2;
}

static fm_cu_result drv_free(CUdeviceptr d)
{
	free((void *)(uintptr_t)d);
	return 0;
}

static fm_cu_result copy(CUstream s, enum kind kind, void *to, const void *from, size_t size)
{
	struct command *c;

	TRY();
	c = add(s, kind);
	c->to = to;
	c->from = from;
	c->size = size;
	return 0;
}

static fm_cu_result drv_to_device(CUdeviceptr to, const void *from, size_t size, CUstream s)
{
	return copy(s, TO_DEVICE, (void *)(uintptr_t)to, from, size);
}

static fm_cu_result drv_to_host(void *to, CUdeviceptr from, size_t size, CUstream s)
{
	return copy(s, TO_HOST, to, (void *)(uintptr_t)from, size);
}

static fm_cu_result drv_fill(CUdeviceptr to, unsigned value, size_t n, CUstream s)
{
	assert_int_equal(value, 0);
	return copy(s, FILL, (void *)(uintptr_t)to, NULL, 4 * n);
}

static fm_cu_result drv_launch(
	const struct fm_cu_launch_config *config, CUfunction f, void **params, void **extra)
{
	struct command *c;
	const char *buffer = extra[1];

	TRY();
	if (config->stream == dev.pad && dev.pad_takes && !draw(dev.pad_takes))
		return 709;
	assert_int_equal(*(size_t *)extra[3], 8 + FM_GUARD_BYTES);
	c = add(config->stream, KERNEL);
	c->n = BLOCKS;
	c->kernel = *(const uint32_t *)(const void *)buffer;
	memcpy(c->ours, buffer + 8, sizeof(c->ours));
	return 0;
}

static fm_cu_result drv_range(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return 0;
}

static fm_cu_result drv_stream(CUstream *s, unsigned flags, int priority)
{
	TRY();
	assert_int_equal(flags, FM_CU_STREAM_NON_BLOCKING);
	assert_true(priority == -5 || (priority == 0 && dev.in_green));
	assert_true(dev.streams < 8);
	*s = &dev.stream[dev.streams++];
	return 0;
}

static fm_cu_result drv_green_stream(CUstream *s, CUgreenCtx green, unsigned flags, int priority)
{
	fm_cu_result rc = 2;

	assert_non_null(green);
	dev.in_green = green != dev.green;
	if (!dev.no_green)
		rc = drv_stream(s, flags, priority);
	if (!rc && dev.in_green)
		dev.pad = *s;
	dev.in_green = false;
	return rc;
}

static fm_cu_result drv_green_destroy(CUgreenCtx green)
{
	assert_true(green && green != dev.green);
	dev.greens_destroyed++;
	return 0;
}

static fm_cu_result drv_get_both(CUstream s, CUcontext *ctx, CUgreenCtx *green)
{
	*ctx = (CUcontext)8;
	*green = s == dev.pad ? (CUgreenCtx)48 : dev.green;
	return 0;
}

static fm_cu_result drv_stream_destroy(CUstream s)
{
	dev.destroyed++;
	return 0;
}

static fm_cu_result drv_sync(CUstream s)
{
	TRY();
	while (!empty(s))
		assert_true(advance(s));
	return 0;
}

static fm_cu_result drv_query(CUstream s)
{
	TRY();
	if (!dev.halted)
		advance_any(draw(4));
	return empty(s) ? 0 : FM_CU_ERROR_NOT_READY;
}

static fm_cu_result drv_ops(CUstream s, unsigned n, union fm_cu_mem_op *ops, unsigned flags)
{
	struct command *c;

	TRY();
	if (s == dev.pad && dev.pad_takes && !draw(dev.pad_takes))
		return 709;
	assert_in_range(n, 1, FM_ARRAY_LEN(c->op));
	for (unsigned i = 0; i < n && dev.no_wide; i++)
		if (ops[i].op.operation == FM_CU_OP_WAIT_VALUE_64)
			return FM_CU_ERROR_NOT_SUPPORTED;
	c = add(s, OPS);
	c->n = n;
	memcpy(c->op, ops, n * sizeof(*ops));
	return 0;
}

static const struct fm_cu_driver driver = {
	.ctx_get_current = drv_current,
	.ctx_push = drv_push,
	.ctx_pop = drv_pop,
	.host_register = drv_register,
	.host_device_pointer = drv_pointer,
	.host_alloc = drv_host_alloc,
	.host_free = drv_host_free,
	.mem_alloc = drv_alloc,
	.mem_free = drv_free,
	.copy_to_device = drv_to_device,
	.copy_to_host = drv_to_host,
	.fill = drv_fill,
	.launch = drv_launch,
	.priority_range = drv_range,
	.stream_create = drv_stream,
	.green_stream_create = drv_green_stream,
	.green_destroy = drv_green_destroy,
	.stream_get_both = drv_get_both,
	.stream_destroy = drv_stream_destroy,
	.stream_synchronize = drv_sync,
	.stream_query = drv_query,
	.stream_mem_ops = drv_ops,
};
