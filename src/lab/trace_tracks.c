/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a timeline shows. Each device is a process. It has a track for the groups that the policy
 * has chosen, one for each group, and two for each queue: its segments, and its stops; of a queue
 * that is a set of tasks, also one for each task. One more process is the daemon, with the requests
 * of people and programs.
 */
#include "trace_tracks.h"
#include "base/clock.h"
#include "base/util.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DAEMON_PID   1
#define FIRST_TID    100
#define READY_MARK   FM_US /* at most: a ready edge is drawn as a slice of this length */
#define SHARE_WINDOW (5 * FM_MS)

static uint64_t key_of(enum track_kind kind, uint32_t a, uint32_t b)
{
	return (uint64_t)kind << 60 ^ (uint64_t)a << 28 ^ b ^ UINT64_C(1) << 59;
}

static struct track *slot_of(struct track *table, size_t cap, uint64_t key)
{
	size_t i = key * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (cap - 1);

	while (table[i].key && table[i].key != key)
		i = (i + 1) & (cap - 1);
	return &table[i];
}

static bool make_room(struct timeline *t)
{
	size_t cap = t->cap ? 2 * t->cap : 256;
	struct track *more;

	if (t->cap && 2 * (t->n + 1) < t->cap)
		return true;
	more = calloc(cap, sizeof(*more));
	if (!more)
		return false;
	for (size_t i = 0; i < t->cap; i++)
		if (t->track[i].key)
			*slot_of(more, cap, t->track[i].key) = t->track[i];
	free(t->track);
	t->track = more;
	t->cap = cap;
	return true;
}

static struct track *find(struct timeline *t, enum track_kind kind, uint32_t a, uint32_t b)
{
	struct track *track = t->cap ? slot_of(t->track, t->cap, key_of(kind, a, b)) : NULL;

	return track && track->key ? track : NULL;
}

static const char *text_of(
	const struct timeline *t, enum fm_trace_kind kind, uint32_t id, const char *none)
{
	const struct fm_trace_file_name *n = id ? fm_trace_file_find(t->file, kind, id) : NULL;

	return n ? n->text : none;
}

/* Makes it at its first use. Pointers from before this call may be invalid. NULL: out of memory. */
static struct track *get(
	struct timeline *t, enum track_kind kind, uint32_t a, uint32_t b, const char *name)
{
	struct track *track = find(t, kind, a, b);

	if (track)
		return track;
	if (!make_room(t)) {
		t->failed = true;
		return NULL;
	}
	track = slot_of(t->track, t->cap, key_of(kind, a, b));
	*track = (struct track){
		.key = key_of(kind, a, b),
		.pid = kind == TRACK_DAEMON ? DAEMON_PID : DAEMON_PID + b,
		.tid = (unsigned)(FIRST_TID + t->n++),
		.id = a,
	};
	if (kind == TRACK_DEVICE)
		json_name_track(t, track, text_of(t, FM_TN_DEVICE, b, "a device"), true);
	if (kind == TRACK_DAEMON)
		json_name_track(t, track, "fermatad", true);
	json_name_track(t, track, name, false);
	return track;
}

static struct track *device_track(struct timeline *t, uint32_t device)
{
	return get(t, TRACK_DEVICE, 0, device, "device: choice of the policy");
}

static struct track *group_track(struct timeline *t, uint32_t group, uint32_t device)
{
	char name[FM_TRACE_TEXT + 16];

	snprintf(name, sizeof(name), "group %s", text_of(t, FM_TN_GROUP, group, "?"));
	/* The device's own comes first. */
	return device_track(t, device) ? get(t, TRACK_GROUP, group, device, name) : NULL;
}

static struct track *queue_track(struct timeline *t, const struct trace_view *v, bool stops)
{
	char name[FM_TRACE_TEXT + 64];

	if (!v->queue_id || !group_track(t, v->group_id, v->device_id))
		return NULL;
	snprintf(name, sizeof(name), "queue q%u %s: %s", v->queue_id, v->program,
		stops ? "stops" : "segments");
	return get(t, stops ? TRACK_STOPS : TRACK_QUEUE, v->queue_id, v->device_id, name);
}

/* Slices of one track follow each other. One that would overlap begins later. */
static void draw(struct timeline *t, struct track *track, struct draw d)
{
	uint64_t end = fm_add_sat(d.at, FM_MAX(d.took, UINT64_C(1)));

	d.at = FM_MAX(d.at, track->drawn_to);
	if (d.at >= end)
		return;
	d.took = end - d.at;
	d.track = track;
	track->drawn_to = end;
	json_slice(t, &d);
}

