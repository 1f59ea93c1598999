/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/table.h"
#include "simulate.h"
#include "simulate_memory.h"
#include "json/json.h"

#define PERCENT 32

/* "12.3%", computed with integers, so that it is the same everywhere. */
static const char *percent(uint64_t part, uint64_t whole, char buf[PERCENT])
{
	uint64_t tenths =
		whole ? (uint64_t)(((unsigned __int128)part * 1000 + whole / 2) / whole) : 0;

	snprintf(buf, PERCENT, "%llu.%llu%%", (unsigned long long)(tenths / 10),
		(unsigned long long)(tenths % 10));
	return buf;
}

static void add_time(struct table *t, const struct fm_hist *h, double q)
{
	char buf[TABLE_TIME];

	if (h->count)
		table_add(t, "%s", table_ms((double)fm_hist_quantile(h, q) / 1e6, buf));
	else
		table_add(t, "-");
}

static int group_table(const struct fm_sim_plan *p, const struct fm_sim_result *r)
{
	static const struct table_column columns[] = {{"GROUP", false, true}, {"N", true, false},
		{"JOBS", true, false}, {"P50", true, false}, {"P95", true, false},
		{"P99", true, false}, {"MAX", true, false}, {"SHARE", true, false},
		{"LEAST", true, false}, {"MOST", true, false}, {"WAITS", true, false},
		{"STOPS", true, false}, {"LATE", true, false}, {"LEFT", true, false},
		{"DROPPED", true, false}};
	TABLE_CLEAN struct table t;
	char buf[PERCENT];

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (uint32_t i = 0; i < r->groups; i++) {
		const struct fm_sim_group_result *g = &r->group[i];
		bool there = g->present > 0;

		table_add(&t, "%s", p->group[i].name);
		table_add(&t, "%llu", (unsigned long long)g->instances);
		table_add(&t, "%llu", (unsigned long long)g->jobs);
		add_time(&t, &g->response, 0.5);
		add_time(&t, &g->response, 0.95);
		add_time(&t, &g->response, 0.99);
		add_time(&t, &g->response, 1);
		table_add(&t, "%s", percent(g->served, g->present, buf));
		table_add(&t, "%s", percent(there ? g->share_min : 0, 1000000, buf));
		table_add(&t, "%s", percent(g->share_max, 1000000, buf));
		table_add(&t, "%s", percent(g->waits, g->present, buf));
		table_add(&t, "%llu", (unsigned long long)g->preemptions);
		table_add(&t, p->group[i].deadline ? "%llu" : "-", (unsigned long long)g->late);
		table_add(&t, "%llu", (unsigned long long)g->left);
		table_add(&t, "%llu", (unsigned long long)g->dropped);
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

static int device_table(const struct fm_sim_plan *p, const struct fm_sim_result *r)
{
	static const struct table_column columns[] = {{"DEVICE", false, true}, {"N", true, false},
		{"BUSY", true, false}, {"OVERHEAD", true, false}, {"IDLE", true, false},
		{"SWITCHES", true, false}, {"STOPS", true, false}, {"P50", true, false},
		{"P99", true, false}, {"MAX", true, false}};
	TABLE_CLEAN struct table t;
	char buf[PERCENT];

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (uint32_t i = 0; i < r->devices; i++) {
		const struct fm_sim_device_result *d = &r->device[i];
		uint64_t idle = fm_sub_sat(d->time, d->served + d->overhead);

		table_add(&t, "%s", p->device[i].name);
		table_add(&t, "%llu", (unsigned long long)d->devices);
		table_add(&t, "%s", percent(d->served, d->time, buf));
		table_add(&t, "%s", percent(d->overhead, d->time, buf));
		table_add(&t, "%s", percent(idle, d->time, buf));
		table_add(&t, "%llu", (unsigned long long)d->switches);
		table_add(&t, "%llu", (unsigned long long)d->stop.count);
		add_time(&t, &d->stop, 0.5);
		add_time(&t, &d->stop, 0.99);
		add_time(&t, &d->stop, 1);
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

static int forecast_table(const struct fm_sim_plan *p, const struct fm_sim_result *r)
{
	static const struct table_column columns[] = {{"FORECAST", false, true},
		{"TURNS", true, false}, {"RIGHT", true, false}, {"WRONG", true, false},
		{"NOT DUE", true, false}, {"OFF", true, false}};
	TABLE_CLEAN struct table t;
	char buf[TABLE_TIME];

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (uint32_t i = 0; i < r->devices; i++) {
		const struct fm_sim_foretold *f = &r->device[i].foretold;

		table_add(&t, "%s", p->device[i].name);
		table_add(&t, "%llu", (unsigned long long)f->turns);
		table_add(&t, "%llu", (unsigned long long)f->right);
		table_add(&t, "%llu", (unsigned long long)f->wrong);
		table_add(&t, "%llu", (unsigned long long)(f->turns - f->right - f->wrong));
		if (f->right)
			table_add(&t, "%s", table_ms((double)(f->off / f->right) / 1e6, buf));
		else
			table_add(&t, "-");
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

int simulate_table(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base)
{
	char buf[TABLE_TIME];
	int rc;

	printf("%s, %s", p->policy->name, table_ms((double)(p->duration - p->warmup) / 1e6, buf));
	if (p->warmup)
		printf(" after %s", table_ms((double)p->warmup / 1e6, buf));
	printf(", seed %llu", (unsigned long long)p->seed);
	if (p->machines > 1)
		printf(", %u machines", p->machines);
	printf("\n\n");
	rc = group_table(p, r);
	putchar('\n');
	rc = rc ? rc : device_table(p, r);
	if (!rc && p->memory.policy)
		rc = simulate_memory_table(p, r, base);
	if (rc || !p->forecast)
		return rc;
	putchar('\n');
	return forecast_table(p, r);
}

static json_t *times(const struct fm_hist *h)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)h->count,
		"mean_ns", (json_int_t)(h->count ? h->sum / h->count : 0), "min_ns",
		(json_int_t)(h->count ? h->min : 0), "p50_ns", (json_int_t)fm_hist_quantile(h, 0.5),
		"p95_ns", (json_int_t)fm_hist_quantile(h, 0.95), "p99_ns",
		(json_int_t)fm_hist_quantile(h, 0.99), "max_ns", (json_int_t)h->max);
}

static json_t *group_json(const struct fm_sim_group *g, const struct fm_sim_group_result *r)
{
	json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "name",
		g->name, "instances", (json_int_t)r->instances, "arrivals", (json_int_t)r->arrivals,
		"dropped", (json_int_t)r->dropped, "jobs", (json_int_t)r->jobs, "left",
		(json_int_t)r->left, "late", (json_int_t)r->late, "served_ns",
		(json_int_t)r->served, "overhead_ns", (json_int_t)r->overhead, "present_ns",
		(json_int_t)r->present, "response", times(&r->response));

	if (!o)
		return NULL;
	json_object_set_new(
		o, "share_least_ppm", json_integer((json_int_t)(r->present ? r->share_min : 0)));
	json_object_set_new(o, "share_most_ppm", json_integer((json_int_t)r->share_max));
	json_object_set_new(o, "waits_ns", json_integer((json_int_t)r->waits));
	json_object_set_new(o, "preemptions", json_integer((json_int_t)r->preemptions));
	json_object_set_new(o, "response_histogram", fm_json_histogram(&r->response));
	return o;
}

static json_t *forecast_json(const struct fm_sim_foretold *f)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "turns", (json_int_t)f->turns, "right",
		(json_int_t)f->right, "wrong", (json_int_t)f->wrong, "mean_off_ns",
		(json_int_t)(f->right ? f->off / f->right : 0));
}

