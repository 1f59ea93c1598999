// SPDX-License-Identifier: Apache-2.0
// A kernel that launches another: an image to be left as it is.
__global__ void child(unsigned *x, unsigned block)
{
	x[block * 32 + threadIdx.x] += block + 1;
}
extern "C" __global__ void k_parent(unsigned *x)
{
	if (threadIdx.x == 0)
		child<<<1, 32>>>(x, blockIdx.x);
}
