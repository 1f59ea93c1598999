/* SPDX-License-Identifier: Apache-2.0 */
/* Reports where a group's time on a device went. If memory is short, members are missing. */
#include "daemon.h"
#include "reply.h"

/* NULL: no group, or a group that the peer may not see. */
static json_t *who_object(const struct fm_who *w, const struct peer *p, uint64_t ns)
{
	json_t *o = json_object();

	if (w && peer_sees(p, w->uid)) {
		set(o, "group", json_string(w->name));
		set(o, "id", number(w->id));
		set(o, "user", json_integer(w->uid));
	} else {
		set(o, "group", json_null());
	}
	set(o, "ms", ms(ns));
	return o;
}

/* Groups that the peer does not see are among the others. */
static json_t *waited_for(const struct fm_account *a, const struct peer *p)
{
	uint64_t others = a->others_ns;
	json_t *list = json_array();

	for (unsigned i = 0; i < a->n_culprits; i++) {
		const struct fm_culprit *c = &a->culprit[i];

		if (peer_sees(p, c->who->uid))
			json_array_append_new(list, who_object(c->who, p, c->ns));
		else
			others += c->ns;
	}
	if (others)
		json_array_append_new(list, who_object(NULL, p, others));
	return list;
}

static json_t *waited_why(const struct fm_account *a)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < FM_WAITS; i++)
		if (a->wait_ns[i])
			set(o, fm_wait_name((enum fm_wait)i), ms(a->wait_ns[i]));
	return o;
}

/* Null: it does not wait. */
static json_t *waiting(const struct fm_account *a, const struct peer *p)
{
	json_t *o;

	if (!a->waiting)
		return json_null();
	o = who_object(a->holder, p, a->waiting_ns);
	set(o, "why", json_string(fm_wait_name(a->why)));
	set(o, "rule", a->rule ? json_string(a->rule) : json_null());
	set(o, "hidden", json_boolean(a->holder && !peer_sees(p, a->holder->uid)));
	return o;
}

static json_t *waits_object(const struct fm_account *a)
{
	json_t *o = json_object();

	set(o, "count", number(a->waits));
	set(o, "p50_us", us(a->wait_p50));
	set(o, "p99_us", us(a->wait_p99));
	set(o, "max_us", us(a->wait_max));
	set(o, "recent",
		json_pack("{s:o, s:o, s:o}", "count", number(a->recent), "p50_us",
			us(a->recent_p50), "p99_us", us(a->recent_p99)));
	return o;
}

uint64_t report_waited(const struct fm_account *a)
{
	uint64_t waited = 0;

	for (unsigned i = 0; i < FM_WAITS; i++)
		waited += a->wait_ns[i];
	return waited;
}

void report_account(json_t *ent, const struct fm_account *a, const struct peer *p)
{
	json_t *o = json_object();

	set(o, "since_ms", ms(a->age_ns));
	set(o, "ran_ms", ms(a->ran_ns));
	set(o, "waited_ms", ms(report_waited(a)));
	set(o, "suspended_ms", ms(a->by_hand_ns + a->over_budget_ns));
	set(o, "over_budget_ms", ms(a->over_budget_ns));
	set(o, "idle_ms", ms(a->idle_ns));
	set(o, "waited_for", waited_for(a, p));
	set(o, "waited_why", waited_why(a));
	set(o, "waiting", waiting(a, p));
	set(ent, "account", o);
	set(ent, "waits", waits_object(a));
}

/* For how long it keeps the device when it goes idle. */
void report_linger(json_t *ent, const struct fm_linger *l)
{
	json_t *o = json_object();

	set(o, "keeps_us", us(l->keeps_ns));
	set(o, "learnt", json_boolean(l->learnt));
	set(o, "pauses", number(l->pauses));
	set(o, "within", json_real(l->within / 1000.0));
	set(o, "handover_us", us(l->handover_ns));
	set(o, "urgent", json_boolean(l->urgent));
	set(ent, "linger", o);
}
