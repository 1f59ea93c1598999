/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

/* Longest line that inih hands out unbroken, with its newline and NUL. */
#define LINE_MAX_BYTES 200

struct reader {
	FILE *f;
	const char *file;
	struct config *c;
	struct fm_sched *scratch; /* where policies and their parameters are tried */
	struct fm_plugin *plugin; /* of scratch */
	struct fm_err *err;
	unsigned line;
	int rc;
};

void config_defaults(struct config *c)
{
	*c = (struct config){
		.policy = "fixed-priority",
		.linger_ns = 100 * FM_US,
		.budget_ns = 10 * FM_MS,
		.limits = {.groups = 256,
			.queues = 4096,
			.priority_min = FM_PRIORITY_MIN,
			.priority_max = FM_PRIORITY_MAX},
		.clients = 256,
		.access_group = "fermata",
	};
}

static int take_u32(const char *value, uint32_t max, uint32_t *out, struct fm_err *err)
{
	int64_t v;
	int rc = fm_parse_int(value, 0, max, &v, err);

	if (!rc)
		*out = (uint32_t)v;
	return rc;
}

static int take_priority(const char *value, int32_t *out, struct fm_err *err)
{
	int64_t v;
	int rc = fm_parse_priority(value, &v, err);

	if (!rc)
		*out = (int32_t)v;
	return rc;
}

static int take_text(const char *value, char *out, size_t size, struct fm_err *err)
{
	if (strlen(value) >= size)
		return fm_err_set(err, -EINVAL, "longer than %zu characters", size - 1);
	strcpy(out, value);
	return 0;
}

static int set_daemon(struct reader *r, const char *key, const char *value)
{
	struct config *c = r->c;
	uint32_t us = 0;
	int rc;

	if (!strcmp(key, "policy"))
		return take_text(value, c->policy, sizeof(c->policy), r->err);
	if (!strcmp(key, "linger_us")) {
		rc = take_u32(value, 1000000, &us, r->err);
		c->linger_ns = us * FM_US;
		return rc;
	}
	if (!strcmp(key, "busy_poll_us")) {
		rc = take_u32(value, 1000000, &us, r->err);
		c->busy_poll_ns = us * FM_US;
		return rc;
	}
	if (!strcmp(key, "idle_exit_s"))
		return take_u32(value, 86400, &c->idle_exit_s, r->err);
	if (!strcmp(key, "realtime"))
		return fm_parse_bool(value, &c->realtime, r->err);
	fm_err_set(r->err, -EINVAL, "unknown key '%s' in [daemon]", key);
	return fm_err_hint(
		r->err, "keys are policy, linger_us, busy_poll_us, idle_exit_s, realtime");
}

static int set_limits(struct reader *r, const char *key, const char *value)
{
	struct fm_bridge_limits *l = &r->c->limits;

	if (!strcmp(key, "groups"))
		return take_u32(value, INT32_MAX, &l->groups, r->err);
	if (!strcmp(key, "queues"))
		return take_u32(value, INT32_MAX, &l->queues, r->err);
	if (!strcmp(key, "clients"))
		return take_u32(value, INT32_MAX, &r->c->clients, r->err);
	if (!strcmp(key, "priority_min"))
		return take_priority(value, &l->priority_min, r->err);
	if (!strcmp(key, "priority_max"))
		return take_priority(value, &l->priority_max, r->err);
	fm_err_set(r->err, -EINVAL, "unknown key '%s' in [limits]", key);
	return fm_err_hint(r->err, "keys are clients, groups, queues, priority_min, priority_max");
}

static int set_access(struct reader *r, const char *key, const char *value)
{
	if (!strcmp(key, "group"))
		return take_text(value, r->c->access_group, sizeof(r->c->access_group), r->err);
	fm_err_set(r->err, -EINVAL, "unknown key '%s' in [access]", key);
	return fm_err_hint(r->err, "the key is group");
}

static int set_policies(struct reader *r, const char *key, const char *value)
{
	struct config *c = r->c;
	int64_t us;
	int rc;

	if (!strcmp(key, "folder")) {
		if (*value && *value != '/')
			return fm_err_set(
				r->err, -EINVAL, "the folder's name does not begin with /");
		return take_text(value, c->folder, sizeof(c->folder), r->err);
	}
	if (!strcmp(key, "budget_us")) {
		rc = fm_parse_int(value, 50, 1000000, &us, r->err);
		c->budget_ns = rc ? c->budget_ns : (uint64_t)us * FM_US;
		return rc;
	}
	fm_err_set(r->err, -EINVAL, "unknown key '%s' in [policies]", key);
	return fm_err_hint(r->err, "keys are folder, budget_us");
}

