/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"
#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/parse.h"
#include "ini/ini.h"
#include "workload_json.h"
#include "workload_keys.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Bytes a second of PCIe 5.0, and both ways together beside a program that computes. */
#define LINK      UINT64_C(55000000000)
#define LINK_BOTH UINT64_C(78000000000)

struct reader {
	struct fm_ini in;
	struct workload_json json;
	bool is_json;
	struct workload *w;
	enum workload_section section;
	char policy[WORKLOAD_NAME]; /* of the section */
};

/* The source of a mistake that shows later: a line of INI, or a place in JSON. */
static uint32_t place(const struct reader *r)
{
	return r->is_json ? r->json.place : r->in.line;
}

/* The word behind "device ", "group " and so on. */
static int name_of(const char *section, char *out, struct fm_err *err)
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	const char *name = strchr(section, ' ') + 1;

	name += strspn(name, " ");
	if (!*name || name[strspn(name, good)]) {
		fm_err_set(err, -EINVAL, "'%.40s' is no name", name);
		return fm_err_hint(err, "names are of letters, digits, '-', '_' and '.'");
	}
	if (strlen(name) >= WORKLOAD_NAME)
		return fm_err_set(err, -EINVAL, "the name is longer than %d", WORKLOAD_NAME - 1);
	strcpy(out, name);
	return 0;
}

static int new_device(struct workload *w, const char *name, struct fm_err *err)
{
	uint32_t n = w->plan.devices;

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(w->device_name[i], name))
			return fm_err_set(err, -EINVAL, "there are two devices '%s'", name);
	if (n == WORKLOAD_DEVICES)
		return fm_err_set(err, -E2BIG, "more than %d sections [device NAME]", n);
	strcpy(w->device_name[n], name);
	w->device[n] = (struct fm_sim_device){.count = 1,
		.slots = 1,
		.level = 2,
		.lead = 1,
		.spacing = 500 * FM_US,
		.window = FM_MS,
		.host = UINT64_MAX,
		.link = {.in = LINK, .out = LINK, .both = LINK_BOTH}};
	w->plan.devices++;
	return 0;
}

static int make_room(struct workload *w)
{
	uint32_t cap = w->cap ? 2 * w->cap : 8;
	struct fm_sim_group *group = realloc(w->group, cap * sizeof(*group));
	struct workload_group *own;

	if (!group)
		return -ENOMEM;
	w->group = group;
	own = realloc(w->own, cap * sizeof(*own));
	if (!own)
		return -ENOMEM;
	w->own = own;
	w->cap = cap;
	return 0;
}

static int new_group(struct workload *w, const char *name, uint32_t line, struct fm_err *err)
{
	uint32_t n = w->plan.groups;
	struct fm_sim_group *g;

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(w->own[i].name, name))
			return fm_err_set(err, -EINVAL, "there are two groups '%s'", name);
	if (n == WORKLOAD_GROUPS)
		return fm_err_set(err, -E2BIG, "more than %d sections [group NAME]", n);
	if (n == w->cap && make_room(w))
		return fm_err_set(err, -ENOMEM, "out of memory");
	g = &w->group[n];
	*g = (struct fm_sim_group){.count = 1,
		.stop = FM_NEVER,
		.queue = 1000,
		.burst = 1,
		.arrival = FM_SIM_CLOSED,
		.dirty = 100};
#define HINT_DEFAULT(id, word, min, max, def, unit) g->hints.value[id] = def;
	FM_HINT_MAP(HINT_DEFAULT)
#undef HINT_DEFAULT
	w->own[n] = (struct workload_group){.line = line};
	strcpy(w->own[n].name, name);
	w->plan.groups++;
	return 0;
}

static int unknown_section(const char *section, struct fm_err *err)
{
	static const char *const known[] = {"workload", "device", "group", "policy", "memory"};
	struct fm_nearest near = {.typed = section};
	char word[FM_INI_SECTION];

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(section, " "), section);
	near.typed = word;
	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++)
		fm_nearest_try(&near, known[i]);
	fm_err_set(err, -EINVAL, "unknown section [%s]", section);
	if (near.best && strcmp(near.best, word) != 0)
		return fm_err_hint(err, "did you mean [%s%s]?", near.best,
			strcmp(near.best, "workload") && strcmp(near.best, "memory") ? " NAME"
										     : "");
	return fm_err_hint(err, "sections are [workload], [memory], [device NAME], [group NAME], "
				"[policy NAME]");
}

