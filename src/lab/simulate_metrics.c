/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate_metrics.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "metrics/metrics.h"
#include <errno.h>
#include <string.h>

struct simulate_metrics {
	const struct simulate_names *names;
	struct outfile *out;
	struct fm_snapshot s;
	struct fm_sched_stats stats;
	json_t *group; /* the present one: of the last entity, */
	uint32_t id;   /* and its number */
	size_t there, devices;
};

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)FM_MIN(v, (uint64_t)INT64_MAX));
}

static json_t *numbers(const uint64_t *values, unsigned n)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, number(values[i]));
	return list;
}

static json_t *histogram(const struct fm_hist *h)
{
	uint64_t upto[FM_HIST_BOUNDS];

	fm_hist_upto(h, upto);
	return json_pack("{s:o, s:o, s:o}", "count", number(h->count), "sum_ns", number(h->sum),
		"upto", numbers(upto, FM_HIST_BOUNDS));
}

int simulate_metrics_open(struct simulate_metrics **out, const struct simulate_names *names,
	struct outfile *to, struct fm_err *err)
{
	struct simulate_metrics *m = calloc(1, sizeof(*m));

	if (!m)
		return fm_err_set(err, -ENOMEM, "out of memory");
	m->names = names;
	m->out = to;
	m->s = (struct fm_snapshot){
		.devices = json_array(), .groups = json_array(), .tasks = json_array()};
	*out = m;
	return 0;
}

static void add_device(struct simulate_metrics *m, const struct fm_sim_event *e)
{
	char name[SIMULATE_NAME];

	if (m->devices++ >= SIMULATE_METRICS_ROWS)
		return;
	json_array_append_new(m->s.devices,
		json_pack("{s:s, s:o, s:{s:i, s:i, s:i, s:i}}", "device",
			simulate_device_name(m->names,
				simulate_device_id(m->names, e->machine, e->device), name),
			"preempt", histogram(fm_sched_dev_preempt_hist(e->sdev)), "groups", "idle",
			0, "ready", 0, "running", 0, "suspended", 0));
}

/* Groups beyond the limit count, too. */
static void count_state(struct simulate_metrics *m, const struct fm_sim_event *e, const char *state)
{
	uint32_t id = simulate_device_id(m->names, e->machine, e->device);
	json_t *counts = json_object_get(json_array_get(m->s.devices, id - 1), "groups");

	if (counts)
		json_object_set_new(counts, state,
			json_integer(json_integer_value(json_object_get(counts, state)) + 1));
}

/* NULL: it is beyond the limit. Entities of a group follow each other. */
static json_t *group_of(struct simulate_metrics *m, const struct fm_sim_event *e)
{
	const struct fm_hints *hints = &m->names->plan->group[e->group].hints;
	uint32_t id = simulate_group_id(m->names, e->machine, e->group, e->instance);
	char name[SIMULATE_NAME];

	if (id == m->id)
		return m->group;
	m->id = id;
	m->group = NULL;
	if (m->there++ >= SIMULATE_METRICS_ROWS)
		return NULL;
	m->group = json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:[]}", "name",
		simulate_group_name(m->names, id, name), "suspended", 0, "queues",
		(int)simulate_queues(m->names, e->group), "clients", 1, "priority",
		(json_int_t)hints->value[FM_HINT_PRIORITY], "weight",
		(json_int_t)hints->value[FM_HINT_WEIGHT], "share",
		(json_int_t)hints->value[FM_HINT_SHARE], "devices");
	json_array_append_new(m->s.groups, m->group);
	return m->group;
}

static json_t *waited_why(const struct fm_account *a)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < FM_WAITS; i++)
		json_object_set_new(o, fm_wait_name((enum fm_wait)i), number(a->wait_ns[i]));
	return o;
}

static json_t *waits(const struct fm_sim_event *e, const struct fm_account *a)
{
	uint64_t upto[FM_WAIT_BOUNDS], sum = 0;

	fm_sched_ent_waits(e->sent, upto);
	for (unsigned k = 0; k < FM_WAITS; k++)
		sum += a->wait_ns[k];
	return json_pack("{s:o, s:o, s:o}", "count", number(a->waits), "sum_ns", number(sum),
		"upto", numbers(upto, FM_WAIT_BOUNDS));
}

