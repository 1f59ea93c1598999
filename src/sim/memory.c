/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of devices. At each event that may matter it is planned again (src/mem) by the core's
 * forecast. A group whose memory is not in is held by the core (fm_sched_ready_at); moves begin
 * when their group is at rest.
 */
#include "memory.h"

#define PLANS 64            /* of one device in a millisecond */
#define HOLD  (100 * FM_MS) /* others need time to come to rest: no group gives up before */

void memory_stale(struct device *d)
{
	if (d->memory)
		d->memory->stale = true;
}

/* What the device has for extents: the rest is of contexts, and the reserve. Groups that begin at
 * the same time have theirs before any has memory. */
static uint64_t capacity_of(const struct memory *mem)
{
	const struct fm_sim_device *d = mem->d->plan;
	uint64_t contexts = 0, now = mem->d->m->now;

	for (unsigned i = 0; i < mem->ents; i++) {
		const struct fm_sim_group *g = mem->ent[i].e->g->plan;

		if (mem->ent[i].there || (g->start == now && now < g->stop))
			contexts = fm_add_sat(contexts, d->context);
	}
	return fm_sub_sat(d->memory, fm_add_sat(contexts, mem->reserve));
}

void memory_join(struct ent *e)
{
	struct memory *mem = e->d->memory;
	struct ent_memory *em = e->memory;
	uint64_t left;

	em->there = true;
	left = capacity_of(mem);
	for (unsigned i = 0; i < mem->w.extents; i++)
		if (fm_mem_is_on_device(&mem->extent[i]))
			left = fm_sub_sat(left, mem->extent[i].bytes);
	for (unsigned i = em->first; i < em->first + em->n; i++) {
		struct fm_extent *x = &mem->extent[i];
		bool fits = x->bytes <= left;

		x->where = fits ? FM_ON_DEVICE : FM_ON_HOST;
		x->kept = false;
		x->next = i < em->first + em->set ? 0 : FM_NEVER;
		x->last = e->g->m->now;
		left -= fits ? x->bytes : 0;
	}
	memory_stale(e->d);
}

void memory_leave(struct ent *e)
{
	struct memory *mem = e->d->memory;
	struct ent_memory *em = e->memory;

	if (!em->there)
		return;
	memory_stop_moves(mem, em);
	for (unsigned i = em->first; i < em->first + em->n; i++) {
		mem->extent[i].where = FM_EMPTY;
		mem->extent[i].kept = false;
	}
	em->there = em->held = false;
	em->waited = 0;
	em->deadline = FM_NEVER;
	em->waits_since = FM_NEVER;
	memory_stale(e->d);
}

void memory_gate(struct ent *e, bool open)
{
	if (open) {
		e->memory->waited = 0;
		e->memory->deadline = FM_NEVER;
	}
	memory_stale(e->d);
}

/* Does it keep the device in a pause? */
static bool is_pausing(const struct ent *e)
{
	struct fm_linger linger;

	if (!e->nth)
		return false;
	fm_sched_ent_linger(e->sent, &linger);
	return e->g->m->now < fm_add_sat(e->off_at, linger.keeps_ns);
}

/* It computes, or is about to: nothing of it can move. */
static bool is_running(const struct ent *e)
{
	if (!e->memory->there)
		return false;
	return device_holds(e) || (e->open && (has_work(e) || is_pausing(e)));
}

/* When its extents are used next, if not at once; those that it writes have no valid copy. */
static void set_uses(struct memory *mem, struct ent_memory *em)
{
	uint64_t gap = em->e->g->plan->gap, served, overhead, clock;
	bool running = is_running(em->e);

	device_progress(em->e, &served, &overhead);
	clock = em->e->served + served;
	for (unsigned i = 0; i < em->set; i++) {
		struct fm_extent *x = &mem->extent[em->first + i];
		uint64_t phase = (uint64_t)((unsigned __int128)gap * i / em->set);

		if (gap)
			x->next = (phase + gap - clock % gap) % gap;
		if (!running)
			continue;
		x->last = em->e->g->m->now;
		x->kept &= i >= em->dirty;
	}
}