/* The policy with this name: one that is built in, or else of *plugin, newly opened. */
static int find_policy(const struct config *c, const char *name, const struct fm_policy_ops **ops,
	struct fm_plugin **plugin, struct fm_err *err)
{
	const struct fm_plugin_source src = {
		.folder = c->folder, .host = "/proc/self/exe", .budget_ns = c->budget_ns};
	int rc;

	*ops = fm_policy_find(name);
	if (*ops)
		return 0;
	rc = fm_plugin_open(plugin, &src, name, err);
	if (!rc)
		*ops = fm_plugin_ops(*plugin);
	if (rc == -ENOENT) {
		fm_err_set(err, rc, "there is no policy '%.40s', built in or in %.120s", name,
			c->folder);
		fm_err_hint(err, "`fermata policy` lists them");
	}
	return rc;
}

static int use_policy(const struct config *c, struct fm_sched *s, struct fm_plugin **plugin,
	const char *name, const char *const *settings, size_t n, uint64_t now, struct fm_err *err)
{
	struct fm_plugin *fresh = NULL;
	const struct fm_policy_ops *ops;
	struct fm_err own = {0};
	int rc;

	if (!c->folder[0] && !fm_policy_find(name)) /* the core knows what there is */
		return fm_sched_policy(s, name, settings, n, now, err);
	rc = find_policy(c, name, &ops, &fresh, err);
	if (rc)
		return rc;
	rc = fm_sched_use(s, ops, settings, n, now, &own);
	if (rc) {
		if (err)
			*err = own;
		if (fm_plugin_failure(fresh)) {
			fm_err_set(err, rc, "policy %s could not start: %s", name,
				fm_plugin_failure(fresh));
			fm_err_hint(err, "%s", own.hint);
		}
		fm_plugin_close(fresh);
		return rc;
	}
	if (fresh)
		fm_plugin_adopted(fresh);
	fm_plugin_close(*plugin);
	*plugin = fresh;
	return 0;
}

/* Tried at once, so that a mistake is reported at its own line. */
static int set_param(struct reader *r, const char *policy, const char *key, const char *value)
{
	struct config_param p, *slot = NULL;
	const char *setting = p.setting;
	int rc;

	if (snprintf(p.policy, sizeof(p.policy), "%s", policy) >= (int)sizeof(p.policy) ||
		snprintf(p.setting, sizeof(p.setting), "%s=%s", key, value) >=
			(int)sizeof(p.setting))
		return fm_err_set(r->err, -EINVAL, "too long");
	rc = use_policy(r->c, r->scratch, &r->plugin, p.policy, &setting, 1, 0, r->err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < r->c->params; i++)
		if (!strcmp(r->c->param[i].policy, policy) &&
			!strncmp(r->c->param[i].setting, p.setting, strlen(key) + 1))
			slot = &r->c->param[i];
	if (!slot && r->c->params == CONFIG_PARAMS)
		return fm_err_set(r->err, -EINVAL, "more than %d policy parameters", CONFIG_PARAMS);
	if (!slot)
		slot = &r->c->param[r->c->params++];
	*slot = p;
	return 0;
}

static int set_key(struct reader *r, const char *section, const char *key, const char *value)
{
	if (!strcmp(section, "daemon"))
		return set_daemon(r, key, value);
	if (!strncmp(section, "policy ", 7))
		return set_param(r, section + 7 + strspn(section + 7, " "), key, value);
	if (!strcmp(section, "policies"))
		return set_policies(r, key, value);
	if (!strcmp(section, "limits"))
		return set_limits(r, key, value);
	if (!strcmp(section, "access"))
		return set_access(r, key, value);
	if (!*section)
		fm_err_set(r->err, -EINVAL, "'%s' stands before the first section", key);
	else
		fm_err_set(r->err, -EINVAL, "unknown section [%s]", section);
	return fm_err_hint(
		r->err, "sections are [daemon], [policies], [policy NAME], [limits], [access]");
}

/* Put "FILE:LINE: " in front of the reason; only the first error counts. */
static void blame(struct reader *r, int rc)
{
	struct fm_err reason = *r->err;

	r->rc = rc;
	fm_err_set(r->err, rc, "%s:%u: %s", r->file, r->line, reason.text);
	if (reason.hint[0])
		fm_err_hint(r->err, "%s", reason.hint);
}

static int on_key(void *user, const char *section, const char *key, const char *value)
{
	struct reader *r = user;
	int rc;

	if (r->rc)
		return 0;
	rc = set_key(r, section, key, value ? value : "");
	if (rc)
		blame(r, rc);
	return !rc;
}

