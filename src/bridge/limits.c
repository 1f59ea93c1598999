/* SPDX-License-Identifier: Apache-2.0 */
/* What a user may have, and may say about a group. */
#include "base/clock.h"
#include "base/parse.h"
#include "base/size.h"
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

/* Limits do not bind a value of 0 that stands for "none" or "the policy's own". A weight and a
 * memory-limit of 0 are bound: they stand for the default weight, and for all memory. */
static bool says_nothing(enum fm_hint h, int64_t v)
{
	return !v && (h == FM_HINT_SHARE || h == FM_HINT_MEMORY_REQUEST || fm_hint_is_time(h));
}

static int64_t meant(enum fm_hint h, int64_t v)
{
	if (v)
		return v;
	return h == FM_HINT_WEIGHT         ? FM_WEIGHT_DEFAULT
	       : h == FM_HINT_MEMORY_LIMIT ? FM_MEMORY_MAX
					   : 0;
}

static bool within(const struct fm_bridge_limits *l, enum fm_hint h, int64_t v)
{
	int64_t m = meant(h, v);

	if (!(l->bounded & FM_HINT_BIT(h)) || says_nothing(h, v))
		return true;
	return m >= l->range[h].min && m <= l->range[h].max;
}

#define VALUE_TEXT 40

/* In the unit that people use, which unit_text() names: times in ms. Amounts have theirs with them.
 */
static const char *value_text(enum fm_hint h, int64_t v, char buf[VALUE_TEXT])
{
	if (fm_hint_is_size(h))
		return fm_size_exact(v, buf);
	snprintf(buf, VALUE_TEXT, "%.12g", (double)v / (fm_hint_is_time(h) ? (double)FM_MS : 1));
	return buf;
}

static const char *unit_text(enum fm_hint h)
{
	return fm_hint_is_size(h) ? "" : fm_hint_is_time(h) ? " ms" : fm_hint_unit(h);
}

static int refuse_value(
	const struct fm_bridge_limits *l, enum fm_hint h, int64_t v, struct fm_err *err)
{
	char members[96] = "", low[VALUE_TEXT], high[VALUE_TEXT];

	if (h == FM_HINT_MEMORY_LIMIT && !v)
		fm_err_set(err, -EPERM, "no memory-limit is outside your limits");
	else
		fm_err_set(err, -EPERM, "%s %s%s is outside your limits", fm_hint_name(h),
			value_text(h, meant(h, v), low), unit_text(h));
	if (l->ordinary & FM_HINT_BIT(h))
		snprintf(members, sizeof(members), ", which do not bind members of the group %.32s",
			l->group && *l->group ? l->group : "in [access]");
	fm_err_hint(err,
		"stay within %s to %s%s, or have %s_min, %s_max in fermatad.conf changed%s",
		value_text(h, l->range[h].min, low), value_text(h, l->range[h].max, high),
		unit_text(h), fm_hint_name(h), fm_hint_name(h), members);
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
