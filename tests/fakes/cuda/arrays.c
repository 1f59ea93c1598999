/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays take memory, and nothing here looks into them. Textures and tensor maps name addresses,
 * which may be mapped later. */
#include "vmm.h"
#include <stdlib.h>
#include <string.h>

struct CUarray_st {
	struct CUarray_st *next;
	CUdevice dev;
	uint64_t bytes;
};

static CUarray arrays;

static unsigned format_bytes(int format)
{
	switch (format) {
	case 1: /* of 8 bits */
	case 8:
		return 1;
	case 2:
	case 9:
	case 0x10:
		return 2;
	case 3:
	case 0xa:
	case 0x20:
		return 4;
	}
	return 0;
}

static fm_cu_result create(CUarray *array, const struct cu_array *a, unsigned levels)
{
	uint64_t texel = a ? format_bytes(a->format) * a->channels : 0, bytes = 0, w, h, d;

	if (!array || !texel || !a->width || !levels || a->channels > 4 || a->channels == 3)
		return FM_CU_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < levels && i < 16; i++) {
		w = a->width >> i ? a->width >> i : 1;
		h = a->height >> i ? a->height >> i : 1;
		d = a->depth >> i ? a->depth >> i : 1;
		bytes += w * h * d * texel;
	}
	bytes = (bytes + 65535) & ~UINT64_C(65535);
	if (!fk_memory_take(fk_ctx()->dev, bytes))
		return CU_OUT_OF_MEMORY;
	*array = calloc(1, sizeof(**array));
	if (!*array)
		fk_die("no memory for an array");
	**array = (struct CUarray_st){arrays, fk_ctx()->dev, bytes};
	arrays = *array;
	return FM_CU_SUCCESS;
}

static fm_cu_result destroy(CUarray array)
{
	CUarray *a = &arrays;

	while (*a && *a != array)
		a = &(*a)->next;
	if (!*a)
		return CU_INVALID_HANDLE;
	fk_wait_device();
	for (a = &arrays; *a && *a != array;)
		a = &(*a)->next;
	if (!*a)
		return CU_INVALID_HANDLE;
	*a = array->next;
	fk_memory_give(array->dev, array->bytes);
	free(array);
	return FM_CU_SUCCESS;
}

fm_cu_result cuArray3DCreate_v2(CUarray *array, const struct cu_array *a)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	return fk_leave(create(array, a, 1));
}

fm_cu_result cuArrayCreate_v2(CUarray *array, const struct cu_array_2d *a)
{
	struct cu_array all = {0};

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	if (!a)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	all.width = a->width;
	all.height = a->height;
	all.format = a->format;
	all.channels = a->channels;
	return fk_leave(create(array, &all, 1));
}

fm_cu_result cuArrayDestroy(CUarray array)
{
	FK_TRY(fk_enter_ctx());
	return fk_leave(destroy(array));
}

fm_cu_result cuMipmappedArrayCreate(CUmipmappedArray *array, const struct cu_array *a, unsigned n)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	return fk_leave(create(array, a, n));
}

fm_cu_result cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	FK_TRY(fk_enter_ctx());
	return fk_leave(destroy(array));
}

/* --- textures, tensor maps --- */

struct texture {
	struct texture *next;
	struct cu_texture what;
};

static struct texture *textures;

static bool of_device(CUdeviceptr at)
{
	return fk_place((void *)(uintptr_t)at) != FK_PAGEABLE;
}

/* Of memory in rows; of arrays whatever it is. */
static fm_cu_result check_texture(const struct cu_texture *t)
{
	size_t texel = format_bytes(t->linear.format) * t->linear.channels, n = t->linear.size;

	switch (t->type) {
	case CU_TEXTURE_ARRAY:
	case CU_TEXTURE_MIPMAPPED:
		return FM_CU_SUCCESS;
	case CU_TEXTURE_LINEAR:
		break;
	case CU_TEXTURE_PITCHED:
		n = fk_extent(t->pitched.pitch, t->pitched.width * texel, t->pitched.height);
		break;
	default:
		return FM_CU_ERROR_INVALID_VALUE;
	}
	return texel && n && of_device(t->linear.d) ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result cuTexObjectCreate(
	uint64_t *texture, const struct cu_texture *what, const void *how, const void *view)
{
	struct texture *t;
	fm_cu_result rc;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	rc = texture && what ? check_texture(what) : FM_CU_ERROR_INVALID_VALUE;
	if (rc)
		return fk_leave(rc);
	t = malloc(sizeof(*t));
	if (!t)
		fk_die("no memory for a texture");
	*t = (struct texture){textures, *what};
	textures = t;
	*texture = (uintptr_t)t;
	return fk_leave(FM_CU_SUCCESS);
}

static struct texture **texture_of(uint64_t handle)
{
	struct texture **t = &textures;

	while (*t && (uintptr_t)*t != handle)
		t = &(*t)->next;
	return t;
}

CUdeviceptr fk_texture_rows(uint64_t texture)
{
	const struct texture *t;
	CUdeviceptr d;

	pthread_mutex_lock(&fk.lock);
	t = *texture_of(texture);
	d = t && t->what.type >= CU_TEXTURE_LINEAR ? t->what.linear.d : 0;
	pthread_mutex_unlock(&fk.lock);
	return d;
}

fm_cu_result cuTexObjectDestroy(uint64_t texture)
{
	struct texture **t, *gone;

	FK_TRY(fk_enter_ctx());
	t = texture_of(texture);
	gone = *t;
	if (!gone)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*t = gone->next;
	free(gone);
	return fk_leave(FM_CU_SUCCESS);
}

/* Here: the address, so that it does not look like one, and what it was made with. */
fm_cu_result cuTensorMapEncodeTiled(struct cu_tensor_map *map, int type, unsigned rank, void *at,
	const uint64_t *size, const uint64_t *strides, const unsigned *box,
	const unsigned *element_strides, int interleave, int swizzle, int promotion, int fill)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	if (!map || (uintptr_t)map % 64 || (uintptr_t)at % 16 || rank < 1 || rank > 5 || !size ||
		!box || !element_strides || (rank > 1 && !strides) || !of_device((uintptr_t)at))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	memset(map, 0, sizeof(*map));
	map->words[0] = (uintptr_t)at ^ FK_MAP_MASK;
	map->words[1] = (uint64_t)type << 32 | rank;
	memcpy(map->words + 2, size, rank * sizeof(*size));
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuTensorMapEncodeIm2col(struct cu_tensor_map *map, int type, unsigned rank, void *at,
	const uint64_t *size, const uint64_t *strides, const int *lower, const int *upper,
	unsigned channels, unsigned pixels, const unsigned *element_strides, int interleave,
	int swizzle, int promotion, int fill)
{
	if (rank < 3 || !lower || !upper || !channels || !pixels)
		return FM_CU_ERROR_INVALID_VALUE;
	return cuTensorMapEncodeTiled(map, type, rank, at, size, strides, element_strides,
		element_strides, interleave, swizzle, promotion, fill);
}

fm_cu_result cuTensorMapReplaceAddress(struct cu_tensor_map *map, void *at)
{
	FK_TRY(fk_enter_ctx());
	if (!map || (uintptr_t)map % 64 || (uintptr_t)at % 16 || !of_device((uintptr_t)at))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	map->words[0] = (uintptr_t)at ^ FK_MAP_MASK;
	return fk_leave(FM_CU_SUCCESS);
}
