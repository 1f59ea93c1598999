/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srtf: shortest remaining time first (Schrage 1968: no order has a lower mean response time). The
 * length of a job is its group's runtime hint, or the exponential mean of the jobs before (job.h),
 * or `initial` for a group of which nothing is known. What the job has used is subtracted.
 *
 * A job that outlives its expected length is taken to need as much again as it has used. Beyond
 * ENDLESS it comes after all others. Jobs that have outlived theirs take turns of one slice: they
 * cannot be told apart, and two that never end must not hand the device to and fro at each charge.
 * Without aging (aging.h), long jobs starve while there are always shorter ones.
 *
 * O(log n) for an event and a decision.
 */
#include "aging.h"
#include "job.h"

#define ENDLESS (10 * FM_S)

struct srtf {
	struct fm_heap ready; /* by remaining time */
	struct fm_aging aging;
	size_t joined;
	uint64_t slice, initial;
	struct srtf_ent *on; /* the entity that has the turn by the order, without aging */
	uint64_t turn;       /* device time of on since it was chosen */
};

struct srtf_ent {
	struct fm_heap_node node;
	struct fm_aging_ent age;
	struct fm_ent *ent;
	struct fm_job job;
};

static const struct fm_policy_param srtf_params[] = {
	{"slice", "ms", "turn among jobs that have outlived what was expected", 100 * FM_US,
		10 * FM_S, 5 * FM_MS},
	{"aging", "ms", "wait after which a job has a turn of one slice; 0: never", 0, 60 * FM_S,
		0},
	{"initial", "ms", "length taken for a group's first job without a runtime hint",
		100 * FM_US, 60 * FM_S, 5 * FM_MS},
	{0},
};

static uint64_t expected(const struct srtf *s, const struct fm_ent *e, const struct fm_job *j)
{
	int64_t runtime = fm_ent_hint(e, FM_HINT_RUNTIME);

	if (runtime > 0)
		return (uint64_t)runtime;
	return j->mean ? j->mean : s->initial;
}

static bool outlived(const struct srtf *s, const struct srtf_ent *se)
{
	return se->job.used >= expected(s, se->ent, &se->job);
}

static uint64_t key_of(const struct srtf *s, const struct srtf_ent *se)
{
	if (outlived(s, se) && se->job.used >= ENDLESS)
		return FM_NEVER;
	return fm_job_remaining(se->job.used, expected(s, se->ent, &se->job));
}

static struct srtf_ent *first(const struct srtf *s)
{
	struct fm_heap_node *n = fm_heap_min(&s->ready);

	return n ? fm_container(n, struct srtf_ent, node) : NULL;
}

static int srtf_init(void *self, const int64_t *params)
{
	struct srtf *s = self;

	s->slice = s->aging.slice = (uint64_t)params[0];
	s->aging.step = (uint64_t)params[1];
	s->initial = (uint64_t)params[2];
	return 0;
}

static void srtf_fini(void *self)
{
	struct srtf *s = self;

	fm_heap_fini(&s->ready);
	fm_aging_fini(&s->aging);
}

static int srtf_join(void *self, struct fm_ent *e, uint64_t now)
{
	struct srtf *s = self;
	struct srtf_ent *se = e->priv;

	if (fm_heap_reserve(&s->ready, s->joined + 1) || fm_aging_reserve(&s->aging, s->joined + 1))
		return -ENOMEM;
	se->ent = e;
	if (s->joined++ == 1 && s->ready.n) {
		fm_job_blur(&first(s)->job);
		fm_heap_rekey(&s->ready, &first(s)->node, key_of(s, first(s)));
	}
	return 0;
}

static void srtf_leave(void *self, struct fm_ent *e, uint64_t now)
{
	((struct srtf *)self)->joined--;
}

static void srtf_ready(void *self, struct fm_ent *e, uint64_t now)
{
	struct srtf *s = self;
	struct srtf_ent *se = e->priv;

	fm_job_begin(&se->job, e, s->joined == 1);
	/* Cannot fail: join reserved the room. */
	fm_heap_push(&s->ready, &se->node, key_of(s, se));
	fm_aging_ready(&s->aging, &se->age, s->aging.step, now);
}

static void srtf_idle(void *self, struct fm_ent *e, uint64_t now)
{
	struct srtf *s = self;
	struct srtf_ent *se = e->priv;

	fm_heap_del(&s->ready, &se->node);
	fm_aging_idle(&s->aging, &se->age, now);
	if (s->on == se)
		s->on = NULL;
}

static void rekey(struct srtf *s, struct srtf_ent *se)
{
	if (fm_heap_has(&se->node))
		fm_heap_rekey(&s->ready, &se->node, key_of(s, se));
}

