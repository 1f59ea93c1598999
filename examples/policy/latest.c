/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latest: the group that became ready last runs. With turn=TIME it gives way after so much device
 * time to the others, and comes after all of them.
 */
#include <fermata/policy.h>

struct member {
	struct member *above, *below; /* above: became ready later */
	struct fm_policy_group *group;
	uint64_t used;
};

struct latest {
	struct member *top, *bottom;
	uint64_t turn; /* 0: no limit */
};

static const struct fm_policy_setting settings[] = {
	{"turn", "ms", "device time after which the others come first; 0: none", 0, 10000000000, 0},
	{0},
};

static void push_top(struct latest *l, struct member *m)
{
	m->above = NULL;
	m->below = l->top;
	if (l->top)
		l->top->above = m;
	else
		l->bottom = m;
	l->top = m;
	m->used = 0;
}

static void push_bottom(struct latest *l, struct member *m)
{
	m->below = NULL;
	m->above = l->bottom;
	if (l->bottom)
		l->bottom->below = m;
	else
		l->top = m;
	l->bottom = m;
	m->used = 0;
}

static void take_out(struct latest *l, struct member *m)
{
	if (m->above)
		m->above->below = m->below;
	else
		l->top = m->below;
	if (m->below)
		m->below->above = m->above;
	else
		l->bottom = m->above;
}

static int latest_init(void *state, const int64_t *values)
{
	((struct latest *)state)->turn = (uint64_t)values[0];
	return 0;
}

static int latest_join(void *state, struct fm_policy_group *g, uint64_t now)
{
	(void)state, (void)now;
	((struct member *)g->priv)->group = g;
	return 0;
}

static void latest_ready(void *state, struct fm_policy_group *g, uint64_t now)
{
	(void)now;
	push_top(state, g->priv);
}

static void latest_idle(void *state, struct fm_policy_group *g, uint64_t now)
{
	(void)now;
	take_out(state, g->priv);
}

static void latest_charge(void *state, struct fm_policy_group *g, uint64_t ns, uint64_t now)
{
	(void)state, (void)now;
	((struct member *)g->priv)->used += ns;
}

static void latest_decide(void *state, uint64_t now, struct fm_policy_answer *answer)
{
	struct latest *l = state;
	struct member *m = l->top;

	if (!m)
		return;
	if (l->turn && m->used >= l->turn) {
		take_out(l, m);
		push_bottom(l, m);
		m = l->top;
	}
	answer->run[answer->n++] = m->group;
	answer->reason = "became ready last";
	if (l->turn && m->below)
		answer->next = now + (l->turn - m->used);
}

const struct fm_policy fm_policy = {
	.abi = FM_POLICY_ABI,
	.size = sizeof(struct fm_policy),
	.summary = "the group that became ready last runs",
	.settings = settings,
	.state_size = sizeof(struct latest),
	.group_size = sizeof(struct member),
	.init = latest_init,
	.join = latest_join,
	.ready = latest_ready,
	.idle = latest_idle,
	.charge = latest_charge,
	.decide = latest_decide,
};
