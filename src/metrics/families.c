/* SPDX-License-Identifier: Apache-2.0 */
/* The names, and how what they name is written: one table, from which docs/metrics.md is made, too.
 */
#include "base/clock.h"
#include "base/util.h"
#include "rows.h"
#include <inttypes.h>
#include <string.h>

enum shape {
	NUMBER,
	SECONDS, /* of nanoseconds */
	RATIO,   /* of percent */
	HISTOGRAM,
	WAITS, /* a histogram by fewer bounds */
	ONE,   /* 1, with the value, a text, as a label */
	STATE, /* of a text: 1 for the one that it is, 0 for each other */
	EACH,  /* an object of numbers, each with its name as a label */
	EACH_SECONDS,
};

struct family {
	const char *name, *type;
	enum row_kind kind;
	enum shape shape;
	const char *key;   /* in the daemon's object */
	const char *label; /* further one, of the shapes that have it */
	const char *help;
};

#define COUNTER "counter"
#define GAUGE   "gauge"

static const struct family families[] = {
	{"fermata_up", GAUGE, ROW_EXPORTER, NUMBER, "up", NULL,
		"1 if the daemon is reachable; if 0, no other metric is exported."},
	{"fermata_collect_seconds", GAUGE, ROW_EXPORTER, SECONDS, "took_ns", NULL,
		"Duration of the requests to the daemon for this scrape."},
	{"fermata_left_out", GAUGE, ROW_EXPORTER, EACH, "left_out", "of",
		"Groups, processes and tasks without series of their own: beyond the limit, or "
		"of the same name."},

	{"fermata_build_info", GAUGE, ROW_DAEMON, ONE, "version", "version",
		"The version of the daemon."},
	{"fermata_policy_info", GAUGE, ROW_DAEMON, ONE, "policy", "policy",
		"The scheduling policy in force."},
	{"fermata_uptime_seconds", GAUGE, ROW_DAEMON, SECONDS, "uptime_ns", NULL,
		"Time since the daemon started."},
	{"fermata_clients", GAUGE, ROW_DAEMON, NUMBER, "clients", NULL, "Programs connected."},
	{"fermata_clients_joined_total", COUNTER, ROW_DAEMON, NUMBER, "joined", NULL,
		"Programs that joined."},
	{"fermata_refusals_total", COUNTER, ROW_DAEMON, NUMBER, "refused", NULL,
		"Refused requests of programs: to join, for a group, a queue or a hint, or a bad "
		"message."},
	{"fermata_policy_drops_total", COUNTER, ROW_DAEMON, NUMBER, "policies_dropped", NULL,
		"Policies by users that failed and were replaced by the default."},
	{"fermata_events_total", COUNTER, ROW_DAEMON, NUMBER, "events", NULL,
		"Events that the scheduler handled."},
	{"fermata_decisions_total", COUNTER, ROW_DAEMON, NUMBER, "decisions", NULL,
		"Decisions of the policy."},
	{"fermata_preemptions_total", COUNTER, ROW_DAEMON, NUMBER, "preemptions", NULL,
		"Groups stopped with work left, of all groups there have been."},
	{"fermata_gate_stores_total", COUNTER, ROW_DAEMON, NUMBER, "gate_stores", NULL,
		"Gates opened or closed."},
	{"fermata_governed_calls_total", COUNTER, ROW_DAEMON, NUMBER, "governed", NULL,
		"Calls that went through an XQueue, of all programs there have been."},
	{"fermata_ungoverned_calls_total", COUNTER, ROW_DAEMON, NUMBER, "ungoverned", NULL,
		"Calls that were not scheduled."},
	{"fermata_undivided_calls_total", COUNTER, ROW_DAEMON, NUMBER, "undivided", NULL,
		"Governed calls longer than a segment that could not be interrupted."},
	{"fermata_reaction_seconds", "histogram", ROW_DAEMON, HISTOGRAM, "react", NULL,
		"From the daemon's wake-up by a program to the gates stored."},
	{"fermata_tasks", GAUGE, ROW_DAEMON, NUMBER, "tasks", NULL, "Admitted real-time tasks."},
	{"fermata_cpu_seconds_total", COUNTER, ROW_DAEMON, SECONDS, "cpu_ns", NULL,
		"Processor time of the daemon."},
	{"fermata_resident_memory_bytes", GAUGE, ROW_DAEMON, NUMBER, "rss_bytes", NULL,
		"Memory of the daemon."},

	{"fermata_device_groups", GAUGE, ROW_DEVICE, EACH, "groups", "state",
		"Groups on the device, by state: idle, ready (has work and waits), running, "
		"suspended."},
	{"fermata_device_preemption_seconds", "histogram", ROW_DEVICE, HISTOGRAM, "preempt", NULL,
		"From the closing of a group's gates until the group has stopped."},
	{"fermata_memory_exposed_seconds_total", COUNTER, ROW_DEVICE, SECONDS, "memory_exposed_ns",
		NULL, "Time in which the device stood still because memory was missing."},
	{"fermata_memory_hidden_seconds_total", COUNTER, ROW_DEVICE, SECONDS, "memory_hidden_ns",
		NULL, "Time in which memory moved beside a group that ran."},

	{"fermata_group_device_seconds_total", COUNTER, ROW_ENTITY, SECONDS, "device_ns", NULL,
		"Device time that the group used; of all groups of a device no more than it was "
		"busy."},
	{"fermata_group_charged_seconds_total", COUNTER, ROW_ENTITY, SECONDS, "charged_ns", NULL,
		"Device time that the policy counts; hardly any while the group is alone on the "
		"device."},
	{"fermata_group_wait_seconds_total", COUNTER, ROW_ENTITY, EACH_SECONDS, "waited_why",
		"cause",
		"Time in which the group had work but not the device, by cause: policy (it chose "
		"others), nobody (it let no group run), gang (held for another device), demoted "
		"(over its budget), draining (the group before had not stopped yet), resource (a "
		"resource that it needs was not ready)."},
	{"fermata_group_wait_length_seconds", "histogram", ROW_ENTITY, WAITS, "waits", NULL,
		"Waits that ended with running; the sum also has waits that go on."},
	{"fermata_group_suspended_seconds_total", COUNTER, ROW_ENTITY, SECONDS, "suspended_ns",
		NULL, "Time in which the group was suspended, by hand or over its budget."},
	{"fermata_group_preemptions_total", COUNTER, ROW_ENTITY, NUMBER, "preemptions", NULL,
		"How often the group was stopped with work left."},
	{"fermata_group_state", GAUGE, ROW_ENTITY, STATE, "state", "state",
		"1 for the state of the group on the device, 0 for the others."},

	{"fermata_memory_committed_bytes", GAUGE, ROW_MEMORY, NUMBER, "committed", NULL,
		"Device memory that the group's programs have, counted by their own calls."},
	{"fermata_memory_resident_bytes", GAUGE, ROW_MEMORY, NUMBER, "resident", NULL,
		"What of it is on the device."},
	{"fermata_memory_host_bytes", GAUGE, ROW_MEMORY, NUMBER, "host", NULL,
		"What of it is on the host."},
	{"fermata_memory_host_taken_bytes", GAUGE, ROW_MEMORY, NUMBER, "host_taken", NULL,
		"Memory of the host that the group's programs have for what is not on the device, "
		"with copies that they keep."},
	{"fermata_memory_host_strayed_bytes", GAUGE, ROW_MEMORY, NUMBER, "host_strayed", NULL,
		"What of it is not on the device's NUMA node."},
	{"fermata_memory_hot_bytes", GAUGE, ROW_MEMORY, NUMBER, "hot", NULL,
		"What of it may move and was named by the work of the last turns; all of a program "
		"of which that is not known."},
	{"fermata_memory_pinned_bytes", GAUGE, ROW_MEMORY, NUMBER, "pinned", NULL,
		"What of it could be moved and stays on the device for a reason."},
	{"fermata_memory_foreign_bytes", GAUGE, ROW_MEMORY, NUMBER, "foreign", NULL,
		"What of it is the driver's own, which cannot be moved."},
	{"fermata_memory_limit_bytes", GAUGE, ROW_MEMORY, NUMBER, "limit", NULL,
		"The group's limit, if it has one."},
	{"fermata_memory_refused_total", COUNTER, ROW_MEMORY, NUMBER, "refused", NULL,
		"Allocations that a limit refused."},
	{"fermata_memory_missed_total", COUNTER, ROW_MEMORY, NUMBER, "missed", NULL,
		"How often memory was used that nothing had named, while it ran from the host."},
	{"fermata_memory_moved_bytes_total", COUNTER, ROW_MEMORY, EACH, "moved", "direction",
		"Memory copied to the host (out) and back (in)."},

	{"fermata_memory_held_seconds_total", COUNTER, ROW_GROUP, SECONDS, "memory_held_ns", NULL,
		"Time in which the group had work and waited for its memory, which was out."},
	{"fermata_group_suspended", GAUGE, ROW_GROUP, NUMBER, "suspended", NULL,
		"1 if the group is suspended, by hand or over its budget."},
	{"fermata_group_priority", GAUGE, ROW_GROUP, NUMBER, "priority", NULL,
		"The hint priority."},
	{"fermata_group_weight", GAUGE, ROW_GROUP, NUMBER, "weight", NULL, "The hint weight."},
	{"fermata_group_share_ratio", GAUGE, ROW_GROUP, RATIO, "share", NULL,
		"The hint share; 0: none."},
	{"fermata_group_deadline_seconds", GAUGE, ROW_GROUP, SECONDS, "deadline_ns", NULL,
		"The hint deadline, if there is one."},
	{"fermata_group_deadline_jobs_total", COUNTER, ROW_GROUP, NUMBER, "deadline_jobs", NULL,
		"Jobs of the group that ended while it had the hint deadline: stretches in which "
		"it had work, or was inside a declared segment."},
	{"fermata_group_deadline_misses_total", COUNTER, ROW_GROUP, NUMBER, "deadline_misses", NULL,
		"Jobs that took longer than the hint, including the job under way."},
	{"fermata_group_queues", GAUGE, ROW_GROUP, NUMBER, "queues", NULL, "XQueues."},
	{"fermata_group_processes", GAUGE, ROW_GROUP, NUMBER, "clients", NULL, "Processes."},

	{"fermata_process_device_seconds_total", COUNTER, ROW_PROCESS, SECONDS, "device_ns", NULL,
		"Device time that the process used, on all devices: its part of what its groups "
		"used."},
	{"fermata_process_governed_calls_total", COUNTER, ROW_PROCESS, NUMBER, "governed", NULL,
		"Calls of the process that went through an XQueue."},
	{"fermata_process_ungoverned_calls_total", COUNTER, ROW_PROCESS, NUMBER, "ungoverned", NULL,
		"Calls of the process that were not scheduled."},
	{"fermata_process_undivided_calls_total", COUNTER, ROW_PROCESS, NUMBER, "undivided", NULL,
		"Governed calls longer than a segment that could not be interrupted."},

	{"fermata_task_jobs_total", COUNTER, ROW_TASK, NUMBER, "jobs", NULL,
		"Jobs of the task that ended."},
	{"fermata_task_deadline_misses_total", COUNTER, ROW_TASK, NUMBER, "violations", NULL,
		"Jobs that were seen to end after the task's deadline."},
	{"fermata_task_overruns_total", COUNTER, ROW_TASK, NUMBER, "overruns", NULL,
		"Periods in which the task used more of the device than it declared."},
	{"fermata_task_response_seconds", "histogram", ROW_TASK, HISTOGRAM, "response", NULL,
		"Response times of the jobs."},
	{"fermata_task_deadline_seconds", GAUGE, ROW_TASK, SECONDS, "deadline_ns", NULL,
		"The deadline that the task declared."},
	{"fermata_task_period_seconds", GAUGE, ROW_TASK, SECONDS, "period_ns", NULL,
		"The period that the task declared."},
	{"fermata_task_bound_seconds", GAUGE, ROW_TASK, SECONDS, "bound_ns", NULL,
		"The bound of the response time for which the task was admitted."},
	{"fermata_task_budget_seconds", GAUGE, ROW_TASK, SECONDS, "budget_ns", NULL,
		"Device time that the task may use in a period."},
};

