// SPDX-License-Identifier: Apache-2.0
// The kernels of the tests. cuda_kernels.ptx is made of them by make-cuda-kernels; the fake driver
// has them in C (tests/fakes/cuda/kernels.c). None is idempotent: what a run leaves tells how often
// and in which order they ran.
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ u64 now()
{
	u64 t;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

static __device__ u32 scramble(u32 v, u32 number, u32 i, u32 rounds)
{
	v ^= number + i;
	for (u32 k = 0; k < rounds; k++)
		v = v * 1664525u + 1013904223u;
	return v;
}

extern "C" __global__ void mix(u32 *x, u32 n, u32 number, u32 rounds)
{
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		x[i] = scramble(x[i], number, i, rounds);
}

extern "C" __global__ void join(u32 *out, const u32 *a, const u32 *b, u32 n)
{
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		out[i] = a[i] * 31u + (b[i] ^ 0x9e3779b9u);
}

extern "C" __global__ void fill(u32 *x, u32 n, u32 value)
{
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		x[i] = value + i;
}

// Commutes, for streams that keep no order between them.
extern "C" __global__ void count(u32 *x, u32 n)
{
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&x[i & 63], i + 1);
}

// Takes that long, then steps out[0]. For one thread.
extern "C" __global__ void spin(u32 *out, u64 ns)
{
	u64 until = now() + ns;

	while (now() < until)
		;
	out[0] = out[0] * 3u + 1u;
}

// Each step needs all of the step before: for a cooperative launch. `arrived` counts blocks.
extern "C" __global__ void relay(u32 *x, u32 n, u32 steps, volatile u32 *arrived)
{
	for (u32 s = 0; s < steps; s++) {
		const u32 *from = x + (s & 1) * n;
		u32 *to = x + (~s & 1) * n;

		for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
			to[i] = __ldcg(&from[(i + 17) % n]) * 31u + __ldcg(&from[(i + n / 2) % n]) + s;
		__threadfence();
		__syncthreads();
		if (threadIdx.x == 0) {
			atomicAdd((u32 *)arrived, 1);
			while (*arrived < (s + 1) * gridDim.x)
				;
		}
		__syncthreads();
		__threadfence();
	}
}
