/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata calibrate --gpu-sched`: each engine with each number of tasks in a process of its own.
 */
#include "base/clock.h"
#include "base/util.h"
#include "calibrate.h"
#include "cmd/progress.h"
#include "json/json.h"
#include <errno.h>
#include <string.h>

#define NEEDED 20 /* samples of each, at least */

static const char *const names[SETS_PHASES] = {
	[SETS_DECISION] = "decision", [SETS_START] = "start", [SETS_PREEMPTION] = "preemption"};

static int measure(struct set_row *row, uint64_t budget_ns, struct fm_err *err)
{
	CALIBRATE_CLEAN struct calibrate_program p = {0};
	const struct calibrate_start how = {.device = fm_platform_engine_name(row->engine),
		.role = ROLE_SETS,
		.amount = (uint64_t)row->tasks,
		.budget_ns = budget_ns};
	int rc = calibrate_start(&p, &how, err);

	if (rc)
		return rc;
	row->skipped = p.page->skipped;
	memcpy(row->why, p.page->error, sizeof(row->why));
	if (row->skipped)
		return 0;
	rc = calibrate_set_row(row, p.page);
	if (rc)
		return fm_err_set(err, rc, "out of memory");
	for (unsigned k = 0; k < SETS_PHASES; k++) {
		if (row->of[k].n >= NEEDED)
			continue;
		fm_err_set(err, -EAGAIN, "%zu samples of %s are too few", row->of[k].n, names[k]);
		return fm_err_hint(err, "give it more time: --seconds");
	}
	return 0;
}

/* What an engine that is not there would have taken goes to the others: it is asked first. */
int calibrate_sets(struct calibrate_sets *s, struct fm_err *err)
{
	int rc = 0;

	for (unsigned e = FM_PLATFORM_ENGINES; !rc && e-- > 0;) {
		for (unsigned k = 0; !rc && k < s->n; k++) {
			struct set_row *row = &s->row[s->rows++];

			row->engine = e;
			row->tasks = s->tasks[k];
			progress_show("calibrate: sets of %lld tasks, engine %s",
				(long long)row->tasks, fm_platform_engine_name(e));
			rc = measure(row, (uint64_t)s->seconds * FM_S / s->n, err);
			if (row->skipped)
				break;
		}
	}
	return rc;
}

static bool has_row(const struct fm_platform_engine *e, int64_t tasks)
{
	const struct fm_platform_row *row = fm_platform_row(e, (size_t)tasks);

	return row && row->tasks == tasks;
}

int calibrate_sets_fit(
	const struct calibrate_sets *s, const struct fm_platform *file, struct fm_err *err)
{
	for (unsigned e = 0; e < FM_PLATFORM_ENGINES; e++) {
		unsigned rows = file->engine[e].rows;

		for (unsigned k = 0; k < s->n; k++)
			rows += !has_row(&file->engine[e], s->tasks[k]);
		if (rows <= FM_PLATFORM_ROWS)
			continue;
		fm_err_set(err, -E2BIG,
			"the file would have %u numbers of tasks of the engine %s, more than %d",
			rows, fm_platform_engine_name(e), FM_PLATFORM_ROWS);
		return fm_err_hint(err, "--tasks with numbers that it has already replaces "
					"those; --output makes a new file");
	}
	return 0;
}

static json_t *row_json(const struct set_row *row)
{
	json_t *samples = json_object();

	for (unsigned k = 0; k < SETS_PHASES; k++)
		json_object_set_new(samples, names[k], calibration_samples(&row->of[k]));
	return json_pack("{s:I, s:I, s:I, s:o}", "tasks", (json_int_t)row->tasks, "decision_ns",
		(json_int_t)row->decision, "start_ns", (json_int_t)row->start, "samples", samples);
}

static json_int_t tasks_of(const json_t *row)
{
	return json_integer_value(json_object_get(row, "tasks"));
}

/* In order; a row for as many tasks is replaced. */
static void add_row(json_t *rows, json_t *row)
{
	size_t at = 0;

	while (at < json_array_size(rows) && tasks_of(json_array_get(rows, at)) < tasks_of(row))
		at++;
	if (at < json_array_size(rows) && tasks_of(json_array_get(rows, at)) == tasks_of(row))
		json_array_set_new(rows, at, row);
	else
		json_array_insert_new(rows, at, row);
}

/* What was there of an engine stays where nothing else was measured. */
static json_t *engine_json(const struct calibrate_sets *s, unsigned engine, const json_t *old)
{
	json_t *rows = json_deep_copy(json_object_get(old, "rows"));
	const char *why = NULL;

	for (unsigned k = 0; k < s->rows; k++) {
		const struct set_row *row = &s->row[k];

		if (row->engine != engine)
			continue;
		if (row->skipped) {
			why = row->why;
			continue;
		}
		rows = rows ? rows : json_array();
		add_row(rows, row_json(row));
	}
	if (rows)
		return json_pack("{s:o}", "rows", rows);
	return json_pack("{s:o}", "skipped", fm_json_text(why ? why : "not measured"));
}

static json_t *sets_json(const struct calibrate_sets *s, const json_t *old)
{
	json_t *engines = json_object();
	char at[32];

	calibration_time(at);
	for (unsigned e = 0; e < FM_PLATFORM_ENGINES; e++) {
		const char *name = fm_platform_engine_name(e);

		json_object_set_new(engines, name,
			engine_json(s, e, json_object_get(json_object_get(old, "engines"), name)));
	}
	return json_pack("{s:i, s:s, s:s, s:I, s:i, s:o, s:o}", "version", FM_PLATFORM_SETS_VERSION,
		"at", at, "fermata", FM_VERSION, "seconds", (json_int_t)s->seconds,
		"margin_percent", CALIBRATE_MARGIN, "machine", calibration_machine(), "engines",
		engines);
}

json_t *calibrate_sets_json(const struct calibrate_sets *s, const json_t *old)
{
	json_t *root = old ? json_deep_copy(old)
			   : json_pack("{s:i}", "fermata_platform", FM_PLATFORM_VERSION);
	json_t *sets = sets_json(s, json_object_get(old, "gpu_sched"));

	if (root && sets && !json_object_set_new(root, "gpu_sched", sets))
		return root;
	json_decref(root);
	return NULL;
}

void calibrate_sets_show(const struct calibrate_sets *s)
{
	static const struct table_column columns[] = {
		{"WHAT", false, true},
		{"SAMPLES", true, false},
		{"P50", true, false},
		{"P99", true, false},
		{"MAX", true, false},
	};
	TABLE_CLEAN struct table t;
	char what[80];

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (unsigned k = 0; k < s->rows; k++) {
		for (unsigned i = 0; !s->row[k].skipped && i < SETS_PHASES; i++) {
			snprintf(what, sizeof(what), "%s, %lld tasks: %s",
				fm_platform_engine_name(s->row[k].engine),
				(long long)s->row[k].tasks, names[i]);
			calibration_row(&t, what, &s->row[k].of[i]);
		}
	}
	table_print(&t);
	putchar('\n');
	for (unsigned k = 0; k < s->rows; k++) {
		const struct set_row *row = &s->row[k];
		const char *name = fm_platform_engine_name(row->engine);

		if (row->skipped)
			printf("%s: not measured: %s\n", name, row->why);
		else
			printf("%s, %lld tasks: a decision is charged as %g us, a start as %g us\n",
				name, (long long)row->tasks, (double)row->decision / 1e3,
				(double)row->start / 1e3);
	}
	printf("\nCharged is the longest that was seen, and %d %%. That is no proof of a bound.\n",
		CALIBRATE_MARGIN);
}

void calibrate_sets_free(struct calibrate_sets *s)
{
	for (unsigned k = 0; k < s->rows; k++)
		for (unsigned i = 0; i < SETS_PHASES; i++)
			samples_free(&s->row[k].of[i]);
}
