/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of people and programs: {"cmd": NAME, ...}. The kernel has told which user asks
 * (access.c). */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "daemon/admission/admission.h"
#include "listing.h"
#include "trace.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define TARGET_MAX   128
#define VALUES_MAX   8192 /* in a request */
#define SETTINGS_MAX FM_POLICY_PARAMS

struct request {
	struct daemon *daemon;
	const struct peer *peer;
	json_t *body;
	uint64_t now;
	struct fm_err err;
	bool forbidden;       /* the target is another user's: the log tells, the reply does not */
	bool later;           /* it is run once more */
	struct listing *list; /* what follows in the reply, or NULL */
};

const char *command_code(int code)
{
	static const struct {
		int code;
		const char *name;
	} names[] = {
		{-EINVAL, "EINVAL"},
		{-ENOENT, "ENOENT"},
		{-EPERM, "EPERM"},
		{-ERANGE, "ERANGE"},
		{-ENOMEM, "ENOMEM"},
		{-EDQUOT, "EDQUOT"},
		{-EACCES, "EACCES"},
		{-EAGAIN, "EAGAIN"},
		{-EBUSY, "EBUSY"},
		{-EEXIST, "EEXIST"},
		{-ENODATA, "ENODATA"},
		{-ENOSPC, "ENOSPC"},
		{-EOPNOTSUPP, "EOPNOTSUPP"},
		{-EOVERFLOW, "EOVERFLOW"},
		{-ESRCH, "ESRCH"},
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++)
		if (names[i].code == code)
			return names[i].name;
	return "EIO";
}

/* Messages quote the request, and may cut it within a character. Bytes that are not ASCII would
 * make the reply invalid. */
