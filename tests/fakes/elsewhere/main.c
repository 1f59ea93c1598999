/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fermata-lab sim`, for a processor whose libraries are not here: FILE DURATION UNTIL SVG TRACE,
 * the summary as CSV to standard output. What it needs of inih is here; JSON and metrics it has
 * not.
 */
#include "cmd/outfile.h"
#include "lab/simulate.h"
#include "lab/simulate_metrics.h"
#include "lab/simulate_out.h"
#include "model/workload.h"
#include "model/workload_json.h"
#include <errno.h>
#include <ini.h>
#include <string.h>

#define LINE 200

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r\n");
	n = strlen(s);
	while (n && strchr(" \t\r\n", s[n - 1]))
		s[--n] = '\0';
	return s;
}

/* Of sound files, as our examples are. */
int ini_parse_stream(ini_reader reader, void *stream, ini_handler handler, void *user)
{
	char line[LINE], section[LINE] = "";

	while (reader(line, sizeof(line), stream)) {
		char *s = trim(line), *value = strchr(s, '=');

		s[strcspn(s, "#;")] = '\0';
		s = trim(s);
		if (*s == '[')
			snprintf(section, sizeof(section), "%.*s", (int)strcspn(s + 1, "]"), s + 1);
		if (!*s || *s == '[')
			continue;
		*value++ = '\0';
		handler(user, section, trim(s), trim(value));
	}
	return 0;
}

int workload_json_read(struct workload_json *j, struct fm_err *err)
{
	return fm_err_set(err, -ENOTSUP, "no JSON here");
}

int workload_json_blame(struct workload_json *j, uint32_t place, int rc, struct fm_err *err)
{
	return rc;
}

void workload_json_free(struct workload_json *j)
{
}

int simulate_metrics_open(struct simulate_metrics **out, const struct simulate_names *names,
	struct outfile *to, struct fm_err *err)
{
	return fm_err_set(err, -ENOTSUP, "no metrics here");
}

void simulate_metrics_note(struct simulate_metrics *m, const struct fm_sim_event *e)
{
}

int simulate_metrics_close(
	struct simulate_metrics *m, const struct fm_sim_result *result, struct fm_err *err)
{
	return 0;
}

static int simulate(struct workload *w, char **argv, struct fm_err *err)
{
	OUTFILE_CLEAN struct outfile svg = {0}, trace = {0}, none = {0};
	struct simulate_out *out = NULL;
	struct fm_sim_plan plain;
	struct fm_sim_result r, base = {0};
	uint64_t until;
	int rc = workload_time(argv[2], &w->plan.duration, err);

	rc = rc ? rc : workload_time(argv[3], &until, err);
	rc = rc ? rc : outfile_open(&svg, argv[4], true, err);
	rc = rc ? rc : outfile_open(&trace, argv[5], true, err);
	rc = rc ? rc : fm_sim_result_init(&r, &w->plan);
	rc = rc ? rc : simulate_out_open(&out, &w->plan, &trace, &none, err);
	rc = rc ? rc : fm_sim_run(&w->plan, 2, simulate_out_audience(out), NULL, &r, err);
	rc = rc ? rc : simulate_out_close(out, &r, err);
	rc = rc ? rc : simulate_svg(&w->plan, w->plan.warmup, until, &svg, err);
	plain = w->plan;
	plain.memory.policy = NULL;
	rc = rc ? rc : fm_sim_result_init(&base, &plain);
	rc = rc ? rc : fm_sim_run(&plain, 2, NULL, NULL, &base, err);
	if (!rc)
		simulate_csv(stdout, &w->plan, &r, &base);
	return rc;
}

int main(int argc, char **argv)
{
	static struct workload w;
	struct fm_err err = {0};
	int rc = argc == 6 ? workload_load(&w, argv[1], &err) : -EINVAL;

	rc = rc ? rc : simulate(&w, argv, &err);
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	return rc != 0;
}
