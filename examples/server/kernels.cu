// SPDX-License-Identifier: Apache-2.0
// The kernels of the networks (nets.c). make-kernels makes kernels.ptx of them. Each number is the
// sum of the same products in the same order, whatever else the device does: answers can be
// compared bit by bit.
#include "shapes.h"

static __device__ unsigned out_of(unsigned size, unsigned kernel, unsigned stride)
{
	return (size + kernel / 2 * 2 - kernel) / stride + 1;
}

// Where a row's place begins in the input, before the border is taken off.
struct place {
	const float *picture;
	int y, x; // of the corner of what is looked at; beyond the border: not there
	bool there;
};

static __device__ place find(const conv_shape &s, const float *in, unsigned row)
{
	unsigned w = out_of(s.width, s.kernel, s.stride), h = out_of(s.height, s.kernel, s.stride);
	unsigned x = row % w, y = row / w % h, n = row / w / h;

	return {in + (size_t)n * s.height * s.width * s.inputs, (int)(y * s.stride) - (int)(s.kernel / 2),
		(int)(x * s.stride) - (int)(s.kernel / 2), n < s.batch};
}

static __device__ float look(const conv_shape &s, const place &p, unsigned dy, unsigned dx, unsigned c)
{
	unsigned y = p.y + dy, x = p.x + dx;

	return p.there && y < s.height && x < s.width ? p.picture[((size_t)y * s.width + x) * s.inputs + c] : 0;
}

// out: a part for each blockIdx.z, of all rows and columns.
template <unsigned ROWS, unsigned COLUMNS>
static __device__ __forceinline__ void conv(float *out, const float *in, const float *weights, const conv_shape &s)
{
	constexpr unsigned THREADS = CONV_THREADS_OF(ROWS, COLUMNS), ACROSS = COLUMNS / 4;
	constexpr unsigned A = ROWS * CONV_STEP / THREADS, B = COLUMNS * CONV_STEP / THREADS;
	__shared__ float a[CONV_STEP][ROWS + 4], b[CONV_STEP][COLUMNS];
	const unsigned t = threadIdx.x, row = blockIdx.x * ROWS, column = blockIdx.y * COLUMNS;
	const unsigned all = s.kernel * s.kernel * s.inputs, ty = t / ACROSS * 4, tx = t % ACROSS * 4;
	const unsigned rows = s.batch * out_of(s.height, s.kernel, s.stride) * out_of(s.width, s.kernel, s.stride);
	unsigned k = blockIdx.z * s.depth, end = k + s.depth < all ? k + s.depth : all;
	float sum[4][4] = {};
	place mine[A];

	for (unsigned i = 0; i < A; i++)
		mine[i] = find(s, in, row + t / CONV_STEP + THREADS / CONV_STEP * i);
	for (; k < end; k += CONV_STEP) {
		unsigned at = k + t % CONV_STEP, tap = at / s.inputs, c = at % s.inputs;

		for (unsigned i = 0; i < A; i++)
			a[t % CONV_STEP][t / CONV_STEP + THREADS / CONV_STEP * i] =
				at < all ? look(s, mine[i], tap / s.kernel, tap % s.kernel, c) : 0;
		for (unsigned i = 0; i < B; i++) {
			unsigned j = k + t / COLUMNS + THREADS / COLUMNS * i, n = column + t % COLUMNS;

			b[t / COLUMNS + THREADS / COLUMNS * i][t % COLUMNS] =
				j < all && n < s.outputs ? weights[(size_t)j * s.outputs + n] : 0;
		}
		__syncthreads();
		for (unsigned j = 0; j < CONV_STEP; j++)
			for (unsigned y = 0; y < 4; y++)
				for (unsigned x = 0; x < 4; x++)
					sum[y][x] = __fmaf_rn(a[j][ty + y], b[j][tx + x], sum[y][x]);
		__syncthreads();
	}
	out += (size_t)blockIdx.z * rows * s.outputs;
	for (unsigned y = 0; y < 4; y++)
		for (unsigned x = 0; x < 4; x++)
			if (row + ty + y < rows && column + tx + x < s.outputs)
				out[(size_t)(row + ty + y) * s.outputs + column + tx + x] = sum[y][x];
}

#define KERNEL(name, rows, columns) \
	extern "C" __global__ void __launch_bounds__(CONV_THREADS_OF(rows, columns)) \
		name(float *out, const float *in, const float *weights, conv_shape s) \
	{ \
		conv<rows, columns>(out, in, weights, s); \
	}
CONV_VERSIONS(KERNEL)

extern "C" __global__ void net_finish(
	float *out, const float *part, const float *bias, const float *residual, finish_shape s)
{
	unsigned i = blockIdx.x * EACH_THREADS + threadIdx.x;
	float v;

	if (i >= s.count)
		return;
	v = part[i];
	for (unsigned p = 1; p < s.parts; p++)
		v = __fadd_rn(v, part[(size_t)p * s.count + i]);
	v = __fadd_rn(v, bias[i % s.outputs]);
	if (residual)
		v = __fmul_rn(__fadd_rn(v, residual[i]), 0.70710678f);
	out[i] = s.relu && v < 0 ? 0 : v;
}

// The greatest of three by three, at every other place.
extern "C" __global__ void net_pool(float *out, const float *in, pool_shape s)
{
	unsigned i = blockIdx.x * EACH_THREADS + threadIdx.x;
	unsigned h = out_of(s.height, 3, 2), w = out_of(s.width, 3, 2);
	unsigned c = i % s.channels, x = i / s.channels % w * 2, y = i / s.channels / w % h * 2;
	unsigned n = i / s.channels / w / h;
	const float *picture = in + (size_t)n * s.height * s.width * s.channels + c;
	float v;

	if (n >= s.batch)
		return;
	v = picture[((size_t)y * s.width + x) * s.channels];
	for (unsigned b = y ? y - 1 : 0; b <= y + 1 && b < s.height; b++)
		for (unsigned a = x ? x - 1 : 0; a <= x + 1 && a < s.width; a++) {
			float o = picture[((size_t)b * s.width + a) * s.channels];

			v = o > v ? o : v;
		}
	out[i] = v;
}

extern "C" __global__ void net_mean(float *out, const float *in, pool_shape s)
{
	unsigned i = blockIdx.x * EACH_THREADS + threadIdx.x, n = i / s.channels;
	unsigned places = s.height * s.width;
	const float *picture = in + (size_t)n * places * s.channels + i % s.channels;
	float sum = 0;

	if (n >= s.batch)
		return;
	for (unsigned p = 0; p < places; p++)
		sum = __fadd_rn(sum, picture[(size_t)p * s.channels]);
	out[i] = __fmul_rn(sum, 1.0f / (float)places);
}

// Bytes become numbers between -1 and 1; each picture of the batch is the first one, turned.
extern "C" __global__ void net_input(float *out, const unsigned char *in, input_shape s)
{
	unsigned i = blockIdx.x * EACH_THREADS + threadIdx.x;

	if (i < s.count * s.batch)
		out[i] = __fmaf_rn((float)in[(i % s.count + i / s.count * 977) % s.count], 1 / 127.5f, -1.0f);
}
