/* SPDX-License-Identifier: Apache-2.0 */
/* What the VPI programs of the tests do alike: how they get at the functions, and their images. */
#pragma once
#include "vpi.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 64

static struct {
#define MEMBER(result, symbol, params) result(*symbol) params;
	VPI_API(MEMBER)
#undef MEMBER
} vpi;

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *text, ...)
{
	va_list list;

	va_start(list, text);
	vfprintf(stderr, text, list);
	va_end(list);
	fputc('\n', stderr);
	exit(9);
}

#define OK(call)                                                              \
	do {                                                                  \
		VPIStatus rc_ = vpi.call;                                     \
                                                                              \
		if (rc_)                                                      \
			die("%s:%d: %s: %d", __FILE__, __LINE__, #call, rc_); \
	} while (0)

/* Linked, or by dlsym. */
static inline void load(bool looked_up)
{
	void *lib = dlopen("libnvvpi.so.3", RTLD_NOW);

	if (!lib)
		die("no library");
#define ENTRY(result, symbol, params)                                             \
	*(void **)&vpi.symbol = looked_up ? dlsym(lib, #symbol) : (void *)symbol; \
	if (!vpi.symbol)                                                          \
		die("no " #symbol);
	VPI_API(ENTRY)
#undef ENTRY
}

static inline VPIImage image_new(uint32_t word)
{
	VPIImage image;

	OK(vpiImageCreate(8, 8, 0, 0, &image));
	for (unsigned i = 0; i < WORDS; i++)
		vpi.vpiFakeWords(image)[i] = word;
	return image;
}

static inline VPIStream stream_new(uint64_t flags)
{
	VPIStream stream;

	OK(vpiStreamCreate(flags, &stream));
	return stream;
}

static inline VPIEvent event_new(void)
{
	VPIEvent event;

	OK(vpiEventCreate(0, &event));
	return event;
}

/* word = 1664525 * word + number */
static inline void mix(VPIStream s, VPIImage image, uint32_t number)
{
	OK(vpiSubmitBoxFilter(s, 0, image, image, (int32_t)number, 3, 0));
}
