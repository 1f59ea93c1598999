/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of replies. */
#include "report.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/user.h"
#include "reply.h"
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

struct walk {
	json_t *list;
	uint64_t now;
	const struct peer *peer;
};

static json_t *user_name(struct names *names, uid_t uid)
{
	char text[FM_USER];
	json_t *name;

	for (unsigned i = 0; i < names->n; i++)
		if (names->uid[i] == uid)
			return json_incref(names->name[i]);
	fm_user_name(FM_PASSWD, uid, text);
	name = json_string(text);
	if (name && names->n < FM_ARRAY_LEN(names->uid)) {
		names->uid[names->n] = uid;
		names->name[names->n++] = json_incref(name);
	}
	return name;
}

static json_t *pad_text(int64_t v)
{
	if (v == FM_PAD_AUTO || v == FM_PAD_DEVICE)
		return json_string(v == FM_PAD_AUTO ? "auto" : "device");
	return json_sprintf("auto:%u%%", fm_pad_percent(v));
}

static json_t *hints_object(const struct fm_hints *h)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < FM_HINT_COUNT; i++) {
		const char *name = fm_hint_name((enum fm_hint)i);
		char key[32];

		if (fm_hint_is_time((enum fm_hint)i)) {
			snprintf(key, sizeof(key), "%s_ms", name);
			set(o, key, ms((uint64_t)h->value[i]));
			continue;
		}
		if (i == FM_HINT_PAD && h->value[i] < 0) {
			set(o, name, pad_text(h->value[i]));
			continue;
		}
		snprintf(key, sizeof(key), "%s%s", name,
			fm_hint_is_size((enum fm_hint)i) ? "_bytes" : "");
		set(o, key, json_integer(h->value[i]));
	}
	return o;
}

const char *report_state(enum fm_ent_state state)
{
	static const char *const names[] = {
		[FM_ENT_IDLE] = "idle",
		[FM_ENT_READY] = "ready",
		[FM_ENT_RUNNING] = "running",
		[FM_ENT_SUSPENDED] = "suspended",
	};

	return (unsigned)state < FM_ARRAY_LEN(names) ? names[state] : "?";
}

static const char *gate_name(bool open)
{
	return open ? "open" : "closed";
}

static void add_ent(void *arg, const struct fm_bent_info *info)
{
	const struct fm_ent_info *i = &info->ent;
	struct walk *w = arg;
	json_t *o = json_object();

	set(o, "device", json_string(info->device));
	set(o, "state", json_string(report_state(i->state)));
	set(o, "gate", json_string(gate_name(i->gate_open)));
	set(o, "device_ms", ms(info->device_ns));
	set(o, "charged_ms", ms(i->served_ns));
	set(o, "wait_ms", ms(report_waited(&info->account)));
	set(o, "preemptions", number(i->preemptions));
	set(o, "reason", i->reason ? json_string(i->reason) : json_null());
	report_account(o, &info->account, w->peer);
	report_linger(o, &info->linger);
	json_array_append_new(w->list, o);
}

static json_t *levels_array(uint32_t levels)
{
	json_t *a = json_array();

	for (int level = FM_LEVEL_PENDING; level <= FM_LEVEL_RUNNING; level++)
		if (levels & (1u << level))
			json_array_append_new(a, json_integer(level));
	return a;
}

json_t *report_queue(const struct fm_bqueue_info *i)
{
	json_t *o = json_object();

	set(o, "id", json_sprintf("q%u", i->id));
	set(o, "pid", json_integer(i->pid));
	set(o, "program", json_string(i->comm));
	set(o, "api", json_string(i->api));
	set(o, "device", json_string(i->device));
	set(o, "level", json_integer(i->level));
	set(o, "levels", levels_array(i->levels));
	set(o, "submitted", number(i->begun));
	set(o, "done", number(i->done));
	set(o, "device_ms", ms(i->device_ns));
	set(o, "gates", number(i->gates));
	set(o, "held_ms", ms(i->held_ns));
	set(o, "interrupts", number(i->interrupts));
	set(o, "gate", json_string(gate_name(i->gate_open)));
	report_set(o, i);
	if (!i->pad && !i->padded_ns)
		return o;
	set(o, "pad", number(i->pad));
	set(o, "padding", number(i->padding));
	set(o, "pad_apart", json_boolean(i->pad_apart));
	set(o, "multiprocessors", number(i->sms));
	set(o, "padded_ms", ms(i->padded_ns));
	return o;
}

void report_coverage(json_t *o, struct fm_bcoverage c)
{
	set(o, "governed", number(c.governed));
	set(o, "ungoverned", number(c.ungoverned));
	set(o, "undivided", number(c.undivided));
	if (!c.images && !c.images_left)
		return;
	set(o, "images", number(c.images));
	set(o, "images_left", number(c.images_left));
	set(o, "kernels", number(c.kernels));
	set(o, "kernels_left", number(c.kernels_left));
	set(o, "images_ms", ms(c.images_ns));
}

