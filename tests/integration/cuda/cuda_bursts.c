/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: kernels that are launched at once, waited for, and then nothing for a while. It prints
 * "ready", begins with a line on stdin, and prints the digest of what they computed.
 *
 * usage: REQUESTS KERNELS
 */
#include "cuda_conform.h"

int main(int argc, char **argv)
{
	int requests = argc == 3 ? atoi(argv[1]) : 0, kernels = argc == 3 ? atoi(argv[2]) : 0;
	static uint32_t words[WORDS];
	uint32_t number = 0;
	struct conform c;
	CUdeviceptr x;
	CUstream s;
	char line[8];

	load_proc(false);
	conform_open(&c);
	s = new_stream(CU_STREAM_NON_BLOCKING);
	x = new_words(1);
	mix(&c, s, x, number++);
	CU(cuStreamSynchronize(s));
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 2;
	for (int i = 0; i < requests; i++) {
		for (int k = 0; k < kernels; k++)
			mix(&c, s, x, number++);
		CU(cuStreamSynchronize(s));
		usleep(5000);
	}
	CU(cuMemcpyDtoHAsync_v2(words, x, BYTES, s));
	CU(cuStreamSynchronize(s));
	printf("%016llx\n", (unsigned long long)digest(words, BYTES));
	conform_close(&c);
	return 0;
}
