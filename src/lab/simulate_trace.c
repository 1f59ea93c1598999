/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate_trace.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "trace/file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM    4096 /* records of a chunk */
#define REASONS 256  /* further ones are not named */
#define REASON  128

enum { RING_CORE, RING_DEVICES, RINGS }; /* also their processes */

struct simulate_trace {
	const struct simulate_names *names;
	struct outfile *out;
	FILE *f;    /* its */
	int failed; /* errno of the first write that failed */
	uint64_t written[RINGS];
	unsigned reasons;
	char reason[REASONS][REASON];
};

/* A text of the core. The record may outlive it. */
struct reason {
	const char *at;
	char text[REASON];
};

struct simulate_trace_part {
	struct simulate_trace *t;
	struct simulate_turn *turn;
	uint32_t device, devices; /* to be named: this many from this one on */
	unsigned reasons, last, n[RINGS];
	struct reason reason[REASONS]; /* records of the part refer to these by number, from 1 */
	struct fm_trace_rec rec[RINGS][ROOM];
};

static void name(struct simulate_trace *t, enum fm_trace_kind kind, uint32_t id, const char *text)
{
	const struct fm_trace_name n = {
		.kind = (uint32_t)kind, .id = id, .pid = kind == FM_TN_RING ? (int32_t)id : 0};

	fm_trace_file_name(t->f, &n, text);
}

static uint32_t reason_of_file(struct simulate_trace *t, const char *text)
{
	for (unsigned i = 0; i < t->reasons; i++)
		if (!strcmp(t->reason[i], text))
			return i + 1;
	if (t->reasons == REASONS)
		return 0;
	strcpy(t->reason[t->reasons++], text);
	name(t, FM_TN_REASON, t->reasons, text);
	return t->reasons;
}

/* The settings in force at the beginning. */
static void write_in_force(
	struct simulate_trace *t, enum fm_trace_event what, const char *of, uint64_t value)
{
	struct fm_trace_rec r = {.event = (uint16_t)what,
		.slot = FM_TRACE_NO_SLOT,
		.position = t->written[RING_CORE]++,
		.arg = {value}};
	char text[REASON];

	snprintf(text, sizeof(text), "%s", of);
	r.reason = reason_of_file(t, text);
	fm_trace_file_records(t->f, RING_CORE, 0, &r, 1);
}

static int write_head(struct simulate_trace *t, struct fm_err *err)
{
	const struct fm_sim_plan *plan = t->names->plan;
	const struct fm_policy_param *p = plan->policy->params;
	int64_t value[FM_POLICY_PARAMS];
	int rc = fm_policy_parse(plan->policy, plan->params, plan->n_params, value, err);

	if (rc)
		return rc;
	fm_trace_file_begin(t->f, 0, 0);
	name(t, FM_TN_RING, RING_CORE, "simulation");
	name(t, FM_TN_RING, RING_DEVICES, "devices");
	write_in_force(t, FM_EV_policy, plan->policy->name, 0);
	for (unsigned i = 0; p && p[i].name; i++)
		write_in_force(t, FM_EV_setting, p[i].name, (uint64_t)value[i]);
	write_in_force(t, FM_EV_setting, "linger", plan->linger);
	return 0;
}

int simulate_trace_open(struct simulate_trace **out, const struct simulate_names *names,
	struct outfile *to, struct fm_err *err)
{
	struct simulate_trace *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return fm_err_set(err, -ENOMEM, "out of memory");
	t->names = names;
	t->out = to;
	t->f = to->f;
	rc = write_head(t, err);
	if (rc)
		simulate_trace_close(t, false, NULL);
	else
		*out = t;
	return rc;
}

int simulate_trace_close(struct simulate_trace *t, bool whole, struct fm_err *err)
{
	int rc = 0;

	if (!t)
		return 0;
	if (whole)
		fm_trace_file_end(t->f, FM_TE_ASKED);
	errno = t->failed;
	if (whole || ferror(t->f))
		rc = outfile_close(t->out, whole, err);
	else
		outfile_drop(t->out);
	free(t);
	return rc;
}

