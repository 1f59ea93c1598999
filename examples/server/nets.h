/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks: chains of layers, of the shapes of well-known ones, with weights that are made up. What
 * they say is of no use; how they load a device is as the originals do in single precision.
 */
#pragma once
#include "shapes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_LAYERS  96
#define NET_BUFFERS 4
#define NET_NONE    (-1)

enum layer_kind { LAYER_CONV, LAYER_POOL, LAYER_MEAN };

struct layer {
	enum layer_kind kind;
	int from, to, residual; /* buffers; residual: added to what a convolution makes, or NONE */
	bool relu;
	struct conv_shape shape; /* of the others: what comes in, and outputs = inputs */
	uint64_t rows;           /* of the output */
	unsigned parts;          /* of a convolution's sums */
	uint64_t weights, bias;  /* where they begin among all weights, in floats */
};

/* What a network is made from; 0: what is usual. */
struct net_options {
	unsigned batch; /* 1 */
	unsigned size;  /* pictures of size by size; mlp: vectors in a request */
	unsigned width; /* channels of the first stage; mlp: of a vector */
	unsigned depth; /* see struct conv_shape: how long a block takes */
};

struct net {
	const char *kind;
	struct net_options o;
	struct layer layer[NET_LAYERS];
	unsigned layers;
	uint64_t input;               /* bytes of one picture */
	uint64_t buffer[NET_BUFFERS]; /* sizes, in floats */
	uint64_t part;                /* of the largest sum in parts */
	uint64_t weights;             /* of all layers */
	uint64_t output;              /* floats */
	int last;                     /* the buffer with the output */
};

#define NET_CLASSES 1000

/* Of a text "KIND[,batch=N][,size=N][,width=N][,depth=N]". */
const char *net_make(struct net *n, const char *text);

/* Kernels of a request. */
unsigned net_kernels(const struct net *n);
