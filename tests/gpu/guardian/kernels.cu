// SPDX-License-Identifier: Apache-2.0
// What gpu_guardian stops and lets go on: a kernel for each thing that a guardian might get wrong. None of them may run a
// block twice or leave one out without that showing. Compiled by make-images, for sm_90a.
#include <cooperative_groups.h>
#include <cuda.h>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void

static __device__ void linger(unsigned cycles)
{
	long long from = clock64();

	while (clock64() - from < cycles)
		;
}

static __device__ unsigned thread(void)
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

// Each block adds one to its own word.
KERNEL k_inc(unsigned *x, unsigned cycles)
{
	linger(cycles);
	if (threadIdx.x == 0)
		x[blockIdx.x] += 1;
}

// Of many of them over one buffer the order matters.
KERNEL k_chain(unsigned *x, unsigned round, unsigned cycles)
{
	unsigned i = thread();

	linger(cycles);
	x[i] = x[i] * 1664525u + round + i;
}

// Reads what other blocks of the launch before have written.
KERNEL k_cross(unsigned *out, const unsigned *in, unsigned n, unsigned round, unsigned cycles)
{
	unsigned i = thread();

	linger(cycles);
	out[i] = out[i] + in[(i * 97 + round) % n] * 3 + in[i];
}

// No parameters.
__device__ unsigned none_count[4096];
KERNEL k_none()
{
	linger(20000);
	if (threadIdx.x == 0)
		none_count[blockIdx.x] = none_count[blockIdx.x] * 3 + blockIdx.x;
}

// Parameters up to the border of 4 KB, so that ours are beyond it, and far beyond it; and off a boundary of eight bytes.
struct almost {
	unsigned w[1085];
};
struct large {
	unsigned w[4000];
};
KERNEL k_almost(struct almost p, unsigned *x, unsigned round, unsigned cycles)
{
	linger(cycles);
	x[thread()] += p.w[(thread() + round) % 1085] * (round + 1);
}
KERNEL k_large(struct large p, unsigned *x, unsigned round, unsigned cycles)
{
	linger(cycles);
	x[thread()] += p.w[(thread() + round) % 4000] * (round + 1);
}
KERNEL k_odd(unsigned *x, unsigned cycles, char odd)
{
	linger(cycles);
	x[thread()] = x[thread()] * 5 + odd;
}

// All the shared memory there is.
KERNEL k_shared(unsigned *x, unsigned words, unsigned round, unsigned cycles)
{
	extern __shared__ unsigned s[];
	unsigned sum = 0;

	for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
		s[i] = x[thread()] + i * round;
	__syncthreads();
	linger(cycles);
	for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
		sum = sum * 31 + s[words - 1 - i];
	x[thread()] += sum;
}

// Registers move between warps.
KERNEL __maxnreg__(168) k_setmaxreg(unsigned *x, unsigned round, unsigned cycles)
{
	__shared__ unsigned s[384];

	s[threadIdx.x] = x[thread()];
	__syncthreads();
	if (threadIdx.x >= 128) {
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
		linger(cycles);
		x[thread()] = s[threadIdx.x - 128] * 3 + round;
	} else {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		x[thread()] = s[threadIdx.x + 128] * 5 + round;
	}
}

static __device__ unsigned shared_address(const void *p)
{
	return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ void await(unsigned barrier)
{
	unsigned done = 0;

	while (!done)
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
			     : "=r"(done) : "r"(barrier) : "memory");
}

static __device__ void expect(unsigned barrier, unsigned bytes)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(barrier) : "memory");
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// The bulk copy engine: in, one more to each word, and out again.
KERNEL k_bulk(unsigned *x, unsigned round, unsigned cycles)
{
	__shared__ alignas(128) unsigned s[256];
	__shared__ alignas(8) unsigned long long full;
	unsigned *mine = x + blockIdx.x * 256;

	if (threadIdx.x == 0) {
		expect(shared_address(&full), sizeof(s));
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
				     shared_address(s)), "l"(mine), "r"((unsigned)sizeof(s)), "r"(shared_address(&full)) : "memory");
	}
	__syncthreads();
	await(shared_address(&full));
	linger(cycles);
	s[threadIdx.x] = s[threadIdx.x] * 7 + round;
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	__syncthreads();
	if (threadIdx.x == 0)
		asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\tcp.async.bulk.commit_group;\n\t"
			     "cp.async.bulk.wait_group 0;" ::"l"(mine), "r"(shared_address(s)), "r"((unsigned)sizeof(s)) : "memory");
}

