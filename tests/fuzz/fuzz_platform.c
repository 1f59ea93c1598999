/* SPDX-License-Identifier: Apache-2.0 */
/* Any platform file: refused with a reason and nothing changed, or times that an analysis takes. */
#include "platform/platform.h"
#include <errno.h>
#include <fermata/rta.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

_Static_assert(FM_PLATFORM_UNSET == FM_RTA_UNSET, "what is not measured is not given");

static void must(bool ok)
{
	if (!ok)
		abort();
}

static bool sound(int64_t ns, int64_t min)
{
	return ns == FM_PLATFORM_UNSET || (ns >= min && ns <= FM_PLATFORM_MAX);
}

/* What is charged can be looked up, and an analysis takes it. */
static bool sound_sets(const struct fm_platform *p)
{
	static const struct fm_gedf_gpu_task task = {.time = 1, .period = 9, .deadline = 9};
	bool any = false, ok;

	for (unsigned k = 0; k < FM_PLATFORM_ENGINES; k++) {
		const struct fm_platform_engine *e = &p->engine[k];
		int64_t before = 0;

		must(e->rows <= FM_PLATFORM_ROWS && (p->has_sets || (!e->rows && !e->skipped[0])));
		must(strnlen(e->skipped, FM_PLATFORM_TEXT) < FM_PLATFORM_TEXT);
		must(!e->rows || !e->skipped[0]);
		for (unsigned i = 0; i < e->rows; i++) {
			const struct fm_platform_row *row = &e->row[i];
			const struct fm_gedf_gpu_costs costs = {
				.slots = 1, .decision = row->decision, .start = row->start};
			struct fm_gedf_gpu_charge charge;

			must(row->tasks > before && row->tasks <= FM_PLATFORM_TASKS_MAX);
			must(sound(row->decision, 0) && row->decision >= 0);
			must(sound(row->start, 0) && row->start >= 0);
			must(fm_platform_row(e, (size_t)row->tasks) == row);
			must(!fm_gedf_gpu_analyze(&task, 1, &costs, &charge, &ok));
			before = row->tasks;
		}
		must(!fm_platform_row(e, (size_t)before + 1));
		any |= e->rows > 0;
	}
	return any;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_platform p, before;
	struct fm_rta_set set = {0};
	struct fm_err err = {0};
	fm_rta *rta;
	int rc;

	memset(&before, 0x5a, sizeof(before));
	p = before;
	rc = fm_platform_parse(&p, "fuzz", (const char *)data, size, &err);
	if (rc) {
		must(rc == -EINVAL && err.code == rc && !strncmp(err.text, "fuzz: ", 6) &&
			err.hint[0]);
		must(!memcmp(&p, &before, sizeof(p)));
		return 0;
	}
	must(sound(p.epsilon, 0) && sound(p.slice, 1) && sound(p.theta, 0));
	must(sound_sets(&p) || p.epsilon >= 0 || p.slice >= 0 || p.theta >= 0);
	set.epsilon = p.epsilon;
	set.slice = p.slice;
	set.theta = p.theta;
	must(!fm_rta_new(&rta, &set, NULL));
	fm_rta_free(rta);
	return 0;
}
