/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan. Each extent belongs to the turn in which it is used next, so the sums of turns say all
 * about time and room; only the few extents that move now are looked at one by one (pick.c).
 *
 * For each turn in order: what is missing takes the room that is free, and then that of extents
 * whose next use is in later turns, the latest first. What gets no room that way is the residue: it
 * waits for the group that runs. Then, from the last turn backwards, the latest time at which the
 * moves for a turn have to begin.
 */
#include "internal.h"
#include <errno.h>

uint64_t fm_mem_ns(uint64_t bytes, uint64_t rate)
{
	unsigned __int128 ns;

	if (!bytes || !rate)
		return bytes ? FM_NEVER : 0;
	ns = ((unsigned __int128)bytes * FM_S + rate - 1) / rate;
	return ns < FM_NEVER ? (uint64_t)ns : FM_NEVER;
}

static int check(const struct fm_mem_world *w)
{
	unsigned first = 0;

	for (unsigned i = 0; i < w->groups; i++) {
		if (w->group[i].first != first || w->group[i].n > w->extents - first)
			return -EINVAL;
		first += w->group[i].n;
	}
	if (first != w->extents)
		return -EINVAL;
	for (unsigned k = 0; k < w->turns; k++) {
		const struct fm_mem_turn *t = &w->turn[k];

		if (t->group >= w->groups || t->until < t->from ||
			(k && t->from < w->turn[k - 1].from))
			return -EINVAL;
	}
	return 0;
}

/* Lists the turns of each group, with the group's device time at the end of each. A first turn that
 * is cut short counts as a usual one: nobody knows that it will be. */
static void index_turns(struct fm_mem_scratch *s)
{
	const struct fm_mem_world *w = s->w;
	unsigned lo = 0;

	for (unsigned i = 0; i < w->groups; i++)
		s->member[i] = (struct member){0};
	for (unsigned k = 0; k < w->turns; k++)
		s->member[w->turn[k].group].hi++;
	for (unsigned i = 0; i < w->groups; i++) {
		unsigned n = s->member[i].hi;

		s->member[i].lo = s->member[i].hi = lo;
		lo += n;
	}
	for (unsigned k = 0; k < w->turns; k++) {
		const struct fm_mem_turn *t = &w->turn[k];
		struct member *m = &s->member[t->group];
		uint64_t had = m->hi > m->lo ? s->until[m->hi - 1] : 0;
		uint64_t ns = fm_sub_sat(t->until, FM_MAX(t->from, w->now));

		if (m->hi == m->lo && !w->group[t->group].running)
			ns = FM_MAX(ns, w->group[t->group].turn);
		s->order[m->hi] = k;
		s->until[m->hi++] = t->until == FM_NEVER ? FM_NEVER : fm_add_sat(had, ns);
	}
}

unsigned fm_mem_slot(const struct fm_mem_scratch *s, unsigned group, const struct fm_extent *e)
{
	const struct fm_mem_world *w = s->w;
	const struct member *m = &s->member[group];
	uint64_t next = w->policy->victims == FM_VICTIMS_ALL ? 0 : e->next;
	unsigned lo = m->lo, hi = m->hi;

	if (lo == hi)
		return w->turns + (next < FM_MAX(w->group[group].turn, UINT64_C(1)) ? 1 : 2);
	if (next < s->until[lo] || !next)
		return s->order[lo];
	if (next >= s->until[hi - 1])
		return w->turns + 2;
	while (hi - lo > 1) {
		unsigned mid = lo + (hi - lo) / 2;

		if (next < s->until[mid - 1])
			hi = mid;
		else
			lo = mid;
	}
	return s->order[lo];
}

static enum class class_of(const struct fm_extent *e) {
	static const uint8_t of[FM_WHERES] = {[FM_ON_DEVICE] = DIRTY,
		[FM_ON_HOST] = HOST,
		[FM_EMPTY] = EMPTY,
		[FM_COMING] = COMING,
		[FM_GOING] = GOING};

	if (e->where == FM_ON_DEVICE) return e->pinned ? PINNED
	: e->kept                                      ? CLEAN
						       : DIRTY;
	return (enum class)of[e->where];
}

