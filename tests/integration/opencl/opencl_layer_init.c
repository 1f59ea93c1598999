/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the place of OpenCL's loaders: what the layer does with their tables.
 * usage: opencl_layer_init LAYER threads|places|entries
 *	threads		one thread calls a loader while the dynamic linker has its lock, as a
 *			library's constructor may; another one opens a second loader meanwhile
 *	places		a table stands where another one stood
 *	entries N OMIT [N OMIT]
 *			what the layer makes of a table of N entries in which each third is absent
 *			(OMIT: the first such) or none (3), after that of another loader; of each
 *			entry: "own", "passed" or "absent"
 */
#include <CL/cl.h>
#include <CL/cl_layer.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __typeof__(&clInitLayer) init;
static atomic_bool holds, begins;

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "opencl_layer_init: %s\n", what);
	exit(1);
}

static cl_int CL_API_CALL first_flush(cl_command_queue queue)
{
	return CL_SUCCESS;
}

static cl_int CL_API_CALL second_flush(cl_command_queue queue)
{
	return CL_INVALID_COMMAND_QUEUE;
}

static const cl_icd_dispatch *open_loader(const cl_icd_dispatch *table)
{
	const cl_icd_dispatch *layer = NULL;
	cl_uint n = sizeof(*table) / sizeof(void *);

	need(!init(n, table, &n, &layer) && layer, "no layer");
	return layer;
}

static void *other(void *arg)
{
	static const cl_icd_dispatch table = {.clFlush = second_flush};

	while (!holds)
		usleep(1000);
	begins = true;
	need(open_loader(&table) != &table, "the second one has no place");
	return NULL;
}

static void nothing(void)
{
}

/* Called by dlsym, which has the dynamic linker's lock. */
static void (*resolve(void))(void)
{
	static const cl_icd_dispatch table = {.clFlush = first_flush};

	if (!init)
		return nothing;
	holds = true;
	while (!begins)
		usleep(1000);
	usleep(200000);
	need(open_loader(&table) != &table, "the first one has no place");
	return nothing;
}

__attribute__((visibility("default"))) void held(void) __attribute__((ifunc("resolve")));

static void threads(void)
{
	pthread_t thread;

	need(!pthread_create(&thread, NULL, other, NULL), "no thread");
	need(dlsym(RTLD_DEFAULT, "held"), "not exported");
	pthread_join(thread, NULL);
}

static void places(void)
{
	static cl_icd_dispatch table = {.clFlush = first_flush}, same;
	const cl_icd_dispatch *first = open_loader(&table);

	same = table;
	need(first->clFlush == first_flush, "the first one's call is another");
	need(open_loader(&table) == first && open_loader(&same) == first, "one has two places");
	table.clFlush = second_flush;
	need(open_loader(&table)->clFlush == second_flush,
		"another one has the place of the first");
}

#define ENTRIES (sizeof(cl_icd_dispatch) / sizeof(void *))

static const cl_icd_dispatch *layer_over(const void **table, cl_uint n, int omit)
{
	static const char place[2 * ENTRIES]; /* stands for a driver's functions */
	const cl_icd_dispatch *layer = NULL;
	cl_uint n_ret = 0;

	need(n <= 2 * ENTRIES, "there are not so many entries");
	memset(table, 0, 2 * ENTRIES * sizeof(*table));
	for (cl_uint i = 0; i < n; i++)
		table[i] = omit < 3 && i % 3 == (cl_uint)omit ? NULL : &place[i];
	need(!init(n, (const cl_icd_dispatch *)(const void *)table, &n_ret, &layer) && layer,
		"no layer");
	need(n_ret == (n < ENTRIES ? n : ENTRIES), "another number of entries");
	return layer;
}

static void entries(char **arg)
{
	const void *table[2 * ENTRIES], *const *own = NULL;

	for (; arg[0] && arg[1]; arg += 2)
		own = (const void *const *)layer_over(table, (cl_uint)atoi(arg[0]), atoi(arg[1]));
	need(own, "no table");
	for (size_t i = 0; i < ENTRIES; i++)
		puts(!own[i] ? "absent" : own[i] == table[i] ? "passed" : "own");
}

int main(int argc, char **argv)
{
	void *layer = argc >= 3 ? dlopen(argv[1], RTLD_NOW) : NULL;

	need(layer, "no such layer");
	init = (__typeof__(init))dlsym(layer, "clInitLayer");
	need(init, "it is none");
	if (!strcmp(argv[2], "entries")) {
		entries(argv + 3);
		return 0;
	}
	if (!strcmp(argv[2], "threads"))
		threads();
	else
		places();
	puts("right");
	return 0;
}
