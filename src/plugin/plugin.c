/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in as a table of operations for the core. Of what its process answers everything is
 * checked here. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "internal.h"
#include <errno.h>
#include <fermata/policy.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define NEXT_MIN  (100 * FM_US)
#define AT_ONCE   7u /* so often that becomes twice as long */
#define TEXTS_MAX 256
/* An answer may take the budget now and then; on the average no more than this part of it. */
#define AVERAGE_PART 4
#define AVERAGE_OF   64
#define WARN_WITHIN  (60 * FM_S)
#define LATE_AGAIN   (500 * FM_MS) /* so long after an answer was late its absence counts again */

/* Reasons of answers outlive the plug-in: the core keeps them. So they are kept for ever, so many.
 */
static const char *text_of(const char *text)
{
	static char texts[TEXTS_MAX][WIRE_REASON];
	static unsigned n;

	for (unsigned i = 0; i < n; i++)
		if (!strcmp(texts[i], text))
			return texts[i];
	if (n == TEXTS_MAX)
		return "by a policy of users";
	strcpy(texts[n], text);
	return texts[n++];
}

static void put(
	struct instance *in, enum wire_type type, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct fm_plugin *p = in->p;
	struct wire_event *ev;

	if (p->failure[0])
		return;
	if (type != WIRE_CHARGE && type != WIRE_DECIDE)
		in->at_once = 0;
	ev = process_event(p);
	ev->type = type;
	ev->device = in->device;
	ev->now = now;
	ev->ns = ns;
	if (!e)
		return;
	ev->slot = ((struct member *)e->priv)->slot;
	ev->id = e->id;
	ev->ready = e->ready;
	ev->running = e->running;
	ev->ready_since = e->ready_since;
	ev->served_ns = e->served_ns;
	memcpy(ev->value, e->hints->value, sizeof(ev->value));
}

static void on_bind(void *self, void *data)
{
	((struct instance *)self)->p = data;
}

static int on_init(void *self, const int64_t *params)
{
	struct instance *in = self;
	struct fm_plugin *p = in->p;
	struct wire_reply r;
	struct wire_event *ev;
	int rc = -EIO;

	fm_list_init(&in->ready);
	in->device = p->n_devices++;
	if (!p->failure[0]) {
		ev = process_event(p);
		ev->type = WIRE_INIT;
		ev->device = in->device;
		memcpy(ev->value, params, FM_POLICY_PARAMS * sizeof(*params));
		rc = process_ask(p, FM_PLUGIN_LOAD, false, &r);
	}
	return p->adopted ? 0 : rc;
}

static uint32_t take_slot(struct fm_plugin *p)
{
	uint32_t slot = p->free_slot, want;
	struct slot *more;

	if (slot != NO_SLOT) {
		p->free_slot = p->slots[slot].next_free;
		return slot;
	}
	want = FM_MAX(2 * p->n_slots, 64u);
	more = realloc(p->slots, want * sizeof(*more));
	if (!more)
		return NO_SLOT;
	p->slots = more;
	for (uint32_t i = p->n_slots; i < want; i++)
		more[i] = (struct slot){.next_free = i + 1 < want ? i + 1 : NO_SLOT};
	slot = p->n_slots;
	p->n_slots = want;
	p->free_slot = more[slot].next_free;
	return slot;
}

static int on_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct instance *in = self;
	struct member *m = e->priv;

	m->slot = take_slot(in->p);
	if (m->slot == NO_SLOT)
		return -ENOMEM;
	m->ent = e;
	fm_list_init(&m->node);
	in->p->slots[m->slot] = (struct slot){.ent = e, .device = in->device};
	put(in, WIRE_JOIN, e, 0, now);
	return 0;
}

static void on_leave(void *self, struct fm_ent *e, uint64_t now)
{
	struct instance *in = self;
	struct member *m = e->priv;
	struct fm_plugin *p = in->p;

	put(in, WIRE_LEAVE, e, 0, now);
	p->slots[m->slot] = (struct slot){.next_free = p->free_slot};
	p->free_slot = m->slot;
}

static void on_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct instance *in = self;

	fm_list_add_tail(&in->ready, &((struct member *)e->priv)->node);
	put(in, WIRE_READY, e, 0, now);
}

static void on_idle(void *self, struct fm_ent *e, uint64_t now)
{
	fm_list_del(&((struct member *)e->priv)->node);
	put(self, WIRE_IDLE, e, 0, now);
}