static void srtf_charge(void *self, struct fm_ent *e, uint64_t ns, uint64_t now)
{
	struct srtf *s = self;
	struct srtf_ent *se = e->priv;

	fm_job_charge(&se->job, ns);
	rekey(s, se);
	if (s->on == se)
		s->turn = fm_add_sat(s->turn, ns);
	fm_aging_charge(&s->aging, &se->age, ns);
}

static void srtf_hint(void *self, struct fm_ent *e, uint64_t now)
{
	struct srtf *s = self;
	struct srtf_ent *se = e->priv;

	if (e->ready && fm_job_is_new(&se->job, e))
		fm_job_begin(&se->job, e, s->joined == 1);
	rekey(s, se);
}

/* The first by the order, without aging. An entity that has outlived its expected length keeps its
 * turn against others that have outlived theirs. */
static struct srtf_ent *shortest(struct srtf *s)
{
	struct srtf_ent *best = first(s), *on = s->on;
	bool in_turn = on && outlived(s, on) && outlived(s, best);

	if (in_turn && s->turn < s->slice)
		return on;
	if (in_turn && on == best) { /* goes behind its equals */
		fm_heap_del(&s->ready, &on->node);
		fm_heap_push(&s->ready, &on->node, key_of(s, on));
		s->turn = 0;
	}
	return first(s);
}

static void srtf_decide(void *self, uint64_t now, struct fm_choice *choice)
{
	struct srtf *s = self;
	struct srtf_ent *own;
	struct fm_aging_ent *age;
	bool late;

	if (!s->ready.n)
		return;
	own = shortest(s);
	if (own != s->on) {
		s->on = own;
		s->turn = 0;
	}
	late = outlived(s, own);
	age = fm_aging_pick(&s->aging, &own->age, 0, now, &choice->next);
	choice->run[choice->n++] = fm_container(age, struct srtf_ent, age)->ent;
	if (s->aging.aged) {
		choice->reason = "waited long";
		return;
	}
	choice->reason = late ? "longer than expected, in turns" : "shortest remaining time";
	if (s->ready.n > 1)
		choice->next = FM_MIN(
			choice->next, now + (late ? fm_sub_sat(s->slice, s->turn) : own->node.key));
}

static int srtf_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct srtf *s = self;
	struct srtf *t = to;

	*t = *s;
	if (fm_heap_copy(&t->ready, &s->ready) | fm_aging_copy(&t->aging, &s->aging))
		return -ENOMEM;
	for (size_t i = 0; i < s->ready.n; i++) {
		const struct srtf_ent *se = fm_container(s->ready.at[i], struct srtf_ent, node);
		struct fm_ent *e = &twin[se->ent->index];
		struct srtf_ent *te = e->priv;

		te->ent = e;
		te->job = se->job;
		fm_heap_copy_node(&t->ready, &te->node, &se->node);
		fm_aging_copy_ent(&t->aging, &te->age, &s->aging, &se->age);
		if (s->on == se)
			t->on = te;
	}
	return 0;
}

static bool srtf_preempts(void *self, const struct fm_ent *e, uint64_t now)
{
	const struct srtf *s = self;
	const struct srtf_ent *top = first(s);
	struct fm_job next = ((const struct srtf_ent *)e->priv)->job;

	if (!top)
		return true;
	fm_job_learn(&next);
	return expected(s, e, &next) < top->node.key && fm_aging_yields(&s->aging, 0);
}

static const struct fm_policy_promise srtf_promises[] = {
	{{NULL}, FM_PROMISE_SOUND | FM_PROMISE(SHORT), 1},
	{{"aging=100"}, FM_PROMISE_SOUND | FM_PROMISE(SERVES), 1},
	{{NULL}, 0, 0},
};

extern const struct fm_policy_ops fm_policy_srtf;
const struct fm_policy_ops fm_policy_srtf = {
	.name = "srtf",
	.summary = "the job with the shortest remaining time runs",
	.params = srtf_params,
	.reads = FM_READS(FM_HINT_RUNTIME),
	.advice = FM_ADVICE_RUNTIME,
	.promises = srtf_promises,
	.size = sizeof(struct srtf),
	.ent_size = sizeof(struct srtf_ent),
	.exact_jobs = true,
	.init = srtf_init,
	.fini = srtf_fini,
	.join = srtf_join,
	.leave = srtf_leave,
	.ready = srtf_ready,
	.idle = srtf_idle,
	.charge = srtf_charge,
	.hint = srtf_hint,
	.decide = srtf_decide,
	.preempts = srtf_preempts,
	.copy = srtf_copy,
};
