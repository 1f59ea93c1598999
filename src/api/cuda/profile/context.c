/* SPDX-License-Identifier: Apache-2.0 */
/* What looking needs of each context: made at its first look, kept until the context ends. */
#include "agent.h"
#include "base/util.h"
#include "device/digest.h"
#include <stdlib.h>

#define CONTEXTS 64u
#define TABLE_BYTES \
	(sizeof(struct fm_touched) + FM_PROFILE_TABLE_CELLS * sizeof(struct fm_touched_cell))
#define DIGEST_BYTES (FM_PROFILE_PIECES * sizeof(struct fm_digest))

static struct fm_profile_context contexts[CONTEXTS];

struct fm_profile_context *fm_profile_context(const struct fm_profile_driver *cu)
{
	CUcontext ctx;

	if (cu->current(&ctx) || !ctx)
		return NULL;
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (contexts[i].ctx == ctx)
			return contexts[i].lost > FM_PROFILE_LOST ? NULL : &contexts[i];
	for (unsigned i = 0; i < CONTEXTS; i++) {
		if (contexts[i].ctx)
			continue;
		contexts[i].ctx = ctx;
		if (!cu->device || cu->device(&contexts[i].dev))
			contexts[i].dev = 0;
		return &contexts[i];
	}
	return NULL;
}

/* The driver ends the tables with the context. */
void fm_profile_context_forget(CUcontext ctx, const CUdevice *dev)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (contexts[i].ctx && (dev ? contexts[i].dev == *dev : contexts[i].ctx == ctx))
			contexts[i] = (struct fm_profile_context){0};
}

bool fm_profile_context_marks(const struct fm_profile_driver *cu, struct fm_profile_context *c)
{
	void *host;

	if (c->table && c->host)
		return true;
	if (cu->mem_alloc(&c->table, TABLE_BYTES)) {
		c->table = 0;
		return false;
	}
	if (cu->host_alloc(&host, TABLE_BYTES, 0))
		return false;
	c->host = host;
	return true;
}

/* The table's regions say what is hashed, also where nothing is marked. */
bool fm_profile_context_hashes(const struct fm_profile_driver *cu, struct fm_profile_context *c)
{
	CUmodule module;
	void *host;

	if (c->hash)
		return true;
	if (!c->host) {
		if (cu->host_alloc(&host, TABLE_BYTES, 0))
			return false;
		c->host = host;
	}
	if (!c->digests && cu->mem_alloc(&c->digests, DIGEST_BYTES)) {
		c->digests = 0;
		return false;
	}
	if (!c->digest) {
		if (cu->host_alloc(&host, 2 * DIGEST_BYTES, 0))
			return false;
		c->digest = host;
	}
	if (!c->copy) {
		if (cu->host_alloc(&host, 2 * FM_PROFILE_COPY, 0))
			return false;
		c->copy = host;
	}
	fm_profile_sanitizer_ours(true);
	if (cu->module_load(&module, fm_digest_image) ||
		cu->module_function(&c->hash, module, FM_DIGEST_KERNEL))
		c->hash = NULL;
	fm_profile_sanitizer_ours(false);
	return c->hash;
}
