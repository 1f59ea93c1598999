/* SPDX-License-Identifier: Apache-2.0 */
/* What cuda_images.c and cuda_image_launches.c share: the kernels of data/guard, launched in every
 * form, and the question whether the driver was given them rewritten. */
#pragma once
#include "../../../fakes/cuda/fake_cuda.h"
#include "../cuda_conform.h"

#define BLOCKS      24
#define IMAGE(name) GUARD_IMAGES "/" name

/* The kernels of data/guard, and where their parameters lie. */
static const struct kernel {
	const char *name;
	unsigned n, size;
	unsigned short at[4];
} kernels[] = {
	{"step", 1, 8, {0}},
	{"chain", 3, 16, {0, 8, 12}},
	{"odd", 4, 15, {0, 8, 12, 14}},
	{"tick", 0, 0, {0}},
	{"large", 2, 4048, {0, 4040}},
	{"beyond", 2, 6008, {0, 6000}},
};
#define KERNELS (sizeof(kernels) / sizeof(*kernels))
enum { STEP, CHAIN, ODD, TICK, LARGE, BEYOND };

/* In which form a launch is made. */
enum form { PARAMS, EXTRA, CONFIG, CONFIG_EXTRA, COOPERATIVE, SEVERAL, OLD, FORMS };

struct run {
	struct conform *c;
	CUstream s;
	CUdeviceptr out;
	CUfunction f[KERNELS]; /* NULL: not to be launched */
};

/* One launch of a kernel, in all its forms. */
struct call {
	const struct kernel *k;
	unsigned grid[3];
	unsigned char packed[6016];
	void *params[4];
	size_t size;
	void *extra[5];
};

static inline void prepare(struct call *l, unsigned kernel, unsigned gy)
{
	l->k = &kernels[kernel];
	l->size = l->k->size;
	memcpy(l->grid, (unsigned[]){BLOCKS / gy, gy, 1}, sizeof(l->grid));
	for (unsigned i = 0; i < l->k->n; i++)
		l->params[i] = l->packed + l->k->at[i];
	memcpy(l->extra, (void *[]){(void *)2, &l->size, (void *)1, l->packed, NULL},
		sizeof(l->extra));
}

static inline void launch_old(const struct call *l, CUfunction f, CUstream s)
{
	CU(cuFuncSetBlockShape(f, 32, 1, 1));
	CU(cuParamSetSize(f, l->k->size));
	if (l->k->size)
		CU(cuParamSetv(f, 0, (void *)l->packed, l->k->size));
	CU(cuLaunchGridAsync(f, (int)l->grid[0], (int)l->grid[1], s));
}

static inline void launch_call(struct call *l, CUfunction f, CUstream s, enum form form)
{
	const unsigned *g = l->grid;
	struct cu_launch_config how = {
		.grid = {g[0], g[1], g[2]}, .block = {32, 1, 1}, .stream = s};
	struct cu_launch_params one = {
		f, {g[0], g[1], g[2]}, {32, 1, 1}, 0, s, l->k->n ? l->params : NULL};

	if (form == EXTRA)
		CU(cuLaunchKernel(f, g[0], g[1], g[2], 32, 1, 1, 0, s, NULL, l->extra));
	else if (form == CONFIG)
		CU(cuLaunchKernelEx(&how, f, l->params, NULL));
	else if (form == CONFIG_EXTRA)
		CU(cuLaunchKernelEx(&how, f, NULL, l->extra));
	else if (form == COOPERATIVE)
		CU(cuLaunchCooperativeKernel(f, g[0], g[1], g[2], 32, 1, 1, 0, s, one.params));
	else if (form == SEVERAL)
		CU(cuLaunchCooperativeKernelMultiDevice(&one, 1, 0));
	else if (form == OLD)
		launch_old(l, f, s);
	else
		CU(cuLaunchKernel(f, g[0], g[1], g[2], 32, 1, 1, 0, s, one.params, NULL));
}

/* The parameters of the n-th launch of a kernel on these words. */
static inline void fill_in(struct call *l, CUdeviceptr out, unsigned kernel, uint32_t n)
{
	uint32_t words = WORDS / 2, width = 3;
	unsigned short by = (unsigned short)(7 + n);

	prepare(l, kernel, kernel == ODD ? 3 : 1);
	if (kernel == LARGE || kernel == BEYOND) {
		seed_words((uint32_t *)(void *)l->packed, l->k->at[1] / 4, n);
		memcpy(l->params[1], &out, sizeof(out));
	} else if (l->k->n) {
		memcpy(l->params[0], &out, sizeof(out));
	}
	if (kernel == CHAIN) {
		memcpy(l->params[1], &words, sizeof(words));
		memcpy(l->params[2], &n, sizeof(n));
	} else if (kernel == ODD) {
		memcpy(l->params[1], &width, sizeof(width));
		memcpy(l->params[2], &by, sizeof(by));
		*(signed char *)l->params[3] = n & 1 ? -3 : 5;
	}
}

