/* SPDX-License-Identifier: Apache-2.0 */
/* A case, natively and rewritten: not stopped, stopped before it begins, and stopped at random. */
#include "world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES ((size_t)WORDS * 4)
#define ALL   (3 * BYTES) /* x, y, and what else there is */
enum { MOST_IN_VAIN = 200 };

static uint32_t *start, *expected, *found;

static void buffers(struct world *w)
{
	start = malloc(ALL);
	expected = malloc(ALL);
	found = malloc(ALL);
	if (!start || !expected || !found)
		fail("no memory");
	for (unsigned i = 0; i < ALL / 4; i++)
		start[i] = (i * 2654435761u) >> 7 | 1u << 31;
	CU(cuMemAlloc_v2(&w->x, BYTES));
	CU(cuMemAlloc_v2(&w->y, BYTES));
}

void world_open(struct world *w)
{
	w->dev = open_device();
	queue_init(&w->q);
	buffers(w);
}

static void reset(struct world *w)
{
	CU(cuMemcpyHtoD_v2(w->x, start, BYTES));
	CU(cuMemcpyHtoD_v2(w->y, start + WORDS, BYTES));
	if (w->extra_bytes)
		CU(cuMemcpyHtoD_v2(w->extra[w->form], start + 2 * WORDS, w->extra_bytes));
	CU(cuCtxSynchronize());
}

static void fetch(struct world *w, uint32_t *into)
{
	memcpy(into + 2 * WORDS, start + 2 * WORDS, BYTES);
	CU(cuMemcpyDtoH_v2(into, w->x, BYTES));
	CU(cuMemcpyDtoH_v2(into + WORDS, w->y, BYTES));
	if (w->extra_bytes)
		CU(cuMemcpyDtoH_v2(into + 2 * WORDS, w->extra[w->form], w->extra_bytes));
}

static void compare(const uint32_t *wanted, const char *what)
{
	unsigned first = 0, n = 0;

	for (unsigned i = 0; i < ALL / 4; i++)
		if (found[i] != wanted[i]) {
			first = n ? first : i;
			n++;
		}
	if (n)
		fail("%s: %u words differ, the first is %u of %s: %08x, not %08x (before: %08x)",
			what, n, first % WORDS,
			(const char *const[]){"x", "y", "the kernel's own"}[first / WORDS],
			found[first], wanted[first], start[first]);
}

/* A batch to its end, not stopped; how long it took. */
static uint64_t batch(struct world *w, const struct test_case *c, enum form form, enum guard guard)
{
	uint64_t from, took;

	w->form = form;
	reset(w);
	from = now_ns();
	queue_begin(&w->q, guard);
	c->submit(w, w->f[form]);
	queue_end(&w->q);
	queue_finish(&w->q);
	took = now_ns() - from;
	fetch(w, found);
	return took;
}

static void find_kernels(
	struct world *w, const struct test_case *c, enum form form, const char *folder)
{
	images_load(&w->images, folder, form);
	for (unsigned i = 0; i < MOST_KERNELS && c->kernel[i]; i++) {
		doing = c->kernel[i];
		w->f[form][i] = function_of(&w->images, form, c->kernel[i]);
	}
	if (c->prepare)
		c->prepare(w, form);
}

static uint64_t natively(struct world *w, const struct test_case *c, const char *folder)
{
	uint64_t took;

	find_kernels(w, c, NATIVE, folder);
	doing = "running natively";
	batch(w, c, NATIVE, UNGUARDED);
	memcpy(expected, found, ALL);
	if (memcmp(expected, start, ALL) == 0)
		fail("natively nothing is written");
	took = batch(w, c, NATIVE, UNGUARDED);
	compare(expected, "natively a second time");
	return took;
}

static void not_stopped(struct world *w, const struct test_case *c, enum form form)
{
	doing = "rewritten, not guarded";
	batch(w, c, form, UNGUARDED);
	compare(expected, doing);
	doing = "guarded, never stopped";
	batch(w, c, form, GUARDED);
	compare(expected, doing);
	doing = "guarded as a whole grid, never stopped";
	batch(w, c, form, GUARDED_GRID);
	compare(expected, doing);
	doing = "guarded, each may begin early, never stopped";
	batch(w, c, form, GUARDED | EARLY | FOLLOWS);
	compare(expected, doing);
	if (queue_head(&w->q).left_out)
		fail("%u blocks were left out, and nobody stopped them",
			queue_head(&w->q).left_out);
}

/* All blocks are left out, then done. */
static void stopped_before(
	struct world *w, const struct test_case *c, enum form form, enum guard guard)
{
	uint64_t number = w->q.number + 1;
	struct head h;

	doing = guard == GUARDED ? "stopped before it began"
				 : "stopped before it began, as a whole grid";
	w->form = form;
	reset(w);
	queue_begin(&w->q, guard);
	queue_stop(&w->q);
	CU(cuStreamSynchronize(w->q.stopper));
	c->submit(w, w->f[form]);
	queue_end(&w->q);
	queue_rest(&w->q);
	fetch(w, found);
	compare(start, doing);
	h = queue_head(&w->q);
	if (h.first != number || !h.left_out || !h.hold)
		fail("launches begin at %llu; the first left out is %llu, %u blocks, hold %u",
			(unsigned long long)number, (unsigned long long)h.first, h.left_out,
			h.hold);
	queue_restore(&w->q, 0);
	queue_finish(&w->q);
	fetch(w, found);
	compare(expected, "stopped before it began, and gone on");
	queue_check(&w->q);
}

static unsigned stopped_at_random(
	struct world *w, const struct test_case *c, enum form form, uint64_t took)
{
	uint64_t end = now_ns() + (uint64_t)(w->seconds * 1e9);
	unsigned batches = 0;

