/* SPDX-License-Identifier: Apache-2.0 */
/* A network on a device, with room for so many requests at a time. */
#pragma once
#include "device.h"
#include "nets.h"
#include "versions.h"

#define MODEL_NAME 32

/* The kernels of all models. image: PTX, a cubin or a fatbin; NULL: the PTX that is built in. */
struct kernels {
	CUfunction conv[CONV_N_VERSIONS], finish, pool, mean, input;
};
const char *kernels_load(struct kernels *k, const void *image);

struct answer {
	uint64_t digest; /* of all that the network said, bit by bit */
	unsigned class;  /* what it takes the first picture for */
};

/* For one request at a time. */
struct room {
	CUdeviceptr part, input, buffer[NET_BUFFERS];
	void *host_input; /* pinned */
	float *host_output;
	CUgraphExec graph; /* of the layers, for launchers that take one; NULL: not yet */
	bool warm;         /* all kernels have been launched before */
};

#define MODEL_ROOMS 2

struct model {
	char name[MODEL_NAME];
	struct net net;
	const struct kernels *kernels;
	CUdeviceptr weights;
	struct room room[MODEL_ROOMS];
	struct versions versions[NET_LAYERS]; /* none, unless they are measured */
	_Atomic uint64_t launched[CONV_N_VERSIONS];
};

/* The device is current to the thread. A model that did not load is to be freed, too. */
const char *model_load(struct model *m, const struct kernels *k, unsigned rooms);
void model_free(struct model *m);

/* Where the next layer of a request goes: asked before each. */
struct launcher {
	const char *(*stream)(void *ctx, CUstream *stream);
	void *ctx;
	unsigned room;     /* of the model's */
	bool graph;        /* all layers at once, in one graph: the stream is always the same */
	bool chooses;      /* among versions of kernels, for each launch */
	uint64_t block_ns; /* what their blocks may take at most beside urgent work; 0: any */
	CUevent asleep; /* to wait for the answer with; NULL: the thread looks for it all the time
			 */
};

/* A request, from picture to answer; by one thread at a time for each room. The picture is made
 * from a number. */
const char *model_run(
	struct model *m, const struct launcher *l, uint32_t picture, struct answer *answer);

/* A layer that is a convolution, by that kernel of CONV_VERSIONS: launches it; and tells its grid
 * and how many threads a block has. */
const char *model_conv(
	const struct model *m, struct room *r, const struct layer *l, unsigned kernel, CUstream s);
unsigned model_conv_shape(const struct layer *l, unsigned kernel, unsigned grid[3]);
