/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the records of a trace into programs. A client's records count only for that client.
 */
#include "recorded.h"
#include "base/clock.h"
#include "base/parse.h"
#include "recorded_state.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

static struct number *slot_of(struct number *slot, size_t cap, uint64_t key)
{
	size_t i = key * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (cap - 1);

	while (slot[i].used && slot[i].key != key)
		i = (i + 1) & (cap - 1);
	return &slot[i];
}

/* UINT32_MAX: the key is not there. */
static uint32_t number_find(const struct number_map *m, uint64_t key)
{
	const struct number *s = m->cap ? slot_of(m->slot, m->cap, key) : NULL;

	return s && s->used ? s->index : NONE;
}

static bool number_grow(struct number_map *m)
{
	size_t cap = m->cap ? 2 * m->cap : 64;
	struct number *more = calloc(cap, sizeof(*more));

	if (!more)
		return false;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slot[i].used)
			*slot_of(more, cap, m->slot[i].key) = m->slot[i];
	free(m->slot);
	m->slot = more;
	m->cap = cap;
	return true;
}

static bool number_put(struct number_map *m, uint64_t key, uint32_t index)
{
	struct number *s;

	if (2 * (m->n + 1) > m->cap && !number_grow(m))
		return false;
	s = slot_of(m->slot, m->cap, key);
	m->n += !s->used;
	*s = (struct number){key, index, true};
	return true;
}

/* Makes room for one more item of the array. False: out of memory. */
static bool grow(void *array, uint32_t n, uint32_t *cap, size_t size)
{
	void **old = array, *more = *old;

	if (n < *cap)
		return true;
	more = reallocarray(*old, *cap ? 2 * (size_t)*cap : 8, size);
	if (!more)
		return false;
	*old = more;
	*cap = *cap ? 2 * *cap : 8;
	return true;
}

static const char *text_of(const struct reading *x, enum fm_trace_kind kind, uint32_t id)
{
	const struct fm_trace_file_name *n = id ? fm_trace_file_find(x->file, kind, id) : NULL;

	return n ? n->text : "";
}

/* Makes a name that workloads accept, with room for a number behind it. */
static void plain_name(char to[WORKLOAD_NAME], const char *what, const char *text, uint32_t id)
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t n = 0;

	for (; text[n] && n < WORKLOAD_NAME - 8; n++)
		to[n] = strchr(good, text[n]) ? text[n] : '_';
	to[n] = '\0';
	if (!n)
		snprintf(to, WORKLOAD_NAME, "%s-%u", what, id);
}

static uint32_t device_get(struct reading *x, uint32_t id)
{
	struct recorded *r = x->r;
	struct recorded_device *d = &r->device[r->devices];
	char plain[WORKLOAD_NAME];

	for (uint32_t i = 0; i < r->devices; i++)
		if (r->device[i].id == id)
			return i;
	if (r->devices == WORKLOAD_DEVICES) {
		x->rc = -E2BIG;
		return NONE;
	}
	d->id = id;
	snprintf(d->label, sizeof(d->label), "%s", text_of(x, FM_TN_DEVICE, id));
	plain_name(plain, "device", d->label, id);
	snprintf(d->name, sizeof(d->name), "%s", plain);
	for (uint32_t i = 0, n = 1; i < r->devices; i++)
		if (!strcmp(r->device[i].name, d->name)) {
			snprintf(
				d->name, sizeof(d->name), "%.*s.%u", WORKLOAD_NAME - 8, plain, ++n);
			i = NONE; /* again from the first */
		}
	return r->devices++;
}

static uint32_t program_get(struct reading *x, uint32_t id)
{
	uint32_t i = number_find(&x->by_group, id);

	if (i != NONE)
		return i;
	i = x->programs;
	if (!grow(&x->program, i, &x->programs_cap, sizeof(*x->program)) ||
		!number_put(&x->by_group, id, i)) {
		x->rc = -ENOMEM;
		return NONE;
	}
	x->program[i] = (struct program){.id = id, .first = NONE};
#define HINT_DEFAULT(hint, word, min, max, def, unit) x->program[i].hints.value[hint] = def;
	FM_HINT_MAP(HINT_DEFAULT)
#undef HINT_DEFAULT
	x->programs++;
	return i;
}

