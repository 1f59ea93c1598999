/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the module: what level 3 needs to know of the application's programs and kernels. The
 * application only sees the driver's objects. A program can have a *twin*, built by the layer from
 * the rewritten source. Kernels of the twin get the same arguments as the application's kernels.
 *
 * An object here lives for as long as the application holds its handle or a launch needs it
 * (counted references).
 *
 * Owns: these objects, and the twins.
 * Locks: that of the table is held during look-ups only, that of a program while its twin is built,
 * and that of a kernel while its arguments are copied. The latter two are held during calls of the
 * driver, so the driver's callbacks never take them.
 * Threads: any of the application's.
 */
#pragma once
#include "base/lockorder.h"
#include "layer.h"

/* The only reason that is counted for short kernels, too: no kernel of such a program will ever be
 * guarded, and its author can do something about it. */
#define FM_OPENCL_FROM_BINARY "from binary"

/* Looked up by handle. */
struct fm_opencl_object {
	uintptr_t handle;
	_Atomic unsigned refs;
	unsigned holds; /* references of the application; under the table's lock */
};

struct fm_opencl_program {
	struct fm_opencl_object object;

	pthread_mutex_t lock; /* all below */
	char *source, *options;
	char *made_with; /* if the program was made of a binary: the options of its build */
	size_t len;
	cl_uint n_devices;
	cl_device_id *devices;
	bool built, tried; /* the program is built; a twin was tried */
	cl_program twin;   /* NULL: there is none, for the reason in why */
	const char *why;
};

struct fm_opencl_arg {
	bool set, svm;
	size_t size;
	void *value; /* of size bytes; an SVM pointer itself; NULL: local memory of size bytes */
};

/* A setting by clSetKernelExecInfo. */
struct fm_opencl_info {
	cl_kernel_exec_info name;
	size_t size;
	void *value;
};
#define FM_OPENCL_INFOS 4

#define FM_OPENCL_SPARES 4 /* kernels of the twin, kept for later launches */

struct fm_opencl_kernel {
	struct fm_opencl_object object;
	struct fm_opencl_program *program;
	char *name;
	cl_uint n_args;

	pthread_mutex_t lock; /* all below */
	struct fm_opencl_arg *args;
	struct fm_opencl_info info[FM_OPENCL_INFOS];
	const char *why; /* the reason why it is not guarded; NULL: it is, or not known yet */
	uint64_t last_key;
	double last_items, ns_per_item; /* of the kinds seen, to estimate a new kind */

	_Atomic(cl_kernel) spare[FM_OPENCL_SPARES];
};

/* table.c. enter keeps the object, with one reference and one hold; false: out of memory, and the
 * caller still owns the reference. find takes a reference. leave takes away one hold; with the last
 * one it removes the object and returns it, and the caller must give back the table's reference. */
bool fm_opencl_table_enter(struct fm_opencl_object *o, const void *handle);
struct fm_opencl_object *fm_opencl_table_find(const void *handle);
void fm_opencl_table_hold(const void *handle);
struct fm_opencl_object *fm_opencl_table_leave(const void *handle);

/* programs.c, kernels.c. A look-up takes a reference for the caller. NULL: unknown. */
struct fm_opencl_program *fm_opencl_program_find(cl_program program);
void fm_opencl_program_unref(struct fm_opencl_program *p);
struct fm_opencl_kernel *fm_opencl_kernel_find(cl_kernel kernel);
void fm_opencl_kernel_unref(struct fm_opencl_kernel *k);

/* The twin, built at the first call. NULL: there is none, and *why is the reason. */
cl_program fm_opencl_twin(struct fm_opencl_program *p, const char **why);

/* sources.c. The application has asked for these binaries, one for each of n devices, or NULL. */
void fm_opencl_source_keep(struct fm_opencl_program *p, unsigned char *const *binaries, size_t n);

struct fm_opencl_source {
	char *options, *text; /* owned by the caller */
	size_t len;
};

/* The source that all of these binaries were made of. False: unknown. */
bool fm_opencl_source_find(const cl_device_id *devices, const size_t *sizes,
	const unsigned char *const *binaries, cl_uint n, struct fm_opencl_source *out);

/* A kernel of the twin with the application's arguments, to be given back by
 * fm_opencl_kernel_return(). NULL: there is none, and *why is the reason. */
cl_kernel fm_opencl_kernel_borrow(struct fm_opencl_kernel *k, const char **why);
void fm_opencl_kernel_return(struct fm_opencl_kernel *k, cl_kernel twin);