static const char *state_name(struct timeline *t, const struct track *track, char *buf, size_t size)
{
	static const char *const names[] = {
		[SHOWS_RUN] = "runs",
		[SHOWS_STOP] = "stopping",
		[SHOWS_WAIT] = "waits",
		[SHOWS_GATE] = "stands at a gate",
		[SHOWS_MIDDLE] = "stands in a command",
	};

	if (track->state == SHOWS_CHOICE)
		snprintf(buf, size, "%s", text_of(t, FM_TN_GROUP, track->id, "another user's"));
	else if (track->withheld && track->state != SHOWS_RUN)
		snprintf(buf, size, "%s",
			track->state == SHOWS_STOP ? "stopping: withheld" : "withheld");
	else if (track->cause && track->state != SHOWS_RUN)
		snprintf(buf, size, "%s for %s", names[track->state],
			text_of(t, FM_TN_GROUP, track->cause, "another"));
	else
		snprintf(buf, size, "%s", names[track->state]);
	return buf;
}

/* A mark within the slice, so that an arrow begins at something that shows the reason. */
static void mark_ready(struct timeline *t, struct track *track, uint64_t at, uint64_t took)
{
	if (track->marked)
		json_slice(t, &(struct draw){.track = track,
				      .at = at,
				      .took = FM_MIN(took, READY_MARK),
				      .name = "ready"});
	track->marked = false;
}

/* From `at` on the track shows something else. */
static void turn(struct timeline *t, struct track *track, enum track_state state, uint64_t at)
{
	char name[2 * FM_TRACE_TEXT];
	uint64_t since = track->since;

	if (track->state && at > since) {
		draw(t, track,
			(struct draw){
				.at = since,
				.took = at - since,
				.name = state_name(t, track, name, sizeof(name)),
				.reason = text_of(t, FM_TN_REASON, track->reason, ""),
				.cause = text_of(t, FM_TN_GROUP, track->cause, ""),
			});
		mark_ready(t, track, since, at - since);
	}
	track->state = state;
	track->since = FM_MAX(at, track->drawn_to);
}

static enum track_state group_state(const struct track *g)
{
	if (!g->works)
		return SHOWS_NOTHING;
	if (!g->closed)
		return SHOWS_RUN;
	return g->draining ? SHOWS_STOP : SHOWS_WAIT;
}

static bool more_arrows(struct timeline *t)
{
	size_t cap = t->arrows_cap ? 2 * t->arrows_cap : 256;
	struct arrow *more = reallocarray(t->arrow, cap, sizeof(*more));

	t->failed = t->failed || !more;
	t->arrow = more ? more : t->arrow;
	t->arrows_cap = more ? cap : t->arrows_cap;
	return more;
}

/* The arrow begins where one group wanted to run, and ends where the other came to rest. */
static void draw_arrow(struct timeline *t, struct track *victim, uint32_t device, uint64_t at)
{
	const struct track *cause = find(t, TRACK_GROUP, victim->cause, device);

	if (!victim->cause || !cause || !cause->wants_at || cause->wants_at > at)
		return;
	if (t->n_arrows == t->arrows_cap && !more_arrows(t))
		return;
	t->arrow[t->n_arrows++] = (struct arrow){victim->pid, cause->tid, victim->tid,
		cause->wants_at, at, text_of(t, FM_TN_REASON, victim->reason, "")};
}

static void count(struct timeline *t, struct track *g, const struct trace_view *v)
{
	const struct fm_trace_rec *r = v->rec;
	uint64_t served = r->arg[1];

	if (r->event != FM_EV_stalled)
		json_counter(t, g, r->at, "commands under way:", v->group, "commands",
			r->event == FM_EV_idle ? 0 : (double)r->arg[0]);
	if (!g->counts) {
		g->sampled_at = r->at;
		g->sampled = served;
		g->counts = true;
		return;
	}
	if (r->at < g->sampled_at + SHARE_WINDOW)
		return;
	json_counter(t, g, g->sampled_at, "share of the device:", v->group, "percent",
		100.0 * (double)fm_sub_sat(served, g->sampled) / (double)(r->at - g->sampled_at));
	g->sampled_at = r->at;
	g->sampled = served;
}

static void on_ready(struct timeline *t, struct track *g, const struct trace_view *v)
{
	const struct track *device = find(t, TRACK_DEVICE, 0, v->device_id);

	if (g->works)
		return;
	g->works = true;
	g->wants_at = v->rec->at;
	if (g->closed && device && device->chosen != v->group_id)
		g->cause = device->chosen;
}

static void on_closed(struct track *g, const struct trace_view *v)
{
	g->closed = true;
	g->draining = g->works;
	g->cause = v->rec->cause;
	g->reason = v->rec->reason;
}

static void on_opened(struct track *g, const struct trace_view *v)
{
	g->closed = g->draining = false;
	g->cause = 0;
	g->reason = v->rec->reason;
}

