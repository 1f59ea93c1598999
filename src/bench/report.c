/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"
#include "arrival.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/util.h"
#include "json/json.h"

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

/* How long the run was. */
static uint64_t length(const struct bench_outcome *o)
{
	uint64_t stop = atomic_load(&o->page->stop), end = o->page->end;

	return fm_sub_sat(stop ? FM_MIN(stop, end) : end, o->page->begin);
}

/* Those of a task that waits for others have come when the others had finished. */
static uint64_t arrivals(const struct bench_outcome *o, uint32_t task)
{
	const struct bench_seat *s = &o->page->seat[task];
	const struct bench_task *t = &o->w->task[task];
	struct bench_arrivals a;

	if (t->load == BENCH_CLOSED)
		return s->counts.begun;
	if (t->load == BENCH_DEPENDENT)
		return s->counts.begun + s->counts.dropped + s->counts.waiting;
	bench_arrivals_init(&a, t, o->page->seed, s->rate, s->delay);
	return bench_arrivals_count(a, length(o));
}

/* The mean of each phase for itself, rounded down as libdisb does; and their sum. */
static uint64_t phase_mean(const struct bench_counts *n, int phase)
{
	return n->finished ? n->phase_ns[phase] / n->finished : 0;
}

void bench_numbers(const struct bench_outcome *o, uint32_t task, struct bench_numbers *n)
{
	const struct bench_seat *s = &o->page->seat[task];

	*n = (struct bench_numbers){
		.arrivals = arrivals(o, task), .seconds = (double)length(o) / (double)FM_S};
	for (int p = 0; p < FM_BENCH_PHASES; p++) {
		n->alone_ns += s->alone_ns[p];
		n->service_ns += phase_mean(&s->counts, p);
	}
	/* Of what was under way at the end, what was done by then. */
	n->throughput =
		n->seconds > 0 ? ((double)s->counts.finished - s->counts.beyond) / n->seconds : 0;
}

void bench_overall(const struct bench_outcome *o, struct bench_overall *all)
{
	*all = (struct bench_overall){0};
	for (uint32_t i = 0; i < o->w->tasks; i++) {
		struct bench_numbers n;

		bench_numbers(o, i, &n);
		all->throughput += n.throughput;
		all->of_alone += n.throughput * (double)n.alone_ns / (double)FM_S;
		if (!o->w->task[i].realtime || !o->page->seat[i].counts.finished)
			continue;
		all->realtime++;
		all->realtime_us += us(n.service_ns);
		all->increase_us += us(n.service_ns) - us(n.alone_ns);
	}
	if (all->realtime) {
		all->realtime_us /= all->realtime;
		all->increase_us /= all->realtime;
	}
}

static json_t *whole_us(uint64_t ns)
{
	return json_integer((json_int_t)(ns / 1000));
}

static json_t *disb_basic(const struct bench_outcome *o, uint32_t task)
{
	static const char *const key[FM_BENCH_PHASES] = {"avgPrepareInputLatency(us)",
		"avgPreprocessLatency(us)", "avgCopyInputLatency(us)", "avgInferLatency(us)",
		"avgCopyOutputLatency(us)", "avgPostprocessLatency(us)"};
	json_t *r = json_object();
	struct bench_numbers n;

	bench_numbers(o, task, &n);
	json_object_set_new(r, "type", json_string("basic"));
	json_object_set_new(r, "avgThroughput(req/s)",
		json_real(n.seconds > 0 ? (double)o->page->seat[task].counts.finished / n.seconds
					: 0)); /* all of those under way at the end, too */
	json_object_set_new(r, "standAloneTotalLatency(us)", whole_us(n.alone_ns));
	for (int p = 0; p < FM_BENCH_PHASES; p++)
		json_object_set_new(
			r, key[p], whole_us(phase_mean(&o->page->seat[task].counts, p)));
	json_object_set_new(r, "avgTotalLatency(us)", whole_us(n.service_ns));
	json_object_set_new(r, "avgTotalLatencyIncrease(us)",
		json_integer(((json_int_t)n.service_ns - (json_int_t)n.alone_ns) / 1000));
	return r;
}

