/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "cli.h"
#include "policy/policy.h"
#include "table.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

error_t cli_option(int key, char *arg, struct cli *cli)
{
	switch (key) {
	case CLI_KEY_SOCKET:
		cli->socket = arg;
		return 0;
	case CLI_KEY_FORCE:
		cli->force = true;
		return 0;
	case CLI_KEY_JSON:
		cli->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

error_t cli_target(int key, char *arg, struct argp_state *state)
{
	struct cli_target *t = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			cli_usage(state, "one target at a time, please: '%s'", arg);
		t->target = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "no target given");
	default:
		return cli_option(key, arg, t->cli);
	}
}

void cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
	error_t rc = argp_parse(argp, argc, argv, flags, NULL, input);

	if (rc) {
		fprintf(stderr, "%s: cannot read the command line\n", argv[0]);
		exit(rc == ENOMEM ? CLI_FAILED : CLI_USAGE);
	}
}

int cli_parse_seconds(const char *text, double *seconds)
{
	int64_t ns;
	char *end;

	*seconds = strtod(text, &end);
	if (end != text && !*end)
		return isfinite(*seconds) ? 0 : -EINVAL;
	if (fm_parse_time(text, &ns, NULL))
		return -EINVAL;
	*seconds = (double)ns / FM_S;
	return 0;
}

void cli_usage(const struct argp_state *state, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", cli_name());
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n  hint: %s --help\n", state->name);
	exit(CLI_USAGE);
}

void cli_usage_err(const struct argp_state *state, struct fm_err *err)
{
	if (!err->hint[0])
		fm_err_hint(err, "%s --help", state->name);
	cli_report(err);
	exit(CLI_USAGE);
}

__attribute__((noreturn)) static void no_policy(const struct argp_state *state, const char *name)
{
	struct fm_err err = {0};
	char known[160] = "";
	size_t len = 0;

	for (const struct fm_policy_ops *const *p = fm_policies; *p && len < sizeof(known); p++)
		len += (size_t)snprintf(
			known + len, sizeof(known) - len, "%s%s", len ? ", " : "", (*p)->name);
	fm_err_set(&err, -ENOENT, "no policy '%s'", name);
	fm_err_hint(&err, "policies are %s", known);
	cli_usage_err(state, &err);
}

void cli_check_policy(const struct argp_state *state, const char *local)
{
	FM_CLEAN_FREE char *words = strdup(local);
	const char *params[FM_POLICY_PARAMS];
	int64_t values[FM_POLICY_PARAMS];
	const struct fm_policy_ops *policy;
	struct fm_err err = {0};
	size_t n = 0;
	char *rest = NULL, *word = words ? strtok_r(words, " ", &rest) : NULL;

	policy = word ? fm_policy_find(word) : NULL;
	if (!policy)
		no_policy(state, word ? word : local);
	while ((word = strtok_r(NULL, " ", &rest))) {
		if (n == FM_POLICY_PARAMS)
			cli_usage(state, "too many parameters of policy %s", policy->name);
		params[n++] = word;
	}
	if (fm_policy_parse(policy, params, n, values, &err))
		cli_usage_err(state, &err);
}

/* Errors quote files, which others may have written. */
int cli_report(const struct fm_err *err)
{
	struct fm_err clean = *err;

	table_clean(clean.text);
	table_clean(clean.hint);
	fprintf(stderr, "%s: %s\n", cli_name(), clean.text);
	if (clean.hint[0])
		fprintf(stderr, "  hint: %s\n", clean.hint);
	switch (err->code) {
	case -EINVAL:
	case -ERANGE:
	case -EOVERFLOW:
	case -E2BIG:
		return CLI_USAGE;
	case -ENOTCONN:
		return CLI_NO_DAEMON;
	default:
		return CLI_FAILED;
	}
}

/* What the standard output does not take cli_main() tells. */
int cli_print_json(const json_t *value)
{
	if (!json_dumpf(value, stdout, JSON_INDENT(2)) && putchar('\n') != EOF)
		return CLI_OK;
	if (!ferror(stdout))
		fprintf(stderr, "%s: the answer cannot be written as JSON\n", cli_name());
	return CLI_FAILED;
}

int cli_print_names(const json_t *names)
{
	const json_t *one;
	size_t i;

	json_array_foreach (names, i, one) {
		FM_CLEAN_FREE char *name = strdup(json_string_value(one) ?: "-");

		if (!name)
			return CLI_FAILED;
		table_clean(name);
		puts(name);
	}
	return CLI_OK;
}

void cli_tell_fallback(const json_t *policy)
{
	const char *dropped = json_string_value(json_object_get(policy, "dropped"));
	char line[256];

	if (!dropped)
		return;
	snprintf(line, sizeof(line), "! %s is in force instead of a policy that was dropped: %s",
		cli_str(policy, "name"), dropped);
	table_clean(line);
	puts(line);
}

const char *cli_str(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "-";
}

const char *cli_binary_hint(const json_t *group)
{
	json_t *c;
	size_t i;

	json_array_foreach (json_object_get(group, "calls"), i, c)
		if (cli_num(c, "undivided") > 0 && strstr(cli_str(c, "call"), "(from binary)"))
			return "kernels from a cache of binaries can be stopped in the middle "
			       "only if they were built under Fermata: for PyOpenCL set "
			       "PYOPENCL_NO_CACHE=1, or empty its cache once";
	return NULL;
}

double cli_num(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}