// The same by a tensor map of 16 x 16 tiles, which is a parameter of its own alignment.
KERNEL k_tensor(const __grid_constant__ CUtensorMap map, unsigned *sums, unsigned round, unsigned cycles)
{
	__shared__ alignas(128) unsigned s[256];
	__shared__ alignas(8) unsigned long long full;
	int at_x = blockIdx.x * 16, at_y = blockIdx.y * 16;

	if (threadIdx.x == 0) {
		expect(shared_address(&full), sizeof(s));
		asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
			     "[%4];" ::"r"(shared_address(s)), "l"(&map), "r"(at_x), "r"(at_y), "r"(shared_address(&full)) : "memory");
	}
	__syncthreads();
	await(shared_address(&full));
	linger(cycles);
	s[threadIdx.x] = s[threadIdx.x] * 7 + round;
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	__syncthreads();
	if (threadIdx.x == 0) {
		asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n\t"
			     "cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::"l"(&map), "r"(at_x), "r"(at_y),
			     "r"(shared_address(s)) : "memory");
		sums[blockIdx.y * gridDim.x + blockIdx.x] += s[17];
	}
}

// Blocks that read each other's shared memory: the size of the cluster by the kernel, or by the launch.
static __device__ void neighbours(unsigned *x, unsigned round, unsigned cycles)
{
	__shared__ unsigned s[128];
	cg::cluster_group c = cg::this_cluster();

	s[threadIdx.x] = x[thread()];
	c.sync();
	linger(cycles);
	x[thread()] = c.map_shared_rank(s, (c.block_rank() + 1) % c.num_blocks())[127 - threadIdx.x] * 3 + round;
	c.sync();
}
KERNEL __cluster_dims__(4, 1, 1) k_cluster(unsigned *x, unsigned round, unsigned cycles)
{
	neighbours(x, round, cycles);
}
KERNEL k_cluster_launch(unsigned *x, unsigned round, unsigned cycles)
{
	neighbours(x, round, cycles);
}

// Begins before the launch in front has ended.
KERNEL k_overlap(unsigned *out, const unsigned *in, unsigned n, unsigned round, unsigned cycles)
{
	unsigned i = thread();

	asm volatile("griddepcontrol.launch_dependents;");
	linger(cycles);
	asm volatile("griddepcontrol.wait;" ::: "memory");
	out[i] = in[(i + 257) % n] * 3 + round;
}

// All blocks wait for all.
KERNEL k_grid_sync(unsigned *x, unsigned n, unsigned rounds, unsigned cycles)
{
	unsigned i = thread();

	for (unsigned r = 0; r < rounds; r++) {
		unsigned v = x[(i * 97 + r) % n];

		cg::this_grid().sync();
		linger(cycles);
		x[i] = x[i] * 3 + v;
		cg::this_grid().sync();
	}
}

// Each block waits for the one before: look-back, stream-K.
KERNEL k_lookback(unsigned *x, unsigned *flags, unsigned epoch, unsigned cycles)
{
	unsigned before = 0;

	if (threadIdx.x)
		return;
	linger(cycles);
	if (blockIdx.x) {
		while (*(volatile unsigned *)(flags + blockIdx.x - 1) != epoch)
			;
		__threadfence();
		before = *(volatile unsigned *)(x + blockIdx.x - 1);
	}
	x[blockIdx.x] = x[blockIdx.x] * 3 + before + 1;
	__threadfence();
	*(volatile unsigned *)(flags + blockIdx.x) = epoch;
}

// Blocks of 1024 threads, and barriers.
KERNEL __launch_bounds__(1024) k_wide(unsigned *x, unsigned round, unsigned cycles)
{
	__shared__ unsigned s[1024];

	s[threadIdx.x] = x[thread()];
	linger(cycles);
	for (unsigned d = 1; d < 1024; d *= 2) {
		unsigned v;

		__syncthreads();
		v = s[threadIdx.x ^ d];
		__syncthreads();
		s[threadIdx.x] = s[threadIdx.x] * 3 + v + round;
	}
	x[thread()] = s[threadIdx.x];
}