static void add_ent(struct simulate_metrics *m, const struct fm_sim_event *e)
{
	static const char *const states[] = {[FM_ENT_IDLE] = "idle",
		[FM_ENT_READY] = "ready",
		[FM_ENT_RUNNING] = "running",
		[FM_ENT_SUSPENDED] = "suspended"};
	char device[SIMULATE_NAME];
	struct fm_ent_info info;
	struct fm_account a;
	json_t *group;

	fm_sched_ent_info(e->sent, e->at, &info);
	count_state(m, e, states[info.state]);
	group = group_of(m, e);
	if (!group)
		return;
	fm_sched_ent_account(e->sent, e->at, &a);
	json_array_append_new(json_object_get(group, "devices"),
		json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "device",
			simulate_device_name(m->names,
				simulate_device_id(m->names, e->machine, e->device), device),
			"state", states[info.state], "device_ns", number(e->ns), "charged_ns",
			number(info.served_ns), "waited_why", waited_why(&a), "waits", waits(e, &a),
			"suspended_ns", number(a.by_hand_ns + a.over_budget_ns), "preemptions",
			number(info.preemptions)));
}

void simulate_metrics_note(struct simulate_metrics *m, const struct fm_sim_event *e)
{
	struct fm_sched_stats stats;

	if (e->what == FM_SIM_AGED) {
		add_device(m, e);
	} else if (e->what == FM_SIM_STAYS) {
		add_ent(m, e);
	} else if (e->what == FM_SIM_OVER) {
		fm_sched_get_stats(e->sched, &stats);
		m->stats.events += stats.events;
		m->stats.decisions += stats.decisions;
		m->stats.preemptions += stats.preemptions;
		m->stats.gate_stores += stats.gate_stores;
	}
}

/* A section is a task: the jobs of all its groups. */
static void add_tasks(struct simulate_metrics *m, const struct fm_sim_result *r)
{
	const struct fm_sim_plan *p = m->names->plan;

	for (uint32_t i = 0; i < p->groups; i++) {
		const struct fm_sim_group_result *g = &r->group[i];
		int64_t period = p->group[i].hints.value[FM_HINT_PERIOD];
		json_t *task = json_pack("{s:i, s:s, s:s, s:o, s:o}", "id", (int)i + 1, "name",
			p->group[i].name, "group", p->group[i].name, "jobs", number(g->jobs),
			"response", histogram(&g->response));

		if (p->group[i].deadline) {
			json_object_set_new(task, "violations", number(g->late));
			json_object_set_new(task, "deadline_ns", number(p->group[i].deadline));
		}
		if (period)
			json_object_set_new(task, "period_ns", json_integer(period));
		json_array_append_new(m->s.tasks, task);
	}
}

static json_t *of_daemon(const struct simulate_metrics *m)
{
	const struct fm_sim_plan *p = m->names->plan;

	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:{s:i}}",
		"version", FM_VERSION, "policy", p->policy->name, "uptime_ns", number(p->duration),
		"clients", number(m->there), "events", number(m->stats.events), "decisions",
		number(m->stats.decisions), "preemptions", number(m->stats.preemptions),
		"gate_stores", number(m->stats.gate_stores), "tasks", (int)p->groups, "bounds_ns",
		numbers(fm_hist_bounds, FM_HIST_BOUNDS), "wait_bounds_ns",
		numbers(fm_wait_bounds, FM_WAIT_BOUNDS), "settings", "limit",
		SIMULATE_METRICS_ROWS);
}

/* Nothing is looked up on this machine: no users, containers or GPUs. */
static int write_rows(struct simulate_metrics *m, const struct fm_sim_result *r, struct fm_err *err)
{
	static const struct fm_sources nothing = {"", "", "", ""};
	const struct fm_view all = {.all = true};
	struct fm_rows *rows;

	add_tasks(m, r);
	m->s.daemon = of_daemon(m);
	m->s.more_groups = fm_sub_sat(m->there, SIMULATE_METRICS_ROWS);
	rows = m->s.daemon ? fm_rows_new(&m->s, &nothing) : NULL;
	if (!rows)
		return fm_err_set(err, -ENOMEM, "out of memory");
	fm_rows_write(rows, &all, m->out->f);
	fm_rows_free(rows);
	if (m->devices > SIMULATE_METRICS_ROWS)
		fprintf(stderr, "fermata-lab: metrics of %d devices, of %zu\n",
			SIMULATE_METRICS_ROWS, m->devices);
	return 0;
}

int simulate_metrics_close(
	struct simulate_metrics *m, const struct fm_sim_result *result, struct fm_err *err)
{
	int rc = 0;

	if (!m)
		return 0;
	if (result)
		rc = write_rows(m, result, err);
	if (!result || rc)
		outfile_drop(m->out);
	else if (!outfile_is_stdout(m->out)) /* of which main() tells */
		rc = outfile_close(m->out, true, err);
	fm_snapshot_free(&m->s);
	free(m);
	return rc;
}
