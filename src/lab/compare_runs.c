/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab compare A B`: the results of each group in the two runs. */
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/util.h"
#include "cmd/cli.h"
#include "cmd/table.h"
#include "commands.h"
#include "runs.h"
#include "json/json.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { KEY_CSV = CLI_KEY_OWN, KEY_SEED, KEY_FAIL };

struct options {
	struct cli *cli;
	const char *path[2];
	int64_t seed;
	bool csv, fail;
};

static const struct argp_option options[] = {
	{"csv", KEY_CSV, 0, 0, "Print comma-separated values", 0},
	{"seed", KEY_SEED, "N", 0, "Seed of the bootstrap's random numbers; default: 1", 0},
	{"fail-if-worse", KEY_FAIL, 0, 0,
		"End with status 1 if a group is slower, or starved, in B", 0},
	CLI_OPT_JSON,
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	struct fm_err err = {0};

	switch (key) {
	case KEY_CSV:
		o->csv = true;
		return 0;
	case KEY_SEED:
		if (fm_parse_int(arg, 0, INT64_MAX, &o->seed, &err))
			cli_usage_err(state, &err);
		return 0;
	case KEY_FAIL:
		o->fail = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num >= 2)
			cli_usage(state, "two runs at a time, not '%s' as well", arg);
		o->path[state->arg_num] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->path[1])
			cli_usage(state, "no runs given: name two");
		return 0;
	default:
		return cli_option(key, arg, o->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "A B",
	.doc = "Compare two runs, each a file of `fermata trace record' or the output of "
	       "`fermata-lab sim --json': response times with a verdict on whether they differ, "
	       "shares of the devices, throughput, deadlines, stops.\vfermata-lab-compare(1) "
	       "describes the method.",
};

static const double quantiles[] = {0.5, 0.99};
#define QUANTILES FM_ARRAY_LEN(quantiles)

/* Groups that both have, with QUANTILES tests each. */
struct comparison {
	struct run run[2];
	struct run_test *test;
	size_t pairs;
	unsigned resamples;
	int64_t seed;
};

enum measure { THROUGHPUT, SHARE, LATE, STOPS, MEASURES };
static const struct {
	const char *name, *key, *unit;
} measures[MEASURES] = {
	[THROUGHPUT] = {"jobs/s", "jobs_per_second", ""},
	[SHARE] = {"share", "share_percent", "%"},
	[LATE] = {"late", "late", ""},
	[STOPS] = {"stops", "preemptions", ""},
};

static double measure(const struct run *r, const struct run_group *g, enum measure m)
{
	switch (m) {
	case THROUGHPUT:
		return r->seconds > 0 ? (double)g->jobs / r->seconds : 0;
	case SHARE:
		return r->device_time > 0 ? 100 * (double)g->served / r->device_time : 0;
	case LATE:
		return (double)g->late;
	default:
		return (double)g->preemptions;
	}
}

static const char *const verdicts[] = {
	[RUN_TOO_FEW] = "too few jobs",
	[RUN_SAME] = "no difference shown",
	[RUN_FASTER] = "faster",
	[RUN_SLOWER] = "slower",
	[RUN_STARVED] = "starved",
};

/* Do both have percentiles to compare? */
static bool is_tested(const struct run_test *t)
{
	return t->verdict != RUN_TOO_FEW && t->verdict != RUN_STARVED;
}

/* B had work, and none of it ended. At A's rate so many jobs would have ended that this is not
 * chance. */
#define STARVED 10

static bool is_starved(
	const struct comparison *c, const struct run_group *a, const struct run_group *b)
{
	double as_before = measure(&c->run[0], a, THROUGHPUT) * c->run[1].seconds;

	return !b->jobs && b->left && as_before >= STARVED;
}

static const char *what_of(const struct run_test *t)
{
	return t->q < 0.6 ? "P50" : "P99";
}

