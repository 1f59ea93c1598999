/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small quantised convolutional network, as inference servers run them: a request copies an image
 * in, passes it through residual blocks of 3x3 convolutions, pools, and copies the logits out. All
 * arithmetic is on integers, so the result is the same bit for bit on every device and on the host.
 */
#pragma once
#include "ocl.h"

#define NET_W      64 /* width of the image; its height is what scales the cost */
#define NET_C      16 /* channels of the first stage; the second has twice as many on half the size */
#define NET_BLOCKS 6 /* residual blocks a stage */
#define NET_CONVS  (2 * 2 * NET_BLOCKS + 1)
#define NET_LOGITS 10
#define NET_INPUTS 4
#define NET_CHAIN  (2 * (5 * NET_BLOCKS) + 6) /* commands of a request */

static const char net_source[] =
	"__kernel void conv3x3(__global const char *in, __global const char *w, __global char "
	"*out,\n"
	"	int cin)\n"
	"{\n"
	"	int x = get_global_id(0), y = get_global_id(1), co = get_global_id(2);\n"
	"	int W = get_global_size(0), H = get_global_size(1), sum = 0;\n"
	"	int l = max(x - 1, 0), r = min(x + 1, W - 1);\n"
	"	for (int ci = 0; ci < cin; ci++)\n"
	"		for (int k = 0; k < 3; k++) {\n"
	"			__global const char *row = in + (ci * H + clamp(y + k - 1, 0, H - "
	"1)) * W;\n"
	"			__global const char *v = w + ((co * cin + ci) * 3 + k) * 3;\n"
	"			sum += row[l] * v[0] + row[x] * v[1] + row[r] * v[2];\n"
	"		}\n"
	"	out[(co * H + y) * W + x] = clamp(sum >> 6, -127, 127);\n"
	"}\n"
	"__kernel void relu(__global char *x)\n"
	"{\n"
	"	size_t i = get_global_id(0);\n"
	"	x[i] = max((int)x[i], 0);\n"
	"}\n"
	"__kernel void add_relu(__global char *x, __global const char *saved)\n"
	"{\n"
	"	size_t i = get_global_id(0);\n"
	"	x[i] = clamp(x[i] + saved[i], 0, 127);\n"
	"}\n"
	"__kernel void pool2x2(__global const char *in, __global char *out)\n"
	"{\n"
	"	int x = get_global_id(0), y = get_global_id(1), c = get_global_id(2);\n"
	"	int W = get_global_size(0), H = get_global_size(1);\n"
	"	__global const char *p = in + (c * 2 * H + 2 * y) * 2 * W + 2 * x;\n"
	"	out[(c * H + y) * W + x] = max(max(p[0], p[1]), max(p[2 * W], p[2 * W + 1]));\n"
	"}\n"
	"__kernel void channel_sum(__global const char *in, __global int *out, int n)\n"
	"{\n"
	"	int c = get_global_id(0), sum = 0;\n"
	"	for (int i = 0; i < n; i++)\n"
	"		sum += in[c * n + i];\n"
	"	out[c] = sum / 64;\n"
	"}\n"
	"__kernel void dense(__global const int *in, __global const char *w, __global int *out, "
	"int n)\n"
	"{\n"
	"	int o = get_global_id(0), sum = 0;\n"
	"	for (int i = 0; i < n; i++)\n"
	"		sum += in[i] * w[o * n + i];\n"
	"	out[o] = sum;\n"
	"}\n";

struct net {
	int h; /* height of the image */
	cl_program program;
	cl_kernel conv, relu, add_relu, pool, sum, dense;
	cl_mem weights[NET_CONVS], dense_weights;
	cl_mem a, b, saved, features, logits;
	signed char *host_weights[NET_CONVS], host_dense[NET_LOGITS * 2 * NET_C];
	signed char *input[NET_INPUTS];
	int expected[NET_INPUTS][NET_LOGITS];
};

static inline size_t net_pixels(const struct net *n)
{
	return (size_t)NET_W * (size_t)n->h;
}

/* Channels in and out of convolution i: those of the first stage, the widening one, the second's.
 */
