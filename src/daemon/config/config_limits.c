/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of single users and of the members of a group, in place of those in [limits]. */
#include "base/parse.h"
#include "config_keys.h"
#include "daemon/daemon.h"
#include <errno.h>
#include <string.h>

/* A deadline, or else a period, is what edf and its kin go by. */
const struct config_ceiling config_ceilings[CONFIG_CEILINGS] = {
	{FM_HINT_PRIORITY, true, 100, FM_PRIORITY_MAX},
	{FM_HINT_SHARE, true, 50, 100},
	{FM_HINT_DEADLINE, false, FM_MS, 0},
	{FM_HINT_PERIOD, false, FM_MS, 0},
};

int64_t *config_end(struct config_limits *l, const struct config_ceiling *e)
{
	return e->upper ? &l->of.range[e->hint].max : &l->of.range[e->hint].min;
}

static uint64_t ceiling_bit(const struct config_ceiling *e)
{
	const struct config_key *k = config_keys;

	while (k->type != CONFIG_RANGE || k->hint != e->hint || k->upper != e->upper)
		k++;
	return config_limits_bit(k);
}

uint64_t config_limits_bit(const struct config_key *k)
{
	const struct config_key *first = config_keys;

	_Static_assert(6 + 2 * FM_HINT_COUNT <= 64, "a bit for each key of [limits]");
	while (strcmp(first->section, "limits") != 0)
		first++;
	return UINT64_C(1) << (k - first);
}

/* A number is taken as it is, so that a rule can stand where the name cannot be looked up. */
static int look_up(const char *name, bool group, uint32_t *id, struct fm_err *err)
{
	int64_t v;

	if (!fm_parse_int(name, 0, (int64_t)UINT32_MAX - 1, &v, NULL)) {
		*id = (uint32_t)v;
		return 0;
	}
	if (!lookup_id(name, group, id)) {
		fm_err_set(err, -EINVAL, "there is no %s '%.40s'", group ? "group" : "user", name);
		return fm_err_hint(err, "`getent %s' lists them; a number is taken as it is",
			group ? "group" : "passwd");
	}
	return 0;
}

static int rule_add(struct config *c, bool group, uint32_t id, const char *name,
	struct config_rule **out, struct fm_err *err)
{
	struct config_rule *r = c->rule;

	for (; r < c->rule + c->rules; r++)
		if (r->group == group && r->id == id)
			break;
	if (r == c->rule + CONFIG_RULES)
		return fm_err_set(err, -E2BIG, "more than %d sections [limits ...]", CONFIG_RULES);
	if (r == c->rule + c->rules) {
		*r = (struct config_rule){.group = group, .id = id};
		snprintf(r->name, sizeof(r->name), "%s", name);
		c->rules++;
	}
	if (strcmp(r->name, name) != 0)
		return fm_err_set(err, -EINVAL,
			"[limits %s %.60s] is [limits %s %s], which is there already",
			group ? "group" : "user", name, group ? "group" : "user", r->name);
	*out = r;
	return 0;
}

int config_rule_get(struct config *c, const char *who, struct config_rule **out, struct fm_err *err)
{
	bool user = !strncmp(who, "user ", 5), group = !strncmp(who, "group ", 6);
	const char *name = who + (group ? 6 : 5);
	uint32_t id = 0;
	int rc;

	if (!user && !group) {
		fm_err_set(err, -EINVAL, "unknown section [limits %.40s]", who);
		return fm_err_hint(err, "write [limits user NAME] or [limits group NAME]");
	}
	name += strspn(name, " ");
	rc = look_up(name, group, &id, err);
	if (rc)
		return rc;
	if (user && !id) {
		fm_err_set(err, -EINVAL, "root is not limited");
		return fm_err_hint(err, "leave the section away");
	}
	return rule_add(c, group, id, name, out, err);
}

