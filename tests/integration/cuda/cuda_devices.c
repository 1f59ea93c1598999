/* SPDX-License-Identifier: Apache-2.0 */
/* Several devices, several contexts of one, green contexts; contexts that end while there is work.
 */
#include "cuda_conform.h"

#define KERNELS 100

/* A context that is current now, with kernels of its own. */
static struct conform here(struct conform *c, CUdevice dev, CUcontext ctx)
{
	struct conform k = {.dev = dev, .ctx = ctx, .notes = c->notes, .name = c->name};

	conform_load(&k);
	return k;
}

static struct conform new_context(struct conform *c, CUdevice dev)
{
	CUcontext ctx;

	CU(cuCtxCreate_v2(&ctx, 0, dev));
	return here(c, dev, ctx);
}

static void end_context(struct conform *c, struct conform *k)
{
	note(c, "destroyed: %d", cu.cuCtxDestroy_v2(k->ctx));
	CU(cuCtxSetCurrent(c->ctx));
}

static void mix_many(struct conform *k, CUstream s, CUdeviceptr x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		mix(k, s, x, i);
}

/* The first context in which this process has work ends while another one's is under way, whose
 * streams go on. */
static void first_context_ends(struct conform *c)
{
	struct conform first = new_context(c, c->dev);
	CUdeviceptr x = new_words(1), y;
	CUstream s;

	mix_many(&first, NULL, x, 10);
	note_words(c, "in the first", x, NULL);
	CU(cuCtxSetCurrent(c->ctx));
	y = new_words(2);
	s = new_stream(CU_STREAM_NON_BLOCKING);
	for (uint32_t i = 0; i < 20; i++) {
		spin(c, s, y, 500000);
		mix_many(c, s, y, 5);
	}
	end_context(c, &first);
	mix_many(c, s, y, KERNELS);
	note_words(c, "in the other", y, s);
	CU(cuStreamDestroy_v2(s));
	CU(cuMemFree_v2(y));
}

/* Device 0 and the last, which may be the same; each with its primary context. */
static void devices(struct conform *c)
{
	CUdeviceptr x[2];
	CUstream s[2];
	CUevent ready = new_event();
	CUcontext ctx;
	int n;
	CUdevice last = last_device(&n);

	CU(cuDevicePrimaryCtxRetain(&ctx, last));
	note(c, "%d devices", n);
	x[0] = new_words(3);
	s[0] = new_stream(CU_STREAM_NON_BLOCKING);
	mix_many(c, s[0], x[0], KERNELS);
	CU(cuEventRecord(ready, s[0]));
	CU(cuCtxPushCurrent_v2(ctx));
	{
		struct conform k = here(c, last, ctx);

		x[1] = new_words(4);
		s[1] = new_stream(CU_STREAM_NON_BLOCKING);
		CU(cuStreamWaitEvent(s[1], ready, 0));
		CU(cuMemcpyPeerAsync(x[1], ctx, x[0], c->ctx, BYTES / 2, s[1]));
		mix_many(&k, s[1], x[1], KERNELS);
		note_words(c, "the last", x[1], s[1]);
		fill(&k, NULL, x[1], 7);
		note_words(c, "its default stream", x[1], NULL);
		CU(cuMemcpyPeer(x[0], c->ctx, x[1], ctx, BYTES / 4));
		CU(cuCtxSynchronize());
		CU(cuStreamDestroy_v2(s[1]));
		CU(cuMemFree_v2(x[1]));
		CU(cuModuleUnload(k.module));
	}
	CU(cuCtxPopCurrent_v2(&ctx));
	CU(cuCtxSynchronize());
	note_words(c, "the first", x[0], s[0]);
	CU(cuEventDestroy_v2(ready));
	CU(cuStreamDestroy_v2(s[0]));
	CU(cuMemFree_v2(x[0]));
	CU(cuDevicePrimaryCtxRelease_v2(last));
}

/* Each context has a legacy stream of its own; neither waits for the other's. */
static void default_streams(struct conform *c)
{
	CUdeviceptr mine = new_words(5), flag, theirs;
	struct conform k;
	void *word;

	CU(cuMemHostAlloc(&word, 4096, 1 | 2)); /* portable, mapped */
	memset(word, 0, 4096);
	CU(cuMemHostGetDevicePointer_v2(&flag, word, 0));
	k = new_context(c, c->dev);
	theirs = new_words(6);
	CU(cuStreamWaitValue32_v2(FM_CU_STREAM_LEGACY, flag, 1, CU_WAIT_EQ));
	mix_many(&k, FM_CU_STREAM_LEGACY, theirs, KERNELS);
	CU(cuCtxSetCurrent(c->ctx));
	mix_many(c, FM_CU_STREAM_LEGACY, mine, KERNELS);
	note_words(c, "mine", mine, FM_CU_STREAM_LEGACY);
	CU(cuCtxSetCurrent(k.ctx));
	note(c, "theirs waits: %d", cu.cuStreamQuery(FM_CU_STREAM_LEGACY));
	*(_Atomic uint32_t *)word = 1;
	note_words(c, "theirs", theirs, FM_CU_STREAM_LEGACY);
	end_context(c, &k);
	CU(cuMemFreeHost(word));
	CU(cuMemFree_v2(mine));
}

