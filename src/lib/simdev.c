// SPDX-License-Identifier: Apache-2.0
/* The software device for programs: handles over api/soft. */
#include "base/cleanup.h"
#include "lib.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fm_sim_device_create(
	fm_sim_device **dev, const char *name, const struct fm_sim_options *options)
{
	FM_CLEAN_FREE struct fm_sim_device *d = NULL;
	struct fm_sim_options o = {.size = sizeof(o)};
	int rc;

	if (!dev || !name || !*name || strlen(name) >= sizeof(d->name))
		return -EINVAL;
	if (options && options->size < sizeof(o))
		return -EINVAL;
	if (options)
		memcpy(&o, options, sizeof(o));
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	strcpy(d->name, name);
	d->generation = fm_lib_born();
	rc = fm_simdev_new(&d->dev, &o);
	if (rc)
		return rc;
	*dev = fm_take_ptr(d);
	return 0;
}

/* A device made by the parent has no thread in the child, and its lock may be held for ever. */
static bool usable(const fm_sim_device *d)
{
	return d && fm_lib_alive(d->generation);
}

void fm_sim_device_destroy(fm_sim_device *dev)
{
	if (!usable(dev))
		return;
	fm_simdev_free(dev->dev);
	free(dev);
}

int fm_sim_fault(fm_sim_device *dev, enum fm_sim_fault fault, unsigned count)
{
	return usable(dev) ? fm_simdev_fault(dev->dev, fault, count) : -EBADF;
}

void fm_sim_reset(fm_sim_device *dev)
{
	if (usable(dev))
		fm_simdev_reset(dev->dev);
}

uint64_t fm_sim_now(fm_sim_device *dev)
{
	return usable(dev) ? fm_simdev_now(dev->dev) : 0;
}

int fm_sim_advance(fm_sim_device *dev, uint64_t ns)
{
	return usable(dev) ? fm_simdev_advance(dev->dev, ns) : -EBADF;
}

static unsigned sim_levels(void *hwq)
{
	return fm_simq_ops.levels(((struct fm_hwqueue *)hwq)->sim);
}

static int sim_launch(void *hwq, const void *command)
{
	return fm_simq_ops.launch(((struct fm_hwqueue *)hwq)->sim, command);
}

static int sim_sync(void *hwq)
{
	return fm_simq_ops.sync(((struct fm_hwqueue *)hwq)->sim);
}

static int sim_track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	return fm_simq_ops.track(((struct fm_hwqueue *)hwq)->sim, reached, cookie);
}

static int sim_deactivate(void *hwq, void **gate)
{
	return fm_simq_ops.host_gate.deactivate(((struct fm_hwqueue *)hwq)->sim, gate);
}

static void sim_reactivate(void *hwq, void *gate)
{
	fm_simq_ops.host_gate.reactivate(((struct fm_hwqueue *)hwq)->sim, gate);
}

static int sim_interrupt(void *hwq)
{
	return fm_simq_ops.stop.interrupt(((struct fm_hwqueue *)hwq)->sim);
}

static int sim_restore(void *hwq)
{
	return fm_simq_ops.stop.restore(((struct fm_hwqueue *)hwq)->sim);
}

static void sim_release(void *hwq, bool orphaned)
{
	struct fm_hwqueue *h = hwq;

	fm_simq_ops.release(h->sim, orphaned);
	fm_hwqueue_released(h);
}

static const struct fm_hw_ops ops = {
	.name = "sim",
	.levels = sim_levels,
	.launch = sim_launch,
	.sync = sim_sync,
	.track = sim_track,
	.release = sim_release,
	.host_gate = {.deactivate = sim_deactivate, .reactivate = sim_reactivate},
	.stop = {.interrupt = sim_interrupt, .restore = sim_restore},
};

int fm_sim_hwqueue_create(fm_hwqueue **hwq, fm_sim_device *dev)
{
	struct fm_simq *sim;
	struct fm_hwqueue *h;
	int rc;

	if (!hwq)
		return -EINVAL;
	if (!usable(dev))
		return -EBADF;
	rc = fm_simq_new(&sim, dev->dev);
	if (rc)
		return rc;
	rc = fm_hwqueue_new(&h, dev->name);
	if (rc) {
		fm_simq_ops.release(sim, false);
		return rc;
	}
	h->ops = &ops;
	h->sim = sim;
	*hwq = h;
	return 0;
}
