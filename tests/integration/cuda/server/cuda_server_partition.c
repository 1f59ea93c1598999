/* SPDX-License-Identifier: Apache-2.0 */
/* Streams in a part of the device, in the rest, on the whole of it, or now here, now there. */
#include "cuda_server.h"

/* In a partition the urgent stream stops those on the whole device, and not those in the rest. */
static void partition(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH), b = binding("batch", 0),
			       r = binding("beside", 0);
	unsigned got = 0, again = 0;
	CUstream rest;

	IS(-ENOENT, fm_cuda_stream_create(&rest, FM_CUDA_REST, &r));
	IS(-EINVAL, fm_cuda_reserve(0, &got));
	IS(-ENOSPC, fm_cuda_reserve(100000, &got));
	IS(0, fm_cuda_reserve(1, &got));
	IS(0, fm_cuda_reserve(got, &again));
	MUST(got && got == again);
	IS(-EBUSY, fm_cuda_reserve(got + 1, NULL));
	IS(-EINVAL, fm_cuda_stream_create(&rest, FM_CUDA_REST, NULL));
	IS(0, fm_cuda_stream_create(&rest, FM_CUDA_REST, &r));
	IS(0, fm_cuda_stream_create(&urgent, FM_CUDA_PARTITION, &u));
	b.preempted = on_preempted;
	b.ctx = &told;
	IS(0, fm_cuda_stream_create(&batch, FM_CUDA_WHOLE, &b));
	MUST(room(urgent).place == got && room(rest).place == multiprocessors() - got);
	MUST(room(rest).free == room(rest).place && room(batch).place == multiprocessors());
	stand(batch);
	work(batch, out[1], KERNELS);
	stand(urgent);
	work(urgent, out[0], 1);
	EVENTUALLY(!info(batch).scheduled);
	MUST(room(batch).urgent && !room(batch).free && room(rest).free == room(rest).place);
	let_go(batch);
	EVENTUALLY(told.preempted);
	work(rest, flag_on_device + 64, KERNELS);
	CU(cuStreamSynchronize(rest));
	MUST(flag[16] == after(KERNELS));
	rests(batch, 1);
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(KERNELS));
	CU(cuStreamDestroy_v2(rest));
}

/* As FERMATA_PARTITION says: where batch is in what a partition leaves, urgent does not stop it. */
static void by_group(bool partition, bool apart)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH), b = binding("batch", 0);
	struct fm_cuda_elastic *e = NULL;

	IS(0, fm_cuda_stream_create(&batch, FM_CUDA_BY_GROUP, &b));
	IS(0, fm_cuda_stream_create(&urgent, FM_CUDA_BY_GROUP, &u));
	IS(partition ? 0 : -ENOENT, fm_cuda_elastic_create(&e, 0, &b));
	stand(batch);
	work(batch, out[1], KERNELS);
	stand(urgent);
	work(urgent, out[0], 1);
	if (apart) {
		let_go(batch);
		CU(cuStreamSynchronize(batch));
	} else {
		EVENTUALLY(!info(batch).scheduled);
		let_go(batch);
		EVENTUALLY(info(batch).stalled);
		rests(batch, 1);
	}
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(KERNELS));
	IS(0, fm_cuda_elastic_destroy(e));
}

static void by_group_apart(void)
{
	by_group(true, true);
}

static void by_group_together(void)
{
	by_group(true, false);
}

static void by_group_whole(void)
{
	by_group(false, false);
}

static void no_partition(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH);

	IS(-EOPNOTSUPP, fm_cuda_reserve(8, NULL));
	IS(0, fm_cuda_stream_create(&urgent, FM_CUDA_BY_GROUP, &u));
	work(urgent, out[0], 1);
	CU(cuStreamSynchronize(urgent));
	MUST(words[0][0] == after(1));
}

static void check_mixed(CUdeviceptr x, uint32_t numbers)
{
	uint32_t seen[WORDS];

	CU(cuMemcpyDtoH_v2(seen, x, BYTES));
	for (uint32_t i = 0; i < WORDS; i += 100) {
		uint32_t v = 0;

		for (uint32_t n = 0; n < numbers; n++) {
			v ^= n + i;
			for (int k = 0; k < 40; k++)
				v = v * 1664525u + 1013904223u;
		}
		MUST(seen[i] == v);
	}
}

/* Wherever it launches, its commands run in order. */
static void elastic(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH), b = binding("batch", 0);
	struct fm_cuda_elastic *e = NULL;
	CUstream on[4];
	CUdeviceptr x;
	uint32_t n = 0;

	CU(cuMemAlloc_v2(&x, BYTES));
	CU(cuMemsetD8_v2(x, 0, BYTES));
	CU(cuStreamSynchronize(NULL));
	IS(-ENOENT, fm_cuda_elastic_create(&e, 0, &b));
	IS(0, fm_cuda_reserve(2, NULL));
	IS(0, fm_cuda_stream_create(&urgent, FM_CUDA_PARTITION, &u));
	IS(0, fm_cuda_elastic_create(&e, 0, &b));
	for (int turn = 0; turn < 4; turn++) {
		if (turn & 1) {
			stand(urgent);
			work(urgent, out[0], 1);
		}
		IS(0, fm_cuda_elastic_stream(e, &on[turn]));
		for (int i = 0; i < 50; i++)
			mix(&c, on[turn], x, n++);
		let_go(urgent);
		CU(cuStreamSynchronize(urgent));
	}
	MUST(on[0] == on[2] && on[1] == on[3] && on[0] != on[1]);
	CU(cuStreamSynchronize(on[3]));
	check_mixed(x, n);
	IS(0, fm_cuda_elastic_destroy(e));
	IS(0, fm_cuda_elastic_destroy(NULL));
}

int main(int argc, char **argv)
{
	static const struct server_case cases[] = {
		{"partition", partition},
		{"by-group-apart", by_group_apart},
		{"by-group-together", by_group_together},
		{"by-group-whole", by_group_whole},
		{"no-partition", no_partition},
		{"elastic", elastic},
		{NULL, NULL},
	};

	return server_main(argc, argv, cases);
}
