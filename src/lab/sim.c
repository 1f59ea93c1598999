/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab sim`: a workload in virtual time, under the policies and the core of the daemon. */
#include "base/parse.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/outfile.h"
#include "commands.h"
#include "model/workload.h"
#include "own_policy.h"
#include "simulate.h"
#include "simulate_memory.h"
#include "simulate_out.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREADS_MAX 1024
#define LOOK        (100 * FM_MS) /* how often the bar moves */
#define PICTURE     (200 * FM_MS) /* how much it shows by default */

enum {
	KEY_POLICY = CLI_KEY_OWN,
	KEY_SEED,
	KEY_DURATION,
	KEY_MACHINES,
	KEY_CSV,
	KEY_SVG,
	KEY_FROM,
	KEY_UNTIL,
	KEY_ARRIVALS,
	KEY_TRACE,
	KEY_METRICS,
	KEY_FORECAST,
	KEY_MEMORY,
	KEY_EARLY,
};

struct options {
	struct cli *cli;
	const char *file, *policy, *svg, *trace, *metrics;
	int64_t seed, machines, threads; /* -1, 0 and 0: not given */
	uint64_t duration;               /* 0: not given */
	uint64_t from, until;            /* FM_NEVER: not given */
	bool csv, forecast;
	struct simulate_memories memories; /* n 0: not given */
	bool early;
	bool open, closed; /* how recorded jobs arrive, instead of as the file says */
};

static const struct argp_option options[] = {
	{"policy", KEY_POLICY, "POLICY", 0,
		"Policy instead of the file's: \"NAME [KEY=VALUE...]\", or ./NAME.so", 0},
	{"seed", KEY_SEED, "N", 0, "Seed of the random numbers, instead of the file's", 0},
	{"duration", KEY_DURATION, "TIME", 0, "Duration, instead of the file's", 0},
	{"machines", KEY_MACHINES, "N", 0, "Number of machines, instead of the file's", 0},
	{"arrivals", KEY_ARRIVALS, "HOW", 0,
		"Arrivals of recorded jobs, instead of the file's: open, at their recorded times; "
		"closed, with their recorded pause after the end of the job before",
		0},
	{"threads", 'j', "N", 0, "Number of threads; default: one per processor", 0},
	{"csv", KEY_CSV, 0, 0, "Print comma-separated values", 0},
	{"svg", KEY_SVG, "FILE", 0, "Write a time line of the first machine", 0},
	{"from", KEY_FROM, "TIME", 0, "Begin of the time line; default: after the warm-up", 0},
	{"until", KEY_UNTIL, "TIME", 0, "End of the time line; default: 200 ms later", 0},
	{"trace", KEY_TRACE, "FILE", 0, "Write all events as a recording for `fermata trace'", 0},
	{"metrics", KEY_METRICS, "FILE", 0,
		"Write the metrics at the end, in the format of `fermata metrics'; -: print them "
		"only",
		0},
	{"forecast", KEY_FORECAST, 0, 0,
		"Forecast the next turns, and report how many forecasts came true", 0},
	{"memory-policy", KEY_MEMORY, "POLICY[,POLICY...]", 0,
		"Policy of memory instead of the file's; several are compared with each other", 0},
	{"memory-early", KEY_EARLY, 0, 0,
		"Let groups begin before their memory is in, as programs with early start do", 0},
	CLI_OPT_FORCE,
	CLI_OPT_JSON,
	{0},
};

static void set_number(
	const struct argp_state *state, const char *text, int64_t min, int64_t max, int64_t *v)
{
	struct fm_err err = {0};

	if (fm_parse_int(text, min, max, v, &err))
		cli_usage_err(state, &err);
}

static void set_time(const struct argp_state *state, const char *text, uint64_t *ns)
{
	struct fm_err err = {0};

	if (workload_time(text, ns, &err))
		cli_usage_err(state, &err);
}

static void set_memories(
	const struct argp_state *state, const char *text, struct simulate_memories *m)
{
	struct fm_err err = {0};

	m->n = 0;
	if (simulate_memories_parse(m, text, &err))
		cli_usage_err(state, &err);
}

