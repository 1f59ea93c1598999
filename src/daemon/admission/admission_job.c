/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about many tasks take milliseconds, in which devices would wait. A request that cannot
 * be decided within one is decided by a thread, one request at a time, while the loop goes on. Then
 * the request is run again, and finds the decision.
 */
#include "admission_internal.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/asks.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ATTEMPTS 5 /* how often a decision is made if tasks leave meanwhile */

/* After a decision that takes longer than DECISION_LONG there is a pause REST_FACTOR times as long,
 * for every peer that may not steer everything. */
#define DECISION_LONG (5 * FM_MS)
#define REST_FACTOR   9

struct job {
	struct daemon *daemon;
	struct fm_admit_question *question;
	bool decided;
	pthread_t thread;
	int done; /* eventfd */
	sd_event_source *io;
	uint64_t began;
	unsigned attempt;

	bool adopted;
	struct control *asker; /* NULL: gone, or not adopted yet */
	json_t *body;          /* NULL: admission_keep() has not been called yet */
};

static void *decide(void *arg)
{
	const uint64_t one = 1;
	struct job *j = arg;

	fm_admit_decide(j->question);
	(void)!write(j->done, &one, sizeof(one));
	return NULL;
}

/* The thread is of an ordinary scheduling class, whatever the loop's is, so that it does not
 * compete with the loop. */
static int start_thread(struct job *j)
{
	const struct sched_param other = {0};
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16 * (size_t)PTHREAD_STACK_MIN);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &other);
	rc = pthread_create(&j->thread, &attr, decide, j);
	if (rc == EPERM) { /* a system call filter forbids it: use the loop's class */
		pthread_attr_setinheritsched(&attr, PTHREAD_INHERIT_SCHED);
		rc = pthread_create(&j->thread, &attr, decide, j);
	}
	pthread_attr_destroy(&attr);
	return -rc;
}

static void job_free(struct job *j)
{
	sd_event_source_disable_unref(j->io);
	fm_close_fd(&j->done);
	fm_admit_question_free(j->question);
	json_decref(j->body);
	free(j);
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct job *j = arg;
	struct daemon *d = j->daemon;
	struct admission *a = d->admission;
	struct listing *list = NULL;
	uint64_t now = fm_now(), took = now - j->began;
	json_t *reply;

	pthread_join(j->thread, NULL);
	j->decided = true;
	if (took > DECISION_LONG)
		a->rest_until = now + REST_FACTOR * took;
	if (j->asker) {
		reply = command_again(d, &j->asker->peer, j->body, &list);
		if (a->job == j) /* else it was asked anew */
			control_answer(j->asker, reply, list);
	}
	if (a->job == j)
		a->job = NULL;
	job_free(j);
	return 0;
}

static int job_start(struct daemon *d, struct fm_admit_question *q, const struct job *last)
{
	struct job *j = calloc(1, sizeof(*j));
	int rc = -ENOMEM;

	if (!j) {
		fm_admit_question_free(q);
		return rc;
	}
	j->daemon = d;
	j->question = q;
	j->began = fm_now();
	j->attempt = last ? last->attempt + 1 : 0;
	j->adopted = last;
	j->asker = last ? last->asker : NULL;
	j->body = last ? json_incref(last->body) : NULL;
	j->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (j->done >= 0)
		rc = sd_event_add_io(d->event, &j->io, j->done, EPOLLIN, on_done, j);
	if (rc >= 0)
		rc = sd_event_source_set_priority(j->io, PRIORITY_CONTROL);
	if (rc >= 0)
		rc = start_thread(j);
	if (rc < 0)
		job_free(j);
	else
		d->admission->job = j;
	return rc < 0 ? rc : 0;
}

static int busy(struct fm_err *err)
{
	fm_err_set(err, -EAGAIN, "decisions take long with so many tasks");
	return fm_err_hint(err, "ask again in a second");
}

static int quickly(struct daemon *d, const struct fm_admit_spec *spec,
	const struct admission_request *r, struct fm_atask **at, struct fm_admit_answer *answer,
	struct fm_err *err)
{
	struct fm_admit *a = d->admission->admit;
	struct fm_admit_question *q;
	int rc = fm_admit_prepare(a, spec, r->n, r->reassign, true, &q, err);

	if (rc)
		return rc;
	fm_admit_decide(q);
	rc = -EINPROGRESS;
	if (!fm_admit_gave_up(q))
		rc = fm_admit_finish(a, q, spec, r->n, r->keep, at, answer, fm_now(), err);
	fm_admit_question_free(q);
	return rc;
}

/* Has a thread decide. last: the job whose decision came too late, or NULL. */
static int slowly(struct daemon *d, const struct fm_admit_spec *spec,
	const struct admission_request *r, const struct job *last, struct fm_err *err)
{
	struct fm_admit_question *q;
	int rc = fm_admit_prepare(d->admission->admit, spec, r->n, r->reassign, false, &q, err);

	if (rc)
		return rc;
	if (job_start(d, q, last))
		return fm_err_set(err, -ENOMEM, "out of memory for the analysis");
	return fm_err_set(err, -EINPROGRESS, "the decision is under way");
}

int admission_decide(struct daemon *d, const struct fm_admit_spec *spec,
	const struct admission_request *r, struct fm_atask **at, struct fm_admit_answer *answer,
	struct fm_err *err)
{
	struct admission *a = d->admission;
	struct job *j = a->job;
	int rc;

	if (j && j->decided) {
		rc = fm_admit_finish(
			a->admit, j->question, spec, r->n, r->keep, at, answer, fm_now(), err);
		if (rc != -ESTALE)
			return rc;
		return j->attempt < ATTEMPTS ? slowly(d, spec, r, j, err) : busy(err);
	}
	rc = quickly(d, spec, r, at, answer, err);
	if (rc != -EINPROGRESS)
		return rc;
	if (!d->asks) /* there is no loop that must go on meanwhile */
		return fm_admit_ask(
			a->admit, spec, r->n, r->reassign, r->keep, at, answer, fm_now(), err);
	if (j || (fm_now() < a->rest_until && !r->peer->steers))
		return busy(err);
	return slowly(d, spec, r, NULL, err);
}

bool admission_keep(struct daemon *d, json_t *body)
{
	struct job *j = d->admission->job;

	if (!j || j->decided)
		return false;
	if (!j->body)
		j->body = json_incref(body);
	return true;
}

bool admission_adopt(struct daemon *d, struct control *c)
{
	struct job *j = d->admission->job;

	if (!j || j->adopted || !j->body)
		return false;
	j->adopted = true;
	j->asker = c;
	return true;
}

void admission_abandon(struct daemon *d, const struct control *c)
{
	struct job *j = d->admission ? d->admission->job : NULL;

	if (j && j->asker == c)
		j->asker = NULL;
}

void admission_job_end(struct daemon *d)
{
	struct job *j = d->admission->job;

	if (!j)
		return;
	pthread_join(j->thread, NULL);
	job_free(j);
	d->admission->job = NULL;
}
