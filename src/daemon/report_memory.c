/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the device memory of a group. If memory is short, members are missing. */
#include "board/ledger.h"
#include "daemon.h"
#include "machine.h"
#include "reply.h"

/* Kinds of which the group has nothing are left out. */
static json_t *kinds_object(const struct fm_bmemory_info *i)
{
	json_t *o = json_object();

	for (unsigned k = 0; k < FM_MEM_KINDS; k++)
		if (i->kind[k])
			set(o, fm_mem_kind_name((enum fm_mem_kind)k), number(i->kind[k]));
	return o;
}

static uint64_t pinned(const struct fm_bmemory_info *i)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < FM_MEM_KINDS; k++)
		sum = fm_add_sat(sum, fm_mem_pinned((enum fm_mem_kind)k) ? i->kind[k] : 0);
	return sum;
}

struct report_memory report_memory_sums(const struct fm_bmemory_info *i)
{
	uint64_t movable = i->kind[FM_MEM_MOVABLE], held = pinned(i);
	struct report_memory m = {.movable = movable, .pinned = held};

	m.foreign = fm_sub_sat(i->committed, fm_add_sat(movable, held));
	m.resident = fm_add_sat(FM_MIN(i->resident, movable), fm_add_sat(held, m.foreign));
	return m;
}

static void set_trouble(json_t *o, uint32_t trouble)
{
	if (trouble == FM_MEM_FINE)
		return;
	set(o, "trouble", json_string(fm_mem_trouble_text((enum fm_mem_trouble)trouble)));
	set(o, "remedy", json_string(fm_mem_trouble_remedy((enum fm_mem_trouble)trouble)));
}

/* A time from now on; null: not foreseen. */
static json_t *ms_or_null(uint64_t ns)
{
	return ns == FM_NEVER ? json_null() : ms(ns);
}

struct rows {
	json_t *list;
	uint64_t now;
};

static void add_memory(void *arg, const struct fm_bmemory_info *i)
{
	struct report_memory m = report_memory_sums(i);
	struct rows *rows = arg;
	json_t *o = json_object();

	set(o, "device", json_string(i->device));
	set(o, "capacity_bytes", number(i->capacity));
	set(o, "managed", json_boolean(i->managed));
	set(o, "early_start", json_boolean(i->early));
	set(o, "committed_bytes", number(i->committed));
	set(o, "movable_bytes", number(m.movable));
	set(o, "pinned_bytes", number(m.pinned));
	set(o, "foreign_bytes", number(m.foreign));
	set(o, "kinds", kinds_object(i));
	set(o, "resident_bytes", number(m.resident));
	set(o, "host_bytes", number(i->host));
	set(o, "mapped_bytes", number(i->mapped));
	set(o, "host_taken_bytes", number(i->host_has));
	set(o, "host_strayed_bytes", number(i->host_strayed));
	set(o, "numa_node", i->node < 0 ? json_null() : json_integer(i->node));
	set(o, "hot_bytes", i->hot_unknown ? json_null() : number(i->hot));
	set(o, "peak_bytes", number(i->peak));
	set(o, "limit_bytes", i->limit ? number(i->limit) : json_null());
	set(o, "request_bytes", number(i->request));
	set(o, "refused", number(i->refused));
	set(o, "moved_out_bytes", number(i->went_out));
	set(o, "moved_in_bytes", number(i->came_in));
	set(o, "kept_bytes", number(i->kept));
	set(o, "exchanged_bytes", number(i->exchanged));
	set(o, "missed", number(i->missed));
	if (i->missed) {
		set(o, "missed_by", json_string(i->by_write ? "content" : "time"));
		set(o, "missed_cure", json_string(i->all_came ? "all" : "named"));
	}
	set(o, "next_turn_ms",
		ms_or_null(i->turn == FM_NEVER ? FM_NEVER : fm_sub_sat(i->turn, rows->now)));
	if (i->lies)
		set(o, "untrue", json_true());
	set_trouble(o, i->trouble);
	json_array_append_new(rows->list, o);
}

static const char *wish_name(enum fm_mem_wish wish)
{
	return wish == FM_MEM_OUT ? "out" : wish == FM_MEM_IN ? "in" : "stay";
}

static void find_stopped(void *arg, const struct fm_bprocess_info *i)
{
	pid_t *stopped = arg;

	if (!*stopped && machine_is_stopped(i->pid))
		*stopped = i->pid;
}

/* A process that is stopped says nothing of why its memory does not move. */
static void add_stopped(
	json_t *o, struct fm_bridge_group *g, const struct fm_bridge_away *a, uint64_t now)
{
	uint64_t left = a->wish == FM_MEM_OUT ? a->resident : a->host;
	pid_t stopped = 0;

	if (a->wish == FM_MEM_STAY || a->trouble || !left)
		return;
	fm_bridge_group_each_process(g, now, find_stopped, &stopped);
	if (!stopped)
		return;
	set(o, "stopped", json_integer(stopped));
	set(o, "trouble",
		json_sprintf("process %d is stopped, by a signal or a debugger", (int)stopped));
	set(o, "remedy", json_sprintf("kill -CONT %d", (int)stopped));
}

