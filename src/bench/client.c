/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include "arrival.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>

struct run {
	const struct bench_client *c;
	const struct bench_task *task;
	struct bench_page *page;
	struct bench_seat *seat;
	void *client; /* the driver's */
	struct fm_bench_kernel *kernel;
	struct fm_bench_model model;
	uint64_t deadline, after; /* after: bits of the tasks that wait for this one */
};

static bool stopped(const struct run *r)
{
	return atomic_load(&r->page->stop) != 0;
}

/* Until that time, or until all is to end: then false. */
static bool sleep_until(struct run *r, uint64_t until)
{
	while (!stopped(r)) {
		uint32_t heard = atomic_load(&r->seat->bell);

		if (stopped(r))
			break;
		if (fm_now() >= until)
			return true;
		bench_sleep(r->seat, heard, until);
	}
	return false;
}

/* One request; its phases, as times of their begins and of the end. */
static const char *serve(struct run *r, uint64_t at[FM_BENCH_PHASES + 1])
{
	const char *wrong = NULL;

	at[0] = fm_now();
	for (int p = 0; !wrong && p < FM_BENCH_PHASES; p++) {
		wrong = r->c->driver->ops->phase(r->client, (enum fm_bench_phase)p);
		at[p + 1] = fm_now();
	}
	return wrong;
}

static void tell_others(struct run *r, uint64_t end)
{
	uint64_t n = atomic_load_explicit(&r->seat->results, memory_order_relaxed);

	atomic_store_explicit(&r->seat->result[n % BENCH_RESULTS], end, memory_order_relaxed);
	atomic_store(&r->seat->results, n + 1);
	for (uint64_t left = r->after; left; left &= left - 1)
		bench_ring(&r->page->seat[__builtin_ctzll(left)]);
}

static uint64_t end_of_run(const struct run *r)
{
	uint64_t stop = atomic_load(&r->page->stop);

	return stop ? FM_MIN(stop, r->page->end) : r->page->end;
}

/* due: when it should have begun. */
static const char *request(struct run *r, uint64_t due)
{
	struct bench_counts *n = &r->seat->counts;
	uint64_t at[FM_BENCH_PHASES + 1], end, stop;
	const char *wrong;

	n->begun++;
	wrong = serve(r, at);
	if (wrong)
		return wrong;
	end = at[FM_BENCH_PHASES];
	stop = end_of_run(r);
	for (int p = 0; p < FM_BENCH_PHASES; p++)
		n->phase_ns[p] += at[p + 1] - at[p];
	n->finished++;
	if (end > FM_MAX(stop, at[0]))
		n->beyond += (double)(end - FM_MAX(stop, at[0])) / (double)(end - at[0]);
	fm_hist_add(&n->service, end - at[0]);
	fm_hist_add(&n->latency, fm_sub_sat(end, due));
	n->missed += r->deadline && fm_sub_sat(end, due) > r->deadline;
	tell_others(r, end);
	return NULL;
}

/* It was due, and the run ended before it could begin: it has waited at least so long. */
static void still_waits(struct run *r, uint64_t due, uint64_t end)
{
	struct bench_counts *n = &r->seat->counts;

	n->waiting++;
	fm_hist_add(&n->latency, end - due);
	n->missed += r->deadline && end - due > r->deadline;
}

static const char *closed_loop(struct run *r)
{
	const char *wrong = NULL;

	if (!sleep_until(r, r->page->begin))
		return NULL;
	for (uint64_t now = fm_now(); !wrong && now < r->page->end && !stopped(r); now = fm_now())
		wrong = request(r, now);
	return wrong;
}

/* As libdisb: who comes late begins with the latest that is due, and forgets those before. */
static void drop_late(struct run *r, struct bench_arrivals *a, uint64_t begin)
{
	struct bench_arrivals next = *a;
	uint64_t now = fm_now();

	bench_arrivals_pass(&next);
	while (fm_add_sat(begin, bench_arrivals_due(&next)) < now) {
		r->seat->counts.dropped += begin + bench_arrivals_due(a) < r->page->end;
		*a = next;
		bench_arrivals_pass(&next);
	}
}

static const char *open_loop(struct run *r)
{
	uint64_t begin = r->page->begin, due;
	const char *wrong = NULL;
	struct bench_arrivals a;

	bench_arrivals_init(&a, r->task, r->page->seed, r->seat->rate, r->seat->delay);
	while (!wrong) {
		if (r->page->drop)
			drop_late(r, &a, begin);
		due = fm_add_sat(begin, bench_arrivals_due(&a));
		if (due >= r->page->end || !sleep_until(r, due))
			break;
		if (!r->page->drop && fm_now() >= r->page->end)
			break;
		bench_arrivals_pass(&a);
		wrong = request(r, due);
	}
	while ((due = fm_add_sat(begin, bench_arrivals_due(&a))) < end_of_run(r)) {
		still_waits(r, due, end_of_run(r));
		bench_arrivals_pass(&a);
	}
	return wrong;
}

/* When the n-th result of all that it waits for was there; 0: not yet. FM_NEVER: one of them was
 * overwritten before it was looked at. */
static uint64_t results_at(const struct run *r, uint64_t n)
{
	uint64_t at = 1;

	for (uint64_t left = r->task->before; left; left &= left - 1) {
		const struct bench_seat *s = &r->page->seat[__builtin_ctzll(left)];
		uint64_t have = atomic_load(&s->results);

		if (have <= n)
			return 0;
		at = FM_MAX(at, atomic_load(&s->result[n % BENCH_RESULTS]));
		/* One that is being written is not counted yet. */
		if (atomic_load(&s->results) - n >= BENCH_RESULTS)
			return FM_NEVER;
	}
	return at;
}

