/* SPDX-License-Identifier: Apache-2.0 */
/* Any workload of `fermata-lab bench`: refused with a reason, or sound: what it refers to is there,
 * and arrivals come in order, the same twice. */
#include "base/clock.h"
#include "bench/arrival.h"
#include "load/load.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARRIVALS 64

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void arrivals(const struct bench_task *t)
{
	struct bench_arrivals a, b;
	uint64_t last = 0;

	bench_arrivals_init(&a, t, 7, t->rate, 0);
	bench_arrivals_init(&b, t, 7, t->rate, 0);
	for (int i = 0; i < ARRIVALS && bench_arrivals_due(&a) != FM_NEVER; i++) {
		must(bench_arrivals_due(&a) >= last &&
			bench_arrivals_due(&a) == bench_arrivals_due(&b));
		last = bench_arrivals_due(&a);
		bench_arrivals_pass(&a);
		bench_arrivals_pass(&b);
	}
	must(t->load != BENCH_TRACE || t->traces > ARRIVALS ||
		bench_arrivals_count((bench_arrivals_init(&a, t, 1, 0, 0), a), FM_NEVER) ==
			t->traces);
}

static void sound(const struct bench_workload *w)
{
	must(w->tasks > 0 && w->tasks <= BENCH_TASKS && w->seconds > 0);
	for (uint32_t i = 0; i < w->models; i++) {
		const struct bench_model *m = &w->model[i];

		must(m->kernel + m->kernels <= w->kernels && m->batch > 0);
		for (uint32_t k = 0; k < m->kernels; k++) {
			const struct fm_bench_kernel *one = &w->kernel[m->kernel + k];

			must(one->ns > 0 && one->count > 0 && one->blocks <= LOAD_BLOCKS);
		}
	}
	for (uint32_t i = 0; i < w->tasks; i++) {
		const struct bench_task *t = &w->task[i];

		must(!i || strcmp(w->task[i - 1].id, t->id) < 0);
		must(t->model < w->models && w->model[t->model].batch == t->batch);
		must(t->client && t->name && t->hints <= FM_HINT_COUNT);
		must(!(t->before >> i & 1) && (t->load == BENCH_DEPENDENT) == (t->before != 0));
		must(t->rate >= 0 && t->rate <= BENCH_RATE && !(t->rate > 0 && t->fraction > 0));
		arrivals(t);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct bench_workload w;
	struct fm_err err = {0};

	for (int any_model = 0; any_model < 2; any_model++) {
		int rc =
			bench_workload_parse(&w, "fuzz", (const char *)data, size, any_model, &err);

		if (rc) {
			must(rc == -EINVAL && err.code == rc && !strncmp(err.text, "fuzz: ", 6));
			continue;
		}
		sound(&w);
		bench_workload_free(&w);
	}
	return 0;
}
