/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fermata run --by-stream-priority': streams of a program that knows nothing of groups join one by
 * the priority with which they were created. A stream is looked for here when its queue is made, at
 * its first command, so that streams without work cost nothing.
 */
#include "base/util.h"
#include "shim.h"
#include "shim/groups.h"
#include "shim/queues.h"
#include <fermata/hint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { HIGH, LOW, KINDS };

static const struct {
	const char *suffix;
	int beside; /* its priority, beside that of the process's own group */
} kinds[] = {[HIGH] = {":high", FM_PRIORITY_HIGH}, [LOW] = {":low", FM_PRIORITY_LOW}};

static struct {
	struct fm_map kind; /* of streams; changes are under fm_shim_lock() */
	_Atomic(struct fm_client *)
		known[KINDS]; /* the client that has given its group the priority */
} streams;

/* FERMATA_GROUP, where FERMATA_BY_STREAM_PRIORITY is 1; else NULL. */
static const char *own_group(void)
{
	const char *wish = secure_getenv("FERMATA_BY_STREAM_PRIORITY"),
		   *group = secure_getenv("FERMATA_GROUP");

	return wish && !strcmp(wish, "1") && group && *group ? group : NULL;
}

void fm_cuda_priority_fork_child(void)
{
	memset(&streams, 0, sizeof(streams));
}

void fm_cuda_priority_ends(CUstream stream)
{
	if (!fm_map_find(&streams.kind, (uintptr_t)stream))
		return;
	fm_shim_lock();
	fm_map_erase(&streams.kind, (uintptr_t)stream);
	fm_shim_unlock();
}

void fm_cuda_priority_created(CUstream stream, int priority)
{
	enum kind kind = priority < 0 ? HIGH : LOW;

	fm_cuda_priority_ends(stream); /* an earlier one of that address */
	if (!priority || !own_group())
		return;
	fm_shim_lock();
	fm_map_insert(&streams.kind, (uintptr_t)stream, (void *)&kinds[kind]);
	fm_shim_unlock();
}

static int priority_of(struct fm_client *c, enum kind kind)
{
	int64_t own = fm_client_hinted(c, FM_HINT_PRIORITY);

	return (int)FM_MAX(FM_PRIORITY_MIN, FM_MIN(FM_PRIORITY_MAX, own + kinds[kind].beside));
}

unsigned fm_cuda_priority_group(struct fm_client *c, CUstream stream)
{
	const void *found = fm_map_find(&streams.kind, (uintptr_t)stream);
	enum kind kind = found == &kinds[HIGH] ? HIGH : LOW;
	const char *own = found ? own_group() : NULL;
	char name[FM_NAME_MAX];
	int index;

	if (!own ||
		snprintf(name, sizeof(name), "%s%s", own, kinds[kind].suffix) >= (int)sizeof(name))
		return 0;
	index = fm_shim_group(c, name);
	if (index <= 0)
		return 0;
	if (atomic_exchange(&streams.known[kind], c) != c)
		fm_client_hint(c, (uint32_t)index, FM_HINT_PRIORITY, priority_of(c, kind));
	return (unsigned)index;
}