/* Adds up one group's extents by turn. */
static int survey(struct fm_mem_scratch *s, unsigned group, uint64_t *total)
{
	const struct fm_mem_world *w = s->w;
	const struct fm_mem_group *g = &w->group[group];
	struct member *m = &s->member[group];

	memset(&s->span[w->turns + 1], 0, 2 * sizeof(*s->span));
	for (unsigned i = g->first; i < g->first + g->n; i++) {
		const struct fm_extent *e = &w->extent[i];
		struct span *to;
		enum class class;

		if (e->where >= FM_WHERES || e->client >= w->clients ||
			__builtin_add_overflow(*total, e->bytes, total))
			return -EINVAL;
		class = class_of(e);
		to = &s->span[fm_mem_slot(s, group, e)];
		to->bytes[class] += e->bytes;
		if (class == HOST)
			to->least = to->missing++ ? FM_MIN(to->least, e->bytes) : e->bytes;
		if (!fm_mem_is_on_device(e))
			continue;
		m->resident += e->bytes;
		m->guarded += class == PINNED ? e->bytes : 0;
		s->going += class == GOING ? e->bytes : 0;
		s->resident[e->client] += e->bytes;
	}
	return 0;
}

static uint64_t set_of(const struct span *n)
{
	uint64_t sum = 0;

	for (unsigned c = 0; c < EMPTY; c++)
		sum += n->bytes[c];
	return sum;
}

static uint64_t missing_of(const struct span *n)
{
	return n->bytes[HOST] + n->bytes[COMING] + n->bytes[GOING];
}

/* What a request keeps on the device is what is used first. Returns what it still keeps. */
static uint64_t keep(struct span *n, uint64_t request)
{
	uint64_t dirty = FM_MIN(n->bytes[DIRTY], request);
	uint64_t clean = FM_MIN(n->bytes[CLEAN], request - dirty);

	n->bytes[DIRTY] -= dirty;
	n->bytes[CLEAN] -= clean;
	return request - dirty - clean;
}

/* The span that a group's next turn needs. */
static struct span *first_span(const struct fm_mem_scratch *s, unsigned group)
{
	const struct member *m = &s->member[group];

	return &s->span[m->lo < m->hi ? s->order[m->lo] : s->w->turns + 1];
}

/* What of the group may go out, and what it uses in its next turn. */
static void settle(struct fm_mem_plan *p, unsigned group)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_group *g = &s->w->group[group];
	struct member *m = &s->member[group];
	struct span *cold = &s->span[s->w->turns + 2], *idle = cold - 1, *all = cold - 2;
	uint64_t request = g->running ? UINT64_MAX : fm_sub_sat(g->request, m->guarded);

	p->group[group] = (struct fm_mem_state){.set = set_of(first_span(s, group)),
		.missing = missing_of(first_span(s, group)),
		.ready_at = s->w->now};
	m->out = first_span(s, group)->bytes[HOST];
	m->least = first_span(s, group)->least;
	m->spare = g->running ? 0 : fm_sub_sat(m->resident, FM_MAX(g->request, m->guarded));
	m->guarded = FM_MAX(m->guarded, FM_MIN(g->request, m->resident));
	for (unsigned i = m->lo; i < m->hi; i++)
		request = keep(&s->span[s->order[i]], request);
	request = keep(idle, request);
	keep(cold, request);
	all->bytes[DIRTY] += cold->bytes[DIRTY] + idle->bytes[DIRTY];
	all->bytes[CLEAN] += cold->bytes[CLEAN] + idle->bytes[CLEAN];
	s->occupied += m->resident;
	s->guarded += m->guarded;
	s->running += g->running;
}

static int survey_all(struct fm_mem_plan *p)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	uint64_t total = 0;

	s->occupied = s->going = s->guarded = s->running = 0;
	memset(s->span, 0, (w->turns + 3) * sizeof(*s->span));
	memset(s->resident, 0, w->clients * sizeof(*s->resident));
	for (unsigned i = 0; i < w->groups; i++) {
		if (survey(s, i, &total))
			return -EINVAL;
		settle(p, i);
	}
	return 0;
}