static error_t parse_sim(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_POLICY:
		o->policy = arg;
		return 0;
	case KEY_SEED:
		set_number(state, arg, 0, INT64_MAX, &o->seed);
		return 0;
	case KEY_DURATION:
		set_time(state, arg, &o->duration);
		if (!o->duration)
			cli_usage(state, "a duration of 0: there is nothing to simulate");
		return 0;
	case KEY_MACHINES:
		set_number(state, arg, 1, 1000000, &o->machines);
		return 0;
	case 'j':
		set_number(state, arg, 1, THREADS_MAX, &o->threads);
		return 0;
	case KEY_ARRIVALS:
		o->open = !strcmp(arg, "open");
		o->closed = !strcmp(arg, "closed");
		if (!o->open && !o->closed)
			cli_usage(state, "arrivals are open or closed, not '%s'", arg);
		return 0;
	case KEY_CSV:
		o->csv = true;
		return 0;
	case KEY_SVG:
		o->svg = arg;
		return 0;
	case KEY_FROM:
		set_time(state, arg, &o->from);
		return 0;
	case KEY_UNTIL:
		set_time(state, arg, &o->until);
		return 0;
	case KEY_TRACE:
		o->trace = arg;
		return 0;
	case KEY_METRICS:
		o->metrics = arg;
		return 0;
	case KEY_FORECAST:
		o->forecast = true;
		return 0;
	case KEY_EARLY:
		o->early = true;
		return 0;
	case KEY_MEMORY:
		set_memories(state, arg, &o->memories);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			cli_usage(state, "more than one file");
		o->file = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->file)
			cli_usage(state, "no file given");
		return 0;
	default:
		return cli_option(key, arg, o->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_sim,
	.args_doc = "FILE",
	.doc = "Simulate a workload: devices, programs, and the scheduler that the daemon runs, in "
	       "virtual time.\vThe same file and seed give the same answer, to the byte, on every "
	       "machine. fermata-lab-sim(1) has the format of the file.",
};

/* The policy's name, if it names a file. */
static int open_own(const char *policy, struct fm_plugin **own, struct fm_err *err)
{
	char path[WORKLOAD_POLICY];

	snprintf(path, sizeof(path), "%.*s", (int)strcspn(policy, " \t"), policy);
	return own_policy_is(path) ? own_policy_open(own, path, err) : 0;
}

/* Checks what the time line shows, before anything is simulated in vain. */
static int set_picture(struct options *o, const struct fm_sim_plan *p, struct fm_err *err)
{
	if (o->from == FM_NEVER)
		o->from = p->warmup;
	if (o->until == FM_NEVER)
		o->until = FM_MIN(fm_add_sat(o->from, PICTURE), p->duration);
	if (!o->svg || (o->from < o->until && o->until <= p->duration))
		return 0;
	return fm_err_set(err, -EINVAL,
		"the time line has to end after it begins, and not after the simulation");
}

/* An output must not be the input, and two outputs must not be the same file. */
static int check_files(const struct options *o, struct fm_err *err)
{
	const char *file[] = {o->file, o->svg, o->trace, o->metrics};

	for (size_t i = 1; i < FM_ARRAY_LEN(file); i++)
		for (size_t k = 0; k < i && file[i]; k++)
			if (file[k] && strcmp(file[i], "-") != 0 &&
				(!strcmp(file[i], file[k]) || outfile_same(file[i], file[k])))
				return fm_err_set(err, -EINVAL,
					k ? "%s is named for two purposes"
					  : "%s is the workload itself",
					file[i]);
	return 0;
}

/* The sum of the times of a section's devices, or groups, must fit into a JSON number. */
static int check_sums(const struct fm_sim_plan *p, struct fm_err *err)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < p->devices; i++)
		most = FM_MAX(most, (uint64_t)p->device[i].count * p->device[i].slots);
	for (uint32_t i = 0; i < p->groups; i++) {
		const struct fm_sim_group *g = &p->group[i];
		uint64_t on = g->everywhere ? 0 : 1;

		for (uint32_t k = 0; k < g->places && g->everywhere; k++)
			on += p->device[g->place[k]].count;
		most = FM_MAX(most, g->count * on);
	}
	if ((unsigned __int128)most * p->machines * p->duration <= INT64_MAX)
		return 0;
	fm_err_set(err, -ERANGE,
		"the devices or groups of a section have more than 292 years together");
	return fm_err_hint(err, "simulate fewer of them, or for a shorter time");
}

static int set_forecast(struct fm_sim_plan *p, struct fm_err *err)
{
	p->forecast = true;
	if (p->policy->copy)
		return 0;
	fm_err_set(err, -EINVAL, "policy %s has no forecast", p->policy->name);
	return fm_err_hint(err, "leave --forecast away, or take another policy: those that are "
				"built in have one, but for heterogeneous-priority");
}

static int set_memory(struct fm_sim_plan *p, const struct options *o, struct fm_err *err)
{
	if (!o->memories.n && !o->early)
		return 0;
	if (!p->memory.policy) {
		fm_err_set(err, -EINVAL, "%.100s has no device with memory", o->file);
		return fm_err_hint(err, "give it one: [device NAME], memory = 16G");
	}
	if (o->memories.n > 1 && (o->svg || o->trace || o->metrics || o->forecast)) {
		fm_err_set(err, -EINVAL, "several policies of memory give a comparison only");
		return fm_err_hint(err, "leave --svg, --trace, --metrics and --forecast away, or "
					"give one policy");
	}
	p->memory.early |= o->early;
	if (o->memories.n)
		p->memory.policy = o->memories.policy[0];
	return 0;
}