static const char *dependent(struct run *r)
{
	const char *wrong = NULL;
	uint64_t n = 0, due;

	while (!wrong && !stopped(r) && fm_now() < r->page->end) {
		uint32_t heard = atomic_load(&r->seat->bell);

		due = results_at(r, n);
		if (!due) {
			bench_sleep(r->seat, heard, r->page->end);
			continue;
		}
		n++;
		if (due == FM_NEVER)
			r->seat->counts.dropped++;
		else
			wrong = request(r, due);
	}
	while ((due = results_at(r, n++)) && due < end_of_run(r))
		still_waits(r, due, end_of_run(r));
	return wrong;
}

static const char *play(struct run *r)
{
	switch (r->task->load) {
	case BENCH_CLOSED:
		return closed_loop(r);
	case BENCH_DEPENDENT:
		return dependent(r);
	default:
		return open_loop(r);
	}
}

static const char *serve_alone(struct run *r, uint64_t at[FM_BENCH_PHASES + 1])
{
	const char *wrong = serve(r, at);

	atomic_fetch_add(&r->seat->alone, 1);
	return wrong;
}

/* Requests with the device to itself: some to get warm, then some that are measured. */
static const char *alone(struct run *r)
{
	uint64_t at[FM_BENCH_PHASES + 1], sum[FM_BENCH_PHASES] = {0};
	const char *wrong = NULL;

	for (uint32_t i = 0; !wrong && i < r->page->warm_up; i++)
		wrong = serve_alone(r, at);
	sleep_until(r, fm_now() + r->page->rest);
	for (uint32_t i = 0; !wrong && !stopped(r) && i < r->page->alone; i++) {
		wrong = serve_alone(r, at);
		for (int p = 0; !wrong && p < FM_BENCH_PHASES; p++)
			sum[p] += at[p + 1] - at[p];
	}
	for (int p = 0; p < FM_BENCH_PHASES; p++)
		r->seat->alone_ns[p] = sum[p] / FM_MAX(r->page->alone, 1u);
	return wrong;
}

/* Of all models, for everybody. */
static const char *calibrate(struct run *r)
{
	const struct fm_bench_driver *ops = r->c->driver->ops;

	return ops->calibrate ? ops->calibrate(r->client, r->page->kernel, r->page->kernels) : NULL;
}

/* Lengths were found after the model was opened: this one's copy follows. */
static void take_kernels(struct run *r)
{
	const struct bench_model *m = &r->c->workload->model[r->task->model];

	memcpy(r->kernel, r->page->kernel + m->kernel, m->kernels * sizeof(*r->kernel));
}

static const char *open_model(struct run *r)
{
	const struct bench_model *m = &r->c->workload->model[r->task->model];
	struct fm_bench_device device = {0};
	char group[BENCH_GROUP];
	const struct fm_bench_open how = {.size = sizeof(how),
		.device = r->c->driver->device,
		.task = r->task->id,
		.libfermata = r->c->libfermata,
		.model = &r->model,
		.group = r->page->threads ? group : NULL,
		.hint = r->task->hint,
		.hints = r->task->hints};
	const char *wrong;

	bench_group(r->task, group);
	r->kernel = calloc(m->kernels + 1, sizeof(*r->kernel));
	if (!r->kernel)
		return "out of memory";
	take_kernels(r);
	r->model = (struct fm_bench_model){.name = m->name,
		.batch = r->task->batch,
		.input_bytes = m->input_bytes,
		.output_bytes = m->output_bytes,
		.kernel = r->kernel,
		.kernels = m->kernels,
		.client = r->task->client};
	wrong = r->c->driver->ops->open(r->c->driver->ops, &how, &r->client, &device);
	if (!wrong && r->c->task == 0)
		r->page->device = device;
	return wrong;
}

static const char *act(struct run *r, enum bench_go go)
{
	switch (go) {
	case BENCH_WAIT:
		return NULL;
	case BENCH_OPEN:
		return open_model(r);
	case BENCH_CALIBRATE:
		return calibrate(r);
	case BENCH_ALONE:
		take_kernels(r);
		return alone(r);
	case BENCH_RUN:
		return play(r);
	case BENCH_CLOSE:
		return NULL;
	}
	return "it was told what it does not know";
}

/* The next thing to do. */
static enum bench_go next(struct run *r, enum bench_go last)
{
	for (;;) {
		uint32_t heard = atomic_load(&r->seat->bell);
		enum bench_go go = (enum bench_go)atomic_load(&r->seat->go);

		if (go != last)
			return go;
		bench_sleep(r->seat, heard, FM_NEVER);
	}
}

void bench_client_run(const struct bench_client *c)
{
	const struct bench_workload *w = c->workload;
	struct run r = {.c = c,
		.task = &w->task[c->task],
		.page = c->page,
		.seat = &c->page->seat[c->task],
		.deadline = (uint64_t)bench_task_hint(&w->task[c->task], FM_HINT_DEADLINE)};
	enum bench_go go = BENCH_WAIT;
	const char *wrong;

	for (uint32_t i = 0; i < w->tasks; i++)
		if (w->task[i].before >> c->task & 1)
			r.after |= UINT64_C(1) << i;
	while (!(wrong = act(&r, go)) && go != BENCH_CLOSE) {
		atomic_store(&r.seat->done, go + 1);
		go = next(&r, go);
	}
	if (wrong)
		snprintf(r.seat->error, sizeof(r.seat->error), "%s", wrong);
	if (r.client && c->driver->ops->close)
		c->driver->ops->close(r.client);
	free(r.kernel);
	atomic_store(&r.seat->done, wrong ? BENCH_FAILED : (uint32_t)go + 1);
}