/* What a group cannot have whatever goes out is not waited for. */
static void set_remote(struct fm_mem_plan *p)
{
	struct fm_mem_scratch *s = p->scratch;

	for (unsigned i = 0; i < s->w->groups; i++) {
		struct fm_mem_state *g = &p->group[i];
		uint64_t others = s->guarded - s->member[i].guarded;
		uint64_t room = fm_sub_sat(s->w->capacity, others), out = s->member[i].out;

		g->remote = FM_MIN(fm_sub_sat(g->set, room), g->missing);
		if (g->remote && out - FM_MIN(out, g->remote) < s->member[i].least)
			g->remote = FM_MAX(g->remote, out); /* what is left is no extent */
		if (!s->w->policy->moves)
			g->remote = g->missing;
		g->missing -= g->remote;
		if (s->w->policy->victims == FM_VICTIMS_ALL)
			g->missing += fm_sub_sat(s->occupied - s->member[i].resident, others);
	}
}

/* Takes up to `need' bytes of the span's. */
static void take(struct span *n, uint64_t *need, uint64_t *clean, uint64_t *dirty)
{
	uint64_t c = FM_MIN(n->bytes[CLEAN], *need), d = FM_MIN(n->bytes[DIRTY], *need - c);

	n->bytes[CLEAN] -= c;
	n->bytes[DIRTY] -= d;
	*clean += c;
	*dirty += d;
	*need -= c + d;
}

static uint64_t copy_time(const struct fm_mem_world *w, uint64_t clean, uint64_t dirty, uint64_t n)
{
	uint64_t slow = FM_MIN(w->link.in, w->link.out), each = FM_MIN(w->link.both / 2, slow);
	unsigned __int128 flips = (unsigned __int128)w->link.flip * n;
	uint64_t ns = fm_add_sat(fm_mem_ns(clean, w->link.in), fm_mem_ns(dirty, each));

	return fm_add_sat(ns, flips < FM_NEVER ? (uint64_t)flips : FM_NEVER);
}

/* Under policies that take no heed of turns, all others' extents are one pool. */
static void pool_all(struct fm_mem_scratch *s, unsigned group)
{
	struct span *all = &s->span[s->w->turns];

	for (unsigned k = 0; k < s->w->turns; k++) {
		struct span *n = &s->span[k];

		if (s->w->turn[k].group == group)
			continue;
		all->bytes[CLEAN] += n->bytes[CLEAN];
		all->bytes[DIRTY] += n->bytes[DIRTY];
		n->bytes[CLEAN] = n->bytes[DIRTY] = 0;
	}
}

/* Room from the latest span down to that of number `least'. A group that loses memory to the turn
 * that has come does not run meanwhile (`hold'). Returns what could not be found. */
static uint64_t find_room(struct fm_mem_plan *p, unsigned least, uint64_t need, bool hold,
	uint64_t *clean, uint64_t *dirty)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;

	for (; need && s->pool > least; s->pool--) {
		unsigned k = s->pool - 1;
		uint64_t before = need;

		take(&s->span[k], &need, clean, dirty);
		if (hold && before != need && k < w->turns)
			p->group[w->turn[k].group].held = true;
		if (!need)
			break;
	}
	return need;
}

/* Finds room for what is missing in turn k. */
static void assign(struct fm_mem_plan *p, unsigned k, bool hold)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	unsigned group = w->turn[k].group;
	struct span *n = &s->span[k];
	uint64_t all = n->bytes[HOST] + n->bytes[GOING], need, clean, dirty = 0;

	all -= FM_MIN(all, p->group[group].remote);
	clean = FM_MIN(s->room, all);
	s->room -= clean;
	need = find_room(p, fm_mem_later(w, k), all - clean, hold, &clean, &dirty);
	n->assigned = all - need;
	n->residue = need;
	n->planned = true;
	n->takes = fm_add_sat(copy_time(w, clean, dirty, n->missing), w->group[group].settles);
}

/* The latest times at which moves begin, from the last turn that was planned backwards. */
static void set_starts(struct fm_mem_scratch *s, unsigned planned)
{
	uint64_t before = FM_NEVER;

	for (unsigned k = planned; k--;) {
		struct span *n = &s->span[k];
		uint64_t from = FM_MAX(s->w->turn[k].from, s->w->now);

		if (!n->assigned) {
			n->start = FM_NEVER;
			continue;
		}
		n->start = fm_sub_sat(FM_MIN(from, before), n->takes);
		before = n->start;
	}
}

