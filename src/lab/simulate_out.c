/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate_out.h"
#include "base/lockorder.h"
#include "simulate_metrics.h"
#include "simulate_trace.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct simulate_out {
	struct simulate_names names;
	struct simulate_trace *trace;     /* or NULL */
	struct simulate_metrics *metrics; /* or NULL */
	struct fm_sim_audience audience;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	uint64_t turn; /* of the part with this number */
};

struct part {
	struct simulate_turn turn;
	struct simulate_trace_part *trace;
};

/* The part with the lowest number runs, or is about to. It never waits, so no part waits for ever.
 */
void simulate_turn_wait(struct simulate_turn *t)
{
	struct simulate_out *o = t->out;

	if (t->mine)
		return;
	pthread_mutex_lock(&o->lock);
	while (o->turn != t->part)
		pthread_cond_wait(&o->turned, &o->lock);
	pthread_mutex_unlock(&o->lock);
	t->mine = true;
}

static void turn_over(struct simulate_turn *t)
{
	struct simulate_out *o = t->out;

	simulate_turn_wait(t);
	pthread_mutex_lock(&o->lock);
	o->turn++;
	pthread_cond_broadcast(&o->turned);
	pthread_mutex_unlock(&o->lock);
}

static void on_event(void *ctx, const struct fm_sim_event *e)
{
	struct part *p = ctx;
	struct simulate_out *o = p->turn.out;

	if (p->trace && SIMULATE_TRACE_WANTS & FM_SIM_BIT(e->what))
		simulate_trace_note(p->trace, e);
	if (!o->metrics || !(SIMULATE_METRICS_WANTS & FM_SIM_BIT(e->what)))
		return;
	simulate_turn_wait(&p->turn);
	simulate_metrics_note(o->metrics, e);
}

static int begin(void *ctx, uint64_t part, struct fm_sim_watch *watch)
{
	struct simulate_out *o = ctx;
	struct part *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->turn = (struct simulate_turn){.out = o, .part = part};
	watch->ctx = p;
	watch->event = on_event;
	watch->wants =
		(o->trace ? SIMULATE_TRACE_WANTS : 0) | (o->metrics ? SIMULATE_METRICS_WANTS : 0);
	if (!o->trace)
		return 0;
	p->trace = simulate_trace_part(o->trace, &p->turn);
	return p->trace ? 0 : -ENOMEM;
}

static int end(void *ctx, uint64_t part, struct fm_sim_watch *watch, bool failed)
{
	struct simulate_turn none = {.out = ctx, .part = part};
	struct part *p = watch->ctx;
	int rc = 0;

	if (p && p->trace)
		rc = simulate_trace_part_end(p->trace);
	turn_over(p ? &p->turn : &none);
	free(p);
	return rc;
}

int simulate_out_open(struct simulate_out **out, const struct fm_sim_plan *p, struct outfile *trace,
	struct outfile *metrics, struct fm_err *err)
{
	struct simulate_out *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return fm_err_set(err, -ENOMEM, "out of memory");
	o->audience = (struct fm_sim_audience){begin, end, o};
	pthread_mutex_init(&o->lock, NULL);
	fm_lock_rank(&o->lock, SIM_OUT);
	pthread_cond_init(&o->turned, NULL);
	rc = simulate_names_init(&o->names, p, err);
	if (!rc && trace->path)
		rc = simulate_trace_open(&o->trace, &o->names, trace, err);
	if (!rc && metrics->path)
		rc = simulate_metrics_open(&o->metrics, &o->names, metrics, err);
	if (rc)
		simulate_out_close(o, NULL, err);
	else
		*out = o;
	return rc;
}

const struct fm_sim_audience *simulate_out_audience(const struct simulate_out *o)
{
	return o ? &o->audience : NULL;
}

int simulate_out_close(
	struct simulate_out *o, const struct fm_sim_result *result, struct fm_err *err)
{
	int rc, more;

	if (!o)
		return 0;
	rc = simulate_trace_close(o->trace, result != NULL, err);
	more = simulate_metrics_close(o->metrics, rc ? NULL : result, rc ? NULL : err);
	simulate_names_free(&o->names);
	pthread_cond_destroy(&o->turned);
	pthread_mutex_destroy(&o->lock);
	free(o);
	return rc ? rc : more;
}