struct out {
	FILE *f;
	const struct family *family;
	const struct row *row;
	bool titled; /* HELP and TYPE are written */
};

/* The name, and the labels with one more. */
static void begin(struct out *o, const char *suffix, const char *label, const char *value)
{
	const char *labels = o->row->labels;

	if (!o->titled)
		fprintf(o->f, "# HELP %s %s\n# TYPE %s %s\n", o->family->name, o->family->help,
			o->family->name, o->family->type);
	o->titled = true;
	fprintf(o->f, "%s%s", o->family->name, suffix);
	if (!*labels && !label)
		return;
	fprintf(o->f, "{%s%s", labels, *labels && label ? "," : "");
	if (label)
		fm_label(o->f, label, *value ? value : "?");
	fputc('}', o->f);
}

/* Exactly, whatever the locale. */
static void put_seconds(FILE *f, json_int_t ns)
{
	uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	fprintf(f, " %s%" PRIu64, ns < 0 ? "-" : "", n / FM_S);
	if (n % FM_S)
		fprintf(f, ".%09" PRIu64, n % FM_S);
	fputc('\n', f);
}

static void put(struct out *o, const json_t *value, enum shape shape)
{
	json_int_t n = json_integer_value(value);

	if (shape == SECONDS)
		put_seconds(o->f, n);
	else if (shape == RATIO)
		put_seconds(o->f, n * (json_int_t)(FM_S / 100));
	else
		fprintf(o->f, " %" JSON_INTEGER_FORMAT "\n", n);
}