/* When each turn's memory is in, if all goes as planned. */
static void set_ready(struct fm_mem_plan *p, unsigned planned)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	uint64_t free_at = w->now;

	for (unsigned k = 0; k < planned; k++) {
		unsigned group = w->turn[k].group;
		struct fm_mem_state *g = &p->group[group];
		struct span *n = &s->span[k];
		uint64_t from = FM_MAX(w->turn[k].from, w->now), ready;

		if (!n->planned || !g->missing)
			continue;
		if (n->assigned && n->start > fm_add_sat(free_at, w->slack))
			free_at = n->start;
		ready = fm_add_sat(free_at, fm_mem_ns(n->bytes[COMING], w->link.in));
		ready = fm_add_sat(ready, n->takes);
		free_at = ready;
		if (n->residue)
			ready = fm_add_sat(FM_MAX(ready, from), copy_time(w, 0, n->residue, 0));
		g->ready_at = ready;
		if (!p->late && !p->residue) {
			p->residue = n->residue;
			p->late = fm_sub_sat(ready, from);
		}
	}
}

/* The first turn that begins after turn k, which may have begun. */
unsigned fm_mem_later(const struct fm_mem_world *w, unsigned k)
{
	uint64_t from = FM_MAX(w->turn[k].from, w->now);

	do
		k++;
	while (k < w->turns && w->turn[k].from <= from);
	return k;
}

/* Do several groups have their turn at once? Then what they lack of the device they lack: none of
 * them is to wait until another has lost its memory. */
static bool is_shared(const struct fm_mem_world *w)
{
	for (unsigned k = 1; k < w->turns && w->turn[k].from <= w->now; k++)
		if (w->turn[k].group != w->turn[0].group)
			return true;
	return false;
}

static void share(struct fm_mem_plan *p)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;

	for (unsigned k = 0; k < w->turns && w->turn[k].from <= w->now; k++) {
		struct fm_mem_state *g = &p->group[w->turn[k].group];
		struct span *n = &s->span[k];
		uint64_t lacks = FM_MIN(n->planned ? n->residue : g->missing, g->missing);

		if (first_span(s, w->turn[k].group) != n)
			continue;
		g->remote += lacks;
		g->missing -= lacks;
		if (!g->missing)
			g->ready_at = w->now;
	}
}

/* The turn that has come, if memory is missing for it; or turns. */
static unsigned waiting_turn(const struct fm_mem_plan *p)
{
	const struct fm_mem_world *w = p->scratch->w;

	for (unsigned k = 0; k < w->turns && w->turn[k].from <= w->now && !is_shared(w); k++)
		if (!w->group[w->turn[k].group].running && p->group[w->turn[k].group].missing)
			return k;
	return w->turns;
}

static void hold_others(struct fm_mem_plan *p, unsigned group, bool running)
{
	const struct fm_mem_world *w = p->scratch->w;

	for (unsigned i = 0; i < w->groups; i++)
		if (i != group && (!running || w->group[i].running))
			p->group[i].held = true;
}

/* Ahead of time, the next turn of one group after the other, until one does not find all of its
 * room. A group's later turns wait until it has had that one. */
static unsigned assign_ahead(struct fm_mem_plan *p, unsigned waiting)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	unsigned k = 0;

	for (; k < w->turns; k++) {
		unsigned group = w->turn[k].group;

		if ((w->group[group].running && !w->group[group].early) ||
			first_span(s, group) != &s->span[k])
			continue;
		assign(p, k, k == waiting);
		if (s->span[k].residue)
			break;
	}
	if (waiting < w->turns && !w->overtime)
		hold_others(p, w->turn[waiting].group, false);
	return FM_MIN(k + 1, w->turns);
}

/* At the switch: only for the turn that has come, and only when nobody runs. */
static unsigned assign_now(struct fm_mem_plan *p, unsigned waiting)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;

	if (waiting == w->turns)
		return 0;
	hold_others(p, w->turn[waiting].group, false);
	if (s->running)
		return 0;
	if (w->policy->victims != FM_VICTIMS_NEXT)
		pool_all(s, w->turn[waiting].group);
	assign(p, waiting, true);
	return waiting + 1;
}

/* What is being moved in counts: room that is made before the link is free holds nothing. While a
 * turn that has come waits, it has the link for itself: for later turns room is made, and no more.
 */