static inline void net_shape(int i, int *cin, int *cout)
{
	*cin = i <= 2 * NET_BLOCKS ? NET_C : 2 * NET_C;
	*cout = i < 2 * NET_BLOCKS ? NET_C : 2 * NET_C;
}

static inline signed char *net_random(size_t n, uint32_t *seed, int range)
{
	signed char *v = malloc(n);

	if (!v)
		die("out of memory");
	for (size_t i = 0; i < n; i++)
		v[i] = (signed char)((int)(xorshift32(seed) % (uint32_t)(2 * range + 1)) - range);
	return v;
}

static inline void net_host_data(struct net *n)
{
	uint32_t seed = 2463534242u;
	int cin, cout;

	for (int i = 0; i < NET_CONVS; i++) {
		net_shape(i, &cin, &cout);
		n->host_weights[i] = net_random((size_t)(9 * cin * cout), &seed, 7);
	}
	for (size_t i = 0; i < sizeof(n->host_dense); i++)
		n->host_dense[i] = (signed char)((int)(xorshift32(&seed) % 255) - 127);
	for (int i = 0; i < NET_INPUTS; i++)
		n->input[i] = net_random(NET_C * net_pixels(n), &seed, 127);
}

/* h: a multiple of 2. */
static inline void net_open(struct net *n, struct ocl *o, int h)
{
	size_t size;
	int cin, cout;

	*n = (struct net){.h = h};
	size = NET_C * net_pixels(n);
	net_host_data(n);
	n->program = ocl_program(o, net_source);
	n->conv = ocl_kernel(n->program, "conv3x3");
	n->relu = ocl_kernel(n->program, "relu");
	n->add_relu = ocl_kernel(n->program, "add_relu");
	n->pool = ocl_kernel(n->program, "pool2x2");
	n->sum = ocl_kernel(n->program, "channel_sum");
	n->dense = ocl_kernel(n->program, "dense");
	for (int i = 0; i < NET_CONVS; i++) {
		net_shape(i, &cin, &cout);
		n->weights[i] = ocl_buffer(o, (size_t)(9 * cin * cout), n->host_weights[i]);
	}
	n->dense_weights = ocl_buffer(o, sizeof(n->host_dense), n->host_dense);
	n->a = ocl_buffer(o, size, NULL);
	n->b = ocl_buffer(o, size, NULL);
	n->saved = ocl_buffer(o, size, NULL);
	n->features = ocl_buffer(o, 2 * NET_C * sizeof(cl_int), NULL);
	n->logits = ocl_buffer(o, NET_LOGITS * sizeof(cl_int), NULL);
}

static inline void net_close(struct net *n)
{
	cl_mem mems[] = {n->dense_weights, n->a, n->b, n->saved, n->features, n->logits};
	cl_kernel kernels[] = {n->conv, n->relu, n->add_relu, n->pool, n->sum, n->dense};

	for (size_t i = 0; i < sizeof(mems) / sizeof(mems[0]); i++)
		OCL(clReleaseMemObject(mems[i]));
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		OCL(clReleaseKernel(kernels[i]));
	for (int i = 0; i < NET_CONVS; i++) {
		OCL(clReleaseMemObject(n->weights[i]));
		free(n->host_weights[i]);
	}
	for (int i = 0; i < NET_INPUTS; i++)
		free(n->input[i]);
	OCL(clReleaseProgram(n->program));
}

static inline void net_swap(cl_mem *a, cl_mem *b)
{
	cl_mem t = *a;

	*a = *b;
	*b = t;
}

/* One convolution from a to b, which then change names. */
static inline void net_conv(struct net *n, cl_command_queue q, int i, int h, int w)
{
	size_t global[3] = {(size_t)w, (size_t)h, 0}, local[3] = {(size_t)w / 2, 1, 1};
	int cin, cout;

	net_shape(i, &cin, &cout);
	global[2] = (size_t)cout;
	OCL(clSetKernelArg(n->conv, 0, sizeof(n->a), &n->a));
	OCL(clSetKernelArg(n->conv, 1, sizeof(cl_mem), &n->weights[i]));
	OCL(clSetKernelArg(n->conv, 2, sizeof(n->b), &n->b));
	OCL(clSetKernelArg(n->conv, 3, sizeof(cin), &cin));
	OCL(clEnqueueNDRangeKernel(q, n->conv, 3, NULL, global, local, 0, NULL, NULL));
	net_swap(&n->a, &n->b);
}

