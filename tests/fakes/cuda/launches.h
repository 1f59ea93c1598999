/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that the device launches (launches.c), for exec.c and the kernels that do it. As the
 * driver documents it: a graph that is launched by the host, or by a graph, has an environment,
 * which is over when its works have run, those of what it has fired, and then its tails in order,
 * each with all that this one launches. One graph has one launch at a time, but that it may be its
 * own next tail.
 */
#pragma once
#include "fake.h"

enum fk_by_device { FK_TAIL = 1, FK_FIRE = 2 };

/* By a kernel. 0, or the device runtime's error. */
int fk_launch_by_device(CUgraphExec exec, enum fk_by_device how);

/* exec.c: of one that the device can launch, and that has been uploaded; the launch is its only
 * one from then on. NULL: it is refused. */
struct fk_plan *fk_exec_take(CUgraphExec exec, bool again);
void fk_exec_give(CUgraphExec exec, struct fk_plan *p, bool again); /* that is over */
void fk_plan_run(struct fk_plan *p);

/* Is this thread in a graph? */
bool fk_in_graph(void);
/* As the first of its environment, to the end of all that it launches. */
void fk_chain_run(struct fk_plan *p);
