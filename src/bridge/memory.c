/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of clients, as their ledgers say it, and the limits of groups and users. The bridge
 * hands out what each client may claim; a client that needs more asks (board/ledger.h).
 *
 * What a ledger says is a claim of its client. It is read once and bounded, and it can harm only
 * the clients of the same user. Limits of cgroups are shared by several users: for others than its
 * user's, a client has there at most what the bridge has allowed it.
 *
 * The file is long because a claim is read, bounded, summed up and answered in one go: parts of it
 * elsewhere would read words of a ledger twice.
 */
#include "demand.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_LIMIT UINT64_MAX

static uint64_t read_claim(const struct memory *m, struct memory_row *r)
{
	r->claimed = demand_most(CLAIM(m->ledger->device[r - m->row].claimed));
	return r->claimed;
}

/* False: it is less than it was. */
static bool never_falling(uint64_t *is, uint64_t said)
{
	bool fell = said < *is;

	*is = FM_MAX(*is, said);
	return !fell;
}

/* --- what shares a limit --- */

/* The group of the client's memory. Every client has one, from attach on. */
static struct fm_bridge_group *own_group(const struct memory *m)
{
	return m->client->first.group;
}

/* The client's next row of that device, or NULL. Honest clients have one. */
static struct memory_row *row_next(struct memory *m, const struct bdevice *d, struct memory_row *r)
{
	for (r = r ? r + 1 : m->row; r < m->row + FM_LEDGER_DEVICES; r++)
		if (r->dev == d)
			return r;
	return NULL;
}

#define each_row(m, d, r) \
	for (struct memory_row *r = row_next(m, d, NULL); r; r = row_next(m, d, r))

uint64_t memory_user_limit(const struct fm_bridge *b, const struct fm_bridge_client *c)
{
	const struct fm_bridge_limits *l = client_limits(b, c);

	return l && l->memory ? l->memory : NO_LIMIT;
}

static bool is_managed(const struct fm_bridge_group *g)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (demand_memory(m) && demand_memory(m)->managed)
			return true;
	return false;
}

uint64_t memory_capacity_of(const struct fm_bridge_group *g, const struct bdevice *d)
{
	uint64_t set = g->bridge->memory.device, most = 0;
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (demand_memory(m))
			each_row (demand_memory(m), d, r)
				most = FM_MAX(most, r->capacity);
	return set ? FM_MIN(most, set) : most;
}

uint64_t memory_capacity(struct fm_bridge *b, const struct bdevice *d)
{
	struct fm_bridge_group *g;
	uint64_t most = 0;

	fm_list_each (g, &b->groups, link)
		most = FM_MAX(most, memory_capacity_of(g, d));
	return most;
}

/* A group whose memory may be moved could have more than the device: only if that is asked for. The
 * others have what the driver gives them, unless the device counts as having less. */
static uint64_t group_limit(const struct fm_bridge_group *g, const struct bdevice *d)
{
	int64_t hint = demand_hint(g, FM_HINT_MEMORY_LIMIT);

	if (hint > 0)
		return (uint64_t)hint;
	return is_managed(g) || g->bridge->memory.device ? memory_capacity_of(g, d) : NO_LIMIT;
}

/* --- what is left --- */

/* The rows that share a limit with one: their claims, what they may claim without asking, and how
 * many they are. */
struct pool {
	uint64_t limit, claimed, reserved;
	unsigned rows;
};

static void pool_add(struct pool *p, struct memory *m, struct memory_row *r, bool believed)
{
	uint64_t claimed = read_claim(m, r);

	if (!believed)
		claimed = FM_MIN(claimed, r->mark);
	p->rows++;
	p->claimed = fm_add_sat(p->claimed, claimed);
	p->reserved = fm_add_sat(p->reserved,
		r->allowed == NO_LIMIT ? claimed : FM_MAX(claimed, demand_most(r->allowed)));
}

/* Takes from the row what it may claim and has not claimed, but for what it was granted just now.
 * If its claim is found above, that is taken back, or was in time: it counts. */
static void take_slack(struct memory *m, struct memory_row *r)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint64_t keeps = read_claim(m, r);

	if (!fm_ledger_settled(row, r->request))
		keeps = FM_MAX(keeps, r->granted);
	if (r->allowed <= keeps)
		return;
	r->allowed = keeps;
	r->claimed = demand_most(fm_ledger_lower(row, keeps));
	r->mark = FM_MIN(r->mark, FM_MAX(keeps, r->claimed));
}

