/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "base/util.h"
#include <string.h>

/* A buffer whose size is wrong for the kernel, be it by its alignment padding, is passed on as too
 * long for the rewritten kernel, so that the driver judges it: NVIDIA's refuses it. A buffer that
 * is too short must not stay too short with our parameters: a driver that took it would give the
 * kernel arbitrary values for ours. */
#define TOO_LONG 8u

/* Reads what a list of `extra` names. False: it is not a known list. */
static bool read_extra(void **extra, const char **buffer, const size_t **size)
{
	*buffer = NULL;
	*size = NULL;
	for (; extra[0] != FM_CU_EXTRA_END; extra += 2) {
		if (extra[0] == FM_CU_EXTRA_BUFFER)
			*buffer = extra[1];
		else if (extra[0] == FM_CU_EXTRA_SIZE)
			*size = extra[1];
		else
			return false;
	}
	return true;
}

/* The program's buffer is for a kernel without our parameters. Missing bytes are zero. False: there
 * is no buffer. */
static FM_COLD bool copy_packed(const struct fm_kernel *k, void **extra, char *to, size_t *size)
{
	const size_t *given;
	const char *buffer;
	size_t n;

	if (!read_extra(extra, &buffer, &given) || (k->param_bytes && (!buffer || !given)))
		return false;
	*size = given ? *given : 0;
	n = FM_MIN(*size, (size_t)k->param_bytes);
	if (n)
		memcpy(to, buffer, n);
	memset(to + n, 0, k->guard_at - n);
	return true;
}

FM_HOT size_t fm_cuda_args_room(const struct fm_kernel *k, bool packed)
{
	return packed ? fm_cuda_args_bytes(k) + TOO_LONG
		      : ((size_t)k->n_params + FM_GUARD_PARAMS) * sizeof(void *);
}

static void add_ours(struct fm_cuda_args *a, const struct fm_kernel *k, void **list)
{
	for (unsigned i = 0; i < FM_GUARD_PARAMS; i++)
		list[k->n_params + i] = &a->ours[i];
	a->params = list;
}

static FM_COLD bool pack(
	struct fm_cuda_args *a, const struct fm_kernel *k, void **extra, char *room)
{
	size_t given;

	if (!copy_packed(k, extra, room, &given))
		return false;
	memcpy(room + k->guard_at, a->ours, sizeof(a->ours));
	a->size = fm_cuda_args_bytes(k);
	if (given != k->param_bytes) {
		memset(room + a->size, 0, TOO_LONG);
		a->size += TOO_LONG;
	}
	a->list[0] = FM_CU_EXTRA_BUFFER;
	a->list[1] = room;
	a->list[2] = FM_CU_EXTRA_SIZE;
	a->list[3] = &a->size;
	a->list[4] = FM_CU_EXTRA_END;
	a->params = NULL;
	a->extra = a->list;
	return true;
}

FM_HOT bool fm_cuda_args(struct fm_cuda_args *a, const struct fm_kernel *k, void **params,
	void **extra, const uint64_t ours[FM_GUARD_PARAMS], void *room)
{
	void **list = room;

	memcpy(a->ours, ours, sizeof(a->ours));
	if (extra)
		return !params && pack(a, k, extra, room);
	if (!params && k->n_params)
		return false;
	for (unsigned i = 0; i < k->n_params; i++) {
		list[i] = params[i];
		__asm__(""); /* there are few, so a call to copy them would cost more */
	}
	add_ours(a, k, list);
	a->extra = NULL;
	return true;
}

/* Usually a pointer or a number. */
static inline void copy_one(char *to, const void *from, size_t size)
{
	if (FM_LIKELY(size == 8))
		memcpy(to, from, 8);
	else if (size == 4)
		memcpy(to, from, 4);
	else
		memcpy(to, from, size);
}

FM_HOT bool fm_cuda_args_copy(const struct fm_kernel *k, void **params, void **extra, void *copy)
{
	char *to = copy;
	size_t given, end = 0;

	if (extra)
		return !params && copy_packed(k, extra, to, &given);
	if (!params && k->n_params)
		return false;
	for (unsigned i = 0; i < k->n_params; i++) {
		const struct fm_param *p = &k->params[i];

		if (FM_UNLIKELY(p->at > end))
			memset(to + end, 0, p->at - end);
		copy_one(to + p->at, params[i], p->size);
		end = FM_MAX(end, (size_t)p->at + p->size);
	}
	if (end < k->guard_at)
		memset(to + end, 0, k->guard_at - end);
	return true;
}

void fm_cuda_args_again(struct fm_cuda_args *a, const struct fm_kernel *k, void *copy,
	const uint64_t ours[FM_GUARD_PARAMS], void *room)
{
	void **list = room;

	memcpy(a->ours, ours, sizeof(a->ours));
	for (unsigned i = 0; i < k->n_params; i++)
		list[i] = (char *)copy + k->params[i].at;
	add_ours(a, k, list);
	a->extra = NULL;
}
