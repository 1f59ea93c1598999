/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the admission: admission.c binds tasks to groups, admission_owner.c knows
 * their owners, admission_report.c reports them. */
#pragma once
#include "admission.h"

/* A process that has tasks. */
struct owner {
	struct fm_list link;
	struct daemon *daemon;
	pid_t pid;
	uid_t uid;
	int pidfd;
	sd_event_source *life;
	struct fm_list tasks;
};

struct task {
	struct fm_list link, in_owner;
	struct owner *owner;
	struct fm_atask *at;
	struct fm_bridge_group *group; /* NULL: the group is not there */
	char name[FM_ADMIT_NAME];
	char group_name[FM_NAME_MAX]; /* "": the owner's own group */
	unsigned id;
};

struct admission {
	struct fm_admit *admit;
	struct fm_list owners, tasks;
	struct fm_log_limit log;
	unsigned last_id;
	uint64_t rest_until; /* after a long decision */
	struct job *job;     /* the decision that is under way, or NULL */
};

/* admission.c */
void task_unbind(struct daemon *d, struct task *t, bool gone);

/* admission_owner.c: the process's entry, if the peer may have tasks for it. Returns 0, or -ESRCH,
 * -EPERM, -ENOMEM. owner_put() drops an owner without tasks. */
int owner_get(
	struct daemon *d, struct owner **out, const struct peer *p, pid_t pid, struct fm_err *err);
void owner_put(struct owner *o);
void task_end(struct daemon *d, struct task *t);

/* admission_job.c: as fm_admit_ask(). -EINPROGRESS: keep the request; it is run again when it has
 * been decided. -EAGAIN: another request is being decided. */
int admission_decide(struct daemon *d, const struct fm_admit_spec *spec,
	const struct admission_request *r, struct fm_atask **at, struct fm_admit_answer *answer,
	struct fm_err *err);
void admission_job_end(struct daemon *d);

/* admission_report.c */
json_t *admission_answer(const struct daemon *d, const struct admission_request *r,
	const struct fm_admit_answer *a, const int64_t *bound);
