/* SPDX-License-Identifier: Apache-2.0 */
#include "partition.h"
#include <errno.h>
#include <string.h>

#define INVALID_CONFIGURATION 915 /* CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION */

bool fm_cu_green_load(struct fm_cu_green *g, void *(*symbol)(const char *name))
{
	bool all = true;

#define LOAD(name, symbol_name, params)           \
	*(void **)&g->name = symbol(symbol_name); \
	all = all && g->name;
	FM_CU_GREEN(LOAD)
#undef LOAD
	return all;
}

static int green_context(const struct fm_cu_green *g, CUgreenCtx *green, union fm_cu_resource *r,
	CUdevice dev, int *rc)
{
	CUdevResourceDesc desc;

	*rc = g->describe(&desc, r, 1);
	*rc = *rc ? *rc : g->create(green, desc, dev, FM_CU_GREEN_DEFAULT_STREAM);
	if (!*rc)
		return 0;
	return *rc == FM_CU_ERROR_NOT_SUPPORTED ? -EOPNOTSUPP : -EIO;
}

static int whole_of(const struct fm_cu_green *g, CUdevice dev, union fm_cu_resource *whole, int *rc)
{
	memset(whole, 0, sizeof(*whole));
	*rc = g->device_resource(dev, whole, FM_CU_RESOURCE_SM);
	if (!*rc)
		return 0;
	return *rc == FM_CU_ERROR_NOT_SUPPORTED ? -EOPNOTSUPP : -EIO;
}

/* The driver's counts are checked, because it may count wrong. */
static int split(const struct fm_cu_green *g, const union fm_cu_resource *whole, unsigned sms,
	union fm_cu_resource *part, union fm_cu_resource *rest, int *rc)
{
	unsigned n = 1;

	memset(part, 0, sizeof(*part));
	memset(rest, 0, sizeof(*rest));
	if (sms >= whole->sm.count)
		return -ENOSPC;
	*rc = g->split(part, &n, whole, rest, 0, sms);
	if (*rc == FM_CU_ERROR_NOT_SUPPORTED)
		return -EOPNOTSUPP;
	if (*rc && *rc != FM_CU_ERROR_INVALID_VALUE && *rc != INVALID_CONFIGURATION)
		return -EIO;
	if (*rc || n != 1 || part->sm.count < sms || !rest->sm.count)
		return -ENOSPC;
	return 0;
}

int fm_cu_partition(
	struct fm_cu_partition *p, const struct fm_cu_green *g, CUdevice dev, unsigned sms, int *rc)
{
	union fm_cu_resource whole, part, rest;
	int err = whole_of(g, dev, &whole, rc);

	err = err ? err : split(g, &whole, sms, &part, &rest, rc);
	err = err ? err : green_context(g, &p->green, &part, dev, rc);
	if (err)
		return err;
	p->left = rest;
	err = green_context(g, &p->rest, &rest, dev, rc);
	if (err) {
		g->destroy(p->green);
		return err;
	}
	p->sms = part.sm.count;
	p->rest_sms = rest.sm.count;
	return 0;
}

int fm_cu_partition_part(CUgreenCtx *out, const struct fm_cu_green *g, CUdevice dev,
	const struct fm_cu_partition *beside, unsigned sms, unsigned *all)
{
	union fm_cu_resource whole, part, rest;
	int rc, err = whole_of(g, dev, &whole, &rc);

	if (err)
		return err;
	*all = whole.sm.count;
	err = split(g, beside ? &beside->left : &whole, sms, &part, &rest, &rc);
	if (!err && part.sm.count != sms)
		err = -ENOSPC;
	return err ? err : green_context(g, out, &part, dev, &rc);
}
