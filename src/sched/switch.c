/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing the policy. The new instances are made first, with everybody joined and the ready ones
 * replayed; only when all of that worked do the old ones go. Until then each entity's priv of the
 * other policy rests in `spare`, and each device's other instance in an array.
 */
#include "base/cleanup.h"
#include "core.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fm_core_new_shared(const struct fm_policy_ops *ops, void **out)
{
	*out = ops->shared_size ? calloc(1, ops->shared_size) : NULL;
	return ops->shared_size && !*out ? -ENOMEM : 0;
}

int fm_core_new_instance(
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

bool fm_core_binds_alone(const struct fm_policy_ops *ops, const void *self)
{
	return ops->shared_size || (ops->binds_alone && ops->binds_alone(self));
}

static void swap_priv(struct fm_sent *e)
{
	void *priv = e->pub.priv;

	e->pub.priv = e->spare;
	e->spare = priv;
}

/* Take everybody whose priv is in place out of an instance, and end it. The entities' own state is
 * as before; their privs of this policy are freed, and the others put in place. */
static void end_instance(const struct fm_policy_ops *ops, void *self, struct fm_sdev *d,
	struct fm_sent *upto, uint64_t now)
{
	struct fm_sent *e;

	fm_list_each (e, &d->ents, in_dev) {
		bool ready = e->pub.ready, running = e->pub.running;

		if (e == upto)
			break;
		e->pub.ready = e->pub.running = false;
		if (ready && ops->idle)
			ops->idle(self, &e->pub, now);
		if (ops->leave)
			ops->leave(self, &e->pub, now);
		e->pub.ready = ready;
		e->pub.running = running;
		swap_priv(e);
		free(e->spare);
		e->spare = NULL;
	}
	if (ops->fini)
		ops->fini(self);
	free(self);
}

static int join_new(const struct fm_policy_ops *ops, void *self, struct fm_sent *e, uint64_t now)
{
	bool ready = e->pub.ready, running = e->pub.running;
	int rc;

	e->spare = calloc(1, FM_MAX(ops->ent_size, (size_t)1));
	if (!e->spare)
		return -ENOMEM;
	swap_priv(e);
	e->pub.ready = e->pub.running = false;
	rc = ops->join ? ops->join(self, &e->pub, now) : 0;
	e->pub.ready = ready;
	if (!rc && ready && ops->ready)
		ops->ready(self, &e->pub, now);
	e->pub.running = running;
	if (rc) {
		swap_priv(e);
		free(e->spare);
		e->spare = NULL;
	}
	return rc;
}

/* With success every entity's priv in place is the new one. With failure nothing has changed. */
static int begin_instance(const struct fm_policy_ops *ops, void *shared, const int64_t *params,
	struct fm_sdev *d, void **out, uint64_t now)
{
	struct fm_sent *e;
	void *self;
	int rc = fm_core_new_instance(ops, shared, params, &self);

	if (rc)
		return rc;
	fm_list_each (e, &d->ents, in_dev) {
		rc = join_new(ops, self, e, now);
		if (rc) {
			end_instance(ops, self, d, e, now);
			return rc;
		}
	}
	*out = self;
	return 0;
}

static int begin_all(struct fm_sched *s, const struct fm_policy_ops *ops, void *shared,
	const int64_t *params, void **selves, uint64_t now)
{
	struct fm_sdev *d, *undo;
	size_t i = 0, j = 0;
	int rc;

	fm_list_each (d, &s->devices, node) {
		rc = begin_instance(ops, shared, params, d, &selves[i], now);
		if (!rc) {
			i++;
			continue;
		}
		fm_list_each (undo, &s->devices, node) {
			if (j == i)
				break;
			end_instance(ops, selves[j++], undo, NULL, now);
		}
		return rc;
	}
	return 0;
}

/* The old instance sees its entities leave with the privs that it knows. */
static void adopt(struct fm_sdev *d, const struct fm_policy_ops *old, void *self, uint64_t now)
{
	struct fm_sent *e;

	fm_list_each (e, &d->ents, in_dev)
		swap_priv(e);
	end_instance(old, d->self, d, NULL, now);
	d->self = self;
	d->binds_alone = fm_core_binds_alone(d->s->ops, self);
	fm_core_touch_all(d);
}

static const struct fm_policy_ops *find(const char *name, struct fm_err *err)
{
	const struct fm_policy_ops *ops = fm_policy_find(name);
	char known[200] = "";
	size_t len = 0;

	if (ops)
		return ops;
	for (const struct fm_policy_ops *const *p = fm_policies; *p && len < sizeof(known); p++)
		len += (size_t)snprintf(
			known + len, sizeof(known) - len, "%s%s", len ? ", " : "", (*p)->name);
	fm_err_set(err, -ENOENT, "there is no policy '%.40s'", name);
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
	FM_CLEAN_FREE void **selves = calloc(s->n_devices + 1, sizeof(*selves));
	FM_CLEAN_FREE void *shared = NULL;
	FM_CLEAN_FREE void *old_shared = NULL;
	int64_t values[FM_POLICY_PARAMS];
	struct fm_sdev *d;
	size_t i = 0;
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
		adopt(d, old, selves[i++], now);
	fm_list_each (d, &s->devices, node)
		fm_core_decide(d, now);
	return 0;
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
