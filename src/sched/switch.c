/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of the policy, and changes of the policy. The new instances are made first: all
 * entities join and the ready ones are replayed. The old instances end only when all of that
 * worked. Until then each entity's priv of the other policy is in `spare`, and each device's other
 * instances are in an array.
 */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "core.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fm_core_new_shared(const struct fm_policy_ops *ops, void **out)
{
	*out = ops->shared_size ? calloc(1, ops->shared_size) : NULL;
	return ops->shared_size && !*out ? -ENOMEM : 0;
}

bool fm_core_binds_alone(const struct fm_policy_ops *ops, const void *self)
{
	return ops->shared_size || (ops->binds_alone && ops->binds_alone(self));
}

/* Makes an instance without entities. */
static int new_instance(
	const struct fm_policy_ops *ops, void *shared, const int64_t *params, void **out)
{
	FM_CLEAN_FREE void *self = calloc(1, FM_MAX(ops->size, (size_t)1));
	int rc;

	if (!self)
		return -ENOMEM;
	if (ops->bind)
		ops->bind(self, ops->data);
	if (shared && ops->share)
		ops->share(self, shared);
	rc = ops->init ? ops->init(self, params) : 0;
	if (rc)
		return rc;
	*out = fm_take_ptr(self);
	return 0;
}

int fm_seat_join(const struct fm_policy_ops *ops, void *self, struct fm_sched_ent *e, unsigned seat,
	uint64_t now)
{
	struct fm_ent *seen = &e->seat[seat];
	int rc;

	seen->ready = seen->running = false;
	seen->user = e->d->s->by_user ? e->g->who->uid + 1 : 0;
	seen->priv = calloc(1, FM_MAX(ops->ent_size, (size_t)1));
	if (!seen->priv)
		return -ENOMEM;
	rc = ops->join ? ops->join(self, seen, now) : 0;
	if (rc) {
		free(seen->priv);
		seen->priv = NULL;
	}
	return rc;
}

void fm_seat_leave(const struct fm_policy_ops *ops, void *self, struct fm_sched_ent *e,
	unsigned seat, uint64_t now)
{
	struct fm_ent *seen = &e->seat[seat];
	bool ready = seen->ready;

	seen->ready = seen->running = false;
	if (ready && ops->idle)
		ops->idle(self, seen, now);
	if (ops->leave)
		ops->leave(self, seen, now);
	free(seen->priv);
	seen->priv = NULL;
}

static void swap_priv(struct fm_sched_ent *e, unsigned seat)
{
	void *priv = e->seat[seat].priv;

	e->seat[seat].priv = e->spare[seat];
	e->spare[seat] = priv;
}

/* All entities before upto leave with the priv that is in place, and the other priv takes its
 * place. The state of the entities does not change. */
static void dismiss(const struct fm_policy_ops *ops, void *self, struct fm_sched_dev *d,
	unsigned seat, struct fm_sched_ent *upto, uint64_t now)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &d->ents, in_dev) {
		struct fm_ent *seen = &e->seat[seat];
		bool ready = seen->ready, running = seen->running;

		if (e == upto)
			break;
		fm_seat_leave(ops, self, e, seat, now);
		swap_priv(e, seat);
		seen->ready = ready;
		seen->running = running;
	}
	if (ops->fini)
		ops->fini(self);
	free(self);
}

/* The priv that was in place is kept in spare. */
static int join_new(const struct fm_policy_ops *ops, void *self, struct fm_sched_ent *e,
	unsigned seat, uint64_t now)
{
	struct fm_ent *seen = &e->seat[seat];
	bool ready = seen->ready, running = seen->running;
	int rc;

	swap_priv(e, seat);
	rc = fm_seat_join(ops, self, e, seat, now);
	seen->ready = ready;
	if (!rc && ready && ops->ready)
		ops->ready(self, seen, now);
	seen->running = running;
	if (rc)
		swap_priv(e, seat);
	return rc;
}

/* On success every entity's priv in place is the new one. On failure nothing has changed. */
static int begin_instance(const struct fm_policy_ops *ops, void *shared, const int64_t *params,
	struct fm_sched_dev *d, unsigned seat, void **out, uint64_t now)
{
	struct fm_sched_ent *e;
	void *self;
	int rc = new_instance(ops, shared, params, &self);

	if (rc)
		return rc;
	fm_list_each (e, &d->ents, in_dev) {
		rc = join_new(ops, self, e, seat, now);
		if (rc) {
			dismiss(ops, self, d, seat, e, now);
			return rc;
		}
	}
	*out = self;
	return 0;
}

/* The seat has no instance yet, so the state of its entities is brought up to date first. */
int fm_seat_make(struct fm_sched_dev *d, unsigned seat, uint64_t now)
{
	const struct fm_sched *s = d->s;
	struct fm_sched_ent *e;

	fm_list_each (e, &d->ents, in_dev) {
		e->seat[seat] = e->seat[FM_FIRST];
		e->seat[seat].priv = NULL;
		e->seat[seat].ready = fm_core_visible(e, seat);
		e->seat[seat].ready_since = e->ready_since;
	}
	return begin_instance(s->ops, s->shared, s->params, d, seat, &d->self[seat], now);
}