static int check_ranges(const struct config_limits *l, uint32_t *line, struct fm_err *err)
{
	for (unsigned h = 0; h < FM_HINT_COUNT; h++) {
		const char *name = fm_hint_name((enum fm_hint)h);

		if (l->of.range[h].min <= l->of.range[h].max)
			continue;
		*line = l->line;
		fm_err_set(err, -EINVAL, "%s_min is above %s_max", name, name);
		return fm_err_hint(err, "a limit that a section leaves out is that of [limits]");
	}
	return 0;
}

/* A ceiling that has its default value gives way if a section sets the other end beyond it, unless
 * that section also sets the ceiling. Settings that were printed have all of [limits] set. */
static void give_way(struct config_limits *l, uint64_t set)
{
	for (unsigned i = 0; i < CONFIG_CEILINGS; i++) {
		const struct config_ceiling *e = &config_ceilings[i];
		bool beyond = l->of.range[e->hint].min > l->of.range[e->hint].max;

		if (beyond && !(set & ceiling_bit(e)) && *config_end(l, e) == e->value)
			*config_end(l, e) = e->whole;
	}
}

int config_limits_finish(struct config *c, uint32_t *line, struct fm_err *err)
{
	int rc;

	give_way(&c->limits, c->limits_set);
	rc = check_ranges(&c->limits, line, err);

	for (unsigned i = 0; i < c->rules && !rc; i++) {
		struct config_rule *r = &c->rule[i];

		for (const struct config_key *k = config_keys; k->name; k++)
			if (!strcmp(k->section, "limits") && !(r->set & config_limits_bit(k)))
				config_key_copy(k, &r->limits, &c->limits);
		r->limits.of.bounded = c->limits.of.bounded;
		give_way(&r->limits, r->set);
		rc = check_ranges(&r->limits, line, err);
	}
	return rc;
}

static bool matches(const struct config_rule *r, uid_t uid, const gid_t *gids, size_t n)
{
	if (!r->group)
		return r->id == uid;
	for (size_t i = 0; i < n; i++)
		if (gids[i] == r->id)
			return true;
	return false;
}

/* A range is one thing: if a rule sets one end, the other end is taken from that rule, too, which
 * has it from [limits]. own: keys that a rule sets itself. */
static void apply(
	const struct config_rule *r, struct config_limits *out, uint64_t *done, uint64_t *own)
{
	uint64_t taken = *done;

	for (const struct config_key *k = config_keys; k->name; k++) {
		uint64_t bit, pair;

		if (strcmp(k->section, "limits") != 0)
			continue;
		bit = pair = config_limits_bit(k);
		if (k->type == CONFIG_RANGE)
			pair |= config_limits_bit(k->upper ? k - 1 : k + 1);
		if (!(r->set & pair) || (taken & bit))
			continue;
		config_key_copy(k, out, &r->limits);
		*done |= bit;
		*own |= r->set & bit;
	}
}

/* Ceilings with their default value bind only ordinary users. */
static void apply_ceilings(
	const struct config *c, struct config_limits *out, uint64_t own, bool ordinary)
{
	for (unsigned i = 0; i < CONFIG_CEILINGS; i++) {
		const struct config_ceiling *e = &config_ceilings[i];

		if ((own & ceiling_bit(e)) || *config_end(out, e) != e->value)
			continue;
		if (ordinary)
			out->of.ordinary |= FM_HINT_BIT(e->hint);
		else
			*config_end(out, e) = e->whole;
	}
	out->of.group = c->access_group;
}

void config_limits_for(const struct config *c, uid_t uid, const gid_t *gids, size_t n,
	bool ordinary, struct config_limits *out)
{
	uint64_t done = 0, own = 0;

	*out = c->limits;
	for (int group = 0; group <= 1; group++)
		for (unsigned i = 0; i < c->rules; i++)
			if (c->rule[i].group == group && matches(&c->rule[i], uid, gids, n))
				apply(&c->rule[i], out, &done, &own);
	apply_ceilings(c, out, own, ordinary);
}
