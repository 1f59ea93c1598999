/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about tasks, read from JSON. Every member is checked, and no unknown one is accepted. */
#include "admission.h"
#include "base/cleanup.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int bad(struct fm_err *err, size_t i, const char *key, const char *reason)
{
	fm_err_set(err, -EINVAL, "tasks[%zu].%s %s", i, key, reason);
	return fm_err_hint(err, "docs/protocol.md describes the request");
}

/* As of groups: what people and logs are shown. */
static bool name_ok(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)s[i]) || strchr("/\"'`\\", s[i]))
			return false;
	return n > 0 && n < FM_NAME_MAX;
}

static int read_name(const json_t *from, const char *key, bool required, size_t i,
	char to[FM_NAME_MAX], struct fm_err *err)
{
	const json_t *v = json_object_get(from, key);
	const char *s = json_string_value(v);

	to[0] = '\0';
	if (!v && !required)
		return 0;
	if (!s || !name_ok(s))
		return bad(err, i, key,
			"is not a name: up to 63 characters of ASCII, no spaces, "
			"quotes or slashes");
	strcpy(to, s);
	return 0;
}

static int read_int(const json_t *from, const char *key, int64_t unset, size_t i, int64_t *to,
	struct fm_err *err)
{
	const json_t *v = json_object_get(from, key);

	*to = unset;
	if (!v)
		return 0;
	if (!json_is_integer(v))
		return bad(err, i, key, "is not a whole number");
	*to = json_integer_value(v);
	return 0;
}

static int check_known(const json_t *from, const char *const *known, size_t i, const char *where,
	struct fm_err *err)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)from, key, v) {
		size_t k = 0;

		while (known[k] && strcmp(known[k], key))
			k++;
		if (!known[k])
			return fm_err_set(err, -EINVAL, "tasks[%zu]%s: unknown member '%.40s'", i,
				where, key);
	}
	return 0;
}

static int read_segment(const json_t *from, size_t i, struct fm_rta_segment *to, struct fm_err *err)
{
	static const char *const known[] = {"total_ns", "misc_ns", "gpu_ns", NULL};
	int rc;

	if (!json_is_object(from))
		return bad(err, i, "segments", "holds something that is not an object");
	rc = check_known(from, known, i, ".segments", err);
	if (!rc)
		rc = read_int(from, "misc_ns", 0, i, &to->misc, err);
	if (!rc)
		rc = read_int(from, "gpu_ns", 0, i, &to->gpu, err);
	if (rc)
		return rc;
	if (to->misc < 0 || to->gpu < 0 || to->misc > FM_ADMIT_PERIOD_MAX ||
		to->gpu > FM_ADMIT_PERIOD_MAX)
		return bad(err, i, "segments", "holds a time below 0 or above an hour");
	return read_int(from, "total_ns", to->misc + to->gpu, i, &to->total, err);
}

static int read_segments(const json_t *from, size_t i, struct fm_admit_spec *s, struct fm_err *err)
{
	const json_t *list = json_object_get(from, "segments");
	int rc = 0;

	if (list && !json_is_array(list))
		return bad(err, i, "segments", "is not an array");
	if (json_array_size(list) > FM_ADMIT_SEGMENTS)
		return bad(err, i, "segments", "are more than 64");
	for (s->segments = 0; !rc && s->segments < json_array_size(list); s->segments++)
		rc = read_segment(
			json_array_get(list, s->segments), i, &s->segment[s->segments], err);
	return rc;
}

static int read_overrun(const json_t *v, enum fm_overrun *to, struct fm_err *err)
{
	const char *name = json_string_value(v);

	if (!v || (name && !fm_overrun_find(name, to)))
		return 0;
	return fm_err_set(err, -EINVAL, "overrun is neither demote, stop nor report");
}

static int read_times(const json_t *from, size_t i, struct fm_admit_spec *s, struct fm_err *err)
{
	int rc = read_int(from, "period_ns", 0, i, &s->period, err);

	if (!rc)
		rc = read_int(from, "deadline_ns", s->period, i, &s->deadline, err);
	if (!rc)
		rc = read_int(from, "cpu_ns", 0, i, &s->cpu_time, err);
	if (!rc)
		rc = read_int(from, "gpu_total_ns", FM_RTA_UNSET, i, &s->gpu_total, err);
	return rc;
}