/* What the command line gives instead of the file. */
static int prepare(
	struct workload *w, struct options *o, struct fm_plugin **own, struct fm_err *err)
{
	const char *policy = o->policy ? o->policy : w->policy;
	int rc = open_own(policy, own, err);

	if (!rc && (o->policy || *own))
		rc = workload_policy(w, policy, *own ? fm_plugin_ops(*own) : NULL, err);
	if (!rc && (o->open || o->closed))
		rc = workload_closed(w, o->closed, err);
	if (rc)
		return rc;
	if (o->seed >= 0)
		w->plan.seed = (uint64_t)o->seed;
	if (o->machines)
		w->plan.machines = (uint32_t)o->machines;
	if (o->duration)
		w->plan.duration = o->duration;
	if (w->plan.warmup >= w->plan.duration)
		return fm_err_set(err, -EINVAL, "the warm-up is as long as all of it");
	rc = set_memory(&w->plan, o, err);
	rc = rc ? rc : check_sums(&w->plan, err);
	if (!rc && o->forecast)
		rc = set_forecast(&w->plan, err);
	return rc ? rc : set_picture(o, &w->plan, err);
}

/* Outputs. Those that were not asked for are not open. */
struct files {
	struct outfile svg, trace, metrics;
};

static void drop_files(struct files *f)
{
	outfile_drop(&f->svg);
	outfile_drop(&f->trace);
	outfile_drop(&f->metrics);
}

/* Before anything is simulated in vain. */
static int open_files(struct files *f, const struct options *o, struct fm_err *err)
{
	bool force = o->cli->force;
	int rc = o->svg ? outfile_open(&f->svg, o->svg, force, err) : 0;

	if (!rc && o->trace)
		rc = outfile_open(&f->trace, o->trace, force, err);
	if (!rc && o->metrics)
		rc = outfile_open(&f->metrics, o->metrics, force, err);
	return rc;
}

struct work {
	const struct fm_sim_plan *plan;
	unsigned threads;
	struct simulate_out *out; /* or NULL */
	struct fm_sim_control control;
	struct fm_sim_result result, base; /* base: if all memory fits */
	struct fm_err err;
	int rc;
	_Atomic bool done;
};

static void *work_main(void *arg)
{
	struct work *w = arg;

	w->rc = fm_sim_run(w->plan, w->threads, simulate_out_audience(w->out), &w->control,
		&w->result, &w->err);
	atomic_store(&w->done, true);
	return NULL;
}

static void bar(const struct work *w)
{
	const struct fm_sim_plan *p = w->plan;
	uint64_t all = p->duration / FM_US * p->machines * fm_sim_devices(p);
	uint64_t done = atomic_load_explicit(&w->control.done_us, memory_order_relaxed);
	unsigned percent = all ? (unsigned)((unsigned __int128)done * 100 / all) : 100;
	char text[51];

	memset(text, '.', 50);
	memset(text, '#', FM_MIN(percent, 100u) / 2);
	text[50] = '\0';
	fprintf(stderr, "\rsim       [%s] %3u%%", text, FM_MIN(percent, 100u));
	fflush(stderr);
}

/* With a progress bar, on a terminal and if it takes a while. */
static int simulate(struct work *w)
{
	struct timespec look = fm_timespec(LOOK);
	bool shown = false;
	pthread_t thread;

	if (!isatty(STDERR_FILENO) || pthread_create(&thread, NULL, work_main, w)) {
		work_main(w);
		return w->rc;
	}
	nanosleep(&look, NULL);
	while (!atomic_load(&w->done)) {
		bar(w);
		shown = true;
		nanosleep(&look, NULL);
	}
	pthread_join(thread, NULL);
	if (shown)
		fputs("\r\033[K", stderr);
	return w->rc;
}

