/* SPDX-License-Identifier: Apache-2.0 */
/* What `fermata-lab bench` prints. */
#include "base/clock.h"
#include "base/util.h"
#include "bench.h"
#include "cmd/table.h"
#include "json/json.h"
#include <inttypes.h>

static const char *ms(uint64_t ns, char buf[TABLE_TIME])
{
	return table_ms((double)ns / 1e6, buf);
}

void bench_show_head(const struct bench *b)
{
	const struct fm_bench_device *d = &b->page->device;

	printf("%s, %s, driver %s; clients are %s; seed %" PRId64 "; late requests %s\n",
		d->name[0] ? d->name : b->driver.ops->name, d->platform[0] ? d->platform : "-",
		d->driver[0] ? d->driver : "-", b->o.threads ? "threads" : "processes", b->o.seed,
		b->o.drop ? "are dropped" : "wait");
}

json_t *bench_head_json(const struct bench *b)
{
	const struct fm_bench_device *d = &b->page->device;

	return json_pack(
		"{s:i, s:s, s:o, s:{s:s, s:o, s:o, s:o}, s:s, s:I, s:s, s:b, s:f, s:I, s:I, "
		"s:o}",
		"fermata_bench", 1, "fermata", FM_VERSION, "workload", fm_json_text(b->o.file),
		"device", "driver", b->driver.ops->name, "name", fm_json_text(d->name), "platform",
		fm_json_text(d->platform), "version", fm_json_text(d->driver), "clients",
		b->o.threads ? "threads" : "processes", "seed", (json_int_t)b->o.seed, "late",
		b->o.drop ? "drop" : "queue", "disb", b->o.disb, "scale", b->o.scale, "warm_up",
		(json_int_t)b->o.warm_up, "alone", (json_int_t)b->o.alone, "models",
		bench_report_models(&b->w, b->page));
}

/* The number of requests. Without any there is no time. */
static void add_time(struct table *t, uint64_t of, uint64_t ns)
{
	char text[TABLE_TIME];

	table_add(t, "%s", of ? ms(ns, text) : "-");
}

static const struct table_column columns[] = {
	{"TASK", false, true},
	{"LOAD", false, false},
	{"DUE", true, false},
	{"DONE", true, false},
	{"LOST", true, false},
	{"/S", true, false},
	{"ALONE", true, false},
	{"MEAN", true, false},
	{"P50", true, false},
	{"P90", true, false},
	{"P99", true, false},
	{"MAX", true, false},
};

static void add_task(struct table *t, const struct bench_outcome *o, uint32_t task)
{
	const struct bench_counts *c = &o->page->seat[task].counts;
	const struct fm_hist *h = &c->latency;
	struct bench_numbers n;

	bench_numbers(o, task, &n);
	table_add(t, "%s", o->w->task[task].id);
	table_add(t, "%s", bench_load_name(o->w->task[task].load));
	table_add(t, "%" PRIu64, n.arrivals);
	table_add(t, "%" PRIu64, c->finished);
	table_add(t, "%" PRIu64, fm_sub_sat(n.arrivals, c->finished));
	table_add(t, "%.1f", n.throughput);
	add_time(t, o->page->alone, n.alone_ns);
	add_time(t, h->count, h->count ? h->sum / h->count : 0);
	add_time(t, h->count, fm_hist_quantile(h, 0.5));
	add_time(t, h->count, fm_hist_quantile(h, 0.9));
	add_time(t, h->count, fm_hist_quantile(h, 0.99));
	add_time(t, h->count, h->max);
}

static void show_notes(const struct bench_outcome *o)
{
	for (uint32_t i = 0; i < o->w->tasks; i++) {
		const struct bench_counts *c = &o->page->seat[i].counts;
		const char *id = o->w->task[i].id;

		if (o->failed[i])
			printf("%s: %s\n", id, o->failed[i]);
		if (c->dropped)
			printf("%s: %" PRIu64 " dropped, since a later one was due\n", id,
				c->dropped);
		if (c->waiting)
			printf("%s: %" PRIu64 " still waited at the end; they count with the time "
			       "until then\n",
				id, c->waiting);
		if (bench_task_hint(&o->w->task[i], FM_HINT_DEADLINE))
			printf("%s: %" PRIu64 " later than the deadline\n", id, c->missed);
	}
}

int bench_show_run(const struct bench_outcome *o)
{
	TABLE_CLEAN struct table t;
	struct bench_overall all;
	struct bench_numbers n;
	int rc;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (uint32_t i = 0; i < o->w->tasks; i++)
		add_task(&t, o, i);
	bench_numbers(o, 0, &n);
	printf("\n%s%s%s, %.1f s%s\n", o->mode, o->policy ? ": " : "", o->policy ? o->policy : "",
		n.seconds, o->complete ? "" : ", interrupted");
	rc = table_print(&t);
	show_notes(o);
	bench_overall(o, &all);
	printf("overall: %.1f requests/s, %.2f of what each could do alone\n", all.throughput,
		all.of_alone);
	if (all.realtime)
		printf("real-time: %.3f ms a request from its begin, %+.3f ms to alone\n",
			all.realtime_us / 1e3, all.increase_us / 1e3);
	return rc;
}
