/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of tasks that decide on the device: the core's text as one thread runs it, beside those of
 * other streams. */
#include "set_lanes.h"
#include <string.h>
#include <unistd.h>

/* What resides looks all the time, for which a device has a processor of its own. */
static bool rested(bool any)
{
	if (!any)
		usleep(20);
	return any;
}

#define FM_GS_ANY(x) rested(x)
#include "device/gpusched_warp.h"

struct params {
	struct fm_gates *set;
	struct fm_gs_task *to;
	uint64_t jobs, chunks;
	uint32_t task, what;
};

void fk_set(const struct fk_block *b)
{
	struct params p;

	memcpy(&p, b->params, sizeof(p));
	fm_gates_run(p.set, p.to, p.jobs, p.chunks, p.task, p.what);
}

/* Those of cuda_gpu_rows.c. */
void fk_rows_chunk(const struct fk_block *b)
{
	struct {
		uint64_t *log, *flag, ns;
	} p;
	uint64_t begin = device_now(), n;

	memcpy(&p, b->params, sizeof(p));
	n = FM_GS_ADD(p.log, 1);
	FM_GS_STORE(p.flag, n + 1);
	while (device_now() < begin + p.ns)
		usleep(1);
	p.log[2 + n % 8192 * 2] = begin;
	p.log[3 + n % 8192 * 2] = device_now();
}

void fk_rows_store(const struct fk_block *b)
{
	struct {
		uint64_t *word, *at;
	} p;

	memcpy(&p, b->params, sizeof(p));
	*p.at = device_now();
	FM_GS_ADD(p.word, 1);
}

void fk_rows_toil(const struct fk_block *b)
{
	struct {
		uint32_t *out;
		uint64_t ns;
	} p;
	uint64_t begin = device_now();

	memcpy(&p, b->params, sizeof(p));
	while (device_now() < begin + p.ns)
		usleep(1);
	p.out[b->x]++;
}
