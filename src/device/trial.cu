// SPDX-License-Identifier: Apache-2.0
// The kernel by which `fermata doctor` tries the guardian (probe_guard.c); make-images makes trial_image.c of it. Each
// block takes so long, and adds one to its word: one that runs twice, or not at all, is seen.
extern "C" __global__ void fermata_trial(unsigned *out, unsigned long long ns)
{
	unsigned long long t, until = 0;

	if (threadIdx.x != 0)
		return;
	do {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
		until = until ? until : t + ns;
	} while (t < until);
	out[blockIdx.x] += 1;
}
