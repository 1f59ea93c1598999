/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions of the convolution, after REEF's kernel selection: they are measured for each layer when
 * the server starts; those that another one dominates are never launched; and of the others each
 * launch takes the shortest one that fits in what urgent models leave free at that moment.
 */
#pragma once
#include "shapes.h"
#include <fermata/cuda.h> /* Fermata */
#include <stdatomic.h>

struct model;
struct device;
struct CUstream_st;

struct versions {
	unsigned n;                                      /* of one layer; 0: it has none */
	unsigned kernel[CONV_N_VERSIONS];                /* which one; see CONV_VERSIONS */
	struct fm_cuda_version version[CONV_N_VERSIONS]; /* Fermata */
	unsigned fastest;                                /* of these, alone on the whole device */
};

extern const char *const version_names[CONV_N_VERSIONS];

int versions_find(const char *name); /* or -1 */
/* All layers have this one alone. */
void versions_set(struct model *m, unsigned kernel);
/* Measures all layers. The model is loaded, and the device has nothing else to do. */
const char *versions_measure(struct model *m, const struct device *d);
/* What an urgent model's kernel takes, on average; 0: there is none. */
uint64_t versions_kernel_ns(const struct model *m);
/* Which kernel to launch into the stream. block_ns: what a block may take at most beside urgent
 * work; 0: any. NULL for a stream where nobody stops anything, or of which a graph is made. */
unsigned versions_choose(const struct versions *v, struct CUstream_st *s, uint64_t block_ns);