static void set_groups(struct memory *mem)
{
	for (unsigned i = 0; i < mem->ents; i++) {
		struct ent_memory *em = &mem->ent[i];
		struct ent *e = em->e;
		uint64_t used = e->served + e->overhead, gap = e->g->plan->gap;

		mem->group[i].running = is_running(e);
		mem->group[i].early = is_early(mem);
		mem->group[i].turn = e->nth ? FM_MAX(used / e->nth, UINT64_C(1)) : FM_NEVER - 1;
		if (gap && !e->nth)
			mem->group[i].turn = gap;
		if (em->there && em->set)
			set_uses(mem, em);
	}
}

/* What policies without a forecast would do: the group that runs, and then the longest not served.
 */
static unsigned guess_turns(struct memory *mem)
{
	unsigned n = 0;

	for (unsigned i = 0; i < mem->ents; i++) {
		const struct ent *e = mem->ent[i].e;

		if (!mem->ent[i].there || !has_work(e))
			continue;
		mem->past[n++] = (struct fm_mem_past){i, e->off_at, mem->group[i].turn};
		if (mem->group[i].running) {
			struct fm_mem_past first = mem->past[0];

			mem->past[0] = mem->past[n - 1];
			mem->past[n - 1] = first;
		}
	}
	return fm_mem_guess(mem->past, n, mem->w.now, FM_NEVER, mem->turn, TURNS);
}

/* A group that is idle comes by its period. */
static void add_periods(struct memory *mem)
{
	for (unsigned i = 0; i < mem->ents && mem->w.turns < TURNS; i++) {
		const struct ent *e = mem->ent[i].e;
		int64_t period = e->g->hints.value[FM_HINT_PERIOD];
		uint64_t from = fm_add_sat(e->g->job.at, (uint64_t)period);
		unsigned k = mem->w.turns;

		if (!mem->ent[i].there || e->g->has_job || period <= 0 || from < mem->w.now)
			continue;
		for (; k && mem->turn[k - 1].from > from; k--)
			mem->turn[k] = mem->turn[k - 1];
		mem->turn[k] = (struct fm_mem_turn){
			i, from, fm_add_sat(from, FM_MIN(mem->group[i].turn, (uint64_t)period))};
		mem->w.turns++;
	}
}

static void set_turns(struct memory *mem)
{
	const struct fm_sforesight f = {.now = mem->w.now, .until = FM_NEVER};
	int n = fm_sched_dev_forecast(
		mem->d->sdev, &f, mem->sturn, FM_MIN(2 * mem->ents + 2, (unsigned)TURNS));

	if (n == -ENOMEM)
		mem->d->m->rc = n;
	for (int i = 0; i < n; i++) {
		const struct ent *e = mem->sturn[i].data;

		mem->turn[i] = (struct fm_mem_turn){
			e->memory->number, mem->sturn[i].from, mem->sturn[i].until};
	}
	mem->w.turns = n < 0 ? guess_turns(mem) : (unsigned)n;
	add_periods(mem);
}

static uint64_t host_left(const struct memory *mem)
{
	uint64_t used = 0;

	for (unsigned i = 0; i < mem->w.extents; i++) {
		const struct fm_extent *x = &mem->extent[i];

		used += x->where == FM_ON_HOST || x->where == FM_GOING || x->kept ? x->bytes : 0;
	}
	return fm_sub_sat(mem->d->plan->host, used);
}

/* For what a change of turns costs (linger.c): by how much those that take turns have more memory
 * than there is room for. One that pauses takes them, too. */
static void set_handover(struct memory *mem)
{
	uint64_t sum = 0;
	unsigned groups = 0;

	for (unsigned i = 0; i < mem->ents; i++)
		mem->ent[i].takes_turns = mem->group[i].running;
	for (unsigned k = 0; k < mem->w.turns; k++)
		mem->ent[mem->turn[k].group].takes_turns = true;
	for (unsigned i = 0; i < mem->ents; i++) {
		const struct ent_memory *em = &mem->ent[i];

		groups += em->takes_turns;
		for (unsigned k = em->first; em->takes_turns && k < em->first + em->n; k++)
			sum = fm_add_sat(sum, mem->extent[k].bytes);
	}
	fm_sched_dev_handover(mem->d->sdev,
		fm_mem_handover_ns(fm_sub_sat(sum, mem->w.capacity), groups, &mem->w.link));
}

