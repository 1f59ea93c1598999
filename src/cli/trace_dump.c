/* SPDX-License-Identifier: Apache-2.0 */
/* Records as lines: for people, CSV, JSON. */
#include "base/util.h"
#include "cmd/table.h"
#include "trace.h"
#include "json/json.h"
#include <inttypes.h>
#include <string.h>

enum form { TEXT, CSV, JSON };

struct dump {
	struct cli *cli;
	const char *path;
	enum form form;
};

static const struct argp_option options[] = {
	{"csv", 'c', 0, 0, "Comma-separated values, with a header", 0},
	{"json", 'j', 0, 0, "One JSON object a line", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct dump *d = state->input;

	switch (key) {
	case 'c':
		d->form = CSV;
		return 0;
	case 'j':
		d->form = JSON;
		return 0;
	case ARGP_KEY_ARG:
		if (d->path)
			cli_usage(state, "one file at a time, not '%s' as well", arg);
		d->path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!d->path)
			cli_usage(state, "which file?");
		return 0;
	default:
		return cli_option(key, arg, d->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE",
	.doc = "Print the records of FILE, by time.",
};

static void text_line(const struct trace_view *v, uint64_t since)
{
	char buf[32], names[4][FM_TRACE_TEXT];
	const char *from[] = {v->group, v->device, v->cause, v->reason};

	for (unsigned i = 0; i < FM_ARRAY_LEN(from); i++) {
		snprintf(names[i], sizeof(names[i]), "%s", from[i]);
		table_clean(names[i]);
	}
	printf("%14.6f ms  %-15s", (double)(int64_t)(v->rec->at - since) / 1e6, v->info->name);
	if (names[0][0])
		printf(" %s", names[0]);
	if (v->queue_id)
		printf(" q%u", v->queue_id);
	if (names[1][0])
		printf(" on %s", names[1]);
	if (names[2][0])
		printf(" for %s", names[2]);
	if (names[3][0])
		printf(" (%s)", names[3]);
	for (unsigned i = 0; i < FM_TRACE_ARGS; i++)
		if (v->info->arg[i].unit)
			printf(" %s=%s%s", v->info->arg[i].name, trace_arg(v, i, buf, sizeof(buf)),
				fm_trace_unit_name(v->info->arg[i].unit));
	putchar('\n');
}

static void csv_quoted(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"')
			putchar('"');
		putchar(*s);
	}
	putchar('"');
}

static void csv_line(const struct trace_view *v)
{
	char buf[32];

	printf("%" PRIu64 ",%d,", v->rec->at, (int)v->pid);
	csv_quoted(v->program);
	printf(",%s,", v->info->name);
	csv_quoted(v->group);
	putchar(',');
	csv_quoted(v->device);
	putchar(',');
	if (v->queue_id)
		printf("q%u", v->queue_id);
	putchar(',');
	csv_quoted(v->cause);
	putchar(',');
	csv_quoted(v->reason);
	for (unsigned i = 0; i < FM_TRACE_ARGS; i++)
		printf(",%s,%s", v->info->arg[i].name, trace_arg(v, i, buf, sizeof(buf)));
	putchar('\n');
}

static void set_text(json_t *o, const char *key, const char *text)
{
	if (text[0])
		json_object_set_new(o, key, fm_json_text(text));
}

static void json_line(const struct trace_view *v)
{
	CLI_CLEAN_JSON json_t *o =
		json_pack("{s:I, s:i, s:o, s:s}", "time_ns", (json_int_t)v->rec->at, "pid",
			(int)v->pid, "program", fm_json_text(v->program), "event", v->info->name);
	char buf[32];

	set_text(o, "group", v->group);
	set_text(o, "device", v->device);
	if (v->queue_id)
		json_object_set_new(o, "queue", json_sprintf("q%u", v->queue_id));
	set_text(o, "cause", v->cause);
	set_text(o, "reason", v->reason);
	for (unsigned i = 0; i < FM_TRACE_ARGS; i++) {
		json_t *value = v->info->arg[i].unit == FM_TU_HINT
					? json_string(trace_arg(v, i, buf, sizeof(buf)))
					: json_integer((json_int_t)v->rec->arg[i]);

		if (v->info->arg[i].unit)
			json_object_set(o, v->info->arg[i].name, value);
		json_decref(value);
	}
	if (o)
		json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
}

static void print(const struct fm_trace_file *t, enum form form)
{
	struct trace_view v;

	if (form == CSV)
		puts("time_ns,pid,program,event,group,device,queue,cause,reason,arg1,value1,arg2,"
		     "value2,arg3,value3");
	for (size_t i = 0; i < t->n_items && !ferror(stdout); i++) {
		trace_look(t, &t->items[i], &v);
		if (form == CSV)
			csv_line(&v);
		else if (form == JSON)
			json_line(&v);
		else
			text_line(&v, t->head->mono_ns);
	}
}

int trace_dump(struct cli *cli, int argc, char **argv)
{
	struct dump d = {.cli = cli};
	struct fm_trace_file t;
	int rc;

	cli_parse(&argp, argc, argv, 0, &d);
	rc = trace_open(&t, d.path);
	if (rc)
		return rc;
	print(&t, d.form);
	fm_trace_file_close(&t);
	return CLI_OK;
}
