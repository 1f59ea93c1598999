/* SPDX-License-Identifier: Apache-2.0 */
/* How late the core looks when it waits for a time. This is measured at the end of the linger of a
 * group that has gone idle.
 */
#include "base/clock.h"
#include "recorded_state.h"

static struct claim *claim_of(struct reading *x, uint32_t device)
{
	for (uint32_t i = 0; i < x->r->devices; i++)
		if (x->r->device[i].id == device)
			return &x->claim[i];
	return NULL;
}

/* An older trace does not record the linger of each group, but then one linger holds for all. */
static uint64_t keeps(const struct reading *x, const struct fm_trace_rec *rec)
{
	if (rec->arg[2] || x->r->linger == FM_LINGER_AUTO)
		return FM_MIN(rec->arg[2], FM_S);
	return x->r->linger;
}

/* A group that goes idle keeps the device for the linger, unless an earlier event ends that. */
void claim_begin(struct reading *x, const struct member *m, const struct fm_trace_rec *rec)
{
	struct claim *c = m->works && m->open ? claim_of(x, rec->device) : NULL;

	if (c)
		*c = (struct claim){
			.member = (uint32_t)(m - x->member), .at = rec->at, .keeps = keeps(x, rec)};
}

void claim_kept(struct reading *x, const struct member *m, uint32_t device)
{
	struct claim *c = claim_of(x, device);

	if (c && c->member == (uint32_t)(m - x->member))
		c->at = 0;
}

void claim_ends(struct reading *x, const struct fm_trace_rec *rec)
{
	struct claim *c = claim_of(x, rec->device);
	uint64_t until;

	if (!c || !c->at)
		return;
	until = fm_add_sat(c->at, c->keeps);
	if (c->keeps && rec->at > until)
		job_sample(&x->r->late, &x->r->n_late, FM_MIN(rec->at - until, FM_S));
	c->at = 0;
}