static uint64_t member_key(uint32_t group, uint32_t device)
{
	return (uint64_t)group << 32 | device;
}

/* The record's member; made if it is not there. */
static struct member *member_get(struct reading *x, const struct fm_trace_rec *rec)
{
	uint32_t i = number_find(&x->by_member, member_key(rec->group, rec->device)), p;

	if (i != NONE)
		return &x->member[i];
	p = device_get(x, rec->device) == NONE ? NONE : program_get(x, rec->group);
	i = x->members;
	if (p == NONE || !grow(&x->member, i, &x->members_cap, sizeof(*x->member)) ||
		!number_put(&x->by_member, member_key(rec->group, rec->device), i)) {
		x->rc = x->rc ? x->rc : -ENOMEM;
		return NULL;
	}
	x->member[i] = (struct member){
		.program = p, .next = x->program[p].first, .group = NONE, .open = true};
	x->program[p].first = i;
	x->members++;
	return &x->member[i];
}

static void add_change(
	struct reading *x, struct recorded_group *g, enum fm_hint h, int64_t value, uint64_t at)
{
	struct fm_sim_change *more = g->change;

	if (g->hints.value[h] == value || x->rc)
		return;
	if (g->changes == WORKLOAD_CHANGES) {
		x->rc = -E2BIG;
		return;
	}
	if (!(g->changes & (g->changes - 1)))
		more = reallocarray(more, FM_MAX(2 * g->changes, (size_t)1), sizeof(*more));
	if (!more) {
		x->rc = -ENOMEM;
		return;
	}
	g->change = more;
	more[g->changes++] = (struct fm_sim_change){at, h, value};
	g->hints.value[h] = value;
}

static bool is_taken(const struct recorded *r, const char *name)
{
	for (uint32_t i = 0; i < r->groups; i++)
		if (!strcmp(r->group[i].name, name))
			return true;
	return false;
}

static struct recorded_group *group_new(
	struct reading *x, const char *label, uint32_t id, uint32_t device, uint64_t at)
{
	struct recorded *r = x->r;
	struct recorded_group *g;
	char plain[WORKLOAD_NAME];

	if (r->groups == WORKLOAD_GROUPS) {
		x->rc = -E2BIG;
		return NULL;
	}
	if (!grow(&r->group, r->groups, &r->cap, sizeof(*r->group))) {
		x->rc = -ENOMEM;
		return NULL;
	}
	g = &r->group[r->groups];
	*g = (struct recorded_group){.device = device, .start = at};
	snprintf(g->label, sizeof(g->label), "%s", label);
#define HINT_DEFAULT(hint, word, min, max, def, unit) g->hints.value[hint] = def;
	FM_HINT_MAP(HINT_DEFAULT)
#undef HINT_DEFAULT
	plain_name(plain, "group", label, id);
	snprintf(g->name, sizeof(g->name), "%s", plain);
	for (uint32_t n = 2; is_taken(r, g->name); n++)
		snprintf(g->name, sizeof(g->name), "%.*s.%u", WORKLOAD_NAME - 8, plain, n);
	r->groups++;
	return g;
}

/* A group of this name that was on the device and has gone, or a new one. */
static struct recorded_group *group_get(
	struct reading *x, uint32_t id, uint32_t device, uint64_t at)
{
	const char *label = text_of(x, FM_TN_GROUP, id);

	for (uint32_t i = 0; i < x->r->groups; i++) {
		struct recorded_group *g = &x->r->group[i];

		if (g->present || g->device != device || !*label || strcmp(g->label, label) != 0)
			continue;
		g->away++;
		return g;
	}
	return group_new(x, label, id, device, at);
}

