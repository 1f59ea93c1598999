/* SPDX-License-Identifier: Apache-2.0 */
#include "launches.h"
#include <stdlib.h>

/* Of one run of a graph. */
#define FIRES 120
#define TAILS 255
#define ERROR 1 /* cudaErrorInvalidValue */

struct launch {
	struct launch *next;
	CUgraphExec exec;
	struct fk_plan *plan;
};

struct environment {
	CUgraphExec exec; /* NULL: the host's */
	CUstream stream;  /* whose work all this is */
	struct launch *tail, **last;
	unsigned tails, fires;
	bool again; /* it is its own tail */
	pthread_t fired[FIRES];
};

static _Thread_local struct environment *inside;

bool fk_in_graph(void)
{
	return inside;
}

static void run_one(struct environment *e, CUgraphExec exec, struct fk_plan *plan)
{
	*e = (struct environment){.exec = exec, .stream = fk_worker, .last = &e->tail};
	inside = e;
	fk_plan_run(plan);
	inside = NULL;
	for (unsigned i = 0; i < e->fires; i++)
		pthread_join(e->fired[i], NULL);
}

/* The tails of one come before what was behind it. */
static void run_all(CUgraphExec exec, struct fk_plan *plan, struct launch *behind)
{
	struct environment *e = calloc(1, sizeof(*e));
	struct launch *l;

	if (!e)
		fk_die("no memory for a graph's launches");
	for (;;) {
		run_one(e, exec, plan);
		*e->last = behind;
		behind = e->tail;
		if (exec)
			fk_exec_give(exec, plan, e->again);
		l = behind;
		if (!l)
			break;
		behind = l->next;
		exec = l->exec;
		plan = l->plan;
		free(l);
	}
	free(e);
}

void fk_chain_run(struct fk_plan *plan)
{
	run_all(NULL, plan, NULL);
}

struct fire {
	CUstream stream;
	CUgraphExec exec;
	struct fk_plan *plan;
};

static void *run_fired(void *arg)
{
	struct fire f = *(struct fire *)arg;

	free(arg);
	fk_worker = f.stream;
	run_all(f.exec, f.plan, NULL);
	return NULL;
}

static int fire(struct environment *e, CUgraphExec exec, struct fk_plan *plan)
{
	struct fire *f = calloc(1, sizeof(*f));

	if (!f)
		fk_die("no memory for a graph's launches");
	*f = (struct fire){e->stream, exec, plan};
	if (pthread_create(&e->fired[e->fires++], NULL, run_fired, f))
		fk_die("no thread for a graph");
	return 0;
}

static int put_tail(struct environment *e, CUgraphExec exec, struct fk_plan *plan)
{
	struct launch *l = calloc(1, sizeof(*l));

	if (!l)
		fk_die("no memory for a graph's launches");
	l->exec = exec;
	l->plan = plan;
	*e->last = l;
	e->last = &l->next;
	e->tails++;
	e->again |= exec == e->exec;
	return 0;
}

int fk_launch_by_device(CUgraphExec exec, enum fk_by_device how)
{
	struct environment *e = inside;
	bool again = e && exec == e->exec && how == FK_TAIL && !e->again;
	struct fk_plan *plan;

	if (!e || (how == FK_TAIL ? e->tails == TAILS : e->fires == FIRES))
		return ERROR;
	plan = fk_exec_take(exec, again);
	if (!plan)
		return ERROR;
	return how == FK_TAIL ? put_tail(e, exec, plan) : fire(e, exec, plan);
}