json_t *report_away(struct fm_bridge_group *g, uint64_t now)
{
	struct fm_bridge_group_info info;
	struct fm_bridge_away a;
	json_t *o;

	fm_bridge_group_info(g, &info);
	fm_bridge_group_away(g, &a);
	o = json_pack("{s:s, s:s, s:b, s:b, s:i, s:o, s:o, s:o, s:o, s:o, s:s, s:s}", "group",
		info.name, "wish", wish_name(a.wish), "suspended", info.suspended, "goes_on",
		a.goes_on, "processes", (int)a.processes, "movable", number(a.movable), "resident",
		number(a.resident), "host", number(a.host), "stays", number(a.stays), "pinned",
		number(a.pinned), "trouble", fm_mem_trouble_text(a.trouble), "remedy",
		fm_mem_trouble_remedy(a.trouble));
	if (o)
		add_stopped(o, g, &a, now);
	return o;
}

/* Whose budget leaves the host no room for what is to go out. */
static json_t *report_host_short(const struct fm_bridge_host_short *s, const struct peer *p)
{
	static const char *const by[] = {[FM_HOST_FREE] = "none",
		[FM_HOST_USER] = "user",
		[FM_HOST_NODE] = "node",
		[FM_HOST_ALL] = "all",
		[FM_HOST_LEFT] = "machine"};
	json_t *o = json_object();

	set(o, "by", json_string(by[s->by]));
	set(o, "bytes", number(s->bytes));
	set(o, "limit_bytes", number(s->limit));
	set(o, "node", s->node < 0 ? json_null() : json_integer(s->node));
	set(o, "uid", peer_sees(p, s->uid) ? json_integer((json_int_t)s->uid) : json_null());
	return o;
}

/* Why the memory is not where the group could use it. Nothing is set for one that has it. */
void report_out(json_t *group, const struct fm_bridge_group *g, const struct peer *p, uint64_t now)
{
	static const char *const why[] = {[FM_OUT_NOT] = "not",
		[FM_OUT_HAND] = "by hand",
		[FM_OUT_IDLE] = "idle",
		[FM_OUT_DEMAND] = "demand"};
	struct fm_bridge_out_info i;
	bool hidden;
	json_t *o;

	fm_bridge_group_out_info(g, now, &i);
	if (i.why == FM_OUT_NOT && !i.apart)
		return;
	hidden = *i.cause && !peer_sees(p, i.cause_uid);
	o = json_object();
	set(o, "why", json_string(why[i.why]));
	set(o, "moving", json_boolean(i.moving));
	set(o, "waits_ms", ms(i.held_for));
	set(o, "for", *i.cause && !hidden ? json_string(i.cause) : json_null());
	set(o, "hidden", json_boolean(hidden));
	set(o, "stuck", json_boolean(i.apart));
	set(o, "missing_bytes", number(i.missing));
	set(o, "movable_bytes", number(i.movable));
	set(o, "bytes_per_second", i.rate ? number(i.rate) : json_null());
	set(o, "in_ms", ms_or_null(i.in));
	set(o, "together", json_integer(i.together));
	set(o, "over_bytes", number(i.over));
	if (i.host.bytes)
		set(o, "host_short", report_host_short(&i.host, p));
	set(group, "out", o);
}

static void report_pins(json_t *group, const struct fm_bridge_group *g)
{
	struct fm_mem_pin pins[FM_BPINS];
	unsigned n = fm_bridge_group_pins(g, pins);
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s}", "kind", fm_mem_kind_name(pins[i].kind),
				      "what", pins[i].what, "by", pins[i].by));
	if (n)
		set(group, "pins", list);
	else
		json_decref(list);
}

/* Kernels by how far their templates are trusted, files that were not read, and pointers by form.
 */
static void report_foretold(json_t *group, const struct fm_bridge_group *g)
{
	static const char *const name[] = {
#define NAME(id, name) [id] = name,
		FM_MEM_FORETOLD_MAP(NAME)
#undef NAME
	};
	uint64_t n[FM_MEM_FORETOLDS];
	json_t *o, *pointers;

	if (!fm_bridge_group_foretold(g, n))
		return;
	o = json_object();
	pointers = json_object();
	for (unsigned i = 0; i < FM_MEM_FORETOLDS; i++)
		set(i < FM_FORETOLD_ANY ? o : pointers, name[i], number(n[i]));
	set(o, "pointers", pointers);
	set(group, "templates", o);
}

void report_memory(json_t *group, struct fm_bridge_group *g, uint64_t now)
{
	struct rows rows = {json_array(), now};

	report_pins(group, g);
	report_foretold(group, g);

	fm_bridge_group_each_memory(g, add_memory, &rows);
	if (json_array_size(rows.list))
		set(group, "memory", rows.list);
	else
		json_decref(rows.list);
}