// Every direction of blocks and threads.
KERNEL k_3d(unsigned *x, unsigned round, unsigned cycles)
{
	unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	unsigned i = b * (blockDim.x * blockDim.y * blockDim.z) + t;

	linger(cycles);
	x[i] = x[i] * 1664525u + round + i;
}

// All barriers but the guardian's, by parts of the block.
KERNEL k_barriers(unsigned *x, unsigned round, unsigned cycles)
{
	__shared__ unsigned s[512];
	unsigned pair = threadIdx.x / 64, i = thread();

	s[threadIdx.x] = x[i];
	linger(cycles);
	switch (pair) {
	case 0: asm volatile("bar.sync 1, 64;" ::: "memory"); break;
	case 1: asm volatile("bar.sync 2, 64;" ::: "memory"); break;
	case 2: asm volatile("bar.sync 7, 64;" ::: "memory"); break;
	case 3: asm volatile("bar.sync 15, 64;" ::: "memory"); break;
	default: asm volatile("bar.sync 3, 256;" ::: "memory"); break;
	}
	x[i] = s[threadIdx.x ^ 32] * 3 + round;
}

// Calls by address.
typedef unsigned (*function)(unsigned);
__device__ __noinline__ unsigned twice(unsigned v)
{
	return v * 2 + 1;
}
__device__ __noinline__ unsigned thrice(unsigned v)
{
	return v * 3 + 1;
}
__device__ function table[2] = {twice, thrice};
KERNEL k_calls(unsigned *x, unsigned round, unsigned cycles)
{
	linger(cycles);
	x[thread()] = table[(round + threadIdx.x / 32) & 1](x[thread()]);
}

// Local memory, reached from the stack pointer, which the first instruction makes.
__device__ __noinline__ unsigned collatz(unsigned v, unsigned *seen)
{
	unsigned n = 0;

	for (; v != 1 && n < 100; n++) {
		v = v & 1 ? 3 * v + 1 : v >> 1;
		seen[v & 15]++;
	}
	return n;
}
KERNEL k_stack(unsigned *x, unsigned round, unsigned cycles)
{
	unsigned seen[16], sum = 0;

	linger(cycles);
	for (int i = 0; i < 16; i++)
		seen[i] = i;
	sum = collatz(thread() + round + 1, seen);
	for (int i = 0; i < 16; i++)
		sum = sum * 31 + seen[i];
	x[thread()] += sum;
}

// Additions to words that all blocks share.
KERNEL k_atomics(unsigned *x, unsigned cycles)
{
	linger(cycles);
	atomicAdd(&x[thread() % 61], thread() + 1);
}

// Many registers.
KERNEL __launch_bounds__(128) k_registers(unsigned *x, unsigned round, unsigned cycles)
{
	unsigned v[160];

	linger(cycles);
#pragma unroll
	for (int i = 0; i < 160; i++)
		v[i] = x[thread()] * (i + 3) + round;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 160; i++)
		v[(i * 7 + 1) % 160] ^= v[i] * 5 + __shfl_xor_sync(~0u, v[i], 1);
#pragma unroll
	for (int i = 1; i < 160; i++)
		v[0] = v[0] * 31 + v[i];
	x[thread()] = v[0];
}

// --- loops that can be left in their middle, where they come as PTX: threads that go their own ways ---

KERNEL k_loop_grind(unsigned *x, unsigned n)
{
	unsigned v = x[thread()];

#pragma unroll 1
	for (unsigned i = 0; i < n; i++)
		v = v * 1664525u + i;
	x[thread()] = v;
}

// Each thread as often as its own word says, in every direction of blocks and threads.
KERNEL k_loop_rounds(unsigned *x, unsigned n)
{
	unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	unsigned i = b * (blockDim.x * blockDim.y * blockDim.z) + t, v = x[i];

	for (unsigned r = v % n; r; r--)
		v = v * 1664525u + 1013904223u;
	x[i] = v;
}

