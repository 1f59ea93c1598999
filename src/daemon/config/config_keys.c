/* SPDX-License-Identifier: Apache-2.0 */
#include "config_keys.h"
#include "admit/admit.h"
#include "base/clock.h"
#include "base/listen.h"
#include "base/nearest.h"
#include "base/parse.h"
#include "base/size.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define OF(member)        offsetof(struct config, member)
#define OF_LIMITS(member) offsetof(struct config_limits, member)
#define OF_WAY(member)    offsetof(struct fm_stop_rule, member)
#define RANGE_ENDS(id, name, min, max, def, unit)                                        \
	{"limits", name "_min", CONFIG_RANGE, OF_LIMITS(of), min, max, unit, id, false}, \
		{"limits", name "_max", CONFIG_RANGE, OF_LIMITS(of), min, max, unit, id, true},

/* In the order of their enums. */
#define METHODS         "gcaps-suspend gcaps-busy"
#define OVERRUNS        "demote stop report"
#define FAIR_BY         "group user"
#define MEMORY_POLICIES "jit opt lru whole" /* as fm_mem_policies, but for the last */
_Static_assert(FM_RTA_GCAPS_SUSPEND == 0 && FM_RTA_GCAPS_BUSY == 1, "METHODS");
_Static_assert(
	FM_OVERRUN_DEMOTE == 0 && FM_OVERRUN_STOP == 1 && FM_OVERRUN_REPORT == 2, "OVERRUNS");

