/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for programs that collect them. They come in pages, so that scheduling waits for at most
 * one page, however many groups there are. src/metrics decides how the numbers are named and
 * written. Times are whole nanoseconds: exact, and cheap to print.
 */
#include "daemon.h"
#include "daemon/admission/admission.h"
#include "reply.h"
#include <errno.h>
#include <string.h>

/* The devices or tasks in a page. */
#define PAGE_ITEMS 8
/* A page of groups ends with the one that fills it: groups, their devices and processes. */
#define PAGE_OBJECTS 24
/* The same of rows: groups and their devices. */
#define PAGE_ROWS 48
/* Of one group; the page says how many more there are. */
#define GROUP_PROCESSES 64

struct page {
	struct daemon *daemon;
	const struct peer *peer;
	json_t *reply, *items;
	uint64_t after, now;
	bool ends; /* nothing is left */
};

struct group_page {
	json_t *devices, *memory, *processes;
	unsigned more;
};

static json_t *numbers(const uint64_t *values, unsigned n)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, number(values[i]));
	return list;
}

json_t *metrics_histogram(const struct fm_hist *h)
{
	json_t *o = json_object();
	uint64_t upto[FM_HIST_BOUNDS];

	fm_hist_upto(h, upto);
	set(o, "count", number(h->count));
	set(o, "sum_ns", number(h->sum));
	set(o, "upto", numbers(upto, FM_HIST_BOUNDS));
	return o;
}

/* For the program that hands the numbers on: its settings, and which users may see everything. */
static json_t *settings(const struct daemon *d)
{
	const struct config_metrics *m = &d->config.metrics;

	return json_pack("{s:s, s:s, s:s, s:i, s:b}", "listen", m->listen, "group", m->group,
		"access_group", d->config.access_group, "limit", (int)m->limit, "loopback_groups",
		m->loopback_groups);
}

static json_t *of_daemon(struct daemon *d, uint64_t now)
{
	const struct fm_sched *s = fm_bridge_sched(d->bridge);
	struct fm_sched_stats st;
	json_t *o = json_object();

	fm_sched_get_stats(s, &st);
	set(o, "version", json_string(FM_VERSION));
	set(o, "uid", json_integer(geteuid()));
	set(o, "system", json_boolean(d->system));
	set(o, "policy", json_string(fm_sched_policy_ops(s)->name));
	set(o, "uptime_ns", number(now - d->started));
	set(o, "clients", json_integer(d->n_sessions));
	set(o, "joined", number(d->count.joined));
	set(o, "refused", number(d->count.refused));
	set(o, "policies_dropped", number(d->count.dropped));
	set(o, "events", number(st.events));
	set(o, "decisions", number(st.decisions));
	set(o, "preemptions", number(st.preemptions));
	set(o, "gate_stores", number(st.gate_stores));
	set(o, "tasks", json_integer((json_int_t)admission_count(d)));
	report_coverage(o, fm_bridge_coverage(d->bridge));
	set(o, "react", metrics_histogram(&d->react));
	set(o, "cpu_ns", number((uint64_t)(report_cpu_ms() * FM_MS)));
	set(o, "rss_bytes", number((uint64_t)report_rss_kib() * 1024));
	set(o, "bounds_ns", numbers(fm_hist_bounds, FM_HIST_BOUNDS));
	set(o, "wait_bounds_ns", numbers(fm_wait_bounds, FM_WAIT_BOUNDS));
	set(o, "settings", settings(d));
	return o;
}

struct device_walk {
	struct page *page;
	uint64_t number;
};

static void add_device(void *arg, const struct fm_bdevice_info *i)
{
	struct device_walk *w = arg;
	struct page *p = w->page;
	json_t *o;

	if (++w->number <= p->after)
		return;
	if (json_array_size(p->items) == PAGE_ITEMS) {
		p->ends = false;
		return;
	}
	p->after = w->number;
	o = json_object();
	set(o, "device", json_string(i->key));
	set(o, "preempt", metrics_histogram(i->preempt));
	set(o, "memory_exposed_ns", number(i->exposed));
	set(o, "memory_hidden_ns", number(i->hidden));
	json_array_append_new(p->items, o);
}

/* Devices stay, so their number is their place. */
static void devices_page(struct page *p)
{
	struct device_walk w = {.page = p};

	p->ends = true;
	fm_bridge_each_device(p->daemon->bridge, add_device, &w);
}

/* By cause, in ns. */
static json_t *waited_why(const struct fm_account *a)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < FM_WAITS; i++)
		set(o, fm_wait_name((enum fm_wait)i), number(a->wait_ns[i]));
	return o;
}

/* The sum includes waits that are under way. */
static json_t *waits(const struct fm_bent_info *i)
{
	json_t *o = json_object();

	set(o, "count", number(i->account.waits));
	set(o, "sum_ns", number(report_waited(&i->account)));
	set(o, "upto", numbers(i->waits, FM_WAIT_BOUNDS));
	return o;
}

