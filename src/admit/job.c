/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of an admitted task: its periods with their budget, and its jobs with their response
 * times. Edges only note what happened; whatever that calls for is done by fm_admit_run(). */
#include "base/clock.h"
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void atask_place(struct fm_admit *a, struct fm_atask *t, enum fm_astate state, uint64_t now)
{
	t->state = state;
	if (t->there)
		a->host.place(a->ctx, t->spec.data, state, t->place, now);
}

static uint64_t used_since(
	const struct fm_admit *a, const struct fm_atask *t, uint64_t now, unsigned *devices)
{
	uint64_t used = t->used_gone;

	*devices = 0;
	if (!t->there)
		return used;
	return used + fm_sub_sat(a->host.used(a->ctx, t->spec.data, now, devices), t->used_at);
}

static uint64_t period_end(const struct fm_atask *t)
{
	return fm_add_sat(t->period_at, (uint64_t)t->spec.period);
}

static void begin_period(struct fm_admit *a, struct fm_atask *t, uint64_t at, uint64_t now)
{
	unsigned devices;

	t->period_at = at;
	t->used_at = t->used_gone = 0;
	t->used_at = used_since(a, t, now, &devices);
	t->over = false;
}

/* When to look again. A nanosecond more than the budget is more; on several devices it goes so much
 * faster. */
static uint64_t next_look(const struct fm_admit *a, const struct fm_atask *t, uint64_t now)
{
	uint64_t next = FM_NEVER, used, left;
	unsigned devices;

	if (t->resting)
		next = t->declared ? t->idle_at : fm_add_sat(t->idle_at, a->config.pause);
	if (t->job && t->busy && !t->reported)
		next = FM_MIN(next, fm_add_sat(t->began, (uint64_t)t->bound + 1));
	if (t->period_at == FM_NEVER)
		return next;
	if (t->busy || t->over)
		next = FM_MIN(next, period_end(t));
	if (t->busy && !t->over) {
		used = used_since(a, t, now, &devices);
		left = fm_sub_sat((uint64_t)t->budget, used) / FM_MAX(devices, 1u) + 1;
		next = FM_MIN(next, fm_add_sat(now, left));
	}
	return next;
}

/* Cannot fail: room was reserved. */
static void arm_at(struct fm_admit *a, struct fm_atask *t, uint64_t next)
{
	fm_heap_del(&a->due, &t->due);
	if (next != FM_NEVER)
		fm_heap_push(&a->due, &t->due, next);
}

static const struct fm_admit_spec *guilty_task(const struct fm_admit *a, const struct fm_atask *t)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct fm_atask *h = a->task[i];

		if (h != t && h->place > t->place && h->overruns &&
			(h->over || h->overran_at >= t->began))
			return &h->spec;
	}
	return NULL;
}

/* What the user of the task may be told. */
static void hide_why(
	const struct fm_admit *a, struct fm_atask *t, const struct fm_admit_spec *guilty, bool late)
{
	if (guilty && guilty->user != t->spec.user)
		snprintf(t->why_own, sizeof(t->why_own), "overrun of a task of another user");
	else if (late && a->late_user != t->spec.user)
		snprintf(t->why_own, sizeof(t->why_own),
			"a group of another user let go of the device %.3f ms after its gates "
			"closed",
			(double)a->late_ns / 1e6);
	else
		snprintf(t->why_own, sizeof(t->why_own), "%s", t->why);
}

/* The likeliest first. */
static void find_why(const struct fm_admit *a, struct fm_atask *t)
{
	const struct fm_admit_spec *guilty = NULL;
	bool late = false;

	if (t->overruns && t->overran_at >= t->began)
		snprintf(t->why, sizeof(t->why), "it used more of the device than it had declared");
	else if (t->suspended || (t->suspended_to && t->suspended_to >= t->began))
		snprintf(t->why, sizeof(t->why), "its group was suspended by hand");
	else if ((guilty = guilty_task(a, t)))
		snprintf(t->why, sizeof(t->why), "overrun of task %s", guilty->name);
	else if ((late = a->late_at && a->late_at >= t->began))
		snprintf(t->why, sizeof(t->why),
			"%s let go of the device %.3f ms after its gates closed", a->late_who,
			(double)a->late_ns / 1e6);
	else if (t->early)
		snprintf(t->why, sizeof(t->why), "it came before its period was over");
	else
		snprintf(t->why, sizeof(t->why),
			"not the device, but its processor, or more segments than it had declared");
	hide_why(a, t, guilty, late);
}

static void violated(struct fm_admit *a, struct fm_atask *t, uint64_t took, bool ended)
{
	t->reported = true;
	t->violations++;
	find_why(a, t);
	a->host.violated(a->ctx, t->spec.data, took, ended, t->why);
}

static void end_job(struct fm_admit *a, struct fm_atask *t)
{
	uint64_t took = fm_sub_sat(t->idle_at, t->began);

	t->job = false;
	t->jobs++;
	t->misses += took > (uint64_t)t->spec.deadline;
	if (!t->response)
		t->response = calloc(1, sizeof(*t->response));
	if (t->response)
		fm_hist_add(t->response, took);
	if (took > (uint64_t)t->bound && !t->reported)
		violated(a, t, took, true);
}

static void end_stretch(struct fm_admit *a, struct fm_atask *t)
{
	t->resting = false;
	t->stretches++;
	if (t->job && t->stretches >= t->spec.segments)
		end_job(a, t);
}

