/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: an image in a context, with the variables that it has there. */
#include "capacity.h"
#include "image.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct CUmod_st {
	struct CUmod_st *next;
	CUcontext ctx;
	CUlibrary library; /* whose it is, or NULL */
	struct fk_image *image;
	struct fk_variables *variables;
	uint64_t bytes;              /* of the device that it takes */
	struct CUfunc_st function[]; /* one for each kernel of the image */
};

static CUmodule modules;

struct fk_image *fk_module_image(CUmodule m)
{
	return m->image;
}

struct fk_variables *fk_module_variables(CUmodule m)
{
	return m->variables;
}

CUfunction fk_module_function(CUmodule m, unsigned i)
{
	return &m->function[i];
}

/* --- variables --- */

void fk_variables_put(struct fk_variables *v)
{
	if (!v || atomic_fetch_sub(&v->refs, 1) != 1)
		return;
	for (unsigned i = 0; i < v->n; i++)
		free(v->variable[i].at);
	free(v->launched);
	free(v);
}

void *fk_variable_if(const struct fk_launch *l, const char *name)
{
	struct fk_variables *v = l->variables;

	for (unsigned i = 0; i < v->n; i++)
		if (!strcmp(v->variable[i].name, name))
			return v->variable[i].at;
	return NULL;
}

void *fk_variable(const struct fk_launch *l, const char *name)
{
	void *at = fk_variable_if(l, name);

	if (at)
		return at;
	fk_die("%s looks for a variable '%s' that its image lacks", l->entry->name, name);
}

static void drop_variables(struct fk_variables *v)
{
	for (unsigned i = 0; i < v->n; i++)
		fk_memory_static_gone(v->variable[i].at);
	fk_variables_put(v);
}

/* NULL: there is no memory. The names are the image's, which is there for as long. */
static struct fk_variables *new_variables(const struct fk_image *image)
{
	size_t n = image->n_variables;
	struct fk_variables *v = calloc(1, sizeof(*v) + n * sizeof(*v->variable));

	if (!v)
		return NULL;
	v->refs = 1;
	v->launched = calloc(image->n + 1, sizeof(*v->launched));
	if (!v->launched)
		fk_die("no memory for functions");
	for (; v->n < n; v->n++) {
		v->variable[v->n].name = image->variable[v->n].name;
		v->variable[v->n].size = image->variable[v->n].size;
		v->variable[v->n].at = fk_memory_static(image->variable[v->n].size);
		if (!v->variable[v->n].at) {
			drop_variables(v);
			return NULL;
		}
	}
	return v;
}

/* --- modules --- */

static CUmodule *find_module(CUmodule module)
{
	CUmodule *m = &modules;

	while (*m && *m != module)
		m = &(*m)->next;
	return m;
}

static bool take_memory(CUmodule m)
{
	const char *given = fk_env("FAKE_CUDA_MODULE");

	m->ctx = fk_ctx();
	m->bytes = given ? fk_bytes(given) : 0;
	return !m->bytes || fk_memory_take(m->ctx->dev, m->bytes);
}

fm_cu_result fk_module_new(struct fk_image *image, CUlibrary library, CUmodule *out)
{
	CUmodule m = calloc(1, sizeof(*m) + image->n * sizeof(*m->function));

	if (!m)
		return CU_OUT_OF_MEMORY;
	m->variables = new_variables(image);
	if (!m->variables) {
		free(m);
		return CU_OUT_OF_MEMORY;
	}
	if (!take_memory(m)) {
		drop_variables(m->variables);
		free(m);
		return CU_OUT_OF_MEMORY;
	}
	m->library = library;
	m->image = image;
	atomic_fetch_add(&image->refs, 1);
	for (unsigned i = 0; i < image->n; i++) {
		m->function[i].entry = &image->entry[i];
		m->function[i].module = m;
	}
	m->next = modules;
	modules = m;
	*out = m;
	fk_watch_loaded(m, m->ctx);
	return FM_CU_SUCCESS;
}

/* What was launched keeps what it needs. */
void fk_module_free(CUmodule m)
{
	*find_module(m) = m->next;
	for (unsigned i = 0; i < m->image->n; i++) {
		free(m->function[i].params);
		fk_memory_give(m->ctx->dev, m->function[i].bytes);
	}
	fk_memory_give(m->ctx->dev, m->bytes);
	drop_variables(m->variables);
	fk_image_put(m->image);
	free(m);
}

void fk_modules_ctx_gone(CUcontext ctx)
{
	CUmodule *m = &modules;

	while (*m)
		if ((*m)->ctx == ctx)
			fk_module_free(*m);
		else
			m = &(*m)->next;
}

CUmodule fk_module_of(CUlibrary library, CUcontext ctx)
{
	CUmodule m = modules;

	while (m && (m->library != library || (ctx && m->ctx != ctx)))
		m = m->next;
	return m;
}

