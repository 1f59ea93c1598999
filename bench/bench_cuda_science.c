/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: bench_cuda_science stencil|wavelet|cells|nearest MIB   (script/memory-bench runs it)
 * A program of science.h on so many MiB of the device. It tries its kernels on a small part, which
 * the processor computes, too, and says "ready DIGEST", which is the same wherever it runs. Then it
 * answers lines: "decode FROM TO" (ns of the monotonic clock) with "decode STEPS WAIT": a step uses
 * nearly all memory, and is waited for; WAIT ms was the longest time from one to the next. "check"
 * with "right", or "wrong 1" if what all steps have computed is not what it was at first.
 */
#include "cuda_driver.h"
#include "science.h"
#include <stdbool.h>

enum which { FILL, STENCIL, WAVELET, IMAGE, LINKS, GATHER, NEAREST, DIGEST, KERNELS };
enum {
	ROUND = 16,    /* steps, after which all begins anew */
	DIGESTED = 4,  /* of so many steps the last one's result is added up */
	TRIED = 32768, /* words of an array that the processor computes, too */
};

static const char *const kernel_name[KERNELS] = {"science_fill", "science_stencil",
	"science_wavelet", "science_image", "science_links", "science_gather", "science_nearest",
	"science_digest"};

static struct {
	int (*memset8)(unsigned long long, unsigned char, size_t, stream);
	int (*to_host)(void *, unsigned long long, size_t);
	int (*free)(unsigned long long);
	void *kernel[KERNELS];
	stream s;
} dev;

/* Arrays of n words times what `part' says, on the device or on the host. */
struct set {
	const struct program *program;
	bool on_host;
	uint64_t n, array[4], sum;
};

struct program {
	const char *name;
	unsigned part[4];
	void (*begin)(struct set *s);
	uint64_t (*step)(struct set *s, uint32_t k); /* the array that it has written */
};

/* --- kernels --- */

static void run_on_device(
	enum which f, uint64_t out, uint64_t a, uint64_t b, uint64_t n, uint32_t k)
{
	void *params[] = {&out, &a, &b, &n, &k};

	CU(cuLaunchKernel(dev.kernel[f], 1056, 1, 1, 256, 1, 1, 0, dev.s, params, NULL));
}

static uint32_t *words(uint64_t at)
{
	return (uint32_t *)(uintptr_t)at;
}

static void run_one(
	enum which f, uint64_t out, uint64_t a, uint64_t b, uint64_t n, uint32_t k, uint64_t i)
{
	switch (f) {
	case FILL:
		words(out)[i] = science_mix((uint32_t)i + k);
		break;
	case STENCIL:
		science_stencil(words(out), words(a), words(b), n, k, i);
		break;
	case WAVELET:
		science_wavelet(words(out), words(a), n, k, i);
		break;
	case IMAGE:
		science_image(words(out), words(a), n, i);
		break;
	case LINKS:
		science_links(words(out), n, i);
		break;
	case GATHER:
		science_gather(words(out), words(a), words(b), k, i);
		break;
	case NEAREST:
		science_nearest(words(out), words(a), k, i);
		break;
	default:
		*(uint64_t *)words(out) += science_digest(words(a), i);
		break;
	}
}

static void run(const struct set *s, enum which f, uint64_t out, uint64_t a, uint64_t b, uint64_t n,
	uint32_t k)
{
	if (!s->on_host) {
		run_on_device(f, out, a, b, n, k);
		return;
	}
	for (uint64_t i = 0; i < (f == WAVELET || f == IMAGE ? n / 4 : n); i++)
		run_one(f, out, a, b, n, k, i);
}

/* --- programs --- */

static void begin_stencil(struct set *s)
{
	run(s, FILL, s->array[0], 0, 0, s->n, 1);
	run(s, FILL, s->array[1], 0, 0, s->n, 2);
}

static uint64_t step_stencil(struct set *s, uint32_t k)
{
	uint64_t from = k ? s->array[2 + (k - 1) % 2] : s->array[0], to = s->array[2 + k % 2];

	run(s, STENCIL, to, from, s->array[1], s->n, k);
	return to;
}

static void begin_wavelet(struct set *s)
{
	run(s, FILL, s->array[0], 0, 0, s->n, 3);
}

static uint64_t step_wavelet(struct set *s, uint32_t k)
{
	run(s, WAVELET, s->array[1], s->array[0], 0, s->n, k);
	run(s, IMAGE, s->array[2], s->array[1], 0, s->n, k);
	return s->array[1 + k / DIGESTED % 2];
}

static void begin_cells(struct set *s)
{
	run(s, LINKS, s->array[0], 0, 0, 4 * s->n, 0);
	run(s, FILL, s->array[1], 0, 0, s->n, 4);
}

static uint64_t step_cells(struct set *s, uint32_t k)
{
	run(s, GATHER, s->array[2], s->array[1], s->array[0], s->n, k);
	return s->array[2];
}

static void begin_nearest(struct set *s)
{
	run(s, FILL, s->array[0], 0, 0, 2 * s->n, 5);
}

static uint64_t step_nearest(struct set *s, uint32_t k)
{
	run(s, NEAREST, s->array[1], s->array[0], 0, s->n, k);
	return s->array[1];
}

