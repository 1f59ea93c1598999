/* SPDX-License-Identifier: Apache-2.0 */
/* What a device does: slots, costs, and how a closed gate stops it, by level. */
#include "internal.h"

static void book(struct ent *e, uint64_t served, uint64_t overhead)
{
	e->served += served;
	e->overhead += overhead;
	e->stretch += served;
	e->d->served += served;
	e->d->overhead += overhead;
}

void device_progress(const struct ent *e, uint64_t *served, uint64_t *overhead)
{
	uint64_t ran = e->state == ON ? e->g->m->now - e->begin : 0;

	*overhead = FM_MIN(ran, e->setup);
	*served = ran - *overhead;
}

uint64_t device_usage(const struct ent *e)
{
	uint64_t served, overhead;

	device_progress(e, &served, &overhead);
	return e->served + e->overhead + served + overhead;
}

static uint64_t rest_of_turn(const struct ent *e)
{
	return e->d->plan->slice ? fm_sub_sat(e->d->plan->slice, e->turn) : 0;
}

/* It is on the device, and goes on with its command after so much else: to its end, or that of the
 * turn. What a closed gate lets run on is not taken off the device. */
static void go_on(struct ent *e, uint64_t setup)
{
	struct machine *m = e->g->m;
	uint64_t rest = rest_of_turn(e);

	e->begin = m->now;
	e->setup = setup;
	at(m, &e->timer, m->now + setup + (rest && e->open ? FM_MIN(rest, e->left) : e->left));
}

static void start(struct ent *e)
{
	struct device *d = e->d;
	uint64_t setup = d->plan->launch;

	if (d->last != e->g) {
		d->last = e->g;
		d->switches++;
		setup += d->plan->swtch;
	}
	fm_list_del(&e->queue);
	d->on++;
	e->state = ON;
	e->segment = e->stretch = e->commands = 0;
	e->turn = 0;
	e->on_at = d->m->now;
	e->nth++;
	note_ent(e, FM_SIM_RUNS, 0, NULL);
	go_on(e, setup);
}

static void fill(struct device *d)
{
	while (d->on < d->plan->slots && !fm_list_empty(&d->queue))
		start(fm_list_first(&d->queue, struct ent, queue));
}

static void line_up(struct ent *e)
{
	if (e->open)
		fm_list_add_tail(&e->d->queue, &e->queue);
}

static void leave_slot(struct ent *e)
{
	struct device *d = e->d;

	d->on--;
	e->off_at = d->m->now;
	note_ent(e, FM_SIM_STOPS, e->stretch, NULL);
}

void device_wants(struct ent *e)
{
	e->state = WAITS;
	if (e->ending)
		return;
	line_up(e);
	fill(e->d);
}

/* A command that is interrupted keeps what was done of it. What is left ends now anyway if its
 * time is up. */
static void interrupt(struct ent *e)
{
	uint64_t served, overhead;

	device_progress(e, &served, &overhead);
	if (served == e->left)
		return;
	book(e, served, overhead);
	e->left -= served;
	e->stopping = true;
	e->begin = e->g->m->now;
	e->setup = e->d->plan->flush;
	at(e->g->m, &e->timer, e->begin + e->setup);
}

static void take_back(struct ent *e)
{
	book(e, 0, e->g->m->now - e->begin);
	e->stopping = false;
	go_on(e, 0);
}

void device_gate(struct ent *e, bool open)
{
	if (e->open == open)
		return;
	e->open = open;
	if (!open) {
		e->closed_at = e->g->m->now;
		if (e->state == WAITS)
			fm_list_del(&e->queue);
		else if (e->state == ON && e->d->plan->level == 3 && !e->ending)
			interrupt(e);
	} else if (e->stopping) {
		take_back(e);
	} else if (e->state == WAITS && !e->ending) {
		line_up(e);
		fill(e->d);
	}
}

/* The gate is closed: does the device go on to the next command all the same? */
static bool passes(const struct ent *e)
{
	const struct fm_sim_device *plan = e->d->plan;

	switch (plan->level) {
	case 1:
		return e->g->m->now - e->closed_at < plan->window;
	case 2:
		return e->segment < plan->spacing * (plan->lead + 1);
	default:
		return false;
	}
}

static void next_command(struct ent *e)
{
	const struct fm_sim_device *plan = e->d->plan;
	uint64_t setup = plan->launch;

	if (plan->level == 2 && e->open && e->segment >= plan->spacing) {
		setup += plan->gate;
		e->segment = 0;
	}
	e->state = ON;
	go_on(e, setup);
}

/* Does the device go on with it, whoever waits? */
static bool has_device(struct ent *e)
{
	if (!e->open)
		return passes(e);
	if (rest_of_turn(e))
		return true;
	e->turn = 0;
	return fm_list_empty(&e->d->queue);
}

/* In the middle of a command, which it goes on with at its next turn. */
static void end_turn(struct ent *e, uint64_t served)
{
	book(e, served, e->setup);
	e->segment += served + e->setup;
	e->turn += served;
	e->left -= served;
	if (!e->open || has_device(e)) {
		go_on(e, 0);
		return;
	}
	e->state = WAITS;
	leave_slot(e);
	line_up(e);
	fill(e->d);
}

static void end_command(struct ent *e)
{
	uint64_t setup = e->setup, left = e->left;

	book(e, left, setup);
	e->segment += left + setup;
	e->turn += left;
	e->commands++;
	e->left = 0;
	e->ending = true;
	e->state = IDLE;
	jobs_next(e);
	e->ending = false;
	if (e->state == WAITS && has_device(e)) {
		next_command(e);
		return;
	}
	leave_slot(e);
	if (e->state == WAITS)
		line_up(e);
	machine_edge(e);
	fill(e->d);
}

void device_event(struct ent *e)
{
	uint64_t served, overhead;

	device_progress(e, &served, &overhead);
	if (!e->stopping) {
		if (served < e->left)
			end_turn(e, served);
		else
			end_command(e);
		return;
	}
	book(e, 0, e->setup);
	e->stopping = false;
	e->state = WAITS;
	leave_slot(e);
	fill(e->d);
}

void device_leave(struct ent *e)
{
	uint64_t served, overhead;

	fm_heap_del(&e->g->m->queue, &e->timer.node);
	fm_list_del(&e->queue);
	if (e->state == ON) {
		device_progress(e, &served, &overhead);
		book(e, served, overhead);
		leave_slot(e);
	}
	e->state = IDLE;
	e->stopping = false;
	fill(e->d);
}
