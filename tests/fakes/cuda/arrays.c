/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: they take memory, and nothing here looks into them. */
#include "vmm.h"
#include <stdlib.h>

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
