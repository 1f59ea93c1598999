/* SPDX-License-Identifier: Apache-2.0 */
/* Modules are PTX; what counts of it are the names of its kernels, which kernels.c has in C. */
#include "fake.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_KERNELS 16

struct CUfunc_st {
	const struct fk_kernel *kernel;
	unsigned block[3]; /* and parameters: for the launches that take none */
	unsigned char params[64];
};

struct CUmod_st {
	struct CUmod_st *next;
	unsigned n;
	struct CUfunc_st function[MODULE_KERNELS];
};

static CUmodule modules;

static void read_entries(CUmodule m, const char *text)
{
	static const char entry[] = ".visible .entry ";
	char name[64];

	while ((text = strstr(text, entry)) && m->n < MODULE_KERNELS) {
		size_t n = 0;

		text += sizeof(entry) - 1;
		while (n < sizeof(name) - 1 && (isalnum((unsigned char)text[n]) || text[n] == '_'))
			n++;
		memcpy(name, text, n);
		name[n] = 0;
		m->function[m->n].kernel = fk_kernel_find(name);
		m->n += m->function[m->n].kernel != NULL;
	}
}

fm_cu_result cuModuleLoadData(CUmodule *module, const void *image)
{
	CUmodule m;

	if (!module || !image)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!strstr(image, ".version"))
		return CU_INVALID_IMAGE;
	FK_TRY(fk_enter_ctx());
	m = calloc(1, sizeof(*m));
	if (!m)
		return fk_leave(CU_OUT_OF_MEMORY);
	read_entries(m, image);
	m->next = modules;
	modules = m;
	*module = m;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned n, int *options, void **values)
{
	return cuModuleLoadData(module, image);
}

static CUmodule *find_module(CUmodule module)
{
	CUmodule *m = &modules;

	while (*m && *m != module)
		m = &(*m)->next;
	return m;
}

/* What was launched keeps running: the kernels are not the module's. */
fm_cu_result cuModuleUnload(CUmodule module)
{
	CUmodule *m;

	FK_TRY(fk_enter_ctx());
	m = find_module(module);
	if (!*m)
		return fk_leave(CU_INVALID_HANDLE);
	*m = module->next;
	free(module);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
	if (!f || !name)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter_ctx());
	if (!*find_module(module))
		return fk_leave(CU_INVALID_HANDLE);
	for (unsigned i = 0; i < module->n; i++) {
		if (!strcmp(module->function[i].kernel->name, name)) {
			*f = &module->function[i];
			return fk_leave(FM_CU_SUCCESS);
		}
	}
	return fk_leave(CU_NOT_FOUND);
}

static bool function_known(CUfunction f)
{
	for (CUmodule m = modules; m; m = m->next)
		if (f >= m->function && f < m->function + m->n)
			return true;
	return false;
}

/* The ways to give parameters: a pointer to each, or a packed buffer that `extra` names. */
enum { EXTRA_END, EXTRA_BUFFER, EXTRA_SIZE };

static fm_cu_result read_params(struct fk_work *w, void **params, void **extra)
{
	const unsigned char *size = w->kernel.kernel->size;
	const char *packed = NULL;
	size_t at = 0;

	if (!params == !extra)
		return FM_CU_ERROR_INVALID_VALUE;
	for (; extra && (uintptr_t)extra[0] != EXTRA_END; extra += 2)
		if ((uintptr_t)extra[0] == EXTRA_BUFFER)
			packed = extra[1];
	for (unsigned i = 0; size[i]; i++) {
		at = (at + size[i] - 1) / size[i] * size[i];
		memcpy(w->kernel.params + at, packed ? packed + at : params[i], size[i]);
		at += size[i];
	}
	return FM_CU_SUCCESS;
}

/* FAKE_CUDA_LOST=ERROR@N: the N-th kernel is the device's last. */
static bool fatal(void)
{
	const char *lost = fk_env("FAKE_CUDA_LOST"), *at = lost ? strchr(lost, '@') : NULL;

	if (!at || atomic_fetch_add(&fk.kernels, 1) + 1 != (unsigned)atoi(at + 1))
		return false;
	pthread_mutex_lock(&fk.lock);
	fk_lose(atoi(lost));
	pthread_mutex_unlock(&fk.lock);
	return true;
}

static void run_kernel(struct fk_work *w)
{
	if (!fatal())
		w->kernel.kernel->run(w);
}

