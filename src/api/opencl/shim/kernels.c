/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: the arguments that the program sets, and twins with the same arguments. */
#include "code/opencl/pass/guardian.h"
#include "objects.h"
#include <stdlib.h>
#include <string.h>

#define NEXT fm_cl_layer.next

static void free_args(struct fm_opencl_kernel *k)
{
	for (cl_uint i = 0; k->args && i < k->n_args; i++)
		if (!k->args[i].svm)
			free(k->args[i].value);
	for (unsigned i = 0; i < FM_OPENCL_INFOS; i++)
		free(k->info[i].value);
	free(k->args);
}

void fm_opencl_kernel_unref(struct fm_opencl_kernel *k)
{
	if (atomic_fetch_sub(&k->object.refs, 1) != 1)
		return;
	for (unsigned i = 0; i < FM_OPENCL_SPARES; i++)
		if (k->spare[i])
			NEXT.clReleaseKernel(k->spare[i]);
	fm_opencl_program_unref(k->program);
	pthread_mutex_destroy(&k->lock);
	free_args(k);
	free(k->name);
	free(k);
}

struct fm_opencl_kernel *fm_opencl_kernel_find(cl_kernel kernel)
{
	struct fm_opencl_object *o = fm_opencl_table_find(kernel);

	return o ? fm_container(o, struct fm_opencl_kernel, object) : NULL;
}

static char *name_of(cl_kernel kernel)
{
	size_t size = 0;
	char *name;

	if (NEXT.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 0, NULL, &size) || !size)
		return NULL;
	name = calloc(1, size + 1);
	if (name)
		NEXT.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, size, name, NULL);
	return name;
}

/* Takes over the reference of p. NULL: the kernel will be unknown, so it is never guarded. */
static struct fm_opencl_kernel *enter(cl_kernel kernel, struct fm_opencl_program *p)
{
	struct fm_opencl_kernel *k = calloc(1, sizeof(*k));
	bool ok = k;

	if (ok) {
		k->name = name_of(kernel);
		ok = k->name && NEXT.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(k->n_args),
					&k->n_args, NULL) == CL_SUCCESS;
		k->args = ok ? calloc(k->n_args + 1, sizeof(*k->args)) : NULL;
		ok = k->args;
	}
	if (!ok) {
		if (k)
			free(k->name);
		free(k);
		fm_opencl_program_unref(p);
		return NULL;
	}
	k->program = p;
	pthread_mutex_init(&k->lock, NULL);
	fm_lock_rank(&k->lock, CL_KERNEL);
	if (fm_opencl_table_enter(&k->object, kernel))
		return k;
	fm_opencl_kernel_unref(k);
	return NULL;
}