	w->form = form;
	do {
		uint64_t from;

		doing = "stopped at random: launching";
		reset(w);
		from = now_ns();
		queue_begin(&w->q, (dice() % 4 ? GUARDED : GUARDED_GRID) |
					   (dice() % 2 ? EARLY : 0) | (dice() % 2 ? FOLLOWS : 0));
		c->submit(w, w->f[form]);
		queue_end(&w->q);
		spin_until(from + dice() % (took + took / 8));
		queue_stop(&w->q);
		doing = "stopped at random: waiting for rest";
		queue_rest(&w->q);
		queue_restore(&w->q, took / 2);
		queue_finish(&w->q);
		fetch(w, found);
		compare(expected, "stopped at random, and gone on");
		queue_check(&w->q);
		batches++;
	} while (now_ns() < end || (!w->q.stops && batches < MOST_IN_VAIN));
	return batches;
}

static double seconds_since(uint64_t ns)
{
	return (double)(now_ns() - ns) / 1e9;
}

void run_case(struct world *w, const struct test_case *c, enum form form, const char *folder)
{
	struct function *f = w->f[form];
	uint64_t from = now_ns(), took;
	unsigned batches;

	w->extra_bytes = 0;
	queue_loops(&w->q, form == LOOPS);
	queue_clear(&w->q);
	took = natively(w, c, folder);
	if (form == NATIVE) {
		printf("ok     %-15s native: twice; equal, %.1f s\n", c->name, seconds_since(from));
		return;
	}
	find_kernels(w, c, form, folder);
	if (!f[0].guarded) {
		if (form == REWRITTEN)
			fail("%s was left as it is", f[0].name);
		printf("skip   %-15s %s: %s is left as it is\n", c->name, form_name[form],
			f[0].name);
		return;
	}
	if (f[0].mode != c->mode && (form == REWRITTEN || c->mode == FM_GUARD_GRID))
		fail("%s has mode %u, traits %x", f[0].name, f[0].mode, f[0].traits);
	not_stopped(w, c, form);
	if (w->never_stop) {
		printf("ok     %-15s %s: never stopped; equal, %.1f s\n", c->name, form_name[form],
			seconds_since(from));
		return;
	}
	stopped_before(w, c, form, GUARDED);
	stopped_before(w, c, form, GUARDED_GRID);
	w->q.stops = w->q.inside = w->q.again = w->q.launches_again = 0;
	batches = stopped_at_random(w, c, form, took);
	doing = "counting";
	if (!w->q.stops)
		fail("%u batches of %.1f ms, and none was stopped: nothing was shown", batches,
			(double)took / 1e6);
	printf("ok     %-15s %s: %s, %u batches of %.1f ms, %llu stops, %llu inside a kernel, %llu "
	       "stops while it went on, "
	       "%llu launches again; equal\n",
		c->name, form_name[form], f[0].mode ? "whole grids" : "by blocks", batches,
		(double)took / 1e6, (unsigned long long)w->q.stops, (unsigned long long)w->q.inside,
		(unsigned long long)w->q.again, (unsigned long long)w->q.launches_again);
}

/* Kernels that launch kernels: the image is left as it is, and runs. */
void run_launching(struct world *w, const char *folder)
{
	enum { BLOCKS = 64 };
	char path[4096];
	struct fm_image image;
	struct function f = {.name = "k_parent"};
	size_t size;
	void *data, *module;

	queue_loops(&w->q, false);
	queue_clear(&w->q);
	snprintf(path, sizeof(path), "%s/launch.cubin", folder);
	doing = "kernels that launch kernels";
	data = file_contents(path, &size);
	if (fm_image_rewrite(data, size, 90, &image) != FM_IMAGE_LAUNCHES)
		fail("the image was to be left as it is, but: %s", fm_image_reason(image.why));
	module = load_image(path, data);
	CU(cuModuleGetFunction(&f.handle, module, f.name));
	reset(w);
	queue_begin(&w->q, GUARDED);
	LAUNCH(&w->q, f, ((struct dims){.grid = {BLOCKS}, .block = {32}}), ARG(w->x));
	queue_end(&w->q);
	queue_finish(&w->q);
	fetch(w, found);
	memcpy(expected, start, ALL);
	for (unsigned i = 0; i < BLOCKS * 32; i++)
		expected[i] += i / 32 + 1;
	compare(expected, doing);
	printf("ok     %-15s elf: left as it is, and runs\n", "launching");
}

int load_files(int n, char **file)
{
	static char log[16384];
	unsigned functions, all = 0, bad = 0;
	uint64_t took = 0;
	const char *name;

	for (int i = 0; i < n; i++) {
		size_t size;
		int rc;
		void *data = file_contents(file[i], &size), *module, **f;
		uint64_t from = now_ns();

		doing = file[i];
		module = try_image(data, log, sizeof(log), &rc);
		took += now_ns() - from;
		if (!module) {
			printf("failed %s: load = %d: %s\n", file[i], rc, log);
			bad++;
			continue;
		}
		CU(cuModuleGetFunctionCount(&functions, module));
		f = calloc(functions + 1, sizeof(*f));
		CU(cuModuleEnumerateFunctions(f, functions, module));
		for (unsigned k = 0; k < functions; k++) {
			rc = cu.cuFuncLoad(f[k]);
			if (rc && bad++ < 50) {
				name = "?";
				cu.cuFuncGetName(&name, f[k]);
				printf("failed %s: %s = %d\n", file[i], name, rc);
			}
		}
		all += functions;
		CU(cuModuleUnload(module));
		free(f);
		free(data);
	}
	printf("%s %d images, %u kernels loaded, %u refused; loading took %.1f ms\n",
		bad ? "failed" : "ok    ", n, all, bad, (double)took / 1e6);
	return bad != 0;
}
