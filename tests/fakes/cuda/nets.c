/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of examples/server/kernels.cu: the same sums in the same order, so that answers are
 * those of a device, bit by bit. */
#include "../../../examples/server/shapes.h"
#include "fake.h"
#include <math.h>
#include <string.h>

static float *floats(CUdeviceptr d)
{
	return (float *)(uintptr_t)d;
}

static unsigned out_of(unsigned size, unsigned kernel, unsigned stride)
{
	return (size + kernel / 2 * 2 - kernel) / stride + 1;
}

struct conv {
	CUdeviceptr out, in, weights;
	struct conv_shape s;
};

static float look(const struct conv *p, unsigned row, unsigned at)
{
	const struct conv_shape *s = &p->s;
	unsigned w = out_of(s->width, s->kernel, s->stride);
	unsigned h = out_of(s->height, s->kernel, s->stride);
	unsigned tap = at / s->inputs, c = at % s->inputs, n = row / w / h;
	unsigned y = row / w % h * s->stride - s->kernel / 2 + tap / s->kernel;
	unsigned x = row % w * s->stride - s->kernel / 2 + tap % s->kernel;

	if (at >= s->kernel * s->kernel * s->inputs || y >= s->height || x >= s->width)
		return 0;
	return floats(p->in)[(((size_t)n * s->height + y) * s->width + x) * s->inputs + c];
}

static float sum_up(const struct conv *p, unsigned row, unsigned column, unsigned from)
{
	unsigned all = p->s.kernel * p->s.kernel * p->s.inputs;
	unsigned steps = (all + CONV_STEP - 1) / CONV_STEP * CONV_STEP, end = from + p->s.depth;
	float sum = 0;

	for (unsigned k = from; k < end && k < steps; k++) {
		float b = k < all ? floats(p->weights)[(size_t)k * p->s.outputs + column] : 0;

		sum = fmaf(look(p, row, k), b, sum);
	}
	return sum;
}

/* A block of any version. */
static void conv_block(const struct fk_block *b, unsigned tall, unsigned wide)
{
	const unsigned *grid = b->launch->grid;
	unsigned row = b->x * tall, z = (unsigned)(b->number / grid[0] / grid[1]);
	unsigned column = (unsigned)(b->number / grid[0] % grid[1]) * wide;
	struct conv p;
	unsigned rows;

	memcpy(&p, b->params, sizeof(p));
	rows = p.s.batch * out_of(p.s.height, p.s.kernel, p.s.stride) *
	       out_of(p.s.width, p.s.kernel, p.s.stride);
	for (unsigned y = row; y < row + tall && y < rows; y++)
		for (unsigned x = column; x < column + wide && x < p.s.outputs; x++)
			floats(p.out)[((size_t)z * rows + y) * p.s.outputs + x] =
				sum_up(&p, y, x, z * p.s.depth);
}

#define VERSION(name, rows, columns)               \
	static void name(const struct fk_block *b) \
	{                                          \
		conv_block(b, rows, columns);      \
	}
CONV_VERSIONS(VERSION)
#undef VERSION

/* The numbers of a block. */
#define FOR_EACH(i, b) \
	for (unsigned i = (b)->x * EACH_THREADS; i < ((b)->x + 1) * EACH_THREADS; i++)

static void net_finish(const struct fk_block *b)
{
	struct {
		CUdeviceptr out, part, bias, residual;
		struct finish_shape s;
	} p;

	memcpy(&p, b->params, sizeof(p));
	FOR_EACH(i, b)
	{
		float v;

		if (i >= p.s.count)
			return;
		v = floats(p.part)[i];
		for (unsigned part = 1; part < p.s.parts; part++)
			v += floats(p.part)[(size_t)part * p.s.count + i];
		v += floats(p.bias)[i % p.s.outputs];
		if (p.residual)
			v = (v + floats(p.residual)[i]) * 0.70710678f;
		floats(p.out)[i] = p.s.relu && v < 0 ? 0 : v;
	}
}

struct pool {
	CUdeviceptr out, in;
	struct pool_shape s;
};

static float greatest(const struct pool *p, unsigned i)
{
	unsigned h = out_of(p->s.height, 3, 2), w = out_of(p->s.width, 3, 2), n = p->s.channels;
	unsigned x = i / n % w * 2, y = i / n / w % h * 2;
	const float *in =
		floats(p->in) + (size_t)(i / n / w / h) * p->s.height * p->s.width * n + i % n;
	float v = in[((size_t)y * p->s.width + x) * n];

	for (unsigned b = y ? y - 1 : 0; b <= y + 1 && b < p->s.height; b++)
		for (unsigned a = x ? x - 1 : 0; a <= x + 1 && a < p->s.width; a++)
			v = fmaxf(in[((size_t)b * p->s.width + a) * n], v);
	return v;
}

static void net_pool(const struct fk_block *b)
{
	struct pool p;

	memcpy(&p, b->params, sizeof(p));
	FOR_EACH(i, b)
	{
		if (i / p.s.channels / out_of(p.s.width, 3, 2) / out_of(p.s.height, 3, 2) >=
			p.s.batch)
			return;
		floats(p.out)[i] = greatest(&p, i);
	}
}

static void net_mean(const struct fk_block *b)
{
	struct pool p;
	unsigned places;

	memcpy(&p, b->params, sizeof(p));
	places = p.s.height * p.s.width;
	FOR_EACH(i, b)
	{
		unsigned n = i / p.s.channels;
		float sum = 0;

		if (n >= p.s.batch)
			return;
		for (unsigned at = 0; at < places; at++)
			sum += floats(
				p.in)[((size_t)n * places + at) * p.s.channels + i % p.s.channels];
		floats(p.out)[i] = sum * (1.0f / (float)places);
	}
}

static void net_input(const struct fk_block *b)
{
	struct {
		CUdeviceptr out, in;
		struct input_shape s;
	} p;
	const unsigned char *in;

	memcpy(&p, b->params, sizeof(p));
	in = (const unsigned char *)(uintptr_t)p.in;
	FOR_EACH(i, b)
	{
		if (i >= p.s.count * p.s.batch)
			return;
		floats(p.out)[i] = fmaf(
			in[(i % p.s.count + i / p.s.count * 977) % p.s.count], 1 / 127.5f, -1.0f);
	}
}

const struct fk_kernel *fk_net_find(const char *name)
{
	static const struct fk_kernel kernels[] = {
#define VERSION(name, rows, columns) \
	{#name, {8, 8, 8, sizeof(struct conv_shape)}, name, false, {{0}}},
		CONV_VERSIONS(VERSION)
#undef VERSION
			{"net_finish", {8, 8, 8, 8, sizeof(struct finish_shape)}, net_finish, false,
				{{0}}},
		{"net_pool", {8, 8, sizeof(struct pool_shape)}, net_pool, false, {{0}}},
		{"net_mean", {8, 8, sizeof(struct pool_shape)}, net_mean, false, {{0}}},
		{"net_input", {8, 8, sizeof(struct input_shape)}, net_input, false, {{0}}},
	};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return fk_science_find(name);
}
