/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of bench/science.h. */
#include "../../../bench/science.h"
#include "fake.h"
#include <string.h>

struct params {
	CUdeviceptr out, a, b;
	uint64_t n;
	uint32_t k;
};

static uint32_t *words(CUdeviceptr d)
{
	return (uint32_t *)(uintptr_t)d;
}

/* What all threads of a block do. */
#define SCIENCE(name, count, what)                                                     \
	static void name(const struct fk_block *b)                                     \
	{                                                                              \
		struct params p;                                                       \
		uint64_t first = (uint64_t)b->x * b->threads, step = b->threads;       \
                                                                                       \
		memcpy(&p, b->params, 36);                                             \
		for (; first < (count); first += (uint64_t)b->n * b->threads)          \
			for (uint64_t i = first; i < (count) && i < first + step; i++) \
				what;                                                  \
	}

SCIENCE(fill, p.n, words(p.out)[i] = science_mix((uint32_t)i + p.k))
SCIENCE(stencil, p.n, science_stencil(words(p.out), words(p.a), words(p.b), p.n, p.k, i))
SCIENCE(wavelet, p.n / 4, science_wavelet(words(p.out), words(p.a), p.n, p.k, i))
SCIENCE(image, p.n / 4, science_image(words(p.out), words(p.a), p.n, i))
SCIENCE(links, p.n, science_links(words(p.out), p.n, i))
SCIENCE(gather, p.n, science_gather(words(p.out), words(p.a), words(p.b), p.k, i))
SCIENCE(nearest, p.n, science_nearest(words(p.out), words(p.a), p.k, i))

static void digest(const struct fk_block *b)
{
	struct params p;
	uint64_t first = (uint64_t)b->x * b->threads, sum = 0;

	memcpy(&p, b->params, 36);
	for (; first < p.n; first += (uint64_t)b->n * b->threads)
		for (uint64_t i = first; i < p.n && i < first + b->threads; i++)
			sum += science_digest(words(p.a), i);
	atomic_fetch_add((_Atomic uint64_t *)words(p.out), sum);
}

const struct fk_kernel *fk_science_find(const char *name)
{
#define PARAMS                \
	{                     \
		8, 8, 8, 8, 4 \
	}
	static const struct fk_kernel kernels[] = {
		{"science_fill", PARAMS, fill, false, {{0, 3, 4, 0}}},
		{"science_stencil", PARAMS, stencil, false,
			{{0, 3, 4, 0}, {1, 3, 4, 0}, {2, 3, 4, 0}}},
		{"science_wavelet", PARAMS, wavelet, false, {{0, 3, 4, 0}, {1, 3, 4, 0}}},
		{"science_image", PARAMS, image, false, {{0, 3, 4, 0}, {1, 3, 4, 0}}},
		{"science_links", PARAMS, links, false, {{0, 3, 4, 0}}},
		{"science_gather", PARAMS, gather, false,
			{{0, 3, 4, 0}, {1, 3, 4, 0}, {2, 3, 16, 0}}},
		{"science_nearest", PARAMS, nearest, false, {{0, 3, 4, 0}, {1, 3, 8, 0}}},
		{"science_digest", PARAMS, digest, false, {{0, 0, 0, 8}, {1, 3, 4, 0}}},
	};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return fk_again_find(name);
}