static void pick_due(struct fm_mem_plan *p, unsigned planned, unsigned waiting)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	uint64_t left = w->window ? w->window : UINT64_MAX;

	fm_mem_pick_begin(p);
	for (unsigned k = 0; k < planned; k++) {
		const struct span *n = &s->span[k];
		unsigned group = w->turn[k].group, ins = p->n_in;
		bool all = n->planned && w->policy->victims == FM_VICTIMS_ALL;
		uint64_t due = fm_sub_sat(n->start, w->slack);

		if (w->window && !all && first_span(s, group) == n)
			left = fm_sub_sat(left, n->bytes[COMING]);
		if (!all && !n->assigned)
			continue;
		if (due > w->now && !all && !w->group[group].begun) {
			p->next = FM_MIN(p->next, due);
			return;
		}
		if (left)
			fm_mem_pick(p, k, &left);
		if (k > waiting)
			p->n_in = ins;
	}
}

/* A group moves at rest, and stays there until the move has ended. */
static void hold_movers(struct fm_mem_plan *p)
{
	const struct fm_mem_world *w = p->scratch->w;

	for (unsigned i = 0; i < w->groups; i++) {
		const struct fm_mem_group *g = &w->group[i];
		struct fm_mem_state *state = &p->group[i];

		if (g->running)
			continue;
		state->held |= state->missing > 0;
		for (unsigned x = g->first; x < g->first + g->n && !state->held; x++)
			state->held =
				w->extent[x].where == FM_COMING || w->extent[x].where == FM_GOING;
	}
}

/* A client that loses memory is told so before it has lost it; one that gets some is told when
 * there is room. So the grants never exceed the device, nor does what they have. */
static void set_grants(struct fm_mem_plan *p)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	uint64_t room = fm_sub_sat(w->capacity, s->occupied);

	memcpy(p->grant, s->resident, w->clients * sizeof(*p->grant));
	for (unsigned i = 0; i < p->n_out; i++)
		p->grant[w->extent[p->out[i]].client] -= w->extent[p->out[i]].bytes;
	for (unsigned i = 0; i < p->n_in; i++) {
		const struct fm_extent *e = &w->extent[p->in[i]];

		if (e->bytes > room)
			break;
		room -= e->bytes;
		p->grant[e->client] += e->bytes;
	}
}

static void decide(struct fm_mem_plan *p)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	unsigned waiting = waiting_turn(p), planned;
	uint64_t stays = s->occupied - s->going, clean = 0, dirty = 0;

	s->pool = w->turns + 1;
	s->room = fm_sub_sat(w->capacity, stays);
	find_room(p, w->turns > 0, fm_sub_sat(stays, w->capacity), false, &clean, &dirty);
	for (unsigned i = 0; i < w->groups; i++)
		if (p->group[i].missing)
			p->group[i].ready_at = FM_NEVER;
	planned = w->policy->ahead ? assign_ahead(p, waiting) : assign_now(p, waiting);
	if (is_shared(w))
		share(p);
	set_starts(s, planned);
	set_ready(p, planned);
	pick_due(p, planned, waiting);
	/* Nothing more comes in beside the group that runs. */
	if (waiting < w->turns && w->policy->ahead && !p->n_in && !s->span[waiting].bytes[COMING])
		hold_others(p, w->turn[waiting].group, true);
	hold_movers(p);
}

int fm_mem_plan(struct fm_mem_plan *p, const struct fm_mem_world *w)
{
	struct fm_mem_scratch *s;
	int rc = check(w);

	rc = rc ? rc : fm_mem_grow(p, w);
	if (rc)
		return rc;
	s = p->scratch;
	s->w = w;
	p->in = s->list;
	p->out = s->list + w->extents;
	p->drop = s->list + 2 * (size_t)w->extents;
	p->n_in = p->n_out = p->n_drop = 0;
	p->next = FM_NEVER;
	p->residue = p->late = 0;
	index_turns(s);
	rc = survey_all(p);
	if (rc)
		return rc;
	set_remote(p);
	if (w->policy->moves)
		decide(p);
	set_grants(p);
	return 0;
}

bool fm_mem_starts_early(const struct fm_mem_plan *p, const struct fm_mem_world *w, unsigned group)
{
	const struct fm_mem_state *s = &p->group[group];

	return w->group[group].early && w->policy->ahead && s->missing &&
	       s->ready_at > fm_add_sat(w->now, w->slack);
}
