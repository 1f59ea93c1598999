// SPDX-License-Identifier: Apache-2.0
// Kernels that may run again after they were killed, and some that cannot be killed: nvcc -arch=compute_80 -ptx, see make-images.
#define KERNEL extern "C" __global__ void

static __device__ unsigned thread(void)
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

// Threads that need nobody.
KERNEL alone(unsigned *x, const unsigned *y, unsigned n)
{
	unsigned v = y[thread()];

#pragma unroll 1
	for (unsigned i = 0; i < n + threadIdx.x; i++)
		v = v * 1664525u + i;
	x[thread()] = v;
}

// What has been written is there already when it is written again.
KERNEL strides(unsigned *x, const unsigned *y, unsigned n)
{
#pragma unroll 1
	for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x)
		x[i] = y[i] * 3 + i;
}

// Each thread reads what its neighbour has written, in front of the barrier.
KERNEL sums(unsigned *x, const unsigned *y, unsigned n)
{
	__shared__ unsigned tile[64];
	unsigned v = 0;

#pragma unroll 1
	for (unsigned i = 0; i < n; i++) {
		tile[threadIdx.x] = y[thread()] * (i + 1);
		__syncthreads();
		v = v * 31 + tile[threadIdx.x + 1 < blockDim.x ? threadIdx.x + 1 : 0];
		__syncthreads();
	}
	x[thread()] = v;
}

// What it reads from its neighbour is a place in memory: garbage there would be an access anywhere.
KERNEL places(unsigned *x, const unsigned *y, unsigned n)
{
	__shared__ unsigned place[64];
	unsigned v = 0;

#pragma unroll 1
	for (unsigned i = 0; i < n; i++) {
		place[threadIdx.x] = (threadIdx.x + i) & 3;
		__syncthreads();
		v = v * 31 + y[place[threadIdx.x ^ 1]] + i;
		__syncthreads();
	}
	x[thread()] = v;
}

// Some threads end before the others come to a barrier; and ways part, and meet again.
KERNEL some(unsigned *x, const unsigned *y, unsigned n, unsigned m)
{
	__shared__ unsigned tile[64];
	unsigned v = threadIdx.x;

	if (threadIdx.x >= m)
		return;
	tile[threadIdx.x] = y[thread()];
	__syncthreads();
#pragma unroll 1
	for (unsigned i = 0; i < n; i++) {
		if (threadIdx.x & 1)
			for (unsigned k = 0; k < threadIdx.x; k++)
				v = v * 1664525u + k;
		v += tile[(threadIdx.x + i) & 1];
		__syncthreads();
		tile[threadIdx.x] = v;
		__syncthreads();
		x[thread()] = v;
	}
}

// Loops within loops, all of them even.
KERNEL tiles(unsigned *x, const unsigned *y, unsigned n)
{
	__shared__ unsigned tile[64];
	unsigned v = 0;

#pragma unroll 1
	for (unsigned i = 0; i < n; i++) {
		tile[threadIdx.x] = y[i * blockDim.x + threadIdx.x];
		__syncthreads();
#pragma unroll 1
		for (unsigned k = 0; k < blockDim.x; k++)
			v = v * 31 + tile[k] * (threadIdx.x + 1);
		__syncthreads();
	}
	x[thread()] = v;
}

KERNEL shuffled(unsigned *x, const unsigned *y, unsigned n)
{
	unsigned v = y[thread()];

#pragma unroll 1
	for (unsigned i = 0; i < n; i++)
		v = v * 31 + __shfl_xor_sync(0xffffffffu, v, 1);
	x[thread()] = v;
}

// From here on: such as are not killed.
KERNEL no_loop(unsigned *x, const unsigned *y)
{
	x[thread()] = y[thread()];
}

KERNEL gathers(unsigned *x, const unsigned *y, unsigned n)
{
#pragma unroll 1
	for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x)
		x[i] = y[y[i] & 15];
}

KERNEL adds(unsigned *x, const unsigned *y, unsigned n)
{
#pragma unroll 1
	for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&x[i & 3], y[i]);
}

KERNEL fenced(unsigned *x, const unsigned *y, unsigned n)
{
#pragma unroll 1
	for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x) {
		x[i] = y[i];
		__threadfence();
	}
}

KERNEL counted(unsigned *x, const unsigned *y, unsigned n)
{
	__shared__ unsigned tile[64];

#pragma unroll 1
	for (unsigned i = 0; i < n; i++) {
		tile[threadIdx.x] = y[i];
		asm volatile("bar.sync 1, 32;");
		x[thread()] = tile[0];
	}
}

// A barrier that only some threads come to.
KERNEL uneven_barrier(unsigned *x, const unsigned *y, unsigned n)
{
	__shared__ unsigned tile[64];

#pragma unroll 1
	for (unsigned i = 0; i < n; i++) {
		if (threadIdx.x < i) {
			tile[threadIdx.x] = y[i];
			__syncthreads();
		}
		x[thread()] = tile[0];
	}
}

// A loop of another length for each thread, which then meet.
KERNEL uneven(unsigned *x, const unsigned *y, unsigned n)
{
	__shared__ unsigned tile[64];
	unsigned v = 0;

#pragma unroll 1
	for (unsigned i = 0; i < threadIdx.x + n; i++)
		v = v * 31 + i;
	tile[threadIdx.x] = v + y[thread()];
	__syncthreads();
	x[thread()] = tile[0] + tile[threadIdx.x];
}

// Some threads wait at an exchange for those that are in the loop.
KERNEL awaited(unsigned *x, const unsigned *y, unsigned n)
{
	unsigned v = y[thread()];

	if (threadIdx.x & 1) {
#pragma unroll 1
		for (unsigned i = 0; i < n; i++)
			v = v * 1664525u + i;
	}
	x[thread()] = v + __shfl_xor_sync(0xffffffffu, v, 1);
}

// Where it points decides what it does.
KERNEL compares(unsigned *x, const unsigned *y, unsigned n)
{
#pragma unroll 1
	for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x)
		x[i] = x < y ? y[i] : y[i] + 1;
}

KERNEL timed(unsigned *x, const unsigned *y, unsigned n)
{
#pragma unroll 1
	for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x)
		x[i] = y[i] + (unsigned)clock();
}
