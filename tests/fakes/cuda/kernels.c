/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of tests/integration/cuda_kernels.cu as the fake device executes them. */
#include "fake.h"
#include <string.h>
#include <time.h>

static uint32_t *pointer(CUdeviceptr d)
{
	return (uint32_t *)(uintptr_t)d;
}

static void mix(const struct fk_work *w)
{
	struct {
		CUdeviceptr x;
		uint32_t n, number, rounds;
	} p;

	memcpy(&p, w->kernel.params, sizeof(p));
	for (uint32_t i = 0; i < p.n; i++) {
		uint32_t v = pointer(p.x)[i] ^ (p.number + i);

		for (uint32_t k = 0; k < p.rounds; k++)
			v = v * 1664525u + 1013904223u;
		pointer(p.x)[i] = v;
	}
}

static void join(const struct fk_work *w)
{
	struct {
		CUdeviceptr out, a, b;
		uint32_t n;
	} p;

	memcpy(&p, w->kernel.params, sizeof(p));
	for (uint32_t i = 0; i < p.n; i++)
		pointer(p.out)[i] = pointer(p.a)[i] * 31u + (pointer(p.b)[i] ^ 0x9e3779b9u);
}

static void fill(const struct fk_work *w)
{
	struct {
		CUdeviceptr x;
		uint32_t n, value;
	} p;

	memcpy(&p, w->kernel.params, sizeof(p));
	for (uint32_t i = 0; i < p.n; i++)
		pointer(p.x)[i] = p.value + i;
}

static void count(const struct fk_work *w)
{
	struct {
		CUdeviceptr x;
		uint32_t n;
	} p;

	memcpy(&p, w->kernel.params, sizeof(p));
	for (uint32_t i = 0; i < p.n; i++)
		atomic_fetch_add((_Atomic uint32_t *)&pointer(p.x)[i & 63], i + 1);
}

/* Busy without using a processor, of which a test's machine has few. */
static void spin(const struct fk_work *w)
{
	struct {
		CUdeviceptr out;
		uint64_t ns;
	} p;
	struct timespec t;

	memcpy(&p, w->kernel.params, sizeof(p));
	t = (struct timespec){(time_t)(p.ns / 1000000000u), (long)(p.ns % 1000000000u)};
	nanosleep(&t, NULL);
	pointer(p.out)[0] = pointer(p.out)[0] * 3u + 1u;
}

static void relay(const struct fk_work *w)
{
	struct {
		CUdeviceptr x;
		uint32_t n, steps;
		CUdeviceptr arrived;
	} p;

	memcpy(&p, w->kernel.params, sizeof(p));
	for (uint32_t s = 0; s < p.steps; s++) {
		const uint32_t *from = pointer(p.x) + (s & 1) * p.n;
		uint32_t *to = pointer(p.x) + (~s & 1) * p.n;

		for (uint32_t i = 0; i < p.n; i++)
			to[i] = from[(i + 17) % p.n] * 31u + from[(i + p.n / 2) % p.n] + s;
	}
	pointer(p.arrived)[0] += p.steps * w->kernel.grid;
}

const struct fk_kernel *fk_kernel_find(const char *name)
{
	static const struct fk_kernel kernels[] = {
		{"mix", {8, 4, 4, 4}, mix},
		{"join", {8, 8, 8, 4}, join},
		{"fill", {8, 4, 4}, fill},
		{"count", {8, 4}, count},
		{"spin", {8, 8}, spin},
		{"relay", {8, 4, 4, 8}, relay},
	};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return NULL;
}
