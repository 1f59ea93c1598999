// SPDX-License-Identifier: Apache-2.0
/* <fermata/gpu_sched.h>: sets, from the first call to the last. task.c has their tasks. */
#include "base/clock.h"
#include "base/util.h"
#include "engine.h"
#include "task.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	enum fm_gs_policy policy;
} policies[] = {
	{"fixed-priority", FM_GS_FIXED_PRIORITY},
	{"edf", FM_GS_EDF},
	{"k-edf", FM_GS_EDF},
	{"least-laxity", FM_GS_LEAST_LAXITY},
	{"fifo", FM_GS_FIFO},
	{"fair", FM_GS_FAIR},
};

int fm_gpu_fail(struct fm_gpu_set *s, int rc, const char *text, ...)
{
	char why[FM_GPU_WHY_MAX];
	va_list args;

	va_start(args, text);
	vsnprintf(why, sizeof(why), text, args);
	va_end(args);
	pthread_mutex_lock(&s->lock);
	memcpy(s->why, why, sizeof(why));
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int fm_gpu_over(struct fm_gpu_set *s, int rc)
{
	uint64_t error = s->engine->refused ? s->engine->refused(s) : 0;

	if (!error)
		return fm_gpu_fail(s, rc, "%s", s->engine->no_end);
	return fm_gpu_fail(s, rc,
		"the device has not launched a graph (error %llu of the device runtime): the set "
		"is over",
		(unsigned long long)error);
}

int fm_gpu_usable(const struct fm_gpu_set *s)
{
	if (!s)
		return -EINVAL;
	return s->owner == getpid() ? 0 : -EBADF;
}

static int find_policy(const char *name, enum fm_gs_policy *policy)
{
	for (size_t i = 0; name && i < FM_ARRAY_LEN(policies); i++) {
		if (strcmp(name, policies[i].name))
			continue;
		*policy = policies[i].policy;
		return 0;
	}
	return -EINVAL;
}

static const struct fm_gpu_engine *offered[2]; /* beside "cpu" */

void fm_gpu_engine_offer(const struct fm_gpu_engine *engine)
{
	offered[offered[0] != NULL] = engine;
}

static int find_engine(const char *name, const struct fm_gpu_engine **engine)
{
	*engine = &fm_gpu_cpu;
	if (name && !strcmp(name, fm_gpu_cpu.name))
		return 0;
	for (size_t i = 0; i < FM_ARRAY_LEN(offered) && offered[i]; i++) {
		*engine = offered[i];
		if (!name || !strcmp(name, offered[i]->name))
			return 0;
	}
	return !name || !strcmp(name, "gates") || !strcmp(name, "graphs") ? -ENOSYS : -EINVAL;
}

static int check_kind(const struct fm_gpu_set_options *o, const struct fm_gpu_engine *engine)
{
	if ((o->resident && !engine->resident) || (o->virtual_time && !engine->virtual_time))
		return -EOPNOTSUPP;
	if ((o->group || o->device) && !engine->seated)
		return -EOPNOTSUPP;
	if (engine->slots && o->slots > engine->slots)
		return -EOPNOTSUPP;
	return 0;
}

static int check(const struct fm_gpu_set_options *o, enum fm_gs_policy *policy,
	const struct fm_gpu_engine **engine)
{
	int rc;

	if (!o || o->size < sizeof(*o))
		return -EINVAL;
	rc = find_policy(o->policy, policy);
	if (!rc)
		rc = find_engine(o->engine, engine);
	if (rc)
		return rc;
	if (!o->slots || o->slots > FM_GPU_SLOTS_MAX || o->depth > FM_GPU_DEPTH_MAX ||
		o->decision_ns > FM_GPU_DECISION_MAX)
		return -EINVAL;
	if (!fm_gpu_beside_wish(&(struct fm_gpu_beside){0}, o))
		return -EINVAL;
	if (o->decision_ns && !o->virtual_time && !o->admit)
		return -EINVAL;
	return check_kind(o, *engine);
}

static int init_lock(struct fm_gpu_set *s)
{
	pthread_condattr_t attr;
	int rc;

	if (pthread_condattr_init(&attr))
		return -ENOMEM;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = -pthread_cond_init(&s->cond, &attr);
	pthread_condattr_destroy(&attr);
	if (rc)
		return rc;
	pthread_mutex_init(&s->lock, NULL);
	fm_lock_rank(&s->lock, GPU_SET);
	return 0;
}

static void free_memory(struct fm_gpu_set *s)
{
	for (uint32_t i = 0; s->work && i < s->host.g.n; i++) {
		free(s->work[i].stream.at);
		free(s->work[i].after);
		free(s->work[i].graph);
	}
	free(s->host.g.task);
	free(s->work);
	free(s->after);
	free(s);
}

/* Room for all tasks that there may be, so that words stay where they are; what is not used costs
 * addresses alone. */
static struct fm_gpu_set *new_set(const struct fm_gpu_set_options *o, enum fm_gs_policy policy)
{
	struct fm_gpu_set *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->host.g.policy = policy;
	s->host.g.slots = o->slots;
	s->decision = o->decision_ns;
	s->host.g.gap = o->virtual_time ? o->decision_ns : 0; /* otherwise it takes what it takes */
	s->admit = o->admit;
	fm_gpu_beside_wish(&s->beside, o);
	s->host.g.wake = FM_NEVER;
	s->host.is_virtual = o->virtual_time;
	s->owner = getpid();
	s->depth = o->depth ? o->depth : FM_GPU_DEPTH;
	s->resident = o->resident;
	s->host.g.task = calloc(FM_GPU_TASKS_MAX, sizeof(*s->host.g.task));
	s->work = calloc(FM_GPU_TASKS_MAX, sizeof(*s->work));
	if (s->host.g.task && s->work && !init_lock(s))
		return s;
	free_memory(s);
	return NULL;
}

static void free_set(struct fm_gpu_set *s)
{
	pthread_cond_destroy(&s->cond);
	pthread_mutex_destroy(&s->lock);
	free_memory(s);
}

static int make_set(const struct fm_gpu_set_options *o, struct fm_gpu_set **out)
{
	enum fm_gs_policy policy = FM_GS_FIXED_PRIORITY;
	const struct fm_gpu_engine *engine;
	struct fm_gpu_set *s;
	int rc = check(o, &policy, &engine);

	if (rc)
		return rc;
	s = new_set(o, policy);
	if (!s)
		return -ENOMEM;
	s->engine = engine;
	rc = engine->open ? engine->open(s) : 0;
	if (rc)
		free_set(s);
	else
		*out = s;
	return rc;
}

struct fm_gpu_set *fm_gpu_set_new(const struct fm_gpu_set_options *options, int *error)
{
	struct fm_gpu_set *s = NULL;
	int rc = make_set(options, &s);

	if (error)
		*error = rc;
	return s;
}

void fm_gpu_set_free(struct fm_gpu_set *s)
{
	if (fm_gpu_usable(s) || fm_gpu_inside == s)
		return;
	s->engine->close(s);
	free_set(s);
}

static int change(struct fm_gpu_set *s, enum fm_gpu_state state)
{
	pthread_mutex_lock(&s->lock);
	s->state = state;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static enum fm_gpu_state state_of(struct fm_gpu_set *s)
{
	enum fm_gpu_state state;

	pthread_mutex_lock(&s->lock);
	state = s->state;
	pthread_mutex_unlock(&s->lock);
	return state;
}

int fm_gpu_set_start(struct fm_gpu_set *s)
{
	int rc = fm_gpu_usable(s);
	enum fm_gpu_state state;

	if (rc)
		return rc;
	state = state_of(s);
	if (fm_gpu_inside == s || state == FM_GPU_STARTED || state == FM_GPU_DRAINS)
		return fm_gpu_fail(
			s, -EBUSY, "the set is started; drain it before it is started anew");
	rc = fm_gpu_check_set(s);
	if (!rc && s->admit)
		rc = fm_gpu_admit(s);
	if (rc)
		return rc;
	change(s, FM_GPU_STARTED);
	rc = s->engine->start(s);
	if (rc)
		change(s, state);
	return rc;
}

int fm_gpu_set_drain(struct fm_gpu_set *s, uint64_t timeout_ns)
{
	int rc = fm_gpu_usable(s);
	enum fm_gpu_state state;

	if (rc)
		return rc;
	state = state_of(s);
	if (fm_gpu_inside == s)
		return fm_gpu_fail(
			s, -EBUSY, "a function that the set has called cannot wait for it");
	if (state == FM_GPU_NEW)
		return fm_gpu_fail(s, -EINVAL, "the set was never started");
	if (state == FM_GPU_DRAINED)
		return 0;
	change(s, FM_GPU_DRAINS);
	rc = s->engine->drain(s, timeout_ns);
	if (rc == -ETIMEDOUT || rc == -EBUSY || rc == -ELOOP)
		return fm_gpu_fail(s, rc, "%llu jobs are not complete",
			(unsigned long long)fm_gs_read(&s->host.g.pending));
	change(s, FM_GPU_DRAINED);
	return rc ? fm_gpu_over(s, rc) : 0;
}

static int park(struct fm_gpu_set *s, uint64_t value)
{
	int rc = fm_gpu_usable(s);

	if (rc)
		return rc;
	fm_gs_write(&s->host.g.park, value);
	s->engine->park(s);
	return 0;
}

int fm_gpu_set_suspend(struct fm_gpu_set *s)
{
	return park(s, 1);
}

int fm_gpu_set_resume(struct fm_gpu_set *s)
{
	return park(s, 0);
}

int fm_gpu_set_why(struct fm_gpu_set *s, char *text, size_t size)
{
	int rc = fm_gpu_usable(s);

	if (rc || !text || !size)
		return rc ? rc : -EINVAL;
	pthread_mutex_lock(&s->lock);
	snprintf(text, size, "%s", s->why);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

uint64_t fm_gpu_set_now(struct fm_gpu_set *s)
{
	return fm_gpu_usable(s) ? 0 : fm_gs_host_now(&s->host);
}

int fm_gpu_set_advance(struct fm_gpu_set *s, uint64_t ns)
{
	int rc = fm_gpu_usable(s);
	uint64_t to;

	if (rc)
		return rc;
	if (!s->host.is_virtual)
		return fm_gpu_fail(
			s, -EINVAL, "time passes by itself: the set is not of virtual time");
	to = fm_add_sat(fm_gs_host_now(&s->host), ns);
	if (to >= FM_GPU_TIME_MAX)
		return fm_gpu_fail(s, -EINVAL, "time would go beyond its end, 2^62 ns");
	rc = fm_gpu_inside == s ? -EBUSY : fm_gpu_cpu_advance(s, to, false);
	if (rc == -EBUSY)
		return fm_gpu_fail(s, rc, "somebody lets time pass already");
	if (rc)
		return fm_gpu_fail(s, rc, "a million commands without length at one time");
	return 0;
}