/* Images are copied by whoever loads them, if they are needed any longer. */
fm_cu_result fk_image_of_file(const char *path, struct fk_image **image)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	fm_cu_result rc = CU_FILE_NOT_FOUND;
	struct stat st;
	char *data;

	if (fd < 0)
		return rc;
	data = fstat(fd, &st) ? NULL : calloc(1, (size_t)st.st_size + 1);
	if (data && read(fd, data, (size_t)st.st_size) == st.st_size)
		rc = fk_image_read(data, image);
	free(data);
	close(fd);
	return rc;
}

static fm_cu_result load(CUmodule *module, const void *data, const char *path)
{
	struct fk_image *image;
	fm_cu_result rc;

	FK_TRY(fk_enter_ctx());
	if (fk_ctx()->hw)
		fk_wait_device();
	rc = path ? fk_image_of_file(path, &image) : fk_image_read(data, &image);
	if (rc)
		return fk_leave(rc);
	rc = fk_module_new(image, NULL, module);
	fk_image_put(image);
	return fk_leave(rc);
}

fm_cu_result cuModuleLoad(CUmodule *module, const char *path)
{
	return module && path ? load(module, NULL, path) : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result cuModuleLoadData(CUmodule *module, const void *image)
{
	FK_TRY(fk_fails("cuModuleLoadData"));
	if (fk_env("FAKE_CUDA_LOCK")) {
		FK_TRY(fk_enter_ctx());
		fk_wait_device();
		FK_TRY(fk_leave(FM_CU_SUCCESS));
	}
	return module && image ? load(module, image, NULL) : FM_CU_ERROR_INVALID_VALUE;
}

enum { ERROR_LOG = 5, ERROR_LOG_SIZE = 6 };

/* The size is that of the buffer, and becomes that of what was written. */
static void write_log(const char *text, unsigned n, const int *options, void **values)
{
	void **size = NULL;
	char *log = NULL;

	for (unsigned i = 0; i < n; i++) {
		log = options[i] == ERROR_LOG ? values[i] : log;
		size = options[i] == ERROR_LOG_SIZE ? &values[i] : size;
	}
	if (!size || !log || !*size)
		return;
	snprintf(log, (size_t)*size, "%s", text);
	*size = (void *)(strlen(log) + 1);
}

fm_cu_result cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned n, int *options, void **values)
{
	fm_cu_result rc = cuModuleLoadData(module, image);
	bool guarded = fk.refuse[FAKE_CUDA_GUARDED];

	if (rc)
		write_log(guarded ? "guarded" : "nothing that this driver can load", n, options,
			values);
	return rc;
}

fm_cu_result cuModuleLoadFatBinary(CUmodule *module, const void *fatbin)
{
	return cuModuleLoadData(module, fatbin);
}

static fm_cu_result enter_module(CUmodule module)
{
	FK_TRY(fk_enter_ctx());
	return *find_module(module) ? FM_CU_SUCCESS : fk_leave(CU_INVALID_HANDLE);
}

fm_cu_result cuModuleUnload(CUmodule module)
{
	FK_TRY(enter_module(module));
	if (module->library)
		return fk_leave(CU_NOT_PERMITTED);
	fk_wait_device();
	if (!fk.lost) /* its kernels may be at work still */
		fk_module_free(module);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
	if (!f || !name)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_module(module));
	for (unsigned i = 0; i < module->image->n; i++) {
		if (!strcmp(module->image->entry[i].name, name)) {
			*f = &module->function[i];
			return fk_leave(FM_CU_SUCCESS);
		}
	}
	return fk_leave(CU_NOT_FOUND);
}

fm_cu_result cuModuleGetFunctionCount(unsigned *n, CUmodule module)
{
	if (!n)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_module(module));
	*n = module->image->n;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuModuleEnumerateFunctions(CUfunction *f, unsigned n, CUmodule module)
{
	if (!f && n)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_module(module));
	for (unsigned i = 0; i < n && i < module->image->n; i++)
		f[i] = &module->function[i];
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuModuleGetGlobal_v2(CUdeviceptr *d, size_t *size, CUmodule module, const char *name)
{
	if (!name)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_module(module));
	for (unsigned i = 0; i < module->variables->n; i++) {
		if (strcmp(module->variables->variable[i].name, name))
			continue;
		if (d)
			*d = (uintptr_t)module->variables->variable[i].at;
		if (size)
			*size = module->variables->variable[i].size;
		return fk_leave(FM_CU_SUCCESS);
	}
	return fk_leave(CU_NOT_FOUND);
}

/* --- functions --- */

CUfunction fk_function(CUfunction f)
{
	for (CUmodule m = modules; m; m = m->next)
		if (f >= m->function && f < m->function + m->image->n)
			return f;
	return fk_kernel_function(f);
}

static fm_cu_result enter_function(CUfunction f)
{
	FK_TRY(fk_enter_ctx());
	return f && fk_function(f) == f ? FM_CU_SUCCESS : fk_leave(CU_INVALID_HANDLE);
}

