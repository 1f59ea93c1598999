// SPDX-License-Identifier: Apache-2.0
/* Sets of tasks that decide on the device (<fermata/gpu_sched.h>), in the probe's process: one of
 * each engine is made, of one task, and its kernel is launched. Of "gates" nothing is released; of
 * "graphs" a job, so that the device launches a graph. */
#include "api/cuda/gpusched/device_runtime.h"
#include "api/cuda/gpusched/gates.h"
#include "probe_cuda.h"
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>

struct tried {
	int rc; /* 0 or a negative errno */
	char text[sizeof(((struct fm_cu_gates_failure *)0)->log) + 64];
};

static void say_failure(struct tried *t, const struct fm_cu_gates_failure *f)
{
	if (t->rc && f->call)
		snprintf(t->text, sizeof(t->text), "%s is error %d%s%s", f->call, f->result,
			*f->log ? ": " : "", f->log);
}

static int nothing(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	(void)stream;
	(void)chunk;
	(void)ctx;
	return 0;
}

static int await_job(struct tried *t, struct fm_cu_gates *g)
{
	uint64_t until = fm_now() + PROBE_FINISH_NS, error;

	while (!__atomic_load_n(&fm_cu_gates_told(g)->done[0], __ATOMIC_ACQUIRE)) {
		error = fm_cu_gates_refused(g);
		if (error)
			snprintf(t->text, sizeof(t->text), "the device's launch is error %llu",
				(unsigned long long)error);
		else if (fm_now() > until)
			snprintf(t->text, sizeof(t->text), "the device has launched nothing");
		if (*t->text)
			return -EIO;
		sched_yield();
	}
	return 0;
}

static int try_job(struct tried *t, struct fm_cu_gates *g)
{
	struct fm_cu_gates_refusal r = {0};
	int rc = fm_cu_gates_add(g, 0, nothing, NULL, NULL, &r);

	if (!rc)
		rc = fm_cu_gates_ready(g, &r);
	if (rc) {
		t->rc = rc;
		say_failure(t, &r.failure);
		return rc;
	}
	rc = fm_cu_gates_tell(g, 0, FM_GATES_KICK, 1, 0);
	return rc ? rc : await_job(t, g);
}

static struct tried try_set(const struct probe_cuda *c, unsigned kind)
{
	struct fm_gs_task task = {.chunks = 1, .weight = FM_GS_WEIGHT, .next = FM_GS_NEVER};
	const struct fm_gs set = {
		.n = 1, .slots = 1, .policy = FM_GS_EDF, .wake = FM_GS_NEVER, .task = &task};
	struct fm_cu_gates_failure why;
	struct fm_cu_gates *g = NULL;
	struct tried t = {0};
	int end;

	t.rc = fm_cu_gates_create(&c->cu, &set, 1, kind, &g, &why);
	if (t.rc) {
		say_failure(&t, &why);
		return t;
	}
	if (kind & FM_CU_GATES_GRAPHS)
		t.rc = try_job(&t, g);
	end = fm_cu_gates_destroy(g);
	t.rc = t.rc ? t.rc : end;
	return t;
}

void probe_cuda_sets(const struct probe_cuda *c, FILE *out)
{
	char path[PATH_MAX], places[PATH_MAX];
	const char *runtime = fm_cu_device_runtime(path, sizeof(path));
	struct tried gates = try_set(c, 0), graphs = try_set(c, FM_CU_GATES_GRAPHS);

	fm_cu_device_runtime_places(places, sizeof(places));
	probe_tell(out, json_pack("{s:s, s:i, s:i, s:s, s:s, s:s}", "step", "sets", "gates",
				gates.rc, "graphs", graphs.rc, "failed", graphs.text, "runtime",
				runtime ? runtime : "", "places", places));
}