/* What a group does on a device. */
static void group_event(struct timeline *t, const struct trace_view *v)
{
	struct track *g = group_track(t, v->group_id, v->device_id);
	uint64_t at = v->rec->at;
	enum track_state next;
	struct track before;
	bool marked, rests;

	if (!g)
		return;
	before = *g;
	if (v->rec->event == FM_EV_ready)
		on_ready(t, g, v);
	else if (v->rec->event == FM_EV_gate_closed)
		on_closed(g, v);
	else if (v->rec->event == FM_EV_gate_opened)
		on_opened(g, v);
	else
		g->draining = false;
	if (v->rec->event == FM_EV_idle)
		g->works = false;
	marked = g->works && !before.works;
	rests = before.draining && v->rec->event == FM_EV_stalled;
	next = group_state(g);
	if (next != before.state || next == SHOWS_WAIT) {
		struct track now = *g;

		/* The slice that ends now had the previous reasons. */
		g->cause = before.cause;
		g->reason = before.reason;
		turn(t, g, next, at);
		g->cause = now.cause;
		g->reason = now.reason;
	}
	if (marked) {
		g->marked = true;
		g->wants_at = g->since;
	}
	if (rests) {
		g->wants_at = g->since;
		draw_arrow(t, g, v->device_id, g->since);
	}
	count(t, g, v);
}

static void on_decided(struct timeline *t, const struct trace_view *v)
{
	struct track *d = device_track(t, v->device_id);
	bool somebody = v->rec->arg[0] > 0;

	if (!d)
		return;
	if (d->chosen == v->group_id && (d->state == SHOWS_CHOICE) == somebody) {
		d->reason = v->rec->reason;
		return;
	}
	turn(t, d, somebody ? SHOWS_CHOICE : SHOWS_NOTHING, v->rec->at);
	d->id = d->chosen = v->group_id;
	d->reason = v->rec->reason;
}

/* Events of no device: requests of people and programs, and the state of the daemon. */
static void daemon_event(struct timeline *t, const struct trace_view *v)
{
	struct track *track = get(t, TRACK_DAEMON, 0, 0, "what was asked of the daemon");
	char name[2 * FM_TRACE_TEXT];

	if (!track)
		return;
	snprintf(name, sizeof(name), "%s%s%s", v->info->name, *v->group ? " " : "", v->group);
	json_instant(t, &(struct draw){.track = track,
				.at = v->rec->at,
				.name = name,
				.reason = v->reason,
				.args = v});
}

/* Suspended by hand: shown in the track where it waits. */
static void on_withheld(struct timeline *t, const struct trace_view *v, bool withheld)
{
	for (size_t i = 0; i < t->cap; i++) {
		struct track *g = &t->track[i];

		if (g->key >> 60 == TRACK_GROUP && g->id == v->group_id)
			g->withheld = withheld;
	}
	daemon_event(t, v);
}

static void queue_segment(struct timeline *t, const struct trace_view *v)
{
	struct track *q = queue_track(t, v, false);
	uint64_t took = v->rec->arg[2];
	char name[48];

	if (!q)
		return;
	snprintf(name, sizeof(name), "%" PRIu64 " commands", v->rec->arg[1]);
	draw(t, q,
		(struct draw){
			.at = fm_sub_sat(v->rec->at, took), .took = took, .name = name, .args = v});
}

static void queue_stop(struct timeline *t, const struct trace_view *v, enum track_state state)
{
	struct track *q = queue_track(t, v, true);

	if (!q || (q->state == SHOWS_MIDDLE && state == SHOWS_GATE) || q->state == state)
		return;
	turn(t, q, state, v->rec->at);
}

#define TASK_BITS 10 /* of the number of a task (FM_GPU_TASKS_MAX); the rest is its queue's */

static struct track *task_track(struct timeline *t, const struct trace_view *v)
{
	char name[FM_TRACE_TEXT + 64];
	uint32_t task = (uint32_t)v->rec->arg[0] & ((1u << TASK_BITS) - 1);

	if (!v->queue_id || !group_track(t, v->group_id, v->device_id))
		return NULL;
	snprintf(name, sizeof(name), "queue q%u %s: task %u", v->queue_id, v->program, task);
	return get(t, TRACK_TASK, v->queue_id << TASK_BITS | task, v->device_id, name);
}

