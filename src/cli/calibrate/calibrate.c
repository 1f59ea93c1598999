/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate.h"
#include "api/api.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/util.h"
#include "bench/driver.h"
#include "cli/commands.h"
#include "cmd/own_daemon.h"
#include "cmd/progress.h"
#include "json/json.h"
#include <errno.h>
#include <string.h>

#define DEFAULT_S  10
#define COMMAND_NS (200 * (int64_t)FM_US)
#define NEEDED     20 /* samples of each, at least */
#define ALONE      5
#define ANSWER_MS  5000
#define PATIENCE   (60 * FM_S) /* for the samples that are needed, on a busy machine */

/* Parts of the time, in thousandths: of that without Fermata, and between two looks. */
#define NATIVE 300
#define LOOK   10

struct calibrate {
	struct cli *cli;
	const char *device, *file, *update, *config;
	bool gpu_sched, other; /* other: an option that belongs to the other measurement */
	struct calibrate_sets *sets;
	json_t *old;        /* the file that is updated */
	struct outfile out; /* where there is a file */
	int64_t seconds, command_ns;
	uint64_t amount;
	const char *doing;
	unsigned parts; /* of the time, in thousandths: have passed */
	struct own_daemon daemon;
	struct calibration c;
};

enum {
	KEY_DEVICE = CLI_KEY_OWN,
	KEY_SECONDS,
	KEY_COMMAND,
	KEY_CONFIG,
	KEY_REALTIME,
	KEY_GPU_SCHED,
	KEY_TASKS,
	KEY_UPDATE
};