static void plan(struct memory *mem)
{
	struct machine *m = mem->d->m;
	int rc;

	mem->w.now = m->now;
	mem->w.capacity = capacity_of(mem);
	set_groups(mem);
	mem->w.host_left = host_left(mem);
	mem->w.link = mem->d->plan->link;
	if (is_early(mem))
		mem->w.link.out = FM_MIN(mem->w.link.out, EARLY_OUT);
	if (mem->d->plan->bridge)
		mem->w.link = fm_mem_link_beside(
			&mem->w.link, memory_bridge_rate(mem), memory_others_copy(mem));
	set_turns(mem);
	set_handover(mem);
	rc = fm_mem_plan(&mem->plan, &mem->w);
	if (rc) {
		m->rc = rc;
		return;
	}
	mem->at_in = mem->at_out = 0;
	for (unsigned i = 0; i < mem->plan.n_drop; i++)
		mem->extent[mem->plan.drop[i]].kept = false;
	if (mem->plan.next != FM_NEVER)
		at(m, &mem->again, FM_MAX(mem->plan.next, m->now + FM_SIM_COMMAND));
}

/* The turn of a group has come, and its memory is not in: it waits for twice the time that the rest
 * takes, or HOLD, and then runs as it is. Only time in its turn counts, that of earlier turns in
 * which it did not get to run, too. */
static void set_deadline(struct memory *mem, struct ent_memory *em)
{
	const struct fm_mem_link *link = &mem->w.link;
	uint64_t alone = FM_MIN(link->in, link->out), each = FM_MIN(link->both / 2, alone);
	uint64_t missing = mem->plan.group[em->number].missing, takes;

	if (!missing || em->deadline != FM_NEVER)
		return;
	takes = fm_add_sat(fm_mem_ns(missing, each), em->n * link->flip);
	takes = FM_MAX(fm_add_sat(takes, takes), HOLD);
	em->waits_from = mem->w.now;
	em->deadline = fm_add_sat(mem->w.now, fm_sub_sat(takes, em->waited));
}

static void set_deadlines(struct memory *mem)
{
	for (unsigned i = 0; i < mem->ents; i++)
		mem->ent[i].chosen = false;
	for (unsigned k = 0; k < mem->w.turns && mem->turn[k].from <= mem->w.now; k++) {
		mem->ent[mem->turn[k].group].chosen = true;
		set_deadline(mem, &mem->ent[mem->turn[k].group]);
	}
	for (unsigned i = 0; i < mem->ents; i++) {
		struct ent_memory *em = &mem->ent[i];

		if (em->chosen || em->deadline == FM_NEVER)
			continue;
		em->waited += mem->w.now - em->waits_from;
		em->deadline = FM_NEVER;
	}
}

/* It begins, or goes on, without all of its memory. */
static bool runs_early(const struct memory *mem, const struct ent_memory *em)
{
	return em->chosen && mem->group[em->number].early &&
	       (mem->group[em->number].running ||
		       fm_mem_starts_early(&mem->plan, &mem->w, em->number));
}

static void hold(struct memory *mem, struct ent_memory *em)
{
	struct machine *m = mem->d->m;
	uint64_t to = em->deadline;
	bool held;
	int rc;

	held = mem->plan.group[em->number].held && to > m->now && !runs_early(mem, em);
	em->held &= em->held_to > m->now;
	if (held == em->held && (!held || to == em->held_to))
		return;
	em->held = held;
	em->held_to = to;
	rc = fm_sched_ready_at(m->s, em->e->sent, held ? to : m->now, m->now);
	m->rc = rc ? rc : m->rc;
}

/* Holding a group changes which group runs, and that changes the plan; with gangs that may go on
 * for ever. */