static fm_cu_result check_shape(const unsigned *grid, const unsigned *block)
{
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];

	if (!threads || threads > 1024 || block[2] > 64)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!grid[0] || !grid[1] || !grid[2] || grid[0] > INT32_MAX || grid[1] > 65535 ||
		grid[2] > 65535)
		return FM_CU_ERROR_INVALID_VALUE;
	return FM_CU_SUCCESS;
}

fm_cu_result fk_kernel_work(struct fk_work *w, CUfunction f, const unsigned *grid,
	const unsigned *block, void **params, void **extra)
{
	if (!f || !function_known(f))
		return CU_INVALID_HANDLE;
	FK_TRY(check_shape(grid, block));
	*w = (struct fk_work){.run = run_kernel};
	w->kernel.kernel = f->kernel;
	w->kernel.grid = grid[0] * grid[1] * grid[2];
	w->kernel.block = block[0] * block[1] * block[2];
	return read_params(w, params, extra);
}

static fm_cu_result launch(
	const struct cu_launch_config *c, CUfunction f, void **params, void **extra)
{
	struct fk_work w;
	fm_cu_result rc;
	CUstream s;

	if (!f || !function_known(f))
		return CU_INVALID_HANDLE;
	FK_TRY(fk_stream_find(c->stream, &s));
	rc = fk_kernel_work(&w, f, c->grid, c->block, params, extra);
	if (rc && s->capture)
		s->capture->invalid = true;
	FK_TRY(rc);
	return fk_enqueue(c->stream, &w, NULL);
}

fm_cu_result cuLaunchKernelEx(
	const struct cu_launch_config *config, CUfunction f, void **params, void **extra)
{
	if (!config)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter_ctx());
	return fk_leave(launch(config, f, params, extra));
}

fm_cu_result cuLaunchKernel(CU_LAUNCH_PARAMS, void **extra)
{
	struct cu_launch_config c = {
		.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, .stream = stream};

	return cuLaunchKernelEx(&c, f, params, extra);
}

/* All blocks must be on the device at once. */
fm_cu_result cuLaunchCooperativeKernel(CU_LAUNCH_PARAMS)
{
	if ((uint64_t)gx * gy * gz * bx * by * bz > 16 * 2048)
		return 720; /* CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE */
	return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}

/* A kernel on several devices, of which there is one. */
fm_cu_result cuLaunchCooperativeKernelMultiDevice(
	struct cu_launch_params *list, unsigned n, unsigned flags)
{
	const unsigned *g, *b;

	if (!list || n != 1 || flags > 3 ||
		(uintptr_t)list->stream <= (uintptr_t)FM_CU_STREAM_PER_THREAD)
		return FM_CU_ERROR_INVALID_VALUE;
	g = list->grid;
	b = list->block;
	return cuLaunchCooperativeKernel(list->f, g[0], g[1], g[2], b[0], b[1], b[2], list->shared,
		list->stream, list->params);
}

/* --- before CUDA 4.0: shape and parameters belong to the function --- */

static fm_cu_result function(CUfunction f)
{
	FK_TRY(fk_enter_ctx());
	return function_known(f) ? FM_CU_SUCCESS : fk_leave(CU_INVALID_HANDLE);
}

fm_cu_result cuFuncSetBlockShape(CUfunction f, int x, int y, int z)
{
	FK_TRY(function(f));
	f->block[0] = (unsigned)x;
	f->block[1] = (unsigned)y;
	f->block[2] = (unsigned)z;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuParamSetSize(CUfunction f, unsigned size)
{
	return size <= sizeof(f->params) ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result cuParamSetv(CUfunction f, int at, void *p, unsigned size)
{
	FK_TRY(function(f));
	if (at < 0 || (unsigned)at + size > sizeof(f->params))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	memcpy(f->params + at, p, size);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuLaunchGridAsync(CUfunction f, int w, int h, CUstream stream)
{
	size_t size = sizeof(f->params);
	void *extra[] = {(void *)EXTRA_BUFFER, f->params, (void *)EXTRA_SIZE, &size, NULL};
	struct cu_launch_config c = {.grid = {(unsigned)w, (unsigned)h, 1}, .stream = stream};

	FK_TRY(function(f));
	memcpy(c.block, f->block, sizeof(c.block));
	return fk_leave(launch(&c, f, NULL, extra));
}

fm_cu_result cuLaunchGrid(CUfunction f, int w, int h)
{
	return cuLaunchGridAsync(f, w, h, NULL);
}

fm_cu_result cuLaunch(CUfunction f)
{
	return cuLaunchGrid(f, 1, 1);
}