static void on_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	put(self, WIRE_CHARGE, e, ns, now);
}

static void on_hint(void *self, struct fm_ent *e, uint64_t now)
{
	put(self, WIRE_HINT, e, 0, now);
}

/* What is wrong with the answer, or NULL. */
static const char *fault(struct instance *in, const struct wire_reply *r)
{
	struct fm_plugin *p = in->p;

	if (r->all > 1 || r->n > FM_RUN_MAX)
		return "it chose more groups than an answer holds";
	for (unsigned i = 0; i < r->n && !r->all; i++) {
		struct slot *s = r->run[i] < p->n_slots ? &p->slots[r->run[i]] : NULL;

		if (!s || !s->ent || s->device != in->device)
			return "it chose a group that is not on the device";
		if (!s->ent->ready)
			return "it chose a group that has no work";
		if (s->mark == r->serial)
			return "it chose a group twice";
		s->mark = r->serial;
	}
	if (!r->all && !r->n && r->next == FM_NEVER && !fm_list_empty(&in->ready))
		return "it never lets a group run";
	return NULL;
}

__attribute__((format(printf, 2, 3))) static void late(struct fm_plugin *p, const char *fmt, ...)
{
	uint64_t now = fm_now(), *oldest = &p->warned[0];
	unsigned recent = 0;
	char what[80];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	p->late_at = now;
	for (unsigned i = 0; i < PLUGIN_WARNINGS; i++) {
		recent += p->warned[i] && now - p->warned[i] < WARN_WITHIN;
		oldest = p->warned[i] < *oldest ? &p->warned[i] : oldest;
	}
	if (recent == PLUGIN_WARNINGS || p->n_warnings == PLUGIN_WARNINGS) {
		process_fail(p, "%s, after %d warnings within a minute", what, PLUGIN_WARNINGS);
		return;
	}
	*oldest = now;
	snprintf(p->warning[p->n_warnings++], sizeof(p->warning[0]),
		"%s; warning %u of %d within a minute, after which it is dropped", what, recent + 1,
		PLUGIN_WARNINGS);
}

static void no_answer(struct fm_plugin *p)
{
	late(p, "it gave no answer within %llu us", (unsigned long long)(p->budget_ns / FM_US));
}

enum asked { ANSWERED, LATE, FAILED };

/* While it owes an answer it is not waited for: the daemon has other things to do. */
static enum asked ask_late(struct fm_plugin *p)
{
	if (process_caught_up(p))
		return ANSWERED;
	if (!p->failure[0] && fm_now() - p->late_at >= LATE_AGAIN)
		no_answer(p);
	return p->failure[0] ? FAILED : LATE;
}

/* *took: how long the answer was waited for. Time that is virtual knows no late answers. */
static enum asked ask(struct instance *in, uint64_t now, struct wire_reply *r, uint64_t *took)
{
	struct fm_plugin *p = in->p;
	uint64_t begin = fm_now();
	enum asked owes = ask_late(p);
	const char *wrong;
	int rc;

	if (owes != ANSWERED)
		return owes;
	put(in, WIRE_DECIDE, NULL, 0, now);
	rc = p->failure[0] ? -EIO : process_ask(p, p->budget_ns, !p->replay, r);
	if (rc == -ETIMEDOUT)
		no_answer(p);
	if (rc)
		return p->failure[0] ? FAILED : LATE;
	*took = fm_now() - begin;
	p->average_ns += *took / AVERAGE_OF;
	p->average_ns -= p->average_ns / AVERAGE_OF;
	wrong = fault(in, r);
	if (wrong) {
		process_fail(p, "%s", wrong);
	} else if (p->average_ns > p->budget_ns / AVERAGE_PART) {
		late(p, "its answers take %llu us on the average",
			(unsigned long long)(p->average_ns / FM_US));
		p->average_ns = 0;
	}
	return p->failure[0] ? FAILED : ANSWERED;
}

/* The daemon's timer comes before its sockets: they must have their part. And who wishes to be
 * asked again at once each time, though nothing has happened, is asked ever less often. */
static uint64_t rest_after(struct instance *in, uint64_t next, uint64_t now, uint64_t took)
{
	uint64_t rest = FM_MAX(took, NEXT_MIN << in->at_once);

	in->at_once = next <= now ? FM_MIN(in->at_once + 1, AT_ONCE) : 0;
	return now + took + rest;
}