static bool may_plan(struct memory *mem)
{
	struct machine *m = mem->d->m;

	if (m->now / FM_MS != mem->period) {
		mem->period = m->now / FM_MS;
		mem->plans = 0;
	}
	if (mem->plans++ < PLANS)
		return true;
	at(m, &mem->again, (mem->period + 1) * FM_MS);
	return false;
}

static void step(struct memory *mem)
{
	while (mem->stale && !mem->d->m->rc && may_plan(mem)) {
		mem->stale = false;
		plan(mem);
		if (mem->d->m->rc)
			return;
		set_deadlines(mem);
		for (unsigned i = 0; i < mem->ents; i++)
			if (mem->ent[i].there)
				hold(mem, &mem->ent[i]);
	}
	mem->stale = false;
	memory_moves(mem);
}

/* Does the device stand still because the memory of a group is not in? */
static bool stands(const struct memory *mem)
{
	bool waits = false;

	for (unsigned i = 0; i < mem->ents && !mem->d->on && !waits; i++) {
		const struct ent_memory *em = &mem->ent[i];

		waits = em->there && em->held && has_work(em->e) && !em->e->open;
	}
	return waits;
}

/* Counts the time since the last event, and looks at what the next is to be counted as. */
static void clock_to(struct memory *mem, uint64_t now)
{
	bool copies = mem->in.copies || mem->out.copies, counts = mem->d->m->counts;
	uint64_t ns = now - mem->to;

	mem->to = now;
	mem->copied += copies ? ns : 0;
	mem->moved.exposed += counts && mem->exposed ? ns : 0;
	mem->moved.hidden += counts && copies && mem->works ? ns : 0;
}

static void look_at_waits(struct ent_memory *em, uint64_t now, bool counts)
{
	bool waits = em->there && has_work(em->e) && !em->e->open;

	if (waits == (em->waits_since != FM_NEVER))
		return;
	if (!waits && counts)
		em->moved.longest = FM_MAX(em->moved.longest, now - em->waits_since);
	em->waits_since = waits ? now : FM_NEVER;
}

void memory_step(struct machine *m)
{
	for (uint32_t i = 0; i < m->devices; i++) {
		struct memory *mem = m->device[i].memory;

		if (!mem)
			continue;
		clock_to(mem, m->now);
		if (mem->stale)
			step(mem);
		mem->works = mem->d->on > 0;
		mem->exposed = stands(mem);
		for (unsigned k = 0; k < mem->ents; k++)
			look_at_waits(&mem->ent[k], m->now, m->counts);
	}
}

void memory_event(struct machine *m, struct event *ev)
{
	struct memory *mem;

	switch (ev->kind) {
	case EV_CAME:
		mem = fm_container(ev, struct memory, in.ev);
		clock_to(mem, m->now);
		memory_move_ends(mem, &mem->in);
		break;
	case EV_WENT:
		mem = fm_container(ev, struct memory, out.ev);
		clock_to(mem, m->now);
		memory_move_ends(mem, &mem->out);
		break;
	default:
		mem = fm_container(ev, struct memory, again);
		mem->stale = true;
		break;
	}
}

void memory_begins(struct ent *e)
{
	clock_to(e->d->memory, e->g->m->now);
	e->memory->copied = e->d->memory->copied;
	e->memory->missed = false;
	e->memory->clock = e->served;
}

/* Bytes of its set that are not on the device. */
static uint64_t missing(const struct memory *mem, const struct ent_memory *em)
{
	uint64_t bytes = 0;

	for (unsigned i = em->first; i < em->first + em->set; i++)
		bytes += mem->extent[i].where == FM_ON_HOST ? mem->extent[i].bytes : 0;
	return bytes;
}

/* A command reads all of the set, or its part of the gap. What is on the host it reads from there.
 */
static uint64_t reads(struct memory *mem, struct ent_memory *em)
{
	uint64_t gap = em->e->g->plan->gap, bytes = missing(mem, em);

	if (gap > em->e->left)
		bytes = (uint64_t)((unsigned __int128)bytes * em->e->left / gap);
	em->moved.missed += em->e->g->m->counts ? bytes : 0;
	return fm_mem_ns(bytes, mem->w.link.in);
}