static inline void net_flat(cl_command_queue q, cl_kernel k, size_t n)
{
	size_t local = 32;

	OCL(clEnqueueNDRangeKernel(q, k, 1, NULL, &n, n % local ? NULL : &local, 0, NULL, NULL));
}

/* Five commands: keep a copy, two convolutions, relu in between, add the copy. */
static inline void net_block(struct net *n, cl_command_queue q, int conv, int h, int w, size_t size)
{
	OCL(clEnqueueCopyBuffer(q, n->a, n->saved, 0, 0, size, 0, NULL, NULL));
	net_conv(n, q, conv, h, w);
	OCL(clSetKernelArg(n->relu, 0, sizeof(n->a), &n->a));
	net_flat(q, n->relu, size);
	net_conv(n, q, conv + 1, h, w);
	OCL(clSetKernelArg(n->add_relu, 0, sizeof(n->a), &n->a));
	OCL(clSetKernelArg(n->add_relu, 1, sizeof(n->saved), &n->saved));
	net_flat(q, n->add_relu, size);
}

static inline void net_head(struct net *n, cl_command_queue q)
{
	int pixels = (int)net_pixels(n) / 4, channels = 2 * NET_C;

	OCL(clSetKernelArg(n->sum, 0, sizeof(n->a), &n->a));
	OCL(clSetKernelArg(n->sum, 1, sizeof(n->features), &n->features));
	OCL(clSetKernelArg(n->sum, 2, sizeof(pixels), &pixels));
	net_flat(q, n->sum, 2 * NET_C);
	OCL(clSetKernelArg(n->dense, 0, sizeof(n->features), &n->features));
	OCL(clSetKernelArg(n->dense, 1, sizeof(n->dense_weights), &n->dense_weights));
	OCL(clSetKernelArg(n->dense, 2, sizeof(n->logits), &n->logits));
	OCL(clSetKernelArg(n->dense, 3, sizeof(channels), &channels));
	net_flat(q, n->dense, NET_LOGITS);
}

/* One request: NET_CHAIN commands without a pause; returns when the logits are in host memory. */
static inline void net_run(struct net *n, cl_command_queue q, int input, int logits[NET_LOGITS])
{
	size_t size = NET_C * net_pixels(n), half[3] = {NET_W / 2, (size_t)n->h / 2, NET_C};
	int conv = 0;

	OCL(clEnqueueWriteBuffer(q, n->a, CL_FALSE, 0, size, n->input[input], 0, NULL, NULL));
	for (int i = 0; i < NET_BLOCKS; i++, conv += 2)
		net_block(n, q, conv, n->h, NET_W, size);
	OCL(clSetKernelArg(n->pool, 0, sizeof(n->a), &n->a));
	OCL(clSetKernelArg(n->pool, 1, sizeof(n->b), &n->b));
	OCL(clEnqueueNDRangeKernel(q, n->pool, 3, NULL, half, NULL, 0, NULL, NULL));
	net_swap(&n->a, &n->b);
	net_conv(n, q, conv++, n->h / 2, NET_W / 2);
	for (int i = 0; i < NET_BLOCKS; i++, conv += 2)
		net_block(n, q, conv, n->h / 2, NET_W / 2, size / 2);
	net_head(n, q);
	OCL(clEnqueueReadBuffer(
		q, n->logits, CL_TRUE, 0, NET_LOGITS * sizeof(int), logits, 0, NULL, NULL));
}

