/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real-time tasks in the daemon: their owners, their groups, and what happens to them. A task
 * belongs to a process, its owner, and leaves with it. It is bound to a group: one with a name that
 * the processes of a user share, or the owner's own group. The group may come into being later, and
 * may go and come again.
 */
#pragma once
#include "admit/admit.h"
#include "daemon/daemon.h"

#define ADMISSION_AT_ONCE 1024 /* tasks in one request; its size is the closer limit */

/* One task of a request. group "": the owner's own. */
struct admission_wish {
	struct fm_admit_spec spec;
	char group[FM_NAME_MAX];
};

struct admission_request {
	const struct peer *peer;
	pid_t owner; /* 0: the process that asks */
	struct admission_wish *wish;
	size_t n;
	bool reassign, keep;
};

int admission_new(struct daemon *d);
void admission_free(struct daemon *d);              /* after the bridge */
void admission_configure(struct daemon *d);         /* the configuration has changed */
void admission_run(struct daemon *d, uint64_t now); /* do what is due */
uint64_t admission_next(const struct daemon *d);
size_t admission_count(const struct daemon *d);

/* May this policy, with the settings of this configuration, replace the one in force? It may not
 * while tasks are admitted whose bounds it would not keep. */
int admission_check_policy(
	const struct daemon *d, const struct config *c, const char *line, struct fm_err *err);

/* Returns a reply, or NULL with err. -EINPROGRESS: the reply comes later, to the connection that
 * adopts it. */
json_t *admission_admit(struct daemon *d, struct admission_request *r, struct fm_err *err);
json_t *admission_tasks(const struct daemon *d); /* without the tasks */
/* The next task with a number above *after that the peer may see, or NULL. *after becomes its
 * number. */
json_t *admission_task(struct daemon *d, const struct peer *p, uint64_t *after);
/* Adds some of the tasks with a number above *after, which moves on. Returns whether the end is
 * reached. */
bool admission_metrics(
	struct daemon *d, const struct peer *p, uint64_t *after, unsigned n, json_t *list);
json_t *admission_unadmit(
	struct daemon *d, const struct peer *p, const char *which, bool own, struct fm_err *err);

/* admission_job.c. keep: `body' is the request that has just been put off. adopt: its reply is for
 * this connection. abandon: the connection ends. */
struct control;
bool admission_keep(struct daemon *d, json_t *body);
bool admission_adopt(struct daemon *d, struct control *c);
void admission_abandon(struct daemon *d, const struct control *c);

/* A group was suspended or resumed by hand. */
void admission_suspended(struct daemon *d, struct fm_bridge_group *g);

/* command_admit.c: requests as they come, {"cmd": "admit", ...} and the like. */
json_t *command_admit(
	struct daemon *d, const struct peer *p, const json_t *body, struct fm_err *err);
json_t *command_unadmit(
	struct daemon *d, const struct peer *p, const json_t *body, struct fm_err *err);