enum what { SUM, TAKE };

static void row_do(struct pool *p, struct memory *m, struct memory_row *r, enum what what)
{
	if (what == TAKE)
		take_slack(m, r);
	else
		pool_add(p, m, r, true);
}

/* All rows of the group on the row's device, but for the row. */
static void group_do(
	struct pool *p, const struct memory *own, const struct memory_row *but, enum what what)
{
	struct member *m;

	fm_list_each (m, &own_group(own)->members, in_group)
		if (demand_memory(m))
			each_row (demand_memory(m), but->dev, r)
				if (r != but)
					row_do(p, demand_memory(m), r, what);
}

/* The same of the user. */
static void user_do(
	struct pool *p, const struct memory *own, const struct memory_row *but, enum what what)
{
	struct memory *m;

	fm_list_each (m, &own->client->user->memories, in_user)
		each_row (m, but->dev, r)
			if (r != but)
				row_do(p, m, r, what);
}

/* The same of a cgroup, whose clients may be of several users. */
static void cgroup_do(struct pool *p, const struct memory *own, const struct fm_bridge_cgroup *g,
	const struct memory_row *but, enum what what)
{
	struct fm_bridge_client *c;

	fm_list_each (c, &own_group(own)->bridge->clients, link) {
		if (!c->memory || !cgroup_has(g, c->memory))
			continue;
		each_row (c->memory, but->dev, r) {
			if (r != but && what == TAKE)
				take_slack(c->memory, r);
			else if (r != but)
				pool_add(p, c->memory, r, c->user == own->client->user);
		}
	}
}

/* What of a row's claim is not on the device, and will not come in before it is asked for. */
static uint64_t away_of(const struct memory *m, struct memory_row *r)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint64_t movable = FM_MIN(CLAIM(row->kind[FM_MEM_MOVABLE]), read_claim(m, r)), away, mapped;

	if (!m->managed || !own_group(m))
		return 0;
	away = movable - FM_MIN(CLAIM(row->resident), movable);
	mapped = FM_MIN(CLAIM(row->mapped), away);
	if (demand_comes_in(own_group(m)))
		return mapped;
	return demand_is_out(own_group(m)) ? away
					   : mapped + FM_MIN(CLAIM(row->host), away - mapped);
}

/* What a row has on the device, or may have there without asking; and what it was promised. */
static void device_add(struct pool *p, struct memory *m, struct memory_row *r)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	struct pool one = {0};

	pool_add(&one, m, r, true);
	p->reserved = fm_add_sat(p->reserved, fm_sub_sat(one.reserved, away_of(m, r)));
	if (r->promised && CLAIM(row->lacks))
		p->reserved = fm_add_sat(p->reserved, r->promised);
}

/* The same of all rows on a device that counts as having less than it has. Otherwise the driver
 * says when it is full. */
static void device_do(
	struct fm_bridge *b, struct pool *p, const struct memory_row *but, enum what what)
{
	struct fm_bridge_client *c;

	fm_list_each (c, &b->clients, link) {
		if (!c->memory)
			continue;
		each_row (c->memory, but->dev, r) {
			if (r != but && what == TAKE)
				take_slack(c->memory, r);
			else if (r != but)
				device_add(p, c->memory, r);
		}
	}
}

struct pools {
	struct pool group, user, device;
	struct pool cgroup[FM_BRIDGE_CGROUPS];
	unsigned cgroups;
};

static void pools_look_at_cgroups(
	struct pools *p, const struct memory *m, const struct memory_row *r)
{
	p->cgroups = m->cgroups;
	for (unsigned i = 0; i < p->cgroups; i++) {
		p->cgroup[i].limit = cgroup_limit(m->cgroup[i], r);
		if (p->cgroup[i].limit != NO_LIMIT)
			cgroup_do(&p->cgroup[i], m, m->cgroup[i], r, SUM);
	}
}

static void pools_look(
	struct pools *p, struct fm_bridge *b, const struct memory *m, const struct memory_row *r)
{
	*p = (struct pools){.group.limit = group_limit(own_group(m), r->dev),
		.user.limit = memory_user_limit(b, m->client),
		.device.limit = b->memory.device ? memory_capacity(b, r->dev) : NO_LIMIT};
	if (p->group.limit != NO_LIMIT)
		group_do(&p->group, m, r, SUM);
	if (p->user.limit != NO_LIMIT)
		user_do(&p->user, m, r, SUM);
	if (p->device.limit != NO_LIMIT)
		device_do(b, &p->device, r, SUM);
	pools_look_at_cgroups(p, m, r);
}

