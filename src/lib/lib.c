// SPDX-License-Identifier: Apache-2.0
/* The library's state, groups, hints and segments. */
#include "lib.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "local/local.h"
#include "shim/shim.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	_Atomic unsigned generation;
	_Atomic bool used;
	_Atomic(struct fm_group *)
		groups; /* all groups ever made: they live as long as the process */
} lib;

/* The library's own state has no lock that a thread of the parent could hold at the fork. */
static void fork_child(void)
{
	atomic_fetch_add(&lib.generation, 1);
	atomic_store(&lib.used, false);
}

const struct fm_shim_api fm_shim_api = {
	.name = "lib",
	.gates_always = true,
	.fork_child = fork_child,
};

unsigned fm_lib_generation(void)
{
	return atomic_load_explicit(&lib.generation, memory_order_relaxed);
}

unsigned fm_lib_born(void)
{
	fm_shim_hear_forks();
	return fm_lib_generation();
}

static unsigned use(void)
{
	atomic_store(&lib.used, true);
	return fm_lib_born();
}

struct fm_client *fm_lib_client(void)
{
	use();
	return fm_shim_client();
}

const char *fm_version(void)
{
	return FM_VERSION;
}

int fm_init(const struct fm_options *options)
{
	const char *policy = options ? options->local_policy : NULL;
	int rc = 0;

	if (atomic_load(&lib.used))
		return -EBUSY;
	if (policy)
		rc = fm_local_check(policy, NULL);
	if (rc)
		return rc;
	if (atomic_exchange(&lib.used, true))
		return -EBUSY;
	fm_shim_hear_forks();
	rc = fm_shim_choose(policy, 0);
	if (rc)
		atomic_store(&lib.used, false);
	return rc;
}

bool fm_scheduled(void)
{
	struct fm_client *c = fm_lib_client();

	return c && fm_client_connected(c);
}

int fm_group_create(fm_group **group, const char *name)
{
	FM_CLEAN_FREE struct fm_group *g = NULL;
	struct fm_client *c;
	int index;

	if (!group || !name)
		return -EINVAL;
	c = fm_lib_client();
	if (!c)
		return -ENODEV;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	index = fm_client_group_add(c, name);
	if (index < 0)
		return index;
	g->generation = use();
	g->index = (uint32_t)index;
	snprintf(g->name, sizeof(g->name), "%s", name);
	g->next = atomic_load(&lib.groups);
	while (!atomic_compare_exchange_weak(&lib.groups, &g->next, g))
		;
	*group = fm_take_ptr(g);
	return 0;
}

/* The client and the index that a handle stands for. */
static int resolve(const fm_group *g, struct fm_client **c, uint32_t *index)
{
	if (g && !fm_lib_alive(g->generation))
		return -EBADF;
	*c = fm_lib_client();
	*index = g ? g->index : 0;
	return *c ? 0 : -ENODEV;
}

int fm_group_hint(fm_group *group, enum fm_hint hint, int64_t value)
{
	struct fm_client *c;
	uint32_t index;
	int rc;

	if ((unsigned)hint >= FM_HINT_COUNT)
		return -EINVAL;
	rc = fm_hint_check(hint, value, NULL);
	if (!rc)
		rc = resolve(group, &c, &index);
	return rc ? rc : fm_client_hint(c, index, hint, value);
}

int fm_segment_begin(fm_group *group, int32_t priority)
{
	struct fm_client *c;
	uint32_t index;
	int rc = 0;

	if (priority != FM_SEGMENT_KEEP)
		rc = fm_hint_check(FM_HINT_PRIORITY, priority, NULL);
	if (!rc)
		rc = resolve(group, &c, &index);
	return rc ? rc : fm_client_segment(c, index, true, priority);
}

int fm_segment_end(fm_group *group)
{
	struct fm_client *c;
	uint32_t index;
	int rc = resolve(group, &c, &index);

	return rc ? rc : fm_client_segment(c, index, false, FM_SEGMENT_KEEP);
}
