/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the model's groups, and writes the model as JSON. */
#include "base/util.h"
#include "cmd/cli.h"
#include "top_model.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const sort_names[] = {
	[TOP_BY_SHARE] = "share",
	[TOP_BY_TIME] = "time",
	[TOP_BY_NAME] = "group",
	[TOP_BY_USER] = "user",
	[TOP_BY_PRIORITY] = "priority",
	[TOP_BY_STATE] = "state",
	[TOP_BY_WAIT] = "wait",
	[TOP_BY_PREEMPT] = "preemptions",
	[TOP_BY_P99] = "p99",
	[TOP_BY_MISSES] = "misses",
	[TOP_BY_MEMORY] = "memory",
};

const char *top_sort_name(enum top_sort sort)
{
	return sort < TOP_SORTS ? sort_names[sort] : "?";
}

int top_sort_parse(const char *name, enum top_sort *sort)
{
	for (enum top_sort s = 0; s < TOP_SORTS; s++)
		if (!strcmp(name, sort_names[s])) {
			*sort = s;
			return 0;
		}
	return -EINVAL;
}

struct order {
	enum top_sort sort;
	bool reverse;
};

/* The larger value comes first. Shares that differ by less than a fiftieth are equal, so that
 * groups with equal turns do not change places at each look. */
static double value_of(const struct top_group *g, enum top_sort sort)
{
	switch (sort) {
	case TOP_BY_SHARE:
		return round(g->n.share * 50);
	case TOP_BY_PRIORITY:
		return g->priority;
	case TOP_BY_STATE:
		return g->state == TOP_SUSPENDED ? -1 : (double)g->state;
	case TOP_BY_WAIT:
		return g->n.waited;
	case TOP_BY_PREEMPT:
		return g->n.preempt_s;
	case TOP_BY_P99:
		return isnan(g->n.p99_us) ? -1 : g->n.p99_us;
	case TOP_BY_MISSES:
		return top_misses_known(g) ? g->misses : -1;
	case TOP_BY_MEMORY:
		return g->memory.committed;
	default:
		return g->n.device_ms;
	}
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct top_group *const *pa = a, *const *pb = b, *x = *pa, *y = *pb;
	const struct order *o = arg;
	double vx = value_of(x, o->sort), vy = value_of(y, o->sort);
	int rc = 0;

	if (o->sort == TOP_BY_NAME)
		rc = strcmp(x->name, y->name);
	else if (o->sort == TOP_BY_USER)
		rc = strcmp(x->user, y->user);
	else if (vx != vy)
		rc = vx < vy ? 1 : -1;
	if (rc)
		return o->reverse ? -rc : rc;
	if (x->n.device_ms != y->n.device_ms)
		return x->n.device_ms < y->n.device_ms ? 1 : -1;
	rc = strcmp(x->name, y->name);
	return rc ? rc : (x > y) - (x < y);
}

int top_model_order(const struct top_model *m, enum top_sort sort, bool reverse, const char *user,
	const struct top_group ***list, size_t *n)
{
	struct order o = {sort, reverse};

	*n = 0;
	*list = calloc(m->now.groups + 1, sizeof(**list));
	if (!*list)
		return -ENOMEM;
	for (size_t i = 0; i < m->now.groups; i++)
		if (!user || !strcmp(m->now.group[i].user, user))
			(*list)[(*n)++] = &m->now.group[i];
	qsort_r(*list, *n, sizeof(**list), compare, &o);
	return 0;
}

static void set(json_t *o, const char *key, json_t *value)
{
	json_object_set_new(o, key, value);
}

static json_t *number(double v, bool known)
{
	return known && isfinite(v) ? json_real(v) : json_null();
}

static json_t *whole(double v)
{
	return json_integer((json_int_t)FM_MIN(v, 9e15));
}

