/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/nearest.h"
#include "config_keys.h"
#include "ini/ini.h"
#include "platform/platform.h"
#include <errno.h>
#include <string.h>

struct reader {
	struct fm_ini in;
	struct config *c;
	struct fm_sched *scratch;            /* where policies and their parameters are tried */
	struct fm_plugin *plugin;            /* of scratch */
	uint32_t policy_line, platform_line; /* 0: none */
	struct config_rule *rule;            /* that the section is; NULL: it is none */
	struct fm_stop_rule *way;            /* likewise */
};

void config_defaults(struct config *c)
{
	*c = (struct config){
		.policy = "fixed-priority",
		.linger_ns = CONFIG_AUTO,
		.budget_ns = 10 * FM_MS,
		.way[0] = {.device = "*", .level = FM_LEVEL_RUNNING},
		.limits = {.of = {.groups = 256, .queues = 4096}, .clients = 256},
		.access_group = "fermata",
		.memory = {.manage = "off",
			.overtime = true,
			.duplex = true,
			.templates = true,
			.keep_percent = 100},
		.admission = {.tasks = 1024},
		.metrics = {.limit = 1000},
	};
#define WHOLE(id, name, low, high, def, unit)    \
	c->limits.of.bounded |= FM_HINT_BIT(id); \
	c->limits.of.range[id].min = low;        \
	c->limits.of.range[id].max = high;
	FM_HINT_MAP(WHOLE)
#undef WHOLE
	for (unsigned i = 0; i < CONFIG_CEILINGS; i++)
		*config_end(&c->limits, &config_ceilings[i]) = config_ceilings[i].value;
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
static int set_param(struct reader *r, const char *policy, const char *key, const char *value,
	struct fm_err *err)
{
	struct config_param p, *slot = NULL;
	const char *setting = p.setting;
	int rc;

	if (snprintf(p.policy, sizeof(p.policy), "%s", policy) >= (int)sizeof(p.policy) ||
		snprintf(p.setting, sizeof(p.setting), "%s=%s", key, value) >=
			(int)sizeof(p.setting))
		return fm_err_set(err, -EINVAL, "too long");
	rc = use_policy(r->c, r->scratch, &r->plugin, p.policy, &setting, 1, 0, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < r->c->params; i++)
		if (!strcmp(r->c->param[i].policy, policy) &&
			!strncmp(r->c->param[i].setting, p.setting, strlen(key) + 1))
			slot = &r->c->param[i];
	if (!slot && r->c->params == CONFIG_PARAMS)
		return fm_err_set(err, -EINVAL, "more than %d policy parameters", CONFIG_PARAMS);
	if (!slot)
		slot = &r->c->param[r->c->params++];
	*slot = p;
	return 0;
}

static int unknown_section(const char *section, struct fm_err *err)
{
	static const char *const known[] = {"daemon", "policies", "limits", "access", "admission",
		"memory", "security", "metrics", "device", "device NAME", "policy NAME",
		"limits user NAME", "limits group NAME"};
	struct fm_nearest near = {.typed = section};

	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++)
		fm_nearest_try(&near, known[i]);
	fm_err_set(err, -EINVAL, "unknown section [%s]", section);
	if (near.best)
		return fm_err_hint(err, "did you mean [%s]?", near.best);
	return fm_err_hint(err,
		"sections are [daemon], [policies], [policy NAME], [device], [device NAME], "
		"[limits], [limits user NAME], [limits group NAME], [access], [admission], "
		"[memory], [security], [metrics]");
}

/* The section of a device, new or there already. That of all others stays the last. */
static int way_get(
	struct config *c, const char *name, struct fm_stop_rule **out, struct fm_err *err)
{
	struct fm_stop_rule *w = c->way;

	if (!*name || strlen(name) >= sizeof(w->device)) {
		fm_err_set(err, -EINVAL, "[device %.40s] names no device", name);
		return fm_err_hint(
			err, "write [device NAME], as `fermata ps --devices' has it, or [device]");
	}
	while (w < c->way + c->ways && strcmp(w->device, name) != 0)
		w++;
	if (w == c->way + c->ways) {
		if (c->ways == CONFIG_WAYS)
			return fm_err_set(
				err, -E2BIG, "more than %d sections [device NAME]", CONFIG_WAYS);
		c->way[++c->ways] = *w;
		*w = (struct fm_stop_rule){.guard_ns = FM_NEVER};
		snprintf(w->device, sizeof(w->device), "%s", name);
	}
	*out = w;
	return 0;
}

/* A section begins: checks its name, and finds the rule if it is one of limits or of a device. */
static int on_section(void *ctx, const char *section, struct fm_err *err)
{
	const struct config_key *k = config_keys;
	struct reader *r = ctx;

	r->rule = NULL;
	r->way = &r->c->way[r->c->ways];
	if (!strncmp(section, "policy ", 7))
		return 0;
	if (!strncmp(section, "limits ", 7))
		return config_rule_get(r->c, section + 7 + strspn(section + 7, " "), &r->rule, err);
	if (!strncmp(section, "device ", 7))
		return way_get(r->c, section + 7 + strspn(section + 7, " "), &r->way, err);
	while (k->name && strcmp(k->section, section) != 0)
		k++;
	return k->name ? 0 : unknown_section(section, err);
}

