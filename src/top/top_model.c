/* SPDX-License-Identifier: Apache-2.0 */
#include "top_model.h"
#include "base/util.h"
#include "cmd/cli.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A reply's numbers are not trusted: a value that is not a finite number becomes 0. */
static double count_of(const json_t *o, const char *key)
{
	double v = cli_num(o, key);

	return isfinite(v) && v > 0 ? v : 0;
}

const char *top_state_name(enum top_state state)
{
	static const char *const names[] = {
		[TOP_IDLE] = "idle",
		[TOP_READY] = "ready",
		[TOP_RUNNING] = "running",
		[TOP_SUSPENDED] = "suspended",
	};

	return state < TOP_STATES ? names[state] : "?";
}

static enum top_state state_of(const char *name)
{
	for (enum top_state s = TOP_IDLE; s < TOP_STATES; s++)
		if (!strcmp(name, top_state_name(s)))
			return s;
	return TOP_IDLE;
}

/* Quantiles of {"count", ...}. If the count is 0, they are not known. */
static void quantiles(const json_t *o, const char *k50, const char *k99, double *p50, double *p99)
{
	bool known = cli_num(o, "count") > 0;

	*p50 = known ? count_of(o, k50) : NAN;
	*p99 = known ? count_of(o, k99) : NAN;
}

static int by_who(int64_t uid, const char *name, const struct top_group *g)
{
	if (uid != g->uid)
		return uid < g->uid ? -1 : 1;
	return strcmp(name, g->name);
}

static int compare_who(const void *a, const void *b)
{
	const struct top_group *x = a;

	return by_who(x->uid, x->name, b);
}

static size_t device_index(const struct top_sample *s, const char *key)
{
	for (size_t i = 0; i < s->devices; i++)
		if (!strcmp(s->device[i].key, key))
			return i;
	return SIZE_MAX;
}

static void read_device(struct top_device *d, const json_t *o)
{
	*d = (struct top_device){
		.key = cli_str(o, "key"), .preemptions = count_of(o, "preemptions")};
	quantiles(json_object_get(o, "preempt_us"), "p50", "p99", &d->p50_us, &d->p99_us);
}

/* Rows, as docs/protocol.md has them, with names of users. */
enum {
	G_NAME,
	G_UID,
	G_USER,
	G_SUSPENDED,
	G_PRIORITY,
	G_QUEUES,
	G_QUEUE,
	G_LOW,
	G_HIGH,
	G_DEVICES,
	G_AT,
	G_MISSES,
	G_MEMORY
};
enum { E_DEVICE, E_STATE, E_DEVICE_NS, E_WAIT_NS, E_PREEMPTIONS, E_WAITS, E_P50_NS, E_P99_NS };
enum { M_DEVICE, M_CAPACITY, M_COMMITTED, M_RESIDENT, M_HOST, M_LIMIT };

static const char *text_at(const json_t *row, size_t i)
{
	return json_string_value(json_array_get(row, i)) ?: "-";
}

static double count_at(const json_t *row, size_t i)
{
	return FM_MAX((double)json_integer_value(json_array_get(row, i)), 0.0);
}

static int int_at(const json_t *row, size_t i, int low, int high)
{
	json_int_t v = json_integer_value(json_array_get(row, i));

	return (int)FM_MAX(FM_MIN(v, (json_int_t)high), (json_int_t)low);
}

static void read_ent(struct top_ent *e, const json_t *row)
{
	bool waited = count_at(row, E_WAITS) > 0;

	*e = (struct top_ent){.state = state_of(text_at(row, E_STATE)),
		.n.device_ms = count_at(row, E_DEVICE_NS) / 1e6,
		.n.wait_ms = count_at(row, E_WAIT_NS) / 1e6,
		.n.preemptions = count_at(row, E_PREEMPTIONS),
		.n.p50_us = waited ? count_at(row, E_P50_NS) / 1e3 : NAN,
		.n.p99_us = waited ? count_at(row, E_P99_NS) / 1e3 : NAN};
}

/* fmax() and fmin() leave out what is not a number. */
static void add_counts(struct top_counts *sum, const struct top_counts *n)
{
	sum->device_ms += n->device_ms;
	sum->wait_ms += n->wait_ms;
	sum->preemptions += n->preemptions;
	sum->share += n->share;
	sum->waited += n->waited;
	sum->preempt_s += n->preempt_s;
	sum->p50_us = fmax(sum->p50_us, n->p50_us);
	sum->p99_us = fmax(sum->p99_us, n->p99_us);
}

static void add_memory(struct top_memory *sum, const struct top_memory *n)
{
	sum->committed += n->committed;
	sum->resident += n->resident;
	sum->host += n->host;
	if (n->limit > 0)
		sum->limit = sum->limit > 0 ? FM_MIN(sum->limit, n->limit) : n->limit;
}

