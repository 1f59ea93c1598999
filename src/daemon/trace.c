/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what happens to the recordings that may see it. */
#include "trace.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>

#define SLOW_LOOP (5 * FM_MS)

/* The limits of one step of work that grows with the number of clients. Scheduling never waits for
 * more than one step. */
#define STEP_NS    (300 * FM_US)
#define STEP_RINGS 4

static bool sees(const struct recording *r, const struct fm_bridge_group *g)
{
	return peer_sees(&r->peer, fm_bridge_group_uid(g));
}

static bool wants(const struct recording *r, const struct fm_bridge_group *g)
{
	if (!sees(r, g))
		return false;
	for (unsigned i = 0; i < r->n_groups; i++)
		if (!strcmp(r->group[i], fm_bridge_group_name(g)))
			return true;
	return !r->n_groups;
}

/* A number is explained to a recording when it first occurs there. */

static void tell(struct recording *r, const char *kind, uint32_t id, const char *text)
{
	recording_say(r,
		json_pack("{s:s, s:I, s:s}", "name", kind, "id", (json_int_t)id, "text", text), -1);
}

static uint32_t group_id(struct recording *r, struct fm_bridge_group *g)
{
	uint32_t bit = 1u << r->index, *mark;

	if (!g || !sees(r, g))
		return 0;
	mark = fm_bridge_group_mark(g);
	if (!(*mark & bit)) {
		tell(r, "group", (uint32_t)fm_bridge_group_id(g), fm_bridge_group_name(g));
		*mark |= bit;
	}
	return (uint32_t)fm_bridge_group_id(g);
}

struct introduction {
	struct recording *recording;
	uint32_t from;
};

static void introduce(void *arg, const struct fm_bdevice_info *info)
{
	struct introduction *i = arg;

	if (info->id > i->from)
		tell(i->recording, "device", info->id, info->key);
}

/* Devices are introduced in the order of their numbers, and are never removed. */
static uint32_t device_id(struct recording *r, uint32_t id)
{
	uint32_t *known = &r->tracing->devices[r->index];
	struct introduction i = {r, *known};

	if (id > *known) {
		fm_bridge_each_device(r->tracing->daemon->bridge, introduce, &i);
		*known = id;
	}
	return id;
}

static uint32_t reason_find(struct tracing *t, const char *text)
{
	struct trace_reason *new = &t->reason[t->n_reasons];

	for (unsigned i = 0; i < t->n_reasons; i++)
		if (!strncmp(t->reason[i].text, text, sizeof(new->text) - 1))
			return i + 1;
	if (t->n_reasons == TRACE_REASONS)
		return 0;
	snprintf(new->text, sizeof(new->text), "%s", text);
	return ++t->n_reasons;
}

static uint32_t reason_id(struct recording *r, const char *text)
{
	uint32_t bit = 1u << r->index, id = text ? reason_find(r->tracing, text) : 0;
	struct trace_reason *reason = &r->tracing->reason[id ? id - 1 : 0];

	if (id && !(reason->mark & bit)) {
		tell(r, "reason", id, reason->text);
		reason->mark |= bit;
	}
	return id;
}

/* Tells a client where to record, or to stop. A client that does not read its socket is told later.
 */
static void tell_client(struct trace_client *c)
{
	union fm_msg m;

	fm_msg_init(&m, FM_MSG_TRACE);
	c->due = fm_msg_send(c->sock, &m, c->viewers ? c->ring : -1) == -EAGAIN;
}

/* Gives the ring's memory back, although the client keeps the ring mapped. The ring is then as new.
 * If a thread is just writing a record, that record counts as lost. */
static void empty_ring(struct trace_client *c)
{
	c->stale = false;
	fallocate(c->ring, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		sizeof(struct fm_trace_ring));
	fm_trace_ring_label(c->ring);
}

static int open_ring(struct tracing *t, struct trace_client *c)
{
	int fd = c->ring >= 0 ? c->ring : fm_trace_ring_create();

	if (fd < 0)
		return fd;
	if (c->stale)
		empty_ring(c);
	if (c->ring < 0)
		fm_list_add_tail(&t->clients, &c->link);
	c->ring = fd;
	c->id = ++t->last_ring;
	return 0;
}

/* A client that cannot be recorded is reported as such. */
static void show_client(struct recording *r, struct trace_client *c)
{
	FM_CLEAN_FD int fd = -1;
	bool first = !c->viewers;

	if (c->viewers & 1u << r->index)
		return;
	if (!first || !open_ring(r->tracing, c))
		fd = fm_trace_ring_reader(c->ring);
	if (fd < 0) {
		recording_say(r, json_pack("{s:i}", "unrecorded", (int)c->pid), -1);
		return;
	}
	c->viewers |= 1u << r->index;
	recording_say(r,
		json_pack("{s:s, s:I, s:i, s:s}", "name", "ring", "id", (json_int_t)c->id, "pid",
			(int)c->pid, "text", c->comm),
		fd);
	if (first)
		tell_client(c);
}