/* Marks the groups whose programs are on other devices, too. */
static void mark_elsewhere(struct reading *x, const struct member *m)
{
	struct recorded_group *g = x->r->group;

	for (uint32_t i = x->program[m->program].first; i != NONE; i = x->member[i].next)
		if (x->member[i].group != NONE && x->member[i].group != m->group)
			g[x->member[i].group].elsewhere = g[m->group].elsewhere = true;
}

/* The member is on the device from now on. */
static void enter(struct reading *x, struct member *m, const struct fm_trace_rec *rec)
{
	uint32_t device;
	struct recorded_group *g;

	if (m->group != NONE)
		return;
	device = device_get(x, rec->device);
	g = device == NONE ? NULL : group_get(x, rec->group, device, rec->at);
	if (!g)
		return;
	g->present = true;
	g->stop = FM_NEVER;
	m->group = (uint32_t)(g - x->r->group);
	mark_elsewhere(x, m);
	for (unsigned h = 0; h < FM_HINT_COUNT; h++)
		add_change(x, g, (enum fm_hint)h, x->program[m->program].hints.value[h], rec->at);
}

/* The member's last queue has gone. */
static void leave(struct reading *x, struct member *m, uint64_t at)
{
	struct recorded_group *g = &x->r->group[m->group];
	struct fm_trace_rec end = {.at = at, .arg = {0, m->served_idle}};

	job_end(x, m, &end);
	job_cut(x, m);
	turns_rest(x, m, at);
	g->present = false;
	g->stop = at;
	m->group = NONE;
	m->open = true;
}

static void queue_left(struct reading *x, uint32_t index, uint64_t at)
{
	struct member *m = index == NONE ? NULL : &x->member[index];

	if (m && m->queues && !--m->queues && m->group != NONE)
		leave(x, m, at);
}

static void on_queue(struct reading *x, const struct fm_trace_rec *rec)
{
	uint64_t queue = rec->arg[0];
	uint32_t before = number_find(&x->by_queue, queue);
	struct member *m = member_get(x, rec);

	if (!m)
		return;
	m->queues++; /* first, since the queue may leave the same member */
	queue_left(x, before, rec->at);
	enter(x, m, rec);
	if (m->group != NONE)
		x->r->device[x->r->group[m->group].device].levels |= (uint32_t)rec->arg[2];
	if (!number_put(&x->by_queue, queue, (uint32_t)(m - x->member)))
		x->rc = -ENOMEM;
}

static void on_queue_gone(struct reading *x, const struct fm_trace_rec *rec)
{
	uint32_t index = number_find(&x->by_queue, rec->arg[0]);

	queue_left(x, index, rec->at);
	if (index != NONE)
		number_put(&x->by_queue, rec->arg[0], NONE);
}

static void on_hint(struct reading *x, const struct fm_trace_rec *rec)
{
	uint32_t p = rec->arg[0] < FM_HINT_COUNT ? program_get(x, rec->group) : NONE;
	enum fm_hint h = (enum fm_hint)rec->arg[0];
	int64_t value = (int64_t)rec->arg[1];

	if (p == NONE || fm_hint_check(h, value, NULL))
		return;
	x->program[p].hints.value[h] = value;
	for (uint32_t i = x->program[p].first; i != NONE; i = x->member[i].next)
		if (x->member[i].group != NONE)
			add_change(x, &x->r->group[x->member[i].group], h, value, rec->at);
}

static void on_stalled(struct reading *x, const struct member *m, const struct fm_trace_rec *rec)
{
	struct recorded_device *d = &x->r->device[x->r->group[m->group].device];

	job_sample(&d->stop, &d->n_stop, FM_MIN(rec->arg[0], FM_S));
}

static void on_gate(struct reading *x, struct member *m, bool open, uint64_t at)
{
	bool stops = !open && m->works && m->open;

	if (stops)
		x->r->group[m->group].preemptions++;
	job_gate(m, open, at);
	if (m->group == NONE)
		return;
	if (stops)
		turns_stop(x, m);
	else if (open && m->works && !m->stopping)
		m->opened_at = at;
	if (open)
		turns_rest(x, m, at);
}