static const struct argp_option options[] = {
	{"device", KEY_DEVICE, "DEVICE", 0,
		"API of the device, such as opencl or cuda, or sim; :N chooses another device "
		"than the first, numbered as `fermata doctor' lists them. Default: the first CUDA "
		"device that works, else the first OpenCL device",
		0},
	{"seconds", KEY_SECONDS, "N", 0, "Duration of the measurement; default: 10", 0},
	{"command", KEY_COMMAND, "TIME", 0,
		"Length of the competing commands; default: 200us. Give the length of your "
		"programs' longest commands",
		0},
	{"realtime", KEY_REALTIME, 0, 0,
		"Run the daemon and the programs under Fermata as real-time tasks (SCHED_FIFO)", 0},
	{"config", KEY_CONFIG, "FILE", 0,
		"Settings of the daemon that is started for the "
		"measurement",
		0},
	{"gpu-sched", KEY_GPU_SCHED, 0, 0,
		"Measure instead what decisions of sets of tasks cost that schedule themselves, "
		"by engine and number of tasks",
		0},
	{"tasks", KEY_TASKS, "N[,N...]", 0,
		"Numbers of tasks (--gpu-sched), 2 to 1024; default: 2,5,16,32", 0},
	{"output", 'o', "FILE", 0, "Write the results to FILE", 0},
	{"update", KEY_UPDATE, "FILE", 0,
		"Write the results into FILE, a platform file, beside what it has of the other "
		"measurement",
		0},
	CLI_OPT_FORCE,
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static void take_device(struct calibrate *x, const struct argp_state *state, const char *arg)
{
	char names[128];
	unsigned index;

	if (!bench_load_find(arg, &index))
		cli_usage(state, "'%s' is none of %s, with or without :NUMBER", arg,
			bench_load_names(names, sizeof(names)));
	x->device = arg;
}

static void take_number(const struct argp_state *state, const char *arg, int64_t *v)
{
	struct fm_err err = {0};

	if (fm_parse_int(arg, 1, 600, v, &err))
		cli_usage_err(state, &err);
}

static void take_command(const struct argp_state *state, const char *arg, int64_t *ns)
{
	struct fm_err err = {0};

	if (fm_parse_time(arg, ns, &err))
		cli_usage_err(state, &err);
	if (*ns < 10 * (int64_t)FM_US || *ns > 100 * (int64_t)FM_MS)
		cli_usage(state, "commands take from 10us to 100ms");
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void take_tasks(struct calibrate_sets *s, const struct argp_state *state, const char *arg)
{
	struct fm_err err = {0};
	char list[256], *rest = list, *one;
	unsigned n = 0;

	if (strlen(arg) >= sizeof(list))
		cli_usage(state, "--tasks has at most %d numbers", FM_PLATFORM_ROWS);
	strcpy(list, arg);
	for (s->n = 0; (one = strsep(&rest, ","));) {
		if (s->n == FM_PLATFORM_ROWS)
			cli_usage(state, "--tasks has at most %d numbers", FM_PLATFORM_ROWS);
		if (fm_parse_int(one, 2, FM_PLATFORM_TASKS_MAX, &s->tasks[s->n++], &err))
			cli_usage_err(state, &err);
	}
	qsort(s->tasks, s->n, sizeof(s->tasks[0]), ascending);
	for (unsigned k = 0; k < s->n; k++)
		if (!n || s->tasks[k] != s->tasks[n - 1])
			s->tasks[n++] = s->tasks[k];
	s->n = n;
}

static void check_usage(const struct calibrate *x, const struct argp_state *state)
{
	if (x->config && x->cli->socket)
		cli_usage(state, "either --config or --socket: the daemon there has its own");
	if (x->file && x->update)
		cli_usage(state, "either --output or --update");
	if (x->gpu_sched && (x->other || x->config || x->cli->socket))
		cli_usage(state,
			"--gpu-sched needs neither a device nor a daemon: of the others it "
			"takes --seconds, --tasks, and where to write");
	if (!x->gpu_sched && x->sets->n)
		cli_usage(state, "--tasks belongs to --gpu-sched");
}

static error_t parse_calibrate(int key, char *arg, struct argp_state *state)
{
	struct calibrate *x = state->input;

	switch (key) {
	case KEY_GPU_SCHED:
		x->gpu_sched = true;
		return 0;
	case KEY_TASKS:
		take_tasks(x->sets, state, arg);
		return 0;
	case KEY_UPDATE:
		x->update = arg;
		return 0;
	case KEY_DEVICE:
		x->other = true;
		take_device(x, state, arg);
		return 0;
	case KEY_SECONDS:
		take_number(state, arg, &x->seconds);
		return 0;
	case KEY_COMMAND:
		x->other = true;
		take_command(state, arg, &x->command_ns);
		return 0;
	case KEY_REALTIME:
		x->other = true;
		x->c.realtime = true;
		return 0;
	case KEY_CONFIG:
		x->config = arg;
		return 0;
	case 'o':
		x->file = arg;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage(state, "calibrate takes no argument '%s'", arg);
	case ARGP_KEY_END:
		check_usage(x, state);
		return 0;
	default:
		return cli_option(key, arg, x->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_calibrate,
	.doc = "Measure this machine for `fermata analyze --platform' and the admission of tasks: "
	       "the cost of a switch between programs under Fermata (epsilon), and the driver's "
	       "own time slice and cost of a switch (slice, theta).\vDuring the measurement two "
	       "programs compete for the device. A daemon is started for it; with --socket, the "
	       "daemon there is measured. Measure under the load that the machine will have. With "
	       "--gpu-sched, what `fermata analyze --method gedf --gpu' charges is measured.",
};

static void show(const struct calibrate *x)
{
	progress_show("calibrate: %s, %u of %lld s", x->doing,
		(unsigned)((uint64_t)x->seconds * x->parts / 1000), (long long)x->seconds);
}

static void progress(struct calibrate *x, const char *what)
{
	x->doing = what;
	show(x);
}

/* A part of the time, in thousandths. */
static void let(struct calibrate *x, unsigned part)
{
	const struct timespec t = fm_timespec((uint64_t)x->seconds * FM_S / 1000 * LOOK);

	for (unsigned done = 0; done < part; done += LOOK) {
		nanosleep(&t, NULL);
		x->parts += LOOK;
		show(x);
	}
}

/* Waits until the program has so many notes, or gives up; later steps see which. */
static void await_notes(const struct calibrate_page *page, uint32_t n)
{
	const struct timespec pause = fm_timespec(5 * FM_MS);
	uint64_t end = fm_now() + PATIENCE;

	while (atomic_load(&page->notes) < n && fm_now() < end)
		nanosleep(&pause, NULL);
}

static int find_amount(struct calibrate *x, const char *device, struct fm_err *err)
{
	CALIBRATE_CLEAN struct calibrate_program p = {0};
	const struct calibrate_start how = {
		.device = device, .role = ROLE_SIZE, .amount = (uint64_t)x->command_ns};
	int rc = calibrate_start(&p, &how, err);

	if (rc)
		return rc;
	x->device = device;
	x->amount = p.page->amount;
	x->c.command_ns = p.page->command_ns;
	memcpy(x->c.name, p.page->name, sizeof(x->c.name));
	memcpy(x->c.platform, p.page->platform, sizeof(x->c.platform));
	memcpy(x->c.driver, p.page->driver, sizeof(x->c.driver));
	return 0;
}

static int find_device(struct calibrate *x, struct fm_err *err)
{
	int rc = -ENODEV;

	progress(x, "finding the length of commands");
	if (x->device)
		return find_amount(x, x->device, err);
	for (const struct fm_api *const *a = fm_apis; rc && *a; a++)
		if ((*a)->load && (*a)->load->native)
			rc = find_amount(x, (*a)->name, err);
	if (rc)
		fm_err_hint(
			err, "`fermata doctor' says what is missing; --device sim needs nothing");
	return rc;
}

/* One alone, then two at once, without Fermata. */
static int measure_native(struct calibrate *x, struct fm_err *err)
{
	CALIBRATE_CLEAN struct calibrate_program a = {0}, b = {0};
	const struct calibrate_start how = {
		.device = x->device, .role = ROLE_BUSY, .amount = x->amount};
	struct calibrate_page *page[2];
	uint32_t alone[2], both[2];
	int rc = calibrate_start(&a, &how, err);

	progress(x, "two programs without Fermata");
	rc = rc ? rc : calibrate_start(&b, &how, err);
	rc = rc ? rc : calibrate_go(&a, GO_WORK, err);
	if (rc)
		return rc;
	let(x, 20);
	alone[0] = atomic_load(&a.page->notes);
	let(x, 100);
	alone[1] = atomic_load(&a.page->notes);
	rc = calibrate_go(&b, GO_WORK, err);
	let(x, 20);
	both[0] = atomic_load(&a.page->notes);
	both[1] = atomic_load(&b.page->notes);
	let(x, 160);
	page[0] = a.page;
	page[1] = b.page;
	rc = rc ? rc : calibrate_native(&x->c, page, alone, both);
	rc = rc ? rc : calibrate_go(&a, GO_WAIT, err);
	return rc ? rc : calibrate_go(&b, GO_WAIT, err);
}

static const json_t *busy_group(const json_t *ps)
{
	json_t *g;
	size_t i;

	json_array_foreach (json_object_get(ps, "groups"), i, g)
		if (!strcmp(cli_str(g, "name"), "calibrate-busy"))
			return g;
	return NULL;
}

/* What the daemon measured: the stops of the busiest device, and the daemon's own share. */
static int ask_daemon(struct calibrate *x, struct fm_err *err)
{
	CLI_CLEAN_JSON json_t *ps = NULL;
	CLI_CLEAN_JSON json_t *stats = NULL;
	json_t *d, *most = NULL;
	const json_t *queues;
	size_t i;
	int rc = ctl_call_at(x->daemon.dir, json_pack("{s:s}", "cmd", "ps"), ANSWER_MS, &ps, err);

	if (!rc)
		rc = ctl_call_at(
			x->daemon.dir, json_pack("{s:s}", "cmd", "stats"), ANSWER_MS, &stats, err);
	if (rc)
		return rc;
	json_array_foreach (json_object_get(ps, "devices"), i, d) {
		json_t *h = json_object_get(d, "preempt_us");

		if (!most || cli_num(h, "count") > cli_num(most, "count"))
			most = h;
	}
	queues = json_object_get(busy_group(ps), "queues");
	x->c.level = (int)cli_num(json_array_get(queues, 0), "level");
	x->c.stop = json_incref(most);
	x->c.react = json_incref(json_object_get(stats, "react_us"));
	return x->c.level ? 0
			  : fm_err_set(err, -EIO,
				    "the programs were not scheduled by Fermata: they have no "
				    "queue in the daemon");
}

static int measure_scheduled(struct calibrate *x, struct fm_err *err)
{
	CALIBRATE_CLEAN struct calibrate_program busy = {0}, sporadic = {0};
	struct calibrate_start how = {.device = x->device,
		.role = ROLE_BUSY,
		.amount = x->amount,
		.dir = x->daemon.dir,
		.priority = "low",
		.realtime = x->c.realtime};
	uint32_t from;
	int rc = calibrate_start(&busy, &how, err);

	progress(x, "two programs under Fermata");
	how.role = ROLE_SPORADIC;
	how.priority = "realtime";
	rc = rc ? rc : calibrate_start(&sporadic, &how, err);
	rc = rc ? rc : calibrate_go(&sporadic, GO_WORK, err);
	if (rc)
		return rc;
	let(x, 100);
	await_notes(sporadic.page, ALONE);
	rc = calibrate_go(&sporadic, GO_WAIT, err);
	rc = rc ? rc : calibrate_alone(&x->c, sporadic.page);
	rc = rc ? rc : calibrate_go(&busy, GO_WORK, err);
	rc = rc ? rc : calibrate_go(&sporadic, GO_WORK, err);
	if (rc)
		return rc;
	let(x, 50);
	from = atomic_load(&sporadic.page->notes);
	let(x, 550);
	await_notes(sporadic.page, from + NEEDED);
	rc = ask_daemon(x, err);
	rc = rc ? rc : calibrate_go(&sporadic, GO_WAIT, err);
	rc = rc ? rc : calibrate_go(&busy, GO_WAIT, err);
	return rc ? rc : calibrate_together(&x->c, busy.page, sporadic.page, from);
}

/* Uses the daemon that --socket names, as it is, if its policy is the one that analyses assume.
 * Without --socket it starts a daemon of its own. */
static int use_daemon(struct calibrate *x, struct fm_err *err)
{
	CLI_CLEAN_JSON json_t *reply = NULL;
	const char *name;
	int rc;

	if (!x->cli->socket)
		return own_daemon_start(
			&x->daemon, "fixed-priority", x->config, x->c.realtime, err);
	rc = ctl_call(x->cli, json_pack("{s:s}", "cmd", "policy"), &reply, x->daemon.dir, err);
	name = cli_str(json_object_get(reply, "policy"), "name");
	if (rc || !strcmp(name, "fixed-priority"))
		return rc;
	fm_err_set(err, -EOPNOTSUPP, "the daemon's policy is %.40s", name);
	return fm_err_hint(err, "the analyses assume fixed-priority: run `fermata policy "
				"fixed-priority', or leave out --socket");
}

static int measure(struct calibrate *x, struct fm_err *err)
{
	unsigned index;
	const struct load_ops *ops;
	int rc = find_device(x, err);

	if (rc)
		return rc;
	ops = bench_load_find(x->device, &index);
	x->c.kind = ops->kind;
	x->c.seconds = (double)x->seconds;
	x->c.slowdown = 2 * CALIBRATE_NO_SLOWDOWN;
	if (ops->native)
		rc = measure_native(x, err);
	x->parts =
		NATIVE; /* where nothing is measured without Fermata it does not take that long */
	rc = rc ? rc : use_daemon(x, err);
	rc = rc ? rc : measure_scheduled(x, err);
	if (!rc && (x->c.begin.n < NEEDED || x->c.go_on.n < NEEDED)) {
		fm_err_set(err, -EAGAIN, "%zu and %zu samples are too few", x->c.begin.n,
			x->c.go_on.n);
		fm_err_hint(err, "give it more time: --seconds %lld", (long long)x->seconds * 4);
		rc = -EAGAIN;
	}
	if (rc == -ENOMEM && err->code != rc)
		fm_err_set(err, rc, "out of memory");
	calibrate_conclude(&x->c);
	return rc;
}

/* The members of this measurement, beside those of the other one. */
static json_t *results(const struct calibrate *x)
{
	json_t *root, *sets;

	if (x->gpu_sched)
		return calibrate_sets_json(x->sets, x->old);
	root = calibration_json(&x->c);
	sets = json_object_get(x->old, "gpu_sched");
	if (root && sets)
		json_object_set(root, "gpu_sched", sets);
	return root;
}

/* The results are shown even if they cannot be written. */
static int tell(struct calibrate *x)
{
	CLI_CLEAN_JSON json_t *root = results(x);
	struct fm_err err = {0};
	int rc = CLI_OK;

	if (!root) {
		fm_err_set(&err, -ENOMEM, "out of memory");
		return cli_report(&err);
	}
	if (x->cli->json)
		rc = cli_print_json(root);
	else if (x->gpu_sched)
		calibrate_sets_show(x->sets);
	else
		calibration_show(&x->c);
	return x->file && calibration_write(root, &x->out, &err) ? cli_report(&err) : rc;
}

/* Before the measurement: the file that is updated is one, and where the results go can be written.
 */
static int open_file(struct calibrate *x, struct fm_err *err)
{
	struct fm_json j = {.file = x->update,
		.hint = "fermata-calibrate(1) describes the file; --output makes a new one",
		.err = err};
	struct fm_platform p;
	int rc = 0;

	if (x->update) {
		rc = fm_platform_load(&p, x->update, err);
		if (!rc && x->gpu_sched)
			rc = calibrate_sets_fit(x->sets, &p, err);
		if (!rc)
			rc = fm_json_load(&j, &x->old);
		x->file = x->update;
	}
	if (!rc && x->file)
		rc = outfile_open(&x->out, x->file, x->cli->force || x->update, err);
	return rc;
}

static void take_usual_tasks(struct calibrate_sets *s)
{
	static const int64_t usual[] = {2, 5, 16, 32};

	if (s->n)
		return;
	s->n = FM_ARRAY_LEN(usual);
	memcpy(s->tasks, usual, sizeof(usual));
}

static int measure_sets(struct calibrate *x, struct fm_err *err)
{
	x->sets->seconds = x->seconds;
	return calibrate_sets(x->sets, err);
}

int cli_calibrate(struct cli *cli, int argc, char **argv)
{
	struct calibrate x = {.cli = cli, .seconds = DEFAULT_S, .command_ns = COMMAND_NS};
	FM_CLEAN_FREE struct calibrate_sets *sets = calloc(1, sizeof(*sets));
	struct fm_err err = {0};
	int rc;

	x.sets = sets;
	if (!sets)
		return CLI_FAILED;
	cli_parse(&argp, argc, argv, 0, &x);
	take_usual_tasks(sets);
	rc = open_file(&x, &err);
	if (!rc)
		rc = x.gpu_sched ? measure_sets(&x, &err) : measure(&x, &err);
	progress_clear();
	own_daemon_end(&x.daemon);
	rc = rc ? cli_report(&err) : tell(&x);
	calibration_free(&x.c);
	calibrate_sets_free(sets);
	json_decref(x.old);
	outfile_drop(&x.out);
	return rc;
}