static void show_queue(struct recording *r, const struct fm_bridge_note *n)
{
	const struct fm_bqueue_info *q = n->queue;

	recording_say(r,
		json_pack("{s:s, s:I, s:i, s:I, s:I, s:I, s:I, s:s}", "name", "queue", "id",
			(json_int_t)q->id, "pid", (int)q->pid, "slot", (json_int_t)q->slot, "group",
			(json_int_t)fm_bridge_group_id(n->group), "device", (json_int_t)n->device,
			"since", (json_int_t)q->since, "text", q->comm),
		-1);
	show_client(r, session_trace(q->client_ctx));
}

static void write_note(struct recording *r, const struct fm_bridge_note *n)
{
	struct fm_trace_rec rec = {
		.at = n->at,
		.event = (uint16_t)n->event,
		.slot = n->queue ? (uint16_t)n->queue->slot : FM_TRACE_NO_SLOT,
		.group = n->group ? group_id(r, n->group) : 0,
		.device = n->device ? device_id(r, n->device) : 0,
		.cause = n->cause ? group_id(r, n->cause) : 0,
		.reason = reason_id(r, n->reason),
		.arg = {n->arg[0], n->arg[1], n->arg[2]},
	};

	if (n->event == FM_EV_queue_added)
		show_queue(r, n);
	fm_trace_write(r->map, &rec);
}

/* Events of a group or queue that the recording has not been told of yet are left out: the later
 * description includes them. */
static bool is_told(const struct recording *r, const struct fm_bridge_note *n)
{
	uint64_t id = n->group ? fm_bridge_group_id(n->group) : 0;

	if (r->whole || id <= r->told.groups)
		return true;
	return n->event == FM_EV_queue_gone && id == r->told.inside &&
	       n->queue->id <= r->told.queues;
}

/* Every recording sees the decisions about a device, but the chosen group only if it may see that
 * group. */
static void note(void *ctx, const struct fm_bridge_note *n)
{
	struct daemon *d = ctx;
	struct tracing *t = d->tracing;

	for (unsigned i = 0; i < TRACE_RECORDINGS; i++) {
		struct recording *r = t->recording[i];

		if (!r || r->over || (t->only && t->only != r))
			continue;
		if (!n->group || n->event == FM_EV_decided ||
			(wants(r, n->group) && (t->only || is_told(r, n))))
			write_note(r, n);
	}
}

bool trace_on(const struct daemon *d)
{
	for (unsigned i = 0; i < TRACE_RECORDINGS; i++)
		if (d->tracing->recording[i])
			return true;
	return false;
}

void trace_note(struct daemon *d, const struct fm_bridge_note *n)
{
	if (trace_on(d))
		note(d, n);
}

/* An earlier recording may have had this index: what it knew, this one does not know. */
static void forget(struct recording *r)
{
	struct tracing *t = r->tracing;
	uint32_t others = ~(1u << r->index);
	struct fm_bridge_group *g = NULL;

	while ((g = fm_bridge_group_next(t->daemon->bridge, g)))
		*fm_bridge_group_mark(g) &= others;
	for (unsigned i = 0; i < t->n_reasons; i++)
		t->reason[i].mark &= others;
	t->devices[r->index] = 0;
}

/* The bridge is exact as long as at least one recording wants it. */
static void update_exact(struct tracing *t)
{
	bool exact = false;

	for (unsigned i = 0; i < TRACE_RECORDINGS; i++)
		exact = exact || (t->recording[i] && t->recording[i]->exact);
	fm_bridge_exact(t->daemon->bridge, exact, fm_now());
}

/* Tells a new recording how things are. Records that bear the time of its beginning describe what
 * was there before. With few groups that is everything. */
static void tell_part(struct recording *r, uint64_t at)
{
	struct daemon *d = r->tracing->daemon;
	uint64_t began = fm_now(), now = began;

	r->tracing->only = r;
	while (!r->whole && now - began < STEP_NS) {
		r->whole = !fm_bridge_note_part(d->bridge, &r->told, at);
		now = fm_now();
	}
	r->tracing->only = NULL;
	quota_spend(r->books, QUOTA_REPLIES, now - began, now);
	if (!r->whole)
		sd_event_source_set_enabled(r->tracing->work, SD_EVENT_ON);
}

/* Returns false if no recording has anything left to be told. */
static bool begin_next(struct tracing *t)
{
	for (unsigned i = 0; i < TRACE_RECORDINGS; i++) {
		struct recording *r = t->recording[t->turn++ % TRACE_RECORDINGS];

		if (!r || r->whole || r->over)
			continue;
		tell_part(r, fm_now());
		return true;
	}
	return false;
}

static bool empty_next(struct tracing *t)
{
	struct trace_client *c;
	unsigned n = 0;

	fm_list_each (c, &t->clients, link) {
		if (!c->stale)
			continue;
		if (n++ == STEP_RINGS)
			return true;
		tell_client(c);
		empty_ring(c);
	}
	return false;
}