static void pools_take(struct fm_bridge *b, const struct pools *p, const struct memory *m,
	const struct memory_row *r)
{
	if (p->group.limit != NO_LIMIT)
		group_do(NULL, m, r, TAKE);
	if (p->user.limit != NO_LIMIT)
		user_do(NULL, m, r, TAKE);
	if (p->device.limit != NO_LIMIT)
		device_do(b, NULL, r, TAKE);
	for (unsigned i = 0; i < p->cgroups; i++)
		if (p->cgroup[i].limit != NO_LIMIT)
			cgroup_do(NULL, m, m->cgroup[i], r, TAKE);
}

/* What one row may have in all, by what the others have, or by what they may have. */
static uint64_t room(const struct pool *p, bool reserved)
{
	if (p->limit == NO_LIMIT)
		return NO_LIMIT;
	return fm_sub_sat(p->limit, reserved ? p->reserved : p->claimed);
}

static uint64_t room_in(const struct pools *p, bool reserved)
{
	uint64_t left = FM_MIN(room(&p->group, reserved), room(&p->user, reserved));

	for (unsigned i = 0; i < p->cgroups; i++)
		left = FM_MIN(left, room(&p->cgroup[i], reserved));
	return left;
}

/* --- an answer --- */

/* A row without others to share with has all the room. Otherwise it has a part of what is left, so
 * that it need not ask each time; and others take that back when they need it. */
static uint64_t grant(const struct pools *p, uint64_t wanted, uint64_t most)
{
	unsigned others = FM_MAX(p->group.rows, p->user.rows);

	for (unsigned i = 0; i < p->cgroups; i++)
		others = FM_MAX(others, p->cgroup[i].rows);
	return others ? wanted + (most - wanted) / (2 * (others + 1)) : most;
}

/* What the device leaves it. A group that may have more than there is at all, and claims that, is
 * not refused: what does not fit is to be on the host. */
static uint64_t device_room(
	const struct pools *p, const struct memory *m, struct memory_row *r, uint64_t wanted)
{
	uint64_t away = away_of(m, r);

	if (p->group.limit > p->device.limit && fm_sub_sat(wanted, away) > p->device.limit)
		return NO_LIMIT;
	return fm_add_sat(room(&p->device, true), away);
}

static uint64_t decide(struct fm_bridge *b, struct pools *p, struct memory *m, struct memory_row *r,
	uint64_t wanted)
{
	uint64_t most, device;

	for (unsigned again = 0;; again++) {
		pools_look(p, b, m, r);
		device = device_room(p, m, r, wanted);
		most = FM_MIN(room_in(p, true), device);
		if (wanted <= most || again)
			break;
		pools_take(b, p, m, r);
	}
	if (most == NO_LIMIT)
		return NO_LIMIT;
	/* Of a device that all share nobody has anything that it has not asked for. */
	if (wanted <= most)
		return p->device.limit == NO_LIMIT ? grant(p, wanted, most) : wanted;
	/* Where too much is claimed already, each claim is to be asked for. */
	return read_claim(m, r) > most ? 0 : FM_MIN(r->allowed, most);
}

/* For the program: its limit is the lesser of both, and others have what makes the rest right. */
static void tell_limit(const struct pools *p, struct fm_ledger_device *row)
{
	uint64_t limit = FM_MIN(p->group.limit, p->user.limit);
	bool none;

	for (unsigned i = 0; i < p->cgroups; i++)
		limit = FM_MIN(limit, p->cgroup[i].limit);
	none = limit == NO_LIMIT;
	atomic_store_explicit(&row->limit, none ? 0 : limit, memory_order_relaxed);
	atomic_store_explicit(&row->others, none ? 0 : fm_sub_sat(limit, room_in(p, false)),
		memory_order_relaxed);
}

/* Is it the device alone that has no room for so much? */
static bool is_full(
	const struct pools *p, const struct memory *m, struct memory_row *r, uint64_t wanted)
{
	return p->device.limit != NO_LIMIT && wanted <= room_in(p, true) &&
	       wanted > fm_add_sat(room(&p->device, true), away_of(m, r));
}