struct simulate_trace_part *simulate_trace_part(
	struct simulate_trace *t, struct simulate_turn *turn)
{
	struct simulate_trace_part *p = malloc(sizeof(*p)); /* unused memory is not touched */

	if (!p)
		return NULL;
	p->t = t;
	p->turn = turn;
	p->reasons = p->last = p->devices = 0;
	memset(p->n, 0, sizeof(p->n));
	return p;
}

static void name_queue(struct simulate_trace *t, const struct fm_trace_rec *r)
{
	const struct fm_trace_name n = {.kind = FM_TN_QUEUE,
		.id = (uint32_t)r->arg[0],
		.pid = RING_DEVICES,
		.slot = r->slot,
		.group = r->group,
		.device = r->device,
		.since = r->at};
	char text[SIMULATE_NAME];

	fm_trace_file_name(t->f, &n, simulate_group_name(t->names, r->group, text));
}

/* Names are in front of the first record that needs them. */
static void write_names(struct simulate_trace_part *p)
{
	struct simulate_trace *t = p->t;
	uint32_t reason[REASONS];
	char text[SIMULATE_NAME];

	for (; p->devices; p->devices--, p->device++)
		name(t, FM_TN_DEVICE, p->device, simulate_device_name(t->names, p->device, text));
	for (unsigned i = 0; i < p->reasons; i++)
		reason[i] = reason_of_file(t, p->reason[i].text);
	for (unsigned i = 0; i < p->n[RING_CORE]; i++) {
		struct fm_trace_rec *r = &p->rec[RING_CORE][i];

		r->reason = r->reason ? reason[r->reason - 1] : 0;
		if (r->event == FM_EV_joined)
			name(t, FM_TN_GROUP, r->group,
				simulate_group_name(t->names, r->group, text));
		else if (r->event == FM_EV_queue_added && r->slot != FM_TRACE_NO_SLOT)
			name_queue(t, r);
	}
}

static void write_ring(struct simulate_trace_part *p, unsigned ring)
{
	struct simulate_trace *t = p->t;

	for (unsigned i = 0; i < p->n[ring]; i++)
		p->rec[ring][i].position = t->written[ring]++;
	if (p->n[ring])
		fm_trace_file_records(t->f, ring, 0, p->rec[ring], p->n[ring]);
	p->n[ring] = 0;
}

static void write_part(struct simulate_trace_part *p)
{
	struct simulate_trace *t = p->t;

	simulate_turn_wait(p->turn);
	errno = 0;
	write_names(p);
	for (unsigned ring = 0; ring < RINGS; ring++)
		write_ring(p, ring);
	if (!t->failed && ferror(t->f))
		t->failed = errno;
}

int simulate_trace_part_end(struct simulate_trace_part *p)
{
	int rc;

	write_part(p);
	rc = ferror(p->t->f) ? -EIO : 0;
	free(p);
	return rc;
}

static uint32_t keep_reason(struct simulate_trace_part *p, const char *text)
{
	struct reason *r;

	if (!text)
		return 0;
	if (p->last && p->reason[p->last - 1].at == text)
		return p->last;
	for (p->last = 1; p->last <= p->reasons; p->last++)
		if (p->reason[p->last - 1].at == text)
			return p->last;
	if (p->reasons == REASONS)
		return p->last = 0;
	r = &p->reason[p->reasons++];
	r->at = text;
	snprintf(r->text, sizeof(r->text), "%s", text);
	return p->last;
}

static struct fm_trace_rec *add(
	struct simulate_trace_part *p, unsigned ring, enum fm_trace_event what, uint64_t at)
{
	struct fm_trace_rec *r;

	if (p->n[ring] == ROOM)
		write_part(p);
	r = &p->rec[ring][p->n[ring]++];
	*r = (struct fm_trace_rec){.at = at, .event = (uint16_t)what, .slot = FM_TRACE_NO_SLOT};
	return r;
}

