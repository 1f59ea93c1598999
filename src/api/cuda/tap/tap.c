/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"
#include "api/cuda/core/types.h"
#include "base/util.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER          "libcuda.so.1"
#define PER_THREAD_FLAG 2u /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

_Thread_local int fm_tap_inside;

const char *const fm_look_up_prefixes[] = {"cu", NULL};

static void *driver(void)
{
	static _Atomic(void *) loaded;
	void *h = atomic_load(&loaded);

	if (h)
		return h;
	h = dlopen(DRIVER, RTLD_NOLOAD | RTLD_LAZY);
	if (h)
		atomic_store(&loaded, h);
	return h;
}

bool fm_look_up_loaded(const char *symbol)
{
	(void)symbol;
	return driver() != NULL;
}

bool fm_look_up_stood_in(const char *symbol)
{
	(void)symbol;
	return false;
}

void *fm_look_up_own(const char *symbol)
{
	void *h = driver();

	return fm_look_up_next(h ? h : RTLD_NEXT, symbol);
}

static fm_cu_result not_there(void)
{
	return FM_CU_ERROR_NOT_INITIALIZED;
}

void *fm_tap_next(size_t call)
{
	struct fm_tap_call *c = &fm_tap_calls[call];
	void *fn = atomic_load_explicit(&c->next, memory_order_relaxed);

	if (FM_LIKELY(fn))
		return fn;
	fn = fm_look_up_own_quietly(c->symbol);
	if (!fn || fn == c->ours)
		return (void *)not_there;
	atomic_store_explicit(&c->next, fn, memory_order_relaxed);
	return fn;
}

/* What the program gets for the driver's fn. */
static void *ours_for(struct fm_tap_call *c, void *fn)
{
	if (!fm_tap_wanted() || fm_tap_inside)
		return fn;
	if (!atomic_load_explicit(&c->next, memory_order_relaxed))
		atomic_store_explicit(&c->next, fn, memory_order_relaxed);
	return c->ours;
}

void *fm_look_up_answer(struct fm_look_up *l)
{
	for (size_t i = 0; i < fm_tap_n_calls; i++) {
		struct fm_tap_call *c = &fm_tap_calls[i];
		void *fn;

		if (strcmp(c->symbol, l->symbol))
			continue;
		fn = fm_look_up_find(l, c->absent, c->ours);
		return !fn || fn == c->ours ? fn : ours_for(c, fn);
	}
	return NULL;
}

void fm_tap_replace(const char *name, void **fn, int version, uint64_t flags)
{
	struct fm_tap_call *best = NULL;

	if (!name || !fn || !*fn)
		return;
	for (size_t i = 0; i < fm_tap_n_calls; i++) {
		struct fm_tap_call *c = &fm_tap_calls[i];

		if (!strcmp(c->symbol, name) && strcmp(c->name, name)) {
			best = c;
			break;
		}
		if (!strcmp(c->name, name) && c->since <= version &&
			(!c->own_stream || flags & PER_THREAD_FLAG) &&
			(!best || (c->own_stream && !best->own_stream) ||
				(c->own_stream == best->own_stream && c->since > best->since)))
			best = c;
	}
	if (best && *fn != best->ours)
		*fn = ours_for(best, *fn);
}

bool fm_tap_preserved(const int *options, void *const *values, unsigned n)
{
	for (unsigned i = 0; options && values && i < n; i++)
		if (options[i] == FM_CU_LIBRARY_PRESERVED)
			return values[i];
	return false;
}

/* --- the device --- */

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* CUdevice_attribute */

unsigned fm_tap_capability(
	fm_cu_result (*attribute)(int *, int, CUdevice), fm_cu_result (*device)(CUdevice *))
{
	CUdevice dev = 0;
	int major, minor;

	if (!attribute || (device && device(&dev)))
		dev = 0;
	if (!attribute || attribute(&major, CAPABILITY_MAJOR, dev) ||
		attribute(&minor, CAPABILITY_MINOR, dev) || major < 0 || minor < 0 || minor > 9)
		return 0;
	return (unsigned)major * 10 + (unsigned)minor;
}

/* --- parameters of a kernel --- */

bool fm_tap_params_learn(struct fm_tap_params *p,
	fm_cu_result (*info)(CUfunction, size_t, size_t *, size_t *), CUfunction f)
{
	fm_cu_result rc = FM_CU_SUCCESS;
	size_t at, size;

	for (size_t i = 0; info; i++) {
		struct fm_tap_param *more;

		rc = info(f, i, &at, &size);
		if (rc || at + size > UINT16_MAX)
			break;
		more = realloc(p->param, (i + 1) * sizeof(*more));
		if (!more)
			return false;
		p->param = more;
		more[i] = (struct fm_tap_param){(uint16_t)at, (uint16_t)size};
		p->bytes = FM_MAX(p->bytes, (unsigned)(at + size));
		p->n = (unsigned)i + 1;
	}
	return info && rc == FM_CU_ERROR_INVALID_VALUE; /* behind the last one */
}

static bool by_buffer(const struct fm_tap_params *p, void *const *extra, uint8_t *to)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	for (; extra[0] != FM_CU_EXTRA_END; extra += 2) {
		if (extra[0] == FM_CU_EXTRA_BUFFER)
			buffer = extra[1];
		else if (extra[0] == FM_CU_EXTRA_SIZE && extra[1])
			bytes = *(const size_t *)extra[1];
		else
			return false;
	}
	if (!buffer || bytes != p->bytes)
		return false;
	memcpy(to, buffer, bytes);
	return true;
}

bool fm_tap_params_take(
	const struct fm_tap_params *p, void *const *params, void *const *extra, uint8_t *to)
{
	memset(to, 0, p->bytes);
	if (extra)
		return by_buffer(p, extra, to);
	if (!params)
		return !p->n;
	for (unsigned i = 0; i < p->n; i++) {
		if (!params[i])
			return false;
		memcpy(to + p->param[i].at, params[i], p->param[i].size);
	}
	return true;
}