/* No cgroup of it limits any device. One that limits another than the row says it is does not
 * bind the row, but the row says that itself. */
static bool in_no_limit(const struct memory *m)
{
	for (unsigned i = 0; i < m->cgroups; i++)
		if (m->cgroup[i]->memory != NO_LIMIT || m->cgroup[i]->n)
			return false;
	return true;
}

/* So much of its claim counts for other users. What it has claimed from no daemon, or from an
 * earlier one, counts as far as it would have been allowed. */
static void mark(const struct pools *p, struct memory *m, struct memory_row *r)
{
	r->free = r->allowed == NO_LIMIT && in_no_limit(m);
	if (room_in(p, true) != NO_LIMIT)
		r->mark = FM_MAX(r->mark, FM_MIN(read_claim(m, r), room_in(p, true)));
	if (r->allowed != NO_LIMIT)
		r->mark = FM_MAX(r->mark, demand_most(r->allowed));
}

static void answer(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	struct pools p;
	uint64_t wanted;
	uint32_t number = fm_ledger_asked(row, &wanted);

	if (number == CLAIM(row->answered))
		return;
	read_claim(m, r);
	wanted = demand_most(wanted);
	r->allowed = decide(b, &p, m, r, wanted);
	r->request = number;
	r->granted = wanted <= r->allowed ? wanted : 0;
	mark(&p, m, r);
	tell_limit(&p, row);
	atomic_store_explicit(&row->full, is_full(&p, m, r, wanted), memory_order_relaxed);
	fm_ledger_answer(row, number, r->allowed);
}

/* --- rows --- */

/* Texts are copied before they are looked at: the client may write to them at any time. */
static bool read_text(const volatile char *from, char *to, unsigned most)
{
	unsigned n = 0;

	for (; n < most; n++) {
		to[n] = from[n];
		if (!to[n])
			return n > 0;
		if (to[n] < ' ' || to[n] > '~')
			return false;
	}
	return false;
}

/* A limit by the bus that does not hold, because a client names another one, is as if the client
 * did not say what it allocates. */
static bool read_bus(struct memory_row *r, const struct fm_ledger_device *row)
{
	if (!read_text(row->bus, r->bus, FM_BUS_MAX) || !fm_mem_is_bus(r->bus))
		memset(r->bus, 0, sizeof(r->bus));
	return *r->bus;
}

/* The first that says where the device is counts. */
static void take_link(const struct memory_row *r)
{
	if (r->dev && !*r->dev->upstream)
		memcpy(r->dev->upstream, r->place.link, sizeof(r->dev->upstream));
}

/* A row whose device cannot be known is not counted, and not limited. */
static void look_at_row(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint64_t capacity = demand_most(CLAIM(row->capacity));
	char key[FM_DEVKEY_MAX];

	if (capacity && !*r->bus && read_bus(r, row)) {
		memory_reset(m); /* limits by the bus hold from now on */
		if (b->host.place)
			b->host.place(r->bus, &r->place);
		take_link(r);
	}
	if (r->seen || !capacity)
		return;
	r->seen = true;
	r->capacity = capacity;
	if (!read_text(row->key, key, FM_DEVKEY_MAX) ||
		device_get(b, &r->dev, m->client->user, key, NULL))
		r->dev = NULL;
	take_link(r);
}

static void answer_unlimited(struct fm_ledger_device *row)
{
	uint64_t wanted;
	uint32_t number = fm_ledger_asked(row, &wanted);

	if (number != CLAIM(row->answered))
		fm_ledger_answer(row, number, NO_LIMIT);
}

void memory_bell(struct fm_bridge *b, struct fm_bridge_client *c)
{
	struct memory *m = c->memory;

	for (unsigned i = 0; m && i < FM_LEDGER_DEVICES; i++) {
		struct memory_row *r = &m->row[i];

		look_at_row(b, m, r);
		if (r->dev) {
			answer(b, m, r);
			keeps_answer(b, m, r);
		} else if (r->seen)
			answer_unlimited(&m->ledger->device[i]);
	}
	if (m) {
		hosts_bell(b, m);
		demand_ring(b, c->user, b->now);
	}
}