static int on_key(
	void *ctx, const char *section, const char *key, const char *value, struct fm_err *err)
{
	bool limits = !strncmp(section, "limits", 6), device = !strncmp(section, "device", 6);
	const struct config_key *k;
	struct reader *r = ctx;
	void *base = r->c;
	int rc;

	if (!*section) {
		fm_err_set(err, -EINVAL, "'%s' stands before the first section", key);
		return fm_err_hint(err, "put a section such as [daemon] in front");
	}
	if (!strncmp(section, "policy ", 7))
		return set_param(r, section + 7 + strspn(section + 7, " "), key, value, err);
	k = config_key_find(limits ? "limits" : device ? "device" : section, key, err);
	if (!k)
		return -EINVAL;
	if (device)
		base = r->way;
	if (limits)
		base = r->rule ? &r->rule->limits : &r->c->limits;
	if (limits)
		*(r->rule ? &r->rule->set : &r->c->limits_set) |= config_limits_bit(k);
	if (k->type == CONFIG_RANGE)
		((struct config_limits *)base)->line = r->in.line;
	if (k->type == CONFIG_TEXT && !strcmp(key, "policy"))
		r->policy_line = r->in.line;
	if (k->type == CONFIG_FOLDER && !strcmp(key, "platform"))
		r->platform_line = r->in.line;
	rc = config_key_set(k, base, value, err);
	return !rc && k->type == CONFIG_SAME ? config_same_finish(r->c, r->way, err) : rc;
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

/* Read with the settings, so that a bad file is a mistake in its line, and the old settings stay.
 */
static int read_platform(struct config_admission *a, struct fm_err *err)
{
	struct fm_platform p;
	int rc;

	if (!a->platform[0])
		return 0;
	rc = fm_platform_load(&p, a->platform, err);
	if (rc)
		return rc;
	if (p.epsilon == FM_PLATFORM_UNSET) {
		fm_err_set(err, -EINVAL, "%.120s: epsilon_ns: was not measured", a->platform);
		return fm_err_hint(err, "calibrate again, or give epsilon_us instead");
	}
	a->measured_ns = (uint64_t)p.epsilon;
	return 0;
}

/* Checks that need more than one line. */
static int check_whole(struct config *c, struct reader *r, struct fm_err *err)
{
	uint32_t line = r->in.line;
	int rc = config_limits_finish(c, &line, err);

	if (!rc) {
		line = r->policy_line;
		rc = config_set_policy(c, r->scratch, &r->plugin, c->policy, 0, err);
	}
	if (!rc) {
		line = r->platform_line;
		rc = read_platform(&c->admission, err);
	}
	return rc ? fm_ini_blame(r->in.file, line, rc, err) : 0;
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
	struct reader r = {.c = &c,
		.in = {.f = f, .file = file, .section = on_section, .key = on_key, .ctx = &r}};
	int rc = scratch_new(&r.scratch);

	err = err ? err : &own;
	if (rc)
		return fm_err_set(err, rc, "%s: out of memory", file);
	config_defaults(&c);
	rc = fm_ini_read(&r.in, err);
	rc = rc ? rc : check_whole(&c, &r, err);
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
			? "; the daemon's user must be able to read it, or name another with "
			  "--config"
			: "");
}

static void print_params(const struct config *c, FILE *f)
{
	for (unsigned i = 0; i < c->params; i++) {
		const struct config_param *p = &c->param[i];
		size_t key = strcspn(p->setting, "=");

		fprintf(f, "\n[policy %s]\n%.*s = %s\n", p->policy, (int)key, p->setting,
			p->setting + key + 1);
	}
}

/* Does the device's own section set the key? Other keys are not printed there. */
static bool is_said(const struct config_key *k, const struct fm_stop_rule *w)
{
	if (k->type == CONFIG_PAD)
		return w->pad != 0;
	if (k->type == CONFIG_SAME)
		return w->same[0];
	return k->type == CONFIG_COUNT ? w->level != 0 : w->guard_ns != FM_NEVER;
}

static void print_ways(const struct config *c, FILE *f)
{
	for (unsigned i = 0; i < c->ways; i++) {
		fprintf(f, "\n[device %s]\n", c->way[i].device);
		for (const struct config_key *k = config_keys; k->name; k++)
			if (!strcmp(k->section, "device") && is_said(k, &c->way[i]))
				config_key_print(k, &c->way[i], f);
	}
}

static const void *base_of(const struct config *c, const char *section)
{
	if (!strcmp(section, "limits"))
		return &c->limits;
	return strcmp(section, "device") ? (const void *)c : &c->way[c->ways];
}

void config_print(const struct config *c, FILE *f)
{
	const char *section = "";

	for (const struct config_key *k = config_keys; k->name; k++) {
		if (strcmp(k->section, section) != 0)
			fprintf(f, "%s[%s]\n", *section ? "\n" : "", k->section);
		section = k->section;
		config_key_print(k, base_of(c, section), f);
	}
	print_ways(c, f);
	for (unsigned i = 0; i < c->rules; i++) {
		const struct config_rule *r = &c->rule[i];

		fprintf(f, "\n[limits %s %s]\n", r->group ? "group" : "user", r->name);
		for (const struct config_key *k = config_keys; k->name; k++)
			if (!strcmp(k->section, "limits") && (r->set & config_limits_bit(k)))
				config_key_print(k, &r->limits, f);
	}
	print_params(c, f);
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