/* An event of a member on a device. */
static void on_member(struct reading *x, const struct fm_trace_rec *rec)
{
	struct member *m = member_get(x, rec);

	if (!m)
		return;
	switch (rec->event) {
	case FM_EV_ready:
		claim_kept(x, m, rec->device);
		enter(x, m, rec);
		if (!m->works && m->group != NONE)
			job_begin(x, m, rec);
		return;
	case FM_EV_gate_opened:
	case FM_EV_gate_closed:
		on_gate(x, m, rec->event == FM_EV_gate_opened, rec->at);
		return;
	default:
		break;
	}
	if (m->group == NONE)
		return;
	if (rec->event == FM_EV_stalled) {
		on_stalled(x, m, rec);
	} else {
		claim_begin(x, m, rec);
		job_end(x, m, rec);
	}
	turns_rest(x, m, rec->at);
}

/* Takes the policy that is in force at the beginning. Its settings follow it. */
static void on_policy(struct reading *x, const struct fm_trace_rec *rec)
{
	const char *name = text_of(x, FM_TN_REASON, rec->reason);

	if (x->r->policies++)
		return;
	plain_name(x->r->policy, "policy", name, 0);
	x->policy = fm_policy_find(x->r->policy);
}

static void on_setting(struct reading *x, const struct fm_trace_rec *rec)
{
	const char *name = text_of(x, FM_TN_REASON, rec->reason);
	const struct fm_policy_param *p =
		x->policy && x->r->policies == 1 ? x->policy->params : NULL;
	char value[32];
	int64_t v = (int64_t)rec->arg[0];
	size_t len = 0;
	char *to = x->r->policy;

	if (!strcmp(name, "linger") && x->r->policies == 1)
		x->r->linger = v < 0 ? FM_LINGER_AUTO : FM_MIN(rec->arg[0], FM_S);
	for (; p && p->name && strcmp(p->name, name) != 0; p++)
		;
	if (!p || !p->name || v == p->def || v < p->min || v > p->max)
		return;
	len = strlen(to);
	snprintf(value, sizeof(value), "%" PRId64 "%s", v,
		!strcmp(p->unit, "ms") || !strcmp(p->unit, "us") ? "ns" : "");
	snprintf(to + len, RECORDED_POLICY - len, " %s=%s", p->name, value);
}

static void of_daemon(struct reading *x, const struct fm_trace_rec *rec)
{
	switch (rec->event) {
	case FM_EV_policy:
		on_policy(x, rec);
		return;
	case FM_EV_setting:
		on_setting(x, rec);
		return;
	case FM_EV_decided:
		claim_ends(x, rec);
		return;
	default:
		break;
	}
	if (!rec->group)
		return;
	switch (rec->event) {
	case FM_EV_hint:
		on_hint(x, rec);
		return;
	case FM_EV_queue_added:
		on_queue(x, rec);
		return;
	case FM_EV_queue_gone:
		on_queue_gone(x, rec);
		return;
	case FM_EV_ready:
	case FM_EV_idle:
	case FM_EV_gate_opened:
	case FM_EV_gate_closed:
	case FM_EV_stalled:
		on_member(x, rec);
		return;
	default:
		return;
	}
}

static void of_client(struct reading *x, const struct fm_trace_item *item)
{
	const struct fm_trace_rec *rec = item->rec;
	const struct fm_trace_file_name *q = NULL;
	struct recorded_device *d;
	struct member *m;
	uint32_t i = NONE;

	if (rec->slot != FM_TRACE_NO_SLOT)
		q = fm_trace_file_queue(
			x->file, x->file->rings[item->ring].pid, rec->slot, rec->at);
	if (q)
		i = number_find(&x->by_member, member_key(q->name->group, q->name->device));
	m = i == NONE ? NULL : &x->member[i];
	if (!m || m->group == NONE)
		return;
	d = &x->r->device[x->r->group[m->group].device];
	if (rec->event == FM_EV_segment_done)
		job_segment(x, m, rec);
	else if (rec->event == FM_EV_went_on)
		turns_went_on(x, m, rec->at);
	d->stopped[1] += rec->event == FM_EV_hold_begin;
	d->stopped[2] += rec->event == FM_EV_rested;
	d->stopped[3] += rec->event == FM_EV_interrupted;
}

