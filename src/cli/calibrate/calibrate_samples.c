/* SPDX-License-Identifier: Apache-2.0 */
/* Turns what the programs noted into what an analysis takes. */
#include "base/util.h"
#include "calibrate.h"
#include "platform/platform.h"
#include <errno.h>
#include <stdlib.h>

static int samples_add(struct samples *s, uint64_t ns)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 1024;
		uint64_t *more = realloc(s->ns, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->ns = more;
		s->cap = cap;
	}
	s->ns[s->n++] = ns;
	return 0;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void samples_sort(struct samples *s)
{
	if (s->n)
		qsort(s->ns, s->n, sizeof(*s->ns), ascending);
}

/* The smallest sample that at least this part of the samples does not exceed. */
uint64_t samples_quantile(const struct samples *s, double q)
{
	size_t i = (size_t)(q * (double)s->n);

	if ((double)i < q * (double)s->n)
		i++;
	return s->n ? s->ns[i ? i - 1 : 0] : 0;
}

void samples_free(struct samples *s)
{
	free(s->ns);
	*s = (struct samples){0};
}

void calibration_free(struct calibration *c)
{
	samples_free(&c->alone);
	samples_free(&c->begin);
	samples_free(&c->go_on);
	samples_free(&c->turn);
	json_decref(c->stop);
	json_decref(c->react);
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* The program may still be writing: what it has published is complete. */
static uint32_t noted(const struct calibrate_page *page)
{
	uint32_t n = atomic_load_explicit(&page->notes, memory_order_acquire);

	return FM_MIN(n, NOTES);
}

int calibrate_alone(struct calibration *c, const struct calibrate_page *sporadic)
{
	int rc = 0;

	for (uint32_t i = 0, n = noted(sporadic); !rc && i < n; i++)
		rc = samples_add(&c->alone, sporadic->note[i].end - sporadic->note[i].begin);
	samples_sort(&c->alone);
	return rc;
}

/* go_on: how long after the end of a sporadic command the next busy command ends, beyond its own
 * length. If another sporadic command came in between, its time is included: the value may be too
 * long, but never too short. */
int calibrate_together(struct calibration *c, const struct calibrate_page *busy,
	const struct calibrate_page *sporadic, uint32_t from)
{
	uint64_t least = samples_quantile(&c->alone, 0);
	uint32_t n = noted(sporadic), m = noted(busy), next = 0;
	int rc = 0;

	for (uint32_t i = from; !rc && i < n; i++) {
		uint64_t end = sporadic->note[i].end;

		rc = samples_add(&c->begin, beyond(end - sporadic->note[i].begin, least));
		while (next < m && busy->note[next].end <= end)
			next++;
		if (!rc && next < m)
			rc = samples_add(
				&c->go_on, beyond(busy->note[next].end - end, c->command_ns));
	}
	samples_sort(&c->begin);
	samples_sort(&c->go_on);
	return rc;
}

/* Time per command from note `from` to `to`. */
static double per_command(const struct calibrate_page *page, uint32_t from, uint32_t to)
{
	return to > from + 1 ? (double)(page->note[to - 1].end - page->note[from].end) /
				       (double)(to - from - 1)
			     : 0;
}

/* Two programs without Fermata. A program's wait for the other's turn is a pause between the ends
 * of two of its commands, beyond the length of a command when the program is alone. */
int calibrate_native(struct calibration *c, struct calibrate_page *const page[2],
	const uint32_t alone[2], const uint32_t both[2])
{
	double e1 = per_command(page[0], alone[0], alone[1]), e2[2];
	int rc = 0;

	for (unsigned k = 0; k < 2; k++) {
		uint32_t n = noted(page[k]);

		e2[k] = per_command(page[k], both[k], n);
		for (uint32_t i = both[k] + 1; !rc && i < n; i++) {
			uint64_t pause = page[k]->note[i].end - page[k]->note[i - 1].end;

			if ((double)pause > 1.5 * e1)
				rc = samples_add(&c->turn, pause - (uint64_t)e1);
		}
	}
	samples_sort(&c->turn);
	if (e1 > 0 && e2[0] > 0 && e2[1] > 0) /* the time of one of each, to twice that of one */
		c->slowdown = 2 / (e1 / e2[0] + e1 / e2[1]) / 2 - 1;
	return rc;
}

static int64_t with_margin(uint64_t ns)
{
	uint64_t v = ns + ns / 100 * CALIBRATE_MARGIN + CALIBRATE_MARGIN;

	return (int64_t)FM_MIN(v, (uint64_t)FM_PLATFORM_MAX);
}

/* A decision may be longer where a job was released meanwhile: the longest of both counts. */
int calibrate_set_row(struct set_row *row, const struct calibrate_page *page)
{
	uint32_t n = 0;
	int rc = 0;

	for (unsigned k = 0; k < SETS_PHASES; k++) {
		for (; !rc && n < FM_MIN(page->phase[k], noted(page)); n++)
			rc = samples_add(&row->of[k], page->note[n].end);
		samples_sort(&row->of[k]);
	}
	row->start = with_margin(samples_quantile(&row->of[SETS_START], 1));
	row->decision = with_margin(FM_MAX(samples_quantile(&row->of[SETS_DECISION], 1),
		samples_quantile(&row->of[SETS_PREEMPTION], 1)));
	return rc;
}

void calibrate_conclude(struct calibration *c)
{
	uint64_t update = FM_MAX(samples_quantile(&c->begin, 1), samples_quantile(&c->go_on, 1));
	double theta;

	c->epsilon = c->slice = c->theta = FM_PLATFORM_UNSET;
	if (c->begin.n && c->go_on.n)
		c->epsilon = FM_MIN(2 * with_margin(update), FM_PLATFORM_MAX);
	if (!c->turn.n || c->slowdown < CALIBRATE_NO_SLOWDOWN)
		return;
	c->slice = with_margin(samples_quantile(&c->turn, 1));
	/* Counted twice, since the analysis leaves out the switch back to the task itself. */
	theta = c->slowdown > 0 ? 2 * c->slowdown * (double)c->slice : 0;
	c->theta = with_margin((uint64_t)FM_MIN(theta, (double)FM_PLATFORM_MAX));
}