/* Is the extent used by the command? Each has its time in the gap. */
static bool is_used(const struct ent_memory *em, unsigned i)
{
	uint64_t gap = em->e->g->plan->gap, phase;

	if (gap <= em->e->left)
		return true;
	phase = (uint64_t)((unsigned __int128)gap * i / em->set);
	return (phase + gap - em->clock % gap) % gap < em->e->left;
}

/* Early start: what the command uses comes in first, one behind the other, and it waits for that.
 * What finds no room it reads from the host. */
static uint64_t brings_in(struct memory *mem, struct ent_memory *em)
{
	bool counts = em->e->g->m->counts;
	uint64_t ns = 0;

	for (unsigned i = 0; i < em->set; i++) {
		struct fm_extent *x = &mem->extent[em->first + i];

		if (x->where != FM_ON_HOST || !is_used(em, i))
			continue;
		ns = fm_add_sat(ns, fm_mem_ns(x->bytes, mem->w.link.in));
		if (x->bytes > fm_sub_sat(mem->w.capacity, memory_sum(mem, true))) {
			em->moved.missed += counts ? x->bytes : 0;
			continue;
		}
		ns = fm_add_sat(ns, mem->w.link.flip);
		x->where = FM_ON_DEVICE;
		x->kept = false;
		em->moved.in += counts ? x->bytes : 0;
		mem->moved.in += counts ? x->bytes : 0;
		mem->moved.residue += counts ? x->bytes : 0;
		mem->moved.peak = FM_MAX(mem->moved.peak, memory_sum(mem, true));
		memory_stale(mem->d);
	}
	return ns;
}

uint64_t memory_slows(struct ent *e)
{
	struct memory *mem = e->d->memory;
	struct ent_memory *em = e->memory;
	uint64_t copied;

	clock_to(mem, e->g->m->now);
	copied = mem->copied - em->copied;
	em->copied = mem->copied;
	copied = (uint64_t)((unsigned __int128)copied * e->d->plan->copy_cost / 100);
	if (!em->missed)
		copied = fm_add_sat(copied, is_early(mem) ? brings_in(mem, em) : reads(mem, em));
	em->missed = true;
	return copied;
}

static uint64_t held_by_core(struct ent *e)
{
	struct fm_account a;

	fm_sched_ent_account(e->sent, e->g->m->now, &a);
	return a.wait_ns[FM_WAIT_RESOURCE];
}

void memory_count(struct machine *m)
{
	for (uint32_t i = 0; i < m->ents; i++)
		if (m->ent[i].memory && m->ent[i].g->sgroup)
			m->ent[i].memory->held_before = held_by_core(&m->ent[i]);
}

void memory_count_ent(const struct ent *e)
{
	struct fm_sim_moved *r = &e->g->result->moved, *own = &e->memory->moved;
	uint64_t since = e->memory->waits_since, now = e->g->m->now;

	if (since != FM_NEVER)
		own->longest = FM_MAX(own->longest, now - since);
	r->in += own->in;
	r->out += own->out;
	r->kept += own->kept;
	r->missed += own->missed;
	r->held += held_by_core((struct ent *)e) - e->memory->held_before;
	r->longest = FM_MAX(r->longest, own->longest);
	*own = (struct fm_sim_moved){0};
	e->memory->held_before = 0;
}

void memory_count_end(struct machine *m)
{
	for (uint32_t i = 0; i < m->devices; i++) {
		struct memory *mem = m->device[i].memory;
		struct fm_sim_device_moved *r = &m->device[i].result->moved;

		if (!mem)
			continue;
		clock_to(mem, m->now);
		r->in += mem->moved.in;
		r->out += mem->moved.out;
		r->kept += mem->moved.kept;
		r->exposed += mem->moved.exposed;
		r->hidden += mem->moved.hidden;
		r->residue += mem->moved.residue;
		r->peak = FM_MAX(r->peak, mem->moved.peak);
	}
}