const struct config_key config_keys[] = {
	{"daemon", "policy", CONFIG_TEXT, OF(policy), 1, CONFIG_POLICY_MAX - 1, NULL, 0, 0},
	{"daemon", "fair_by", CONFIG_CHOICE, OF(fair_by), 0, 0, FAIR_BY, 0, 0},
	{"daemon", "linger_us", CONFIG_US_OR_AUTO, OF(linger_ns), 0, 1000000, "microseconds", 0, 0},
	{"daemon", "busy_poll_us", CONFIG_US, OF(busy_poll_ns), 0, 1000000, "microseconds", 0, 0},
	{"daemon", "idle_exit_s", CONFIG_COUNT, OF(idle_exit_s), 0, 86400, "seconds", 0, 0},
	{"daemon", "realtime", CONFIG_BOOL, OF(realtime), 0, 1, NULL, 0, 0},
	{"policies", "folder", CONFIG_FOLDER, OF(folder), 0, CONFIG_FOLDER_MAX - 1, NULL, 0, 0},
	{"policies", "budget_us", CONFIG_US, OF(budget_ns), 50, 1000000, "microseconds", 0, 0},
	{"device", "level", CONFIG_COUNT, OF_WAY(level), FM_LEVEL_QUEUED, FM_LEVEL_RUNNING,
		"levels", 0, 0},
	{"device", "guard_from_us", CONFIG_US, OF_WAY(guard_ns), 0, 10000000, "microseconds", 0, 0},
	{"device", "pad", CONFIG_PAD, OF_WAY(pad), 0, 0, NULL, 0, 0},
	{"device", "same", CONFIG_SAME, OF_WAY(same), 0, FM_SAME_MAX - 1, NULL, 0, 0},
	{"limits", "clients", CONFIG_COUNT, OF_LIMITS(clients), 0, INT32_MAX, "clients", 0, 0},
	{"limits", "groups", CONFIG_COUNT, OF_LIMITS(of.groups), 0, INT32_MAX, "groups", 0, 0},
	{"limits", "queues", CONFIG_COUNT, OF_LIMITS(of.queues), 0, INT32_MAX, "queues", 0, 0},
	{"limits", "memory", CONFIG_SIZE, OF_LIMITS(of.memory), 0, FM_MEMORY_MAX, NULL, 0, 0},
	{"limits", "memory_host", CONFIG_SIZE, OF_LIMITS(of.memory_host), 0, FM_MEMORY_MAX, NULL, 0,
		0},
	{"limits", "hints", CONFIG_HINTS, OF_LIMITS(of.forbidden), 0, 0, NULL, 0, 0},
	FM_HINT_MAP(RANGE_ENDS) /* priority_min, priority_max and so on */
	{"access", "group", CONFIG_TEXT, OF(access_group), 0, CONFIG_NAME_MAX - 1, NULL, 0, 0},
	{"admission", "method", CONFIG_CHOICE, OF(admission.method), 0, 0, METHODS, 0, 0},
	{"admission", "epsilon_us", CONFIG_US, OF(admission.epsilon_ns), 0, 1000000, "microseconds",
		0, 0},
	{"admission", "platform", CONFIG_FOLDER, OF(admission.platform), 0, CONFIG_FOLDER_MAX - 1,
		NULL, 0, 0},
	{"admission", "overrun", CONFIG_CHOICE, OF(admission.overrun), 0, 0, OVERRUNS, 0, 0},
	{"admission", "tasks", CONFIG_COUNT, OF(admission.tasks), 0, FM_ADMIT_TASKS, "tasks", 0, 0},
	{"memory", "manage", CONFIG_MANAGE, OF(memory.manage), 1, CONFIG_MANAGE_MAX - 1, NULL, 0,
		0},
	{"memory", "device_limit", CONFIG_SIZE, OF(memory.device_limit), 0, FM_MEMORY_MAX, NULL, 0,
		0},
	{"memory", "policy", CONFIG_CHOICE, OF(memory.policy), 0, 0, MEMORY_POLICIES, 0, 0},
	{"memory", "overtime", CONFIG_BOOL, OF(memory.overtime), 0, 1, NULL, 0, 0},
	{"memory", "duplex", CONFIG_BOOL, OF(memory.duplex), 0, 1, NULL, 0, 0},
	{"memory", "keep_percent", CONFIG_COUNT, OF(memory.keep_percent), 0, 1000, "percent", 0, 0},
	{"memory", "cgroup", CONFIG_BOOL, OF(memory.cgroup), 0, 1, NULL, 0, 0},
	{"memory", "cgroup_limits", CONFIG_CGROUPS, OF(memory.cgroup_limits), 0,
		CONFIG_MANAGE_MAX - 1, NULL, 0, 0},
	{"memory", "host", CONFIG_SIZE, OF(memory.host), 0, FM_MEMORY_MAX, NULL, 0, 0},
	{"memory", "host_nodes", CONFIG_NODES, OF(memory.host_nodes), 0, CONFIG_MANAGE_MAX - 1,
		NULL, 0, 0},
	{"memory", "harmless_tables", CONFIG_TABLES, OF(memory.harmless_tables), 0,
		CONFIG_TABLES_MAX - 1, NULL, 0, 0},
	{"memory", "early_start", CONFIG_BOOL, OF(memory.early_start), 0, 1, NULL, 0, 0},
	{"memory", "templates", CONFIG_BOOL, OF(memory.templates), 0, 1, NULL, 0, 0},
	{"security", "strict", CONFIG_BOOL, OF(strict), 0, 1, NULL, 0, 0},
	{"metrics", "listen", CONFIG_LISTEN, OF(metrics.listen), 0, CONFIG_FOLDER_MAX - 1, NULL, 0,
		0},
	{"metrics", "group", CONFIG_TEXT, OF(metrics.group), 0, CONFIG_NAME_MAX - 1, NULL, 0, 0},
	{"metrics", "limit", CONFIG_COUNT, OF(metrics.limit), 1, 100000, "rows", 0, 0},
	{"metrics", "loopback_groups", CONFIG_BOOL, OF(metrics.loopback_groups), 0, 1, NULL, 0, 0},
	{NULL, NULL, 0, 0, 0, 0, NULL, 0, 0},
};

static void list_keys(const char *section, char *list, size_t size)
{
	size_t len = 0;

	list[0] = '\0';
	for (const struct config_key *k = config_keys; k->name; k++) {
		bool range = k->type == CONFIG_RANGE;

		/* One pair stands for all: the list is to be read by people. */
		if (strcmp(k->section, section) || (range && k->hint != FM_HINT_PRIORITY))
			continue;
		if (len < size)
			len += (size_t)snprintf(
				list + len, size - len, "%s%s", len ? ", " : "", k->name);
	}
	if (!strcmp(section, "limits") && len < size)
		snprintf(list + len, size - len, " and so for each hint");
}

static void suggest(const char *section, const char *name, struct fm_err *err)
{
	struct fm_nearest near = {.typed = name};
	char list[200];

	for (const struct config_key *k = config_keys; k->name; k++) {
		if (!strcmp(k->section, section)) {
			fm_nearest_try(&near, k->name);
		} else if (!strcmp(k->name, name)) {
			fm_err_hint(err, "'%s' belongs into [%s]", name, k->section);
			return;
		}
	}
	list_keys(section, list, sizeof(list));
	if (near.best)
		fm_err_hint(err, "did you mean '%s'?", near.best);
	else
		fm_err_hint(err, "keys are %s", list);
}

