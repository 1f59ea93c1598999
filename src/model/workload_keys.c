/* SPDX-License-Identifier: Apache-2.0 */
#include "workload_keys.h"
#include "base/nearest.h"
#include "base/parse.h"
#include <errno.h>
#include <string.h>

enum type {
	TIME,     /* uint64_t, ns */
	LINGER,   /* the same, or FM_LINGER_AUTO */
	COUNT,    /* uint32_t, min to max */
	DIST,     /* struct fm_sim_dist */
	TURNS,    /* bool: fair */
	SEED,     /* uint64_t */
	SIZE,     /* uint64_t, bytes, or bytes a second; from min */
	MOVES,    /* a policy of memory */
	FLAG,     /* bool */
	TEXT,     /* at most max bytes */
	COMMANDS, /* of a group, like those that follow */
	CPU,
	ARRIVAL,
	PHASE,
	DEVICES,
	JOB,
	CHANGE,
};

struct workload_key {
	enum workload_section section;
	const char *name;
	enum type type;
	size_t offset;
	int64_t min, max;
};

#define OF_PLAN(member)   offsetof(struct workload, plan.member)
#define OF_DEVICE(member) offsetof(struct fm_sim_device, member)
#define OF_GROUP(member)  offsetof(struct fm_sim_group, member)

static const struct workload_key keys[] = {
	{WL_WORKLOAD, "policy", TEXT, offsetof(struct workload, policy), 1, WORKLOAD_POLICY - 1},
	{WL_WORKLOAD, "duration", TIME, OF_PLAN(duration), 1, 0},
	{WL_WORKLOAD, "warmup", TIME, OF_PLAN(warmup), 0, 0},
	{WL_WORKLOAD, "seed", SEED, OF_PLAN(seed), 0, INT64_MAX},
	{WL_WORKLOAD, "machines", COUNT, OF_PLAN(machines), 1, 1000000},
	{WL_WORKLOAD, "linger", LINGER, OF_PLAN(linger), 0, 0},
	{WL_WORKLOAD, "react", TIME, OF_PLAN(react), 0, 0},
	{WL_WORKLOAD, "late", TIME, OF_PLAN(late), 0, 0},
	{WL_DEVICE, "count", COUNT, OF_DEVICE(count), 1, 100000},
	{WL_DEVICE, "slots", COUNT, OF_DEVICE(slots), 1, 64},
	{WL_DEVICE, "level", COUNT, OF_DEVICE(level), 1, 3},
	{WL_DEVICE, "launch", TIME, OF_DEVICE(launch), 0, 0},
	{WL_DEVICE, "switch", TIME, OF_DEVICE(swtch), 0, 0},
	{WL_DEVICE, "window", TIME, OF_DEVICE(window), 0, 0},
	{WL_DEVICE, "spacing", TIME, OF_DEVICE(spacing), 0, 0},
	{WL_DEVICE, "lead", COUNT, OF_DEVICE(lead), 0, 100},
	{WL_DEVICE, "gate", TIME, OF_DEVICE(gate), 0, 0},
	{WL_DEVICE, "flush", TIME, OF_DEVICE(flush), 0, 0},
	{WL_DEVICE, "open", TIME, OF_DEVICE(open), 0, 0},
	{WL_DEVICE, "slice", DIST, OF_DEVICE(slice), 0, 0},
	{WL_DEVICE, "tick", TIME, OF_DEVICE(tick), 0, 0},
	{WL_DEVICE, "turns", TURNS, OF_DEVICE(fair), 0, 0},
	{WL_DEVICE, "memory", SIZE, OF_DEVICE(memory), 1, 0},
	{WL_DEVICE, "context", SIZE, OF_DEVICE(context), 0, 0},
	{WL_DEVICE, "host", SIZE, OF_DEVICE(host), 0, 0},
	{WL_DEVICE, "link-in", SIZE, OF_DEVICE(link.in), 1000000, 0},
	{WL_DEVICE, "link-out", SIZE, OF_DEVICE(link.out), 1000000, 0},
	{WL_DEVICE, "link-both", SIZE, OF_DEVICE(link.both), 1000000, 0},
	{WL_DEVICE, "bridge", COUNT, OF_DEVICE(bridge), 0, 1000000},
	{WL_DEVICE, "bridge-rate", SIZE, OF_DEVICE(bridge_rate), 1000000, 0},
	{WL_DEVICE, "flip", TIME, OF_DEVICE(link.flip), 0, 0},
	{WL_DEVICE, "copy-cost", COUNT, OF_DEVICE(copy_cost), 0, 99},
	{WL_GROUP, "memory", SIZE, OF_GROUP(memory), 1, 0},
	{WL_GROUP, "working-set", SIZE, OF_GROUP(set), 1, 0},
	{WL_GROUP, "gap", TIME, OF_GROUP(gap), 0, 0},
	{WL_GROUP, "dirty", COUNT, OF_GROUP(dirty), 0, 100},
	{WL_GROUP, "request", SIZE, OF_GROUP(request), 0, 0},
	{WL_GROUP, "limit", SIZE, OF_GROUP(limit), 1, 0},
	{WL_MEMORY, "policy", MOVES, 0, 0, 0},
	{WL_MEMORY, "reserve", SIZE, OF_PLAN(memory.reserve), 0, 0},
	{WL_MEMORY, "keep", FLAG, OF_PLAN(memory.keep), 0, 0},
	{WL_MEMORY, "overtime", FLAG, OF_PLAN(memory.overtime), 0, 0},
	{WL_MEMORY, "early", FLAG, OF_PLAN(memory.early), 0, 0},
	{WL_GROUP, "count", COUNT, OF_GROUP(count), 1, 1000000},
	{WL_GROUP, "user", COUNT, OF_GROUP(user), 1, 1000000},
	{WL_GROUP, "devices", DEVICES, 0, 0, 0},
	{WL_GROUP, "together", FLAG, OF_GROUP(everywhere), 0, 0},
	{WL_GROUP, "arrive", ARRIVAL, 0, 0, 0},
	{WL_GROUP, "job", JOB, 0, 0, 0},
	{WL_GROUP, "change", CHANGE, 0, 0, 0},
	{WL_GROUP, "phase", PHASE, 0, 0, 0},
	{WL_GROUP, "jitter", TIME, OF_GROUP(jitter), 0, 0},
	{WL_GROUP, "queue", COUNT, OF_GROUP(queue), 1, 10000000},
	{WL_GROUP, "commands", COMMANDS, 0, 0, 0},
	{WL_GROUP, "input", TIME, OF_GROUP(input), 0, 0},
	{WL_GROUP, "extra", DIST, OF_GROUP(extra), 0, 0},
	{WL_GROUP, "cpu", CPU, 0, 0, FM_SIM_CPUS - 1},
	{WL_GROUP, "cpu-priority", COUNT, OF_GROUP(cpu_priority), 0, 1000000},
	{WL_GROUP, "spins", FLAG, OF_GROUP(spins), 0, 0},
	{WL_GROUP, "start", TIME, OF_GROUP(start), 0, 0},
	{WL_GROUP, "stop", TIME, OF_GROUP(stop), 0, 0},
};