static int on_section(void *ctx, const char *section, struct fm_err *err)
{
	char name[WORKLOAD_NAME] = "";
	struct reader *r = ctx;
	int rc;

	r->section = WL_NONE;
	if (!strcmp(section, "workload") || !strcmp(section, "memory")) {
		r->section = *section == 'w' ? WL_WORKLOAD : WL_MEMORY;
		if (r->section == WL_MEMORY)
			r->w->memory_line = place(r);
		return 0;
	}
	if (strncmp(section, "device ", 7) && strncmp(section, "group ", 6) &&
		strncmp(section, "policy ", 7))
		return unknown_section(section, err);
	rc = name_of(section, name, err);
	if (rc)
		return rc;
	if (*section == 'd')
		rc = new_device(r->w, name, err);
	else if (*section == 'g')
		rc = new_group(r->w, name, place(r), err);
	else
		strcpy(r->policy, name);
	if (!rc)
		r->section = *section == 'd' ? WL_DEVICE : *section == 'g' ? WL_GROUP : WL_POLICY;
	return rc;
}

/* For a built-in policy: tried at once. */
static int set_param(struct reader *r, const char *key, const char *value, struct fm_err *err)
{
	const struct fm_policy_ops *ops = fm_policy_find(r->policy);
	struct workload *w = r->w;
	struct workload_param *p = &w->param[w->params];
	int64_t values[FM_POLICY_PARAMS];
	const char *setting;

	if (!ops) {
		fm_err_set(err, -EINVAL, "there is no policy '%s' built in", r->policy);
		return fm_err_hint(err, "give a policy's own settings behind its name");
	}
	if (w->params == WORKLOAD_PARAMS)
		return fm_err_set(err, -E2BIG, "more than %d settings", WORKLOAD_PARAMS);
	if (snprintf(p->setting, sizeof(p->setting), "%s=%s", key, value) >=
		(int)sizeof(p->setting))
		return fm_err_set(err, -EINVAL, "too long");
	strcpy(p->policy, r->policy);
	setting = p->setting;
	w->params++;
	return fm_policy_parse(ops, &setting, 1, values, err);
}

static int set_hint(struct fm_sim_group *g, const char *key, const char *value, struct fm_err *err)
{
	struct fm_err why = {0};
	enum fm_hint h;
	int64_t v;
	int rc = fm_parse_hint(key, value, &h, &v, &why);

	if (!rc) {
		g->hints.value[h] = v;
		return 0;
	}
	fm_err_set(err, rc, "%s: %s", key, why.text);
	if (why.hint[0])
		fm_err_hint(err, "%s", why.hint);
	return rc;
}

static int on_key(
	void *ctx, const char *section, const char *key, const char *value, struct fm_err *err)
{
	struct reader *r = ctx;
	struct workload *w = r->w;
	struct workload_target to = {.base = w, .line = place(r)};
	const struct workload_key *k;
	bool hint;

	if (r->section == WL_NONE) {
		fm_err_set(err, -EINVAL, "'%.60s' stands before the first section", key);
		return fm_err_hint(err, "put a section such as [workload] in front");
	}
	if (r->section == WL_POLICY)
		return set_param(r, key, value, err);
	k = workload_key_find(r->section, key, &hint, err);
	if (r->section == WL_DEVICE) {
		to.base = &w->device[w->plan.devices - 1];
	} else if (r->section == WL_GROUP) {
		to.base = &w->group[w->plan.groups - 1];
		to.own = &w->own[w->plan.groups - 1];
	} else if (r->section == WL_WORKLOAD && !strcmp(key, "policy")) {
		w->policy_line = place(r);
	}
	if (!k)
		return hint ? set_hint(to.base, key, value, err) : -EINVAL;
	return workload_key_set(k, &to, value, err);
}

