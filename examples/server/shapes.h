/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels are told of a layer: the same for nvcc and for the compiler of the server. */
#pragma once

/* A convolution as a product of matrices: a row for each place of the output, a column for each of
 * its channels. A fully connected layer is one of a single place. */
struct conv_shape {
	unsigned batch, height, width, inputs; /* of what comes in; channels lie together */
	unsigned outputs;                      /* channels */
	unsigned kernel, stride;               /* kernel: odd; the border is padded by its half */
	unsigned depth;                        /* products that a block adds up: CONV_STEP * n */
};

/* A block makes so many rows and columns, a thread 16 of them, and reads so many of what it adds up
 * at a time. */
#define CONV_ROWS             32
#define CONV_COLUMNS          64
#define CONV_STEP             16
#define CONV_THREADS          CONV_THREADS_OF(CONV_ROWS, CONV_COLUMNS)
#define CONV_THREADS_OF(r, c) ((r) * (c) / 16)

/* The kernel in several versions: X(name, rows, columns). They compute the same bit by bit, since
 * each number is a sum of its own. The first one is the usual one. */
#define CONV_VERSIONS(X)                     \
	X(net_conv, CONV_ROWS, CONV_COLUMNS) \
	X(net_conv_64x64, 64, 64)            \
	X(net_conv_32x32, 32, 32)            \
	X(net_conv_16x32, 16, 32)
#define CONV_N_VERSIONS 4

/* Adds the parts of a convolution that several blocks made. */
struct finish_shape {
	unsigned count;   /* numbers */
	unsigned outputs; /* channels: number i is of channel i % outputs */
	unsigned parts;
	unsigned relu;
};

/* Pictures that are made smaller, or averaged away. */
struct pool_shape {
	unsigned batch, height, width, channels;
};

/* Of the one picture in a request, a batch. */
struct input_shape {
	unsigned count; /* bytes of the picture */
	unsigned batch;
};

/* All but the convolution: a thread for each number. */
#define EACH_THREADS 256
