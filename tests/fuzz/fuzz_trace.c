/* SPDX-License-Identifier: Apache-2.0 */
/* Any trace file: refused with an offset, or every record of it can be looked up, drawn and is in
 * order; and what it tells of programs is refused, or a workload that can be simulated. Any answer
 * of a simulation (what begins with a brace): refused, or it can be compared with itself. And any
 * ring (what begins otherwise): a lap at most comes of it. */
#include "lab/runs.h"
#include "lab/trace_tracks.h"
#include "model/recorded.h"
#include "trace/ring.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void look(const struct fm_trace_file *file)
{
	struct timeline t = {.file = file, .out = fopen("/dev/null", "w")};
	uint64_t last = 0;

	must(t.out);
	timeline_begin(&t);
	for (size_t i = 0; i < file->n_items; i++) {
		struct trace_view v;
		char buf[32];

		must(file->items[i].rec->at >= last);
		last = file->items[i].rec->at;
		trace_look(file, &file->items[i], &v);
		must(v.info && v.group && v.device && v.cause && v.reason && v.program);
		for (unsigned a = 0; a < FM_TRACE_ARGS; a++)
			must(trace_arg(&v, a, buf, sizeof(buf)) == buf);
		timeline_record(&t, &v);
	}
	timeline_end(&t);
	must(!t.failed);
	timeline_free(&t);
	fclose(t.out);
}

/* Every job of it is in the workload, as long as it was. */
static void same(const struct recorded *r, const struct workload *w)
{
	must(w->plan.groups == r->groups && w->plan.devices == r->devices);
	for (uint32_t i = 0; i < r->groups; i++) {
		const struct fm_sim_group *g = &w->plan.group[i];

		must(g->records == r->group[i].jobs && g->changes <= r->group[i].changes);
		for (size_t k = 0; k < g->records; k++)
			must(g->record[k].length == r->group[i].job[k].length &&
				g->record[k].commands == r->group[i].job[k].commands);
	}
}

static void record(const struct fm_trace_file *file)
{
	static struct recorded r;
	static struct workload w;
	struct fm_err err = {0};
	char *text = NULL;
	size_t size = 0;
	FILE *f;
	int rc = recorded_read(&r, file, 0, &err);

	if (rc) {
		must(err.code == rc && err.text[0] && !r.groups);
		return;
	}
	f = open_memstream(&text, &size);
	must(f && recorded_write(&r, f, "fuzz", "aoc"[file->n_items % 3]) && !fclose(f));
	f = fmemopen(text, size, "r");
	must(f);
	rc = workload_read(&w, f, "fuzz.ini", NULL, &err);
	must(r.groups ? !rc : rc == -EINVAL);
	if (!rc) {
		same(&r, &w);
		must(!workload_closed(&w, true, &err) && !workload_closed(&w, false, &err));
		workload_free(&w);
	}
	fclose(f);
	free(text);
	recorded_free(&r);
}

static void compare(const uint8_t *data, size_t size)
{
	json_t *o = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	struct fm_err err = {0};
	struct run r = {0};
	int rc = o ? run_parse(&r, o, "fuzz", &err) : 0;

	must(!rc || (rc == -EINVAL && !strncmp(err.text, "fuzz: ", 6)));
	for (size_t i = 0; i < r.groups && !rc; i++) {
		struct run_test t = {.a = &r.group[i], .b = &r.group[i], .q = 0.5};

		must(run_tests(&t, 1, 1) && t.p > 0 && t.p <= 1 && t.low <= t.high);
		must(t.verdict == RUN_SAME || t.verdict == RUN_TOO_FEW);
	}
	run_free(&r);
	json_decref(o);
}

static void parse(const uint8_t *data, size_t size)
{
	struct fm_err err = {0};
	struct fm_trace_file t;
	void *copy = malloc(size ? size : 1); /* aligned, and exactly so long */
	int rc;

	must(copy);
	memcpy(copy, data, size);
	rc = fm_trace_file_parse(&t, copy, size, "fuzz", &err);
	if (rc) {
		must(rc == -EINVAL && err.code == rc && !strncmp(err.text, "fuzz: ", 6));
	} else {
		look(&t);
		record(&t);
		fm_trace_file_close(&t);
	}
	free(copy);
}

static struct fm_trace_rec taken[FM_TRACE_RECORDS];

static void read_ring(const uint8_t *data, size_t size)
{
	static struct fm_trace_ring ring;
	struct fm_trace_reader r = {.ring = &ring};

	if (size < 16)
		return;
	for (unsigned i = 0; i < FM_TRACE_LANES; i++) {
		memcpy(&r.lane[i].next, data, 8);
		memcpy(&ring.lane[i].head, data + 8, 8);
		memcpy(&ring.slot[i], data + 16, FM_MIN(size - 16, sizeof(ring.slot[i])));
	}
	for (unsigned i = 0; i < 2; i++) {
		size_t n = fm_trace_read(&r, taken, FM_TRACE_RECORDS, i);

		must(n <= FM_TRACE_RECORDS);
		for (size_t k = 0; k < n; k++)
			must(fm_trace_info(taken[k].event));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == FM_TRACE_FILE_MAGIC[0])
		parse(data, size);
	else if (size && data[0] == '{')
		compare(data, size);
	else
		read_ring(data, size);
	return 0;
}