/* Each line of such a key adds a value. */
static bool repeats(const char *key)
{
	return !strcmp(key, "job") || !strcmp(key, "change") || !strcmp(key, "commands");
}

static void defaults(struct workload *w)
{
	*w = (struct workload){.policy = "fixed-priority",
		.plan = {.duration = 10 * FM_S,
			.linger = FM_LINGER_AUTO,
			.seed = 1,
			.machines = 1,
			.memory = {.reserve = FM_NEVER, .keep = true, .overtime = true}}};
}

/* JSON is recognised by its first character, with which no INI begins, or by its name. For a pipe,
 * by the first byte. */
static bool is_json(FILE *f, const char *file)
{
	static const char mark[] = "\xef\xbb\xbf"; /* byte order mark, which jansson refuses */
	const char *end = strrchr(file, '.');
	bool named = end && !strcmp(end, ".json");
	char begin[sizeof(mark)] = "";
	int first = getc(f);
	long at = 0;

	if (fseek(f, 0, SEEK_SET)) {
		ungetc(first, f);
		return named || first == '{';
	}
	if (fread(begin, sizeof(mark) - 1, 1, f) == 1 && !strcmp(begin, mark))
		at = sizeof(mark) - 1;
	fseek(f, at, SEEK_SET);
	do
		first = getc(f);
	while (isspace(first));
	named |= first == '{';
	fseek(f, named ? at : 0, SEEK_SET);
	return named;
}

static int finish(struct reader *r, const char *folder, struct fm_err *err)
{
	uint32_t line = 0;
	int rc = workload_finish(r->w, folder, &line, err);

	if (rc && r->is_json)
		workload_json_blame(&r->json, line, rc, err);
	else if (rc)
		fm_ini_blame(r->in.file, line, rc, err);
	return rc;
}

int workload_read(
	struct workload *w, FILE *f, const char *file, const char *folder, struct fm_err *err)
{
	struct fm_err own = {0};
	struct reader r = {.w = w,
		.section = WL_NONE,
		.in = {.f = f,
			.file = file,
			.section = on_section,
			.key = on_key,
			.ctx = &r,
			.too_long = "`commands' may be given in several lines",
			.repeats = repeats},
		.json = {.f = f, .file = file, .section = on_section, .key = on_key, .ctx = &r},
		.is_json = is_json(f, file)};
	int rc;

	defaults(w);
	rc = r.is_json ? workload_json_read(&r.json, &own) : fm_ini_read(&r.in, &own);
	if (!rc)
		rc = finish(&r, folder, &own);
	workload_json_free(&r.json);
	if (!rc)
		return 0;
	workload_free(w);
	if (rc == -ENOENT) /* the file is open, so something that it names is missing */
		rc = own.code = -EINVAL;
	if (err)
		*err = own;
	return rc;
}

int workload_load(struct workload *w, const char *file, struct fm_err *err)
{
	FM_CLEAN_FILE FILE *f = fopen(file, "re");
	FM_CLEAN_FREE char *folder = strdup(file);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	int code = -errno;

	defaults(w);
	if (!f)
		return fm_err_set(err, code, "%.150s: %s", file, strerror(-code));
	if (!folder)
		return fm_err_set(err, -ENOMEM, "out of memory");
	if (slash)
		slash[1] = '\0'; /* of a file in /, too */
	return workload_read(w, f, file, slash ? folder : "", err);
}

static void free_dists(struct workload *w)
{
	for (uint32_t i = 0; i < w->plan.devices; i++)
		workload_dist_free(&w->device[i].slice);
	for (uint32_t i = 0; i < w->plan.groups; i++) {
		struct fm_sim_group *g = &w->group[i];

		workload_dist_free(&g->time);
		workload_dist_free(&g->extra);
		for (uint32_t s = 0; s < g->steps; s++)
			workload_dist_free(&g->step[s].time);
	}
}

void workload_free(struct workload *w)
{
	free_dists(w);
	for (uint32_t i = 0; i < w->plan.groups; i++) {
		free(w->own[i].record);
		free(w->own[i].change);
	}
	free(w->group);
	free(w->own);
	defaults(w);
}
