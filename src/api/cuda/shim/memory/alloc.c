/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that allocate memory at once, and those that end it. */
#include "api/cuda/shim/guard/guarded.h"
#include "api/cuda/shim/managed/managed.h"
#include "api/cuda/shim/sets.h"
#include "memory.h"

/* A block at *ptr. A refusal leaves the program's variable as it was. */
#define MADE(m, space, ptr, size, rc)                                                         \
	({                                                                                    \
		fm_cu_result told =                                                           \
			fm_cuda_mem_made(m, space, (rc) ? 0 : (uintptr_t) * (ptr), size, rc); \
                                                                                              \
		if (FM_UNLIKELY(told && !(rc)))                                               \
			*(ptr) = was;                                                         \
		told;                                                                         \
	})

/* Who makes the memory of cuMemAlloc(): the driver. This is the place where another decides, and
 * cuMemFree_v2() below where that one ends it. */
static fm_cu_result make_linear(CUdeviceptr *ptr, size_t n)
{
	struct fm_cuda_making m;
	CUdeviceptr was;
	fm_cu_result rc;

	rc = fm_cuda_managed_alloc(ptr, n);
	if (rc != FM_CUDA_NOT_MANAGED)
		return rc;
	if (!fm_cuda_mem_begin(&m, FM_MEM_PLAIN, n))
		return FM_CU_ERROR_OUT_OF_MEMORY;
	was = ptr ? *ptr : 0;
	rc = FM_CUDA_WITH_ROOM(&m.at, n, NEXT(cuMemAlloc_v2, (ptr, n)));
	return MADE(&m, FM_CUDA_ADDRESS, ptr, n, rc);
}

#define ALLOC_LINEAR(symbol, params, ptr, n)    \
	fm_cu_result symbol CALL_PARAMS(params) \
	{                                       \
		return make_linear(ptr, n);     \
	}

#define ALLOC_AS(symbol, params, space, kind, ptr, n)                                 \
	fm_cu_result symbol CALL_PARAMS(params)                                       \
	{                                                                             \
		__typeof__(*(ptr)) was = (ptr) ? *(ptr) : 0;                          \
		struct fm_cuda_making m;                                              \
		uint64_t size = n;                                                    \
		fm_cu_result rc;                                                      \
                                                                                      \
		if (!fm_cuda_mem_begin(&m, kind, size))                               \
			return FM_CU_ERROR_OUT_OF_MEMORY;                             \
		rc = FM_CUDA_WITH_ROOM(&m.at, size, NEXT(symbol, CALL_ARGS(params))); \
		return MADE(&m, space, ptr, size, rc);                                \
	}
#define ALLOC_PLAIN(symbol, params, ptr, n) \
	ALLOC_AS(symbol, params, FM_CUDA_ADDRESS, FM_MEM_PLAIN, ptr, n)
#define ALLOC_MANAGED(symbol, params, ptr, n) \
	ALLOC_AS(symbol, params, FM_CUDA_ADDRESS, FM_MEM_MANAGED, ptr, n)
#define ALLOC_ARRAY(symbol, params, array, n) \
	ALLOC_AS(symbol, params, FM_CUDA_ARRAY, FM_MEM_ARRAY, array, n)

/* 0: more than there is, and the driver says so. */
static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? 0 : n;
}