void fm_seat_end(struct fm_sched_dev *d, unsigned seat, uint64_t now)
{
	if (d->self[seat])
		dismiss(d->s->ops, d->self[seat], d, seat, NULL, now);
	d->self[seat] = NULL;
}

/* Begins a new instance for each existing one, in selves, which has FM_SEATS places per device. */
static int begin_all(struct fm_sched *s, const struct fm_policy_ops *ops, void *shared,
	const int64_t *params, void **selves, uint64_t now)
{
	struct fm_sched_dev *d, *undo;
	void **self = selves;
	int rc = 0;

	fm_list_each (d, &s->devices, node)
		for (unsigned i = 0; i < FM_SEATS; i++, self++)
			if (!rc && d->self[i])
				rc = begin_instance(ops, shared, params, d, i, self, now);
	self = selves;
	if (rc)
		fm_list_each (undo, &s->devices, node)
			for (unsigned i = 0; i < FM_SEATS; i++, self++)
				if (*self)
					dismiss(ops, *self, undo, i, NULL, now);
	return rc;
}

/* The old instance sees its entities leave with the privs that it knows. */
static void adopt(struct fm_sched_dev *d, unsigned seat, const struct fm_policy_ops *old,
	void *self, uint64_t now)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &d->ents, in_dev)
		swap_priv(e, seat);
	dismiss(old, d->self[seat], d, seat, NULL, now);
	d->self[seat] = self;
}

static const struct fm_policy_ops *find(const char *name, struct fm_err *err)
{
	const struct fm_policy_ops *ops = fm_policy_find(name);
	struct fm_nearest near = {.typed = name};
	char known[200] = "";
	size_t len = 0;

	if (ops)
		return ops;
	for (const struct fm_policy_ops *const *p = fm_policies; *p && len < sizeof(known); p++) {
		fm_nearest_try(&near, (*p)->name);
		len += (size_t)snprintf(
			known + len, sizeof(known) - len, "%s%s", len ? ", " : "", (*p)->name);
	}
	fm_err_set(err, -ENOENT, "there is no policy '%.40s'", name);
	if (near.best)
		fm_err_hint(err, "did you mean '%s'?", near.best);
	else
		fm_err_hint(err, "policies are: %s", known);
	return NULL;
}

int fm_sched_policy(struct fm_sched *s, const char *name, const char *const *params, size_t n,
	uint64_t now, struct fm_err *err)
{
	const struct fm_policy_ops *ops = find(name, err);

	return ops ? fm_sched_use(s, ops, params, n, now, err) : -ENOENT;
}

int fm_sched_use(struct fm_sched *s, const struct fm_policy_ops *ops, const char *const *params,
	size_t n, uint64_t now, struct fm_err *err)
{
	const struct fm_policy_ops *old = s->ops;
	FM_CLEAN_FREE void **selves = calloc(s->n_devices * FM_SEATS + 1, sizeof(*selves));
	FM_CLEAN_FREE void *shared = NULL;
	FM_CLEAN_FREE void *old_shared = NULL;
	int64_t values[FM_POLICY_PARAMS];
	struct fm_sched_dev *d;
	void **self = selves;
	int rc;

	rc = fm_policy_parse(ops, params, n, values, err);
	if (rc)
		return rc;
	now = fm_core_now(s, now);
	fm_list_each (d, &s->devices, node)
		fm_core_settle_each(d, now);
	rc = selves ? fm_core_new_shared(ops, &shared) : -ENOMEM;
	if (!rc)
		rc = begin_all(s, ops, shared, values, selves, now);
	if (rc) {
		fm_err_set(err, rc, "policy %s could not start: %s", ops->name, strerror(-rc));
		fm_err_hint(err, "policy %s goes on; try again with other settings", old->name);
		return rc;
	}
	s->ops = ops;
	s->policies++;
	old_shared = s->shared;
	s->shared = fm_take_ptr(shared);
	memcpy(s->params, values, sizeof(values));
	fm_list_each (d, &s->devices, node)
		for (unsigned i = 0; i < FM_SEATS; i++, self++)
			if (*self)
				adopt(d, i, old, *self, now);
	fm_list_each (d, &s->devices, node) {
		d->binds_alone = fm_core_binds_alone(ops, d->self[FM_FIRST]);
		fm_core_touch_all(d);
	}
	fm_list_each (d, &s->devices, node)
		fm_core_decide(d, now);
	return 0;
}

void fm_sched_fair_by(struct fm_sched *s, bool user)
{
	s->by_user = user;
}

bool fm_sched_fair_by_user(const struct fm_sched *s)
{
	return s->by_user && s->ops->by_user;
}

const struct fm_policy_ops *fm_sched_policy_ops(const struct fm_sched *s)
{
	return s->ops;
}

uint64_t fm_sched_policies(const struct fm_sched *s)
{
	return s->policies;
}

const int64_t *fm_sched_policy_params(const struct fm_sched *s)
{
	return s->params;
}