static const char *const titles[] = {"workload", "device NAME", "group NAME", "memory"};

static void suggest(enum workload_section section, const char *name, struct fm_err *err)
{
	struct fm_nearest near = {.typed = name};
	char list[200] = "";
	size_t len = 0;

	for (size_t i = 0; i < FM_ARRAY_LEN(keys); i++) {
		if (keys[i].section != section) {
			if (!strcmp(keys[i].name, name)) {
				fm_err_hint(err, "'%.40s' belongs into [%s]", name,
					titles[keys[i].section]);
				return;
			}
			continue;
		}
		fm_nearest_try(&near, keys[i].name);
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
				len ? ", " : "", keys[i].name);
	}
	for (unsigned h = 0; section == WL_GROUP && h < FM_HINT_COUNT; h++)
		fm_nearest_try(&near, fm_hint_name((enum fm_hint)h));
	if (near.best)
		fm_err_hint(err, "did you mean '%s'?", near.best);
	else
		fm_err_hint(err, "keys are %s%s", list, section == WL_GROUP ? ", and hints" : "");
}

const struct workload_key *workload_key_find(
	enum workload_section section, const char *name, bool *hint, struct fm_err *err)
{
	*hint = false;
	for (size_t i = 0; i < FM_ARRAY_LEN(keys); i++)
		if (keys[i].section == section && !strcmp(keys[i].name, name))
			return &keys[i];
	for (unsigned h = 0; section == WL_GROUP && h < FM_HINT_COUNT; h++)
		*hint |= !strcmp(name, fm_hint_name((enum fm_hint)h));
	if (*hint)
		return NULL;
	fm_err_set(err, -EINVAL, "unknown key '%.60s' in [%s]", name, titles[section]);
	suggest(section, name, err);
	return NULL;
}

static int set_names(
	struct workload_names *names, const char *value, uint32_t line, struct fm_err *err)
{
	if (!value[strspn(value, " \t,")])
		return fm_err_set(err, -EINVAL, "there is no value");
	if (snprintf(names->text, sizeof(names->text), "%s", value) >= (int)sizeof(names->text))
		return fm_err_set(err, -EINVAL, "the value is too long");
	names->line = line;
	return 0;
}

