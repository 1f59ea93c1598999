/* SPDX-License-Identifier: Apache-2.0 */
/* usage: gpu_trace SEED STEPS | gpu_trace text | gpu_trace graphs-text | gpu_trace graphs
 * A set of tasks at random, or with "plain" as STEPS one of two tasks and no news, and what the
 * core's text makes of random news in memory, as a processor runs it: a line for each word of 32
 * bits that is not 0 before, and of each piece of news one that says it, and each word that has
 * changed. "text": the PTX of the same text; "graphs-text": that of sets of graphs, and "graphs":
 * where what is in the words of such a set. */
#include "base/util.h"
#include "device/gpugraphs.h"
#include "gpusched/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 5

static struct {
	union {
		struct fm_gs_host host;
		struct fm_gates device; /* of which the processor has the first member alone */
	};
	uint32_t after[MANY + 1];
	struct fm_gs_task task[MANY];
} now, before;

static uint64_t seed;
static bool plain; /* two tasks of one chunk, for whose releases there is no other reason */

static uint64_t any(uint64_t n)
{
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}

static void make_task(uint32_t i)
{
	struct fm_gs_task *t = &now.task[i];

	t->chunks = 1 + (uint32_t)any(2);
	t->weight = 1 + (uint32_t)any(4096);
	t->deadline = any(3) ? any(10000) : 0;
	t->wcet = any(2) ? any(500) : 0;
	t->priority = (int32_t)any(5) - 2;
	t->period = any(4) ? 0 : 1 + any(2000);
	t->next = t->period ? any(1000) : FM_GS_NEVER;
	t->first_after = i;
	t->n_after = i && !any(3);
	now.after[i] = i ? (uint32_t)any(i) : 0;
}

static void make(void)
{
	struct fm_gs *g = &now.host.g;

	now.host.is_virtual = true;
	g->n = 1 + (uint32_t)any(MANY);
	g->slots = 1 + (uint32_t)any(g->n);
	g->policy = (enum fm_gs_policy)any(FM_GS_POLICIES);
	g->gap = any(3) ? 0 : any(50);
	g->task = now.task;
	g->after = now.after;
	if (plain)
		g->n = 2;
	for (uint32_t i = 0; i < g->n; i++) {
		make_task(i);
		if (plain)
			now.task[i] =
				(struct fm_gs_task){.chunks = 1, .weight = 1, .next = FM_GS_NEVER};
	}
}

/* Behind host.g each has what is its own. */
static void tell_changes(void)
{
	const unsigned char *a = (const unsigned char *)&before, *b = (const unsigned char *)&now;
	size_t own = offsetof(struct fm_gs_host, now);

	for (size_t at = 0; at < sizeof(now); at += 4) {
		uint32_t value;

		if (!memcmp(a + at, b + at, 4) || (at >= own && at < sizeof(now.device)))
			continue;
		memcpy(&value, b + at, 4);
		printf(" %zx=%x", (size_t)(b + at), value);
	}
	printf("\n");
	memcpy(&before, &now, sizeof(now));
}

static void apply(uint32_t task, uint32_t what, uint64_t jobs, uint64_t chunks)
{
	struct fm_gs_task *t = &now.task[task];

	t->ended += (what & FM_GATES_ENDED) != 0;
	t->rung += jobs;
	t->queued += chunks;
	if (what & FM_GATES_OFF)
		t->off = 1;
	if (what & (FM_GATES_PARK | FM_GATES_GO_ON))
		now.host.g.park = (what & FM_GATES_PARK) != 0;
	if (what & (FM_GATES_DRAIN | FM_GATES_ACCEPT))
		now.host.g.drain = (what & FM_GATES_DRAIN) != 0;
	if (what & (FM_GATES_LEAVE | FM_GATES_STAY))
		now.host.g.leave = (what & FM_GATES_LEAVE) != 0;
	if (what & FM_GATES_KICK)
		fm_gs_host_kick(&now.host);
}

static void step(void)
{
	uint32_t task = (uint32_t)any(now.host.g.n), what = any(10) ? FM_GATES_KICK : 0;
	uint64_t jobs = 0, chunks = 0, kind = any(13);

	fm_gs_write(&now.host.now, now.host.now + any(200));
	if (kind < 3)
		jobs = 1 + any(any(20) ? 3 : 100);
	else if (kind < 6)
		chunks = 1 + any(4);
	else if (kind < 10 && now.task[task].gate != now.task[task].ended)
		what |= FM_GATES_ENDED;
	else if (kind == 10)
		what |= now.host.g.park ? FM_GATES_GO_ON : FM_GATES_PARK;
	else if (kind == 11 && !any(3))
		what |= any(2) ? FM_GATES_OFF
			       : (now.host.g.drain ? FM_GATES_ACCEPT : FM_GATES_DRAIN);
	else if (kind == 12)
		what |= now.host.g.leave ? FM_GATES_STAY : FM_GATES_LEAVE;
	apply(task, what, jobs, chunks);
	printf("%llu %llu %llu %u %u", (unsigned long long)now.host.now, (unsigned long long)jobs,
		(unsigned long long)chunks, task, what);
	tell_changes();
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "text"))
		return fputs(fm_gates_text, stdout) < 0;
	if (argc == 2 && !strcmp(argv[1], "graphs-text"))
		return fputs(fm_graphs_text, stdout) < 0;
	if (argc == 2 && !strcmp(argv[1], "graphs-heard-text"))
		return fputs(fm_graphs_heard_text, stdout) < 0;
	if (argc == 2 && !strcmp(argv[1], "graphs"))
		return printf("gates=%zx slots=%zx policy=%zx priority=%zx asked=%zx said=%zx "
			      "rests=%zx of=%zx block=%zx stops=%zx of_size=%zx first=%zx from=%zx "
			      "stop=%zx resides=%zx end=%zx deadline=%zx missed=%zx "
			      "missed_stopped=%zx",
			       sizeof(struct fm_gates), offsetof(struct fm_gs, slots),
			       offsetof(struct fm_gs, policy),
			       offsetof(struct fm_gs_task, priority),
			       offsetof(struct fm_graphs, asked), offsetof(struct fm_graphs, said),
			       offsetof(struct fm_graphs, rests), offsetof(struct fm_graphs, of),
			       offsetof(struct fm_graphs_task, block),
			       offsetof(struct fm_graphs_task, stops),
			       sizeof(struct fm_graphs_task),
			       offsetof(struct fm_graphs_block, first),
			       offsetof(struct fm_graphs_block, from),
			       offsetof(struct fm_graphs_block, stop),
			       offsetof(struct fm_graphs, resides), offsetof(struct fm_graphs, end),
			       offsetof(struct fm_gs_task, deadline),
			       offsetof(struct fm_gs_task, stats.missed),
			       offsetof(struct fm_gs_task, stats.missed_stopped)) < 0;
	if (argc != 3)
		return 2;
	seed = strtoull(argv[1], NULL, 10);
	plain = !strcmp(argv[2], "plain");
	make();
	printf("%zx %zx %zx %zx %zx %zx", (size_t)&now.host.g, offsetof(struct fm_gates, told),
		sizeof(now.device), offsetof(struct fm_gates, noted), (size_t)now.task,
		sizeof(*now.task));
	tell_changes();
	for (int i = 0; i < atoi(argv[2]); i++)
		step();
	return 0;
}
