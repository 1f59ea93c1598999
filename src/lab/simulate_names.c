/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate_names.h"
#include "base/util.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t queues_of(const struct fm_sim_plan *p, const struct fm_sim_group *g)
{
	return g->everywhere ? fm_sim_places(p, g) : 1;
}

static int check_size(const struct simulate_names *n, struct fm_err *err)
{
	uint64_t most = FM_MAX(n->queues, (uint64_t)n->devices); /* a group has a queue */

	if (most * n->plan->machines < INT32_MAX)
		return 0;
	fm_err_set(err, -E2BIG, "more groups and devices than have numbers in a trace");
	return fm_err_hint(err, "simulate fewer machines: --machines N");
}

int simulate_names_init(struct simulate_names *n, const struct fm_sim_plan *p, struct fm_err *err)
{
	*n = (struct simulate_names){.plan = p, .devices = fm_sim_devices(p)};
	n->group = calloc(p->groups + 1, sizeof(*n->group));
	n->queue = calloc(p->groups + 1, sizeof(*n->queue));
	if (!n->group || !n->queue)
		return fm_err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < p->groups; i++) {
		n->group[i] = n->groups;
		n->queue[i] = n->queues;
		n->groups += p->group[i].count;
		n->queues += (uint64_t)p->group[i].count * queues_of(p, &p->group[i]);
	}
	return check_size(n, err);
}

void simulate_names_free(struct simulate_names *n)
{
	free(n->group);
	free(n->queue);
	*n = (struct simulate_names){0};
}

uint32_t simulate_group_id(
	const struct simulate_names *n, uint32_t machine, uint32_t group, uint32_t instance)
{
	return (uint32_t)(machine * n->groups + n->group[group] + instance + 1);
}

uint32_t simulate_device_id(const struct simulate_names *n, uint32_t machine, uint32_t device)
{
	return machine * n->devices + device + 1;
}

uint32_t simulate_queues(const struct simulate_names *n, uint32_t group)
{
	return queues_of(n->plan, &n->plan->group[group]);
}

uint32_t simulate_queue_id(const struct simulate_names *n, uint32_t machine, uint32_t group,
	uint32_t instance, uint32_t k)
{
	uint64_t before = n->queue[group] + (uint64_t)instance * simulate_queues(n, group);

	return (uint32_t)(machine * n->queues + before + k + 1);
}

static const char *compose(const struct simulate_names *n, uint32_t machine, const char *name,
	uint32_t count, uint32_t which, char buf[SIMULATE_NAME])
{
	char on[16] = "", of[16] = "";

	if (n->plan->machines > 1)
		snprintf(on, sizeof(on), "%u/", machine);
	if (count > 1)
		snprintf(of, sizeof(of), ".%u", which);
	snprintf(buf, SIMULATE_NAME, "%s%s%s", on, name, of);
	return buf;
}

const char *simulate_group_name(
	const struct simulate_names *n, uint32_t id, char buf[SIMULATE_NAME])
{
	uint64_t machine = (id - 1) / n->groups, rest = (id - 1) % n->groups;
	uint32_t i = n->plan->groups - 1;

	while (n->group[i] > rest)
		i--;
	return compose(n, (uint32_t)machine, n->plan->group[i].name, n->plan->group[i].count,
		(uint32_t)(rest - n->group[i]), buf);
}

const char *simulate_device_name(
	const struct simulate_names *n, uint32_t id, char buf[SIMULATE_NAME])
{
	uint32_t machine = (id - 1) / n->devices, which;
	const struct fm_sim_device *d =
		&n->plan->device[fm_sim_device_at(n->plan, (id - 1) % n->devices, &which)];

	return compose(n, machine, d->name, d->count, which, buf);
}
