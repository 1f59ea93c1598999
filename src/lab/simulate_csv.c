/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "simulate.h"
#include "simulate_memory.h"

static void csv_numbers(FILE *f, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(f, ",%llu", (unsigned long long)v[i]);
	fputc('\n', f);
}

/* Names are without commas and quotes: the reader of workloads allows none. */
void simulate_csv(FILE *f, const struct fm_sim_plan *p, const struct fm_sim_result *r,
	const struct fm_sim_result *base)
{
	fputs("group,instances,arrivals,dropped,jobs,left,late,p50_ns,p95_ns,p99_ns,max_ns,"
	      "served_ns,overhead_ns,present_ns,share_least_ppm,share_most_ppm,waits_ns,"
	      "preemptions\n",
		f);
	for (uint32_t i = 0; i < r->groups; i++) {
		const struct fm_sim_group_result *g = &r->group[i];
		const uint64_t v[] = {g->instances, g->arrivals, g->dropped, g->jobs, g->left,
			g->late, fm_hist_quantile(&g->response, 0.5),
			fm_hist_quantile(&g->response, 0.95), fm_hist_quantile(&g->response, 0.99),
			g->response.max, g->served, g->overhead, g->present,
			g->present ? g->share_min : 0, g->share_max, g->waits, g->preemptions};

		fputs(p->group[i].name, f);
		csv_numbers(f, v, FM_ARRAY_LEN(v));
	}
	fputs("\ndevice,devices,time_ns,served_ns,overhead_ns,switches,stops,stop_p50_ns,"
	      "stop_p99_ns,stop_max_ns\n",
		f);
	for (uint32_t i = 0; i < r->devices; i++) {
		const struct fm_sim_device_result *d = &r->device[i];
		const uint64_t v[] = {d->devices, d->time, d->served, d->overhead, d->switches,
			d->stop.count, fm_hist_quantile(&d->stop, 0.5),
			fm_hist_quantile(&d->stop, 0.99), d->stop.max};

		fputs(p->device[i].name, f);
		csv_numbers(f, v, FM_ARRAY_LEN(v));
	}
	if (p->memory.policy)
		simulate_memory_csv(f, p, r, base);
	if (!p->forecast)
		return;
	fputs("\ndevice,foretold,right,wrong,right_off_ns\n", f);
	for (uint32_t i = 0; i < r->devices; i++) {
		const struct fm_sim_foretold *d = &r->device[i].foretold;
		const uint64_t v[] = {d->turns, d->right, d->wrong, d->off};

		fputs(p->device[i].name, f);
		csv_numbers(f, v, FM_ARRAY_LEN(v));
	}
}