/* The same on the host. */
static inline int net_clamp(int v, int lo, int hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* One output plane; out and in do not overlap. */
static inline void net_host_plane(
	const signed char *in, const signed char *weights, int cin, int h, int w, signed char *out)
{
	int sum[NET_W];

	for (int y = 0; y < h; y++) {
		memset(sum, 0, sizeof(sum));
		for (int ci = 0; ci < cin; ci++)
			for (int k = 0; k < 3; k++) {
				const signed char *row =
					in + (ci * h + net_clamp(y + k - 1, 0, h - 1)) * w;
				const signed char *v = weights + (ci * 3 + k) * 3;

				sum[0] += row[0] * v[0];
				sum[w - 1] += row[w - 1] * v[2];
				for (int x = 0; x < w; x++)
					sum[x] += row[x] * v[1];
				for (int x = 1; x < w; x++)
					sum[x] += row[x - 1] * v[0];
				for (int x = 0; x < w - 1; x++)
					sum[x] += row[x + 1] * v[2];
			}
		for (int x = 0; x < w; x++)
			out[y * w + x] = (signed char)net_clamp(sum[x] >> 6, -127, 127);
	}
}

static inline void net_host_conv(
	const struct net *n, int i, const signed char *in, signed char *out, int h, int w)
{
	int cin, cout;

	net_shape(i, &cin, &cout);
	for (int co = 0; co < cout; co++)
		net_host_plane(in, n->host_weights[i] + 9 * co * cin, cin, h, w, out + co * h * w);
}

static inline void net_host_blocks(
	const struct net *n, int conv, signed char *x, signed char *tmp, int h, int w, size_t size)
{
	signed char *saved = malloc(size);

	if (!saved)
		die("out of memory");
	for (int b = 0; b < NET_BLOCKS; b++, conv += 2) {
		memcpy(saved, x, size);
		net_host_conv(n, conv, x, tmp, h, w);
		for (size_t i = 0; i < size; i++)
			tmp[i] = (signed char)net_clamp(tmp[i], 0, 127);
		net_host_conv(n, conv + 1, tmp, x, h, w);
		for (size_t i = 0; i < size; i++)
			x[i] = (signed char)net_clamp(x[i] + saved[i], 0, 127);
	}
	free(saved);
}

static inline void net_host_pool(const signed char *in, signed char *out, int h, int w)
{
	for (int c = 0; c < NET_C; c++)
		for (int y = 0; y < h; y++)
			for (int x = 0; x < w; x++) {
				const signed char *p = in + (c * 2 * h + 2 * y) * 2 * w + 2 * x;
				int top = p[0] > p[1] ? p[0] : p[1];
				int low = p[2 * w] > p[2 * w + 1] ? p[2 * w] : p[2 * w + 1];

				out[(c * h + y) * w + x] = (signed char)(top > low ? top : low);
			}
}

static inline void net_host_head(const struct net *n, const signed char *x, int logits[NET_LOGITS])
{
	int features[2 * NET_C], pixels = (int)net_pixels(n) / 4;

	for (int c = 0; c < 2 * NET_C; c++) {
		int sum = 0;

		for (int i = 0; i < pixels; i++)
			sum += x[c * pixels + i];
		features[c] = sum / 64;
	}
	for (int l = 0; l < NET_LOGITS; l++) {
		logits[l] = 0;
		for (int c = 0; c < 2 * NET_C; c++)
			logits[l] += features[c] * n->host_dense[l * 2 * NET_C + c];
	}
}

/* Fill in n->expected for every input. */
static inline void net_host_reference(struct net *n)
{
	size_t size = NET_C * net_pixels(n);
	signed char *x = malloc(size), *tmp = malloc(size);

	if (!x || !tmp)
		die("out of memory");
	for (int i = 0; i < NET_INPUTS; i++) {
		memcpy(x, n->input[i], size);
		net_host_blocks(n, 0, x, tmp, n->h, NET_W, size);
		net_host_pool(x, tmp, n->h / 2, NET_W / 2);
		net_host_conv(n, 2 * NET_BLOCKS, tmp, x, n->h / 2, NET_W / 2);
		net_host_blocks(n, 2 * NET_BLOCKS + 1, x, tmp, n->h / 2, NET_W / 2, size / 2);
		net_host_head(n, x, n->expected[i]);
	}
	free(x);
	free(tmp);
}