/* What a context still has to do when it is destroyed is nobody's business any more. */
static void destroyed_while_busy(struct conform *c)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct conform k = new_context(c, c->dev);
		CUdeviceptr x = new_words(i), beside = new_words(i + 4);
		CUstream s = new_stream(i & 1 ? CU_STREAM_NON_BLOCKING : 0);

		spin(&k, s, x, 2000000);
		mix_many(&k, s, x, KERNELS);
		mix_many(&k, NULL, beside, 5);
		end_context(c, &k);
	}
	{
		CUdeviceptr x = new_words(9);

		mix_many(c, NULL, x, 5);
		note_words(c, "afterwards", x, NULL);
		CU(cuMemFree_v2(x));
	}
}

/* The primary context ends with its queues, by a release or a reset, and is another one then. */
static void primary_again(struct conform *c)
{
	struct conform k = new_context(c, c->dev);
	CUdeviceptr beside = new_words(11);
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

	for (int round = 0; round < 2; round++) {
		CUdeviceptr x;

		CU(cuCtxSetCurrent(k.ctx));
		spin(&k, s, beside, 5000000);
		mix_many(&k, s, beside, KERNELS);
		CU(cuCtxSetCurrent(c->ctx));
		x = new_words(12);
		mix_many(c, new_stream(0), x, 20);
		CU(cuCtxSynchronize());
		mix_many(c, NULL, x, 20);
		note_words(c, "before", x, NULL);
		if (round) {
			note(c, "reset %d", cu.cuDevicePrimaryCtxReset_v2(c->dev));
			note(c, "until it is retained: %d", cu.cuMemAlloc_v2(&x, BYTES));
			note(c, "released %d", conform_again(c));
			conform_load(c);
		} else {
			CU(cuCtxSetCurrent(NULL));
			note(c, "released %d", cu.cuDevicePrimaryCtxRelease_v2(c->dev));
			conform_open(c);
		}
		x = new_words(13);
		mix_many(c, new_stream(0), x, 20);
		CU(cuCtxSynchronize());
		mix_many(c, NULL, x, 20);
		note_words(c, "after", x, NULL);
	}
	CU(cuCtxSetCurrent(k.ctx));
	note_words(c, "beside it", beside, s);
	end_context(c, &k);
}

static bool new_green(struct conform *c, CUgreenCtx *green)
{
	struct cu_resource whole, part;
	CUdevResourceDesc desc;
	unsigned n = 1;

	if (!cu.cuGreenCtxCreate || !cu.cuGreenCtxStreamCreate)
		return false;
	return !cu.cuDeviceGetDevResource(c->dev, &whole, CU_RESOURCE_SM) &&
	       !cu.cuDevSmResourceSplitByCount(&part, &n, &whole, NULL, 0, whole.sm.count / 2) &&
	       !cu.cuDevResourceGenerateDesc(&desc, &part, 1) &&
	       !cu.cuGreenCtxCreate(green, desc, c->dev, CU_GREEN_DEFAULT_STREAM);
}

static void green_contexts(struct conform *c)
{
	CUdeviceptr x = new_words(14);
	CUgreenCtx green;
	CUcontext ctx;
	CUstream a, b;

	if (!new_green(c, &green)) {
		note(c, "none");
		CU(cuMemFree_v2(x));
		return;
	}
	CU(cuGreenCtxStreamCreate(&a, green, CU_STREAM_NON_BLOCKING, 0));
	b = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 10; i++) {
		mix_many(c, a, x, 10);
		order(a, b);
		mix_many(c, b, x, 3);
		order(b, a);
	}
	note_words(c, "between two streams", x, a);
	CU(cuCtxFromGreenCtx(&ctx, green));
	CU(cuCtxPushCurrent_v2(ctx));
	mix_many(c, FM_CU_STREAM_LEGACY, x, KERNELS);
	note_words(c, "its default stream", x, FM_CU_STREAM_LEGACY);
	mix_many(c, FM_CU_STREAM_LEGACY, x, KERNELS);
	CU(cuCtxSynchronize());
	CU(cuCtxPopCurrent_v2(&ctx));
	mix_many(c, a, x, KERNELS);
	CU(cuStreamDestroy_v2(a));
	note(c, "destroyed: %d", cu.cuGreenCtxDestroy(green));
	CU(cuCtxSynchronize());
	note_words(c, "afterwards", x, b);
	CU(cuStreamDestroy_v2(b));
	CU(cuMemFree_v2(x));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"first context ends", first_context_ends},
		{"devices", devices},
		{"default streams", default_streams},
		{"destroyed while busy", destroyed_while_busy},
		{"primary again", primary_again},
		{"green contexts", green_contexts},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
