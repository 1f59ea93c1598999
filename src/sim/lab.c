/* SPDX-License-Identifier: Apache-2.0 */
#include "lab.h"
#include "lab_internal.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The time that a device may lose through the core: only what is in flight at the end. */
#define WASTE   (20 * FM_US)
#define QUANTUM (2 * FM_MS) /* no policy's turns are shorter */

static const struct {
	const char *name, *text;
} promises[] = {
#define TEXTS(id, name, what) [FM_PROMISE_##id] = {name, what},
	FM_PROMISES(TEXTS)
#undef TEXTS
};

const char *fm_lab_promise_name(enum fm_promise p)
{
	return (unsigned)p < FM_PROMISE_COUNT ? promises[p].name : NULL;
}

const char *fm_lab_promise_text(enum fm_promise p)
{
	return (unsigned)p < FM_PROMISE_COUNT ? promises[p].text : NULL;
}

const struct fm_policy_promise *fm_lab_promises(const struct fm_policy_ops *ops)
{
	static const struct fm_policy_promise sound[] = {
		{{NULL}, FM_PROMISE_SOUND, 1}, {{NULL}, 0, 0}};

	return ops->promises ? ops->promises : sound;
}

void lab_expect(struct lab *l, bool holds, const char *property, const char *fmt, ...)
{
	struct fm_lab_finding f = {.scenario = l->scenario, .property = property, .holds = holds};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	l->failed += !holds;
	if (l->report)
		l->enough |= !l->report->finding(l->report->ctx, &f);
}

static void check_conserves(struct lab *l)
{
	uint64_t wasted = 0;

	for (uint32_t i = 0; i < l->plan.devices; i++)
		wasted = FM_MAX(wasted, l->seen[i].wasted);
	lab_expect(l, wasted <= WASTE, "conserves", "idle for %llu us while a group had work",
		(unsigned long long)(wasted / FM_US));
}

static void check_alone(struct lab *l)
{
	unsigned most = 0;

	for (uint32_t i = 0; i < l->plan.devices; i++)
		most = FM_MAX(most, l->seen[i].most);
	lab_expect(l, most <= l->promise->at_once, "alone", "%u at a time", most);
}

static void check_calm(struct lab *l)
{
	uint64_t jobs = 0, most;

	for (uint32_t i = 0; i < l->plan.groups; i++)
		jobs += l->r.group[i].arrivals;
	most = l->plan.devices * (l->plan.duration / QUANTUM) + 2 * jobs;
	lab_expect(l, l->r.core.preemptions <= most, "calm", "%llu stops, at most %llu",
		(unsigned long long)l->r.core.preemptions, (unsigned long long)most);
}

static void check_open(struct lab *l)
{
	lab_expect(l, !l->shut, "open", "%llu gates closed to groups with work",
		(unsigned long long)l->shut);
}

static void check_always(struct lab *l, uint32_t but)
{
	uint32_t promised = l->promise->bits & ~but;

	if (promised & FM_PROMISE(CONSERVES))
		check_conserves(l);
	if (promised & FM_PROMISE(ALONE))
		check_alone(l);
	if (promised & FM_PROMISE(CALM))
		check_calm(l);
	if (promised & FM_PROMISE(OPEN))
		check_open(l);
}

static int run_scenario(struct lab *l, const struct lab_scenario *s,
	const struct fm_policy_ops *ops, struct fm_err *err)
{
	const struct fm_sim_watch watch = {lab_watch, l, LAB_WANTS};
	size_t n = 0;
	int rc;

	while (n < FM_ARRAY_LEN(l->promise->setting) && l->promise->setting[n])
		n++;
	l->scenario = s->name;
	l->a = l->b = 0;
	l->plan = (struct fm_sim_plan){.policy = ops,
		.params = l->promise->setting,
		.n_params = n,
		.duration = 10 * FM_S,
		.seed = 1,
		.machines = 1,
		.device = l->device,
		.group = l->group};
	s->make(l);
	lab_watch_begin(l);
	rc = fm_sim_result_init(&l->r, &l->plan);
	if (rc)
		return fm_err_set(err, rc, "out of memory");
	rc = fm_sim_machine(&l->plan, 0, &watch, NULL, &l->r, err);
	lab_watch_end(l);
	if (!rc) {
		check_always(l, s->but);
		if (s->check)
			s->check(l);
	}
	fm_sim_result_free(&l->r);
	return rc;
}

static bool wants(const struct fm_lab_report *r, const char *scenario)
{
	return !r || !r->wants || r->wants(r->ctx, scenario);
}

int fm_lab_run(const struct fm_policy_ops *ops, const struct fm_policy_promise *promise,
	const struct fm_lab_report *report, unsigned *failed, struct fm_err *err)
{
	struct lab *l = calloc(1, sizeof(*l));
	int rc = 0;

	if (!l)
		return fm_err_set(err, -ENOMEM, "out of memory");
	l->promise = promise;
	l->report = report;
	for (const struct lab_scenario *s = lab_scenarios; s->name && !rc && !l->enough; s++)
		if ((s->needs & promise->bits) == s->needs && wants(report, s->name))
			rc = run_scenario(l, s, ops, err);
	*failed = l->failed;
	free(l);
	return rc;
}