static int pair_up(struct comparison *c, struct fm_err *err)
{
	const struct run *a = &c->run[0], *b = &c->run[1];

	c->test = calloc(a->groups * QUANTILES + 1, sizeof(*c->test));
	if (!c->test)
		return fm_err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < a->groups; i++) {
		const struct run_group *other = run_find(b, a->group[i].name);

		for (size_t q = 0; other && q < QUANTILES; q++)
			c->test[c->pairs * QUANTILES + q] =
				(struct run_test){.a = &a->group[i], .b = other, .q = quantiles[q]};
		c->pairs += other != NULL;
	}
	if (!c->pairs) {
		fm_err_set(err, -EINVAL, "%.100s and %.100s have no group in common", a->path,
			b->path);
		return fm_err_hint(err, "groups are compared by their names");
	}
	c->resamples = run_tests(c->test, c->pairs * QUANTILES, (uint64_t)c->seed);
	for (size_t i = 0; i < c->pairs * QUANTILES; i++)
		if (is_starved(c, c->test[i].a, c->test[i].b))
			c->test[i].verdict = RUN_STARVED;
	return c->resamples ? 0 : fm_err_set(err, -ENOMEM, "out of memory");
}

static size_t count(const struct comparison *c, enum run_verdict v)
{
	size_t n = 0;

	for (size_t i = 0; i < c->pairs * QUANTILES; i++)
		n += c->test[i].verdict == v;
	return n;
}

/* "+3.1%". Zero has no percentage. */
static const char *change_of(double a, double b, char buf[TABLE_TIME])
{
	if (a > 0)
		snprintf(buf, TABLE_TIME, "%+.1f%%", 100 * (b - a) / a);
	else
		snprintf(buf, TABLE_TIME, "%s", b > 0 ? "new" : "");
	return buf;
}

static void signed_ms(double ns, char buf[TABLE_TIME + 1])
{
	buf[0] = ns < 0 ? '-' : '+';
	table_ms(fabs(ns) / 1e6, buf + 1);
}

/* Without jobs there is no percentile, and no change of one. */
static bool has_times(const struct run_group *g)
{
	return g->jobs && g->sampled;
}

static void test_row(struct table *t, const struct run_test *test, bool first)
{
	bool both = has_times(test->a) && has_times(test->b);
	char buf[TABLE_TIME], low[TABLE_TIME + 1], high[TABLE_TIME + 1];

	table_add(t, "%s", first ? test->a->name : "");
	table_add(t, "%s", what_of(test));
	for (unsigned k = 0; k < 2; k++) {
		const struct run_group *g = k ? test->b : test->a;

		table_add(t, "%s", has_times(g) ? table_ms((double)test->at[k] / 1e6, buf) : "-");
	}
	table_add(t, "%s", both ? change_of((double)test->at[0], (double)test->at[1], buf) : "-");
	if (!is_tested(test)) {
		table_add(t, "-");
	} else {
		signed_ms(test->low, low);
		signed_ms(test->high, high);
		table_add(t, "%s to %s", low, high);
	}
	table_add(t, "%s", verdicts[test->verdict]);
}

static void measure_row(
	struct table *t, const struct comparison *c, const struct run_test *test, enum measure m)
{
	double a = measure(&c->run[0], test->a, m), b = measure(&c->run[1], test->b, m);
	int digits = m == THROUGHPUT || m == SHARE ? 1 : 0;
	char buf[TABLE_TIME];

	table_add(t, "%s", "");
	table_add(t, "%s", measures[m].name);
	table_add(t, "%.*f%s", digits, a, measures[m].unit);
	table_add(t, "%.*f%s", digits, b, measures[m].unit);
	table_add(t, "%s", change_of(a, b, buf));
	table_add(t, "%s", "");
	table_add(t, "%s", "");
}