static int on_work(sd_event_source *source, void *arg)
{
	struct tracing *t = arg;
	bool more = begin_next(t);

	more = empty_next(t) || more;
	sd_event_source_set_enabled(source, more ? SD_EVENT_ON : SD_EVENT_OFF);
	return 0;
}

void trace_begin(struct recording *r)
{
	const struct fm_bridge_tracer tracer = {.ctx = r->tracing->daemon, .note = note};
	struct tracing *t = r->tracing;
	FM_CLEAN_FD int fd = fm_trace_ring_reader(r->ring);
	uint64_t now = fm_now();

	r->over = fd < 0;
	forget(r);
	recording_say(r,
		json_pack("{s:s, s:i, s:i, s:s}", "name", "ring", "id", 0, "pid", (int)getpid(),
			"text", "fermatad"),
		fd);
	fm_bridge_tracer(t->daemon->bridge, &tracer);
	t->only = r;
	fm_bridge_note_policy(t->daemon->bridge, now);
	t->only = NULL;
	tell_part(r, now);
	update_exact(t);
}

/* If no recording is left for the client, one of the next steps tells it so and empties its ring.
 */
static void hide_client(struct tracing *t, struct trace_client *c, uint32_t bit)
{
	if (!(c->viewers & bit))
		return;
	c->viewers &= ~bit;
	c->stale = !c->viewers;
	if (c->stale)
		sd_event_source_set_enabled(t->work, SD_EVENT_ON);
}

static void end_recording(struct recording *r)
{
	const struct fm_bridge_tracer nobody = {0};
	struct tracing *t = r->tracing;
	struct daemon *d = t->daemon;
	struct trace_client *c;

	fm_list_each (c, &t->clients, link)
		hide_client(t, c, 1u << r->index);
	t->recording[r->index] = NULL;
	recording_free(r);
	if (!trace_on(d))
		fm_bridge_tracer(d->bridge, &nobody);
	update_exact(t);
}

bool trace_run(struct daemon *d)
{
	struct trace_client *c;
	bool ended = false;

	for (unsigned i = 0; i < TRACE_RECORDINGS; i++) {
		struct recording *r = d->tracing->recording[i];

		if (r && !r->over)
			recording_flush(r);
		if (r && r->over) {
			end_recording(r);
			ended = true;
		}
	}
	fm_list_each (c, &d->tracing->clients, link)
		if (c->due)
			tell_client(c);
	return ended;
}

void trace_loop(struct daemon *d, uint64_t woke_us)
{
	uint64_t now = fm_now(), took = fm_sub_sat(now, woke_us * FM_US);

	FM_PROBE(loop_slow, now, (const char *)NULL, (const char *)NULL, (const char *)NULL, took,
		0);
	if (took >= SLOW_LOOP)
		trace_note(d, &(struct fm_bridge_note){
				      .event = FM_EV_loop_slow, .at = now, .arg = {took}});
}

void trace_settings(struct daemon *d)
{
	for (unsigned i = 0; i < TRACE_RECORDINGS; i++)
		if (d->tracing->recording[i])
			peer_of(d, d->tracing->recording[i]->fd, &d->tracing->recording[i]->peer);
}

void trace_client_init(struct trace_client *c, int sock, pid_t pid, const char *comm)
{
	*c = (struct trace_client){.sock = sock, .ring = -1, .pid = pid, .comm = comm};
	fm_list_init(&c->link);
}

void trace_client_end(struct daemon *d, struct trace_client *c)
{
	for (unsigned i = 0; i < TRACE_RECORDINGS; i++)
		if (c->viewers & 1u << i)
			recording_say(d->tracing->recording[i],
				json_pack("{s:I}", "gone", (json_int_t)c->id), -1);
	fm_list_del(&c->link);
	fm_close_fd(&c->ring);
}

int trace_new(struct daemon *d)
{
	int rc;

	d->tracing = calloc(1, sizeof(*d->tracing));
	if (!d->tracing)
		return -ENOMEM;
	d->tracing->daemon = d;
	fm_list_init(&d->tracing->clients);
	rc = sd_event_add_defer(d->event, &d->tracing->work, on_work, d->tracing);
	if (rc >= 0)
		rc = sd_event_source_set_enabled(d->tracing->work, SD_EVENT_OFF);
	if (rc >= 0)
		rc = sd_event_source_set_priority(d->tracing->work, PRIORITY_CONTROL + 2);
	return rc;
}

/* Called when the bridge and the sessions are gone. */
void trace_free(struct daemon *d)
{
	if (!d->tracing)
		return;
	for (unsigned i = 0; i < TRACE_RECORDINGS; i++)
		if (d->tracing->recording[i])
			recording_free(d->tracing->recording[i]);
	if (d->tracing->fresh)
		recording_free(d->tracing->fresh);
	sd_event_source_disable_unref(d->tracing->work);
	free(d->tracing);
	d->tracing = NULL;
}