static void add_ent(void *arg, const struct fm_bent_info *i)
{
	const struct fm_account *a = &i->account;
	struct group_page *g = arg;
	json_t *o = json_object();

	set(o, "device", json_string(i->device));
	set(o, "state", json_string(report_state(i->ent.state)));
	set(o, "device_ns", number(i->device_ns));
	set(o, "charged_ns", number(i->ent.served_ns));
	set(o, "waited_why", waited_why(a));
	set(o, "waits", waits(i));
	set(o, "suspended_ns", number(a->by_hand_ns + a->over_budget_ns));
	set(o, "preemptions", number(i->ent.preemptions));
	json_array_append_new(g->devices, o);
}

static void add_memory(void *arg, const struct fm_bmemory_info *i)
{
	struct report_memory m = report_memory_sums(i);
	struct group_page *g = arg;
	json_t *o = json_object();

	set(o, "device", json_string(i->device));
	set(o, "committed", number(i->committed));
	set(o, "resident", number(m.resident));
	set(o, "host", number(i->host));
	set(o, "host_taken", number(i->host_has));
	set(o, "host_strayed", number(i->host_strayed));
	set(o, "hot", number(i->hot));
	set(o, "pinned", number(m.pinned));
	set(o, "foreign", number(m.foreign));
	if (i->limit)
		set(o, "limit", number(i->limit));
	set(o, "refused", number(i->refused));
	set(o, "missed", number(i->missed));
	set(o, "moved",
		json_pack("{s:o, s:o}", "in", number(i->came_in), "out", number(i->went_out)));
	json_array_append_new(g->memory, o);
}

static void add_process(void *arg, const struct fm_bprocess_info *i)
{
	struct group_page *g = arg;
	json_t *o;

	if (json_array_size(g->processes) == GROUP_PROCESSES) {
		g->more++;
		return;
	}
	o = json_object();
	set(o, "pid", json_integer(i->pid));
	if (i->own) {
		set(o, "program", json_string(i->comm));
		set(o, "api", json_string(i->api));
		set(o, "device_ns", number(i->device_ns));
		report_coverage(o, i->calls);
	}
	json_array_append_new(g->processes, o);
}

/* Returns how much of a page that was. */
static size_t add_group(
	struct page *p, struct fm_bridge_group *g, const struct fm_bridge_group_info *i)
{
	struct group_page parts = {
		.devices = json_array(), .memory = json_array(), .processes = json_array()};
	json_t *o = json_object();
	size_t size;

	fm_bridge_group_each_ent(g, p->now, add_ent, &parts);
	fm_bridge_group_each_memory(g, add_memory, &parts);
	fm_bridge_group_each_process(g, p->now, add_process, &parts);
	size = 1 + json_array_size(parts.devices) + json_array_size(parts.memory) +
	       json_array_size(parts.processes);
	set(o, "name", json_string(i->name));
	set(o, "uid", json_integer(i->uid));
	set(o, "suspended", json_integer(i->suspended));
	set(o, "queues", json_integer(i->queues));
	set(o, "clients", json_integer(i->clients));
	set(o, "priority", json_integer(i->hints->value[FM_HINT_PRIORITY]));
	set(o, "weight", json_integer(i->hints->value[FM_HINT_WEIGHT]));
	set(o, "share", json_integer(i->hints->value[FM_HINT_SHARE]));
	report_jobs(o, fm_bridge_group_jobs(g, p->now));
	if (i->hints->value[FM_HINT_DEADLINE] > 0)
		set(o, "deadline_ns", json_integer(i->hints->value[FM_HINT_DEADLINE]));
	set(o, "devices", parts.devices);
	set(o, "memory", parts.memory);
	if (json_array_size(parts.memory)) {
		struct fm_bridge_out_info out;

		fm_bridge_group_out_info(g, p->now, &out);
		set(o, "memory_held_ns", number(out.held));
	}
	set(o, "processes", parts.processes);
	set(o, "more_processes", json_integer(parts.more));
	json_array_append_new(p->items, o);
	return size;
}

/* What a monitor needs to know about queues: the levels in use, and a queue that names the group
 * unambiguously. */
struct queues {
	unsigned low, high, first;
};

static void look_at_queue(void *arg, const struct fm_bqueue_info *i)
{
	struct queues *q = arg;

	q->low = q->first ? FM_MIN(q->low, i->level) : i->level;
	q->high = FM_MAX(q->high, i->level);
	q->first = q->first ? FM_MIN(q->first, i->id) : i->id;
}

static void append(json_t *row, json_t *value)
{
	json_array_append_new(row, value);
}

static void add_ent_row(void *arg, const struct fm_bent_info *i)
{
	json_t *list = arg, *row = json_array();

	append(row, json_string(i->device));
	append(row, json_string(report_state(i->ent.state)));
	append(row, number(i->device_ns));
	append(row, number(report_waited(&i->account)));
	append(row, number(i->ent.preemptions));
	append(row, number(i->account.recent));
	append(row, number(i->account.recent_p50));
	append(row, number(i->account.recent_p99));
	append(list, row);
}

