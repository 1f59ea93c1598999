/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan amounts to, and all of its machines, by several threads. */
#include "internal.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

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

uint32_t fm_sim_groups(const struct fm_sim_plan *p, uint32_t *entities)
{
	uint32_t n = 0;

	*entities = 0;
	for (uint32_t i = 0; i < p->groups; i++) {
		const struct fm_sim_group *g = &p->group[i];

		n += g->count;
		*entities += g->count * (g->everywhere ? fm_sim_places(p, g) : 1);
	}
	return n;
}

struct crew {
	const struct fm_sim_plan *plan;
	struct fm_sim_control *control;
	struct fm_sim_result *result;
	struct fm_err *err;
	pthread_mutex_t lock; /* of what follows, and of *result */
	uint32_t next;
	int rc;
};

/* The next machine; UINT32_MAX: there is no more to do. rc: of the one before. */
static uint32_t take(struct crew *c, int rc, const struct fm_err *err)
{
	uint32_t next = UINT32_MAX;

	pthread_mutex_lock(&c->lock);
	if (rc && !c->rc) {
		c->rc = rc;
		if (c->err)
			*c->err = *err;
	}
	if (!c->rc && c->next < c->plan->machines)
		next = c->next++;
	pthread_mutex_unlock(&c->lock);
	return next;
}

static void *work(void *arg)
{
	struct crew *c = arg;
	struct fm_sim_result r;
	struct fm_err err = {0};
	uint32_t machine;
	int rc = fm_sim_result_init(&r, c->plan);

	if (rc) {
		fm_err_set(&err, rc, "out of memory");
		take(c, rc, &err);
		return NULL;
	}
	while ((machine = take(c, rc, &err)) != UINT32_MAX)
		rc = fm_sim_machine(c->plan, machine, NULL, c->control, &r, &err);
	pthread_mutex_lock(&c->lock);
	fm_sim_result_merge(c->result, &r);
	pthread_mutex_unlock(&c->lock);
	fm_sim_result_free(&r);
	return NULL;
}

int fm_sim_run(const struct fm_sim_plan *p, unsigned threads, struct fm_sim_control *control,
	struct fm_sim_result *r, struct fm_err *err)
{
	struct crew c = {.plan = p, .control = control, .result = r, .err = err};
	pthread_t *thread;
	unsigned n = 0;

	threads = FM_MIN(FM_MAX(threads, 1u), p->machines);
	thread = calloc(threads, sizeof(*thread));
	if (!thread)
		return fm_err_set(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&c.lock, NULL);
	while (n + 1 < threads && !pthread_create(&thread[n], NULL, work, &c))
		n++;
	work(&c);
	while (n)
		pthread_join(thread[--n], NULL);
	pthread_mutex_destroy(&c.lock);
	free(thread);
	return c.rc;
}