static CL_API_ENTRY cl_kernel CL_API_CALL shim_clCreateKernel(
	cl_program program, const char *name, cl_int *err)
{
	cl_kernel kernel = NEXT.clCreateKernel(program, name, err);
	struct fm_opencl_program *p = kernel ? fm_opencl_program_find(program) : NULL;

	if (p)
		enter(kernel, p);
	return kernel;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clCreateKernelsInProgram(
	cl_program program, cl_uint n, cl_kernel *kernels, cl_uint *n_ret)
{
	cl_uint made = 0;
	cl_int rc = NEXT.clCreateKernelsInProgram(program, n, kernels, &made);

	if (n_ret && rc == CL_SUCCESS)
		*n_ret = made;
	for (cl_uint i = 0; rc == CL_SUCCESS && kernels && i < FM_MIN(n, made); i++) {
		struct fm_opencl_program *p = fm_opencl_program_find(program);

		if (p)
			enter(kernels[i], p);
	}
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clRetainKernel(cl_kernel kernel)
{
	cl_int rc = NEXT.clRetainKernel(kernel);

	if (rc == CL_SUCCESS)
		fm_opencl_table_hold(kernel);
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clReleaseKernel(cl_kernel kernel)
{
	struct fm_opencl_object *o = fm_opencl_table_leave(kernel);

	if (o)
		fm_opencl_kernel_unref(fm_container(o, struct fm_opencl_kernel, object));
	return NEXT.clReleaseKernel(kernel);
}

/* Keeps a copy of an argument. Lock held. */
static void keep(struct fm_opencl_arg *a, size_t size, const void *value)
{
	void *to = a->svm || a->size != size || !value ? NULL : a->value;

	if (!a->svm && a->value != to)
		free(a->value);
	if (value && !to)
		to = malloc(size + !size);
	a->svm = false;
	a->size = size;
	a->value = to;
	a->set = to || !value;
	if (to)
		memcpy(to, value, size);
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clSetKernelArg(
	cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
	cl_int rc = NEXT.clSetKernelArg(kernel, index, size, value);
	struct fm_opencl_kernel *k = rc == CL_SUCCESS ? fm_opencl_kernel_find(kernel) : NULL;

	if (!k)
		return rc;
	pthread_mutex_lock(&k->lock);
	if (index < k->n_args)
		keep(&k->args[index], size, value);
	pthread_mutex_unlock(&k->lock);
	fm_opencl_kernel_unref(k);
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clSetKernelArgSVMPointer(
	cl_kernel kernel, cl_uint index, const void *value)
{
	cl_int rc = NEXT.clSetKernelArgSVMPointer(kernel, index, value);
	struct fm_opencl_kernel *k = rc == CL_SUCCESS ? fm_opencl_kernel_find(kernel) : NULL;

	if (!k)
		return rc;
	pthread_mutex_lock(&k->lock);
	if (index < k->n_args) {
		if (!k->args[index].svm)
			free(k->args[index].value);
		k->args[index] = (struct fm_opencl_arg){
			.set = true, .svm = true, .value = (void *)(uintptr_t)value};
	}
	pthread_mutex_unlock(&k->lock);
	fm_opencl_kernel_unref(k);
	return rc;
}

/* Lock held. */
static void keep_info(
	struct fm_opencl_kernel *k, cl_kernel_exec_info name, size_t size, const void *value)
{
	unsigned i = 0;

	while (i < FM_OPENCL_INFOS && k->info[i].value && k->info[i].name != name)
		i++;
	if (i < FM_OPENCL_INFOS) {
		free(k->info[i].value);
		k->info[i] = (struct fm_opencl_info){name, size, malloc(size + !size)};
	}
	if (i == FM_OPENCL_INFOS || !k->info[i].value)
		k->why = "kernel settings";
	else if (size)
		memcpy(k->info[i].value, value, size);
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clSetKernelExecInfo(
	cl_kernel kernel, cl_kernel_exec_info name, size_t size, const void *value)
{
	cl_int rc = NEXT.clSetKernelExecInfo(kernel, name, size, value);
	struct fm_opencl_kernel *k = rc == CL_SUCCESS ? fm_opencl_kernel_find(kernel) : NULL;

	if (!k)
		return rc;
	pthread_mutex_lock(&k->lock);
	keep_info(k, name, size, value);
	pthread_mutex_unlock(&k->lock);
	fm_opencl_kernel_unref(k);
	return rc;
}

static void copy_args(struct fm_opencl_kernel *to, struct fm_opencl_kernel *from)
{
	pthread_mutex_lock(&from->lock);
	pthread_mutex_lock(&to->lock);
	for (cl_uint i = 0; i < FM_MIN(to->n_args, from->n_args); i++) {
		if (from->args[i].svm)
			to->args[i] = from->args[i];
		else if (from->args[i].set)
			keep(&to->args[i], from->args[i].size, from->args[i].value);
	}
	for (unsigned i = 0; i < FM_OPENCL_INFOS; i++)
		if (from->info[i].value)
			keep_info(to, from->info[i].name, from->info[i].size, from->info[i].value);
	pthread_mutex_unlock(&to->lock);
	pthread_mutex_unlock(&from->lock);
}

static CL_API_ENTRY cl_kernel CL_API_CALL shim_clCloneKernel(cl_kernel source, cl_int *err)
{
	cl_kernel kernel = NEXT.clCloneKernel(source, err);
	struct fm_opencl_kernel *from = kernel ? fm_opencl_kernel_find(source) : NULL, *to;

	if (!from)
		return kernel;
	atomic_fetch_add(&from->program->object.refs, 1);
	to = enter(kernel, from->program);
	if (to)
		copy_args(to, from);
	fm_opencl_kernel_unref(from);
	return kernel;
}

/* Was this kernel rewritten? Then its last parameters are the guardian's. */
static bool is_rewritten(const struct fm_opencl_kernel *k, cl_kernel twin)
{
	cl_uint n = 0;

	if (NEXT.clGetKernelInfo(twin, CL_KERNEL_NUM_ARGS, sizeof(n), &n, NULL) ||
		n != k->n_args + FM_GUARDIAN_PARAMS)
		return false;
	for (cl_uint i = 0; i < FM_GUARDIAN_PARAMS; i++) {
		char name[64] = "";

		if (NEXT.clGetKernelArgInfo(
			    twin, k->n_args + i, CL_KERNEL_ARG_NAME, sizeof(name), name, NULL) ||
			strcmp(name, fm_guardian_param[i]) != 0)
			return false;
	}
	return true;
}

/* A kernel of the rewritten program. */
static cl_kernel new_twin(struct fm_opencl_kernel *k)
{
	cl_program program = fm_opencl_twin(k->program, &k->why);
	cl_kernel twin;
	cl_int rc;

	if (!program)
		return NULL;
	twin = NEXT.clCreateKernel(program, k->name, &rc);
	if (twin && is_rewritten(k, twin))
		return twin;
	if (twin)
		NEXT.clReleaseKernel(twin);
	k->why = fm_guardian_reason(FM_GUARDIAN_NO_KERNEL);
	return NULL;
}

static bool set_args(const struct fm_opencl_kernel *k, cl_kernel twin)
{
	cl_int rc = CL_SUCCESS;

	for (cl_uint i = 0; i < k->n_args && !rc; i++) {
		const struct fm_opencl_arg *a = &k->args[i];

		if (!a->set)
			return false;
		rc = a->svm ? NEXT.clSetKernelArgSVMPointer(twin, i, a->value)
			    : NEXT.clSetKernelArg(twin, i, a->size, a->value);
	}
	for (unsigned i = 0; i < FM_OPENCL_INFOS && k->info[i].value && !rc; i++)
		rc = NEXT.clSetKernelExecInfo(
			twin, k->info[i].name, k->info[i].size, k->info[i].value);
	return !rc;
}

cl_kernel fm_opencl_kernel_borrow(struct fm_opencl_kernel *k, const char **why)
{
	cl_kernel twin = NULL;

	pthread_mutex_lock(&k->lock);
	for (unsigned i = 0; i < FM_OPENCL_SPARES && !twin; i++)
		twin = atomic_exchange(&k->spare[i], NULL);
	if (!twin && !k->why)
		twin = new_twin(k);
	*why = k->why;
	if (twin && (k->why || !set_args(k, twin))) {
		NEXT.clReleaseKernel(twin);
		twin = NULL;
		*why = k->why ? k->why : "arguments";
	}
	pthread_mutex_unlock(&k->lock);
	return twin;
}

void fm_opencl_kernel_return(struct fm_opencl_kernel *k, cl_kernel twin)
{
	for (unsigned i = 0; i < FM_OPENCL_SPARES && twin; i++) {
		cl_kernel none = NULL;

		if (atomic_compare_exchange_strong(&k->spare[i], &none, twin))
			twin = NULL;
	}
	if (twin)
		NEXT.clReleaseKernel(twin);
	fm_opencl_kernel_unref(k);
}

void fm_opencl_kernels(cl_icd_dispatch *own)
{
#define CODE_kernel FM_CL_ENTRY
#define CODE_program(symbol)
#define ON_code(symbol, per_thread, name, since, note, params, of) CODE_##of(symbol)
#include "api/opencl/calls.def"
}