/* What a client has asked is not answered yet: the names and hints of its groups come first. */
int fm_bridge_ledger(struct fm_bridge *b, struct fm_bridge_client *c, struct fm_ledger *ledger)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->client = c;
	m->ledger = ledger;
	m->managed = ledger->managed;
	m->early = ledger->managed & FM_LEDGER_EARLY;
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		m->row[i].cap = UINT64_MAX;
		m->row[i].place.node = -1;
		atomic_store(&ledger->device[i].cap, UINT64_MAX);
	}
	c->memory = m;
	away_begin(m);
	demand_kick(b);
	fm_list_add_tail(&c->user->memories, &m->in_user);
	memory_reset_group(c->first.group);
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++)
		look_at_row(b, m, &m->row[i]);
	hosts_attach(b, m);
	return 0;
}

/* --- changes --- */

void memory_reset(struct memory *m)
{
	if (own_group(m))
		own_group(m)->bridge->caps_at = 0;
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		struct memory_row *r = &m->row[i];

		r->allowed = r->granted = 0;
		if (!r->dev)
			continue;
		fm_ledger_lower(&m->ledger->device[i], 0);
		/* Where nothing was limited it needed no answer. */
		if (r->free)
			r->mark = FM_MAX(r->mark, FM_MIN(read_claim(m, r), r->capacity));
		r->free = false;
	}
}

void memory_reset_group(struct fm_bridge_group *g)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (demand_memory(m))
			memory_reset(demand_memory(m));
}

void fm_bridge_memory_settings(struct fm_bridge *b, const struct fm_bridge_memory *m)
{
	struct fm_bridge_client *c;

	b->memory = *m;
	fm_list_each (c, &b->clients, link)
		if (c->memory)
			memory_reset(c->memory);
	hosts_settings(b);
}

static struct memory_past *past_get(struct fm_bridge_group *g, struct bdevice *d)
{
	struct memory_past *p;

	fm_list_each (p, &g->memory_past, link)
		if (p->dev == d)
			return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->dev = d;
	fm_list_add_tail(&g->memory_past, &p->link);
	return p;
}

static void read_counters(struct memory *m, struct memory_row *r)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];

	bool ok = CLAIM(row->resident) <= r->capacity;

	ok &= never_falling(&r->refused, CLAIM(row->refused));
	ok &= never_falling(&r->went_out, CLAIM(row->went_out));
	ok &= never_falling(&r->came_in, CLAIM(row->came_in));
	ok &= never_falling(&r->kept, CLAIM(row->kept));
	ok &= never_falling(&r->missed, demand_most(CLAIM(row->missed)));
	ok &= never_falling(&r->exchanged, CLAIM(row->exchanged));
	r->lies |= !ok;
}

/* Nothing is written to its ledger, which may be mapped by a later session already. */
void memory_end(struct fm_bridge_client *c)
{
	struct memory *m = c->memory;

	if (!m)
		return;
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		struct memory_row *r = &m->row[i];
		struct memory_past *p =
			r->dev && c->first.group ? past_get(c->first.group, r->dev) : NULL;

		if (!p)
			continue;
		read_counters(m, r);
		p->refused = fm_add_sat(p->refused, r->refused);
		p->went_out = fm_add_sat(p->went_out, r->went_out);
		p->came_in = fm_add_sat(p->came_in, r->came_in);
		p->kept = fm_add_sat(p->kept, r->kept);
		p->missed = fm_add_sat(p->missed, r->missed);
		p->exchanged = fm_add_sat(p->exchanged, r->exchanged);
	}
	fm_list_del(&m->in_user);
	c->memory = NULL;
	free(m);
}

void memory_forget_group(struct fm_bridge_group *g)
{
	struct memory_past *p, *next;

	planner_forget(g);
	fm_list_each_safe (p, next, &g->memory_past, link)
		free(p);
}

/* --- for people --- */

/* Each kind has at most what the kinds before it leave of the claim; and so have the places of
 * movable memory of its kind. */
static void add_kinds(
	struct fm_bmemory_info *i, const struct fm_ledger_device *row, uint64_t claimed)
{
	uint64_t kind[FM_MEM_KINDS], resident, host, mapped, hot = CLAIM(row->hot);

