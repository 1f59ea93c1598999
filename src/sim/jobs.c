/* SPDX-License-Identifier: Apache-2.0 */
/* What programs do: jobs that arrive, wait, and go through their commands and pauses. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>

/* The input of a recorded job is one of the job's commands, the shortest of them. */
static uint64_t input_of(const struct group *g)
{
	const struct job *j = &g->job;

	if (!j->length)
		return g->plan->input;
	return j->commands > 1 && j->length / j->commands >= g->plan->input ? g->plan->input : 0;
}

/* A job's first command, the input, is a segment by itself. If it met an open gate, the client
 * opens the next gate when it has heard of the command's end; otherwise it opens several gates at
 * once. */
static bool advance_input(struct ent *e)
{
	const struct fm_sim_device *plan = e->d->plan;

	if (e->begins) {
		e->begins = false;
		e->behind = true;
		e->met = e->open;
		e->left = FM_MAX(input_of(e->g), FM_SIM_COMMAND);
		device_wants(e);
		return true;
	}
	e->behind = false;
	if (!e->met || plan->level != 2 || !plan->open) {
		device_seals(e);
		return false;
	}
	e->state = STANDS;
	at(e->g->m, &e->timer, fm_add_sat(e->g->m->now, plan->open));
	return true;
}

/* Its commands add up to its length, to the nanosecond. */
static bool advance_recorded(struct ent *e)
{
	uint64_t input = input_of(e->g), length = e->g->job.length - input;
	uint64_t n = FM_MAX(e->g->job.commands - !!input, 1u);

	if ((e->begins || e->behind) && advance_input(e))
		return true;
	n = FM_MIN(n, FM_MAX(length / FM_SIM_COMMAND, UINT64_C(1)));
	if (e->step == n)
		return false;
	e->left = (uint64_t)((unsigned __int128)length * (e->step + 1) / n) -
		  (uint64_t)((unsigned __int128)length * e->step / n);
	e->step++;
	device_wants(e);
	return true;
}

/* Goes to the next command or pause of the entity's part of the job. False: the part is done. */
static bool advance(struct ent *e)
{
	const struct fm_sim_group *plan = e->g->plan;
	struct machine *m = e->g->m;
	const struct fm_sim_step *s;
	uint64_t time;

	if (e->g->job.length) /* whatever the steps say */
		return advance_recorded(e);
	for (; e->step < plan->steps; e->step++, e->times = 0) {
		s = &plan->step[e->step];
		if (e->times == s->times)
			continue;
		if ((e->begins || e->behind) && !s->pause && !s->cpu && advance_input(e))
			return true;
		e->times++;
		time = fm_sim_draw(&s->time, &e->r);
		e->left = FM_MAX(time, FM_SIM_COMMAND);
		if (s->cpu) {
			e->state = COMPUTES;
		} else if (!s->pause) {
			e->left = fm_add_sat(e->left, e->extra);
			device_wants(e);
		} else {
			e->state = PAUSED;
			at(m, &e->timer, fm_add_sat(m->now, e->left));
		}
		return true;
	}
	return false;
}

static void draw_extra(struct ent *e)
{
	const struct fm_sim_group *plan = e->g->plan;
	uint64_t commands = 0;

	if (!fm_sim_takes_time(&plan->extra))
		return;
	for (uint32_t i = 0; i < plan->steps; i++)
		commands += plan->step[i].pause || plan->step[i].cpu ? 0 : plan->step[i].times;
	e->extra = fm_sim_draw(&plan->extra, &e->r) / FM_MAX(commands, UINT64_C(1));
}

static void begin_job(struct group *g)
{
	g->job = g->queue[g->head];
	g->head = (g->head + 1) % g->cap;
	g->waiting--;
	g->has_job = true;
	g->busy = g->ents;
	for (uint32_t i = 0; i < g->ents; i++) {
		g->ent[i].step = g->ent[i].times = 0;
		g->ent[i].begins = input_of(g) > 0;
		g->ent[i].behind = false;
		cpu_leave(&g->ent[i]);
		draw_extra(&g->ent[i]);
		advance(&g->ent[i]); /* there is a step, so it is one that takes time */
		cpu_settle(&g->ent[i]);
		machine_edge(&g->ent[i]);
	}
}

static int grow(struct group *g)
{
	uint32_t cap = g->cap ? 2 * g->cap : 2;
	struct job *queue = malloc(cap * sizeof(*queue));

	if (!queue)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->waiting; i++)
		queue[i] = g->queue[(g->head + i) % g->cap];
	free(g->queue);
	g->queue = queue;
	g->cap = cap;
	g->head = 0;
	return 0;
}