static json_t *calendar(time_t t)
{
	char text[32];
	struct tm tm;

	if (!localtime_r(&t, &tm) || !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
		return json_null();
	return json_string(text);
}

/* As libdisb reports. NULL: out of memory. */
static json_t *bench_report_disb(const struct bench_outcome *o)
{
	double seconds = (double)length(o) / (double)FM_S;
	json_t *r = json_object(), *results = json_array();

	json_object_set_new(r, "beginTime", calendar(o->begin));
	json_object_set_new(r, "endTime", calendar(o->begin + (time_t)(seconds + 0.5)));
	json_object_set_new(r, "benchmarkTime(s)",
		seconds == (double)(json_int_t)seconds ? json_integer((json_int_t)seconds)
						       : json_real(seconds));
	for (uint32_t i = 0; i < o->w->tasks; i++)
		json_array_append_new(
			results, json_pack("{s:s, s:[o]}", "clientName", o->w->task[i].name,
					 "analyzers", disb_basic(o, i)));
	json_object_set_new(r, "results", results);
	return r;
}

static json_t *summary(const struct fm_hist *h)
{
	static const struct {
		const char *name;
		double q;
	} at[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};
	json_t *r = json_object();

	json_object_set_new(r, "count", json_integer((json_int_t)h->count));
	json_object_set_new(r, "min", json_real(h->count ? us(h->min) : 0));
	json_object_set_new(r, "mean", json_real(h->count ? us(h->sum) / (double)h->count : 0));
	for (size_t i = 0; i < FM_ARRAY_LEN(at); i++)
		json_object_set_new(r, at[i].name, json_real(us(fm_hist_quantile(h, at[i].q))));
	json_object_set_new(r, "max", json_real(us(h->max)));
	return r;
}

static json_t *hints(const struct bench_task *t)
{
	json_t *r = json_object();

	for (size_t i = 0; i < t->hints; i++)
		json_object_set_new(r, fm_hint_name((enum fm_hint)t->hint[i].hint),
			json_integer((json_int_t)t->hint[i].value));
	return r;
}

static json_t *one_task(const struct bench_outcome *o, uint32_t task)
{
	const struct bench_task *t = &o->w->task[task];
	const struct bench_seat *s = &o->page->seat[task];
	const struct bench_counts *n = &s->counts;
	struct bench_numbers numbers;
	json_t *r;

	bench_numbers(o, task, &numbers);
	r = json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:f}",
		"id", t->id, "client", t->name, "model", o->w->model[t->model].name, "load",
		bench_load_name(t->load), "realtime", t->realtime, "hints", hints(t), "rate_hz",
		s->rate, "arrivals", (json_int_t)numbers.arrivals, "finished",
		(json_int_t)n->finished, "dropped", (json_int_t)n->dropped, "waiting",
		(json_int_t)n->waiting, "missed", (json_int_t)n->missed, "throughput_hz",
		numbers.throughput, "alone_us", us(numbers.alone_ns));
	json_object_set_new(r, "latency_us", summary(&n->latency));
	json_object_set_new(r, "service_us", summary(&n->service));
	json_object_set_new(r, "latency_histogram", fm_json_histogram(&n->latency));
	json_object_set_new(
		r, "failed", o->failed[task] ? json_string(o->failed[task]) : json_null());
	return r;
}

json_t *bench_report_run(const struct bench_outcome *o)
{
	json_t *r = json_object(), *tasks = json_array();
	struct bench_overall all;

	bench_overall(o, &all);
	for (uint32_t i = 0; i < o->w->tasks; i++)
		json_array_append_new(tasks, one_task(o, i));
	json_object_set_new(r, "mode", json_string(o->mode));
	json_object_set_new(r, "policy", o->policy ? json_string(o->policy) : json_null());
	json_object_set_new(r, "complete", json_boolean(o->complete));
	json_object_set_new(r, "seconds", json_real((double)length(o) / (double)FM_S));
	json_object_set_new(r, "tasks", tasks);
	json_object_set_new(r, "overall",
		json_pack("{s:f, s:f, s:o, s:o}", "throughput_hz", all.throughput, "of_alone",
			all.of_alone, "realtime_service_us",
			all.realtime ? json_real(all.realtime_us) : json_null(),
			"realtime_increase_us",
			all.realtime ? json_real(all.increase_us) : json_null()));
	json_object_set_new(r, "disb", bench_report_disb(o));
	return r;
}

json_t *bench_report_models(const struct bench_workload *w, const struct bench_page *page)
{
	json_t *r = json_array();

	for (uint32_t i = 0; i < w->models; i++) {
		const struct bench_model *m = &w->model[i];
		json_t *kernels = json_array();

		for (uint32_t k = m->kernel; k < m->kernel + m->kernels; k++) {
			const struct fm_bench_kernel *one = &page->kernel[k];

			json_array_append_new(kernels,
				json_pack("{s:I, s:f, s:I, s:f}", "count", (json_int_t)one->count,
					"us", us(one->ns), "blocks", (json_int_t)one->blocks,
					"measured_us", us(one->measured)));
		}
		json_array_append_new(
			r, json_pack("{s:s, s:b, s:I, s:o}", "name", m->name, "built_in",
				   m->built_in, "batch", (json_int_t)m->batch, "kernels", kernels));
	}
	return r;
}
