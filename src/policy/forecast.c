/* SPDX-License-Identifier: Apache-2.0 */
#include "forecast.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>

struct player {
	const struct fm_policy_ops *ops;
	void *self; /* the copy */
	struct fm_ent *twin;
	unsigned n;
	struct actor {
		struct fm_ent *ent;
		uint64_t left; /* of its job */
		unsigned turn; /* 1 + the number of its last turn; 0: it had none */
	} * actor;
	struct fm_ent **run; /* the twins that run */
	unsigned n_run;
	bool all;
	uint64_t now;
	struct fm_turn *out;
	unsigned made, cap;
	unsigned sure;
};

static struct actor *actor_of(const struct player *p, const struct fm_ent *twin)
{
	return &p->actor[twin - p->twin];
}

/* Its turn goes on, or a new one begins. Returns whether there is room for that. */
static bool has_turn(struct player *p, const struct fm_ent *twin)
{
	struct actor *a = actor_of(p, twin);

	if (a->turn && p->out[a->turn - 1].until == p->now)
		return true;
	if (p->made == p->cap)
		return false;
	p->out[p->made++] = (struct fm_turn){
		.ent = a->ent, .from = p->now, .until = p->now, .sure = (uint8_t)p->sure};
	a->turn = p->made;
	return true;
}

static void start(struct player *p, struct fm_ent *twin)
{
	if (!twin || !twin->ready || twin->running)
		return;
	twin->running = true;
	p->run[p->n_run++] = twin;
}

static void stop_all(struct player *p)
{
	for (unsigned i = 0; i < p->n_run; i++)
		p->run[i]->running = false;
	p->n_run = 0;
}

/* Takes a choice as the scheduler core does. Returns whether there is room for all turns. */
static bool take(struct player *p, const struct fm_choice *c)
{
	stop_all(p);
	p->all = c->all;
	for (unsigned i = 0; c->all && i < p->n; i++)
		start(p, &p->twin[i]);
	for (unsigned i = 0; !c->all && i < FM_MIN(c->n, (unsigned)FM_RUN_MAX); i++)
		start(p, c->run[i]);
	for (unsigned i = 0; i < p->n_run; i++)
		if (!has_turn(p, p->run[i]))
			return false;
	return true;
}

/* When the first of the jobs that run ends. */
static uint64_t first_end(const struct player *p)
{
	uint64_t least = FM_NEVER;

	for (unsigned i = 0; !p->all && i < p->n_run; i++)
		least = FM_MIN(least, actor_of(p, p->run[i])->left);
	return fm_add_sat(p->now, least);
}

static void go_idle(struct player *p, struct fm_ent *twin)
{
	p->sure = p->sure * FM_SURE_JOB / 100;
	twin->ready = twin->running = false;
	if (p->ops->idle)
		p->ops->idle(p->self, twin, p->now);
}

static void use(struct player *p, struct fm_ent *twin, uint64_t ns)
{
	struct actor *a = actor_of(p, twin);

	p->out[a->turn - 1].until = p->now;
	twin->served_ns += ns;
	if (p->ops->charge)
		p->ops->charge(p->self, twin, ns, p->now);
	if (!p->all && a->left != FM_NEVER)
		a->left -= ns;
}

static void advance(struct player *p, uint64_t to)
{
	uint64_t ns = to - p->now;

	p->now = to;
	for (unsigned i = 0; i < p->n_run; i++)
		use(p, p->run[i], ns);
	for (unsigned i = 0; i < p->n_run; i++) {
		struct actor *a = actor_of(p, p->run[i]);

		if (a->left)
			continue;
		go_idle(p, p->run[i]);
		p->out[a->turn - 1].sure = (uint8_t)p->sure;
	}
}

static void last_for_ever(struct player *p)
{
	for (unsigned i = 0; i < p->n_run; i++)
		p->out[actor_of(p, p->run[i])->turn - 1].until = FM_NEVER;
}

static void play(struct player *p, uint64_t until)
{
	unsigned made = 0;

	for (unsigned asks = 0; asks < FM_FORECAST_ASKS && p->now < until; asks++) {
		struct fm_choice c = {.next = FM_NEVER};
		uint64_t end;

		p->ops->decide(p->self, p->now, &c);
		if (!take(p, &c))
			return;
		end = first_end(p);
		if (c.next == FM_NEVER && end == FM_NEVER) {
			last_for_ever(p);
			return;
		}
		end = FM_MIN(end, FM_MAX(c.next, fm_add_sat(p->now, FM_DECIDE_LEAST)));
		advance(p, FM_MIN(end, until));
		asks = p->made == made ? asks : 0;
		made = p->made;
	}
}

/* An entity that is idle, or about to be, has no turn. */
static void ask_left(struct player *p, const struct fm_foresight *f)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct actor *a = &p->actor[i];

		if (!p->twin[i].ready)
			continue;
		a->left = f->left ? f->left(f->ctx, a->ent) : FM_NEVER;
		if (!a->left)
			go_idle(p, &p->twin[i]);
	}
}

/* The twins equal the entities, except for what only the policy can copy. */
static void make_twins(struct player *p, struct fm_ent *const *ent, unsigned char *priv)
{
	for (unsigned i = 0; i < p->n; i++) {
		ent[i]->index = i;
		p->actor[i].ent = ent[i];
		p->twin[i] = *ent[i];
		p->twin[i].priv = priv + i * p->ops->ent_size;
		if (p->twin[i].running)
			p->run[p->n_run++] = &p->twin[i];
	}
}

int fm_policy_forecast(const struct fm_policy_ops *ops, const void *self, struct fm_ent *const *ent,
	unsigned n, const struct fm_foresight *f, struct fm_turn *out, unsigned cap)
{
	FM_CLEAN_FREE void *copy = calloc(1, FM_MAX(ops->size, (size_t)1));
	FM_CLEAN_FREE struct fm_ent *twin = calloc(n + 1u, sizeof(*twin));
	FM_CLEAN_FREE unsigned char *priv = calloc(n + 1u, FM_MAX(ops->ent_size, (size_t)1));
	FM_CLEAN_FREE struct actor *actor = calloc(n + 1u, sizeof(*actor));
	FM_CLEAN_FREE struct fm_ent **run = calloc(n + 1u, sizeof(struct fm_ent *));
	struct player p = {.ops = ops,
		.self = copy,
		.twin = twin,
		.n = n,
		.actor = actor,
		.run = run,
		.now = f->now,
		.out = out,
		.cap = cap,
		.sure = FM_SURE};
	int rc;

	if (!ops->copy)
		return -ENOTSUP;
	if (!copy || !twin || !priv || !actor || !run)
		return -ENOMEM;
	make_twins(&p, ent, priv);
	rc = ops->copy(self, copy, twin);
	if (!rc) {
		ask_left(&p, f);
		play(&p, f->until);
	}
	if (ops->fini)
		ops->fini(copy);
	return rc ? rc : (int)p.made;
}