static double seconds(struct timeval tv)
{
	return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

/* In processor time, because others may use this machine, too. */
static void tell_speed(const struct work *w, uint64_t took)
{
	struct rusage usage = {0};
	double spent;

	getrusage(RUSAGE_SELF, &usage);
	spent = seconds(usage.ru_utime) + seconds(usage.ru_stime);
	fprintf(stderr,
		"fermata-lab: %llu events in %.2f s, %.2f million for each second of processor, "
		"%ld "
		"MiB\n",
		(unsigned long long)w->result.events, (double)took / 1e9,
		spent > 0 ? (double)w->result.events / spent / 1e6 : 0, usage.ru_maxrss / 1024);
}

static int show(const struct options *o, const struct work *w)
{
	if (o->cli->json)
		return simulate_json(w->plan, &w->result, &w->base);
	if (!o->csv)
		return simulate_table(w->plan, &w->result, &w->base);
	simulate_csv(stdout, w->plan, &w->result, &w->base);
	return CLI_OK;
}

/* The same with this policy of memory (NULL: all of it fits), without what it leaves besides. */
static int simulate_beside(const struct work *w, const struct fm_mem_policy *policy,
	struct fm_sim_result *result, struct fm_err *err)
{
	struct fm_sim_plan p = *w->plan;
	int rc;

	p.memory.policy = policy;
	p.forecast = false;
	rc = fm_sim_result_init(result, &p);
	if (rc)
		return fm_err_set(err, rc, "out of memory");
	return fm_sim_run(&p, w->threads, NULL, NULL, result, err);
}

static int show_memories(const struct options *o, const struct simulate_memories *m)
{
	if (o->cli->json)
		return simulate_memories_json(m);
	if (!o->csv)
		return simulate_memories_table(m);
	simulate_memories_csv(stdout, m);
	return CLI_OK;
}

static int compare_memories(struct options *o, struct work *w, struct fm_err *err)
{
	struct simulate_memories *m = &o->memories;
	int rc = simulate_beside(w, NULL, &m->base, err);

	m->plan = w->plan;
	for (unsigned i = 0; i < m->n && !rc; i++)
		rc = simulate_beside(w, m->policy[i], &m->result[i], err);
	if (!rc && show_memories(o, m) != CLI_OK && !ferror(stdout))
		rc = fm_err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < m->n; i++)
		fm_sim_result_free(&m->result[i]);
	fm_sim_result_free(&m->base);
	return rc;
}

/* And what it leaves besides its summary. */
static int simulate_all(struct work *w, const struct fm_plugin *own, struct fm_err *err)
{
	struct fm_err why = {0};
	int rc = simulate(w);

	if (rc)
		*err = w->err;
	if (!rc && fm_plugin_failure(own))
		rc = fm_err_set(
			err, -EIO, "policy %s: %s", w->plan->policy->name, fm_plugin_failure(own));
	if (simulate_out_close(w->out, rc ? NULL : &w->result, &why))
		*err = why; /* this is the reason if the simulation ended early */
	return rc ? rc : why.code;
}

static int run(struct options *o, struct workload *wl, struct fm_plugin **own, struct fm_err *err)
{
	struct work w = {.plan = &wl->plan};
	__attribute__((cleanup(drop_files))) struct files files = {0};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t began;
	int rc = prepare(wl, o, own, err);

	rc = rc ? rc : open_files(&files, o, err);
	rc = rc ? rc : fm_sim_result_init(&w.result, &wl->plan);
	if (rc)
		return rc;
	w.threads = o->threads ? (unsigned)o->threads : (unsigned)FM_MAX(processors, 1L);
	if (*own)
		w.threads = 1; /* its process answers one at a time */
	if (o->memories.n > 1) {
		rc = compare_memories(o, &w, err);
		fm_sim_result_free(&w.result);
		return rc;
	}
	began = fm_now();
	rc = o->trace || o->metrics
		     ? simulate_out_open(&w.out, &wl->plan, &files.trace, &files.metrics, err)
		     : 0;
	if (!rc)
		rc = simulate_all(&w, *own, err);
	if (!rc && wl->plan.memory.policy)
		rc = simulate_beside(&w, NULL, &w.base, err);
	if (!rc)
		tell_speed(&w, fm_now() - began);
	if (!rc && !(o->metrics && !strcmp(o->metrics, "-")) && show(o, &w) != CLI_OK &&
		!ferror(stdout)) /* of which main() tells */
		rc = fm_err_set(err, -ENOMEM, "out of memory");
	if (!rc && o->svg)
		rc = simulate_svg(&wl->plan, o->from, o->until, &files.svg, err);
	fm_sim_result_free(&w.result);
	fm_sim_result_free(&w.base);
	return rc;
}

int lab_sim(struct cli *cli, int argc, char **argv)
{
	struct options o = {.cli = cli, .seed = -1, .from = FM_NEVER, .until = FM_NEVER};
	struct fm_plugin *own = NULL;
	struct fm_err err = {0};
	struct workload *w;
	int rc;

	cli_parse(&argp, argc, argv, 0, &o);
	if (check_files(&o, &err))
		return cli_report(&err);
	w = malloc(sizeof(*w));
	if (!w)
		return CLI_FAILED;
	rc = workload_load(w, o.file, &err);
	if (!rc) {
		rc = run(&o, w, &own, &err);
		workload_free(w);
	}
	fm_plugin_close(own);
	free(w);
	return rc ? cli_report(&err) : CLI_OK;
}
