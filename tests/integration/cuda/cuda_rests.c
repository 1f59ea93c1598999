/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that must come to rest though their streams wait for each other: a case for each way. */
#include "cuda_conform.h"

#define BUFFERS 3
#define BATCHES 40

/* As a training program has it: batches are copied in one stream while another computes, each waits
 * for the other by events, and the host is ahead of both. */
static void loader(struct conform *c)
{
	CUstream copies = new_stream(CU_STREAM_NON_BLOCKING),
		 work = new_stream(CU_STREAM_NON_BLOCKING);
	CUevent copied[BUFFERS], used[BUFFERS];
	CUdeviceptr x = new_words(1), in[BUFFERS];
	uint32_t *host;

	CU(cuMemHostAlloc((void **)&host, BATCHES * BYTES, 0));
	for (uint32_t i = 0; i < BATCHES; i++)
		seed_words(host + i * WORDS, WORDS, i);
	for (unsigned i = 0; i < BUFFERS; i++) {
		in[i] = new_words(2 + i);
		copied[i] = new_event();
		used[i] = new_event();
		CU(cuEventRecord(used[i], work));
	}
	for (uint32_t i = 0; i < BATCHES; i++) {
		unsigned b = i % BUFFERS;

		CU(cuStreamWaitEvent(copies, used[b], 0));
		CU(cuMemcpyHtoDAsync_v2(in[b], host + i * WORDS, BYTES, copies));
		CU(cuEventRecord(copied[b], copies));
		CU(cuStreamWaitEvent(work, copied[b], 0));
		for (uint32_t k = 0; k < 5; k++)
			mix(c, work, in[b], k);
		join(c, work, x, x, in[b]);
		CU(cuEventRecord(used[b], work));
	}
	note_words(c, "x", x, work);
	CU(cuStreamSynchronize(copies));
	for (unsigned i = 0; i < BUFFERS; i++) {
		CU(cuEventDestroy_v2(copied[i]));
		CU(cuEventDestroy_v2(used[i]));
	}
	free_all(in, BUFFERS);
	free_all(&x, 1);
	CU(cuMemFreeHost(host));
	CU(cuStreamDestroy_v2(copies));
	CU(cuStreamDestroy_v2(work));
}

/* Captured in one stream, which has work of its own meanwhile, and launched in another. */
static void graph_elsewhere(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(1), y = new_words(2);
	CUgraphExec exec;
	CUgraph graph;

	for (uint32_t i = 0; i < 30; i++) /* their times are learnt, so that gates are captured */
		mix(c, s, x, i);
	CU(cuStreamSynchronize(s));
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD_LOCAL));
	for (uint32_t i = 0; i < 60; i++)
		mix(c, s, x, i);
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (uint32_t i = 0; i < 8; i++) {
		CU(cuGraphLaunch(exec, other));
		for (uint32_t k = 0; k < 30; k++)
			mix(c, s, y, k);
	}
	note_words(c, "x", x, other);
	note_words(c, "y", y, s);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(other));
}

/* The host reads a result after each few kernels, as a decoder does. */
static void token_by_token(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(3);

	for (uint32_t i = 0; i < 30; i++) {
		for (uint32_t k = 0; k < 5; k++)
			mix(c, s, x, k + i);
		note_words(c, "token", x, s);
	}
	free_all(&x, 1);
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"loader", loader},
		{"graph elsewhere", graph_elsewhere},
		{"token by token", token_by_token},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