static void on_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct instance *in = self;
	struct fm_plugin *p = in->p;
	struct wire_reply r;
	uint64_t took;
	enum asked asked = ask(in, now, &r, &took);

	if (asked == ANSWERED) {
		took = p->replay ? 0 : took;
		choice->all = r.all;
		choice->n = r.all ? 0 : r.n;
		for (unsigned i = 0; i < choice->n; i++)
			choice->run[i] = p->slots[r.run[i]].ent;
		choice->next = FM_MAX(r.next, rest_after(in, r.next, now, took));
		choice->reason = text_of(r.reason[0] ? r.reason : p->name);
		return;
	}
	choice->reason = asked == LATE ? "the policy is late" : "the policy has failed";
	if (asked == LATE)
		choice->next = now + FM_MAX(p->budget_ns, FM_MS);
	if (!fm_list_empty(&in->ready))
		choice->run[choice->n++] = fm_list_first(&in->ready, struct member, node)->ent;
}

static bool always(const void *self)
{
	return true;
}

static const struct fm_policy_ops table = {
	.size = sizeof(struct instance),
	.ent_size = sizeof(struct member),
	.bind = on_bind,
	.init = on_init,
	.join = on_join,
	.leave = on_leave,
	.ready = on_ready,
	.idle = on_idle,
	.charge = on_charge,
	.hint = on_hint,
	.decide = on_decide,
};

static bool take_setting(struct wire_setting *w, struct fm_policy_param *out)
{
	process_clean(w->name, sizeof(w->name));
	process_clean(w->unit, sizeof(w->unit));
	process_clean(w->help, sizeof(w->help));
	*out = (struct fm_policy_param){w->name, w->unit, w->help, w->min, w->max, w->def};
	return fm_plugin_name_ok(w->name) && w->min <= w->def && w->def <= w->max;
}

static int introduce(struct fm_plugin *p, struct fm_err *err)
{
	bool good = p->hello.n <= FM_POLICY_PARAMS;

	process_clean(p->hello.summary, sizeof(p->hello.summary));
	for (unsigned i = 0; good && i < p->hello.n; i++)
		good = take_setting(&p->hello.setting[i], &p->param[i]);
	if (!good)
		return fm_err_set(err, -EINVAL,
			"policy %s: a setting's name or limits make no sense", p->name);
	p->ops = table;
	p->ops.name = p->name;
	p->ops.summary = p->hello.summary;
	p->ops.params = p->param;
	p->ops.data = p;
	p->ops.reads = FM_READS_UNTOLD;
	p->ops.exact_jobs = p->hello.flags & FM_POLICY_EXACT_JOBS;
	p->ops.binds_alone = p->hello.flags & FM_POLICY_BINDS_ALONE ? always : NULL;
	return 0;
}

int fm_plugin_open(struct fm_plugin **out, const struct fm_plugin_source *src, const char *name,
	struct fm_err *err)
{
	FM_CLEAN_FD int object = fm_plugin_file(src->folder, name, err);
	struct fm_plugin *p;
	int rc;

	if (object < 0)
		return object;
	p = calloc(1, sizeof(*p));
	if (!p)
		return fm_err_set(err, -ENOMEM, "out of memory");
	p->free_slot = NO_SLOT;
	p->fd = -1;
	p->budget_ns = src->budget_ns;
	p->replay = src->replay;
	strcpy(p->name, name); /* fm_plugin_file() has looked at its length */
	rc = process_start(p, src->host, object, err);
	if (!rc)
		rc = introduce(p, err);
	if (rc) {
		fm_plugin_close(p);
		fm_err_hint(err,
			"build it against this version; <fermata/policy.h> says what it must hold");
		return rc;
	}
	*out = p;
	return 0;
}

void fm_plugin_close(struct fm_plugin *p)
{
	if (!p)
		return;
	process_end(p);
	free(p->slots);
	free(p);
}

const struct fm_policy_ops *fm_plugin_ops(const struct fm_plugin *p)
{
	return &p->ops;
}

void fm_plugin_adopted(struct fm_plugin *p)
{
	p->adopted = true;
}

bool fm_plugin_warning(struct fm_plugin *p, char text[FM_PLUGIN_WARNING])
{
	if (!p || !p->n_warnings)
		return false;
	snprintf(text, FM_PLUGIN_WARNING, "%s", p->warning[0]);
	memmove(p->warning, p->warning[1], --p->n_warnings * sizeof(p->warning[0]));
	return true;
}

const char *fm_plugin_failure(const struct fm_plugin *p)
{
	return p && p->failure[0] ? p->failure : NULL;
}
