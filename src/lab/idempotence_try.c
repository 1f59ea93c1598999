/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `idempotence try LIST -- PROGRAM': is a list right? The program runs twice with the collectors of
 * `record'. The first run's trace says which launches are of kernels in the list, and from where
 * those of groups begin again; in the second, each of them is cut off and run again
 * (idem/oclgrind/again.hh, api/cuda/record/again.c).
 */
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/inject.h"
#include "cmd/table.h"
#include "idempotence.h"
#include "profile.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct trial {
	struct cli *cli;
	const char *path;
	char **command; /* ends with NULL */
	int words;
	unsigned by;
	struct idempotence_collectors with;
	struct fm_idem_list list;
	struct fm_idem_trace trace; /* of the first run */
	int32_t *start;
	/* By kernel of the trace: launches that ended alike, that did not, and that were not tried.
	 */
	struct counts {
		const struct fm_idem_verdict *listed;
		uint64_t same, differ, untried;
	} * kernel;
};

enum { KEY_COLLECTOR = CLI_KEY_OWN };

static const struct argp_option options[] = {
	{"collector", KEY_COLLECTOR, "NAME", 0,
		"cuda: on the device; opencl: under Oclgrind, on the processor. Without it, "
		"whichever the program uses",
		0},
	CLI_OPT_JSON,
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct trial *t = state->input;

	switch (key) {
	case KEY_COLLECTOR:
		t->by = idempotence_collector(state, arg);
		return 0;
	case ARGP_KEY_ARGS:
		t->path = state->argv[state->next];
		t->command = state->argv + state->next + 1;
		t->words = state->argc - state->next - 1;
		if (t->words && !strcmp(t->command[0], "--")) {
			t->command++;
			t->words--;
		}
		if (!t->words)
			cli_usage(state, "no program given: fermata-lab idempotence try LIST -- "
					 "PROGRAM");
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "which list, and which program?");
	default:
		return cli_option(key, arg, t->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "LIST -- PROGRAM [ARGUMENT...]",
	.doc = "Try whether LIST is right: run a program twice, and in the second run cut off each "
	       "launch of a kernel that may run again, run it again as LIST says, and compare "
	       "memory. Programs of OpenCL run under Oclgrind, on the processor; kernels of CUDA "
	       "that come as PTX run on their device."
	       "\vThe exit status is the program's; if that is 0: 3 if memory has differed.",
};

/* --- the plan --- */

static int add_launch(struct trial *t, size_t i, FILE *plan)
{
	const struct fm_idem_op *o = &t->trace.op[i];
	struct counts *k = &t->kernel[o->kernel];
	int32_t start;

	if (o->kind != FM_IDEM_KERNEL)
		return 0;
	k->listed = fm_idem_find(&t->list, t->trace.kernel[o->kernel].key);
	if (!k->listed || k->listed->class == FM_IDEM_NEVER)
		return 0;
	start = k->listed->class == FM_IDEM_IDEMPOTENT ? (int32_t)i : t->start[i];
	if (start < 0) {
		k->untried++;
		return 0;
	}
	return fprintf(plan, "%" PRId64 " %" PRId64 " %c\n", o->op, t->trace.op[start].op,
		       k->listed->class == FM_IDEM_IDEMPOTENT ? 'b' : 'w') < 0
		       ? -EIO
		       : 0;
}

static int write_plan(struct trial *t, const char *path, struct fm_err *err)
{
	FM_CLEAN_FILE FILE *plan = fopen(path, "wxe");
	int rc = plan ? 0 : -errno;

	for (size_t i = 0; i < t->trace.n_ops && !rc; i++)
		rc = add_launch(t, i, plan);
	if (!rc && fflush(plan))
		rc = -errno;
	return rc ? fm_err_set(err, rc, "cannot write the plan: %s", strerror(-rc)) : 0;
}

/* --- results --- */

static struct counts *counts_of(const struct trial *t, int64_t op)
{
	size_t low = 0, high = t->trace.n_ops;

	while (low < high) {
		size_t half = low + (high - low) / 2;

		if (t->trace.op[half].op < op)
			low = half + 1;
		else
			high = half;
	}
	return low < t->trace.n_ops && t->trace.op[low].op == op &&
			       t->trace.op[low].kind == FM_IDEM_KERNEL
		       ? &t->kernel[t->trace.op[low].kernel]
		       : NULL;
}

/* Of Oclgrind's plug-in, or of CUDA's agent. */
static int read_results(struct trial *t, const char *dir, const char *name, struct fm_err *err)
{
	char path[PATH_MAX];
	FM_CLEAN_FILE FILE *f =
		(size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) < sizeof(path)
			? fopen(path, "re")
			: NULL;
	struct counts *k;
	int64_t op;
	char result;

	while (f && fscanf(f, "%" SCNd64 " %c", &op, &result) == 2) {
		k = counts_of(t, op);
		if (!k || !strchr("01-", result))
			return fm_err_set(err, -EIO, "the results make no sense");
		*(result == '1' ? &k->same : result == '0' ? &k->differ : &k->untried) += 1;
	}
	return 0;
}

/* The second run did what the first had done, up to the names of its kernels. */
static int check_alike(const struct trial *t, const char *path, struct fm_err *err)
{
	struct fm_idem_trace again;
	int rc = fm_idem_load(&again, path, err);
	bool alike;

	if (rc)
		return rc;
	alike = again.n_ops == t->trace.n_ops;
	for (size_t i = 0; i < again.n_ops && alike; i++) {
		const struct fm_idem_op *a = &t->trace.op[i], *b = &again.op[i];

		alike = a->kind == b->kind &&
			(a->kind != FM_IDEM_KERNEL ||
				!memcmp(t->trace.kernel[a->kernel].key, again.kernel[b->kernel].key,
					FM_HASH_BYTES));
	}
	fm_idem_trace_free(&again);
	if (alike)
		return 0;
	fm_err_set(err, -ENOTSUP, "'%.100s' has not done the same in both runs", t->command[0]);
	return fm_err_hint(err, "seeds that are drawn, and caches of compiled kernels that the "
				"first run fills, make such a difference; try again");
}

static int run_in(struct trial *t, const char *dir, bool again, struct fm_err *err)
{
	FM_CLEAN_FREE char *plan = NULL;
	char path[PATH_MAX];
	int status, rc = 0;

	if (asprintf(&plan, "%s/plan", dir) < 0)
		return fm_err_set(err, -ENOMEM, "out of memory");
	if (again)
		rc = write_plan(t, plan, err);
	if (!rc && inject_set("FERMATA_IDEMPOTENCE_PLAN", again ? plan : "", err))
		rc = -1;
	status = rc ? rc : idempotence_run(&t->with, t->command, t->words, dir, err);
	if (status || err->code)
		return status;
	rc = idempotence_find_trace(dir, path, t->command[0], err);
	if (again) {
		rc = rc ? rc : check_alike(t, path, err);
		rc = rc ? rc : read_results(t, dir, "tried", err);
		return rc ? rc : read_results(t, dir, "tried.cuda", err);
	}
	rc = rc ? rc : fm_idem_load(&t->trace, path, err);
	if (rc)
		return rc;
	t->start = calloc(t->trace.n_ops + 1, sizeof(*t->start));
	t->kernel = calloc(t->trace.n_kernels + 1, sizeof(*t->kernel));
	if (!t->start || !t->kernel || fm_idem_start(&t->trace, FM_IDEM_FORWARD, t->start))
		return fm_err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* Both runs, each with a folder of its own. Both read the same from a file that is their standard
 * input. */
static int run_both(struct trial *t, struct fm_err *err)
{
	off_t input = lseek(STDIN_FILENO, 0, SEEK_CUR);
	int rc = 0;

	for (unsigned again = 0; again < 2 && !rc; again++) {
		char dir[PATH_MAX];

		if (again && input >= 0)
			lseek(STDIN_FILENO, input, SEEK_SET);

		rc = profile_make_dir(dir, sizeof(dir), err);
		if (rc)
			return rc;
		rc = run_in(t, dir, again, err);
		profile_remove_dir(dir);
	}
	return rc;
}

/* --- what came of it --- */

static const char *class_of(const struct counts *k)
{
	return k->listed ? fm_idem_class_name(k->listed->class) : "unknown";
}

static int print_json(const struct trial *t, uint64_t differ)
{
	CLI_CLEAN_JSON json_t *json = NULL;
	json_t *kernels = json_array();

	for (size_t i = 0; i < t->trace.n_kernels; i++) {
		const struct counts *k = &t->kernel[i];
		char key[FM_IDEM_KEY];

		fm_idem_key_text(t->trace.kernel[i].key, key);
		json_array_append_new(kernels,
			json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "name",
				t->trace.names + t->trace.kernel[i].name, "key", key, "class",
				class_of(k), "same", (json_int_t)k->same, "differ",
				(json_int_t)k->differ, "untried", (json_int_t)k->untried));
	}
	json = json_pack("{s:o, s:I}", "kernels", kernels, "differ", (json_int_t)differ);
	return json ? cli_print_json(json) : CLI_FAILED;
}

static int print_table(const struct trial *t)
{
	static const struct table_column columns[] = {{"KERNEL", false, true},
		{"CLASS", false, false}, {"SAME", true, false}, {"DIFFER", true, false},
		{"UNTRIED", true, false}};
	TABLE_CLEAN struct table table;

	table_init(&table, columns, FM_ARRAY_LEN(columns));
	for (size_t i = 0; i < t->trace.n_kernels; i++) {
		const struct counts *k = &t->kernel[i];

		table_add(&table, "%s", t->trace.names + t->trace.kernel[i].name);
		table_add(&table, "%s", class_of(k));
		table_add(&table, "%" PRIu64, k->same);
		table_add(&table, "%" PRIu64, k->differ);
		table_add(&table, "%" PRIu64, k->untried);
	}
	return table_print(&table) ? CLI_FAILED : CLI_OK;
}

static int tell(const struct trial *t)
{
	uint64_t same = 0, differ = 0;
	int rc;

	for (size_t i = 0; i < t->trace.n_kernels; i++) {
		same += t->kernel[i].same;
		differ += t->kernel[i].differ;
	}
	rc = t->cli->json ? print_json(t, differ) : print_table(t);
	fprintf(stderr, "%s: %" PRIu64 " launches ended alike after a cut, %" PRIu64 " did not\n",
		cli_name(), same, differ);
	return rc ? rc : differ ? CLI_NO : CLI_OK;
}

int idempotence_try(struct cli *cli, int argc, char **argv)
{
	struct trial t = {.cli = cli, .by = IDEMPOTENCE_CUDA | IDEMPOTENCE_OPENCL};
	struct fm_err err = {0};
	int rc;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &t);
	if (fm_idem_list_load(&t.list, t.path, &err) ||
		idempotence_find_collectors(t.by, &t.with, &err)) {
		fm_idem_list_free(&t.list);
		return cli_report(&err);
	}
	rc = run_both(&t, &err);
	if (err.code) {
		int reported = cli_report(&err);

		rc = rc > 0 ? rc : reported;
	} else if (!rc) {
		rc = tell(&t);
	}
	free(t.kernel);
	free(t.start);
	fm_idem_trace_free(&t.trace);
	fm_idem_list_free(&t.list);
	return rc;
}
