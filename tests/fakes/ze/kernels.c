/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"
#include <string.h>
#include <time.h>

static uint64_t number(const struct fk_arg *a)
{
	uint64_t n;

	memcpy(&n, a->bytes, sizeof(n));
	return n;
}

static uint32_t *words(const struct fk_arg *a)
{
	uint32_t *p;

	memcpy(&p, a->bytes, sizeof(p));
	return p;
}

/* spin(uint64_t ns): takes so long. */
static void spin(const struct fk_arg *arg, uint64_t groups)
{
	const uint64_t ns = number(&arg[0]);
	const struct timespec ts = {
		.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	nanosleep(&ts, NULL);
}

/* mix(uint32_t *x, uint64_t n): each word x becomes 1664525 x + n; a group is 64 words. */
static void mix(const struct fk_arg *arg, uint64_t groups)
{
	uint32_t *x = words(&arg[0]);

	for (uint64_t i = 0; i < 64 * groups; i++)
		x[i] = 1664525u * x[i] + (uint32_t)number(&arg[1]);
}

/* add(uint32_t *to, uint32_t *from): adds word by word. */
static void add(const struct fk_arg *arg, uint64_t groups)
{
	uint32_t *to = words(&arg[0]), *from = words(&arg[1]);

	for (uint64_t i = 0; i < 64 * groups; i++)
		to[i] += from[i];
}

/* write(uint32_t *x, uint64_t n): the first word, for a host that looks at it. */
static void write_word(const struct fk_arg *arg, uint64_t groups)
{
	atomic_store((_Atomic uint32_t *)words(&arg[0]), (uint32_t)number(&arg[1]));
}

fk_kernel *fk_kernel_named(const char *name)
{
	static const struct {
		const char *name;
		fk_kernel *fn;
	} all[] = {{"spin", spin}, {"mix", mix}, {"add", add}, {"write", write_word}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, name))
			return all[i].fn;
	return NULL;
}
