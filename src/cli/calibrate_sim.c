/* SPDX-License-Identifier: Apache-2.0 */
/* The software device: libfermata's, loaded as any program would, so that its queues are known to
 * the daemon. Each process has its own; what they share is the name, and so the schedule. */
#include "calibrate.h"
#include "place.h"
#include <dlfcn.h>
#include <fermata/fermata.h>
#include <string.h>

#define FUNCTIONS(X)             \
	X(fm_version)            \
	X(fm_sim_device_create)  \
	X(fm_sim_hwqueue_create) \
	X(fm_xqueue_create)      \
	X(fm_xqueue_submit)      \
	X(fm_xqueue_wait)

struct sim {
#define MEMBER(name) __typeof__(name) *name;
	FUNCTIONS(MEMBER)
#undef MEMBER
	fm_sim_device *dev;
	fm_xqueue *q;
	uint64_t seq[LOAD_DEPTH];
};

static const char *load(struct sim *s)
{
	char path[PATH_MAX];
	void *lib = place_library(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	bool whole = true;

	if (!lib)
		lib = dlopen(PLACE_LIBRARY_FILE, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return "the software device is in " PLACE_LIBRARY_FILE ", which cannot be loaded";
#define LOAD(name)                                       \
	s->name = (__typeof__(name) *)dlsym(lib, #name); \
	whole = whole && s->name;
	FUNCTIONS(LOAD)
#undef LOAD
	return whole ? NULL : PLACE_LIBRARY_FILE " is of another version";
}

static const char *sim_open(struct load *l, unsigned index)
{
	static struct sim s;
	char device[32];
	fm_hwqueue *hwq;
	const char *wrong = load(&s);

	if (wrong)
		return wrong;
	snprintf(device, sizeof(device), "sim:%u", index);
	if (s.fm_sim_device_create(&s.dev, device, NULL) || s.fm_sim_hwqueue_create(&hwq, s.dev) ||
		s.fm_xqueue_create(&s.q, hwq, NULL))
		return "the software device cannot be made";
	strcpy(l->name, device);
	strcpy(l->platform, "software device");
	snprintf(l->driver, sizeof(l->driver), "%s", s.fm_version());
	l->priv = &s;
	return NULL;
}

static const char *sim_launch(struct load *l, unsigned slot, uint64_t amount)
{
	struct sim *s = l->priv;
	const struct fm_command command = {.device_ns = amount, .kind = 1};

	return s->fm_xqueue_submit(s->q, &command, &s->seq[slot]) ? "a command was refused" : NULL;
}

static const char *sim_wait(struct load *l, unsigned slot)
{
	struct sim *s = l->priv;

	return s->fm_xqueue_wait(s->q, s->seq[slot], FM_FOREVER) ? "a command failed" : NULL;
}

const struct load_ops load_sim = {
	.kind = "sim", .exact = true, .open = sim_open, .launch = sim_launch, .wait = sim_wait};