static void set_counts(json_t *o, const struct top_counts *n, bool rates)
{
	set(o, "share", number(n->share, rates));
	set(o, "waited", number(n->waited, rates));
	set(o, "preemptions_per_s", number(n->preempt_s, rates));
	set(o, "device_ms", json_real(n->device_ms));
	set(o, "wait_ms", json_real(n->wait_ms));
	set(o, "preemptions", whole(n->preemptions));
	set(o, "wait_p50_us", number(n->p50_us, true));
	set(o, "wait_p99_us", number(n->p99_us, true));
}

static void set_memory(json_t *o, const struct top_memory *m, bool known)
{
	set(o, "memory_committed_bytes", known ? whole(m->committed) : json_null());
	set(o, "memory_resident_bytes", known ? whole(m->resident) : json_null());
	set(o, "memory_host_bytes", known ? whole(m->host) : json_null());
}

static json_t *part_json(const struct top_part *p)
{
	json_t *o = json_object();

	set(o, "device", json_string(p->device));
	set_memory(o, &p->n, true);
	set(o, "memory_limit_bytes", p->n.limit > 0 ? whole(p->n.limit) : json_null());
	return o;
}

static json_t *device_json(const struct top_device *d, bool rates)
{
	json_t *o = json_object();

	set(o, "device", json_string(d->key));
	set(o, "groups", json_integer((json_int_t)d->groups));
	set(o, "ready", json_integer((json_int_t)d->ready));
	set(o, "share", number(d->share, rates));
	set(o, "preemptions_per_s", number(d->preempt_s, rates));
	set(o, "preemptions", whole(d->preemptions));
	set(o, "stop_p50_us", number(d->p50_us, true));
	set(o, "stop_p99_us", number(d->p99_us, true));
	set(o, "memory_capacity_bytes", d->capacity > 0 ? whole(d->capacity) : json_null());
	set_memory(o, &d->memory, d->capacity > 0);
	return o;
}

static json_t *group_json(const struct top_model *m, const struct top_group *g, bool rates)
{
	json_t *o = json_object(), *ents = json_array(), *parts = json_array();

	for (size_t i = 0; i < g->ents; i++) {
		json_t *e = json_object();

		set(e, "device", json_string(m->now.device[g->ent[i].device].key));
		set(e, "state", json_string(top_state_name(g->ent[i].state)));
		set_counts(e, &g->ent[i].n, rates);
		json_array_append_new(ents, e);
	}
	for (size_t i = 0; i < g->parts; i++)
		json_array_append_new(parts, part_json(&g->part[i]));
	set(o, "name", json_string(g->name));
	set(o, "uid", json_integer(g->uid));
	set(o, "user", json_string(g->user));
	set(o, "state", json_string(top_state_name(g->state)));
	set(o, "priority", json_integer(g->priority));
	set(o, "queues", json_integer(g->queues));
	set(o, "level_min", g->queues ? json_integer(g->level_min) : json_null());
	set(o, "level_max", g->queues ? json_integer(g->level_max) : json_null());
	set_counts(o, &g->n, rates);
	set(o, "deadline_misses", top_misses_known(g) ? whole(g->misses) : json_null());
	set(o, "overruns", g->tasks ? whole(g->overruns) : json_null());
	set(o, "devices", ents);
	set_memory(o, &g->memory, g->parts);
	set(o, "memory", parts);
	return o;
}

json_t *top_model_json(
	const struct top_model *m, enum top_sort sort, bool reverse, const char *user)
{
	json_t *o = json_object(), *devices = json_array(), *groups = json_array();
	const struct top_group **list;
	bool rates = m->seconds > 0;
	size_t n;

	if (top_model_order(m, sort, reverse, user, &list, &n)) {
		json_decref(devices);
		json_decref(groups);
		json_decref(o);
		return NULL;
	}
	for (size_t i = 0; i < m->now.devices; i++)
		json_array_append_new(devices, device_json(&m->now.device[i], rates));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(groups, group_json(m, list[i], rates));
	free(list);
	set(o, "interval_s", number(m->seconds, rates));
	set(o, "policy", json_incref(json_object_get(m->now.ps, "policy")));
	set(o, "devices", devices);
	set(o, "groups", groups);
	return o;
}
