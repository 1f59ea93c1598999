// SPDX-License-Identifier: Apache-2.0
// Kernels of the probes that measure: script/gpu-memory compiles them where nvcc is.
#include <cuda_bf16.h>
#include <mma.h>
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ __forceinline__ u32 scramble(u64 x)
{
	x ^= x >> 31;
	x *= 0x9E3779B97F4A7C15ull;
	x ^= x >> 29;
	return (u32)(x >> 16);
}

static __device__ __forceinline__ u64 first()
{
	return blockIdx.x * (u64)blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ u64 stride()
{
	return gridDim.x * (u64)blockDim.x;
}

extern "C" __global__ void big_fill(uint4 *p, u64 n, u64 seed)
{
	for (u64 i = first(); i < n; i += stride()) {
		u32 m = scramble(i + seed);

		p[i] = make_uint4(m, m + 1, m + 2, m + 3);
	}
}

extern "C" __global__ void big_check(const uint4 *p, u64 n, u64 seed, u64 step, u64 *bad)
{
	u64 wrong = 0;

	for (u64 i = first() * step; i < n; i += stride() * step) {
		u32 m = scramble(i + seed);
		uint4 v = p[i];

		wrong += (v.x != m) | (v.y != m + 1) | (v.z != m + 2) | (v.w != m + 3);
	}
	if (wrong)
		atomicAdd(bad, wrong);
}

// As a decoder reads its weights: each byte once.
extern "C" __global__ void big_read(const uint4 *p, u64 n, u32 *sink)
{
	u64 i = first(), st = stride();
	u32 a = 0;

	for (; i + 3 * st < n; i += 4 * st) {
		uint4 v0 = __ldcs(p + i), v1 = __ldcs(p + i + st), v2 = __ldcs(p + i + 2 * st),
		      v3 = __ldcs(p + i + 3 * st);

		a += (v0.x ^ v0.w) + (v1.x ^ v1.w) + (v2.x ^ v2.w) + (v3.x ^ v3.w);
	}
	for (; i < n; i += st) {
		uint4 v = p[i];

		a += v.x ^ v.w;
	}
	if (a == 0x12345679u)
		*sink = a;
}

// Rows of 512 bytes in drawn order, a warp each, as an embedding is looked up. `rows` is a power of two.
extern "C" __global__ void gather(const uint4 *table, u64 rows, u32 times, u32 *sink)
{
	u64 warp = first() >> 5;
	u32 lane = threadIdx.x & 31, a = 0;

	for (u32 k = 0; k < times; k++) {
		u64 row = ((u64)scramble(warp * 7919 + k) * 2654435761ull + warp) & (rows - 1);

		a += table[row * 32 + lane].x;
	}
	if (a == 0x12345679u)
		*sink = a;
}

// c = a * b^T of n x n, bfloat16, tensor cores: blocks of 256 threads make 128 x 128 each.
extern "C" __global__ void __launch_bounds__(256) matmul(
	const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int n)
{
	using namespace nvcuda;
	enum { TILE = 128, DEEP = 32, PITCH = DEEP + 8 };
	__shared__ __align__(16) __nv_bfloat16 sa[TILE * PITCH], sb[TILE * PITCH];
	int warp = threadIdx.x / 32, wy = warp / 2 * 32, wx = warp % 2 * 64;
	int y = blockIdx.y * TILE, x = blockIdx.x * TILE;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][4];

	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 4; j++)
			wmma::fill_fragment(sum[i][j], 0.0f);
	for (int k = 0; k < n; k += DEEP) {
		for (int i = threadIdx.x; i < TILE * DEEP / 8; i += 256) {
			int row = i / (DEEP / 8), col = i % (DEEP / 8) * 8;

			*(uint4 *)&sa[row * PITCH + col] = *(const uint4 *)&a[(size_t)(y + row) * n + k + col];
			*(uint4 *)&sb[row * PITCH + col] = *(const uint4 *)&b[(size_t)(x + row) * n + k + col];
		}
		__syncthreads();
		for (int kk = 0; kk < DEEP; kk += 16) {
			wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa[2];
			wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> fb[4];

			for (int i = 0; i < 2; i++)
				wmma::load_matrix_sync(fa[i], &sa[(wy + i * 16) * PITCH + kk], PITCH);
			for (int j = 0; j < 4; j++)
				wmma::load_matrix_sync(fb[j], &sb[(wx + j * 16) * PITCH + kk], PITCH);
			for (int i = 0; i < 2; i++)
				for (int j = 0; j < 4; j++)
					wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
		}
		__syncthreads();
	}
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 4; j++)
			wmma::store_matrix_sync(&c[(size_t)(y + wy + i * 16) * n + x + wx + j * 16], sum[i][j], n,
				wmma::mem_row_major);
}