static const struct program programs[] = {
	{"stencil", {1, 1, 1, 1}, begin_stencil, step_stencil},
	{"wavelet", {1, 1, 1}, begin_wavelet, step_wavelet},
	{"cells", {4, 1, 1}, begin_cells, step_cells},
	{"nearest", {2, 1}, begin_nearest, step_nearest},
};

static void do_step(struct set *s, uint32_t k)
{
	uint64_t written = s->program->step(s, k);

	if (k % DIGESTED == DIGESTED - 1)
		run(s, DIGEST, s->sum, written, 0, s->n, k);
	if (!s->on_host)
		CU(cuStreamSynchronize(dev.s));
}

static void do_round(struct set *s)
{
	for (uint32_t k = 0; k < ROUND; k++)
		do_step(s, k);
}

/* --- memory --- */

static uint64_t take(bool on_host, size_t bytes)
{
	unsigned long long at;
	void *of_host;

	if (on_host) {
		of_host = calloc(1, bytes);
		if (!of_host)
			die("no memory of the host", 0);
		return (uint64_t)(uintptr_t)of_host;
	}
	CU(cuMemAlloc_v2(&at, bytes));
	return at;
}

static void make(struct set *s, const struct program *p, bool on_host, uint64_t n)
{
	*s = (struct set){.program = p, .on_host = on_host, .n = n, .sum = take(on_host, 64)};
	for (unsigned i = 0; i < 4 && p->part[i]; i++)
		s->array[i] = take(on_host, p->part[i] * n * 4);
	if (!on_host && dev.memset8(s->sum, 0, 64, dev.s))
		die("a fill failed", 0);
	p->begin(s);
}

static void give(struct set *s)
{
	for (unsigned i = 0; i < 5; i++) {
		uint64_t at = i < 4 ? s->array[i] : s->sum;

		if (s->on_host)
			free(words(at));
		else if (at && dev.free(at))
			die("memory is not given back", 0);
	}
}

static uint64_t sum_of(const struct set *s)
{
	uint64_t sum;

	if (s->on_host)
		return *(uint64_t *)words(s->sum);
	if (dev.to_host(&sum, s->sum, sizeof(sum)))
		die("a copy failed", 0);
	return sum;
}

/* --- */

static void find_more(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *module;

	*(void **)&dev.memset8 = dlsym(lib, "cuMemsetD8Async");
	*(void **)&dev.to_host = dlsym(lib, "cuMemcpyDtoH_v2");
	*(void **)&dev.free = dlsym(lib, "cuMemFree_v2");
	if (!dev.memset8 || !dev.to_host || !dev.free)
		die("the driver lacks a call", 0);
	CU(cuModuleLoadData(&module, science_ptx));
	for (unsigned i = 0; i < KERNELS; i++)
		CU(cuModuleGetFunction(&dev.kernel[i], module, kernel_name[i]));
	CU(cuStreamCreate(&dev.s, 1));
}

static void try_kernels(const struct program *p)
{
	struct set here, there;

	make(&here, p, true, TRIED);
	make(&there, p, false, TRIED);
	do_round(&here);
	do_round(&there);
	if (sum_of(&here) != sum_of(&there))
		die("the device computes another than the processor", 0);
	give(&here);
	give(&there);
}

static void decode(struct set *s, uint64_t *steps, uint64_t from, uint64_t to)
{
	uint64_t done = 0, longest = 0, last = from, now;

	while ((now = now_ns()) < from)
		usleep(200);
	for (; now < to; last = now) {
		do_step(s, (uint32_t)((*steps)++ % ROUND));
		now = now_ns();
		longest = now - last > longest ? now - last : longest;
		done += now < to;
	}
	printf("decode %" PRIu64 " %.1f\n", done, (double)longest / 1e6);
}

static void answer_lines(struct set *s)
{
	uint64_t round, steps = ROUND, from, to;
	char line[64];

	do_round(s);
	round = sum_of(s);
	printf("ready %016" PRIx64 "\n", round);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "check", 5)) {
			while (steps % ROUND)
				do_step(s, (uint32_t)(steps++ % ROUND));
			puts(sum_of(s) == round * (steps / ROUND) ? "right" : "wrong 1");
		} else if (sscanf(line, "decode %" SCNu64 " %" SCNu64, &from, &to) == 2) {
			decode(s, &steps, from, to);
		} else {
			puts("?");
		}
	}
}

static const struct program *program_of(const char *name)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		if (!strcmp(programs[i].name, name))
			return &programs[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct program *p = argc == 3 ? program_of(argv[1]) : NULL;
	uint64_t n = p ? (uint64_t)atoi(argv[2]) << 18 : 0; /* words */
	unsigned parts = 0;
	struct set s;

	for (unsigned i = 0; p && i < 4; i++)
		parts += p->part[i];
	n = p ? n / parts / (4 * SCIENCE_ROW) * (4 * SCIENCE_ROW) : 0;
	if (!n) {
		fprintf(stderr, "usage: bench_cuda_science stencil|wavelet|cells|nearest MIB\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_device();
	find_more();
	try_kernels(p);
	make(&s, p, false, n);
	answer_lines(&s);
	return 0;
}
