/* SPDX-License-Identifier: Apache-2.0 */
/* What a user may have, and may say about a group. */
#include "base/clock.h"
#include "base/parse.h"
#include "internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct fm_bridge_limits *client_limits(
	const struct fm_bridge *b, const struct fm_bridge_client *c)
{
	if (!c->user->uid)
		return NULL;
	return b->host.limits ? b->host.limits(c->ctx) : &b->limits;
}

/* Limits do not bind a value of 0 that stands for "none" or "the policy's own". A weight of 0 is
 * bound: it stands for the default weight. */
static bool says_nothing(enum fm_hint h, int64_t v)
{
	return !v && (h == FM_HINT_SHARE || !strcmp(fm_hint_unit(h), "ns"));
}

static int64_t meant(enum fm_hint h, int64_t v)
{
	return h == FM_HINT_WEIGHT && !v ? FM_WEIGHT_DEFAULT : v;
}

static bool within(const struct fm_bridge_limits *l, enum fm_hint h, int64_t v)
{
	int64_t m = meant(h, v);

	if (!(l->bounded & FM_HINT_BIT(h)) || says_nothing(h, v))
		return true;
	return m >= l->range[h].min && m <= l->range[h].max;
}

static int refuse_value(
	const struct fm_bridge_limits *l, enum fm_hint h, int64_t v, struct fm_err *err)
{
	bool time = !strcmp(fm_hint_unit(h), "ns");
	double scale = time ? (double)FM_MS : 1;
	const char *unit = time ? " ms" : fm_hint_unit(h);
	char members[96] = "";

	fm_err_set(err, -EPERM, "%s %.12g%s is outside your limits", fm_hint_name(h),
		(double)meant(h, v) / scale, unit);
	if (l->ordinary & FM_HINT_BIT(h))
		snprintf(members, sizeof(members), ", which do not bind members of the group %.32s",
			l->group && *l->group ? l->group : "in [access]");
	fm_err_hint(err,
		"stay within %.12g to %.12g%s, or have %s_min, %s_max in fermatad.conf changed%s",
		(double)l->range[h].min / scale, (double)l->range[h].max / scale, unit,
		fm_hint_name(h), fm_hint_name(h), members);
	return -EPERM;
}

int fm_bridge_allows(
	const struct fm_bridge_limits *by, enum fm_hint h, int64_t v, struct fm_err *err)
{
	if (!by || (unsigned)h >= FM_HINT_COUNT)
		return 0; /* the core refuses an unknown hint */
	if (by->forbidden & FM_HINT_BIT(h)) {
		fm_err_set(err, -EPERM, "you may not set the hint %s", fm_hint_name(h));
		fm_err_hint(
			err, "ask an operator to set it, or have `hints' in fermatad.conf changed");
		return -EPERM;
	}
	return within(by, h, v) ? 0 : refuse_value(by, h, v, err);
}

/* A group that gives no hints must not get more than it may ask for. The core accepts these values:
 * they lie within the hint's own range, which limits can only narrow. */
void limits_start(struct fm_bridge *b, struct fm_bridge_group *g, const struct fm_bridge_limits *l)
{
	for (unsigned i = 0; l && i < FM_HINT_COUNT; i++) {
		enum fm_hint h = (enum fm_hint)i;
		int64_t v = fm_sched_group_hints(g->sgroup)->value[h];

		if (within(l, h, v))
			continue;
		v = meant(h, v) < l->range[h].min ? l->range[h].min : l->range[h].max;
		fm_sched_hint(b->sched, g->sgroup, h, v, b->now);
	}
	group_deadline(g);
}