static uint32_t group_id(
	const struct simulate_trace_part *p, uint32_t machine, uint32_t group, uint32_t instance)
{
	return group == FM_SIM_NOBODY ? 0
				      : simulate_group_id(p->t->names, machine, group, instance);
}

static struct fm_trace_rec *add_core(
	struct simulate_trace_part *p, enum fm_trace_event what, const struct fm_sim_event *e)
{
	struct fm_trace_rec *r = add(p, RING_CORE, what, e->at);

	r->group = group_id(p, e->machine, e->group, e->instance);
	r->cause = group_id(p, e->machine, e->cause, e->cause_instance);
	if (e->device != FM_SIM_NO_DEVICE)
		r->device = simulate_device_id(p->t->names, e->machine, e->device);
	r->reason = keep_reason(p, e->reason);
	return r;
}

/* As the core knows it. pending: one command, or none. */
static struct fm_trace_rec *add_ent(
	struct simulate_trace_part *p, enum fm_trace_event what, const struct fm_sim_event *e)
{
	struct fm_trace_rec *r = add_core(p, what, e);
	struct fm_ent_info info = {.state = FM_ENT_IDLE};

	if (e->sent)
		fm_sched_ent_info(e->sent, e->at, &info);
	r->arg[0] = info.state != FM_ENT_IDLE;
	r->arg[1] = info.served_ns;
	return r;
}

static void note_decision(struct simulate_trace_part *p, const struct fm_sim_event *e)
{
	struct fm_trace_rec *r = add_core(p, FM_EV_decided, e);
	struct fm_decision c;

	fm_sched_dev_decision(e->sdev, &c);
	r->reason = keep_reason(p, c.reason);
	r->arg[0] = c.chosen;
	r->arg[1] = c.ready;
	r->arg[2] = c.all;
}

/* Queues with large numbers have none, so their segments are left out. */
static uint16_t slot_of(uint32_t queue)
{
	return queue < FM_TRACE_NO_SLOT ? (uint16_t)queue : FM_TRACE_NO_SLOT;
}

/* The k-th queue of a group: the device of the machine that it is on. */
static uint32_t place(const struct simulate_trace_part *p, const struct fm_sim_event *e, uint32_t k)
{
	const struct fm_sim_plan *plan = p->t->names->plan;

	return fm_sim_place(plan, &plan->group[e->group], e->instance + k);
}

static void note_queue(struct simulate_trace_part *p, const struct fm_sim_event *e, uint32_t k,
	enum fm_trace_event what)
{
	const struct simulate_names *names = p->t->names;
	uint32_t device = place(p, e, k), which;
	uint32_t section = fm_sim_device_at(names->plan, device, &which);
	struct fm_trace_rec *r = add_core(p, what, e);

	r->device = simulate_device_id(names, e->machine, device);
	r->arg[0] = simulate_queue_id(names, e->machine, e->group, e->instance, k);
	r->arg[1] = RING_DEVICES;
	if (what == FM_EV_queue_added)
		r->arg[2] = (2u << names->plan->device[section].level) - 2; /* bits from 1 on */
	r->slot = slot_of((uint32_t)r->arg[0]);
}

static void note_hints(struct simulate_trace_part *p, const struct fm_sim_event *e)
{
#define HINT_DEFAULT(id, word, min, max, def, unit) [id] = def,
	static const int64_t defaults[] = {FM_HINT_MAP(HINT_DEFAULT)};
#undef HINT_DEFAULT
	const struct fm_hints *hints = &p->t->names->plan->group[e->group].hints;

	for (unsigned h = 0; h < FM_HINT_COUNT; h++) {
		struct fm_trace_rec *r;

		if (hints->value[h] == defaults[h])
			continue;
		r = add_core(p, FM_EV_hint, e);
		r->arg[0] = h;
		r->arg[1] = (uint64_t)hints->value[h];
	}
}