static void title(char letter, const struct run *r)
{
	char buf[TABLE_TIME], path[256], policy[256];

	snprintf(path, sizeof(path), "%s", r->path);
	snprintf(policy, sizeof(policy), "%s", *r->policy ? r->policy : "no policy told");
	table_clean(path);
	table_clean(policy);
	printf("%c: %s: %s under %s, %s", letter, path, r->simulated ? "simulated" : "recorded",
		policy, table_ms((double)r->duration / 1e6, buf));
	if (r->lost)
		printf(", %" PRIu64 " records lost", r->lost);
	if (r->cut)
		printf(", cut short");
	putchar('\n');
}

static void only_in(const struct comparison *c, unsigned which)
{
	char name[256];

	for (size_t i = 0; i < c->run[which].groups; i++) {
		snprintf(name, sizeof(name), "%s", c->run[which].group[i].name);
		table_clean(name);
		if (!run_find(&c->run[!which], c->run[which].group[i].name))
			printf("%s is in %c alone\n", name, "AB"[which]);
	}
}

static int as_table(const struct comparison *c)
{
	static const struct table_column columns[] = {{"GROUP", false, true},
		{"WHAT", false, false}, {"A", true, false}, {"B", true, false},
		{"CHANGE", true, false}, {"95% OF IT", false, false}, {"VERDICT", false, false}};
	TABLE_CLEAN struct table t;

	title('A', &c->run[0]);
	title('B', &c->run[1]);
	putchar('\n');
	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (size_t i = 0; i < c->pairs; i++) {
		const struct run_test *test = &c->test[i * QUANTILES];

		for (size_t q = 0; q < QUANTILES; q++)
			test_row(&t, &test[q], !q);
		for (unsigned m = 0; m < MEASURES; m++)
			measure_row(&t, c, test, (enum measure)m);
	}
	if (table_print(&t))
		return CLI_FAILED;
	putchar('\n');
	only_in(c, 0);
	only_in(c, 1);
	printf("Response times in B: %zu slower, %zu faster, %zu without a difference that shows, "
	       "%zu with too few jobs, %zu starved (5%%, %u resamples, seed %" PRId64 ")\n",
		count(c, RUN_SLOWER), count(c, RUN_FASTER), count(c, RUN_SAME),
		count(c, RUN_TOO_FEW), count(c, RUN_STARVED), c->resamples, c->seed);
	return CLI_OK;
}

static json_t *run_json(const struct run *r)
{
	return json_pack("{s:o, s:s, s:o, s:I, s:I, s:b}", "file", fm_json_text(r->path), "kind",
		r->simulated ? "simulated" : "recorded", "policy", fm_json_text(r->policy),
		"duration_ns", (json_int_t)r->duration, "lost", (json_int_t)r->lost, "cut", r->cut);
}

static json_t *time_json(const struct run_group *g, uint64_t ns)
{
	return has_times(g) ? json_integer((json_int_t)ns) : json_null();
}

static json_t *test_json(const struct run_test *t)
{
	static const char *const words[] = {"too-few", "same", "faster", "slower", "starved"};

	if (!is_tested(t))
		return json_pack("{s:o, s:o, s:n, s:n, s:n, s:s}", "a_ns",
			time_json(t->a, t->at[0]), "b_ns", time_json(t->b, t->at[1]), "low_ns",
			"high_ns", "p", "verdict", words[t->verdict]);
	return json_pack("{s:I, s:I, s:I, s:I, s:f, s:s}", "a_ns", (json_int_t)t->at[0], "b_ns",
		(json_int_t)t->at[1], "low_ns", (json_int_t)t->low, "high_ns", (json_int_t)t->high,
		"p", t->p, "verdict", words[t->verdict]);
}

static json_t *pair_json(const struct comparison *c, const struct run_test *t)
{
	json_t *o = json_pack("{s:o, s:[I, I], s:o, s:o}", "name", fm_json_text(t->a->name), "jobs",
		(json_int_t)t->a->jobs, (json_int_t)t->b->jobs, "p50", test_json(&t[0]), "p99",
		test_json(&t[1]));

	for (unsigned m = 0; o && m < MEASURES; m++)
		json_object_set_new(o, measures[m].key,
			json_pack("[f, f]", measure(&c->run[0], t->a, (enum measure)m),
				measure(&c->run[1], t->b, (enum measure)m)));
	return o;
}

