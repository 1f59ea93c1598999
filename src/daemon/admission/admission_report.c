/* SPDX-License-Identifier: Apache-2.0 */
/* What is reported about tasks. If memory is short, members are missing. */
#include "admission_internal.h"
#include "base/clock.h"
#include "daemon/reply.h"

static json_t *ms_of(int64_t ns)
{
	return json_real((double)ns / FM_MS);
}

static void set_bound(json_t *o, const struct fm_admit_spec *s, int64_t bound)
{
	set(o, "deadline_ms", ms_of(s->deadline));
	set(o, "bound_ms", ms_of(bound));
	set(o, "slack_ms", ms_of(s->deadline - bound));
	set(o, "bound_ns", json_integer(bound));
	set(o, "slack_ns", json_integer(s->deadline - bound));
}

static json_t *response_object(const struct fm_hist *h)
{
	json_t *o = json_object();

	set(o, "p50", ms_of(h ? (int64_t)fm_hist_quantile(h, 0.50) : 0));
	set(o, "p99", ms_of(h ? (int64_t)fm_hist_quantile(h, 0.99) : 0));
	set(o, "max", ms_of(h ? (int64_t)h->max : 0));
	return o;
}

static const char *state_name(const struct task *t, const struct fm_atask_info *i)
{
	static const char *const names[] = {[FM_ATASK_PLACED] = "admitted",
		[FM_ATASK_DEMOTED] = "demoted",
		[FM_ATASK_STOPPED] = "stopped"};

	return t->group ? names[i->state] : "absent";
}

static json_t *task_object(
	struct daemon *d, const struct peer *p, const struct task *t, uint64_t now)
{
	struct fm_bridge_group_info group;
	struct fm_atask_info i;
	json_t *o = json_object();

	fm_atask_info(d->admission->admit, t->at, now, &i);
	if (t->group)
		fm_bridge_group_info(t->group, &group);
	set(o, "id", json_sprintf("t%u", t->id));
	set(o, "name", json_string(t->name));
	set(o, "group",
		t->group           ? json_string(group.name)
		: t->group_name[0] ? json_string(t->group_name)
				   : json_null());
	set(o, "pid", json_integer(t->owner->pid));
	set(o, "uid", json_integer(t->owner->uid));
	set(o, "state", json_string(state_name(t, &i)));
	set(o, "priority", json_integer(i.spec->priority));
	set(o, "cpu", i.spec->own_cpu ? json_null() : json_integer(i.spec->cpu));
	set(o, "period_ms", ms_of(i.spec->period));
	set_bound(o, i.spec, i.bound);
	set(o, "budget_ms", ms_of(i.budget));
	set(o, "used_ms", ms_of((int64_t)i.used));
	set(o, "overrun", json_string(fm_overrun_name(i.spec->overrun)));
	set(o, "jobs", json_integer((json_int_t)i.jobs));
	set(o, "response_ms", response_object(i.response));
	set(o, "overruns", json_integer((json_int_t)i.overruns));
	set(o, "violations", json_integer((json_int_t)i.violations));
	set(o, "misses", json_integer((json_int_t)i.misses));
	set(o, "why", i.why[0] ? json_string(p->steers ? i.why : i.why_own) : json_null());
	return o;
}

static json_t *task_numbers(struct daemon *d, const struct task *t, uint64_t now)
{
	struct fm_bridge_group_info group = {.name = t->group_name};
	struct fm_atask_info i;
	json_t *o = json_object();

	fm_atask_info(d->admission->admit, t->at, now, &i);
	if (t->group)
		fm_bridge_group_info(t->group, &group);
	set(o, "id", json_integer(t->id));
	set(o, "name", json_string(t->name));
	set(o, "group", json_string(group.name));
	set(o, "pid", json_integer(t->owner->pid));
	set(o, "uid", json_integer(t->owner->uid));
	set(o, "state", json_string(state_name(t, &i)));
	set(o, "deadline_ns", json_integer(i.spec->deadline));
	set(o, "period_ns", json_integer(i.spec->period));
	set(o, "bound_ns", json_integer(i.bound));
	set(o, "budget_ns", json_integer(i.budget));
	set(o, "jobs", json_integer((json_int_t)i.jobs));
	set(o, "overruns", json_integer((json_int_t)i.overruns));
	set(o, "violations", json_integer((json_int_t)i.violations));
	if (i.response)
		set(o, "response", metrics_histogram(i.response));
	return o;
}

bool admission_metrics(
	struct daemon *d, const struct peer *p, uint64_t *after, unsigned n, json_t *list)
{
	uint64_t now = fm_now();
	struct task *t;

	fm_list_each (t, &d->admission->tasks, link) {
		if (t->id <= *after || !peer_sees(p, t->owner->uid))
			continue;
		if (json_array_size(list) == n)
			return false;
		*after = t->id;
		json_array_append_new(list, task_numbers(d, t, now));
	}
	return true;
}

json_t *admission_tasks(const struct daemon *d)
{
	return json_pack("{s:b, s:s}", "ok", 1, "method",
		fm_rta_method_name((enum fm_rta_method)d->config.admission.method));
}

json_t *admission_task(struct daemon *d, const struct peer *p, uint64_t *after)
{
	struct task *t;

	fm_list_each (t, &d->admission->tasks, link) {
		if (t->id <= *after || !peer_sees(p, t->owner->uid))
			continue;
		*after = t->id;
		return task_object(d, p, t, fm_now()) ?: json_null();
	}
	return NULL;
}

static json_t *misses_object(
	const struct daemon *d, const struct peer *p, const struct fm_admit_answer *a)
{
	const struct task *t = a->is_new ? NULL : a->who.data;
	bool seen = !t || peer_sees(p, t->owner->uid);
	json_t *o = json_object();

	set(o, "name", seen ? json_string(a->who.name) : json_null());
	set(o, "admitted_before", json_boolean(!a->is_new));
	set(o, "deadline_ms", seen ? ms_of(a->who.deadline) : json_null());
	if (a->verdict == FM_RTA_MISSES) {
		set(o, "at_least_ms", seen ? ms_of(a->wcrt) : json_null());
		set(o, "by_ms", ms_of(a->wcrt - a->who.deadline));
	}
	set(o, "why", json_string(seen ? a->why : "would miss its deadline"));
	return o;
}

json_t *admission_answer(const struct daemon *d, const struct admission_request *r,
	const struct fm_admit_answer *a, const int64_t *bound)
{
	json_t *o = json_object(), *list = json_array();

	for (size_t i = 0; a->admitted && i < r->n; i++) {
		json_t *one = json_object();

		set(one, "name", json_string(r->wish[i].spec.name));
		set_bound(one, &r->wish[i].spec, bound[i]);
		json_array_append_new(list, one);
	}
	set(o, "ok", json_true());
	set(o, "admitted", json_boolean(a->admitted));
	set(o, "method",
		json_string(fm_rta_method_name((enum fm_rta_method)d->config.admission.method)));
	set(o, "epsilon_ms", ms_of(a->epsilon));
	set(o, "machine_epsilon_ms",
		a->machine_epsilon == FM_RTA_UNSET ? json_null() : ms_of(a->machine_epsilon));
	set(o, "gpu_priorities", json_boolean(a->by_level));
	set(o, "tasks", list);
	if (!a->admitted)
		set(o, "misses", misses_object(d, r->peer, a));
	return o;
}