fm_cu_result cuFuncGetModule(CUmodule *module, CUfunction f)
{
	if (!module)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_function(f));
	*module = f->module;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuFuncGetName(const char **name, CUfunction f)
{
	if (!name)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(enter_function(f));
	*name = f->entry->name;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result fk_param_info(const struct fk_entry *e, size_t i, size_t *at, size_t *size)
{
	if (i >= e->n_params || !at)
		return FM_CU_ERROR_INVALID_VALUE;
	*at = e->param[i].at;
	if (size)
		*size = e->param[i].size;
	return FM_CU_SUCCESS;
}

fm_cu_result cuFuncGetParamInfo(CUfunction f, size_t i, size_t *at, size_t *size)
{
	fm_cu_result rc;

	FK_TRY(fk_fails(__func__));
	FK_TRY(enter_function(f));
	rc = fk_load_code(f, true);
	return fk_leave(rc ? rc : fk_param_info(f->entry, i, at, size));
}

fm_cu_result cuFuncGetParamCount(CUfunction f, size_t *n)
{
	FK_TRY(enter_function(f));
	*n = f->entry->n_params;
	return fk_leave(FM_CU_SUCCESS);
}

enum { MAX_THREADS, SHARED, CONSTANT, LOCAL, REGS, PTX, BINARY, CACHE, DYNAMIC };

/* In bytes, with what is static: unless asked for more, and at most. */
enum { SHARED_USUAL = 48 * 1024, SHARED_MOST = 227 * 1024 };

unsigned fk_dynamic_most(CUfunction f)
{
	return f->dynamic ? f->dynamic : SHARED_USUAL - f->entry->shared;
}

/* As for machine code of this device. */
fm_cu_result fk_attribute(const struct fk_entry *e, int which, int *value)
{
	if (!value || which < 0 || which > 15)
		return FM_CU_ERROR_INVALID_VALUE;
	*value = 0;
	if (which == MAX_THREADS)
		*value = e->max_threads ? (int)e->max_threads : 1024;
	else if (which == SHARED)
		*value = (int)e->shared;
	else if (which == REGS)
		*value = (int)e->regs;
	else if (which == PTX || which == BINARY)
		*value = FK_SM;
	else if (which == DYNAMIC)
		*value = (int)(SHARED_USUAL - e->shared);
	return FM_CU_SUCCESS;
}

fm_cu_result fk_set_attribute(const struct fk_entry *e, int which, int value, unsigned *dynamic)
{
	if (which < 0 || which > 15 || value < 0)
		return FM_CU_ERROR_INVALID_VALUE;
	if (which == DYNAMIC && (unsigned)value + e->shared > SHARED_MOST)
		return FM_CU_ERROR_INVALID_VALUE;
	if (which == DYNAMIC)
		*dynamic = (unsigned)value;
	return FM_CU_SUCCESS;
}

fm_cu_result cuFuncGetAttribute(int *value, int which, CUfunction f)
{
	fm_cu_result rc;

	FK_TRY(enter_function(f));
	fk_hw_load(f);
	rc = fk_attribute(f->entry, which, value);
	if (!rc && which == DYNAMIC)
		*value = (int)fk_dynamic_most(f);
	return fk_leave(rc);
}

fm_cu_result cuFuncSetAttribute(CUfunction f, int which, int value)
{
	FK_TRY(enter_function(f));
	return fk_leave(fk_set_attribute(f->entry, which, value, &f->dynamic));
}

fm_cu_result cuFuncSetCacheConfig(CUfunction f, int config)
{
	FK_TRY(enter_function(f));
	return fk_leave(config < 0 || config > 3 ? FM_CU_ERROR_INVALID_VALUE : FM_CU_SUCCESS);
}

/* What the first launch of a function does is another matter (hwqueues.c): where it waits for the
 * device, it is since code is loaded then. */
fm_cu_result cuModuleGetLoadingMode(int *mode)
{
	const char *first = fk_env("FAKE_CUDA_FIRST");
	bool late = fk_env("FAKE_CUDA_NARROW") && (!first || !strcmp(first, "wait"));

	*mode = late ? 2 : 1; /* CU_MODULE_LAZY_LOADING, _EAGER_ */
	return FM_CU_SUCCESS;
}

fm_cu_result cuFuncIsLoaded(int *loaded, CUfunction f)
{
	FK_TRY(enter_function(f));
	*loaded = 1;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuFuncLoad(CUfunction f)
{
	FK_TRY(enter_function(f));
	fk_hw_load(f);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *n, CUfunction f, int threads, size_t shared)
{
	FK_TRY(enter_function(f));
	if (!n || threads < 1 || threads > 1024)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*n = 2048 / ((threads + 31) / 32 * 32);
	return fk_leave(FM_CU_SUCCESS);
}
