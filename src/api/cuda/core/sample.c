/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the time from gate to gate: events in front of and behind what is timed. */
#include "base/clock.h"
#include "internal.h"

static bool make_events(struct fm_cu_queue *q, struct fm_cu_sample *s)
{
	if (s->end)
		return true;
	if (q->no_events || !q->cu->event_elapsed || q->cu->event_create(&s->start, 0))
		return false;
	if (!q->cu->event_create(&s->end, 0))
		return true;
	q->cu->event_destroy(s->start);
	q->no_events = true;
	return false;
}

static struct fm_cu_sample *next_sample(struct fm_cu_queue *q)
{
	return &q->sample[(q->sample_head + q->sample_n) % FM_CU_SAMPLES];
}

void fm_cu_sample_end(struct fm_cu_queue *q)
{
	struct fm_cu_sample *s = next_sample(q);

	if (!q->sampling)
		return;
	q->sampling = false;
	q->sample_n++;
	s->span = fm_now() - s->at;
	/* True if all of it was launched before the device began it. */
	s->behind = s->begun && q->cu->event_query(s->start) == FM_CU_ERROR_NOT_READY;
	s->lost = !s->begun || q->cu->event_record(s->end, q->stream);
}

void fm_cu_sample_begin(struct fm_cu_queue *q)
{
	struct fm_cu_sample *s = next_sample(q);

	q->sampling = true;
	s->at = fm_now();
	s->begun = make_events(q, s) && !q->cu->event_record(s->start, q->stream);
}

int fm_cu_sampled(void *hwq, uint64_t *ns, bool *exact)
{
	struct fm_cu_queue *q = hwq;
	struct fm_cu_sample *s = &q->sample[q->sample_head];
	float ms = 0;
	int mode, rc;

	if (!q->sample_n)
		return 0;
	*ns = 0;
	*exact = false;
	if (!s->lost) {
		mode = fm_cu_enter(q->cu);
		rc = q->cu->event_query(s->end);
		if (!rc && !q->cu->event_elapsed(&ms, s->start, s->end))
			*ns = ms > 0 ? (uint64_t)(ms * 1e6f)
				     : 1; /* less than the device's clock can show */
		/* Also exact: it was launched in so little time that the device can have waited
		 * only briefly. */
		*exact = s->behind || 4 * s->span < *ns;
		fm_cu_leave(q->cu, mode);
		if (rc == FM_CU_ERROR_NOT_READY)
			return 0;
	}
	q->sample_head = (q->sample_head + 1) % FM_CU_SAMPLES;
	q->sample_n--;
	return 1;
}

/* The driver keeps an event that is under way until it is reached. */
void fm_cu_sample_close(struct fm_cu_queue *q)
{
	int mode = fm_cu_enter(q->cu);

	for (unsigned i = 0; i < FM_CU_SAMPLES; i++) {
		if (!q->sample[i].end)
			continue;
		q->cu->event_destroy(q->sample[i].start);
		q->cu->event_destroy(q->sample[i].end);
		q->sample[i] = (struct fm_cu_sample){.lost = true};
	}
	q->no_events = true;
	fm_cu_leave(q->cu, mode);
}
