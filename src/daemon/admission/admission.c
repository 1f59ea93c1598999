/* SPDX-License-Identifier: Apache-2.0 */
#include "admission_internal.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "daemon/trace.h"
#include "policy/policy.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POLICY "fixed-priority"

/* What happens to tasks, as the bridge tells. */

/* The uids must match too: a process may have changed its user, or its pid may belong to another
 * process. An owner that only root may look into counts as root's; only a peer that steers
 * everything can have named it. */
static bool fits(const struct task *t, const struct fm_bridge_group *g)
{
	uid_t uid = t->owner->uid;

	if (t->group_name[0])
		return fm_bridge_group_is(g, uid, t->group_name);
	return fm_bridge_group_is_own(g, t->owner->pid) && (!uid || fm_bridge_group_uid(g) == uid);
}

static void bind(struct daemon *d, struct task *t, struct fm_bridge_group *g)
{
	uint64_t now = fm_now();

	t->group = g;
	fm_atask_bound(d->admission->admit, t->at, true, now);
	fm_bridge_group_watch(d->bridge, g, t, now);
	admission_suspended(d, g);
}

void task_unbind(struct daemon *d, struct task *t, bool gone)
{
	struct fm_bridge_group *g = t->group;
	uint64_t now = fm_now();

	fm_atask_bound(d->admission->admit, t->at, false, now);
	t->group = NULL;
	if (!gone)
		fm_bridge_group_watch(d->bridge, g, NULL, now);
}

static void on_suspended(void *ctx, struct fm_bridge_group *g)
{
	admission_suspended(ctx, g);
}

static void find_task(struct daemon *d, struct fm_bridge_group *g)
{
	struct task *t;

	fm_list_each (t, &d->admission->tasks, link) {
		if (t->group || !fits(t, g))
			continue;
		bind(d, t, g);
		return;
	}
}

static void on_group(void *ctx, struct fm_bridge_group *g, bool ends)
{
	struct task *t = fm_bridge_group_watched(g);
	struct daemon *d = ctx;

	if (t && (ends || !fits(t, g)))
		task_unbind(d, t, ends);
	else if (t)
		return;
	if (!ends)
		find_task(d, g);
}

static void on_edge(void *ctx, void *watch, const struct fm_bridge_group_edge *e)
{
	struct daemon *d = ctx;
	struct task *t = watch;

	fm_atask_edge(d->admission->admit, t->at, e->busy, e->declared, e->at, fm_now());
}

static void on_rested(void *ctx, const struct fm_bridge_group *g, uint64_t took, uint64_t at)
{
	struct fm_bridge_group_info info;
	struct daemon *d = ctx;

	if (!fm_admit_count(d->admission->admit))
		return;
	fm_bridge_group_info(g, &info);
	fm_admit_rested(d->admission->admit, info.name, info.uid, took, at);
}

/* What the admission control wants done. */

static uint64_t on_used(void *ctx, void *data, uint64_t now, unsigned *devices)
{
	const struct task *t = data;

	return t->group ? fm_bridge_group_used(t->group, now, devices) : 0;
}

static void on_place(void *ctx, void *data, enum fm_astate state, int64_t place, uint64_t now)
{
	static const enum fm_grant grant[] = {[FM_ATASK_PLACED] = FM_GRANT_PLACE,
		[FM_ATASK_DEMOTED] = FM_GRANT_DEMOTED,
		[FM_ATASK_STOPPED] = FM_GRANT_STOPPED};
	struct daemon *d = ctx;
	struct task *t = data;

	fm_bridge_group_grant(d->bridge, t->group, grant[state], place, now);
}

static double ms(uint64_t ns)
{
	return (double)ns / FM_MS;
}

static void note_task(struct daemon *d, const struct task *t, enum fm_trace_event event, uint64_t a,
	uint64_t b, uint64_t c)
{
	if (t->group)
		trace_note(d, &(struct fm_bridge_note){.event = event,
				      .at = fm_now(),
				      .group = t->group,
				      .arg = {a, b, c}});
}

