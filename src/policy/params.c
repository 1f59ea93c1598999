/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"
#include "base/parse.h"
#include "base/util.h"
#include "policy.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 40 /* quoted user text in messages is cut */

static uint64_t unit_ns(const struct fm_policy_param *p)
{
	return !strcmp(p->unit, "ms") ? FM_MS : !strcmp(p->unit, "us") ? FM_US : 0;
}

/* A bare number is in the param's own unit; fm_parse_time() would take it as milliseconds. */
static int parse_duration(
	const struct fm_policy_param *p, const char *value, int64_t *v, struct fm_err *err)
{
	char text[SHOWN + 4];
	size_t len = strlen(value);
	int n = snprintf(text, sizeof(text), "%s%s", value,
		len && isdigit((unsigned char)value[len - 1]) ? p->unit : "");

	if (n < 0 || (size_t)n >= sizeof(text))
		return fm_err_set(err, -EINVAL, "'%.*s' is not a time", SHOWN, value);
	return fm_parse_time(text, v, err);
}

static int bad_value(const struct fm_policy_param *p, int code, struct fm_err *err)
{
	int64_t ns = (int64_t)unit_ns(p);
	double scale = ns ? (double)ns : 1;

	fm_err_set(
		err, code, "%s is %s", p->name, code == -ERANGE ? "out of range" : "not a number");
	fm_err_hint(err, "give %g to %g%s%s", (double)p->min / scale, (double)p->max / scale,
		*p->unit ? " " : "", p->unit);
	return code;
}

static int unknown(const struct fm_policy_ops *ops, const char *kv, struct fm_err *err)
{
	char known[160] = "", key[FM_NEAREST_MAX + 1] = "";
	struct fm_nearest near = {.typed = key};
	size_t len = 0;

	if (strcspn(kv, "=") < sizeof(key))
		memcpy(key, kv, strcspn(kv, "="));
	for (const struct fm_policy_param *p = ops->params; p && p->name; p++)
		fm_nearest_try(&near, p->name);

	for (const struct fm_policy_param *p = ops->params; p && p->name && len < sizeof(known);
		p++)
		len += (size_t)snprintf(
			known + len, sizeof(known) - len, "%s%s", len ? ", " : "", p->name);
	fm_err_set(err, -EINVAL, "'%.*s' is not a setting of policy %s", SHOWN, kv, ops->name);
	if (near.best && kv[strcspn(kv, "=")])
		fm_err_hint(err, "did you mean '%s'?", near.best);
	else if (len)
		fm_err_hint(err, "write KEY=VALUE with KEY one of: %s", known);
	else
		fm_err_hint(err, "%s has no settings: leave them away", ops->name);
	return -EINVAL;
}

static int parse_one(
	const struct fm_policy_ops *ops, const char *kv, int64_t *values, struct fm_err *err)
{
	size_t key = strcspn(kv, "=");
	int rc;

	for (const struct fm_policy_param *p = ops->params; kv[key] && p && p->name; p++) {
		int64_t *v = &values[p - ops->params];

		if (strlen(p->name) != key || strncmp(p->name, kv, key))
			continue;
		if (unit_ns(p))
			rc = parse_duration(p, kv + key + 1, v, err);
		else
			rc = fm_parse_int(kv + key + 1, p->min, p->max, v, NULL);
		if (rc && !unit_ns(p))
			return bad_value(p, rc, err);
		if (rc)
			return rc;
		return *v < p->min || *v > p->max ? bad_value(p, -ERANGE, err) : 0;
	}
	return unknown(ops, kv, err);
}

int fm_policy_parse(const struct fm_policy_ops *ops, const char *const *kv, size_t n,
	int64_t *values, struct fm_err *err)
{
	int rc = 0;

	memset(values, 0, FM_POLICY_PARAMS * sizeof(*values));
	for (const struct fm_policy_param *p = ops->params; p && p->name; p++)
		values[p - ops->params] = p->def;
	for (size_t i = 0; i < n && !rc; i++)
		rc = parse_one(ops, kv[i], values, err);
	return rc;
}
