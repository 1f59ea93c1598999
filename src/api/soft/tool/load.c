/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software device: libfermata's, loaded as any program would, so that its queues are known to
 * the daemon. Clients in one process share it; processes have one each, of one name, and share the
 * schedule.
 *
 * Owns: the library, loaded once, and devices that clients of one process share.
 * Locks: one, while these are made.
 * Threads: any, each with a struct load of its own.
 */
#include "load/load.h"
#include "base/lockorder.h"
#include <dlfcn.h>
#include <fermata/fermata.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libfermata.so.0"
#define DEVICES 64

#define FUNCTIONS(X)             \
	X(fm_version)            \
	X(fm_group_create)       \
	X(fm_group_hint)         \
	X(fm_sim_device_create)  \
	X(fm_sim_hwqueue_create) \
	X(fm_xqueue_create)      \
	X(fm_xqueue_destroy)     \
	X(fm_xqueue_submit)      \
	X(fm_xqueue_wait)

struct sim {
#define MEMBER(name) __typeof__(name) *name;
	FUNCTIONS(MEMBER)
#undef MEMBER
	fm_xqueue *q;
	uint64_t seq[LOAD_DEPTH];
};

static const char *load(struct sim *s, const char *path)
{
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	bool whole = true;

	if (!lib)
		lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return "the software device is in " LIBRARY ", which cannot be loaded";
#define LOAD(name)                                       \
	s->name = (__typeof__(name) *)dlsym(lib, #name); \
	whole = whole && s->name;
	FUNCTIONS(LOAD)
#undef LOAD
	return whole ? NULL : LIBRARY " is of another version";
}

/* Of this process, made when it is first asked for. NULL: it cannot be made. */
static fm_sim_device *device(struct sim *s, unsigned index, const char *name)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static fm_sim_device *all[DEVICES];
	fm_sim_device *dev;

	fm_lock_rank(&lock, SOFT_LOAD);
	pthread_mutex_lock(&lock);
	if (!all[index])
		s->fm_sim_device_create(&all[index], name, NULL);
	dev = all[index];
	pthread_mutex_unlock(&lock);
	return dev;
}

/* Nothing is scheduled where Fermata is switched off: then there are no groups. */
static fm_group *group(const struct sim *s, const struct load *l)
{
	fm_group *g = NULL;

	if (!l->group || s->fm_group_create(&g, l->group))
		return NULL;
	for (size_t i = 0; i < l->hints; i++)
		s->fm_group_hint(g, (enum fm_hint)l->hint[i].hint, l->hint[i].value);
	return g;
}

static const char *sim_open(struct load *l, unsigned index)
{
	struct sim *s = calloc(1, sizeof(*s));
	struct fm_xqueue_options options = {.size = sizeof(options)};
	struct fm_bench_device *a = &l->about;
	fm_sim_device *dev;
	fm_hwqueue *hwq;
	const char *wrong;

	if (!s)
		return "out of memory";
	l->priv = s;
	wrong = load(s, l->libfermata);
	if (wrong)
		return wrong;
	snprintf(a->name, sizeof(a->name), "sim:%u", index);
	strcpy(a->platform, "software device");
	snprintf(a->driver, sizeof(a->driver), "%s", s->fm_version());
	dev = index < DEVICES ? device(s, index, a->name) : NULL;
	options.group = group(s, l);
	if (!dev || s->fm_sim_hwqueue_create(&hwq, dev) ||
		s->fm_xqueue_create(&s->q, hwq, &options))
		return "the software device cannot be made";
	return NULL;
}

static const char *sim_launch(struct load *l, unsigned slot, uint64_t amount, uint32_t blocks)
{
	struct sim *s = l->priv;
	const struct fm_command command = {.device_ns = amount, .kind = 1 + amount};

	(void)blocks; /* one command at a time has all of it */
	return s->fm_xqueue_submit(s->q, &command, slot < LOAD_DEPTH ? &s->seq[slot] : NULL)
		       ? "a command was refused"
		       : NULL;
}

static const char *sim_wait(struct load *l, unsigned slot)
{
	struct sim *s = l->priv;

	return s->fm_xqueue_wait(s->q, s->seq[slot], FM_FOREVER) ? "a command failed" : NULL;
}

static void sim_close(struct load *l)
{
	struct sim *s = l->priv;

	if (s && s->q)
		s->fm_xqueue_destroy(s->q);
	free(s);
	l->priv = NULL;
}

const struct load_ops tool_soft_load = {.kind = "sim",
	.exact = true,
	.open = sim_open,
	.launch = sim_launch,
	.wait = sim_wait,
	.close = sim_close};