static json_t *lone_json(const struct comparison *c, unsigned which)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->run[which].groups; i++)
		if (!run_find(&c->run[!which], c->run[which].group[i].name))
			json_array_append_new(list, fm_json_text(c->run[which].group[i].name));
	return list;
}

static int as_json(const struct comparison *c)
{
	CLI_CLEAN_JSON json_t *o = json_pack(
		"{s:o, s:o, s:{s:s, s:s, s:i, s:I, s:f}, s:I, s:I, s:I, s:[], s:o, s:o}", "a",
		run_json(&c->run[0]), "b", run_json(&c->run[1]), "method", "test",
		"bootstrap of the difference of percentiles", "correction", "Holm", "resamples",
		(int)c->resamples, "seed", (json_int_t)c->seed, "level", 0.05, "slower",
		(json_int_t)count(c, RUN_SLOWER), "faster", (json_int_t)count(c, RUN_FASTER),
		"starved", (json_int_t)count(c, RUN_STARVED), "groups", "only_a", lone_json(c, 0),
		"only_b", lone_json(c, 1));
	bool bad = !o;

	for (size_t i = 0; i < c->pairs && !bad; i++)
		bad = json_array_append_new(
			json_object_get(o, "groups"), pair_json(c, &c->test[i * QUANTILES]));
	if (!bad)
		return cli_print_json(o);
	fprintf(stderr, "fermata-lab: out of memory\n");
	return CLI_FAILED;
}

static void csv_time(const struct run_group *g, uint64_t ns)
{
	if (has_times(g))
		printf("%" PRIu64, ns);
	putchar(',');
}

static int as_csv(const struct comparison *c)
{
	puts("group,what,a,b,low,high,p,verdict");
	for (size_t i = 0; i < c->pairs; i++) {
		const struct run_test *t = &c->test[i * QUANTILES];

		for (size_t q = 0; q < QUANTILES; q++) {
			csv_text(stdout, t->a->name);
			printf(",%s_ns,", q ? "p99" : "p50");
			csv_time(t->a, t[q].at[0]);
			csv_time(t->b, t[q].at[1]);
			if (!is_tested(&t[q]))
				printf(",,,%s\n", verdicts[t[q].verdict]);
			else
				printf("%.0f,%.0f,%.6f,%s\n", t[q].low, t[q].high, t[q].p,
					verdicts[t[q].verdict]);
		}
		for (unsigned m = 0; m < MEASURES; m++) {
			csv_text(stdout, t->a->name);
			printf(",%s,%.6f,%.6f,,,,\n", measures[m].key,
				measure(&c->run[0], t->a, (enum measure)m),
				measure(&c->run[1], t->b, (enum measure)m));
		}
	}
	return CLI_OK;
}

static void put(struct comparison *c)
{
	run_free(&c->run[0]);
	run_free(&c->run[1]);
	free(c->test);
}

int lab_compare(struct cli *cli, int argc, char **argv)
{
	__attribute__((cleanup(put))) struct comparison c = {0};
	struct options o = {.cli = cli, .seed = 1};
	struct fm_err err = {0};
	size_t worse;
	int rc;

	cli_parse(&argp, argc, argv, 0, &o);
	c.seed = o.seed;
	if (run_open(&c.run[0], o.path[0], &err) || run_open(&c.run[1], o.path[1], &err) ||
		pair_up(&c, &err))
		return cli_report(&err);
	rc = cli->json ? as_json(&c) : o.csv ? as_csv(&c) : as_table(&c);
	worse = count(&c, RUN_SLOWER) + count(&c, RUN_STARVED);
	return rc == CLI_OK && o.fail && worse ? CLI_NO : rc;
}
