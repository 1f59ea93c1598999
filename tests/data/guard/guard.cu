// SPDX-License-Identifier: Apache-2.0
// The kernels of tests/integration/cuda_guard.c; make-images makes the images here of them. The fake driver has them
// in C (tests/fakes/cuda/kernels_guard.c). What a run leaves tells how often each block ran, and in which order the
// launches did.
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ u64 now()
{
	u64 t;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

// Not idempotent: a block that runs twice, or not at all, is seen.
extern "C" __global__ void step(u32 *out)
{
	if (threadIdx.x == 0)
		out[blockIdx.x] += 1;
}

// Each launch reads all of what the one before it wrote, in the other half of one buffer.
extern "C" __global__ void chain(u32 *x, u32 n, u32 number)
{
	const u32 *from = x + (number & 1) * n;
	u32 *to = x + (~number & 1) * n;

	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		to[i] = from[(i + 17) % n] * 31u + from[(i + n / 2) % n] + number;
}

// As step, but each block takes so long. On the fake driver there may be a gate besides: block b waits until gate[1] is
// beyond b or the launch's stop word is set, and gate[0] counts the blocks that came.
extern "C" __global__ void toil(u32 *out, u64 ns, u32 *gate)
{
	if (threadIdx.x == 0) {
		u64 until = now() + ns;

		while (now() < until)
			;
		out[blockIdx.x] += 1;
	}
}

// Blocks that wait for each other: for a cooperative launch, all or none. `arrived` counts them.
extern "C" __global__ void meet(u32 *x, u32 n, u32 steps, volatile u32 *arrived)
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

// No parameters at all; `ticks` is found by its name.
__device__ u32 ticks;
extern "C" __global__ void tick()
{
	if (threadIdx.x == 0)
		atomicAdd(&ticks, 1);
}

// Parameters that end off an eight-byte boundary, and a grid of three dimensions.
extern "C" __global__ void odd(u32 *out, u32 width, unsigned short step, char sign)
{
	u32 b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;

	if (threadIdx.x + threadIdx.y + threadIdx.z == 0)
		out[b * width] += (u32)(step * sign);
}

// Just within 4 KB with the guardian's parameters, and far beyond it.
struct large {
	u32 word[1010];
};
struct beyond {
	u32 word[1500];
};
extern "C" __global__ void large(struct large p, u32 *out)
{
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < 1010; i += gridDim.x * blockDim.x)
		out[i] = out[i] * 3u + p.word[i];
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
extern "C" __global__ void beyond(struct beyond p, u32 *out)
{
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < 1500; i += gridDim.x * blockDim.x)
		out[i] = out[i] * 3u + p.word[i];
}
#endif