const struct config_key *config_key_find(const char *section, const char *name, struct fm_err *err)
{
	for (const struct config_key *k = config_keys; k->name; k++)
		if (!strcmp(k->section, section) && !strcmp(k->name, name))
			return k;
	fm_err_set(err, -EINVAL, "unknown key '%s' in [%s]", name, section);
	suggest(section, name, err);
	return NULL;
}

static int set_number(const struct config_key *k, const char *value, int64_t *v, struct fm_err *err)
{
	int rc = fm_parse_int(value, k->min, k->max, v, err);

	if (rc)
		fm_err_hint(err, "give a number of %s from %" PRId64 " to %" PRId64 "%s", k->unit,
			k->min, k->max, k->type == CONFIG_US_OR_AUTO ? ", or auto" : "");
	return rc;
}

static int set_text(const struct config_key *k, char *out, const char *value, struct fm_err *err)
{
	size_t len = strlen(value);
	struct fm_listen at;

	if (len < (size_t)k->min) {
		fm_err_set(err, -EINVAL, "there is no value");
		return fm_err_hint(err, "leave out the line for the default");
	}
	if (len > (size_t)k->max) {
		fm_err_set(err, -EINVAL, "the value is too long");
		return fm_err_hint(
			err, "it has %zu characters, give at most %" PRId64, len, k->max);
	}
	for (const char *c = value; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return fm_err_set(err, -EINVAL, "the value holds a control character");
	/* "key =;x" has this value, but it would be printed as "key = ;x", which has none. */
	if (*value == ';') {
		fm_err_set(err, -EINVAL, "the value begins with a semicolon, as a comment does");
		return fm_err_hint(err, "write the comment in a line of its own");
	}
	if (k->type == CONFIG_FOLDER && len && *value != '/') {
		fm_err_set(err, -EINVAL, "the name does not begin with /");
		return fm_err_hint(err, "give an absolute path, or nothing");
	}
	if (k->type == CONFIG_LISTEN && fm_parse_listen(value, &at, err))
		return -EINVAL;
	if (k->type == CONFIG_MANAGE && config_manage_check(value, err))
		return -EINVAL;
	if (k->type == CONFIG_CGROUPS && config_cgroups_check(value, err))
		return -EINVAL;
	if (k->type == CONFIG_NODES && config_nodes_check(value, err))
		return -EINVAL;
	if (k->type == CONFIG_TABLES && config_tables_check(value, err))
		return -EINVAL;
	if (k->type == CONFIG_SAME && config_same_check(value, err))
		return -EINVAL;
	strcpy(out, value);
	return 0;
}

static int unknown_hint(const char *word, struct fm_err *err)
{
	struct fm_nearest near = {.typed = word};

	for (unsigned h = 0; h < FM_HINT_COUNT; h++)
		fm_nearest_try(&near, fm_hint_name((enum fm_hint)h));
	fm_err_set(err, -EINVAL, "'%.40s' is not a hint", word);
	if (near.best)
		fm_err_hint(err, "did you mean '%s'?", near.best);
	else
		fm_err_hint(err, "give all, none, or names of hints as in fermata-hint(1)");
	return -EINVAL;
}

static int set_hints(uint32_t *forbidden, const char *value, struct fm_err *err)
{
	uint32_t all = FM_HINT_BIT(FM_HINT_COUNT) - 1, allowed = 0;
	char words[256], *save, *word;
	unsigned words_read = 0;
	bool alone = false;

	if (snprintf(words, sizeof(words), "%s", value) >= (int)sizeof(words))
		return fm_err_set(err, -EINVAL, "the value is too long");
	word = strtok_r(words, " ,\t", &save);
	if (!word) {
		fm_err_set(err, -EINVAL, "there is no value");
		return fm_err_hint(err, "give all, none, or names of hints");
	}
	for (; word; word = strtok_r(NULL, " ,\t", &save)) {
		uint32_t bits = !strcmp(word, "all") ? all : 0;

		for (unsigned h = 0; h < FM_HINT_COUNT; h++)
			if (!strcmp(word, fm_hint_name((enum fm_hint)h)))
				bits = FM_HINT_BIT(h);
		if (!bits && strcmp(word, "none") != 0)
			return unknown_hint(word, err);
		alone |= !bits || bits == all;
		allowed |= bits;
		words_read++;
	}
	if (alone && words_read > 1)
		return fm_err_set(err, -EINVAL, "all and none stand alone");
	*forbidden = all & ~allowed;
	return 0;
}

/* The n-th of words between spaces; "" if there are not so many. */
static void word_at(const char *words, uint32_t n, char *out, size_t size)
{
	for (; n && *words; n--) {
		words += strcspn(words, " ");
		words += *words == ' ';
	}
	snprintf(out, size, "%.*s", (int)strcspn(words, " "), words);
}

static int set_choice(
	const struct config_key *k, uint32_t *out, const char *value, struct fm_err *err)
{
	char word[32];

	for (uint32_t n = 0;; n++) {
		word_at(k->unit, n, word, sizeof(word));
		if (!word[0])
			break;
		if (strcmp(word, value) != 0)
			continue;
		*out = n;
		return 0;
	}
	fm_err_set(err, -EINVAL, "'%.40s' is none of its values", value);
	return fm_err_hint(err, "values are %s", k->unit);
}

static int set_range(const struct config_key *k, struct fm_bridge_limits *l, const char *value,
	struct fm_err *err)
{
	enum fm_hint h;
	int64_t v;
	int rc = fm_parse_hint(fm_hint_name(k->hint), value, &h, &v, err);

	if (!rc && k->upper)
		l->range[h].max = v;
	else if (!rc)
		l->range[h].min = v;
	return rc;
}

static int set_us(const struct config_key *k, uint64_t *ns, const char *value, struct fm_err *err)
{
	int64_t v = 0;
	int rc;

	if (k->type == CONFIG_US_OR_AUTO && !strcmp(value, "auto")) {
		*ns = CONFIG_AUTO;
		return 0;
	}
	rc = set_number(k, value, &v, err);
	if (!rc)
		*ns = (uint64_t)v * FM_US;
	return rc;
}

static int set_size(
	const struct config_key *k, uint64_t *out, const char *value, struct fm_err *err)
{
	char most[FM_SIZE_TEXT];
	int64_t v = 0;
	int rc = fm_parse_size(value, &v, err);

	if (!rc && v > k->max) {
		rc = fm_err_set(err, -ERANGE, "'%.40s' is out of range", value);
		fm_err_hint(err, "give at most %s, or 0 for none", fm_size_exact(k->max, most));
	}
	if (!rc)
		*out = (uint64_t)v;
	return rc;
}

static int set_pad(uint32_t *out, const char *value, struct fm_err *err)
{
	enum fm_hint h;
	int64_t v;
	int rc = fm_parse_hint("pad", value, &h, &v, err);

	if (!rc && v == FM_PAD_DEVICE)
		rc = fm_err_set(err, -EINVAL, "'%.40s' is for hints of groups", value);
	if (!rc)
		*out = (uint32_t)(v - FM_PAD_DEVICE);
	return rc;
}

static int set_value(
	const struct config_key *k, void *member, const char *value, struct fm_err *err)
{
	int64_t v = 0;
	int rc;

	switch (k->type) {
	case CONFIG_TEXT:
	case CONFIG_FOLDER:
	case CONFIG_LISTEN:
	case CONFIG_MANAGE:
	case CONFIG_CGROUPS:
	case CONFIG_NODES:
	case CONFIG_TABLES:
	case CONFIG_SAME:
		return set_text(k, member, value, err);
	case CONFIG_BOOL:
		return fm_parse_bool(value, member, err);
	case CONFIG_HINTS:
		return set_hints(member, value, err);
	case CONFIG_CHOICE:
		return set_choice(k, member, value, err);
	case CONFIG_RANGE:
		return set_range(k, member, value, err);
	case CONFIG_COUNT:
		rc = set_number(k, value, &v, err);
		if (!rc)
			*(uint32_t *)member = (uint32_t)v;
		return rc;
	case CONFIG_SIZE:
		return set_size(k, member, value, err);
	case CONFIG_PAD:
		return set_pad(member, value, err);
	case CONFIG_US:
	case CONFIG_US_OR_AUTO:
		return set_us(k, member, value, err);
	}
	return -EINVAL;
}

int config_key_set(const struct config_key *k, void *base, const char *value, struct fm_err *err)
{
	struct fm_err why = {0};
	int rc = set_value(k, (char *)base + k->offset, value, &why);

	if (!rc)
		return 0;
	fm_err_set(err, rc, "%s: %s", k->name, why.text);
	if (why.hint[0])
		fm_err_hint(err, "%s", why.hint);
	return rc;
}

void config_key_copy(const struct config_key *k, void *to, const void *from)
{
	struct fm_bridge_limits *l = (void *)((char *)to + k->offset);
	const struct fm_bridge_limits *other = (const void *)((const char *)from + k->offset);

	if (k->type == CONFIG_RANGE && k->upper)
		l->range[k->hint].max = other->range[k->hint].max;
	else if (k->type == CONFIG_RANGE)
		l->range[k->hint].min = other->range[k->hint].min;
	else /* of [limits] all others are these: no text, no time */
		memcpy(l, other, k->type == CONFIG_SIZE ? sizeof(uint64_t) : sizeof(uint32_t));
}

static void print_hints(uint32_t forbidden, FILE *f)
{
	uint32_t all = FM_HINT_BIT(FM_HINT_COUNT) - 1;

	if (!forbidden || forbidden == all)
		fputs(forbidden ? " none" : " all", f);
	for (unsigned h = 0; forbidden && h < FM_HINT_COUNT; h++)
		if (!(forbidden & FM_HINT_BIT(h)))
			fprintf(f, " %s", fm_hint_name((enum fm_hint)h));
}

/* Times to the last nanosecond, in the largest unit that they are a multiple of. */
static void print_time(int64_t ns, FILE *f)
{
	if (ns % (int64_t)FM_MS == 0)
		fprintf(f, " %" PRId64 "ms", ns / (int64_t)FM_MS);
	else if (ns % (int64_t)FM_US == 0)
		fprintf(f, " %" PRId64 "us", ns / (int64_t)FM_US);
	else
		fprintf(f, " %" PRId64 "ns", ns);
}

static void print_range(const struct config_key *k, const struct fm_bridge_limits *l, FILE *f)
{
	int64_t v = k->upper ? l->range[k->hint].max : l->range[k->hint].min;
	char size[FM_SIZE_TEXT];

	if (fm_hint_is_time(k->hint))
		print_time(v, f);
	else if (fm_hint_is_size(k->hint))
		fprintf(f, " %s", fm_size_exact(v, size));
	else
		fprintf(f, " %" PRId64 "%s", v, k->unit);
}

static void print_us(const struct config_key *k, uint64_t ns, FILE *f)
{
	if (k->type == CONFIG_US_OR_AUTO && ns == CONFIG_AUTO)
		fputs(" auto", f);
	else
		fprintf(f, " %" PRIu64, ns / FM_US);
}

static void print_pad(int64_t v, FILE *f)
{
	if (v != FM_PAD_AUTO && fm_pad_percent(v))
		fprintf(f, " auto:%u%%", fm_pad_percent(v));
	else if (v == FM_PAD_AUTO)
		fputs(" auto", f);
	else
		fprintf(f, " %" PRId64, FM_MAX(v, (int64_t)0));
}

void config_key_print(const struct config_key *k, const void *base, FILE *f)
{
	const void *member = (const char *)base + k->offset;
	char word[32], size[FM_SIZE_TEXT];

	fprintf(f, "%s =", k->name);
	switch (k->type) {
	case CONFIG_TEXT:
	case CONFIG_FOLDER:
	case CONFIG_LISTEN:
	case CONFIG_MANAGE:
	case CONFIG_CGROUPS:
	case CONFIG_NODES:
	case CONFIG_TABLES:
	case CONFIG_SAME:
		fprintf(f, "%s%s", *(const char *)member ? " " : "", (const char *)member);
		break;
	case CONFIG_BOOL:
		fputs(*(const bool *)member ? " yes" : " no", f);
		break;
	case CONFIG_CHOICE:
		word_at(k->unit, *(const uint32_t *)member, word, sizeof(word));
		fprintf(f, " %s", word);
		break;
	case CONFIG_HINTS:
		print_hints(*(const uint32_t *)member, f);
		break;
	case CONFIG_RANGE:
		print_range(k, member, f);
		break;
	case CONFIG_COUNT:
		fprintf(f, " %" PRIu32, *(const uint32_t *)member);
		break;
	case CONFIG_SIZE:
		fprintf(f, " %s", fm_size_exact((int64_t) * (const uint64_t *)member, size));
		break;
	case CONFIG_PAD:
		print_pad((int32_t) * (const uint32_t *)member + FM_PAD_DEVICE, f);
		break;
	case CONFIG_US:
	case CONFIG_US_OR_AUTO:
		print_us(k, *(const uint64_t *)member, f);
		break;
	}
	fputc('\n', f);
}