	for (unsigned k = 0; k < FM_MEM_KINDS; k++) {
		kind[k] = FM_MIN(CLAIM(row->kind[k]), claimed);
		claimed -= kind[k];
		i->kind[k] = fm_add_sat(i->kind[k], kind[k]);
	}
	resident = FM_MIN(CLAIM(row->resident), kind[FM_MEM_MOVABLE]);
	host = FM_MIN(CLAIM(row->host), kind[FM_MEM_MOVABLE] - resident);
	mapped = FM_MIN(CLAIM(row->mapped), kind[FM_MEM_MOVABLE] - resident - host);
	i->mapped = fm_add_sat(i->mapped, mapped);
	i->resident = fm_add_sat(i->resident, resident);
	i->host = fm_add_sat(i->host, host);
	i->hot = fm_add_sat(i->hot, FM_MIN(hot, kind[FM_MEM_MOVABLE]));
	i->hot_unknown |= hot == UINT64_MAX && kind[FM_MEM_MOVABLE];
}

static void add_row(struct fm_bmemory_info *i, struct memory *m, struct memory_row *r)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint32_t trouble = CLAIM(row->trouble);

	read_counters(m, r);
	i->capacity = FM_MAX(i->capacity, r->capacity);
	i->committed = fm_add_sat(i->committed, read_claim(m, r));
	i->peak = fm_add_sat(i->peak, FM_MAX(demand_most(CLAIM(row->peak)), r->claimed));
	add_kinds(i, row, r->claimed);
	if (trouble < FM_MEM_TROUBLES)
		i->trouble = FM_MAX(i->trouble, trouble);
	i->lies |= r->lies;
	i->refused = fm_add_sat(i->refused, r->refused);
	i->went_out = fm_add_sat(i->went_out, r->went_out);
	i->came_in = fm_add_sat(i->came_in, r->came_in);
	i->kept = fm_add_sat(i->kept, r->kept);
	i->missed = fm_add_sat(i->missed, r->missed);
	i->exchanged = fm_add_sat(i->exchanged, r->exchanged);
	i->host_has = fm_add_sat(i->host_has, r->host_has);
	i->host_strayed =
		fm_add_sat(i->host_strayed, FM_MIN(CLAIM(row->host_strayed), r->host_has));
	i->node = FM_MAX(i->node, r->place.node);
	if (!r->missed)
		return;
	i->by_write |= CLAIM(row->missed_how) == FM_MEM_MISS_WRITE;
	i->all_came |= CLAIM(row->missed_cure) == FM_MEM_CURE_ALL;
}

static void add_past(struct fm_bmemory_info *i, const struct memory_past *p)
{
	i->refused = fm_add_sat(i->refused, p->refused);
	i->went_out = fm_add_sat(i->went_out, p->went_out);
	i->came_in = fm_add_sat(i->came_in, p->came_in);
	i->kept = fm_add_sat(i->kept, p->kept);
	i->missed = fm_add_sat(i->missed, p->missed);
	i->exchanged = fm_add_sat(i->exchanged, p->exchanged);
}

/* The least that any of its clients' cgroups may have. */
static uint64_t cgroups_limit(const struct fm_bridge_group *g, const struct bdevice *d)
{
	uint64_t most = NO_LIMIT;
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < demand_memory(m)->cgroups; i++)
			each_row (demand_memory(m), d, r)
				most = FM_MIN(most, cgroup_limit(demand_memory(m)->cgroup[i], r));
	return most;
}

void fm_bridge_group_each_memory(struct fm_bridge_group *g,
	void (*fn)(void *arg, const struct fm_bmemory_info *info), void *arg)
{
	struct memory_past *p;
	struct bdevice *d;

	fm_list_each (d, &g->bridge->devices, link) {
		struct fm_bmemory_info i = {.device = d->key,
			.managed = is_managed(g),
			.turn = planner_turn_of(g, d),
			.node = -1};
		uint64_t limit = group_limit(g, d);
		struct member *m;

		limit = FM_MIN(limit, cgroups_limit(g, d));
		fm_list_each (m, &g->members, in_group)
			if (demand_memory(m))
				each_row (demand_memory(m), d, r) {
					add_row(&i, demand_memory(m), r);
					i.early |= demand_memory(m)->early;
				}
		if (!i.capacity)
			continue;
		fm_list_each (p, &g->memory_past, link)
			if (p->dev == d)
				add_past(&i, p);
		i.limit = limit == NO_LIMIT ? 0 : limit;
		i.request = (uint64_t)FM_MAX(demand_hint(g, FM_HINT_MEMORY_REQUEST), INT64_C(0));
		fn(arg, &i);
	}
}