static void on_overran(void *ctx, void *data, uint64_t used, int64_t budget)
{
	struct daemon *d = ctx;
	struct task *t = data;

	FM_PROBE(overrun, fm_now(), t->name, NULL, NULL, used, budget);
	note_task(d, t, FM_EV_overrun, used, (uint64_t)budget, 0);
	fm_log_limited(&d->log, &d->admission->log, LOG_NOTICE,
		"task %s (pid %d, user %u) is over its budget: %.3f ms used, %.3f ms declared",
		t->name, (int)t->owner->pid, t->owner->uid, ms(used), ms((uint64_t)budget));
}

static void on_violated(void *ctx, void *data, uint64_t took, bool ended, const char *why)
{
	struct fm_atask_info info;
	struct daemon *d = ctx;
	struct task *t = data;

	fm_atask_info(d->admission->admit, t->at, fm_now(), &info);
	FM_PROBE(job_late, fm_now(), t->name, NULL, why, took, info.bound);
	note_task(d, t, FM_EV_job_late, took, (uint64_t)info.bound, (uint64_t)info.spec->deadline);
	fm_log_limited(&d->log, &d->admission->log, LOG_WARNING,
		"task %s (pid %d, user %u): a job %s %.3f ms, its bound is %.3f ms: %s", t->name,
		(int)t->owner->pid, t->owner->uid, ended ? "took" : "has taken", ms(took),
		ms((uint64_t)info.bound), why);
}

int admission_new(struct daemon *d)
{
	static const struct fm_admit_host host = {
		.used = on_used, .place = on_place, .overran = on_overran, .violated = on_violated};
	const struct fm_bridge_watcher watcher = {.ctx = d,
		.group = on_group,
		.edge = on_edge,
		.suspended = on_suspended,
		.rested = on_rested};
	struct admission *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	fm_list_init(&a->owners);
	fm_list_init(&a->tasks);
	if (fm_admit_new(&a->admit, &host, d)) {
		free(a);
		return -ENOMEM;
	}
	d->admission = a;
	fm_bridge_watcher(d->bridge, &watcher);
	return 0;
}

/* A group that lingers on the device delays the next one. So the linger is part of the cost of a
 * change. */
void admission_configure(struct daemon *d)
{
	const struct config_admission *c = &d->config.admission;
	uint64_t linger =
		d->config.linger_ns == CONFIG_AUTO ? FM_LINGER_BOUND : d->config.linger_ns;
	struct fm_admit_config to = {
		.method = (enum fm_rta_method)c->method, .epsilon = FM_RTA_UNSET, .pause = linger};

	if (c->epsilon_ns || c->platform[0])
		to.epsilon =
			(int64_t)FM_MAX(c->epsilon_ns ? c->epsilon_ns : c->measured_ns, linger);
	fm_admit_configure(d->admission->admit, &to);
}

void admission_run(struct daemon *d, uint64_t now)
{
	fm_admit_run(d->admission->admit, now);
}

uint64_t admission_next(const struct daemon *d)
{
	return fm_admit_next(d->admission->admit);
}

size_t admission_count(const struct daemon *d)
{
	return d->admission ? fm_admit_count(d->admission->admit) : 0;
}

/* May these tasks be admitted at all? */

static bool keeps_bounds(const struct fm_policy_ops *ops, const int64_t *values)
{
	if (strcmp(ops->name, POLICY))
		return false;
	for (unsigned i = 0; ops->params[i].name; i++)
		if (!strcmp(ops->params[i].name, "aging") && values[i])
			return false;
	return true;
}

