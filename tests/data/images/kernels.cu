// SPDX-License-Identifier: Apache-2.0
// What the images here are made of (make-images): a kernel for each thing that the rewriting has to know.

// Ends off an eight-byte boundary.
extern "C" __global__ void k_add(unsigned *out, unsigned n, char odd)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] += odd;
}

#ifndef ONE
extern "C" __global__ void k_empty()
{
}

// Barriers of its own.
extern "C" __global__ void k_barrier(unsigned *out)
{
	__shared__ unsigned s[256];

	s[threadIdx.x] = out[threadIdx.x];
	__syncthreads();
	out[threadIdx.x] = s[255 - threadIdx.x];
}

// Blocks that wait for others.
extern "C" __global__ void k_wait(volatile unsigned *flag, unsigned *out)
{
	while (!*flag)
		;
	out[blockIdx.x] = 1;
}

// The same look at memory, but not in a loop.
extern "C" __global__ void k_look(volatile unsigned *flag, unsigned *out)
{
	out[blockIdx.x] = *flag;
}

extern "C" __global__ void k_ticket(unsigned *next, unsigned *out, unsigned n)
{
	for (unsigned i; (i = atomicAdd(next, 1)) < n;)
		out[i] = i;
}

typedef unsigned (*function)(unsigned);
__device__ __noinline__ unsigned twice(unsigned v)
{
	return v * 2;
}
__device__ __noinline__ unsigned thrice(unsigned v)
{
	return v * 3;
}
__device__ function table[2] = {twice, thrice};

// Calls by an address.
extern "C" __global__ void k_call(unsigned *out, unsigned which)
{
	out[0] = table[which & 1](out[0]);
}

// Local memory, and loops.
extern "C" __global__ void k_stack(unsigned *out, unsigned n)
{
	unsigned h[100];

	for (unsigned i = 0; i < n; i++)
		h[i % 100] = i;
	out[0] = h[n % 100];
}

#ifndef OLD
extern "C" __global__ void __maxnreg__(16) k_tight(unsigned *out)
{
	out[threadIdx.x] = 1;
}
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 && !defined(SPECIFIC)
struct almost {
	char bytes[4340];
};
struct beyond {
	char bytes[4400];
};
extern "C" __global__ void k_almost(struct almost a, unsigned *out)
{
	out[0] = a.bytes[threadIdx.x];
}
extern "C" __global__ void k_beyond(struct beyond b, unsigned *out)
{
	out[0] = b.bytes[threadIdx.x];
}
#endif
#endif

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) k_cluster(unsigned *out)
{
	asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;");
	out[blockIdx.x] = 1;
}
extern "C" __global__ void k_overlap(unsigned *out)
{
	asm volatile("griddepcontrol.wait;" ::: "memory");
	out[blockIdx.x] += 1;
	asm volatile("griddepcontrol.launch_dependents;");
}
#ifdef SPECIFIC
extern "C" __global__ void __launch_bounds__(384, 1) k_setmaxreg(unsigned *out)
{
	if (threadIdx.x >= 128)
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
	else
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
	out[blockIdx.x] += 1;
}
#endif
#endif
#endif