/* inih takes an indented line for more of the value before: here it is a line like any other. Lines
 * too long for inih, which would cut them without a word, are errors. */
static char *read_line(char *str, int num, void *stream)
{
	struct reader *r = stream;
	FM_CLEAN_FREE char *line = NULL;
	size_t cap = 0, skip;
	ssize_t n;

	if (r->rc)
		return NULL;
	n = getline(&line, &cap, r->f);
	if (n < 0)
		return NULL;
	r->line++;
	skip = strspn(line, " \t");
	if ((size_t)n != strlen(line) || (size_t)n - skip >= (size_t)num) {
		fm_err_set(r->err, -EINVAL, "line too long, or not text");
		blame(r, -EINVAL);
		return NULL;
	}
	return strcpy(str, line + skip);
}

static bool scratch_stalled(void *ctx, void *data, uint64_t *since)
{
	return true;
}

static void scratch_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
}

static void scratch_bells(void *ctx, void *data, bool want_ready, bool want_idle)
{
}

static int check_whole(const struct config *c, struct reader *r)
{
	int rc;

	if (c->limits.priority_min > c->limits.priority_max)
		rc = fm_err_set(r->err, -EINVAL, "priority_min is above priority_max");
	else
		rc = config_set_policy(c, r->scratch, &r->plugin, c->policy, 0, r->err);
	if (rc) {
		struct fm_err reason = *r->err;

		fm_err_set(r->err, rc, "%s: %s", r->file, reason.text);
		fm_err_hint(r->err, "%s", reason.hint);
	}
	return rc;
}

static int scratch_new(struct fm_sched **s)
{
	static const struct fm_sched_host host = {
		.gate = scratch_gate, .stalled = scratch_stalled, .bells = scratch_bells};

	return fm_sched_new(s, &host, NULL);
}

int config_read(struct config *out, FILE *f, const char *file, struct fm_err *err)
{
	struct config c;
	struct fm_err own;
	struct reader r = {.f = f, .file = file, .c = &c, .err = err ? err : &own};
	int bad_line, rc = scratch_new(&r.scratch);

	if (rc)
		return fm_err_set(err, rc, "%s: out of memory", file);
	config_defaults(&c);
	bad_line = ini_parse_stream(read_line, &r, on_key, &r);
	if (!r.rc && bad_line) {
		r.line = bad_line > 0 ? (unsigned)bad_line : r.line;
		fm_err_set(r.err, -EINVAL, "neither [section], key = value nor a comment");
		blame(&r, -EINVAL);
	}
	rc = r.rc ? r.rc : check_whole(&c, &r);
	fm_sched_free(r.scratch);
	fm_plugin_close(r.plugin);
	if (!rc)
		*out = c;
	return rc;
}

int config_load(struct config *c, const char *file, bool required, struct fm_err *err)
{
	FM_CLEAN_FILE FILE *f = fopen(file, "re");
	int code = -errno;

	if (f)
		return config_read(c, f, file, err);
	if (code == -ENOENT && !required) {
		config_defaults(c);
		return 0;
	}
	return fm_err_set(err, code, "%s: %s%s", file, strerror(-code),
		code == -EACCES && !required
			? "; is HOME of another user? name a file with --config"
			: "");
}

int config_set_policy(const struct config *c, struct fm_sched *s, struct fm_plugin **plugin,
	const char *policy, uint64_t now, struct fm_err *err)
{
	const char *settings[CONFIG_PARAMS + FM_POLICY_PARAMS], *name;
	char words[CONFIG_POLICY_MAX], *save, *word;
	size_t n = 0;

	snprintf(words, sizeof(words), "%s", policy);
	name = strtok_r(words, " \t", &save);
	if (!name)
		return fm_err_set(err, -EINVAL, "no policy named");
	for (unsigned i = 0; i < c->params; i++)
		if (!strcmp(c->param[i].policy, name))
			settings[n++] = c->param[i].setting;
	while ((word = strtok_r(NULL, " \t", &save))) {
		if (n == sizeof(settings) / sizeof(settings[0]))
			return fm_err_set(err, -EINVAL, "too many parameters for policy %s", name);
		settings[n++] = word;
	}
	return use_policy(c, s, plugin, name, settings, n, now, err);
}

int config_try_policy(const struct config *c, const char *policy, struct fm_err *err)
{
	struct fm_plugin *plugin = NULL;
	struct fm_sched *s;
	int rc = scratch_new(&s);

	if (rc)
		return fm_err_set(err, rc, "out of memory");
	rc = config_set_policy(c, s, &plugin, policy, 0, err);
	fm_sched_free(s);
	fm_plugin_close(plugin);
	return rc;
}
