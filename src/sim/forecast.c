/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often forecasts come true. At a decision the next turns are forecast. Each time that the
 * device goes to another entity, that should be the next of these turns. A forecast ends when
 * anything but the policy's own decisions happens, when its last turn has come, or when another
 * entity came than was forecast. Then a new forecast is made. There are no turns to forecast where
 * several entities have the device at once or where the device takes turns by itself, and there is
 * no forecast for gangs.
 */
#include "internal.h"

void forecast_over(const struct group *g)
{
	for (uint32_t i = 0; i < g->ents; i++)
		g->ent[i].d->forecast.n = 0;
}

static void foretell(struct device *d)
{
	const struct fm_sforesight f = {.now = d->m->now, .until = FM_NEVER};
	struct forecast *to = &d->forecast;
	int n = fm_sched_dev_forecast(d->sdev, &f, to->turn, FORETOLD);

	to->at = 0;
	to->n = n > 0 ? (unsigned)n : 0;
	if (n == -ENOMEM)
		d->m->rc = n;
	if (d->m->counts && to->n)
		d->result->foretold.turns += to->n - 1; /* the first has come already */
}

/* The device has gone to another entity. next: the turn that was forecast; NULL: no turn was. */
static void compare(struct device *d, const struct fm_sturn *next, const void *first)
{
	struct fm_sim_foretold *f = &d->result->foretold;
	bool right = next && next->data == first;
	uint64_t now = d->m->now;

	if (!right)
		d->forecast.n = 0;
	if (!d->m->counts)
		return;
	f->turns += !next;
	f->right += right;
	f->wrong += !right;
	if (right)
		f->off += now > next->from ? now - next->from : next->from - now;
}

void forecast_decided(struct device *d)
{
	struct forecast *f = &d->forecast;
	struct fm_decision c;

	fm_sched_dev_decision(d->sdev, &c);
	if (c.all || c.chosen != 1) {
		f->n = 0;
		return;
	}
	if (f->n && f->turn[f->at].data != c.first) {
		f->at++;
		compare(d, f->at < f->n ? &f->turn[f->at] : NULL, c.first);
	}
	if (!f->n || (f->at && f->at + 1 == f->n))
		foretell(d);
}