static int read_task(const json_t *from, size_t i, struct admission_wish *w, struct fm_err *err)
{
	static const char *const known[] = {"name", "group", "priority", "cpu", "period_ns",
		"deadline_ns", "cpu_ns", "gpu_total_ns", "segments", "overrun", NULL};
	struct fm_admit_spec *s = &w->spec;
	int rc;

	if (!json_is_object(from))
		return fm_err_set(err, -EINVAL, "tasks[%zu] is not an object", i);
	rc = check_known(from, known, i, "", err);
	if (!rc)
		rc = read_name(from, "name", true, i, s->name, err);
	if (!rc)
		rc = read_name(from, "group", false, i, w->group, err);
	if (!rc)
		rc = read_int(from, "priority", 0, i, &s->priority, err);
	if (!rc)
		rc = read_int(from, "cpu", 0, i, &s->cpu, err);
	s->own_cpu = !json_object_get(from, "cpu");
	if (!rc && (s->cpu < 0 || s->cpu > INT32_MAX))
		rc = bad(err, i, "cpu", "is not a number from 0 on");
	if (!rc)
		rc = read_times(from, i, s, err);
	if (!rc)
		rc = read_segments(from, i, s, err);
	return rc ? rc : read_overrun(json_object_get(from, "overrun"), &s->overrun, err);
}

static int read_flag(const json_t *body, const char *key, bool *to, struct fm_err *err)
{
	const json_t *v = json_object_get(body, key);

	if (v && !json_is_boolean(v))
		return fm_err_set(err, -EINVAL, "%s is neither true nor false", key);
	*to = json_is_true(v);
	return 0;
}

static int read_head(const json_t *body, struct admission_request *r, struct fm_admit_spec *common,
	struct fm_err *err)
{
	const json_t *owner = json_object_get(body, "for"),
		     *e = json_object_get(body, "epsilon_ns");
	bool dry = false;
	int rc = read_flag(body, "gpu_priority", &r->reassign, err);

	if (!rc)
		rc = read_flag(body, "try", &dry, err);
	r->keep = !rc && !dry;
	if (!rc && owner &&
		(!json_is_integer(owner) || json_integer_value(owner) < 1 ||
			json_integer_value(owner) > INT32_MAX))
		rc = fm_err_set(err, -EINVAL, "\"for\" is not a process id");
	r->owner = (pid_t)(rc ? 0 : json_integer_value(owner));
	common->epsilon = FM_RTA_UNSET;
	if (!rc && e && (!json_is_integer(e) || json_integer_value(e) < 0))
		rc = fm_err_set(err, -EINVAL, "epsilon_ns is not a whole number from 0 on");
	else if (e)
		common->epsilon = json_integer_value(e);
	return rc ? rc : read_overrun(json_object_get(body, "overrun"), &common->overrun, err);
}

json_t *command_admit(
	struct daemon *d, const struct peer *p, const json_t *body, struct fm_err *err)
{
	const json_t *list = json_object_get(body, "tasks");
	FM_CLEAN_FREE struct admission_wish *wish = NULL;
	struct admission_request r = {.peer = p, .n = json_array_size(list)};
	struct fm_admit_spec common = {.overrun = (enum fm_overrun)d->config.admission.overrun};

	if (!r.n || r.n > ADMISSION_AT_ONCE) {
		fm_err_set(err, -EINVAL, "\"tasks\" is not an array of 1 to %d tasks",
			ADMISSION_AT_ONCE);
		return NULL;
	}
	wish = calloc(r.n, sizeof(*wish));
	if (!wish) {
		fm_err_set(err, -ENOMEM, "out of memory for another task");
		return NULL;
	}
	if (read_head(body, &r, &common, err))
		return NULL;
	for (size_t i = 0; i < r.n; i++) {
		wish[i].spec = common;
		if (read_task(json_array_get(list, i), i, &wish[i], err))
			return NULL;
	}
	r.wish = wish;
	return admission_admit(d, &r, err);
}

json_t *command_unadmit(
	struct daemon *d, const struct peer *p, const json_t *body, struct fm_err *err)
{
	const char *which = json_string_value(json_object_get(body, "task"));

	bool own = json_is_true(json_object_get(body, "own"));

	if (which)
		return admission_unadmit(d, p, which, own, err);
	fm_err_set(err, -EINVAL, "the request names no task");
	fm_err_hint(err, "give a task's id, such as t1, or its name as \"task\"");
	return NULL;
}