static void arrive(struct group *g, uint64_t length, uint32_t commands)
{
	struct machine *m = g->m;

	g->result->arrivals += m->counts;
	if (g->waiting >= g->plan->queue) {
		g->result->dropped += m->counts;
		note_group(g, FM_SIM_DROPS, 0);
		return;
	}
	if (g->waiting == g->cap && grow(g)) {
		m->rc = -ENOMEM;
		return;
	}
	g->queue[(g->head + g->waiting++) % g->cap] = (struct job){m->now, length, commands};
	note_group(g, FM_SIM_ARRIVES, length);
}

/* A job of another group has ended. Does that make a job for this group? */
static void follow(struct group *g, uint32_t which)
{
	uint32_t n = g->plan->befores;

	g->followed[which]++;
	for (uint32_t i = 0; i < n; i++)
		if (!g->followed[i])
			return;
	for (uint32_t i = 0; i < n; i++)
		g->followed[i]--;
	arrive(g, 0, 0);
	if (!g->has_job && g->waiting)
		begin_job(g);
}

static void tell_followers(const struct group *g)
{
	struct machine *m = g->m;

	for (uint32_t i = 0; i < m->groups; i++) {
		struct group *o = &m->group[i];

		if (o->plan->arrival != FM_SIM_AFTER || !o->sgroup ||
			o->instance % g->plan->count != g->instance)
			continue;
		for (uint32_t b = 0; b < o->plan->befores; b++)
			if (o->plan->before[b] == g->section)
				follow(o, b);
	}
}

static void arrive_as_recorded(struct group *g)
{
	const struct fm_sim_record *r = &g->plan->record[g->record];

	arrive(g, r->length, r->commands);
}

/* Lets the next job arrive, `pause' after the end of the one before. */
static void arrive_after(struct group *g, uint64_t pause)
{
	if (pause)
		at(g->m, &g->timer, fm_add_sat(g->m->now, pause));
	else if (g->plan->arrival == FM_SIM_CHAIN)
		arrive_as_recorded(g);
	else
		arrive(g, 0, 0);
}

static bool is_recorded(const struct group *g)
{
	return g->plan->arrival == FM_SIM_TRACE || g->plan->arrival == FM_SIM_CHAIN;
}

/* A recorded program ends when it has done what it did in the recording. Here that may be later. */
static bool has_more(const struct group *g)
{
	return is_recorded(g) && (g->has_job || g->waiting || g->record < g->plan->records);
}

static void end_job(struct group *g)
{
	struct machine *m = g->m;
	uint64_t took = m->now - g->job.at;

	g->has_job = false;
	note_group(g, FM_SIM_ENDS, took);
	if (m->counts) {
		g->result->jobs++;
		g->result->late += g->deadline && took > g->deadline;
		fm_hist_add(&g->result->response, took);
	}
	if (g->plan->arrival == FM_SIM_CLOSED)
		arrive_after(g, fm_sim_draw(&g->plan->time, &g->r));
	else if (g->plan->arrival == FM_SIM_CHAIN && ++g->record < g->plan->records)
		arrive_after(g, g->plan->record[g->record].pause);
	if (g->waiting)
		begin_job(g);
	if (m->follows)
		tell_followers(g);
	if (g->leaving && !has_more(g))
		at(m, &g->leave, m->now);
}

void jobs_next(struct ent *e)
{
	bool done = !advance(e);

	cpu_settle(e);
	if (done && !--e->g->busy)
		end_job(e->g);
}

void jobs_resume(struct ent *e)
{
	e->state = IDLE;
	jobs_next(e);
	machine_edge(e);
}

/* FM_NEVER: the group waits for other groups. */
static uint64_t first_arrival(struct group *g)
{
	const struct fm_sim_group *plan = g->plan;
	bool fixed = plan->time.shape == FM_SIM_FIXED && plan->time.a;
	uint64_t now = g->m->now;

	switch (plan->arrival) {
	case FM_SIM_TRACE:
	case FM_SIM_CHAIN:
		return plan->records ? fm_add_sat(now, plan->record[0].at) : FM_NEVER;
	case FM_SIM_AFTER:
		return FM_NEVER;
	default:
		break;
	}
	if (!plan->random_phase)
		return fm_add_sat(now, plan->phase);
	if (fixed)
		return now + (uint64_t)fm_rta_uniform(&g->r, 0, (int64_t)plan->time.a - 1);
	return fm_add_sat(now, fm_sim_draw(&plan->time, &g->r));
}