static void write_histogram(struct out *o, const json_t *h, const json_t *bounds)
{
	const json_t *upto = json_object_get(h, "upto");
	json_int_t count = json_integer_value(json_object_get(h, "count"));

	if (!json_is_object(h))
		return;
	for (size_t i = 0; i < json_array_size(bounds) && i < json_array_size(upto); i++) {
		json_int_t ns = json_integer_value(json_array_get(bounds, i));
		char le[32];

		snprintf(le, sizeof(le), "%g", (double)ns / FM_S);
		begin(o, "_bucket", "le", le);
		put(o, json_array_get(upto, i), NUMBER);
	}
	begin(o, "_bucket", "le", "+Inf");
	fprintf(o->f, " %" JSON_INTEGER_FORMAT "\n", count);
	begin(o, "_sum", NULL, NULL);
	put(o, json_object_get(h, "sum_ns"), SECONDS);
	begin(o, "_count", NULL, NULL);
	fprintf(o->f, " %" JSON_INTEGER_FORMAT "\n", count);
}

static void write_state(struct out *o, const char *is)
{
	static const char *const states[] = {"idle", "ready", "running", "suspended"};

	for (size_t i = 0; is && i < FM_ARRAY_LEN(states); i++) {
		begin(o, "", o->family->label, states[i]);
		fprintf(o->f, " %d\n", !strcmp(is, states[i]));
	}
}

