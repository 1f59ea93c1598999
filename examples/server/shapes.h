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

/* A block makes so many rows and columns, and reads so many of what it adds up at a time. */
#define CONV_ROWS    32
#define CONV_COLUMNS 64
#define CONV_STEP    16
#define CONV_THREADS 128

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