/* Finds the times of the recording by the daemon's records only, since clients may give any times.
 */
static int find_times(struct reading *x, uint64_t until, struct fm_err *err)
{
	const struct fm_trace_file *t = x->file;
	struct recorded *r = x->r;
	bool any = false;

	for (size_t i = 0; i < t->n_items; i++) {
		const struct fm_trace_rec *rec = t->items[i].rec;

		if (t->rings[t->items[i].ring].id)
			continue;
		r->begin = any ? r->begin : rec->at;
		r->end = rec->at;
		any = true;
	}
	if (!any)
		return fm_err_set(err, -EINVAL, "there is no record of the daemon in it");
	r->end = FM_MAX(r->end, until);
	if (r->end - r->begin <= WORKLOAD_TIME && r->end != FM_NEVER)
		return 0;
	return fm_err_set(err, -EINVAL, "its records are more than a year apart");
}

static int failed(int rc, struct fm_err *err)
{
	if (rc == -ENOMEM)
		return fm_err_set(err, rc, "out of memory");
	fm_err_set(err, rc,
		"more than a workload can hold: %d groups, %d devices, %d jobs of a group and "
		"%d changes of its hints",
		WORKLOAD_GROUPS, WORKLOAD_DEVICES, WORKLOAD_RECORDS, WORKLOAD_CHANGES);
	return fm_err_hint(err, "record for less long, or --group NAME alone");
}

static int read_all(struct reading *x, uint64_t until, struct fm_err *err)
{
	const struct fm_trace_file *t = x->file;
	struct recorded *r = x->r;
	int rc = find_times(x, until, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < t->n_items && !x->rc; i++) {
		if (t->rings[t->items[i].ring].id)
			of_client(x, &t->items[i]);
		else
			of_daemon(x, t->items[i].rec);
	}
	for (uint32_t i = 0; i < x->members && !x->rc; i++)
		if (x->member[i].group != NONE)
			job_cut(x, &x->member[i]);
	if (!x->rc)
		turns_end(x);
	for (uint32_t i = 0; i < r->groups; i++)
		for (size_t k = 0; k < r->group[i].jobs; k++)
			r->how[r->group[i].job[k].how]++;
	for (size_t i = 0; i < t->n_rings; i++)
		r->lost = fm_add_sat(r->lost, t->rings[i].lost);
	r->unknown = t->unknown;
	return x->rc ? failed(x->rc, err) : 0;
}

int recorded_read(
	struct recorded *r, const struct fm_trace_file *t, uint64_t until, struct fm_err *err)
{
	struct reading x = {.file = t, .r = r};
	int rc;

	*r = (struct recorded){.linger = 100 * FM_US};
	rc = read_all(&x, until, err);
	turns_free(&x);
	free(x.program);
	free(x.member);
	free(x.by_group.slot);
	free(x.by_member.slot);
	free(x.by_queue.slot);
	if (rc)
		recorded_free(r);
	return rc;
}

void recorded_free(struct recorded *r)
{
	for (uint32_t i = 0; i < r->groups; i++) {
		free(r->group[i].job);
		free(r->group[i].first);
		free(r->group[i].change);
	}
	for (uint32_t i = 0; i < r->devices; i++) {
		free(r->device[i].took);
		free(r->device[i].stop);
		free(r->device[i].open);
		free(r->device[i].turn);
	}
	free(r->group);
	free(r->late);
	*r = (struct recorded){0};
}