static void write_each(struct out *o, json_t *object, enum shape shape)
{
	const char *name;
	json_t *value;

	json_object_foreach (object, name, value) {
		begin(o, "", o->family->label, name);
		put(o, value, shape);
	}
}

/* What the daemon does not tell, for it is older, is left out. */
static void write_row(struct out *o, const struct fm_rows *r)
{
	json_t *value = json_object_get(o->row->of, o->family->key);

	if (!value)
		return;
	switch (o->family->shape) {
	case NUMBER:
	case SECONDS:
	case RATIO:
		begin(o, "", NULL, NULL);
		put(o, value, o->family->shape);
		break;
	case HISTOGRAM:
		write_histogram(o, value, r->bounds);
		break;
	case WAITS:
		write_histogram(o, value, r->wait_bounds);
		break;
	case ONE:
		if (json_is_string(value)) {
			begin(o, "", o->family->label, json_string_value(value));
			fputs(" 1\n", o->f);
		}
		break;
	case STATE:
		write_state(o, json_string_value(value));
		break;
	case EACH:
		write_each(o, value, NUMBER);
		break;
	case EACH_SECONDS:
		write_each(o, value, SECONDS);
		break;
	}
}

static bool shown(const struct fm_view *view, enum row_kind kind, uid_t uid)
{
	if (kind < ROW_GROUP || view->all)
		return true;
	return !view->nobody && view->uid == uid;
}

void fm_rows_write(const struct fm_rows *r, const struct fm_view *view, FILE *f)
{
	for (size_t k = 0; k < FM_ARRAY_LEN(families); k++) {
		const struct rows_list *l = &r->list[families[k].kind];
		struct out o = {.f = f, .family = &families[k]};

		for (size_t i = 0; i < l->n; i++) {
			o.row = &l->row[i];
			if (shown(view, families[k].kind, o.row->uid))
				write_row(&o, r);
		}
	}
}

void fm_metrics_list(FILE *f)
{
	fputs("| metric | type | labels | meaning |\n|---|---|---|---|\n", f);
	for (size_t k = 0; k < FM_ARRAY_LEN(families); k++) {
		const struct family *m = &families[k];
		const char *labels = row_labels(m->kind);

		fprintf(f, "| `%s` | %s | %s%s%s | %s |\n", m->name, m->type, labels,
			*labels && m->label ? " " : "", m->label ? m->label : "", m->help);
	}
}