/* Of a group that has a deadline, or had one. */
void report_jobs(json_t *o, struct fm_bridge_group_jobs j)
{
	if (!j.deadline && !j.ended)
		return;
	set(o, "deadline_jobs", number(j.ended));
	set(o, "deadline_misses", number(j.missed));
}

static json_t *calls_array(struct fm_bridge_group *g)
{
	struct fm_call calls[64];
	unsigned n = fm_bridge_group_calls(g, calls, FM_ARRAY_LEN(calls));
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++) {
		json_t *o = json_object();

		set(o, "call", json_string(calls[i].name));
		set(o, "ungoverned", number(calls[i].ungoverned));
		set(o, "undivided", number(calls[i].undivided));
		json_array_append_new(list, o);
	}
	return list;
}

json_t *report_group(struct fm_bridge_group *g, const struct fm_bridge_group_info *i,
	const struct peer *p, struct names *names, uint64_t now)
{
	struct walk ents = {json_array(), now, p};
	json_t *o = json_object();
	struct fm_bridge_away away;

	fm_bridge_group_each_ent(g, now, add_ent, &ents);
	set(o, "name", json_string(i->name));
	set(o, "id", number(i->id));
	set(o, "uid", json_integer(i->uid));
	set(o, "user", user_name(names, i->uid));
	set(o, "suspended", json_boolean(i->suspended));
	set(o, "clients", json_integer(i->clients));
	set(o, "hints", hints_object(i->hints));
	set(o, "effective_priority", json_integer(i->priority));
	report_jobs(o, fm_bridge_group_jobs(g, now));
	report_coverage(o, fm_bridge_group_coverage(g));
	set(o, "calls", calls_array(g));
	report_memory(o, g, now);
	fm_bridge_group_away(g, &away);
	if (away.wish != FM_MEM_STAY)
		set(o, "away", report_away(g, now));
	report_out(o, g, p, now);
	set(o, "devices", ents.list);
	return o;
}

static json_t *histogram_us(const struct fm_hist *h)
{
	json_t *o = json_object();

	set(o, "count", number(h->count));
	set(o, "p50", us(fm_hist_quantile(h, 0.50)));
	set(o, "p99", us(fm_hist_quantile(h, 0.99)));
	set(o, "max", us(h->max));
	return o;
}

static void add_device(void *arg, const struct fm_bdevice_info *i)
{
	const struct fm_hist *h = i->preempt;
	struct walk *w = arg;
	json_t *o = json_object();

	set(o, "key", json_string(i->key));
	set(o, "preemptions", number(h->count));
	set(o, "preempt_us", histogram_us(h));
	json_array_append_new(w->list, o);
}

json_t *report_devices(struct daemon *d, uint64_t now)
{
	struct walk w = {json_array(), now, NULL};

	fm_bridge_each_device(d->bridge, add_device, &w);
	return w.list;
}

/* Writes the value in the largest unit that loses nothing. */
static json_t *param_text(const struct fm_policy_param *p, int64_t v)
{
	bool time = !strcmp(p->unit, "ms") || !strcmp(p->unit, "us");

	if (!time)
		return json_sprintf("%" PRId64 "%s", v, p->unit);
	if (v % (int64_t)FM_MS == 0)
		return json_sprintf("%" PRId64 "ms", v / (int64_t)FM_MS);
	if (v % (int64_t)FM_US == 0)
		return json_sprintf("%" PRId64 "us", v / (int64_t)FM_US);
	return json_sprintf("%" PRId64 "ns", v);
}

/* Sets the hints that the policy reads. For a policy that does not say, nothing is set. */
static void set_reads(json_t *o, const struct fm_policy_ops *ops)
{
	json_t *list;

	if (ops->reads == FM_READS_UNTOLD)
		return;
	list = json_array();
	for (unsigned h = 0; h < FM_HINT_COUNT; h++)
		if (ops->reads & FM_READS(h))
			json_array_append_new(list, json_string(fm_hint_name((enum fm_hint)h)));
	set(o, "reads", list);
}

json_t *report_policy(const struct daemon *d)
{
	const struct fm_sched *s = fm_bridge_sched(d->bridge);
	const struct fm_policy_ops *ops = fm_sched_policy_ops(s);
	const int64_t *values = fm_sched_policy_params(s);
	json_t *o = json_object(), *params = json_object();

	for (unsigned i = 0; ops->params && ops->params[i].name; i++)
		set(params, ops->params[i].name, param_text(&ops->params[i], values[i]));
	set(o, "name", json_string(ops->name));
	set(o, "params", params);
	if (ops->by_user)
		set(o, "fair_by", json_string(fm_sched_fair_by_user(s) ? "user" : "group"));
	set_reads(o, ops);
	if (d->dropped[0])
		set(o, "dropped", json_string(d->dropped));
	return o;
}

