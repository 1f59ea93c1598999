/* SPDX-License-Identifier: Apache-2.0 */
/* What a device does: slots, turns, costs, and how a closed gate stops it, by level. */
#include "internal.h"

static void book(struct ent *e, uint64_t served, uint64_t overhead)
{
	e->served += served;
	e->overhead += overhead;
	e->stretch += served;
	e->had += served + overhead;
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

static bool has_turns(const struct device *d)
{
	return fm_sim_takes_time(&d->plan->slice);
}

/* An entity that neither runs nor waits for a slot stands at a gate, or has nothing to do. */
bool device_holds(const struct ent *e)
{
	return e->state == ON || !fm_list_empty(&e->queue);
}

static void begin_turn(struct ent *e)
{
	struct device *d = e->d;

	if (d->plan->tick) {
		ticks_begin(e);
		return;
	}
	e->turn = 0;
	e->slice = has_turns(d) ? fm_sim_draw(&d->plan->slice, &d->r) : 0;
	e->slice = FM_MAX(e->slice, FM_SIM_COMMAND);
}

static uint64_t rest_of_turn(const struct ent *e)
{
	if (!has_turns(e->d))
		return 0;
	if (e->d->plan->tick)
		return fm_sub_sat(e->turn_end, e->d->m->now);
	return fm_sub_sat(e->slice, e->turn);
}

/* The entity is on the device. After `setup' it goes on with its command, until the command or the
 * turn ends. */
static void go_on(struct ent *e, uint64_t setup)
{
	struct machine *m = e->g->m;
	uint64_t rest = rest_of_turn(e);

	e->begin = m->now;
	e->setup = setup;
	if (e->memory)
		memory_begins(e);
	at(m, &e->timer, m->now + setup + (rest ? FM_MIN(rest, e->left) : e->left));
}

/* Does the next command belong to the present segment? A client decides the same by its estimates.
 */
static bool fits(const struct ent *e)
{
	const struct fm_sim_device *plan = e->d->plan;

	return plan->level != 2 || !e->segment ||
	       fm_add_sat(e->segment, fm_add_sat(plan->launch, e->left)) <= plan->spacing;
}

/* The overhead of the next command, including that of a gate in front of it. */
static uint64_t begin_command(struct ent *e)
{
	const struct fm_sim_device *plan = e->d->plan;
	uint64_t setup = plan->launch;

	if (!e->begun && !fits(e)) {
		setup += plan->gate;
		e->segment = 0;
		e->past += !e->open;
	}
	e->begun = false;
	return setup;
}

static void start(struct ent *e)
{
	struct device *d = e->d;
	uint64_t setup = begin_command(e);

	if (d->last != e->g) {
		d->last = e->g;
		d->switches++;
		setup += d->plan->swtch;
	}
	fm_list_del(&e->queue);
	d->on++;
	d->running = e;
	e->state = ON;
	e->stretch = e->commands = 0;
	e->on_at = d->m->now;
	e->nth++;
	begin_turn(e);
	note_ent(e, FM_SIM_RUNS, 0, NULL);
	go_on(e, setup);
}

/* The waiting entity that has had least; of equals, the last that came. NULL: none waits. */
static struct ent *hungriest(struct device *d)
{
	struct ent *e, *best = NULL;

	fm_list_each (e, &d->queue, queue)
		if (!best || e->had <= best->had)
			best = e;
	return best;
}

static struct ent *next_of(struct device *d)
{
	if (d->plan->tick)
		return ticks_next(d);
	if (d->plan->fair)
		return hungriest(d);
	return fm_list_empty(&d->queue) ? NULL : fm_list_first(&d->queue, struct ent, queue);
}

static void fill(struct device *d)
{
	struct ent *next;

	while (d->on < d->plan->slots && (next = next_of(d)))
		start(next);
}

static void leave_slot(struct ent *e)
{
	struct device *d = e->d;

	d->on--;
	d->running = NULL;
	e->off_at = d->m->now;
	if (d->memory && !e->open)
		memory_stale(d);
	note_ent(e, FM_SIM_STOPS, e->stretch, NULL);
}

static void account(struct ent *e, uint64_t served, uint64_t overhead)
{
	book(e, served, overhead);
	e->segment += served + overhead;
	e->turn += served;
	e->left -= served;
}

/* Takes the entity off in the middle of a command. It goes on with it at its next turn. */
static void take_off(struct ent *e)
{
	e->begun = true;
	e->state = WAITS;
	leave_slot(e);
	fm_list_add_tail(&e->d->queue, &e->queue);
}

/* An entity that comes counts as having had at least the average of those that are there, so that
 * it cannot save up device time. */
static void catch_up(struct ent *e)
{
	struct device *d = e->d;
	const struct ent *other;
	unsigned __int128 sum = 0;
	uint64_t n = 0, served, overhead;

	fm_list_each (other, &d->queue, queue) {
		sum += other->had;
		n++;
	}
	if (d->running) {
		device_progress(d->running, &served, &overhead);
		sum += d->running->had + served + overhead;
		n++;
	}
	if (n)
		d->average = (uint64_t)(sum / n);
	e->had = FM_MAX(e->had, d->average);
}

/* An entity that comes takes the device at once, unless it has had more than the running one. */
static void push_off(struct ent *e)
{
	struct ent *on = e->d->running;
	uint64_t served, overhead;

	if (!on || on->ending || on->stopping || on->state != ON)
		return;
	device_progress(on, &served, &overhead);
	if (served == on->left)
		return;
	if (e->d->plan->tick ? !ticks_push_off(on, e) : on->had + served + overhead < e->had)
		return;
	fm_heap_del(&e->g->m->queue, &on->timer.node);
	account(on, served, overhead);
	take_off(on);
}

static void line_up(struct ent *e)
{
	if (!e->open)
		return;
	if (e->d->plan->tick) {
		ticks_come(e);
		fm_list_add_tail(&e->d->queue, &e->queue);
		push_off(e);
		fill(e->d);
		return;
	}
	if (e->d->plan->fair) {
		catch_up(e);
		push_off(e);
	}
	fm_list_add_tail(&e->d->queue, &e->queue);
	fill(e->d);
}

void device_wants(struct ent *e)
{
	e->state = WAITS;
	if (e->ending)
		return;
	e->segment = 0; /* its queue was idle */
	line_up(e);
}

void device_seals(struct ent *e)
{
	e->segment = FM_MAX(e->d->plan->spacing, UINT64_C(1));
}

/* An interrupted command keeps the part that was done. If its time is up, it still ends now. */
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

/* On a device with turns of its own, an entity that waits for its turn has already let some
 * commands past its gates. */
static void close_gate(struct ent *e)
{
	const struct fm_sim_device *plan = e->d->plan;

	e->closed_at = e->g->m->now;
	e->past = 0;
	if (e->state == WAITS && !e->ending) {
		fm_heap_del(&e->g->m->queue, &e->timer.node);
		if (!has_turns(e->d) || plan->level == 3)
			fm_list_del(&e->queue);
	} else if (e->state == ON && plan->level == 3) {
		interrupt(e);
	}
}

void device_goes_on(struct ent *e)
{
	e->segment = 0;
	line_up(e);
}

static void open_gate(struct ent *e)
{
	struct machine *m = e->g->m;

	if (e->stopping)
		take_back(e);
	else if (e->state != WAITS || e->ending || !fm_list_empty(&e->queue))
		return;
	else if (e->d->plan->open)
		at(m, &e->timer, m->now + e->d->plan->open);
	else
		device_goes_on(e);
}

void device_gate(struct ent *e, bool open)
{
	if (e->open == open)
		return;
	e->open = open;
	if (e->memory)
		memory_gate(e, open);
	if (open)
		open_gate(e);
	else
		close_gate(e);
}

/* Although the gate is closed, does the device go on to the next command? */
static bool passes(const struct ent *e)
{
	const struct fm_sim_device *plan = e->d->plan;

	switch (plan->level) {
	case 1:
		return e->g->m->now - e->closed_at < plan->window;
	case 2:
		return fits(e) || e->past < plan->lead;
	default:
		return false;
	}
}

static void next_command(struct ent *e)
{
	e->state = ON;
	go_on(e, begin_command(e));
}

/* Does the device stay with the entity although others may wait? */
static bool has_turn(struct ent *e)
{
	struct ent *other;

	if (rest_of_turn(e))
		return true;
	if (e->d->plan->tick)
		return ticks_goes_on(e);
	other = next_of(e->d);
	if (!has_turns(e->d))
		return !e->open || !other;
	if (other && (!e->d->plan->fair || other->had <= e->had))
		return false;
	begin_turn(e);
	return true;
}

static void end_turn(struct ent *e, uint64_t served)
{
	account(e, served, e->setup);
	e->begin = e->g->m->now;
	if (has_turn(e)) {
		go_on(e, 0);
		return;
	}
	take_off(e);
	fill(e->d);
}

static void end_command(struct ent *e)
{
	bool goes_on;

	account(e, e->left, e->setup);
	e->commands++;
	e->ending = true;
	e->state = IDLE;
	jobs_next(e);
	e->ending = false;
	goes_on = e->state == WAITS && (e->open || passes(e));
	if (goes_on && has_turn(e)) {
		next_command(e);
		return;
	}
	if (e->d->plan->tick && !goes_on)
		ticks_leave(e);
	leave_slot(e);
	if (goes_on)
		fm_list_add_tail(&e->d->queue, &e->queue);
	machine_edge(e);
	fill(e->d);
}

/* Has its memory made the command longer? Then that comes behind it. */
static bool is_slowed(struct ent *e)
{
	uint64_t more = e->memory ? memory_slows(e) : 0;

	if (more < FM_SIM_COMMAND)
		return false;
	e->setup += more;
	at(e->g->m, &e->timer, e->g->m->now + more);
	return true;
}

void device_event(struct ent *e)
{
	uint64_t served, overhead;

	device_progress(e, &served, &overhead);
	if (!e->stopping && served == e->left && is_slowed(e))
		return;
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
	if (e->d->plan->tick)
		ticks_leave(e);
	leave_slot(e);
	fill(e->d);
}

void device_leave(struct ent *e)
{
	uint64_t served, overhead;

	fm_heap_del(&e->g->m->queue, &e->timer.node);
	fm_list_del(&e->queue);
	fm_list_del(&e->away);
	if (e->state == ON) {
		device_progress(e, &served, &overhead);
		book(e, served, overhead);
		leave_slot(e);
	}
	e->state = IDLE;
	e->stopping = e->begun = false;
	fill(e->d);
}
