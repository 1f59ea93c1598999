/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the room: what is kept of the program's programs and kernels for level 3. The objects
 * themselves are the driver's, and the program sees those; beside each program there may be one of
 * ours from the rewritten source, its *twin*, with kernels of our own, whose arguments are set as
 * the program has set its own.
 *
 * An object lives as long as the program holds it, or a launch needs it: counted references. Locks:
 * the table's is held for look-ups alone; a program's while its twin is built; a kernel's while its
 * arguments are copied. The latter two are held over calls of the driver, and never taken in its
 * callbacks.
 */
#pragma once
#include "layer.h"

/* Why there is no text: the one reason that is told of short kernels, too, since what they are part
 * of will never be guarded, and a program may do something about it. */
#define FM_SHIM_FROM_BINARY "from binary"

/* Looked up by handle. */
struct fm_shim_object {
	struct fm_list link;
	uintptr_t handle;
	_Atomic unsigned refs;
	unsigned holds; /* the program's; under the table's lock */
};

struct fm_shim_program {
	struct fm_shim_object object;

	pthread_mutex_t lock; /* all below */
	char *source, *options;
	char *made_with; /* the options of the build whose binary this is; else NULL */
	size_t len;
	cl_uint n_devices;
	cl_device_id *devices;
	bool built, tried; /* the driver's, ours */
	cl_program twin;   /* NULL: none, for the reason in why */
	const char *why;
};

struct fm_shim_arg {
	bool set, svm;
	size_t size;
	void *value; /* of size bytes; an SVM pointer itself; NULL: local memory of size bytes */
};

/* What the program told by clSetKernelExecInfo. */
struct fm_shim_info {
	cl_kernel_exec_info name;
	size_t size;
	void *value;
};
#define FM_SHIM_INFOS 4

#define FM_SHIM_SPARES 4 /* kernels of the twin that are kept for later launches */

struct fm_shim_kernel {
	struct fm_shim_object object;
	struct fm_shim_program *program;
	char *name;
	cl_uint n_args;

	pthread_mutex_t lock; /* all below */
	struct fm_shim_arg *args;
	struct fm_shim_info info[FM_SHIM_INFOS];
	const char *why; /* not guarded, for this reason; NULL: not known yet, or it is */
	uint64_t last_key;
	double last_items, ns_per_item; /* of kinds seen: what a new one may take */

	_Atomic(cl_kernel) spare[FM_SHIM_SPARES];
};

/* table.c. find takes a reference; leave takes away one hold, and with the last the object is out:
 * it is
 * returned, with the table's reference for the caller to give back. */
void fm_shim_table_enter(struct fm_shim_object *o, const void *handle);
struct fm_shim_object *fm_shim_table_find(const void *handle);
void fm_shim_table_hold(const void *handle);
struct fm_shim_object *fm_shim_table_leave(const void *handle);

/* programs.c, kernels.c: each looked up with a reference, to be given back. NULL: not known. */
struct fm_shim_program *fm_shim_program_find(cl_program program);
void fm_shim_program_unref(struct fm_shim_program *p);
struct fm_shim_kernel *fm_shim_kernel_find(cl_kernel kernel);
void fm_shim_kernel_unref(struct fm_shim_kernel *k);

/* The twin, built at the first call; NULL: none, and why. */
cl_program fm_shim_twin(struct fm_shim_program *p, const char **why);

/* sources.c. The program asked for these binaries, one for each of n devices; NULL: not for that.
 */
void fm_shim_source_keep(struct fm_shim_program *p, unsigned char *const *binaries, size_t n);

struct fm_shim_source {
	char *options, *text; /* the caller's */
	size_t len;
};

/* What all of these binaries were made of, if that is known. */
bool fm_shim_source_find(const cl_device_id *devices, const size_t *sizes,
	const unsigned char *const *binaries, cl_uint n, struct fm_shim_source *out);

/* A kernel of the twin with the program's arguments, to be given back by fm_shim_kernel_return().
 * NULL: none, and why. */
cl_kernel fm_shim_kernel_borrow(struct fm_shim_kernel *k, const char **why);
void fm_shim_kernel_return(struct fm_shim_kernel *k, cl_kernel twin);
