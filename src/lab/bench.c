/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/util.h"
#include "cmd/table.h"
#include "commands.h"
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define ARRIVALS_MAX 1e9 /* of one task */
#define WARM_UP      10
#define ALONE        20
#define DISB_WARM_UP 100
#define DISB_ALONE   200
#define REST         (5 * FM_MS)
#define DISB_REST    (100 * FM_MS)
#define HINTS        64

enum {
	KEY_DRIVER = CLI_KEY_OWN,
	KEY_MODELS,
	KEY_SCALE,
	KEY_TIME,
	KEY_SEED,
	KEY_WARM_UP,
	KEY_ALONE,
	KEY_LATE,
	KEY_DISB,
	KEY_HINT,
	KEY_THREADS,
	KEY_NATIVE,
	KEY_COMPARE,
	KEY_POLICY,
	KEY_LOCAL,
	KEY_PROGRESS,
};

static const struct argp_option options[] = {
	{"driver", KEY_DRIVER, "DRIVER", 0,
		"opencl (the default), cuda or sim; :N chooses another device than the first, "
		"numbered as `fermata doctor' lists them; kserve:URL, a server with the KServe v2 "
		"protocol; or the path of a shared object",
		0},
	{"models", KEY_MODELS, "FILE", 0, "Read further models from FILE, in JSON", 0},
	{"scale", KEY_SCALE, "X", 0, "Multiply the lengths of all kernels by X", 0},
	{"time", KEY_TIME, "TIME", 0, "Length of the run, instead of the workload's", 0},
	{"seed", KEY_SEED, "N", 0, "Seed of random arrivals; default: 1", 0},
	{"warm-up", KEY_WARM_UP, "N", 0,
		"Requests of each client before the measurement; "
		"default: 10",
		0},
	{"alone", KEY_ALONE, "N", 0,
		"Requests of each client that are measured alone on the device; default: 20", 0},
	{"late", KEY_LATE, "queue|drop", 0,
		"A request that is due while the one before is served waits (queue, the default), "
		"or is dropped when the next one is due (drop)",
		0},
	{"disb", KEY_DISB, 0, 0,
		"As libdisb does: --late drop --warm-up 100 --alone 200, and periodic clients of "
		"one frequency one after the other",
		0},
	{"hint", KEY_HINT, "TASK:NAME=VALUE", 0,
		"Set a hint for the tasks whose name matches TASK (a pattern), instead of the "
		"workload's",
		1},
	{"threads", KEY_THREADS, 0, 0, "Clients are threads of one process", 1},
	{"native", KEY_NATIVE, 0, 0, "Without Fermata", 1},
	{"compare", KEY_COMPARE, 0, 0, "Run without Fermata first, then with it", 1},
	{"policy", KEY_POLICY, "POLICY", 0,
		"Run under a new daemon with this policy: \"POLICY [PARAMETER=VALUE...]\"", 1},
	{"local", KEY_LOCAL, "POLICY", 0,
		"With --threads: schedule without a daemon, each client as a group, if the driver "
		"can",
		1},
	{"progress", KEY_PROGRESS, "TIME", OPTION_ARG_OPTIONAL,
		"Report progress and failed clients on stderr, each second or each TIME", 1},
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

struct given {
	struct bench *b;
	const char *hint[HINTS];
	unsigned hints;
	bool warm_up, alone, late;
};

static void take_int(const struct argp_state *state, const char *arg, int64_t max, int64_t *v)
{
	struct fm_err err = {0};

	if (fm_parse_int(arg, 0, max, v, &err))
		cli_usage_err(state, &err);
}

static void take_time(const struct argp_state *state, const char *arg, int64_t *ns)
{
	struct fm_err err = {0};

	if (fm_parse_time(arg, ns, &err))
		cli_usage_err(state, &err);
	if (*ns < (int64_t)FM_MS || *ns > (int64_t)(BENCH_SECONDS * FM_S))
		cli_usage(state, "times are from 1ms to %d s", BENCH_SECONDS);
}

static void take_scale(const struct argp_state *state, const char *arg, double *scale)
{
	char *end;

	*scale = strtod(arg, &end);
	if (end == arg || *end || !(*scale >= 0.001 && *scale <= 1000))
		cli_usage(state, "'%s' is not a number from 0.001 to 1000", arg);
}

static void take_late(const struct argp_state *state, const char *arg, bool *drop)
{
	*drop = !strcmp(arg, "drop");
	if (!*drop && strcmp(arg, "queue"))
		cli_usage(state, "'%s' is neither queue nor drop", arg);
}

static void take_hint(const struct argp_state *state, const char *arg, struct given *g)
{
	if (!strchr(arg, ':') || !strchr(strchr(arg, ':'), '='))
		cli_usage(state, "'%s' is not TASK:NAME=VALUE", arg);
	if (g->hints == HINTS)
		cli_usage(state, "more than %d hints", HINTS);
	g->hint[g->hints++] = arg;
}

static error_t parse_number(int key, char *arg, struct argp_state *state)
{
	struct given *g = state->input;
	struct bench_options *o = &g->b->o;

	switch (key) {
	case KEY_SCALE:
		take_scale(state, arg, &o->scale);
		return 0;
	case KEY_TIME:
		take_time(state, arg, &o->seconds_ns);
		return 0;
	case KEY_SEED:
		take_int(state, arg, INT64_MAX, &o->seed);
		return 0;
	case KEY_WARM_UP:
		take_int(state, arg, 1000000, &o->warm_up);
		g->warm_up = true;
		return 0;
	case KEY_ALONE:
		take_int(state, arg, 1000000, &o->alone);
		g->alone = true;
		return 0;
	case KEY_LATE:
		take_late(state, arg, &o->drop);
		g->late = true;
		return 0;
	default:
		return cli_option(key, arg, g->b->cli);
	}
}

static void check(const struct given *g, const struct argp_state *state)
{
	struct bench_options *o = &g->b->o;

	if (o->native + o->compare > 1 || (o->native && (o->policy || o->local)))
		cli_usage(state,
			"--native, --compare, --policy and --local: --compare goes with one "
			"of the last two, the others stand alone");
	if (!!o->policy + !!o->local + !!g->b->cli->socket > 1)
		cli_usage(state, "either --policy, --local or --socket");
	if (o->local && !o->threads)
		cli_usage(state, "--local schedules within one process: it goes with --threads");
	if (!o->disb)
		return;
	if (!g->late)
		o->drop = true;
	if (!g->warm_up)
		o->warm_up = DISB_WARM_UP;
	if (!g->alone)
		o->alone = DISB_ALONE;
}

static error_t parse_bench(int key, char *arg, struct argp_state *state)
{
	struct given *g = state->input;
	struct bench_options *o = &g->b->o;

	switch (key) {
	case KEY_DRIVER:
		o->driver = arg;
		return 0;
	case KEY_MODELS:
		o->models = arg;
		return 0;
	case KEY_HINT:
		take_hint(state, arg, g);
		return 0;
	case KEY_POLICY:
		cli_check_policy(state, arg);
		o->policy = arg;
		return 0;
	case KEY_LOCAL:
		cli_check_policy(state, arg);
		o->local = arg;
		return 0;
	case KEY_DISB:
		return o->disb = true, 0;
	case KEY_THREADS:
		return o->threads = true, 0;
	case KEY_NATIVE:
		return o->native = true, 0;
	case KEY_COMPARE:
		return o->compare = true, 0;
	case KEY_PROGRESS:
		o->progress_ns = (int64_t)FM_S;
		if (arg)
			take_time(state, arg, &o->progress_ns);
		return 0;
	case ARGP_KEY_ARG:
		if (o->file)
			cli_usage(state, "one workload at a time, please: '%s'", arg);
		o->file = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "no workload given");
	case ARGP_KEY_SUCCESS:
		check(g, state);
		return 0;
	default:
		return parse_number(key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_bench,
	.args_doc = "WORKLOAD",
	.doc = "Run clients on a device, each with a model and a pattern of requests, and measure "
	       "the latency of requests, from the time when each was due, and the numbers of "
	       "DISB.\vWORKLOAD is a file in the JSON of DISB 1.0, or - for the standard input. "
	       "Ctrl-C ends the run early and prints the results so far.",
};

/* Puts "TASK:NAME=VALUE" into the workload. */
static int apply_hint(struct bench *b, const char *text, struct fm_err *err)
{
	FM_CLEAN_FREE char *copy = strdup(text);
	char *name, *value;
	enum fm_hint hint;
	int64_t v;
	bool found = false;

	if (!copy)
		return fm_err_set(err, -ENOMEM, "out of memory");
	name = strrchr(copy, ':');
	*name++ = '\0';
	value = strchr(name, '=');
	if (!value)
		return fm_err_set(err, -EINVAL, "'%.80s' is not TASK:NAME=VALUE", text);
	*value++ = '\0';
	if (fm_parse_hint(name, value, &hint, &v, err))
		return err->code = -EINVAL;
	for (uint32_t i = 0; i < b->w.tasks; i++) {
		if (fnmatch(copy, b->w.task[i].id, 0))
			continue;
		found = true;
		bench_task_set_hint(&b->w.task[i], hint, v);
	}
	return found ? 0 : fm_err_set(err, -EINVAL, "no task fits '%.80s'", copy);
}

/* The children read the same workload, with the changes of all options. */
static int share_workload(struct bench *b, struct fm_err *err)
{
	FM_CLEAN_FREE char *text = json_dumps(b->w.root, JSON_COMPACT);
	size_t left = text ? strlen(text) : 0;
	const char *at = text;

	b->text_fd = memfd_create("fermata-workload", MFD_CLOEXEC);
	while (left) {
		ssize_t n = write(b->text_fd, at, left);

		if (n <= 0)
			break;
		at += n;
		left -= (size_t)n;
	}
	b->page = bench_page_new(&b->page_fd);
	if (!text || left || b->text_fd < 0 || !b->page)
		return fm_err_set(err, -ENOMEM, "no memory to share with clients");
	return 0;
}

static json_t *hints_json(const struct bench_task *t)
{
	json_t *hints = json_object();

	for (size_t h = 0; h < t->hints; h++) {
		enum fm_hint id = (enum fm_hint)t->hint[h].hint;

		json_object_set_new(hints, fm_hint_name(id),
			json_sprintf("%" JSON_INTEGER_FORMAT "%s", (json_int_t)t->hint[h].value,
				fm_hint_suffix(id)));
	}
	return hints;
}

/* Changes the workload that the children will read. */
static void keep_hints(struct bench *b)
{
	json_t *one;
	size_t k;

	json_array_foreach (json_object_get(b->w.root, "tasks"), k, one) {
		const char *id = json_string_value(json_object_get(one, "id"));
		uint32_t i = 0;

		while (strcmp(b->w.task[i].id, id))
			i++;
		json_object_set_new(one, "hints", hints_json(&b->w.task[i]));
	}
}

static void fill_page(struct bench *b)
{
	struct bench_page *page = b->page;

	page->seed = (uint64_t)b->o.seed;
	page->warm_up = (uint32_t)b->o.warm_up;
	page->alone = (uint32_t)b->o.alone;
	page->drop = b->o.drop;
	page->threads = b->o.threads;
	page->rest = b->o.disb ? DISB_REST : REST;
	page->tasks = b->w.tasks;
	page->kernels = b->w.kernels;
	memcpy(page->kernel, b->w.kernel, sizeof(page->kernel));
	for (uint32_t k = 0; k < b->w.kernels; k++)
		page->kernel[k].ns =
			FM_MAX((uint64_t)((double)page->kernel[k].ns * b->o.scale), UINT64_C(1));
}

static int check_workload(const struct bench *b, struct fm_err *err)
{
	double seconds = b->o.seconds_ns ? (double)b->o.seconds_ns / 1e9 : b->w.seconds;

	for (uint32_t i = 0; i < b->w.tasks; i++) {
		const struct bench_task *t = &b->w.task[i];

		if (t->rate * seconds > ARRIVALS_MAX)
			return fm_err_set(err, -EINVAL,
				"task '%s': more than %.0f requests in %g s", t->id, ARRIVALS_MAX,
				seconds);
		if (t->fraction > 0 && !b->o.alone)
			return fm_err_set(err, -EINVAL,
				"task '%s': its rate_fraction needs --alone above 0", t->id);
	}
	if (b->driver.remote && (b->o.compare || b->o.policy || b->o.local)) {
		fm_err_set(err, -EINVAL,
			"a server's clients use no device: they are not "
			"scheduled");
		return fm_err_hint(err, "start the server by `fermata run', and leave out "
					"--compare, --policy and --local");
	}
	if (!b->driver.native && !b->o.threads && (b->o.native || b->o.compare))
		return fm_err_set(err, -EINVAL,
			"processes share the software device by Fermata alone: add --threads");
	return 0;
}

static int prepare(struct given *g, struct fm_err *err)
{
	struct bench *b = g->b;
	int rc = bench_driver_find(&b->driver, b->o.driver, err);

	rc = rc ? rc : bench_workload_load(&b->w, b->o.file, b->o.models, !b->driver.built_in, err);
	for (unsigned i = 0; !rc && i < g->hints; i++)
		rc = apply_hint(b, g->hint[i], err);
	rc = rc ? rc : check_workload(b, err);
	if (rc)
		return rc;
	table_clean(b->w.unknown);
	if (b->w.unknown[0])
		fprintf(stderr, "fermata-lab: %s: ignored, '%s' means nothing here\n", b->o.file,
			b->w.unknown);
	if (b->driver.built_in && b->driver.native && b->o.threads && !b->o.native)
		fprintf(stderr,
			"fermata-lab: clients of one process are one group there: their hints "
			"have no effect\n");
	b->o.native = b->o.native || b->driver.remote;
	keep_hints(b);
	rc = share_workload(b, err);
	if (rc)
		return rc;
	fill_page(b);
	return b->o.policy ? own_daemon_start(&b->daemon, b->o.policy, NULL, false, err) : 0;
}

static int one_run(struct bench *b, enum bench_mode mode, struct fm_err *err)
{
	static struct bench_processes p;
	const char *failed[BENCH_TASKS] = {NULL};
	struct bench_outcome o = {.w = &b->w, .page = b->page, .failed = failed};
	int rc = mode == BENCH_FERMATA ? bench_find_daemon(b, err) : 0;

	rc = rc ? rc : bench_run(b, mode, &p, &o.begin, err);
	if (rc)
		return rc;
	o.policy = mode == BENCH_FERMATA ? b->policy : mode == BENCH_LOCAL ? b->o.local : NULL;
	o.mode = mode == BENCH_NATIVE ? "native" : mode == BENCH_LOCAL ? "local" : "fermata";
	o.complete = !atomic_load(&b->page->stop);
	for (uint32_t i = 0; i < b->w.tasks; i++) {
		failed[i] = p.failed[i][0] ? p.failed[i] : NULL;
		b->failed = b->failed || failed[i];
	}
	if (b->cli->json)
		return json_array_append_new(b->runs, bench_report_run(&o)) ? -ENOMEM : 0;
	if (!json_array_size(b->runs))
		bench_show_head(b);
	json_array_append_new(b->runs, json_null());
	return bench_show_run(&o);
}

static int run(struct bench *b, struct fm_err *err)
{
	enum bench_mode mode = b->o.local ? BENCH_LOCAL : BENCH_FERMATA;
	int rc = 0;

	if (b->o.native || b->o.compare)
		rc = one_run(b, BENCH_NATIVE, err);
	if (!rc && !b->o.native && !bench_interrupts())
		rc = one_run(b, mode, err);
	if (!rc && b->cli->json) {
		CLI_CLEAN_JSON json_t *root = bench_head_json(b);

		json_object_set(root, "runs", b->runs);
		rc = cli_print_json(root) ? fm_err_set(err, -ENOMEM, "out of memory") : 0;
	}
	return rc;
}

int lab_bench(struct cli *cli, int argc, char **argv)
{
	static struct bench b = {.page_fd = -1,
		.text_fd = -1,
		.o = {.driver = "opencl",
			.scale = 1,
			.seed = 1,
			.warm_up = WARM_UP,
			.alone = ALONE}};
	struct given g = {.b = &b};
	struct fm_err err = {0};
	int rc;

	b.cli = cli;
	b.runs = json_array();
	cli_parse(&argp, argc, argv, 0, &g);
	bench_catch_interrupts();
	rc = prepare(&g, &err);
	rc = rc ? rc : run(&b, &err);
	own_daemon_end(&b.daemon);
	bench_page_free(b.page);
	bench_workload_free(&b.w);
	json_decref(b.runs);
	if (!rc)
		return b.failed ? CLI_FAILED : CLI_OK;
	return cli_report(&err);
}
