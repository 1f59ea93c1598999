/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include "load/load.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 64
#define KSERVE  "kserve:"

static int find_built_in(struct bench_driver *d, const char *name, struct fm_err *err)
{
	const struct load_ops *load = bench_load_find(name, &d->device);
	char names[128];

	d->ops = load ? bench_synthetic(load) : NULL;
	if (!d->ops)
		return fm_err_set(err, -EINVAL,
			"'%.80s' is none of %s, with or without :NUMBER, nor kserve:URL, nor a "
			"path with a '/'",
			name, bench_load_names(names, sizeof(names)));
	d->native = load->native;
	d->built_in = true;
	return 0;
}

/* Cuts ":NUMBER" off. */
static bool take_device(char *path, unsigned *device)
{
	char *colon = strrchr(path, ':'), *end;
	unsigned long n;

	if (!colon || strchr(colon, '/'))
		return true;
	n = strtoul(colon + 1, &end, 10);
	if (end == colon + 1 || *end)
		return true; /* part of the name */
	*colon = '\0';
	*device = (unsigned)n;
	return n < DEVICES;
}

static int check_object(const struct fm_bench_driver *ops, const char *path, struct fm_err *err)
{
	if (!ops)
		return fm_err_set(err, -EPROTO, "%.120s: does not know version %u of the interface",
			path, FM_BENCH_ABI);
	if (ops->abi != FM_BENCH_ABI || ops->size < sizeof(*ops) || !ops->open || !ops->phase ||
		!ops->name)
		return fm_err_set(
			err, -EPROTO, "%.120s: its table of functions is not sound", path);
	return 0;
}

int bench_driver_find(struct bench_driver *d, const char *name, struct fm_err *err)
{
	const struct fm_bench_driver *(*get)(unsigned);
	char path[PATH_MAX];
	void *lib;
	int rc;

	*d = (struct bench_driver){.native = true};
	if (!strncmp(name, KSERVE, strlen(KSERVE))) {
		d->ops = bench_kserve(name + strlen(KSERVE), err);
		d->remote = true;
		return d->ops ? 0 : -EINVAL;
	}
	if (!strchr(name, '/'))
		return find_built_in(d, name, err);
	snprintf(path, sizeof(path), "%s", name);
	if (!take_device(path, &d->device))
		return fm_err_set(err, -EINVAL, "devices have numbers below %d", DEVICES);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return fm_err_set(err, -ENOENT, "%.220s", dlerror());
	*(void **)&get = dlsym(lib, "fm_bench_driver");
	if (!get) {
		fm_err_set(err, -EPROTO, "%.120s: exports no fm_bench_driver()", path);
		return fm_err_hint(err, "fermata-lab-bench(1) tells what a driver is");
	}
	d->ops = get(FM_BENCH_ABI);
	rc = check_object(d->ops, path, err);
	return rc;
}