/* The driver makes rows of a multiple of 512 bytes, and says of how many. */
#define ALLOC_PITCH(symbol, params, ptr, pitch, w, h, element)                                 \
	fm_cu_result symbol CALL_PARAMS(params)                                                \
	{                                                                                      \
		__typeof__(*(ptr)) was = (ptr) ? *(ptr) : 0;                                   \
		__typeof__(*(pitch)) pitch_was = (pitch) ? *(pitch) : 0;                       \
		struct fm_cuda_making m;                                                       \
		fm_cu_result rc = FM_CUDA_NOT_MANAGED;                                         \
                                                                                               \
		if (sizeof(*(ptr)) == sizeof(CUdeviceptr))                                     \
			rc = fm_cuda_managed_alloc_pitch(                                      \
				(void *)(ptr), (void *)(pitch), w, h, element);                \
		if (rc != FM_CUDA_NOT_MANAGED)                                                 \
			return rc;                                                             \
		if (!fm_cuda_mem_begin(&m, FM_MEM_PLAIN, times(fm_cuda_mem_round(w, 512), h))) \
			return FM_CU_ERROR_OUT_OF_MEMORY;                                      \
		rc = FM_CUDA_WITH_ROOM(&m.at, m.size, NEXT(symbol, CALL_ARGS(params)));        \
		if (rc)                                                                        \
			return MADE(&m, FM_CUDA_ADDRESS, ptr, 0, rc);                          \
		rc = MADE(&m, FM_CUDA_ADDRESS, ptr, (uint64_t) * (pitch) * (h), rc);           \
		if (FM_UNLIKELY(rc))                                                           \
			*(pitch) = pitch_was;                                                  \
		return rc;                                                                     \
	}

/* --- arrays --- */

/* Bits of a texel's component, and whether the format says all of the texel. */
static unsigned texel_bits(unsigned format, unsigned channels)
{
	switch (format) {
	case 0x01: /* whole numbers and floating point */
	case 0x08:
		return 8 * channels;
	case 0x02:
	case 0x09:
	case 0x10:
		return 16 * channels;
	case 0x03:
	case 0x0a:
	case 0x20:
		return 32 * channels;
	case 0x91: /* compressed in blocks: BC1, BC4 */
	case 0x92:
	case 0x97:
	case 0x98:
		return 4;
	case 0x93: /* and the others */
	case 0x94:
	case 0x95:
	case 0x96:
	case 0x99:
	case 0x9a:
	case 0x9b:
	case 0x9c:
	case 0x9d:
	case 0x9e:
		return 8;
	case 0xb0: /* NV12 */
		return 12;
	default:
		return 32;
	}
}

/* As measured: lines of 64 bytes, in blocks of 8 to 128 of them. */
static uint64_t plane_bytes(uint64_t w, uint64_t h, unsigned bits)
{
	uint64_t block = 8;

	while (block < 128 && block < h)
		block *= 2;
	return times(
		fm_cuda_mem_round(times(w, bits), 512) / 8, fm_cuda_mem_round(h ? h : 1, block));
}

/* levels: of a mipmapped array, each half as large as the one before. One without memory of its
 * own counts nothing. */
static uint64_t array_bytes(const struct fm_cu_array_3d *a, unsigned levels)
{
	const bool layers = a->flags & (FM_CU_ARRAY_LAYERED | FM_CU_ARRAY_CUBE);
	const unsigned bits = texel_bits(a->format, a->channels);
	uint64_t sum = 0, n;

	if (a->flags & (FM_CU_ARRAY_SPARSE | FM_CU_ARRAY_DEFERRED))
		return 0;
	for (unsigned i = 0; i < FM_MIN(levels, 64u); i++) {
		uint64_t w = a->width >> i, h = a->height >> i;
		uint64_t depth = layers ? a->depth : a->depth >> i;

		if (i && !w && !h && (layers || !depth))
			break;
		n = times(plane_bytes(w ? w : 1, h, bits), depth ? depth : 1);
		if (!n || __builtin_add_overflow(sum, n, &sum))
			return 0;
	}
	return sum;
}

static uint64_t bytes_of_3d(const struct CUDA_ARRAY3D_DESCRIPTOR_st *what, unsigned levels)
{
	return what ? array_bytes((const void *)what, levels) : 0;
}

static uint64_t bytes_of_2d(const struct CUDA_ARRAY_DESCRIPTOR_st *what)
{
	const struct fm_cu_array_2d *a = (const void *)what;

	return a ? array_bytes(&(struct fm_cu_array_3d){a->width, a->height, 0, a->format,
				       a->channels, 0},
			   1)
		 : 0;
}

