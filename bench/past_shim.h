/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shim costs can be less than two runs of a program differ by. So here the same program, in
 * the same memory, calls the driver through the shim and past it by turns; after open_device(), and
 * while the device has nothing to do. Not where images are rewritten: their kernels take parameters
 * of the shim's.
 */
#pragma once
#include "cuda_driver.h"
#include <link.h>

enum way { PAST, THROUGH, WAYS };

/* How many symbols a library exports is in the chains of its hash table (the last of each has its
 * lowest bit set). */
static inline unsigned exported(const uint32_t *hash)
{
	unsigned buckets = hash[0], from = hash[1], last = 0;
	const uint32_t *bucket = hash + 4 + 2 * hash[2], *chain = bucket + buckets;

	for (unsigned i = 0; i < buckets; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < from)
		return from;
	while (!(chain[last - from] & 1))
		last++;
	return last + 1;
}

struct wanted {
	const char *name;
	void *found;
};

static inline int look_in_driver(struct dl_phdr_info *lib, size_t size, void *arg)
{
	struct wanted *w = arg;
	const ElfW(Dyn) *d = NULL;
	const ElfW(Sym) *symbol = NULL;
	const uint32_t *hash = NULL;
	const char *names = NULL;

	(void)size;
	if (!strstr(lib->dlpi_name, "libcuda.so"))
		return 0;
	for (unsigned i = 0; i < lib->dlpi_phnum; i++)
		if (lib->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(lib->dlpi_addr + lib->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag; d++) {
		symbol = d->d_tag == DT_SYMTAB ? (const void *)d->d_un.d_ptr : symbol;
		names = d->d_tag == DT_STRTAB ? (const void *)d->d_un.d_ptr : names;
		hash = d->d_tag == DT_GNU_HASH ? (const void *)d->d_un.d_ptr : hash;
	}
	for (unsigned i = 0, n = symbol && names && hash ? exported(hash) : 0; i < n; i++)
		if (symbol[i].st_value && !strcmp(names + symbol[i].st_name, w->name))
			w->found = (void *)(lib->dlpi_addr + symbol[i].st_value);
	return w->found != NULL;
}

static inline void *of_driver(const char *name)
{
	struct wanted w = {.name = name};

	dl_iterate_phdr(look_in_driver, &w);
	return w.found;
}

static __typeof__(cu) cu_by[WAYS];

/* False: there is no shim to go past, or it must not be. */
static inline bool find_ways(void)
{
	const char *guardian = getenv("FERMATA_GUARDIAN");
	bool all = true;

	cu_by[PAST] = cu_by[THROUGH] = cu;
#define FIND_PAST(name, params)                         \
	*(void **)&cu_by[PAST].name = of_driver(#name); \
	all = all && cu_by[PAST].name;
	DRIVER(FIND_PAST)
	if (all && cu_by[PAST].cuLaunchKernel != cu.cuLaunchKernel &&
		!(guardian && *guardian == '1'))
		return true;
	cu_by[PAST] = cu;
	return false;
}

static inline void go(enum way way)
{
	cu = cu_by[way];
}