static void task_event(struct timeline *t, const struct trace_view *v)
{
	struct track *track = task_track(t, v);
	uint64_t pending = v->rec->arg[v->rec->event == FM_EV_task_completed ? 2 : 1];

	if (!track)
		return;
	if (v->rec->event == FM_EV_task_began)
		turn(t, track, SHOWS_RUN, v->rec->at);
	else if (v->rec->event == FM_EV_task_completed)
		turn(t, track, pending ? SHOWS_WAIT : SHOWS_NOTHING, v->rec->at);
	else if (v->rec->event == FM_EV_task_stands ||
		 (v->rec->event == FM_EV_task_released && track->state == SHOWS_NOTHING))
		turn(t, track, SHOWS_WAIT, v->rec->at);
	else if (v->rec->event == FM_EV_task_missed)
		json_instant(t, &(struct draw){.track = track,
					.at = v->rec->at,
					.name = "missed its deadline",
					.args = v});
}

static void queue_hold(struct timeline *t, const struct trace_view *v)
{
	struct track *q = queue_track(t, v, true);
	uint64_t took = v->rec->arg[0];

	if (q)
		draw(t, q,
			(struct draw){.at = fm_sub_sat(v->rec->at, took),
				.took = took,
				.name = "holds a caller",
				.args = v});
}

static void queue_depth(struct timeline *t, const struct trace_view *v)
{
	struct track *q = queue_track(t, v, false);
	char name[48];

	if (!q)
		return;
	snprintf(name, sizeof(name), "q%u %.31s", v->queue_id, v->program);
	json_counter(t, q, v->rec->at, "queue depth:", name, "commands", (double)v->rec->arg[1]);
}

static void memory_counter(struct timeline *t, const struct trace_view *v)
{
	struct track *track = get(t, TRACK_DAEMON, 0, 0, "what was asked of the daemon");

	if (track)
		json_counter(t, track, v->rec->at, "memory on the device:", v->program, "GiB",
			(double)v->rec->arg[2] / (1 << 30));
}

void timeline_record(struct timeline *t, const struct trace_view *v)
{
	t->end = FM_MAX(t->end, v->rec->at);
	switch ((enum fm_trace_event)v->rec->event) {
	case FM_EV_ready:
	case FM_EV_idle:
	case FM_EV_gate_closed:
	case FM_EV_gate_opened:
	case FM_EV_stalled:
		group_event(t, v);
		return;
	case FM_EV_decided:
		on_decided(t, v);
		return;
	case FM_EV_suspended:
	case FM_EV_resumed:
		on_withheld(t, v, v->rec->event == FM_EV_suspended);
		return;
	case FM_EV_segment_done:
		queue_segment(t, v);
		return;
	case FM_EV_gate_placed:
	case FM_EV_gates_passed:
		queue_depth(t, v);
		return;
	case FM_EV_rested:
		queue_stop(t, v, SHOWS_GATE);
		return;
	case FM_EV_interrupted:
		queue_stop(t, v, SHOWS_MIDDLE);
		return;
	case FM_EV_went_on:
	case FM_EV_restored:
		queue_stop(t, v, SHOWS_NOTHING);
		return;
	case FM_EV_hold_end:
		queue_hold(t, v);
		return;
	case FM_EV_task_released:
	case FM_EV_task_began:
	case FM_EV_task_stands:
	case FM_EV_task_completed:
	case FM_EV_task_missed:
		task_event(t, v);
		return;
	case FM_EV_segment_sealed:
	case FM_EV_hold_begin:
	case FM_EV_queue_added:
	case FM_EV_queue_gone:
	case FM_EV_memory_share:
	case FM_EV_memory_reached:
		return; /* shown by others */
	case FM_EV_memory_moved:
		memory_counter(t, v);
		return;
	case FM_EV_job_arrived:
	case FM_EV_job_ended:
		return; /* too many; late jobs have events of their own */
	default:
		daemon_event(t, v);
	}
}

void timeline_begin(struct timeline *t)
{
	get(t, TRACK_DAEMON, 0, 0, "what was asked of the daemon");
}

static void tell_lost(struct timeline *t)
{
	const struct track *track = find(t, TRACK_DAEMON, 0, 0);
	char name[FM_TRACE_TEXT + 64];

	for (size_t i = 0; track && i < t->file->n_rings; i++) {
		const struct fm_trace_file_ring *r = &t->file->rings[i];

		if (!r->lost)
			continue;
		snprintf(name, sizeof(name), "%" PRIu64 " records of %s (pid %d) were lost",
			r->lost, r->program, (int)r->pid);
		json_instant(t, &(struct draw){.track = track, .at = t->end, .name = name});
	}
}

void timeline_end(struct timeline *t)
{
	for (size_t i = 0; i < t->cap; i++)
		if (t->track[i].key && t->track[i].state)
			turn(t, &t->track[i], SHOWS_NOTHING, t->end);
	for (size_t i = 0; i < t->n_arrows; i++)
		json_flow(t, i);
	tell_lost(t);
}

void timeline_free(struct timeline *t)
{
	free(t->arrow);
	free(t->track);
}