static void read_part(struct top_sample *s, struct top_part *p, const json_t *row)
{
	size_t device = device_index(s, text_at(row, M_DEVICE));

	*p = (struct top_part){.device = text_at(row, M_DEVICE),
		.capacity = count_at(row, M_CAPACITY),
		.n.committed = count_at(row, M_COMMITTED),
		.n.resident = count_at(row, M_RESIDENT),
		.n.host = count_at(row, M_HOST),
		.n.limit = count_at(row, M_LIMIT)};
	s->memory = true;
	if (device == SIZE_MAX)
		return;
	s->device[device].capacity = FM_MAX(s->device[device].capacity, p->capacity);
	add_memory(&s->device[device].memory, &p->n);
}

static void read_memory(
	struct top_sample *s, struct top_group *g, const json_t *rows, size_t *parts)
{
	json_t *row;
	size_t i;

	g->part = &s->part[*parts];
	json_array_foreach (rows, i, row) {
		read_part(s, &g->part[i], row);
		add_memory(&g->memory, &g->part[i].n);
		g->parts++;
		++*parts;
	}
}

static void read_group(struct top_sample *s, struct top_group *g, const json_t *row, size_t *ents)
{
	size_t held = 0, i;
	json_t *e;

	*g = (struct top_group){
		.name = text_at(row, G_NAME),
		.user = text_at(row, G_USER),
		.queue = json_string_value(json_array_get(row, G_QUEUE)),
		.uid = json_integer_value(json_array_get(row, G_UID)),
		.priority = int_at(row, G_PRIORITY, -9999, 9999),
		.level_min = int_at(row, G_LOW, 0, 9),
		.level_max = int_at(row, G_HIGH, 0, 9),
		.queues = (unsigned)int_at(row, G_QUEUES, 0, 1 << 20),
		.ent = &s->ent[*ents],
		.at = count_at(row, G_AT),
		.deadline = json_is_integer(json_array_get(row, G_MISSES)),
		.misses = count_at(row, G_MISSES),
	};
	json_array_foreach (json_array_get(row, G_DEVICES), i, e) {
		struct top_ent *ent = &s->ent[*ents];
		size_t device = device_index(s, text_at(e, E_DEVICE));

		if (device == SIZE_MAX)
			continue;
		read_ent(ent, e);
		ent->device = device;
		if (ent->state == TOP_SUSPENDED)
			held++;
		else
			g->state = FM_MAX(g->state, ent->state);
		g->ents++;
		++*ents;
	}
	if (json_is_true(json_array_get(row, G_SUSPENDED)) || (g->ents && held == g->ents))
		g->state = TOP_SUSPENDED;
}

/* The rows within all rows, at that place of each. */
static size_t count_rows(const json_t *groups, size_t place)
{
	size_t n = 0, i;
	json_t *g;

	json_array_foreach (groups, i, g)
		n += json_array_size(json_array_get(g, place));
	return n;
}

static struct top_group *find_group(const struct top_sample *s, int64_t uid, const char *name)
{
	struct top_group key = {.uid = uid, .name = name};

	return s->groups ? bsearch(&key, s->group, s->groups, sizeof(key), compare_who) : NULL;
}

/* Tasks belong to the group of their owner's user with that name. */
static void read_tasks(struct top_sample *s)
{
	json_t *t;
	size_t i;

	json_array_foreach (json_object_get(s->tasks, "tasks"), i, t) {
		struct top_group *g = find_group(
			s, json_integer_value(json_object_get(t, "uid")), cli_str(t, "group"));

		if (!g)
			continue;
		/* Misses of admitted tasks replace the misses of a deadline hint. */
		if (!g->tasks)
			g->misses = 0;
		g->tasks = true;
		g->misses += count_of(t, "misses");
		g->overruns += count_of(t, "overruns");
	}
}

static void sample_free(struct top_sample *s)
{
	json_decref(s->ps);
	json_decref(s->tasks);
	free(s->device);
	free(s->group);
	free(s->ent);
	free(s->part);
	*s = (struct top_sample){0};
}

static int sample_read(struct top_sample *s)
{
	const json_t *groups = json_object_get(s->ps, "groups"), *o;
	const json_t *devices = json_object_get(s->ps, "devices");
	size_t ents = 0, parts = 0, i;

	s->device = calloc(json_array_size(devices) + 1, sizeof(*s->device));
	s->group = calloc(json_array_size(groups) + 1, sizeof(*s->group));
	s->ent = calloc(count_rows(groups, G_DEVICES) + 1, sizeof(*s->ent));
	s->part = calloc(count_rows(groups, G_MEMORY) + 1, sizeof(*s->part));
	if (!s->device || !s->group || !s->ent || !s->part)
		return -ENOMEM;
	json_array_foreach (devices, i, o)
		read_device(&s->device[s->devices++], o);
	json_array_foreach (groups, i, o) {
		read_group(s, &s->group[s->groups], o, &ents);
		read_memory(s, &s->group[s->groups++], json_array_get(o, G_MEMORY), &parts);
	}
	qsort(s->group, s->groups, sizeof(*s->group), compare_who);
	read_tasks(s);
	return 0;
}