static int set_text(const struct workload_key *k, char *out, const char *value, struct fm_err *err)
{
	if (!value[strspn(value, " \t")])
		return fm_err_set(err, -EINVAL, "there is no value");
	if (strlen(value) > (size_t)k->max)
		return fm_err_set(err, -EINVAL, "the value is too long");
	strcpy(out, value);
	return 0;
}

static int set_arrival(const struct workload_target *to, const char *value, struct fm_err *err)
{
	char names[200] = "";
	int rc = workload_arrival(to->base, value, names, err);

	to->own->after.line = 0;
	if (!rc && names[0])
		rc = set_names(&to->own->after, names, to->line, err);
	return rc;
}

static int set_job(const struct workload_target *to, const char *value, struct fm_err *err)
{
	struct workload_group *own = to->own;

	if (!own->job_line)
		own->job_line = to->line;
	return workload_job(value, &own->record, &own->records, err);
}

static int set_turns(const char *value, bool *fair, struct fm_err *err)
{
	*fair = !strcmp(value, "fair");
	if (*fair || !strcmp(value, "in-order"))
		return 0;
	fm_err_set(err, -EINVAL, "'%.40s' is not a kind of turns", value);
	return fm_err_hint(err, "give in-order or fair");
}

static int set_size(
	const struct workload_key *k, const char *value, uint64_t *bytes, struct fm_err *err)
{
	int rc = workload_size(value, bytes, err);

	if (rc || *bytes >= (uint64_t)k->min)
		return rc;
	fm_err_set(err, -ERANGE, "it must not be less than %lld", (long long)k->min);
	return k->min > 1 ? fm_err_hint(err, "give bytes a second: 55GB") : err->code;
}

static int set_linger(const char *value, uint64_t *ns, struct fm_err *err)
{
	int rc;

	if (!strcmp(value, "auto")) {
		*ns = FM_LINGER_AUTO;
		return 0;
	}
	rc = workload_time(value, ns, err);
	if (rc)
		fm_err_hint(err, "give a time as 100us, or auto: as long as it pays, by what is "
				 "learnt of pauses");
	return rc;
}

static int set_value(const struct workload_key *k, const struct workload_target *to,
	const char *value, struct fm_err *err)
{
	void *member = (char *)to->base + k->offset;
	int64_t v = 0;
	int rc;

	switch (k->type) {
	case TIME:
		rc = workload_time(value, member, err);
		if (!rc && *(uint64_t *)member < (uint64_t)k->min)
			rc = fm_err_set(err, -ERANGE, "it must not be 0");
		return rc;
	case LINGER:
		return set_linger(value, member, err);
	case COUNT:
		rc = fm_parse_int(value, k->min, k->max, &v, err);
		*(uint32_t *)member = (uint32_t)v;
		return rc;
	case SEED:
		rc = fm_parse_int(value, k->min, k->max, &v, err);
		*(uint64_t *)member = (uint64_t)v;
		return rc;
	case SIZE:
		return set_size(k, value, member, err);
	case MOVES:
		return workload_memory_policy(
			value, &((struct workload *)to->base)->plan.memory.policy, err);
	case FLAG:
		return fm_parse_bool(value, member, err);
	case DIST:
		return workload_dist(value, member, err);
	case TURNS:
		return set_turns(value, member, err);
	case TEXT:
		return set_text(k, member, value, err);
	case CPU:
		rc = fm_parse_int(value, k->min, k->max, &v, err);
		((struct fm_sim_group *)to->base)->cpu = (uint32_t)v;
		((struct fm_sim_group *)to->base)->has_cpu = !rc;
		return rc;
	case COMMANDS:
		return workload_commands(to->base, value, err);
	case ARRIVAL:
		return set_arrival(to, value, err);
	case PHASE:
		return workload_phase(to->base, value, err);
	case DEVICES:
		return set_names(&to->own->devices, value, to->line, err);
	case JOB:
		return set_job(to, value, err);
	case CHANGE:
		return workload_change(value, &to->own->change, &to->own->changes, err);
	}
	return -EINVAL;
}

int workload_key_set(const struct workload_key *k, const struct workload_target *to,
	const char *value, struct fm_err *err)
{
	struct fm_err why = {0};
	int rc = set_value(k, to, value, &why);

	if (!rc)
		return 0;
	fm_err_set(err, rc, "%s: %s", k->name, why.text);
	if (why.hint[0])
		fm_err_hint(err, "%s", why.hint);
	return rc;
}