int admission_check_policy(
	const struct daemon *d, const struct config *c, const char *line, struct fm_err *err)
{
	const struct fm_policy_ops *ops = fm_policy_find(POLICY);
	const char *settings[CONFIG_PARAMS + FM_POLICY_PARAMS];
	int64_t values[FM_POLICY_PARAMS];
	char words[CONFIG_POLICY_MAX], *save, *word;
	size_t n = 0;

	if (!admission_count(d))
		return 0;
	snprintf(words, sizeof(words), "%s", line);
	word = strtok_r(words, " \t", &save);
	for (unsigned i = 0; i < c->params; i++)
		if (!strcmp(c->param[i].policy, POLICY))
			settings[n++] = c->param[i].setting;
	if (word && !strcmp(word, POLICY)) {
		while (n < FM_ARRAY_LEN(settings) && (word = strtok_r(NULL, " \t", &save)))
			settings[n++] = word;
		/* Settings that cannot be parsed are refused later, when they are set. */
		if (fm_policy_parse(ops, settings, n, values, NULL) || keeps_bounds(ops, values))
			return 0;
	}
	fm_err_set(err, -EBUSY,
		"%zu tasks are admitted, whose bounds hold under " POLICY " without aging alone",
		admission_count(d));
	return fm_err_hint(err, "`fermata ps --tasks' lists them; end them first");
}

static int check_daemon(const struct daemon *d, const struct peer *p, struct fm_err *err)
{
	const struct fm_sched *s = fm_bridge_sched(d->bridge);

	if (!keeps_bounds(fm_sched_policy_ops(s), fm_sched_policy_params(s))) {
		fm_err_set(err, -EBUSY, "no bound holds under the policy in force");
		return fm_err_hint(err, "tasks are admitted under " POLICY " without aging: "
					"`fermata policy " POLICY "'");
	}
	/* A task is above every priority, so a user who may not have the highest may have none. */
	if (p->steers || !fm_bridge_allows(&p->limits->of, FM_HINT_PRIORITY, FM_PRIORITY_MAX, err))
		return 0;
	fm_err_set(err, -EPERM,
		"tasks are above all priorities, and your limits do not allow the "
		"highest");
	return fm_err_hint(err,
		"have limits.priority_max in fermatad.conf raised to %d, or ask an operator",
		FM_PRIORITY_MAX);
}

static bool same_place(const struct task *t, const struct owner *o, const char *group)
{
	if (group[0])
		return t->owner->uid == o->uid && !strcmp(t->group_name, group);
	return t->owner == o && !t->group_name[0];
}

static int check_wishes(struct daemon *d, const struct owner *o, const struct admission_request *r,
	struct fm_err *err)
{
	uint32_t limit = d->config.admission.tasks;
	size_t n = r->n;
	struct task *t;

	fm_list_each (t, &d->admission->tasks, link) {
		n += t->owner->uid == o->uid;
		for (size_t i = 0; i < r->n; i++) {
			if (!same_place(t, o, r->wish[i].group))
				continue;
			fm_err_set(err, -EEXIST, "the group of task '%s' has a task already, '%s'",
				r->wish[i].spec.name, t->name);
			return fm_err_hint(err, "one task a group: give it a group of its own");
		}
	}
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; k < i; k++)
			if (!strcmp(r->wish[i].group, r->wish[k].group))
				return fm_err_set(err, -EEXIST,
					"tasks '%s' and '%s' are of one group",
					r->wish[k].spec.name, r->wish[i].spec.name);
	if (!limit || !o->uid || n <= limit)
		return 0;
	fm_err_set(err, -EDQUOT, "user %u would have %zu tasks, the limit is %u", o->uid, n, limit);
	return fm_err_hint(err, "end others, or have admission.tasks in fermatad.conf raised");
}

/* Into the table. */

static void take_in(struct daemon *d, struct owner *o, const struct admission_request *r,
	struct task **task, struct fm_atask **at)
{
	for (size_t i = 0; i < r->n; i++) {
		struct fm_bridge_group *g = NULL;
		struct task *t = task[i];

		task[i] = NULL;
		t->at = at[i];
		t->id = ++d->admission->last_id;
		fm_list_add_tail(&d->admission->tasks, &t->link);
		fm_list_add_tail(&o->tasks, &t->in_owner);
		while ((g = fm_bridge_group_next(d->bridge, g))) {
			if (fm_bridge_group_watched(g) || !fits(t, g))
				continue;
			bind(d, t, g);
			break;
		}
		fm_log_limited(&d->log, &d->admission->log, LOG_INFO,
			"task %s (pid %d, user %u) admitted", t->name, (int)o->pid, o->uid);
	}
}