static inline void one(struct run *r, unsigned kernel, uint32_t n, enum form form)
{
	struct call l;

	if (!r->f[kernel])
		return;
	fill_in(&l, r->out, kernel, n);
	launch_call(&l, r->f[kernel], r->s, form);
}

static inline void note_out(struct run *r, const char *what)
{
	note_words(r->c, what, r->out, r->s);
	CU(cuStreamSynchronize(r->s));
}

static inline void all_kernels(struct run *r, const char *what, enum form form)
{
	for (uint32_t n = 0; n < 3; n++)
		for (unsigned k = 0; k < KERNELS; k++)
			one(r, k, n, form);
	note_out(r, what);
}

/* --- was it rewritten? --- */

static inline void *own(const char *symbol)
{
	fake_cuda_own_fn *find;

	*(void **)&find = dlsym(RTLD_DEFAULT, "fake_cuda_own");
	if (!find)
		*(void **)&find = dlsym(driver_handle(), "fake_cuda_own");
	return find ? find(symbol) : NULL;
}

/* The driver is told not to take what was rewritten. */
static bool refuses;

/* As of CUDA 13.2: cuGetProcAddress may not have it. What is noted must not depend on that. */
static inline void count_params(CUfunction f, const struct kernel *k, bool kernel_handle)
{
	size_t n = k->n;
	fm_cu_result rc = 0;

	if (kernel_handle && cu.cuKernelGetParamCount)
		rc = cu.cuKernelGetParamCount((CUkernel)f, &n);
	else if (!kernel_handle && cu.cuFuncGetParamCount)
		rc = cu.cuFuncGetParamCount(f, &n);
	if (rc || n != k->n)
		die("%s: %zu parameters, error %d", k->name, n, rc);
}

/* The driver counts three parameters more, which the program is not told of. */
static inline void look(struct conform *c, CUfunction f, const struct kernel *k, bool kernel_handle)
{
	const char *guardian = refuses ? NULL : getenv("FERMATA_GUARDIAN");
	const char *off = getenv("FERMATA_DISABLE");
	const char *symbol = kernel_handle ? "cuKernelGetParamInfo" : "cuFuncGetParamInfo";
	fm_cu_result (*ask)(CUfunction, size_t, size_t *, size_t *) = own(symbol);
	bool more = ask && !ask(f, k->n + 2, &(size_t){0}, &(size_t){0});
	size_t at, size;

	if (off && strcmp(off, "0") != 0)
		guardian = NULL;
	if (ask && more != (guardian && !strcmp(guardian, "1")))
		die("%s is %srewritten", k->name, more ? "" : "not ");
	count_params(f, k, kernel_handle);
	for (unsigned i = 0; i <= k->n; i++) {
		fm_cu_result rc = kernel_handle
					  ? cu.cuKernelGetParamInfo((CUkernel)f, i, &at, &size)
					  : cu.cuFuncGetParamInfo(f, i, &at, &size);

		if (rc)
			note(c, "%s: parameter %u: error %d", k->name, i, rc);
		else
			note(c, "%s: parameter %u: %zu at %zu", k->name, i, size, at);
	}
}

/* --- what is given and taken back --- */

static inline struct run begin_run(struct conform *c)
{
	struct run r = {.c = c, .s = new_stream(CU_STREAM_NON_BLOCKING), .out = new_words(21)};

	return r;
}

static inline void end_run(struct run *r)
{
	CU(cuStreamSynchronize(r->s));
	CU(cuMemFree_v2(r->out));
	CU(cuStreamDestroy_v2(r->s));
}

static inline void functions_of(struct run *r, CUmodule m, bool text)
{
	for (unsigned k = 0; k < KERNELS; k++) {
		CU(cuModuleGetFunction(&r->f[k], m, kernels[k].name));
		if (!text || k != BEYOND)
			look(r->c, r->f[k], &kernels[k], false);
	}
}

static inline void note_ticks(struct run *r, CUmodule m)
{
	CUdeviceptr ticks;
	uint32_t n;
	size_t size;

	CU(cuStreamSynchronize(r->s));
	CU(cuModuleGetGlobal_v2(&ticks, &size, m, "ticks"));
	CU(cuMemcpyDtoH_v2(&n, ticks, sizeof(n)));
	note(r->c, "%u ticks of %zu bytes", n, size);
}

static inline void *read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *data;
	long size;

	if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0)
		die("%s: cannot be read", path);
	rewind(f);
	data = calloc(1, (size_t)size + 1);
	if (!data || fread(data, 1, (size_t)size, f) != (size_t)size)
		die("%s: cannot be read", path);
	fclose(f);
	return data;
}

static inline CUmodule load_module(const char *path)
{
	void *image = read_file(path);
	CUmodule m;

	CU(cuModuleLoadData(&m, image));
	free(image);
	return m;
}