static uint64_t bytes_of_old_2d(const struct CUDA_ARRAY_DESCRIPTOR_v1_st *what)
{
	const struct fm_cu_old_array_2d *a = (const void *)what;

	return a ? array_bytes(&(struct fm_cu_array_3d){a->width, a->height, 0, a->format,
				       a->channels, 0},
			   1)
		 : 0;
}

static uint64_t bytes_of_old_3d(const struct CUDA_ARRAY3D_DESCRIPTOR_v1_st *what)
{
	const struct fm_cu_old_array_3d *a = (const void *)what;

	return a ? array_bytes(&(struct fm_cu_array_3d){a->width, a->height, a->depth, a->format,
				       a->channels, a->flags},
			   1)
		 : 0;
}

#define ALLOC_ORDERED(...) /* pools.c */
#define ALLOC_(...)        /* by hand: pools.c, handles.c */
#define ON_alloc(symbol, per_thread, name, since, note, params, how, ...) \
	ALLOC_##how(symbol, params, __VA_ARGS__)
#include "api/cuda/calls.def"

/* --- calls that end memory --- */

/* The driver waits in them until no kernel uses the memory. It may hold locks meanwhile that
 * guarded launches need in order to be made again. */
#define RELEASE_IN(space, symbol, params, handle, managed)                      \
	fm_cu_result symbol CALL_PARAMS(params)                                 \
	{                                                                       \
		fm_cu_result rc = managed;                                      \
		struct fm_cu_turnstile *t;                                      \
		struct fm_cuda_ending e;                                        \
                                                                                \
		if (rc != FM_CUDA_NOT_MANAGED)                                  \
			return rc;                                              \
		if (FM_UNLIKELY(fm_cuda_enqueue_refuses()))                     \
			return FM_CU_ERROR_NOT_PERMITTED;                       \
		t = FM_LIKELY(!fm_cu_inside) ? fm_cuda_wait_begin(NULL) : NULL; \
		e = fm_cuda_mem_take(space, (uintptr_t)(handle));               \
		rc = fm_cuda_mem_ended(&e, NEXT(symbol, CALL_ARGS(params)));    \
		if (FM_LIKELY(!fm_cu_inside))                                   \
			fm_cuda_wait_end(t);                                    \
		return rc;                                                      \
	}
#define RELEASE_HOST(symbol, params, handle)                                    \
	fm_cu_result symbol CALL_PARAMS(params)                                 \
	{                                                                       \
		struct fm_cu_turnstile *t;                                      \
		fm_cu_result rc;                                                \
                                                                                \
		if (FM_UNLIKELY(fm_cuda_enqueue_refuses()))                     \
			return FM_CU_ERROR_NOT_PERMITTED;                       \
		t = FM_LIKELY(!fm_cu_inside) ? fm_cuda_wait_begin(NULL) : NULL; \
		rc = NEXT(symbol, CALL_ARGS(params));                           \
		if (FM_LIKELY(!fm_cu_inside))                                   \
			fm_cuda_wait_end(t);                                    \
		return rc;                                                      \
	}
#define RELEASE_DEVICE(symbol, params, ptr) \
	RELEASE_IN(FM_CUDA_ADDRESS, symbol, params, ptr, fm_cuda_managed_free(ptr))
#define RELEASE_ARRAY(symbol, params, array) \
	RELEASE_IN(FM_CUDA_ARRAY, symbol, params, array, FM_CUDA_NOT_MANAGED)
#define RELEASE_ORDERED(...) /* pools.c */
#define RELEASE_(...)        /* by hand: pools.c, handles.c */
#define ON_release(symbol, per_thread, name, since, note, params, what, ...) \
	RELEASE_##what(symbol, params, __VA_ARGS__)
#include "api/cuda/calls.def"