static int make_tasks(struct owner *o, struct admission_request *r, struct task **task)
{
	for (size_t i = 0; i < r->n; i++) {
		struct task *t = task[i] = calloc(1, sizeof(*t));

		if (!t)
			return -ENOMEM;
		fm_list_init(&t->link);
		fm_list_init(&t->in_owner);
		t->owner = o;
		snprintf(t->name, sizeof(t->name), "%s", r->wish[i].spec.name);
		snprintf(t->group_name, sizeof(t->group_name), "%s", r->wish[i].group);
		r->wish[i].spec.data = t;
		r->wish[i].spec.user = o->uid;
	}
	return 0;
}

static json_t *ask(
	struct daemon *d, struct owner *o, struct admission_request *r, struct fm_err *err)
{
	FM_CLEAN_FREE struct fm_admit_spec *spec = calloc(r->n + 1, sizeof(*spec));
	FM_CLEAN_FREE struct task **task = calloc(r->n + 1, sizeof(*task));
	FM_CLEAN_FREE struct fm_atask **at = calloc(r->n + 1, sizeof(*at));
	FM_CLEAN_FREE int64_t *bound = calloc(r->n + 1, sizeof(*bound));
	struct fm_admit_answer answer = {.bound = bound};
	json_t *reply = NULL;
	int rc = spec && task && at && bound ? make_tasks(o, r, task) : -ENOMEM;

	if (rc)
		fm_err_set(err, rc, "out of memory for another task");
	for (size_t i = 0; !rc && i < r->n; i++)
		spec[i] = r->wish[i].spec;
	if (!rc)
		rc = admission_decide(d, spec, r, at, &answer, err);
	if (!rc)
		reply = admission_answer(d, r, &answer, bound);
	if (!rc && answer.admitted && r->keep)
		take_in(d, o, r, task, at);
	for (size_t i = 0; task && i < r->n; i++)
		free(task[i]);
	return reply;
}

json_t *admission_admit(struct daemon *d, struct admission_request *r, struct fm_err *err)
{
	struct owner *o = NULL;
	json_t *reply = NULL;
	int rc = check_daemon(d, r->peer, err);

	if (!rc)
		rc = owner_get(d, &o, r->peer, r->owner ? r->owner : r->peer->pid, err);
	if (rc)
		return NULL;
	if (!check_wishes(d, o, r, err))
		reply = ask(d, o, r, err);
	owner_put(o);
	daemon_idle_check(d);
	return reply;
}

/* Finds a task by its id, or by its name if only one of the tasks that the peer may steer has it.
 */
static struct task *which_task(struct daemon *d, const struct peer *p, const char *which, bool own)
{
	struct task *t, *found = NULL;
	char id[16];

	fm_list_each (t, &d->admission->tasks, link) {
		snprintf(id, sizeof(id), "t%u", t->id);
		if (!peer_sees(p, t->owner->uid) || (own && t->owner->pid != p->pid))
			continue;
		if (!strcmp(id, which))
			return t;
		if (strcmp(t->name, which))
			continue;
		if (found)
			return NULL;
		found = t;
	}
	return found;
}

json_t *admission_unadmit(
	struct daemon *d, const struct peer *p, const char *which, bool own, struct fm_err *err)
{
	struct task *t = which_task(d, p, which, own);
	struct owner *o;

	if (!t) {
		fm_err_set(err, -ENOENT, "no task '%.80s', or more than one", which);
		fm_err_hint(err, "`fermata ps --tasks' lists them with their ids");
		return NULL;
	}
	o = t->owner;
	task_end(d, t);
	owner_put(o);
	daemon_idle_check(d);
	return json_pack("{s:b}", "ok", 1);
}

void admission_suspended(struct daemon *d, struct fm_bridge_group *g)
{
	struct task *t = fm_bridge_group_watched(g);
	struct fm_bridge_group_info info;

	fm_bridge_group_info(g, &info);
	if (t)
		fm_atask_suspended(t->at, info.suspended, fm_now());
}