/* Sizes in bytes; a limit of 0 is none. */
static void add_memory_row(void *arg, const struct fm_bmemory_info *i)
{
	json_t *list = arg, *row = json_array();

	append(row, json_string(i->device));
	append(row, number(i->capacity));
	append(row, number(i->committed));
	append(row, number(report_memory_sums(i).resident));
	append(row, number(i->host));
	append(row, number(i->limit));
	append(list, row);
}

/* Rows are requested every second. So a row is an array, in the order that docs/protocol.md has: it
 * costs a quarter of what an object costs. */
static size_t add_row(
	struct page *p, struct fm_bridge_group *g, const struct fm_bridge_group_info *i)
{
	json_t *row = json_array(), *ents = json_array(), *memory = json_array();
	struct fm_bridge_group_jobs jobs = fm_bridge_group_jobs(g, p->now);
	struct queues q = {0};
	size_t size;

	fm_bridge_group_each_ent(g, p->now, add_ent_row, ents);
	fm_bridge_group_each_memory(g, add_memory_row, memory);
	fm_bridge_group_each_queue(g, look_at_queue, &q);
	size = 1 + json_array_size(ents) + json_array_size(memory);
	append(row, json_string(i->name));
	append(row, json_integer(i->uid));
	append(row, json_boolean(i->suspended));
	append(row, json_integer(i->hints->value[FM_HINT_PRIORITY]));
	append(row, json_integer(i->queues));
	append(row, i->queues ? json_sprintf("q%u", q.first) : json_null());
	append(row, json_integer(q.low));
	append(row, json_integer(q.high));
	append(row, ents);
	append(row, number(p->now));
	append(row, jobs.deadline || jobs.ended ? number(jobs.missed) : json_null());
	if (json_array_size(memory)) /* few groups have any */
		append(row, json_incref(memory));
	json_decref(memory);
	append(p->items, row);
	return size;
}

/* Groups may come and go between two pages. Their numbers rise in the order of the walk. */
static void walk_groups(struct page *p, size_t limit,
	size_t (*add)(
		struct page *p, struct fm_bridge_group *g, const struct fm_bridge_group_info *i))
{
	struct fm_bridge_group *g = NULL;
	struct fm_bridge_group_info i;
	size_t size = 0;

	while ((g = fm_bridge_group_next(p->daemon->bridge, g))) {
		if (fm_bridge_group_id(g) <= p->after)
			continue;
		if (size >= limit)
			return;
		fm_bridge_group_info(g, &i);
		p->after = i.id;
		if (peer_sees(p->peer, i.uid))
			size += add(p, g, &i);
	}
	p->ends = true;
}

static void groups_page(struct page *p)
{
	walk_groups(p, PAGE_OBJECTS, add_group);
}

static void rows_page(struct page *p)
{
	if (!p->after) {
		set(p->reply, "at_ms", ms(p->now));
		set(p->reply, "policy", report_policy(p->daemon));
		set(p->reply, "devices", report_devices(p->daemon, p->now));
	}
	walk_groups(p, PAGE_ROWS, add_row);
}

static void tasks_page(struct page *p)
{
	p->ends = admission_metrics(p->daemon, p->peer, &p->after, PAGE_ITEMS, p->items);
}

static json_t *page_reply(struct page *p, void (*fill)(struct page *p))
{
	p->reply = json_object();
	p->items = json_array();
	fill(p);
	set(p->reply, "ok", json_true());
	set(p->reply, "items", p->items);
	set(p->reply, "next", p->ends ? json_null() : number(p->after));
	return p->reply;
}

json_t *metrics_page(
	struct daemon *d, const struct peer *p, const json_t *request, struct fm_err *err)
{
	static const struct {
		const char *name;
		void (*fill)(struct page *p);
	} parts[] = {{"devices", devices_page}, {"groups", groups_page}, {"rows", rows_page},
		{"tasks", tasks_page}};
	const char *part = json_string_value(json_object_get(request, "part"));
	json_int_t after = json_integer_value(json_object_get(request, "after"));
	struct page page = {
		.daemon = d, .peer = p, .after = after > 0 ? (uint64_t)after : 0, .now = fm_now()};

	if (part && !strcmp(part, "daemon"))
		return json_pack("{s:b, s:o}", "ok", 1, "daemon", of_daemon(d, page.now));
	for (size_t i = 0; part && i < FM_ARRAY_LEN(parts); i++)
		if (!strcmp(part, parts[i].name))
			return page_reply(&page, parts[i].fill);
	fm_err_set(err, -EINVAL, "no such part of the metrics");
	fm_err_hint(err, "give \"part\": daemon, devices, groups, rows or tasks");
	return NULL;
}