static const struct top_ent *find_ent(
	const struct top_sample *s, const struct top_group *g, const char *key)
{
	for (size_t i = 0; g && i < g->ents; i++)
		if (!strcmp(s->device[g->ent[i].device].key, key))
			return &g->ent[i];
	return NULL;
}

/* The growth of a counter. A group that was not there at the base began at 0. A counter that fell
 * belongs to another group of the same name. */
static double grown(double now, double base)
{
	return FM_MAX(now - base, 0.0);
}

static void compare_ent(struct top_ent *e, const struct top_ent *base, double seconds)
{
	static const struct top_counts none;
	const struct top_counts *b = base ? &base->n : &none;

	e->n.share = FM_MIN(grown(e->n.device_ms, b->device_ms) / 1e3 / seconds, 1.0);
	e->n.waited = FM_MIN(grown(e->n.wait_ms, b->wait_ms) / 1e3 / seconds, 1.0);
	e->n.preempt_s = grown(e->n.preemptions, b->preemptions) / seconds;
}

static void compare_devices(struct top_model *m)
{
	for (size_t i = 0; i < m->now.devices && m->seconds > 0; i++) {
		struct top_device *d = &m->now.device[i];
		size_t b = device_index(&m->base, d->key);
		double before = b == SIZE_MAX ? 0 : m->base.device[b].preemptions;

		d->preempt_s = grown(d->preemptions, before) / m->seconds;
	}
}

/* The pages of a sample come from different moments, so each group has its own interval. */
static double seconds_of(
	const struct top_model *m, const struct top_group *g, const struct top_group *was)
{
	double ns = was && g->at > 0 && was->at > 0 ? g->at - was->at : 0;

	return ns > 0 ? ns / 1e9 : m->seconds;
}

/* Both samples are sorted: each group's predecessor is at or behind the last one's. */
static void compare_ents(struct top_model *m)
{
	size_t b = 0;

	for (size_t i = 0; i < m->now.groups && m->seconds > 0; i++) {
		struct top_group *g = &m->now.group[i];
		const struct top_group *was = NULL;

		while (b < m->base.groups && by_who(g->uid, g->name, &m->base.group[b]) > 0)
			b++;
		if (b < m->base.groups && !by_who(g->uid, g->name, &m->base.group[b]))
			was = &m->base.group[b];
		for (size_t k = 0; k < g->ents; k++) {
			struct top_ent *e = &g->ent[k];
			struct top_device *d = &m->now.device[e->device];

			compare_ent(e, find_ent(&m->base, was, d->key), seconds_of(m, g, was));
			d->share += e->n.share;
		}
	}
}

/* Each program measures its own time. When a long command ends, its time may include time before
 * the interval, or time in which another program had the device. Together the programs had at most
 * the whole device, so any excess is taken from all in proportion. */
static void sum_up(struct top_model *m)
{
	for (size_t i = 0; i < m->now.groups; i++) {
		struct top_group *g = &m->now.group[i];

		g->n = (struct top_counts){.p50_us = NAN, .p99_us = NAN};
		for (size_t k = 0; k < g->ents; k++) {
			struct top_ent *e = &g->ent[k];
			struct top_device *d = &m->now.device[e->device];

			e->n.share /= FM_MAX(d->share, 1.0);
			add_counts(&g->n, &e->n);
			d->groups++;
			d->ready += e->state == TOP_READY;
		}
	}
	for (size_t i = 0; i < m->now.devices; i++)
		m->now.device[i].share = FM_MIN(m->now.device[i].share, 1.0);
}

static void compare(struct top_model *m)
{
	compare_ents(m);
	sum_up(m);
	compare_devices(m);
}

int top_model_take(struct top_model *m, json_t *ps, json_t *tasks, uint64_t at, uint64_t least)
{
	struct top_sample s = {.ps = ps, .tasks = tasks, .at = at};

	if (sample_read(&s)) {
		sample_free(&s);
		return -ENOMEM;
	}
	/* The last sample may become the base once it is old enough. */
	if (m->next.ps)
		sample_free(&m->now);
	else
		m->next = m->now;
	if (m->next.ps && (!m->base.ps || fm_sub_sat(at, m->next.at) >= least)) {
		sample_free(&m->base);
		m->base = m->next;
		m->next = (struct top_sample){0};
	}
	m->now = s;
	m->seconds = m->base.ps ? (double)fm_sub_sat(s.at, m->base.at) / 1e9 : 0;
	compare(m);
	return 0;
}

void top_model_clear(struct top_model *m)
{
	sample_free(&m->base);
	sample_free(&m->next);
	sample_free(&m->now);
	*m = (struct top_model){0};
}

const struct top_group *top_model_find(const struct top_model *m, int64_t uid, const char *name)
{
	return find_group(&m->now, uid, name);
}
