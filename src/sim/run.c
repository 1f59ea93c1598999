/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates all machines of a plan, by several threads, and adds up the results. */
#include "base/lockorder.h"
#include "internal.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

uint32_t fm_sim_devices(const struct fm_sim_plan *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->devices; i++)
		n += p->device[i].count;
	return n;
}

uint32_t fm_sim_device_at(const struct fm_sim_plan *p, uint32_t n, uint32_t *instance)
{
	uint32_t i = 0;

	for (; i + 1 < p->devices && n >= p->device[i].count; i++)
		n -= p->device[i].count;
	*instance = n;
	return i;
}

uint32_t fm_sim_places(const struct fm_sim_plan *p, const struct fm_sim_group *g)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < g->places; k++)
		n += p->device[g->place[k]].count;
	return n;
}

uint32_t fm_sim_place(const struct fm_sim_plan *p, const struct fm_sim_group *g, uint32_t n)
{
	uint32_t first = 0, k = 0;

	for (n %= fm_sim_places(p, g); n >= p->device[g->place[k]].count; k++)
		n -= p->device[g->place[k]].count;
	for (uint32_t i = 0; i < g->place[k]; i++)
		first += p->device[i].count;
	return first + n;
}

uint32_t fm_sim_offset(const struct fm_sim_plan *p, const struct fm_sim_group *g, uint32_t device)
{
	uint32_t instance, section = fm_sim_device_at(p, device, &instance), before = 0;

	for (uint32_t k = 0; k < g->places; before += p->device[g->place[k++]].count)
		if (g->place[k] == section)
			return before + instance;
	return UINT32_MAX;
}

/* Is each device of a machine independent of the others? Then the devices are simulated one after
 * the other: the result is the same, and much less memory is needed at a time. */
static bool has_islands(const struct fm_sim_plan *p)
{
	if (p->policy->shared_size)
		return false;
	for (uint32_t i = 0; i < p->groups; i++)
		if (p->group[i].arrival == FM_SIM_AFTER || p->group[i].everywhere ||
			p->group[i].has_cpu)
			return false;
	for (uint32_t i = 0; i < p->devices; i++)
		if (p->device[i].bridge)
			return false;
	return true;
}

struct crew {
	const struct fm_sim_plan *plan;
	const struct fm_sim_audience *audience; /* or NULL */
	struct fm_sim_control *control;
	struct fm_sim_result *result;
	struct fm_err *err;
	uint32_t islands; /* of a machine; 1: it is whole */
	bool whole;
	pthread_mutex_t lock; /* of what follows, and of *result */
	uint64_t next;
	int rc;
};

/* Takes the next island. UINT64_MAX: there is no more to do. rc: the result of the island before.
 */
static uint64_t take(struct crew *c, int rc, const struct fm_err *err)
{
	uint64_t next = UINT64_MAX;

	pthread_mutex_lock(&c->lock);
	if (rc && !c->rc) {
		c->rc = rc;
		if (c->err)
			*c->err = *err;
	}
	if (!c->rc && c->next < (uint64_t)c->plan->machines * c->islands)
		next = c->next++;
	pthread_mutex_unlock(&c->lock);
	return next;
}

static int run_one(struct crew *c, uint64_t island, const struct fm_sim_watch *watch,
	struct fm_sim_result *r, struct fm_err *err)
{
	uint32_t machine = (uint32_t)(island / c->islands);

	if (c->whole)
		return fm_sim_machine(c->plan, machine, watch, c->control, r, err);
	return fm_sim_island(
		c->plan, machine, (uint32_t)(island % c->islands), watch, c->control, r, err);
}

static int run_watched(struct crew *c, uint64_t island, struct fm_sim_result *r, struct fm_err *err)
{
	const struct fm_sim_audience *a = c->audience;
	struct fm_sim_watch watch = {0};
	int rc, end;

	if (!a)
		return run_one(c, island, NULL, r, err);
	rc = a->begin(a->ctx, island, &watch);
	if (!rc)
		rc = run_one(c, island, &watch, r, err);
	else
		fm_err_set(err, rc, "the simulation cannot be watched: %s", strerror(-rc));
	end = a->end(a->ctx, island, &watch, rc != 0);
	if (!rc && end)
		fm_err_set(err, end, "the simulation cannot be watched: %s", strerror(-end));
	return rc ? rc : end;
}

static void *work(void *arg)
{
	struct crew *c = arg;
	struct fm_sim_result r;
	struct fm_err err = {0};
	uint64_t island;
	int rc = fm_sim_result_init(&r, c->plan);

	if (rc) {
		fm_err_set(&err, rc, "out of memory");
		take(c, rc, &err);
		return NULL;
	}
	while ((island = take(c, rc, &err)) != UINT64_MAX)
		rc = run_watched(c, island, &r, &err);
	pthread_mutex_lock(&c->lock);
	fm_sim_result_merge(c->result, &r);
	pthread_mutex_unlock(&c->lock);
	fm_sim_result_free(&r);
	return NULL;
}

int fm_sim_run(const struct fm_sim_plan *p, unsigned threads,
	const struct fm_sim_audience *audience, struct fm_sim_control *control,
	struct fm_sim_result *r, struct fm_err *err)
{
	struct crew c = {
		.plan = p, .audience = audience, .control = control, .result = r, .err = err};
	pthread_t *thread;
	unsigned n = 0;

	c.whole = !has_islands(p);
	c.islands = c.whole ? 1 : fm_sim_devices(p);
	threads = (unsigned)FM_MIN(FM_MAX(threads, 1u), (uint64_t)p->machines * c.islands);
	thread = calloc(threads, sizeof(*thread));
	if (!thread)
		return fm_err_set(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&c.lock, NULL);
	fm_lock_rank(&c.lock, SIM_CREW);
	while (n + 1 < threads && !pthread_create(&thread[n], NULL, work, &c))
		n++;
	work(&c);
	while (n)
		pthread_join(thread[--n], NULL);
	pthread_mutex_destroy(&c.lock);
	free(thread);
	r->machines += c.rc ? 0 : p->machines;
	return c.rc;
}
