/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of clients, as their ledgers say it, and the limits of groups and users. The bridge
 * hands out what each client may claim; a client that needs more asks (board/ledger.h).
 *
 * What a ledger says is a claim of its client. It is read once and bounded, and it can harm only
 * the clients of the same user: a limit is shared by nobody else.
 */
#include "base/parse.h"
#include "base/size.h"
#include "demand.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_LIMIT UINT64_MAX

/* More than any device and host have. */
static uint64_t bounded(uint64_t bytes)
{
	return FM_MIN(bytes, (uint64_t)FM_MEMORY_MAX);
}

static uint64_t read_claim(const struct memory *m, struct memory_row *r)
{
	r->claimed = bounded(CLAIM(m->ledger->device[r - m->row].claimed));
	return r->claimed;
}

static uint64_t never_falling(uint64_t *is, uint64_t said)
{
	*is = FM_MAX(*is, said);
	return *is;
}

/* --- what shares a limit --- */

/* The group of the client's memory. Every client has one, from attach on. */
static struct fm_bridge_group *own_group(const struct memory *m)
{
	return m->client->first.group;
}

/* The member's ledger, if it belongs to the member's group. */
static struct memory *memory_of(const struct member *m)
{
	return m->index ? NULL : m->client->memory;
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

static uint64_t user_limit(const struct fm_bridge *b, const struct fm_bridge_client *c)
{
	const struct fm_bridge_limits *l = client_limits(b, c);

	return l && l->memory ? l->memory : NO_LIMIT;
}

static bool is_managed(const struct fm_bridge_group *g)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (memory_of(m) && memory_of(m)->managed)
			return true;
	return false;
}

/* Of the device, as the group's clients say it, and as it is set. 0: the group is not there. */
static uint64_t capacity_of(const struct fm_bridge_group *g, const struct bdevice *d)
{
	uint64_t set = g->bridge->memory.device, most = 0;
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (memory_of(m))
			each_row (memory_of(m), d, r)
				most = FM_MAX(most, r->capacity);
	return set ? FM_MIN(most, set) : most;
}

/* A group whose memory may be moved could have more than the device: only if that is asked for. The
 * others have what the driver gives them, unless the device counts as having less. */
static uint64_t group_limit(const struct fm_bridge_group *g, const struct bdevice *d)
{
	int64_t hint = fm_sched_group_hints(g->sgroup)->value[FM_HINT_MEMORY_LIMIT];

	if (hint > 0)
		return (uint64_t)hint;
	return is_managed(g) || g->bridge->memory.device ? capacity_of(g, d) : NO_LIMIT;
}

/* --- what is left --- */

/* The rows that share a limit with one: their claims, what they may claim without asking, and how
 * many they are. */
struct pool {
	uint64_t limit, claimed, reserved;
	unsigned rows;
};

static void pool_add(struct pool *p, struct memory *m, struct memory_row *r)
{
	uint64_t claimed = read_claim(m, r);

	p->rows++;
	p->claimed = fm_add_sat(p->claimed, claimed);
	p->reserved = fm_add_sat(p->reserved,
		r->allowed == NO_LIMIT ? claimed : FM_MAX(claimed, bounded(r->allowed)));
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
	r->claimed = bounded(fm_ledger_lower(row, keeps));
}

enum what { SUM, TAKE };

static void row_do(struct pool *p, struct memory *m, struct memory_row *r, enum what what)
{
	if (what == TAKE)
		take_slack(m, r);
	else
		pool_add(p, m, r);
}

/* All rows of the group on the row's device, but for the row. */
static void group_do(
	struct pool *p, const struct memory *own, const struct memory_row *but, enum what what)
{
	struct member *m;

	fm_list_each (m, &own_group(own)->members, in_group)
		if (memory_of(m))
			each_row (memory_of(m), but->dev, r)
				if (r != but)
					row_do(p, memory_of(m), r, what);
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

	pool_add(&one, m, r);
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
};

static void pools_look(
	struct pools *p, struct fm_bridge *b, const struct memory *m, const struct memory_row *r)
{
	*p = (struct pools){.group.limit = group_limit(own_group(m), r->dev),
		.user.limit = user_limit(b, m->client),
		.device.limit = b->memory.device ? memory_capacity(b, r->dev) : NO_LIMIT};
	if (p->group.limit != NO_LIMIT)
		group_do(&p->group, m, r, SUM);
	if (p->user.limit != NO_LIMIT)
		user_do(&p->user, m, r, SUM);
	if (p->device.limit != NO_LIMIT)
		device_do(b, &p->device, r, SUM);
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
	return FM_MIN(room(&p->group, reserved), room(&p->user, reserved));
}