/* Limits are given in the parameter's own unit. */
static json_t *in_unit(const struct fm_policy_param *p, int64_t v)
{
	if (!strcmp(p->unit, "ms"))
		return json_real((double)v / FM_MS);
	if (!strcmp(p->unit, "us"))
		return json_real((double)v / FM_US);
	return json_integer(v);
}

static json_t *param_object(const struct fm_policy_param *p)
{
	json_t *o = json_object();

	set(o, "name", json_string(p->name));
	set(o, "unit", json_string(p->unit));
	set(o, "help", json_string(p->help));
	set(o, "default", in_unit(p, p->def));
	set(o, "min", in_unit(p, p->min));
	set(o, "max", in_unit(p, p->max));
	return o;
}

static void add_available(json_t *list, const struct fm_policy_ops *ops)
{
	json_t *o = json_object(), *params = json_array();

	for (unsigned k = 0; ops->params && ops->params[k].name; k++)
		json_array_append_new(params, param_object(&ops->params[k]));
	set(o, "name", json_string(ops->name));
	set(o, "summary", json_string(ops->summary));
	set(o, "params", params);
	set_reads(o, ops);
	json_array_append_new(list, o);
}

struct folder {
	json_t *list;
	const struct fm_policy_ops *in_force;
};

/* A plug-in that is not in force is not started only to ask for its summary. */
static void add_file(void *arg, const char *name)
{
	const struct folder *f = arg;
	const struct fm_policy_ops ops = {.name = name,
		.summary = "a policy by users: its summary is shown when it is in force",
		.reads = FM_READS_UNTOLD};

	if (!fm_policy_find(name) && strcmp(name, f->in_force->name) != 0)
		add_available(f->list, &ops);
}

json_t *report_available(const struct daemon *d)
{
	struct folder f = {json_array(), fm_sched_policy_ops(fm_bridge_sched(d->bridge))};

	for (size_t i = 0; fm_policies[i]; i++)
		add_available(f.list, fm_policies[i]);
	if (d->plugin)
		add_available(f.list, f.in_force);
	if (d->config.folder[0])
		fm_plugin_each(d->config.folder, add_file, &f);
	return f.list;
}

json_t *report_ps(struct daemon *d, uint64_t now)
{
	json_t *o = json_object();

	set(o, "ok", json_true());
	set(o, "at_ms", ms(now));
	set(o, "policy", report_policy(d));
	set(o, "devices", report_devices(d, now));
	return o;
}

struct memory_sums {
	bool any;
	uint64_t committed, resident, host, refused, moved_out, moved_in;
};

long report_rss_kib(void)
{
	FM_CLEAN_FILE FILE *f = fopen("/proc/self/statm", "re");
	long size, resident;

	if (!f || fscanf(f, "%ld %ld", &size, &resident) != 2)
		return 0;
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

double report_cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void add_sums(void *arg, const struct fm_bmemory_info *i)
{
	struct memory_sums *s = arg;

	s->committed += i->committed;
	s->resident += report_memory_sums(i).resident;
	s->host += i->host;
	s->refused += i->refused;
	s->moved_out += i->went_out;
	s->moved_in += i->came_in;
	s->any = true;
}

/* Of the groups that there are. */
static void set_memory(json_t *o, const struct memory_sums *s)
{
	if (s->any)
		set(o, "memory",
			json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "committed_bytes",
				number(s->committed), "resident_bytes", number(s->resident),
				"host_bytes", number(s->host), "refused", number(s->refused),
				"moved_out_bytes", number(s->moved_out), "moved_in_bytes",
				number(s->moved_in)));
}

json_t *report_stats(struct daemon *d)
{
	struct memory_sums memory = {0};
	unsigned groups = 0, queues = 0;
	struct fm_bridge_group *g = NULL;
	struct fm_bridge_group_info info;
	struct fm_sched_stats st;
	json_t *o = json_object();

	while ((g = fm_bridge_group_next(d->bridge, g))) {
		fm_bridge_group_info(g, &info);
		groups++;
		queues += info.queues;
		fm_bridge_group_each_memory(g, add_sums, &memory);
	}
	fm_sched_get_stats(fm_bridge_sched(d->bridge), &st);
	set(o, "ok", json_true());
	set(o, "events", number(st.events));
	set(o, "decisions", number(st.decisions));
	set(o, "preemptions", number(st.preemptions));
	set(o, "gate_stores", number(st.gate_stores));
	set(o, "clients", json_integer(d->n_sessions));
	set(o, "groups", json_integer(groups));
	set(o, "queues", json_integer(queues));
	set(o, "devices", report_devices(d, fm_now()));
	set_memory(o, &memory);
	report_coverage(o, fm_bridge_coverage(d->bridge));
	set(o, "react_us", histogram_us(&d->react));
	set(o, "cpu_ms", json_real(report_cpu_ms()));
	set(o, "rss_kib", json_integer(report_rss_kib()));
	return o;
}