// A loop in a loop, and values of all kinds.
KERNEL k_loop_nested(unsigned *x, unsigned n, unsigned mask)
{
	unsigned v = x[thread()];
	unsigned long long w = v * 3ull;
	double d = v;
	bool odd = v & 1;
	short s = v;

	for (unsigned r = 0; r < n; r++) {
		v = v * 1664525u + 1013904223u + r;
		if (v & 8) {
			d += v * 0.5;
			odd = !odd;
		}
		s += v >> 3;
		for (unsigned k = 0; k < (v >> 4 & mask); k++) {
			d = d * 0.75 + k;
			w = w * 6364136223846793005ull + k;
			if ((w & 63) == 3)
				break;
			if ((k & 3) != 2)
				s ^= k;
		}
	}
	x[thread()] = v + (odd ? 1 : 0) + s + (unsigned)(w >> 32) + (unsigned)(d > 0 && d < 4e9 ? d : 0);
}

// Reads and writes memory as it goes, several times over; what is done twice shows.
KERNEL k_loop_stride(unsigned *x, const unsigned *y, unsigned n, unsigned rounds)
{
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x)
			x[i] = x[i] * 3 + y[(i + r) % n] + r;
}

KERNEL k_loop_red(unsigned *x, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		asm volatile("red.global.add.u32 [%0], %1;" ::"l"(x + (thread() * 7 + i) % 4099), "r"(i * (thread() + 1)));
}

// Eight chains at once, so that the units are busy.
KERNEL k_loop_fma(float *x, unsigned n)
{
	float v[8];

	for (int k = 0; k < 8; k++)
		v[k] = x[thread()] + k;
	for (unsigned i = 0; i < n; i++)
#pragma unroll
		for (int k = 0; k < 8; k++)
			v[k] = v[k] * 0.999f + 0.001f * k;
	for (int k = 1; k < 8; k++)
		v[0] += v[k];
	x[thread()] = v[0];
}

// --- for measuring ---

KERNEL k_empty()
{
}

KERNEL k_spin(unsigned cycles)
{
	linger(cycles);
}

// Loads in a row, from zeros: it takes as long, and leaves the multiprocessor to others.
KERNEL k_chase(unsigned *x, unsigned n)
{
	unsigned at = 0;

	for (unsigned i = 0; i < n; i++)
		at = __ldcg(x + thread() + at);
	if (at)
		x[0] = at;
}

// Says when it has run, to who looks from the host; takes all the shared memory of a multiprocessor.
KERNEL k_urgent(unsigned *x, volatile unsigned *seen, unsigned value)
{
	extern __shared__ unsigned s[];

	s[threadIdx.x] = value;
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(x, s[blockDim.x - 1] ? 1 : 0) % gridDim.x == gridDim.x - 1) {
		*seen = value;
		__threadfence_system();
	}
}

KERNEL __launch_bounds__(256) k_gemm(float *c, const float *a, const float *b, unsigned n)
{
	__shared__ float sa[16][65], sb[16][65];
	float sum[4][4] = {};
	unsigned tx = threadIdx.x % 16, ty = threadIdx.x / 16;

	for (unsigned k = 0; k < n; k += 16) {
		for (unsigned i = threadIdx.x; i < 1024; i += 256) {
			sa[i % 16][i / 16] = a[(blockIdx.y * 64 + i / 16) * n + k + i % 16];
			sb[i / 64][i % 64] = b[(k + i / 64) * n + blockIdx.x * 64 + i % 64];
		}
		__syncthreads();
		for (unsigned l = 0; l < 16; l++)
			for (unsigned i = 0; i < 4; i++)
				for (unsigned j = 0; j < 4; j++)
					sum[i][j] += sa[l][ty * 4 + i] * sb[l][tx * 4 + j];
		__syncthreads();
	}
	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < 4; j++)
			c[(blockIdx.y * 64 + ty * 4 + i) * n + blockIdx.x * 64 + tx * 4 + j] = sum[i][j];
}

KERNEL k_saxpy(float4 *y, const float4 *x, float a)
{
	unsigned i = thread();
	float4 u = x[i], v = y[i];

	v.x += a * u.x;
	v.y += a * u.y;
	v.z += a * u.z;
	v.w += a * u.w;
	y[i] = v;
}
