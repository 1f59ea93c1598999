/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate_memory.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/table.h"
#include "model/workload.h"
#include "simulate.h"
#include <errno.h>
#include <string.h>

#define TEXT 32

static const char *percent(uint64_t part, uint64_t whole, char buf[TEXT])
{
	uint64_t tenths = (simulate_ppm(part, whole) + 500) / 1000;

	snprintf(buf, TEXT, "%llu.%llu%%", (unsigned long long)(tenths / 10),
		(unsigned long long)(tenths % 10));
	return buf;
}

static const char *gigabytes(uint64_t bytes, char buf[TEXT])
{
	uint64_t tenths = bytes / 100000000 + (bytes % 100000000 >= 50000000);

	snprintf(buf, TEXT, "%llu.%llu GB", (unsigned long long)(tenths / 10),
		(unsigned long long)(tenths % 10));
	return buf;
}

static void add_bytes(struct table *t, uint64_t bytes)
{
	char buf[TEXT];

	table_add(t, "%s", gigabytes(bytes, buf));
}

static void add_percent(struct table *t, uint64_t part, uint64_t whole)
{
	char buf[TEXT];

	table_add(t, "%s", percent(part, whole, buf));
}

static void add_time(struct table *t, uint64_t ns)
{
	char buf[TABLE_TIME];

	table_add(t, "%s", table_ms((double)ns / 1e6, buf));
}

