// SPDX-License-Identifier: Apache-2.0
// A kernel that launches another.
__global__ void child(unsigned *out)
{
	out[threadIdx.x] = 1;
}
extern "C" __global__ void k_parent(unsigned *out)
{
	child<<<1, 32>>>(out);
}
