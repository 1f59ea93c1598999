/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of tasks that launch themselves on the device, as sets.c has those of gates; and a kernel
 * that launches graphs, for tests of the fake. */
#include "launches.h"
#include "set_lanes.h"
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define FM_GS_ANY(x)            (x)
#define FM_GRAPHS_PAUSE         usleep(20) /* a device has a processor for it */
#define FM_GRAPHS_LAUNCH(graph) fk_launch_by_device((CUgraphExec)(uintptr_t)(graph), FK_TAIL)
#include "device/gpugraphs_warp.h"

void fk_set_graph(const struct fk_block *b)
{
	struct {
		struct fm_graphs *set;
		uint32_t task, what;
	} p;

	memcpy(&p, b->params, sizeof(p));
	fm_graphs_run(p.set, p.task, p.what);
}

void fk_set_graphs_heard(const struct fk_block *b)
{
	struct {
		struct fm_graphs *set;
		struct fm_gs_task *to;
		uint64_t later;
		uint32_t what;
	} p;

	memcpy(&p, b->params, offsetof(__typeof__(p), what) + sizeof(p.what));
	fm_graphs_heard(p.set, p.to, p.what, p.later);
}

/* Notes its number, in order. */
void fk_graph_chunk(const struct fk_block *b)
{
	struct {
		uint64_t *log, number;
	} p;

	memcpy(&p, b->params, sizeof(p));
	FM_GS_STORE(&p.log[1 + FM_GS_ADD(p.log, 1) % 4096], p.number);
}

/* Waits until it runs, or has run, so often. */
void fk_graph_meet(const struct fk_block *b)
{
	struct {
		uint64_t *at, most;
	} p;

	memcpy(&p, b->params, sizeof(p));
	FM_GS_ADD(p.at, 1);
	while (FM_GS_LOAD(p.at) < p.most)
		usleep(100);
}

/* Launches each of n graphs; notes each answer but 0. */
void fk_graph_launches(const struct fk_block *b)
{
	struct {
		const uint64_t *graph;
		uint64_t *refused;
		uint32_t n, how;
	} p;

	memcpy(&p, b->params, sizeof(p));
	for (uint32_t i = 0; i < p.n; i++)
		if (fk_launch_by_device(
			    (CUgraphExec)(uintptr_t)p.graph[i], (enum fk_by_device)p.how))
			FM_GS_ADD(p.refused, 1);
}
