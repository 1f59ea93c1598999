/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: their sources, and the twins that are built from them when first needed. */
#include "code/opencl/pass/guardian.h"
#include "objects.h"
#include <stdlib.h>
#include <string.h>

#define NEXT fm_cl_layer.next

static void forget_build(struct fm_opencl_program *p)
{
	if (p->twin)
		NEXT.clReleaseProgram(p->twin);
	free(p->options);
	free(p->devices);
	p->twin = NULL;
	p->options = NULL;
	p->devices = NULL;
	p->built = p->tried = false;
}

void fm_opencl_program_unref(struct fm_opencl_program *p)
{
	if (atomic_fetch_sub(&p->object.refs, 1) != 1)
		return;
	forget_build(p);
	pthread_mutex_destroy(&p->lock);
	free(p->source);
	free(p->made_with);
	free(p);
}

struct fm_opencl_program *fm_opencl_program_find(cl_program program)
{
	struct fm_opencl_object *o = fm_opencl_table_find(program);

	return o ? fm_container(o, struct fm_opencl_program, object) : NULL;
}

/* Takes over the source. If it has no text, why is the reason. */
static void enter(cl_program program, const struct fm_opencl_source *source, const char *why)
{
	struct fm_opencl_program *p = calloc(1, sizeof(*p));

	if (!p) {
		free(source->text);
		free(source->options);
		return;
	}
	pthread_mutex_init(&p->lock, NULL);
	fm_lock_rank(&p->lock, CL_PROGRAM);
	p->source = source->text;
	p->made_with = source->options;
	p->len = source->len;
	p->why = why;
	if (!fm_opencl_table_enter(&p->object, program))
		fm_opencl_program_unref(p);
}

/* The strings in one piece, as the driver reads them. */
static char *join(cl_uint n, const char *const *strings, const size_t *lengths, size_t *len)
{
	size_t size = 1;
	char *text, *p;

	for (cl_uint i = 0; i < n; i++)
		size += lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
	text = p = malloc(size);
	for (cl_uint i = 0; text && i < n; i++)
		p = mempcpy(p, strings[i], lengths && lengths[i] ? lengths[i] : strlen(strings[i]));
	*len = size - 1;
	return text;
}

static CL_API_ENTRY cl_program CL_API_CALL shim_clCreateProgramWithSource(
	cl_context context, cl_uint n, const char **strings, const size_t *lengths, cl_int *err)
{
	cl_program program = NEXT.clCreateProgramWithSource(context, n, strings, lengths, err);
	struct fm_opencl_source source = {0};

	if (!program)
		return NULL;
	source.text = join(n, (const char *const *)strings, lengths, &source.len);
	enter(program, &source, source.text ? NULL : "no memory");
	return program;
}

static cl_program without(cl_program program, const char *why)
{
	if (program)
		enter(program, &(struct fm_opencl_source){0}, why);
	return program;
}

static CL_API_ENTRY cl_program CL_API_CALL shim_clCreateProgramWithBinary(cl_context context,
	cl_uint n, const cl_device_id *devices, const size_t *lengths,
	const unsigned char **binaries, cl_int *status, cl_int *err)
{
	cl_program program =
		NEXT.clCreateProgramWithBinary(context, n, devices, lengths, binaries, status, err);
	struct fm_opencl_source source;

	if (!program || !fm_opencl_source_find(devices, lengths,
				(const unsigned char *const *)binaries, n, &source))
		return without(program, FM_OPENCL_FROM_BINARY);
	enter(program, &source, NULL);
	return program;
}

static CL_API_ENTRY cl_program CL_API_CALL shim_clCreateProgramWithBuiltInKernels(
	cl_context context, cl_uint n, const cl_device_id *devices, const char *names, cl_int *err)
{
	return without(NEXT.clCreateProgramWithBuiltInKernels(context, n, devices, names, err),
		"built-in kernel");
}

static CL_API_ENTRY cl_program CL_API_CALL shim_clCreateProgramWithIL(
	cl_context context, const void *il, size_t length, cl_int *err)
{
	return without(NEXT.clCreateProgramWithIL(context, il, length, err), "from IL");
}

