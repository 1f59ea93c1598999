/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of attempts to steer, whether they succeeded or not. Each has a line of NAME=VALUE
 * fields. Texts from outside stand in quotes, with '?' for any character that could end them or the
 * line.
 */
#include "base/clock.h"
#include "daemon.h"
#include <string.h>

#define LINES_PER_SECOND 10 /* for each user */

struct field {
	char text[320];
	size_t len;
};

static void put(struct field *f, const char *s)
{
	for (; s && *s && f->len + 1 < sizeof(f->text); s++) {
		bool plain = *s >= ' ' && *s <= '~' && *s != '"' && *s != '\\';

		f->text[f->len++] = plain ? *s : '?';
	}
	f->text[f->len] = '\0';
}

static void put_word(struct field *f, const char *s)
{
	put(f, f->len ? " " : "");
	put(f, s);
}

static void report(struct daemon *d, struct audit_user *u, bool all)
{
	char who[16] = "others";

	if (!u->done && !u->refused)
		return;
	if (!all)
		snprintf(who, sizeof(who), "%u", u->uid);
	fm_log(&d->log, LOG_NOTICE, "audit: uid=%s left_out=%u ok=%u refused=%u", who,
		u->done + u->refused, u->done, u->refused);
	u->done = u->refused = 0;
}

void audit_flush(struct daemon *d)
{
	struct audit *a = &d->audit;

	a->timer = sd_event_source_disable_unref(a->timer);
	for (int bank = 0; bank < 2; bank++) {
		for (unsigned i = 0; i < AUDIT_USERS; i++)
			report(d, &a->user[bank][i], false);
		report(d, &a->rest[bank], true);
	}
}

static int on_time(sd_event_source *source, uint64_t usec, void *arg)
{
	audit_flush(arg);
	return 0;
}

static void leave_out(struct daemon *d, struct audit_user *u, bool ok)
{
	struct audit *a = &d->audit;

	u->done += ok;
	u->refused += !ok;
	if (d->event && !a->timer)
		sd_event_add_time_relative(
			d->event, &a->timer, CLOCK_MONOTONIC, FM_S / FM_US, 0, on_time, d);
}

/* The user's entry, or else an entry whose second is over. NULL: too many users at once. */
static struct audit_user *find(struct audit_user *users, uid_t uid, uint64_t second)
{
	struct audit_user *over = NULL;

	for (struct audit_user *u = users; u < users + AUDIT_USERS; u++) {
		if (u->uid == uid && u->second)
			return u;
		if (u->second != second && !u->done && !u->refused)
			over = u;
	}
	if (over)
		*over = (struct audit_user){.uid = uid, .second = second};
	return over;
}

bool audit_admit(struct daemon *d, const struct peer *p, bool ok)
{
	uint64_t second = fm_now() / FM_S + 1; /* 0: an unused entry */
	struct audit_user *u = find(d->audit.user[p->steers], p->uid, second);

	if (u && u->second != second) {
		report(d, u, false);
		*u = (struct audit_user){.uid = p->uid, .second = second};
	}
	if (u && u->written < LINES_PER_SECOND) {
		u->written++;
		return true;
	}
	leave_out(d, u ? u : &d->audit.rest[p->steers], ok);
	return false;
}

/* The requested settings: hints as NAME=VALUE, a policy and its parameters. */
static void put_settings(struct field *f, const json_t *request)
{
	json_t *hints = json_object_get(request, "hints"), *value;
	json_t *params = json_object_get(request, "params");
	const char *name;
	size_t i;

	put(f, json_string_value(json_object_get(request, "name")));
	json_array_foreach (params, i, value)
		put_word(f, json_string_value(value));
	json_array_foreach (json_object_get(request, "tasks"), i, value)
		put_word(f, json_string_value(json_object_get(value, "name")));
	json_object_foreach (hints, name, value) {
		char number[32] = "";

		if (json_is_number(value))
			snprintf(number, sizeof(number), "%.12g", json_number_value(value));
		put_word(f, name);
		put(f, "=");
		put(f, json_is_string(value) ? json_string_value(value) : number);
	}
}

static void put_groups(struct field *f, const json_t *reply)
{
	json_t *name;
	size_t i;

	json_array_foreach (json_object_get(reply, "groups"), i, name)
		put_word(f, json_string_value(name));
}

static bool steers(const char *cmd, const json_t *request)
{
	static const char *const cmds[] = {"hint", "suspend", "resume", "reload", "unadmit"};

	for (size_t i = 0; i < FM_ARRAY_LEN(cmds); i++)
		if (!strcmp(cmd, cmds[i]))
			return true;
	if (!strcmp(cmd, "admit"))
		return !json_is_true(json_object_get(request, "try"));
	return !strcmp(cmd, "policy") && json_object_get(request, "name");
}

/* Returns the name of the error. */
static const char *put_reason(struct field *why, const json_t *error, const char *forbidden)
{
	if (!forbidden) {
		put(why, json_string_value(json_object_get(error, "text")));
		return json_string_value(json_object_get(error, "code")) ?: "EIO";
	}
	put(why, "'");
	put(why, forbidden);
	put(why, "' belongs to another user");
	return "EPERM";
}

/* A process of another namespace has no number here. */
static const char *pid_text(pid_t pid, char text[16])
{
	if (pid > 0)
		snprintf(text, 16, "%d", (int)pid);
	else
		strcpy(text, "unknown");
	return text;
}

void audit_request(struct daemon *d, const struct peer *p, const json_t *request,
	const json_t *reply, bool forbidden)
{
	const char *cmd = json_string_value(json_object_get(request, "cmd"));
	struct field target = {0}, set = {0}, groups = {0}, why = {0};
	bool ok = json_is_true(json_object_get(reply, "ok"));
	const char *code;
	char pid[16];

	if (!cmd || !steers(cmd, request) || !audit_admit(d, p, ok))
		return;
	put(&target, json_string_value(json_object_get(request, "target")));
	put(&target, json_string_value(json_object_get(request, "task")));
	put_settings(&set, request);
	put_groups(&groups, reply);
	code = put_reason(&why, json_object_get(reply, "error"), forbidden ? target.text : NULL);
	fm_log(&d->log, LOG_NOTICE,
		"audit: uid=%u pid=%s cmd=%s%s%.128s%s%s%.300s%s%s%.200s%s result=%s%s%.200s%s",
		p->uid, pid_text(p->pid, pid), cmd, target.len ? " target=\"" : "", target.text,
		target.len ? "\"" : "", set.len ? " set=\"" : "", set.text, set.len ? "\"" : "",
		groups.len ? " groups=\"" : "", groups.text, groups.len ? "\"" : "",
		json_is_false(json_object_get(reply, "admitted")) ? "refused"
		: ok                                              ? "ok"
								  : code,
		why.len ? " why=\"" : "", why.text, why.len ? "\"" : "");
}

void audit_signal(struct daemon *d, uid_t uid, pid_t pid, const struct fm_err *err)
{
	const struct peer p = {.uid = uid, .pid = pid, .steers = true};
	struct field why = {0};
	char text[16];

	if (!audit_admit(d, &p, !err->code))
		return;
	put(&why, err->text);
	fm_log(&d->log, LOG_NOTICE,
		"audit: uid=%u pid=%s cmd=reload via=SIGHUP result=%s%s%.200s%s", uid,
		pid_text(pid, text), err->code ? command_code(err->code) : "ok",
		why.len ? " why=\"" : "", why.text, why.len ? "\"" : "");
}