static int group_table(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base)
{
	static const struct table_column columns[] = {{"MEMORY", false, true},
		{"SIZE", true, false}, {"IN", true, false}, {"OUT", true, false},
		{"KEPT", true, false}, {"MISSED", true, false}, {"HELD", true, false},
		{"LONGEST", true, false}, {"TO MEMORY", true, false}};
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (uint32_t i = 0; i < r->groups; i++) {
		const struct fm_sim_moved *m = &r->group[i].moved;

		table_add(&t, "%s", p->group[i].name);
		add_bytes(&t, p->group[i].memory);
		add_bytes(&t, m->in);
		add_bytes(&t, m->out);
		add_bytes(&t, m->kept);
		add_bytes(&t, m->missed);
		add_percent(&t, m->held, r->group[i].present);
		add_time(&t, m->longest);
		add_percent(&t, r->group[i].served, base->group[i].served);
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

static int device_table(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base)
{
	static const struct table_column columns[] = {{"LINK", false, true}, {"IN", true, false},
		{"OUT", true, false}, {"KEPT", true, false}, {"EXPOSED", true, false},
		{"HIDDEN", true, false}, {"RESIDUE", true, false}, {"TO MEMORY", true, false}};
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (uint32_t i = 0; i < r->devices; i++) {
		const struct fm_sim_device_result *d = &r->device[i];

		table_add(&t, "%s", p->device[i].name);
		add_bytes(&t, d->moved.in);
		add_bytes(&t, d->moved.out);
		add_bytes(&t, d->moved.kept);
		add_percent(&t, d->moved.exposed, d->time);
		add_percent(&t, d->moved.hidden, d->time);
		add_bytes(&t, d->moved.residue);
		add_percent(&t, d->served, base->device[i].served);
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

int simulate_memory_table(const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base)
{
	int rc;

	printf("\nmemory: %s%s\n\n", p->memory.policy->name,
		p->memory.early ? ", early start" : "");
	rc = group_table(p, r, base);
	putchar('\n');
	return rc ? rc : device_table(p, r, base);
}

json_t *simulate_memory_group(
	const struct fm_sim_group_result *r, const struct fm_sim_group_result *base)
{
	const struct fm_sim_moved *m = &r->moved;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "in_bytes", (json_int_t)m->in,
		"out_bytes", (json_int_t)m->out, "kept_bytes", (json_int_t)m->kept, "missed_bytes",
		(json_int_t)m->missed, "held_ns", (json_int_t)m->held, "longest_wait_ns",
		(json_int_t)m->longest, "to_memory_ppm",
		(json_int_t)simulate_ppm(r->served, base->served));
}

json_t *simulate_memory_device(
	const struct fm_sim_device_result *r, const struct fm_sim_device_result *base)
{
	const struct fm_sim_device_moved *m = &r->moved;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "peak_bytes",
		(json_int_t)m->peak, "in_bytes", (json_int_t)m->in, "out_bytes", (json_int_t)m->out,
		"kept_bytes", (json_int_t)m->kept, "exposed_ns", (json_int_t)m->exposed,
		"hidden_ns", (json_int_t)m->hidden, "residue_bytes", (json_int_t)m->residue,
		"to_memory_ppm", (json_int_t)simulate_ppm(r->served, base->served));
}

int simulate_memories_parse(struct simulate_memories *m, const char *list, struct fm_err *err)
{
	char text[200], *save;
	int rc = 0;

	if (snprintf(text, sizeof(text), "%s", list) >= (int)sizeof(text))
		return fm_err_set(err, -EINVAL, "the list of policies is too long");
	for (char *name = strtok_r(text, ", ", &save); name && !rc;
		name = strtok_r(NULL, ", ", &save)) {
		if (m->n == SIMULATE_MEMORIES)
			return fm_err_set(
				err, -E2BIG, "more than %d policies of memory", SIMULATE_MEMORIES);
		rc = workload_memory_policy(name, &m->policy[m->n], err);
		for (unsigned i = 0; i < m->n && !rc; i++)
			if (m->policy[i] == m->policy[m->n])
				rc = fm_err_set(err, -EINVAL, "'%s' stands there twice", name);
		m->n++;
	}
	return rc || m->n ? rc : fm_err_set(err, -EINVAL, "no policy of memory named");
}

/* All devices together. */
static struct fm_sim_device_result all(const struct fm_sim_result *r)
{
	struct fm_sim_device_result sum = {0};

	for (uint32_t i = 0; i < r->devices; i++) {
		const struct fm_sim_device_result *d = &r->device[i];

		sum.time += d->time;
		sum.served += d->served;
		sum.switches += d->switches;
		sum.moved.in += d->moved.in;
		sum.moved.out += d->moved.out;
		sum.moved.kept += d->moved.kept;
		sum.moved.exposed += d->moved.exposed;
		sum.moved.hidden += d->moved.hidden;
		sum.moved.residue += d->moved.residue;
	}
	return sum;
}

static int policies_table(const struct simulate_memories *m)
{
	static const struct table_column columns[] = {{"MEMORY", false, true},
		{"TO MEMORY", true, false}, {"SWITCHES", true, false}, {"IN", true, false},
		{"OUT", true, false}, {"KEPT", true, false}, {"EXPOSED", true, false},
		{"HIDDEN", true, false}, {"RESIDUE", true, false}};
	struct fm_sim_device_result base = all(&m->base);
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (unsigned i = 0; i < m->n; i++) {
		struct fm_sim_device_result d = all(&m->result[i]);

		table_add(&t, "%s", m->policy[i]->name);
		add_percent(&t, d.served, base.served);
		table_add(&t, "%llu", (unsigned long long)d.switches);
		add_bytes(&t, d.moved.in);
		add_bytes(&t, d.moved.out);
		add_bytes(&t, d.moved.kept);
		add_percent(&t, d.moved.exposed, d.time);
		add_percent(&t, d.moved.hidden, d.time);
		add_bytes(&t, d.moved.residue);
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

static void add_groups(struct table *t, const struct simulate_memories *m, const char *name,
	const struct fm_sim_result *r)
{
	for (uint32_t i = 0; i < r->groups; i++) {
		const struct fm_sim_group_result *g = &r->group[i];

		table_add(t, "%s", m->plan->group[i].name);
		table_add(t, "%s", name);
		table_add(t, "%llu", (unsigned long long)g->jobs);
		add_time(t, fm_hist_quantile(&g->response, 0.5));
		add_time(t, fm_hist_quantile(&g->response, 0.99));
		add_time(t, g->response.max);
		if (r == &m->base) {
			table_add(t, "-");
			table_add(t, "-");
			table_add(t, "-");
		} else {
			add_percent(t, g->moved.held, g->present);
			add_time(t, g->moved.longest);
			add_bytes(t, g->moved.missed);
		}
		add_percent(t, g->served, m->base.group[i].served);
	}
}

int simulate_memories_table(const struct simulate_memories *m)
{
	static const struct table_column columns[] = {{"GROUP", false, true},
		{"MEMORY", false, false}, {"JOBS", true, false}, {"P50", true, false},
		{"P99", true, false}, {"MAX", true, false}, {"HELD", true, false},
		{"LONGEST", true, false}, {"MISSED", true, false}, {"TO MEMORY", true, false}};
	TABLE_CLEAN struct table t;
	int rc = policies_table(m);

	putchar('\n');
	table_init(&t, columns, FM_ARRAY_LEN(columns));
	add_groups(&t, m, "all fits", &m->base);
	for (unsigned i = 0; i < m->n; i++)
		add_groups(&t, m, m->policy[i]->name, &m->result[i]);
	return table_print(&t) || rc ? CLI_FAILED : CLI_OK;
}

int simulate_memories_json(const struct simulate_memories *m)
{
	CLI_CLEAN_JSON json_t *o = json_pack("{s:[]}", "memory_policies");
	bool bad = !o;

	for (unsigned i = 0; i < m->n && !bad; i++) {
		struct fm_sim_plan p = *m->plan;

		p.memory.policy = m->policy[i];
		bad = json_array_append_new(json_object_get(o, "memory_policies"),
			simulate_object(&p, &m->result[i], &m->base));
	}
	if (!bad)
		return cli_print_json(o);
	fprintf(stderr, "fermata-lab: out of memory\n");
	return CLI_FAILED;
}