/* A gang has one on each of its devices. */
static void note_member(struct simulate_trace_part *p, const struct fm_sim_event *e)
{
	bool joins = e->what == FM_SIM_JOINS;
	uint32_t queues = simulate_queues(p->t->names, e->group);

	if (joins) {
		add_core(p, FM_EV_joined, e)->arg[0] = RING_DEVICES;
		note_hints(p, e);
	}
	for (uint32_t k = 0; k < queues; k++)
		note_queue(p, e, k, joins ? FM_EV_queue_added : FM_EV_queue_gone);
	if (!joins)
		add_core(p, FM_EV_left, e)->arg[0] = RING_DEVICES;
}

static void note_end_of_job(struct simulate_trace_part *p, const struct fm_sim_event *e)
{
	struct fm_trace_rec *r = add_core(p, FM_EV_job_ended, e);

	r->arg[0] = e->ns;
	r->arg[1] = e->deadline;
	if (!e->deadline || e->ns <= e->deadline)
		return;
	r = add_core(p, FM_EV_deadline_missed, e);
	r->arg[0] = e->ns;
	r->arg[1] = e->deadline;
}

static void note_idle(struct simulate_trace_part *p, const struct fm_sim_event *e)
{
	struct fm_trace_rec *r = add_ent(p, FM_EV_idle, e);
	struct fm_linger linger;

	fm_sched_ent_linger(e->sent, &linger);
	r->arg[0] = 0;
	r->arg[2] = linger.keeps_ns;
}

/* The device has worked for it. The queue tells which of a gang's devices this is. */
static void note_stretch(struct simulate_trace_part *p, const struct fm_sim_event *e)
{
	const struct simulate_names *names = p->t->names;
	const struct fm_sim_group *g = &names->plan->group[e->group];
	uint32_t queues = simulate_queues(names, e->group), k = 0;
	struct fm_trace_rec *r;
	uint16_t slot;

	if (g->everywhere)
		k = (fm_sim_offset(names->plan, g, e->device) + queues - e->instance % queues) %
		    queues;
	slot = slot_of(simulate_queue_id(names, e->machine, e->group, e->instance, k));
	if (slot == FM_TRACE_NO_SLOT)
		return;
	r = add(p, RING_DEVICES, FM_EV_segment_done, e->at);
	r->slot = slot;
	r->arg[0] = e->nth;
	r->arg[1] = e->commands;
	r->arg[2] = e->at - e->since;
}

static void note_there(struct simulate_trace_part *p, const struct fm_sim_event *e)
{
	if (!p->devices++)
		p->device = simulate_device_id(p->t->names, e->machine, e->device);
}

void simulate_trace_note(struct simulate_trace_part *p, const struct fm_sim_event *e)
{
	struct fm_trace_rec *r;

	switch (e->what) {
	case FM_SIM_THERE:
		note_there(p, e);
		break;
	case FM_SIM_JOINS:
	case FM_SIM_LEAVES:
		note_member(p, e);
		break;
	case FM_SIM_ARRIVES:
		add_core(p, FM_EV_job_arrived, e);
		break;
	case FM_SIM_DROPS:
		add_core(p, FM_EV_job_dropped, e);
		break;
	case FM_SIM_ENDS:
		note_end_of_job(p, e);
		break;
	case FM_SIM_HINTED:
		r = add_core(p, FM_EV_hint, e);
		r->arg[0] = e->nth;
		r->arg[1] = e->ns;
		break;
	case FM_SIM_READY:
		add_ent(p, FM_EV_ready, e)->arg[0] = 1;
		break;
	case FM_SIM_IDLE:
		note_idle(p, e);
		break;
	case FM_SIM_OPENS:
	case FM_SIM_CLOSES:
		add_ent(p, e->what == FM_SIM_OPENS ? FM_EV_gate_opened : FM_EV_gate_closed, e)
			->arg[2] = 1;
		break;
	case FM_SIM_RESTS:
		add_ent(p, FM_EV_stalled, e)->arg[0] = e->ns;
		break;
	case FM_SIM_STOPS:
		note_stretch(p, e);
		break;
	case FM_SIM_DECIDED:
		note_decision(p, e);
		break;
	default:
		break;
	}
}
