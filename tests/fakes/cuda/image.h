/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of code as the driver takes them: an ELF, a fatbin, or PTX. What counts of one are the
 * names of its kernels, which kernels.c has in C, what their parameters are, and whether a guardian
 * stands in front of them (src/device/guardian.ptx). Nothing here is of the code under
 * test: who rewrites wrongly is found out.
 */
#pragma once
#include "fake.h"
#include <stddef.h>

#define FK_SM 90 /* of all devices */

struct fk_param {
	unsigned at, size;
};

/* A kernel of an image. */
struct fk_entry {
	char *name;
	const struct fk_kernel *kernel; /* NULL: nobody knows what it does */
	unsigned n_params, bytes;       /* those of a guardian included */
	struct fk_param *param;
	bool guarded;  /* the last three parameters are a guardian's */
	bool waits;    /* which waits for what is in front of the launch */
	bool knows;    /* has instructions of its own about kernels that begin early */
	bool polls;    /* and its loops look at the stop word */
	bool kills;    /* likewise, and its blocks end there */
	bool launches; /* it calls cudaGraphLaunch */
	unsigned regs, shared, max_threads;
};

/* A variable of the device. */
struct fk_variable {
	char *name;
	size_t size;
};

/* Shared by modules and launches. */
struct fk_image {
	_Atomic unsigned refs;
	unsigned n, n_variables;
	struct fk_entry *entry;
	struct fk_variable *variable;
};

#define FK_GUARD_PARAMS 3

fm_cu_result fk_image_read(const void *image, struct fk_image **out);
void fk_image_put(struct fk_image *image);

fm_cu_result fk_image_of_file(const char *path, struct fk_image **out);
fm_cu_result fk_param_info(const struct fk_entry *e, size_t i, size_t *at, size_t *size);
fm_cu_result fk_attribute(const struct fk_entry *e, int which, int *value);
fm_cu_result fk_set_attribute(const struct fk_entry *e, int which, int value, unsigned *dynamic);
unsigned fk_dynamic_most(CUfunction f);

/* For who reads: a new one of its kind, all zero. NULL: there is no more memory. */
struct fk_entry *fk_image_entry(struct fk_image *image, const char *name, size_t len);
bool fk_image_variable(struct fk_image *image, const char *name, size_t len, size_t size);
bool fk_entry_param(struct fk_entry *e, unsigned at, unsigned size);

/* elf.c, ptx.c: into an image that is empty. */
size_t fk_elf_size(const unsigned char *elf);
fm_cu_result fk_elf_read(const unsigned char *elf, size_t size, struct fk_image *out);
/* Functions that are elsewhere must have been linked to it, which is said at its end. */
#define FK_LINKED "\n// linked\n"
fm_cu_result fk_ptx_read(const char *text, struct fk_image *out);
