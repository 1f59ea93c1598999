/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: copies and fills among the work of streams, what the host may rely on when they return.
 */
#include "cuda_conform.h"

static uint32_t *pinned_words(void)
{
	void *p;

	CU(cuMemAllocHost_v2(&p, BYTES));
	memset(p, 0, BYTES);
	return p;
}

/* No copy overtakes the kernels before it, and no kernel a copy. */
static void copies(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(1), y = new_words(2);
	uint32_t *pinned = pinned_words(), words[WORDS];

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 40; i++) {
		mix(c, s, x, i);
		CU(cuMemcpyDtoDAsync_v2(y, x, BYTES / 2, s));
		mix(c, s, y, ~i);
		CU(cuMemcpyDtoHAsync_v2(pinned, y, BYTES, s));
		mix(c, s, y, i + 7);
		CU(cuMemcpyHtoDAsync_v2(x + BYTES / 2, pinned, BYTES / 2, s));
		CU(cuMemcpyAsync(y, x, 64, s));
		CU(cuMemsetD8Async(y + 128, (unsigned char)i, 33, s));
		CU(cuMemsetD32Async(x + 256, i, 9, s));
	}
	CU(cuMemcpyDtoHAsync_v2(words, x, BYTES, s));
	note_data(c, "x", words, BYTES);
	note_words(c, "y", y, s);
	note_data(c, "pinned", pinned, BYTES);
	CU(cuMemFreeHost(pinned));
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* What pageable memory held at the call is what is copied, however long the copy has to wait. */
static void from_pageable(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(3);
	uint32_t words[WORDS];

	for (uint32_t i = 0; i < 12; i++) {
		spin(c, s, x, 500000);
		seed_words(words, WORDS, 100 + i);
		CU(cuMemcpyHtoDAsync_v2(x + 4 * i, words, BYTES / 2, s));
		memset(words, 0xee, sizeof(words));
		mix(c, s, x, i);
	}
	note_words(c, "x", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* A copy to pageable memory returns when it is made. */
static void to_pageable(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(4);
	uint32_t *words = malloc(BYTES);

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 8; i++) {
		spin(c, s, x, 1000000);
		mix(c, s, x, i);
		memset(words, 0, BYTES);
		if (i & 1)
			CU(cuMemcpyDtoHAsync_v2(words, x, BYTES, s));
		else
			CU(cuMemcpyAsync((uintptr_t)words, x, BYTES, s));
		note_data(c, "at return", words, BYTES);
	}
	free(words);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

#define LARGE (1 << 20)

static void large(struct conform *c)
{
	CUstream s = new_stream(0);
	unsigned char *a = malloc(LARGE), *b = malloc(LARGE);
	CUdeviceptr d, e;

	CU(cuMemAlloc_v2(&d, LARGE));
	CU(cuMemAlloc_v2(&e, LARGE));
	for (uint32_t i = 0; i < 6; i++) {
		seed_words((uint32_t *)a, LARGE / 4, i);
		CU(cuMemcpyHtoDAsync_v2(d, a, LARGE, s));
		memset(a, 0, LARGE);
		mix(c, s, d + BYTES * i, i);
		CU(cuMemcpyDtoDAsync_v2(e, d, LARGE, s));
		CU(cuMemcpyDtoHAsync_v2(b, e, LARGE, s));
		note_data(c, "through the device", b, LARGE);
	}
	free(a);
	free(b);
	free_all((CUdeviceptr[]){d, e}, 2);
	CU(cuStreamDestroy_v2(s));
}

static void rectangles(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(5);
	uint32_t words[WORDS];
	struct cu_copy_2d up = {.src_type = CU_MEMORY_HOST,
		.src_host = words,
		.src_pitch = 64,
		.dst_type = CU_MEMORY_DEVICE,
		.dst_device = x,
		.dst_pitch = 256,
		.dst_x = 32,
		.dst_y = 3,
		.width = 48,
		.height = 20};

	seed_words(words, WORDS, 6);
	mix(c, s, x, 1);
	CU(cuMemcpy2DAsync_v2(&up, s));
	mix(c, s, x, 2);
	CU(cuStreamSynchronize(s));
	CU(cuMemcpy2D_v2(&up));
	CU(cuStreamSynchronize(NULL));
	note_words(c, "x", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Planes of 8 rows of 64 bytes: from the host, within the device, and to the host, where the data
 * is when it returns. */
static void boxes(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(12), y = new_words(13);
	uint32_t words[WORDS];
	struct cu_copy_3d copy = {
		.src = {.z = 1, .type = CU_MEMORY_HOST, .host = words, .pitch = 64, .height = 8},
		.dst = {.x = 8,
			.y = 1,
			.type = CU_MEMORY_DEVICE,
			.device = x,
			.pitch = 64,
			.height = 8},
		.width = 48,
		.height = 7,
		.depth = 5};

	seed_words(words, WORDS, 14);
	mix(c, s, x, 1);
	CU(cuMemcpy3DAsync_v2(&copy, s));
	seed_words(words, WORDS, 15); /* it has been read */
	mix(c, s, x, 2);
	copy.src = copy.dst;
	copy.dst.device = y;
	copy.dst.z = 3;
	CU(cuMemcpy3DAsync_v2(&copy, s));
	mix(c, s, y, 3);
	copy.src = copy.dst;
	copy.dst = (struct cu_place_3d){
		.type = CU_MEMORY_HOST, .host = words, .pitch = 64, .height = 8};
	CU(cuMemcpy3DAsync_v2(&copy, s));
	note_data(c, "a box", words, BYTES);
	CU(cuStreamSynchronize(s));
	copy.src.device = x;
	CU(cuMemcpy3D_v2(&copy));
	note_data(c, "another", words, BYTES);
	note_words(c, "y", y, s);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

static void batches(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(7), y = new_words(8);
	CUdeviceptr dst[3] = {y, y + 1024, y + 4096}, src[3] = {x + 512, x, x + 2048};
	size_t size[3] = {256, 512, 1024}, at = 0, failed = 0;
	struct cu_copy_attributes attrs = {.order = 1};

	for (uint32_t i = 0; i < 10; i++) {
		mix(c, s, x, i);
		if (cu.cuMemcpyBatchAsync_v2 && i & 1)
			CU(cuMemcpyBatchAsync_v2(dst, src, size, 3, &attrs, &at, 1, s));
		else if (cu.cuMemcpyBatchAsync)
			CU(cuMemcpyBatchAsync(dst, src, size, 3, &attrs, &at, 1, &failed, s));
		mix(c, s, y, i);
	}
	note_words(c, "x", x, s);
	note_words(c, "y", y, s);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* The pointer is good at once; the memory is the stream's from there on. */
static void allocated_in_order(struct conform *c)
{
	CUstream s = new_stream(0), t = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(9), d[3];

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 15; i++) {
		for (int k = 0; k < 3; k++)
			CU(cuMemAllocAsync(&d[k], BYTES, s));
		CU(cuMemcpyDtoDAsync_v2(d[0], x, BYTES, s));
		fill(c, s, d[1], i);
		mix(c, s, d[0], i);
		order(s, t);
		join(c, t, d[2], d[0], d[1]);
		order(t, s);
		CU(cuMemcpyDtoDAsync_v2(x, d[2], BYTES, s));
		for (int k = 0; k < 3; k++)
			CU(cuMemFreeAsync(d[k], s));
	}
	note_words(c, "x", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(t));
}

/* Memory is freed while the device still has work with it. */
static void freed_early(struct conform *c)
{
	CUstream s = new_stream(0);
	CUdeviceptr x = new_words(10);

	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 10; i++) {
		CUdeviceptr d = new_words(200 + i);

		CU(cuStreamSynchronize(NULL));
		spin(c, s, d, 300000);
		mix(c, s, d, i);
		join(c, s, x, x, d);
		CU(cuMemFree_v2(d));
	}
	note_words(c, "x", x, s);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

static void attributes(struct conform *c)
{
	CUdeviceptr x = new_words(11), d;
	uint32_t *pinned = pinned_words();
	unsigned type = 0;

	CU(cuPointerGetAttribute(&type, 2, x));
	note(c, "memory of the device %u", type);
	CU(cuPointerGetAttribute(&type, 2, (uintptr_t)pinned));
	note(c, "memory of the host %u", type);
	CU(cuMemHostGetDevicePointer_v2(&d, pinned, 0));
	CU(cuMemcpyDtoDAsync_v2(d, x, BYTES, NULL));
	CU(cuStreamSynchronize(NULL));
	note_data(c, "through its device pointer", pinned, BYTES);
	CU(cuMemFreeHost(pinned));
	CU(cuMemFree_v2(x));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"copies", copies},
		{"from pageable", from_pageable},
		{"to pageable", to_pageable},
		{"large", large},
		{"rectangles", rectangles},
		{"boxes", boxes},
		{"batches", batches},
		{"allocated in order", allocated_in_order},
		{"freed early", freed_early},
		{"attributes", attributes},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
