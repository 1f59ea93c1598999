/* SPDX-License-Identifier: Apache-2.0 */
/* What the measurements share. */
#pragma once
#include "world.h"

enum { SAMPLES = 200 };

struct function measured_kernel(
	struct world *w, const char *folder, enum form form, const char *name);
/* All zeros. */
void measured_memory(struct world *w, device_ptr *at, size_t bytes);

/* A kernel that takes every multiprocessor for itself; its result is seen from here. */
struct urgent {
	struct function f;
	device_ptr count, seen;
	unsigned value, blocks, shared;
};
struct urgent urgent_new(struct world *w, const char *folder);
void urgent_launch(struct world *w, struct urgent *u);
void urgent_wait(struct world *w, const struct urgent *u);

struct job {
	const char *name, *kernel;
	unsigned launches;
	struct dims d;
	unsigned n;
	struct arg args[4];
};
/* Device time of a launch, us, all of them being queued before the first begins. */
double measured_once(struct world *w, const struct job *j, struct function f, enum guard guard,
	event a, event b);