static void begin_job(struct fm_atask *t, uint64_t at)
{
	t->early = t->jobs && at < fm_add_sat(t->began, (uint64_t)t->spec.period);
	t->job = true;
	t->reported = false;
	t->began = at;
	t->stretches = 0;
}

static void became_busy(struct fm_admit *a, struct fm_atask *t, uint64_t at, uint64_t now)
{
	uint64_t pause = fm_sub_sat(at, t->idle_at);

	if (t->resting && !t->declared && pause <= a->config.pause)
		t->resting = false;
	else if (t->resting)
		end_stretch(a, t);
	if (t->job && at >= fm_add_sat(t->began, (uint64_t)t->spec.period) && t->stretches)
		end_job(a, t);
	if (!t->job)
		begin_job(t, at);
	if (t->period_at == FM_NEVER || at >= period_end(t))
		begin_period(a, t, at, now);
}

void fm_atask_edge(
	struct fm_admit *a, struct fm_atask *t, bool busy, bool declared, uint64_t at, uint64_t now)
{
	if (t->busy == busy)
		return;
	t->busy = busy;
	if (busy) {
		became_busy(a, t, at, now);
	} else {
		t->idle_at = at;
		t->resting = true;
		t->declared = declared;
	}
	arm_at(a, t, now);
}

void fm_atask_suspended(struct fm_atask *t, bool suspended, uint64_t now)
{
	if (t->suspended && !suspended)
		t->suspended_to = now;
	t->suspended = suspended;
}

void fm_admit_rested(struct fm_admit *a, const char *who, uint32_t user, uint64_t took, uint64_t at)
{
	if (!a->n || took <= (uint64_t)FM_MAX(a->epsilon, INT64_C(0)))
		return;
	snprintf(a->late_who, sizeof(a->late_who), "%s", who);
	a->late_user = user;
	a->late_ns = took;
	a->late_at = at;
}

/* The next period begins where the last ended, if work goes on; else with the next work. */
static void turn_period(struct fm_admit *a, struct fm_atask *t, uint64_t now)
{
	if (t->busy)
		begin_period(a, t, now - (now - t->period_at) % (uint64_t)t->spec.period, now);
	else
		t->period_at = FM_NEVER;
	t->over = false;
}

static void check_budget(struct fm_admit *a, struct fm_atask *t, uint64_t now)
{
	static const enum fm_astate then[] = {[FM_OVERRUN_DEMOTE] = FM_ATASK_DEMOTED,
		[FM_OVERRUN_STOP] = FM_ATASK_STOPPED,
		[FM_OVERRUN_REPORT] = FM_ATASK_PLACED};
	unsigned devices;
	uint64_t used = used_since(a, t, now, &devices);

	if (t->over || used <= (uint64_t)t->budget)
		return;
	t->over = true;
	t->overruns++;
	t->overran_at = now;
	a->host.overran(a->ctx, t->spec.data, used, t->budget);
	if (then[t->spec.overrun] != t->state)
		atask_place(a, t, then[t->spec.overrun], now);
}

/* The budget first: an overrun explains a late job. */
static void look(struct fm_admit *a, struct fm_atask *t, uint64_t now)
{
	uint64_t pause = t->declared ? 0 : a->config.pause;

	if (t->period_at != FM_NEVER) {
		check_budget(a, t, now);
		if (now >= period_end(t))
			turn_period(a, t, now);
		if (!t->over && t->state != FM_ATASK_PLACED)
			atask_place(a, t, FM_ATASK_PLACED, now);
	}
	if (t->resting && now >= fm_add_sat(t->idle_at, pause))
		end_stretch(a, t);
	if (t->job && t->busy && !t->reported && now > fm_add_sat(t->began, (uint64_t)t->bound))
		violated(a, t, now - t->began, false);
	arm_at(a, t, next_look(a, t, now));
}

/* Its group has come, or goes: the period and what is left of its budget stay as they are, so that
 * nobody has a whole one again by leaving. */
void fm_atask_bound(struct fm_admit *a, struct fm_atask *t, bool bound, uint64_t now)
{
	unsigned devices;

	t->used_gone = used_since(a, t, now, &devices);
	t->there = bound;
	t->suspended = false;
	t->busy = t->resting = t->job = false;
	if (bound)
		t->used_at = a->host.used(a->ctx, t->spec.data, now, &devices);
	look(a, t, now);
	if (bound)
		atask_place(a, t, t->state, now);
}

uint64_t fm_admit_next(const struct fm_admit *a)
{
	const struct fm_heap_node *n = fm_heap_min(&a->due);

	return n ? n->key : FM_NEVER;
}

/* Ends: who was looked at is due after now. */
void fm_admit_run(struct fm_admit *a, uint64_t now)
{
	struct fm_heap_node *n;

	while ((n = fm_heap_min(&a->due)) && n->key <= now)
		look(a, fm_container(n, struct fm_atask, due), now);
}

void fm_atask_info(const struct fm_admit *a, const struct fm_atask *t, uint64_t now,
	struct fm_atask_info *info)
{
	unsigned devices;

	*info = (struct fm_atask_info){.spec = &t->spec,
		.state = t->state,
		.bound = t->bound,
		.budget = t->budget,
		.place = t->place,
		.at_work = t->job,
		.jobs = t->jobs,
		.overruns = t->overruns,
		.violations = t->violations,
		.misses = t->misses,
		.response = t->response,
		.why = t->why,
		.why_own = t->why_own};
	if (t->period_at != FM_NEVER)
		info->used = used_since(a, t, now, &devices);
}