static uint64_t later(struct group *g, uint64_t when)
{
	uint64_t jitter = g->plan->jitter;

	if (jitter)
		when = fm_add_sat(when, (uint64_t)fm_rta_uniform(&g->r, 0, (int64_t)jitter));
	return FM_MAX(when, g->m->now);
}

void jobs_arrival(struct group *g)
{
	const struct fm_sim_group *plan = g->plan;
	struct machine *m = g->m;

	if (plan->arrival == FM_SIM_TRACE) {
		arrive_as_recorded(g);
		if (++g->record < plan->records)
			at(m, &g->timer, fm_add_sat(g->next, plan->record[g->record].at));
	} else if (plan->arrival == FM_SIM_CHAIN) {
		arrive_as_recorded(g);
	} else if (plan->arrival == FM_SIM_CLOSED) {
		arrive(g, 0, 0);
	} else {
		for (uint32_t i = 0; i < plan->burst; i++)
			arrive(g, 0, 0);
		g->next = fm_add_sat(
			g->next, FM_MAX(fm_sim_draw(&plan->time, &g->r), FM_SIM_COMMAND));
		at(m, &g->timer, later(g, g->next));
	}
	if (!g->has_job && g->waiting)
		begin_job(g);
}

uint64_t fm_sim_deadline(const struct fm_hints *hints)
{
	int64_t deadline = hints->value[FM_HINT_DEADLINE];

	return (uint64_t)(deadline ? deadline : hints->value[FM_HINT_PERIOD]);
}

/* Makes all hint changes that are due. */
void jobs_change(struct group *g)
{
	const struct fm_sim_group *plan = g->plan;
	uint64_t now = g->m->now, due;

	for (; g->changed < plan->changes; g->changed++) {
		const struct fm_sim_change *c = &plan->change[g->changed];

		due = fm_add_sat(plan->start, c->at);
		if (due > now) {
			at(g->m, &g->change, due);
			return;
		}
		g->hints.value[c->hint] = c->value;
		g->deadline = fm_sim_deadline(&g->hints);
		forecast_over(g);
		if (watched(g->m, FM_SIM_HINTED))
			watch_hint(g, c->hint, c->value);
		fm_sched_hint(g->m->s, g->sgroup, c->hint, c->value, now);
	}
}

static int enter(struct group *g, struct ent *e)
{
	struct machine *m = g->m;

	forecast_over(g);
	e->reported = e->open = false;
	e->counted_from = m->now;
	if (e->memory)
		memory_join(e);
	return fm_sched_ent_add(m->s, &e->sent, g->sgroup, e->d->sdev, e, m->now);
}

int jobs_join(struct group *g)
{
	bool recorded = is_recorded(g);
	struct machine *m = g->m;
	uint64_t first;
	int rc = fm_sched_group_add(m->s, &g->sgroup);

	if (rc)
		return rc;
	fm_sched_label(g->sgroup, g->plan->user, g->plan->name ?: "");
	for (unsigned h = 0; h < FM_HINT_COUNT && !rc; h++)
		rc = fm_sched_hint(
			m->s, g->sgroup, (enum fm_hint)h, g->plan->hints.value[h], m->now);
	note_group(g, FM_SIM_JOINS, 0);
	for (uint32_t i = 0; i < g->ents && !rc; i++)
		rc = enter(g, &g->ent[i]);
	if (rc)
		return rc;
	g->hints = g->plan->hints;
	g->deadline = g->plan->deadline;
	jobs_change(g);
	first = first_arrival(g);
	g->next = recorded ? m->now : first;
	if (first != FM_NEVER)
		at(m, &g->timer, recorded ? first : later(g, first));
	if (g->plan->stop != FM_NEVER)
		at(m, &g->leave, FM_MAX(g->plan->stop, m->now));
	return 0;
}

void jobs_leave(struct group *g)
{
	struct machine *m = g->m;

	g->leaving = has_more(g);
	if (g->leaving)
		return;
	count_group(g);
	forecast_over(g);
	fm_heap_del(&m->queue, &g->timer.node);
	fm_heap_del(&m->queue, &g->change.node);
	for (uint32_t i = 0; i < g->ents; i++) {
		device_leave(&g->ent[i]);
		cpu_settle(&g->ent[i]);
		fm_heap_del(&m->queue, &g->ent[i].report.node);
		fm_list_del(&g->ent[i].edge);
		if (g->ent[i].memory)
			memory_leave(&g->ent[i]);
	}
	fm_sched_group_del(m->s, g->sgroup, m->now);
	g->sgroup = NULL;
	g->has_job = false;
	g->waiting = 0;
	note_group(g, FM_SIM_LEAVES, 0);
}