static CL_API_ENTRY cl_program CL_API_CALL shim_clLinkProgram(cl_context context, cl_uint n,
	const cl_device_id *devices, const char *options, cl_uint inputs, const cl_program *input,
	void(CL_CALLBACK *notify)(cl_program, void *), void *user, cl_int *err)
{
	return without(
		NEXT.clLinkProgram(context, n, devices, options, inputs, input, notify, user, err),
		"linked program");
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clRetainProgram(cl_program program)
{
	cl_int rc = NEXT.clRetainProgram(program);

	if (rc == CL_SUCCESS)
		fm_opencl_table_hold(program);
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clReleaseProgram(cl_program program)
{
	struct fm_opencl_object *o = fm_opencl_table_leave(program);

	if (o)
		fm_opencl_program_unref(fm_container(o, struct fm_opencl_program, object));
	return NEXT.clReleaseProgram(program);
}

/* Included files may change after the build: the twin of such a program is built at once. */
static bool includes(const struct fm_opencl_program *p)
{
	return p->source && memmem(p->source, p->len, "include", 7);
}

/* Lock held. */
static void note_build(
	struct fm_opencl_program *p, cl_uint n, const cl_device_id *devices, const char *options)
{
	forget_build(p);
	p->options = strdup(p->made_with ?: options ?: "");
	p->devices = n ? calloc(n, sizeof(*devices)) : NULL;
	p->built = p->options && (!n || p->devices);
	p->n_devices = n;
	if (p->devices)
		memcpy(p->devices, devices, n * sizeof(*devices));
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clBuildProgram(cl_program program, cl_uint n,
	const cl_device_id *devices, const char *options,
	void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
	struct fm_opencl_program *p = fm_opencl_program_find(program);
	const char *why;
	cl_int rc;

	rc = NEXT.clBuildProgram(program, n, devices, options, notify, user);
	if (!p)
		return rc;
	if (rc == CL_SUCCESS) {
		pthread_mutex_lock(&p->lock);
		note_build(p, n, devices, options);
		pthread_mutex_unlock(&p->lock);
		if (includes(p))
			fm_opencl_twin(p, &why);
	}
	fm_opencl_program_unref(p);
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clGetProgramInfo(
	cl_program program, cl_program_info name, size_t size, void *value, size_t *size_ret)
{
	size_t got = 0;
	cl_int rc = NEXT.clGetProgramInfo(program, name, size, value, &got);
	struct fm_opencl_program *p = rc == CL_SUCCESS && name == CL_PROGRAM_BINARIES && value
					      ? fm_opencl_program_find(program)
					      : NULL;

	if (size_ret && rc == CL_SUCCESS)
		*size_ret = got;
	if (!p)
		return rc;
	fm_opencl_source_keep(p, value, FM_MIN(size, got) / sizeof(unsigned char *));
	fm_opencl_program_unref(p);
	return rc;
}

/* A twin would have its own copies of the program's variables. False: the program has none for
 * sure, on any of its devices. */
static bool has_variables(cl_program program)
{
	cl_device_id devices[64];
	size_t size = 0;

	if (NEXT.clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof(devices), devices, &size))
		return true;
	for (size_t i = 0; i < size / sizeof(*devices); i++) {
		size_t most = 0, used = 0;

		if (NEXT.clGetDeviceInfo(devices[i], CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE,
			    sizeof(most), &most, NULL) ||
			!most)
			continue;
		if (NEXT.clGetProgramBuildInfo(program, devices[i],
			    CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE, sizeof(used), &used,
			    NULL) ||
			used)
			return true;
	}
	return false;
}

static const char *build_text(struct fm_opencl_program *p, const struct fm_guardian_text *t)
{
	static const char more[] = " -cl-kernel-arg-info";
	const char *text = t->text;
	cl_context context = NULL;
	char *options;
	cl_int rc;

	NEXT.clGetProgramInfo(
		(cl_program)p->object.handle, CL_PROGRAM_CONTEXT, sizeof(context), &context, NULL);
	options = malloc(strlen(p->options) + sizeof(more));
	if (!options)
		return "no memory";
	strcpy(stpcpy(options, p->options), more);
	p->twin = NEXT.clCreateProgramWithSource(context, 1, &text, &t->len, &rc);
	if (p->twin &&
		NEXT.clBuildProgram(p->twin, p->n_devices, p->devices, options, NULL, NULL)) {
		NEXT.clReleaseProgram(p->twin);
		p->twin = NULL;
	}
	free(options);
	return p->twin ? NULL : "does not build";
}

static const char *build(struct fm_opencl_program *p)
{
	struct fm_guardian_text text;
	enum fm_guardian_why why;
	const char *reason;

	why = fm_guardian_rewrite(p->source, p->len, p->options, &text);
	if (why)
		return fm_guardian_reason(why);
	reason = has_variables((cl_program)p->object.handle)
			 ? fm_guardian_reason(FM_GUARDIAN_STATICS)
			 : build_text(p, &text);
	free(text.text);
	return reason;
}

cl_program fm_opencl_twin(struct fm_opencl_program *p, const char **why)
{
	cl_program twin;

	pthread_mutex_lock(&p->lock);
	if (p->source && p->built && !p->tried) {
		p->tried = true;
		p->why = build(p);
	}
	twin = p->twin;
	*why = twin ? NULL : p->why ? p->why : "unknown build";
	pthread_mutex_unlock(&p->lock);
	return twin;
}

void fm_opencl_programs(cl_icd_dispatch *own)
{
#define CODE_program FM_CL_ENTRY
#define CODE_kernel(symbol)
#define ON_code(symbol, per_thread, name, since, note, params, of) CODE_##of(symbol)
#include "api/opencl/calls.def"
}
