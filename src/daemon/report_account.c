/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of where the time of a group on a device went. Out of memory it lacks members. */
#include "base/clock.h"
#include "daemon.h"

static void set(json_t *object, const char *key, json_t *value)
{
	json_object_set_new(object, key, value);
}

static json_t *ms(uint64_t ns)
{
	return json_real((double)ns / FM_MS);
}

static json_t *us(uint64_t ns)
{
	return json_real((double)ns / FM_US);
}

/* Groups that the peer does not see are among the others. */
static json_t *waited_for(const struct fm_account *a, const struct peer *p)
{
	json_t *list = json_array(), *o;
	uint64_t others = a->others_ns;

	for (unsigned i = 0; i < a->n_culprits; i++) {
		const struct fm_who *w = a->culprit[i].who;

		if (!peer_sees(p, w->uid)) {
			others += a->culprit[i].ns;
			continue;
		}
		o = json_object();
		set(o, "group", json_string(w->name));
		set(o, "id", json_integer((json_int_t)w->id));
		set(o, "user", json_integer(w->uid));
		set(o, "ms", ms(a->culprit[i].ns));
		json_array_append_new(list, o);
	}
	if (!others)
		return list;
	o = json_object();
	set(o, "group", json_null());
	set(o, "ms", ms(others));
	json_array_append_new(list, o);
	return list;
}

static json_t *waited_why(const struct fm_account *a)
{
	static const char *const names[FM_WAITS] = {
		[FM_WAIT_POLICY] = "policy",
		[FM_WAIT_NOBODY] = "nobody",
		[FM_WAIT_GANG] = "gang",
		[FM_WAIT_DEMOTED] = "demoted",
		[FM_WAIT_DRAINING] = "draining",
	};
	json_t *o = json_object();

	for (unsigned i = 0; i < FM_WAITS; i++)
		if (a->wait_ns[i])
			set(o, names[i], ms(a->wait_ns[i]));
	return o;
}

static json_t *waits_object(const struct fm_account *a)
{
	json_t *o = json_object();

	set(o, "count", json_integer((json_int_t)a->waits));
	set(o, "p50_us", us(a->wait_p50));
	set(o, "p99_us", us(a->wait_p99));
	set(o, "max_us", us(a->wait_max));
	return o;
}

void report_account(json_t *ent, const struct fm_account *a, const struct peer *p)
{
	json_t *o = json_object();
	uint64_t waited = 0;

	for (unsigned i = 0; i < FM_WAITS; i++)
		waited += a->wait_ns[i];
	set(o, "since_ms", ms(a->age_ns));
	set(o, "ran_ms", ms(a->ran_ns));
	set(o, "waited_ms", ms(waited));
	set(o, "suspended_ms", ms(a->by_hand_ns + a->over_budget_ns));
	set(o, "over_budget_ms", ms(a->over_budget_ns));
	set(o, "idle_ms", ms(a->idle_ns));
	set(o, "waited_for", waited_for(a, p));
	set(o, "waited_why", waited_why(a));
	set(ent, "account", o);
	set(ent, "waits", waits_object(a));
}
