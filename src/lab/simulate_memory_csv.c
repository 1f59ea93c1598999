/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "simulate_memory.h"

static void numbers(FILE *f, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(f, ",%llu", (unsigned long long)v[i]);
	fputc('\n', f);
}

#define GROUP_HEAD \
	"in_bytes,out_bytes,kept_bytes,missed_bytes,held_ns,longest_wait_ns,to_memory_ppm\n"
#define DEVICE_HEAD \
	"in_bytes,out_bytes,kept_bytes,exposed_ns,hidden_ns,residue_bytes,to_memory_ppm\n"

static void group_row(
	FILE *f, const struct fm_sim_group_result *r, const struct fm_sim_group_result *base)
{
	const struct fm_sim_moved *m = &r->moved;
	const uint64_t v[] = {m->in, m->out, m->kept, m->missed, m->held, m->longest,
		simulate_ppm(r->served, base->served)};

	numbers(f, v, FM_ARRAY_LEN(v));
}

static void device_row(
	FILE *f, const struct fm_sim_device_result *r, const struct fm_sim_device_result *base)
{
	const struct fm_sim_device_moved *m = &r->moved;
	const uint64_t v[] = {m->in, m->out, m->kept, m->exposed, m->hidden, m->residue,
		simulate_ppm(r->served, base->served)};

	numbers(f, v, FM_ARRAY_LEN(v));
}

/* Names are without commas and quotes: the reader of workloads allows none. */
void simulate_memory_csv(FILE *f, const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base)
{
	fputs("\ngroup," GROUP_HEAD, f);
	for (uint32_t i = 0; i < r->groups; i++) {
		fputs(p->group[i].name, f);
		group_row(f, &r->group[i], &base->group[i]);
	}
	fputs("\ndevice," DEVICE_HEAD, f);
	for (uint32_t i = 0; i < r->devices; i++) {
		fputs(p->device[i].name, f);
		device_row(f, &r->device[i], &base->device[i]);
	}
}

void simulate_memories_csv(FILE *f, const struct simulate_memories *m)
{
	fputs("memory_policy,group,jobs,p50_ns,p99_ns,max_ns," GROUP_HEAD, f);
	for (unsigned k = 0; k < m->n; k++)
		for (uint32_t i = 0; i < m->result[k].groups; i++) {
			const struct fm_sim_group_result *g = &m->result[k].group[i];

			fprintf(f, "%s,%s,%llu,%llu,%llu,%llu", m->policy[k]->name,
				m->plan->group[i].name, (unsigned long long)g->jobs,
				(unsigned long long)fm_hist_quantile(&g->response, 0.5),
				(unsigned long long)fm_hist_quantile(&g->response, 0.99),
				(unsigned long long)g->response.max);
			group_row(f, g, &m->base.group[i]);
		}
	fputs("\nmemory_policy,device,switches," DEVICE_HEAD, f);
	for (unsigned k = 0; k < m->n; k++)
		for (uint32_t i = 0; i < m->result[k].devices; i++) {
			const struct fm_sim_device_result *d = &m->result[k].device[i];

			fprintf(f, "%s,%s,%llu", m->policy[k]->name, m->plan->device[i].name,
				(unsigned long long)d->switches);
			device_row(f, d, &m->base.device[i]);
		}
}