/* --- an answer --- */

/* A row without others to share with has all the room. Otherwise it has a part of what is left, so
 * that it need not ask each time; and others take that back when they need it. */
static uint64_t grant(const struct pools *p, uint64_t wanted, uint64_t most)
{
	unsigned others = FM_MAX(p->group.rows, p->user.rows);

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
	bool none = limit == NO_LIMIT;

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

static void answer(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	struct pools p;
	uint64_t wanted;
	uint32_t number = fm_ledger_asked(row, &wanted);

	if (number == CLAIM(row->answered))
		return;
	read_claim(m, r);
	wanted = bounded(wanted);
	r->allowed = decide(b, &p, m, r, wanted);
	r->request = number;
	r->granted = wanted <= r->allowed ? wanted : 0;
	tell_limit(&p, row);
	atomic_store_explicit(&row->full, is_full(&p, m, r, wanted), memory_order_relaxed);
	fm_ledger_answer(row, number, r->allowed);
}

/* --- rows --- */

/* Keys are copied before they are looked at: the client may write to them at any time. */
static bool read_key(const struct fm_ledger_device *row, char key[FM_DEVKEY_MAX])
{
	const volatile char *from = row->key;
	unsigned n = 0;

	for (; n < FM_DEVKEY_MAX; n++) {
		key[n] = from[n];
		if (!key[n])
			return n > 0;
		if (key[n] < ' ' || key[n] > '~')
			return false;
	}
	return false;
}

/* A row whose device cannot be known is not counted, and not limited. */
static void look_at_row(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint64_t capacity = bounded(CLAIM(row->capacity));
	char key[FM_DEVKEY_MAX];

	if (r->seen || !capacity)
		return;
	r->seen = true;
	r->capacity = capacity;
	if (!read_key(row, key) || device_get(b, &r->dev, m->client->user, key, NULL))
		r->dev = NULL;
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
		if (r->dev)
			answer(b, m, r);
		else if (r->seen)
			answer_unlimited(&m->ledger->device[i]);
	}
	if (m)
		demand_kick(b);
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
	c->memory = m;
	away_begin(m);
	demand_kick(b);
	fm_list_add_tail(&c->user->memories, &m->in_user);
	memory_reset_group(c->first.group);
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++)
		look_at_row(b, m, &m->row[i]);
	return 0;
}

/* --- changes --- */

static void reset(struct memory *m)
{
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		m->row[i].allowed = m->row[i].granted = 0;
		if (m->row[i].dev)
			fm_ledger_lower(&m->ledger->device[i], 0);
	}
}

void memory_reset_group(struct fm_bridge_group *g)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (memory_of(m))
			reset(memory_of(m));
}

void fm_bridge_memory_settings(struct fm_bridge *b, const struct fm_bridge_memory *m)
{
	struct fm_bridge_client *c;

	b->memory = *m;
	fm_list_each (c, &b->clients, link)
		if (c->memory)
			reset(c->memory);
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

	never_falling(&r->refused, CLAIM(row->refused));
	never_falling(&r->went_out, CLAIM(row->went_out));
	never_falling(&r->came_in, CLAIM(row->came_in));
	never_falling(&r->kept, CLAIM(row->kept));
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
	}
	fm_list_del(&m->in_user);
	c->memory = NULL;
	free(m);
}

void memory_forget_group(struct fm_bridge_group *g)
{
	struct memory_past *p, *next;

	fm_list_each_safe (p, next, &g->memory_past, link)
		free(p);
}

/* --- hints --- */

static bool is_on(const struct fm_bridge_group *g, const struct bdevice *d)
{
	return capacity_of(g, d) > 0;
}

/* The largest capacity that anybody says the device has. */
uint64_t memory_capacity(struct fm_bridge *b, const struct bdevice *d)
{
	struct fm_bridge_group *g;
	uint64_t most = 0;

	fm_list_each (g, &b->groups, link)
		most = FM_MAX(most, capacity_of(g, d));
	return most;
}

static uint64_t request_of(const struct fm_bridge_group *g)
{
	int64_t v = fm_sched_group_hints(g->sgroup)->value[FM_HINT_MEMORY_REQUEST];

	return v > 0 ? (uint64_t)v : 0;
}

/* What the groups on the device, but for one, have requested. */
static uint64_t requested(
	struct fm_bridge *b, const struct fm_bridge_group *but, const struct bdevice *d)
{
	struct fm_bridge_group *g;
	uint64_t sum = 0;

