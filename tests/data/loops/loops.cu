// SPDX-License-Identifier: Apache-2.0
// Kernels with loops, of threads that go their own ways: nvcc -arch=compute_80 -ptx, see make-images.
#define KERNEL extern "C" __global__ void

static __device__ unsigned thread(void)
{
	return (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x * blockDim.y + threadIdx.x + threadIdx.y * blockDim.x;
}

// As many rounds as its own word says, from none on.
KERNEL rounds(unsigned *x)
{
	unsigned v = x[thread()];

	for (unsigned n = v % 97; n; n--)
		v = v * 1664525u + 1013904223u;
	x[thread()] = v;
}

// For as long as it is told.
KERNEL grind(unsigned *x, unsigned n)
{
	unsigned v = x[thread()];

#pragma unroll 1
	for (unsigned i = 0; i < n; i++)
		v = v * 1664525u + i;
	x[thread()] = v;
}

// A loop in a loop, and values of all sizes: predicates, 16, 32 and 64 bits, and floating point.
KERNEL nested(unsigned *x, const float *f, unsigned n, int mask)
{
	unsigned v = x[thread()];
	double d = f[thread()];
	bool odd = v & 1;
	short s = v;
	unsigned long long w = v * 3ull;

	for (unsigned r = 0; r < n; r++) {
		v = v * 1664525u + 1013904223u + r;
		if (v & 8) {
			d += v * 0.5;
			odd = !odd;
		}
		s += v >> 3;
		for (int k = 0; k < (int)(v >> 4 & mask); k++) {
			d = d * 0.75 + k;
			w = w * 6364136223846793005ull + k;
			if ((w & 63) == 3)
				break;
			if ((k & 3) == 2)
				continue;
			s ^= k;
		}
	}
	x[thread()] = v + (odd ? 1 : 0) + (unsigned)(d > 0 && d < 4e9 ? d : 0) + s + (unsigned)(w >> 32);
}

// Reads and writes as it goes, so that what is done twice shows.
KERNEL stride(unsigned *x, const unsigned *y, unsigned n)
{
	for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x)
		x[i] = x[i] * 3 + y[i] + i;
}

// Adds to words that all threads share.
KERNEL shares(unsigned *x, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		asm volatile("red.global.add.u32 [%0], %1;" ::"l"(x + (thread() + i) % 7), "r"(i * (thread() + 1)));
}

// The loop is left from its middle.
KERNEL collatz(unsigned *x)
{
	unsigned v = x[thread()] % 1000 + 1, n = 0;

	for (;;) {
		if (v == 1)
			break;
		v = v & 1 ? 3 * v + 1 : v >> 1;
		n++;
	}
	x[thread()] = n;
}

// Where another loop follows, with values of its own, and one that has lived through the first.
KERNEL twice(unsigned *x, unsigned n)
{
	unsigned a = x[thread()], b = a ^ 0x55555555u, sum = 0;

#pragma unroll 1
	for (unsigned i = 0; i < n; i++)
		a = (a << 1 | a >> 31) + i;
#pragma unroll 1
	for (unsigned i = 0; i < n + (a & 3); i++)
		sum = sum * 31 + (b >> (i & 31)) + a;
	x[thread()] = sum;
}