static char *ascii(char *s)
{
	for (char *p = s; *p; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
			*p = '?';
	return s;
}

static json_t *error_reply(struct fm_err *e)
{
	if (!e->hint[0])
		fm_err_hint(e, "fermatad(8) says what requests may hold");
	return json_pack("{s:b, s:{s:s, s:s, s:s}}", "ok", 0, "error", "code",
		command_code(e->code), "text", ascii(e->text), "hint", ascii(e->hint));
}

static json_t *refuse(struct request *r, int code, const char *text, const char *hint)
{
	fm_err_set(&r->err, code, "%s", text);
	fm_err_hint(&r->err, "%s", hint);
	return error_reply(&r->err);
}

/* File names need not be text. NULL: no name. */
static json_t *path_text(const char *path)
{
	FM_CLEAN_FREE char *copy = path ? strdup(path) : NULL;
	json_t *text = json_string(path);

	return text || !copy ? text : json_string(ascii(copy));
}

static json_t *cmd_version(struct request *r)
{
	struct daemon *d = r->daemon;

	return json_pack("{s:b, s:s, s:i, s:i, s:f, s:s, s:o, s:b}", "ok", 1, "version", FM_VERSION,
		"pid", (int)getpid(), "peer_pid", (int)r->peer->pid, "uptime_s",
		(double)(r->now - d->started) / FM_S, "instance", d->machine ? "system" : "user",
		"dir", path_text(d->dir), "strict", d->config.strict);
}

/* NULL: out of memory. */
static json_t *with_list(struct request *r, json_t *reply, struct listing *list)
{
	if (reply && list) {
		r->list = list;
		return reply;
	}
	json_decref(reply);
	listing_free(list);
	return NULL;
}

static json_t *cmd_ps(struct request *r)
{
	const char *target = json_string_value(json_object_get(r->body, "target"));

	return with_list(
		r, report_ps(r->daemon, r->now), listing_groups(r->daemon, r->peer, target));
}

static json_t *cmd_stats(struct request *r)
{
	return report_stats(r->daemon);
}

/* What to do to each group that the target names and the peer may steer. */
struct steering {
	struct request *request;
	int (*apply)(struct steering *st, struct fm_bridge_group *g);
	json_t *names, *ids;
	bool forbidden; /* the target belongs to another user */
	int rc;

	struct fm_bridge_group *own; /* cmd_allowed() */

	bool out;
	unsigned hints;
	struct {
		enum fm_hint hint;
		int64_t value;
	} hint[FM_HINT_COUNT];
};

static int steer_group(void *arg, struct fm_bridge_group *g)
{
	struct steering *st = arg;
	struct fm_bridge_group_info info;

	fm_bridge_group_info(g, &info);
	if (!peer_sees(st->request->peer, info.uid)) {
		st->forbidden = true;
		return FM_TARGET_NOT;
	}
	st->rc = st->apply(st, g);
	if (!st->rc)
		json_array_append_new(st->names, json_string(info.name));
	return st->rc;
}

static json_t *steer(struct request *r, struct steering *st)
{
	const char *target = json_string_value(json_object_get(r->body, "target"));

	if (!target || !*target || strlen(target) > TARGET_MAX)
		return refuse(r, -EINVAL, "the request names no target",
			"give a group's name, a pid or a queue such as q1 as \"target\"");
	st->request = r;
	st->names = json_array();
	fm_bridge_target(r->daemon->bridge, target, steer_group, st);
	if (!st->rc && json_array_size(st->names))
		return json_pack("{s:b, s:o}", "ok", 1, "groups", st->names);
	json_decref(st->names);
	if (st->rc)
		return error_reply(&r->err);
	r->forbidden = st->forbidden;
	fm_err_set(&r->err, -ENOENT, "no group, process or queue '%s'", target);
	if (r->peer->steers)
		fm_err_hint(&r->err, "fermata ps lists them");
	else
		fm_err_hint(&r->err,
			"`fermata ps' lists your groups; only the owner, root, and members of the "
			"group '%s' steer others",
			r->daemon->config.access_group);
	return error_reply(&r->err);
}

static int allows(struct request *r, const struct fm_bridge_limits *by,
	const struct fm_bridge_group *g, enum fm_hint h, int64_t v)
{
	int rc = fm_bridge_allows(by, h, v, &r->err);

	return rc ? rc : fm_bridge_memory_allows(r->daemon->bridge, g, h, v, &r->err);
}

/* All hints are checked before the first is set, so that either all or none are set. */
static int apply_hints(struct steering *st, struct fm_bridge_group *g)
{
	struct request *r = st->request;
	const struct fm_bridge_limits *by = r->peer->steers ? NULL : &r->peer->limits->of;
	int rc = 0;

	for (unsigned i = 0; i < st->hints && !rc; i++)
		rc = allows(r, by, g, st->hint[i].hint, st->hint[i].value);
	for (unsigned i = 0; i < st->hints && !rc; i++)
		rc = fm_bridge_group_hint(r->daemon->bridge, g, by, st->hint[i].hint,
			st->hint[i].value, r->now, &r->err);
	return rc;
}

static int apply_why(struct steering *st, struct fm_bridge_group *g)
{
	struct fm_bridge_group_info info;

	fm_bridge_group_info(g, &info);
	json_array_append_new(st->ids, json_integer((json_int_t)info.id));
	return 0;
}

/* Replies as ps does, with all groups, since the groups that the targets wait for are among them.
 * It adds which groups are the targets. */
static json_t *cmd_why(struct request *r)
{
	struct steering st = {.apply = apply_why, .ids = json_array()};
	json_t *reply = steer(r, &st);

	if (!json_is_true(json_object_get(reply, "ok"))) {
		json_decref(st.ids);
		return reply;
	}
	json_decref(reply);
	reply = report_ps(r->daemon, r->now);
	json_object_set_new(reply, "targets", st.ids);
	return with_list(r, reply, listing_groups(r->daemon, r->peer, NULL));
}

/* A number as people would write it; "" for a value that is neither number nor string. */
static const char *value_text(const json_t *v, char *buf, size_t size)
{
	if (json_is_string(v))
		return json_string_value(v);
	buf[0] = '\0';
	if (json_is_integer(v))
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (json_is_real(v))
		snprintf(buf, size, "%.9f", json_real_value(v));
	return buf;
}

static int parse_hints(struct request *r, struct steering *st)
{
	json_t *hints = json_object_get(r->body, "hints"), *value;
	const char *name;
	char buf[512];

	if (!json_object_size(hints)) {
		fm_err_set(&r->err, -EINVAL, "the request sets no hint");
		return fm_err_hint(&r->err, "give \"hints\": {\"priority\": \"high\"} or others");
	}
	json_object_foreach (hints, name, value) {
		const char *text = value_text(value, buf, sizeof(buf));
		int rc = fm_parse_hint(
			name, text, &st->hint[st->hints].hint, &st->hint[st->hints].value, &r->err);

		/* Names are unique in an object, and an unknown name ends this loop. So the array
		 * is large enough. */
		if (rc)
			return rc;
		st->hints++;
	}
	return 0;
}

static json_t *cmd_hint(struct request *r)
{
	struct steering st = {.apply = apply_hints};

	json_t *reply;

	if (parse_hints(r, &st))
		return error_reply(&r->err);
	reply = steer(r, &st);
	if (json_is_true(json_object_get(reply, "ok"))) /* which hints it reads, and which not */
		json_object_set_new(reply, "policy", report_policy(r->daemon));
	return reply;
}

static int find_own(void *arg, struct fm_bridge_group *g)
{
	struct steering *st = arg;
	struct fm_bridge_group_info info;

	fm_bridge_group_info(g, &info);
	if (info.uid == st->request->peer->uid)
		st->own = g;
	return FM_TARGET_NOT;
}

/* Which of these hints would be refused to a program of this user, in this group if it is named?
 * Operators' programs are limited like others. */
static json_t *cmd_allowed(struct request *r)
{
	const struct fm_bridge_limits *by = r->peer->uid ? &r->peer->limits->of : NULL;
	const char *group = json_string_value(json_object_get(r->body, "group"));
	struct steering st = {.request = r};
	json_t *refused;

	if (parse_hints(r, &st))
		return error_reply(&r->err);
	if (group && *group)
		fm_bridge_target(r->daemon->bridge, group, find_own, &st);
	refused = json_array();
	for (unsigned i = 0; i < st.hints; i++)
		if (allows(r, by, st.own, st.hint[i].hint, st.hint[i].value))
			json_array_append_new(refused,
				json_pack("{s:s, s:s, s:s}", "hint", fm_hint_name(st.hint[i].hint),
					"text", r->err.text, "help", r->err.hint));
	return json_pack(
		"{s:b, s:o, s:o}", "ok", 1, "refused", refused, "policy", report_policy(r->daemon));
}

/* Are programs to be managed that do not ask for it? Of a group that is named; else of the one that
 * the process will have once it has become that program. */
static json_t *cmd_managed(struct request *r)
{
	const char *group = json_string_value(json_object_get(r->body, "group"));
	const char *program = json_string_value(json_object_get(r->body, "program"));
	char name[FM_NAME_MAX], comm[16];

	if (!group == !program)
		return refuse(r, -EINVAL, "neither \"group\" nor \"program\", or both",
			"give the name of a group, or of a program without one");
	if (program) {
		fm_bridge_plain(comm, sizeof(comm), program);
		snprintf(name, sizeof(name), "%s-%d", comm, (int)r->peer->pid);
	} else if (snprintf(name, sizeof(name), "%s", group) >= (int)sizeof(name)) {
		return refuse(r, -EINVAL, "the group's name is too long",
			"names have at most 63 characters");
	}
	return json_pack("{s:b, s:b, s:s, s:b, s:b}", "ok", 1, "managed",
		config_manages(&r->daemon->config.memory, name), "harmless_tables",
		r->daemon->config.memory.harmless_tables, "templates",
		r->daemon->config.memory.templates, "early_start",
		r->daemon->config.memory.early_start);
}

static int apply_suspend(struct steering *st, struct fm_bridge_group *g)
{
	struct request *r = st->request;

	if (st->out)
		return fm_bridge_group_out(r->daemon->bridge, g, r->now, &r->err);
	fm_bridge_group_suspend(r->daemon->bridge, g, true, r->now);
	return 0;
}

static json_t *cmd_suspend(struct request *r)
{
	const json_t *out = json_object_get(r->body, "out");

	if (out && !json_is_boolean(out))
		return refuse(r, -EINVAL, "\"out\" is neither true nor false",
			"with true the group's memory goes to the host");
	return steer(r, &(struct steering){.apply = apply_suspend, .out = json_is_true(out)});
}

/* A group whose memory was put out goes on when it is in. */
static int apply_resume(struct steering *st, struct fm_bridge_group *g)
{
	struct request *r = st->request;

	if (!fm_bridge_group_back(r->daemon->bridge, g, r->now))
		fm_bridge_group_suspend(r->daemon->bridge, g, false, r->now);
	return 0;
}

static json_t *cmd_resume(struct request *r)
{
	return steer(r, &(struct steering){.apply = apply_resume});
}

/* --- where memory is --- */

static int apply_away(struct steering *st, struct fm_bridge_group *g)
{
	json_array_append_new(st->ids, report_away(g, fm_now()));
	return 0;
}

static json_t *cmd_away(struct request *r)
{
	struct steering st = {.apply = apply_away, .ids = json_array()};
	json_t *reply = steer(r, &st);

	if (json_is_true(json_object_get(reply, "ok")))
		json_object_set(reply, "memory", st.ids);
	json_decref(st.ids);
	return reply;
}

static int append_word(char *line, size_t size, const char *word, struct fm_err *err)
{
	size_t len = strlen(line);

	if (!word || !*word || word[strcspn(word, " \t\n")]) {
		fm_err_set(err, -EINVAL, "names and params are words without spaces");
		return fm_err_hint(err, "each is an argument of its own: policy fair slice=2ms");
	}
	if ((size_t)snprintf(line + len, size - len, "%s%s", len ? " " : "", word) >= size - len)
		return fm_err_set(err, -EINVAL, "the policy and its params are too long");
	return 0;
}

static int set_policy(struct request *r, const char *name)
{
	const json_t *params = json_object_get(r->body, "params");
	struct fm_sched *s = fm_bridge_sched(r->daemon->bridge);
	char line[CONFIG_POLICY_MAX] = "";
	int rc = append_word(line, sizeof(line), name, &r->err);

	if (params && !json_is_array(params))
		rc = fm_err_set(&r->err, -EINVAL, "params is not a list of \"key=value\"");
	if (json_array_size(params) > SETTINGS_MAX)
		rc = fm_err_set(&r->err, -EINVAL, "more than %d params", SETTINGS_MAX);
	for (size_t i = 0; i < json_array_size(params) && !rc; i++)
		rc = append_word(
			line, sizeof(line), json_string_value(json_array_get(params, i)), &r->err);
	if (rc)
		return rc;
	rc = admission_check_policy(r->daemon, &r->daemon->config, line, &r->err);
	if (!rc)
		rc = config_set_policy(
			&r->daemon->config, s, &r->daemon->plugin, line, r->now, &r->err);
	if (rc == -ENOENT) /* a name that means nothing, as any other value that does */
		rc = r->err.code = -EINVAL;
	if (!rc)
		r->daemon->dropped[0] = '\0';
	if (rc || !daemon_drop_plugin(r->daemon))
		return rc;
	fm_err_set(&r->err, -EIO, "policy dropped: %s", r->daemon->dropped);
	return fm_err_hint(&r->err, "policy %s is in force", fm_sched_policy_ops(s)->name);
}

static json_t *operators_only(struct request *r, const char *text)
{
	fm_err_set(&r->err, -EPERM, "%s", text);
	fm_err_hint(
		&r->err, "ask root or a member of the group '%s'", r->daemon->config.access_group);
	return error_reply(&r->err);
}

static json_t *cmd_reload(struct request *r)
{
	struct daemon *d = r->daemon;
	json_t *reply;

	if (!r->peer->steers)
		return operators_only(r, "you may not have the settings read again");
	if (daemon_reload(d, &r->err))
		return error_reply(&r->err);
	reply = json_pack("{s:b}", "ok", 1);
	json_object_set_new(reply, "file", path_text(d->config_file));
	return reply;
}

static json_t *cmd_policy(struct request *r)
{
	const json_t *name = json_object_get(r->body, "name");

	if (name && !r->peer->steers)
		return operators_only(r, "you may not change the policy");
	if (name && set_policy(r, json_string_value(name)))
		return error_reply(&r->err);
	return json_pack("{s:b, s:o, s:o}", "ok", 1, "policy", report_policy(r->daemon),
		"available", report_available(r->daemon));
}

static json_t *cmd_admit(struct request *r)
{
	json_t *reply = command_admit(r->daemon, r->peer, r->body, &r->err);

	r->later = !reply && r->err.code == -EINPROGRESS;
	if (r->later)
		return NULL;
	return reply ? reply : error_reply(&r->err);
}

static json_t *cmd_unadmit(struct request *r)
{
	json_t *reply = command_unadmit(r->daemon, r->peer, r->body, &r->err);

	return reply ? reply : error_reply(&r->err);
}

static json_t *cmd_tasks(struct request *r)
{
	return with_list(r, admission_tasks(r->daemon), listing_tasks());
}

static json_t *cmd_metrics(struct request *r)
{
	json_t *reply = metrics_page(r->daemon, r->peer, r->body, &r->err);

	return reply ? reply : error_reply(&r->err);
}

static json_t *cmd_trace(struct request *r)
{
	json_t *reply = trace_start(r->daemon, r->peer, r->body, &r->err);

	return reply ? reply : error_reply(&r->err);
}

static const struct {
	const char *name;
	json_t *(*run)(struct request *r);
} commands[] = {
	{"version", cmd_version},
	{"ps", cmd_ps},
	{"why", cmd_why},
	{"hint", cmd_hint},
	{"allowed", cmd_allowed},
	{"managed", cmd_managed},
	{"suspend", cmd_suspend},
	{"resume", cmd_resume},
	{"away", cmd_away},
	{"policy", cmd_policy},
	{"reload", cmd_reload},
	{"stats", cmd_stats},
	{"admit", cmd_admit},
	{"unadmit", cmd_unadmit},
	{"tasks", cmd_tasks},
	{"metrics", cmd_metrics},
	{"trace", cmd_trace},
};

static json_t *dispatch(struct request *r)
{
	const char *name = json_string_value(json_object_get(r->body, "cmd"));

	for (size_t i = 0; name && i < FM_ARRAY_LEN(commands); i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].run(r);
	return refuse(r, -EINVAL, name ? "unknown command" : "the request has no \"cmd\"",
		"commands are version, ps, why, hint, allowed, managed, suspend, resume, away, "
		"policy, reload, stats, admit, unadmit, tasks, metrics, trace");
}

/* Checked before the text is parsed, since parsing takes long for a text that is only values. */
static bool has_too_many(const char *text, size_t size)
{
	unsigned n = 0;

	for (size_t i = 0; i < size; i++)
		n += text[i] == ',' || text[i] == '[' || text[i] == '{';
	return n > VALUES_MAX;
}

json_t *command_again(struct daemon *d, const struct peer *p, json_t *body, struct listing **list)
{
	struct request r = {.daemon = d, .peer = p, .body = body, .now = fm_now()};
	json_t *reply = dispatch(&r);

	if (r.later && admission_keep(d, body))
		return NULL;
	audit_request(d, p, body, reply, r.forbidden);
	*list = r.list;
	return reply;
}

json_t *command_run(struct daemon *d, const struct peer *p, const char *text, size_t size,
	struct listing **list)
{
	struct request wrong = {0};
	json_error_t error;
	json_t *body, *reply;

	*list = NULL;
	if (has_too_many(text, size))
		return refuse(&wrong, -EINVAL, "the request has more than 8192 values",
			"send less in one line");
	body = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(body)) {
		json_decref(body);
		return refuse(&wrong, -EINVAL, body ? "the request is not an object" : error.text,
			"send one JSON object a line, such as {\"cmd\":\"ps\"}");
	}
	reply = command_again(d, p, body, list);
	json_decref(body);
	return reply;
}