	fm_list_each (g, &b->groups, link)
		if (g != but && request_of(g) && is_on(g, d))
			sum = fm_add_sat(sum, request_of(g));
	return sum;
}

static int refuse_limit(uint64_t limit, uint64_t device, uint64_t host, struct fm_err *err)
{
	char l[FM_SIZE_TEXT], d[FM_SIZE_TEXT], h[FM_SIZE_TEXT];

	fm_err_set(err, -ERANGE, "memory-limit %s is more than there is", fm_size_short(limit, l));
	fm_err_hint(err, "the device has %s and the host has %s", fm_size_short(device, d),
		fm_size_short(host, h));
	return -ERANGE;
}

static int refuse_request(uint64_t request, uint64_t device, uint64_t others, struct fm_err *err)
{
	char r[FM_SIZE_TEXT], f[FM_SIZE_TEXT], d[FM_SIZE_TEXT], o[FM_SIZE_TEXT];

	fm_err_set(err, -ENOSPC, "memory-request %s is more than the %s that are free",
		fm_size_short(request, r), fm_size_short(fm_sub_sat(device, others), f));
	fm_err_hint(err,
		"the device has %s, of which other groups request %s; "
		"`fermata ps --memory' lists them",
		fm_size_short(device, d), fm_size_short(others, o));
	return -ENOSPC;
}

static int allows_on(struct fm_bridge *b, const struct fm_bridge_group *g, const struct bdevice *d,
	enum fm_hint h, uint64_t v, struct fm_err *err)
{
	uint64_t device = memory_capacity(b, d), others;

	if (!device)
		return 0;
	if (h == FM_HINT_MEMORY_LIMIT)
		return b->memory.host && v > fm_add_sat(device, b->memory.host)
			       ? refuse_limit(v, device, b->memory.host, err)
			       : 0;
	others = requested(b, g, d);
	return v > fm_sub_sat(device, others) ? refuse_request(v, device, others, err) : 0;
}

/* A group whose devices are not known yet may come to any of those that are. */
int fm_bridge_memory_allows(struct fm_bridge *b, const struct fm_bridge_group *g, enum fm_hint h,
	int64_t v, struct fm_err *err)
{
	struct bdevice *d;
	bool known = false, fits = false;
	int rc = 0;

	if ((h != FM_HINT_MEMORY_LIMIT && h != FM_HINT_MEMORY_REQUEST) || v <= 0)
		return 0;
	fm_list_each (d, &b->devices, link)
		known |= g && is_on(g, d);
	fm_list_each (d, &b->devices, link) {
		int no = known && !is_on(g, d) ? 0 : allows_on(b, g, d, h, (uint64_t)v, err);

		rc = no ? no : rc;
		fits |= !no && !known && memory_capacity(b, d);
	}
	return fits ? 0 : rc;
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
	i->peak = fm_add_sat(i->peak, FM_MAX(bounded(CLAIM(row->peak)), r->claimed));
	add_kinds(i, row, r->claimed);
	if (trouble < FM_MEM_TROUBLES)
		i->trouble = FM_MAX(i->trouble, trouble);
	i->refused = fm_add_sat(i->refused, r->refused);
	i->went_out = fm_add_sat(i->went_out, r->went_out);
	i->came_in = fm_add_sat(i->came_in, r->came_in);
	i->kept = fm_add_sat(i->kept, r->kept);
}

static void add_past(struct fm_bmemory_info *i, const struct memory_past *p)
{
	i->refused = fm_add_sat(i->refused, p->refused);
	i->went_out = fm_add_sat(i->went_out, p->went_out);
	i->came_in = fm_add_sat(i->came_in, p->came_in);
	i->kept = fm_add_sat(i->kept, p->kept);
}

void fm_bridge_group_each_memory(struct fm_bridge_group *g,
	void (*fn)(void *arg, const struct fm_bmemory_info *info), void *arg)
{
	struct memory_past *p;
	struct bdevice *d;

	fm_list_each (d, &g->bridge->devices, link) {
		struct fm_bmemory_info i = {.device = d->key, .managed = is_managed(g)};
		uint64_t limit = group_limit(g, d);
		struct member *m;

		fm_list_each (m, &g->members, in_group)
			if (memory_of(m))
				each_row (memory_of(m), d, r)
					add_row(&i, memory_of(m), r);
		if (!i.capacity)
			continue;
		fm_list_each (p, &g->memory_past, link)
			if (p->dev == d)
				add_past(&i, p);
		i.limit = limit == NO_LIMIT ? 0 : limit;
		i.request = request_of(g);
		fn(arg, &i);
	}
}
