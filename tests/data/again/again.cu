// SPDX-License-Identifier: Apache-2.0
// Kernels that may run again, or not: nvcc -arch=compute_80 -ptx makes again.ptx of it (.version 8.0)
typedef unsigned u32;
#define I (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void again_plain(u32 *out, const u32 *in, u32 n)
{
	if (I < n)
		out[I] = in[I] * 3 + 1;
}

extern "C" __global__ void again_in_place(u32 *out, const u32 *in, u32 n)
{
	if (I < n)
		out[I] += in[I];
}

// It reads again what it has written itself.
extern "C" __global__ void again_twice(volatile u32 *out, const u32 *in, u32 n)
{
	if (I < n) {
		out[I] = in[I];
		out[I] = out[I] + 1;
	}
}

extern "C" __global__ void again_sum(u32 *out, const u32 *in, u32 n)
{
	if (I < n)
		atomicAdd(&out[I & 3], in[I]);
}

extern "C" __global__ void again_gather(u32 *out, const u32 *in, u32 n)
{
	if (I < n)
		out[I] = in[in[I] % n];
}

// What the next block writes, too.
extern "C" __global__ void again_across(u32 *out, const u32 *in, u32 n)
{
	if (I < n) {
		out[I] = in[I];
		out[(I + blockDim.x) % n] = in[I];
	}
}

extern "C" __global__ void again_numbered(u32 *out, const u32 *in, u32 n)
{
	if (I < n)
		out[4 + I] = atomicAdd(&out[0], in[I]);
}

// Halves of words, by different threads, all of them in the end.
extern "C" __global__ void again_halves(unsigned short *out, const u32 *in, u32 n)
{
	if (I < n)
		out[I] = (unsigned short)in[I];
}

__device__ u32 kept[64];
extern "C" __global__ void again_keeps(u32 *out, const u32 *in, u32 n)
{
	if (I < n)
		kept[I & 63] = in[I];
}
