/* SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/util.h"
#include "tune.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* Trackers may come after the trial. The last one frees it. */
struct trial {
	_Atomic unsigned refs;
	unsigned n;
	struct mark {
		struct trial *of;
		_Atomic bool came;
		bool put, late; /* late: it had not come when the gate opened */
	} mark[];               /* of the others; then two of the queue that is tried: behind the
				   gate, and in front of it */
};

static void unref(struct trial *t)
{
	if (atomic_fetch_sub(&t->refs, 1) == 1)
		free(t);
}

static void came(void *cookie, uint64_t now)
{
	struct mark *m = cookie;

	atomic_store(&m->came, true);
	unref(m->of);
}

static void nap(uint64_t ns)
{
	const struct timespec ts = fm_timespec(ns);

	nanosleep(&ts, NULL);
}

/* A queue that another thread uses just now is asked again. */
static bool put(struct trial *t, unsigned i, const struct fm_trial_queue *q)
{
	struct mark *m = &t->mark[i];
	int rc = -EIO;

	m->of = t;
	atomic_fetch_add(&t->refs, 1);
	m->put = true;
	for (unsigned n = 0; q->track && n < FM_TRIAL_TRIES; n++) {
		rc = q->track(q->hwq, came, m);
		if (rc != -EBUSY)
			break;
		nap(FM_TRIAL_LOOK);
	}
	if (!rc)
		return true;
	m->put = false;
	unref(t); /* the caller has another */
	return false;
}

/* Until all of these have come, or the limit. */
static void await(struct trial *t, unsigned from, unsigned to, uint64_t most)
{
	uint64_t until = fm_now() + most;

	for (unsigned i = from; i < to; i++)
		while (t->mark[i].put && !atomic_load(&t->mark[i].came) && fm_now() < until)
			nap(FM_TRIAL_LOOK);
}

/* The queue has come so far as the gate that is put next. Before, a tracker behind that says
 * nothing: a driver's own threads may be late. */
static bool has_come_so_far(struct trial *t, const struct fm_hw_ops *ops, void *hwq)
{
	const struct fm_trial_queue own = {ops->track, hwq};
	unsigned front = t->n + 1;

	if (!put(t, front, &own))
		return false;
	await(t, front, front + 1, FM_TRIAL_OPENS);
	return atomic_load(&t->mark[front].came);
}

/* The gate is closed. Puts a tracker behind it, and into each other queue. */
static bool stands(struct trial *t, const struct fm_hw_ops *ops, void *hwq,
	const struct fm_trial_queue *others, uint64_t so_long)
{
	const struct fm_trial_queue own = {ops->track, hwq};

	if (!put(t, t->n, &own))
		return false;
	for (unsigned i = 0; i < t->n; i++)
		put(t, i, &others[i]);
	nap(so_long);
	await(t, 0, t->n, FM_TRIAL_PASSES);
	for (unsigned i = 0; i < t->n; i++)
		t->mark[i].late = t->mark[i].put && !atomic_load(&t->mark[i].came);
	return true;
}

static enum fm_trial verdict(struct trial *t, bool passed, unsigned *stalled)
{
	if (passed)
		return FM_TRIAL_PASSED;
	await(t, t->n, t->n + 1, FM_TRIAL_OPENS);
	if (!atomic_load(&t->mark[t->n].came))
		return FM_TRIAL_STAYS;
	await(t, 0, t->n, FM_TRIAL_PASSES); /* those that stood with it come now */
	for (unsigned i = 0; i < t->n; i++) {
		if (!t->mark[i].late || !atomic_load(&t->mark[i].came))
			continue;
		if (stalled)
			*stalled = i;
		return FM_TRIAL_STALLS;
	}
	return FM_TRIAL_HOLDS;
}

static enum fm_trial try_once(const struct fm_hw_ops *ops, void *hwq,
	const struct fm_trial_queue *others, unsigned n, unsigned *stalled, uint64_t so_long)
{
	struct trial *t = calloc(1, sizeof(*t) + (n + 2) * sizeof(t->mark[0]));
	enum fm_trial is = FM_TRIAL_REFUSED;
	bool put_all, passed;
	void *gate;

	if (!t)
		return is;
	atomic_init(&t->refs, 1);
	t->n = n;
	if (!ops->host_gate.deactivate || !ops->track || !has_come_so_far(t, ops, hwq) ||
		ops->host_gate.deactivate(hwq, &gate)) {
		unref(t);
		return is;
	}
	put_all = stands(t, ops, hwq, others, so_long);
	passed = atomic_load(&t->mark[n].came);
	ops->host_gate.reactivate(hwq, gate);
	if (put_all)
		is = verdict(t, passed, stalled);
	unref(t);
	return is;
}

/* What happens by chance does not happen each time. A queue that passes a closed gate may be heard
 * of late, so a gate must hold several times. Another queue with work of its own may end it just
 * when the gate opens: that is no stall, and one time without is enough. */
enum fm_trial fm_gate_try(const struct fm_hw_ops *ops, void *hwq,
	const struct fm_trial_queue *others, unsigned n, unsigned *stalled)
{
	enum fm_trial is;
	bool pass = false;
	FM_NO_CANCEL; /* the gate would stay closed */

	for (unsigned i = 1; i <= FM_MAX(FM_TRIAL_STALLED, FM_TRIAL_HELD); i++) {
		is = try_once(ops, hwq, others, pass ? 0 : n, stalled, FM_TRIAL_STANDS);
		if (is != FM_TRIAL_HOLDS && is != FM_TRIAL_STALLS)
			return is;
		pass = pass || is == FM_TRIAL_HOLDS;
		if (pass && i >= FM_TRIAL_HELD)
			return FM_TRIAL_HOLDS;
	}
	return FM_TRIAL_STALLS;
}

enum fm_trial fm_gate_stand(const struct fm_hw_ops *ops, void *hwq, uint64_t ns)
{
	FM_NO_CANCEL; /* as above */

	return try_once(ops, hwq, NULL, 0, NULL, ns);
}
