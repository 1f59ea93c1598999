/* SPDX-License-Identifier: Apache-2.0 */
/* A program that launches, beside a scheduler that stops it, in an order that is drawn. */
#pragma once
#include "guard_world.h"

static inline void any_program(uint64_t seed, unsigned whole)
{
	start(seed);
	make();
	p.whole = whole;
	for (unsigned i = 0; i < 2000; i++) {
		switch (draw(16)) {
		case 0:
			set_gate(!p.closed);
			break;
		case 1:
			put_gate();
			break;
		case 2:
			cover();
			break;
		case 3:
			if (fm_cu_guard_uncovered(p.q.guard) && p.closed)
				assert_int_equal(
					ops->device_gate.write_fence(&p.q, &words, p.counted), 0);
			break;
		case 4:
		case 5:
			launch();
			break;
		case 6:
			pump();
			break;
		case 7:
			if (!draw(4))
				put_wait();
			break;
		case 8:
			give();
			break;
		default:
			advance_any(draw(8));
		}
	}
	finish();
	assert_exact();
}

/* A stop, and what comes of it, in which the driver fails from that call on: it ends all the same.
 */
static inline void stop_failing(unsigned at)
{
	dev.fails_at = dev.calls + at;
	set_gate(true);
	for (unsigned i = 0; i < 20; i++) {
		pump();
		advance_any(20);
	}
	set_gate(false);
	for (unsigned i = 0; i < 1000 && ops->guardian.stopped(&p.q); i++) {
		pump();
		advance_any(20);
	}
	assert_false(ops->guardian.stopped(&p.q));
	assert_int_equal(p.q.guard->shared->hold, 0);
	dev.fails_at = 0;
}
