// SPDX-License-Identifier: Apache-2.0
// The digest of digest.h as a device computes it; make-images makes digest_image.c of it. Parts of the same size
// follow each other, and each has blocks of its own: a row of the grid. A tile is 1024 words of 16 bytes; thread t of a
// block has the strip of words t, t + 256, t + 512 and t + 768. digest.c is the same in C.
typedef unsigned u32;
typedef unsigned long long u64;

#define LANES   4
#define THREADS 256

struct key {
	u64 seed[LANES];
	u32 nh[LANES][4][4];
};

struct digest {
	u64 lane[LANES];
	u64 ones;
};

static __device__ __forceinline__ u64 product(u32 a, u32 b)
{
	return (u64)a * b;
}

static __device__ __forceinline__ u64 mix(u64 x)
{
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	return x ^ (x >> 32);
}

static __device__ __forceinline__ u64 warp_sum(u64 x)
{
	for (int i = 16; i; i >>= 1)
		x += __shfl_xor_sync(~0u, x, i);
	return x;
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fermata_digest(const uint4 *p, u64 tiles, struct digest *d, const struct key key)
{
	u64 sum[LANES] = {0};
	u32 ones = 0;

	p += blockIdx.y * tiles * 4 * THREADS;
	d += blockIdx.y;
	for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		const uint4 *strip = p + tile * 4 * THREADS + threadIdx.x;
		u64 number = (tile * THREADS + threadIdx.x) * 0x9e3779b97f4a7c15ull;
		uint4 w[4];

		for (int j = 0; j < 4; j++)
			w[j] = __ldcs(strip + j * THREADS);
		for (int j = 0; j < 4; j++)
			ones |= w[j].x | w[j].y | w[j].z | w[j].w;
		for (int l = 0; l < LANES; l++) {
			u64 nh = 0;

			for (int j = 0; j < 4; j++) {
				const u32 *k = key.nh[l][j];

				nh += product(w[j].x + k[0], w[j].y + k[1]) + product(w[j].z + k[2], w[j].w + k[3]);
			}
			sum[l] += mix(nh + number + key.seed[l]);
		}
	}
	for (int l = 0; l < LANES; l++) {
		sum[l] = warp_sum(sum[l]);
		if (threadIdx.x % 32 == 0 && sum[l])
			atomicAdd(&d->lane[l], sum[l]);
	}
	if (ones)
		atomicOr(&d->ones, 1);
}