static json_t *device_json(const struct fm_sim_device *d, const struct fm_sim_device_result *r)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "name", d->name, "devices",
		(json_int_t)r->devices, "time_ns", (json_int_t)r->time, "served_ns",
		(json_int_t)r->served, "overhead_ns", (json_int_t)r->overhead, "switches",
		(json_int_t)r->switches, "stop", times(&r->stop));
}

json_t *simulate_object(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base)
{
	bool memory = p->memory.policy;
	json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:[], s:[]}", "policy",
		p->policy->name, "seed", (json_int_t)p->seed, "duration_ns",
		(json_int_t)p->duration, "warmup_ns", (json_int_t)p->warmup, "machines",
		(json_int_t)r->machines, "events", (json_int_t)r->events, "decisions",
		(json_int_t)r->core.decisions, "preemptions", (json_int_t)r->core.preemptions,
		"gate_stores", (json_int_t)r->core.gate_stores, "groups", "devices");
	bool bad = !o;

	if (!bad && memory)
		bad = json_object_set_new(
			      o, "memory_policy", json_string(p->memory.policy->name)) ||
		      (p->memory.early && json_object_set_new(o, "memory_early", json_true()));
	for (uint32_t i = 0; i < r->groups && !bad; i++) {
		json_t *g = group_json(&p->group[i], &r->group[i]);

		bad = json_array_append_new(json_object_get(o, "groups"), g);
		if (!bad && memory)
			bad = json_object_set_new(
				g, "memory", simulate_memory_group(&r->group[i], &base->group[i]));
	}
	for (uint32_t i = 0; i < r->devices && !bad; i++) {
		json_t *d = device_json(&p->device[i], &r->device[i]);

		bad = json_array_append_new(json_object_get(o, "devices"), d);
		if (!bad && p->forecast)
			bad = json_object_set_new(
				d, "forecast", forecast_json(&r->device[i].foretold));
		if (!bad && memory)
			bad = json_object_set_new(d, "memory",
				simulate_memory_device(&r->device[i], &base->device[i]));
	}
	if (!bad)
		return o;
	json_decref(o);
	return NULL;
}

int simulate_json(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base)
{
	CLI_CLEAN_JSON json_t *o = simulate_object(p, r, base);

	if (o)
		return cli_print_json(o);
	fprintf(stderr, "fermata-lab: out of memory\n");
	return CLI_FAILED;
}
