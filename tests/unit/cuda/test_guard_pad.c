// SPDX-License-Identifier: Apache-2.0
/* A queue that is stopped goes on in a pad: each block runs once, whatever comes when. */
#include "../rounds.h"
#include "board/board.h"
#include "guard_program.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

#define K 16u

enum { CONTROL = 1, AGAIN, PAD }; /* streams of ours, in the order in which they are made */

static struct {
	unsigned greens;   /* made */
	int fails;         /* with this, */
	unsigned fails_at; /* each of this size; 0: all */
	_Atomic bool waits;
	bool asks; /* as the queue's slot says */
	unsigned padded, alone, passed;
} t;

static int make_green(CUcontext base, unsigned k, CUgreenCtx *green, unsigned *all)
{
	if (t.fails && (!t.fails_at || t.fails_at == k))
		return t.fails;
	while (atomic_load(&t.waits))
		usleep(100);
	t.greens++;
	*green = (CUgreenCtx)48;
	*all = 132;
	return 0;
}

static const char *prepare_once(unsigned k)
{
	const char *why = NULL;
	int rc = ops->guardian.pad_ready(&p.q, k, false, &why);

	assert_true(why ? rc < 0 : rc == (int)k);
	return why;
}

/* On how many, where fewer will do. */
static unsigned prepare_fewer(unsigned k)
{
	const char *why = NULL;
	int rc;

	for (unsigned i = 0; (rc = ops->guardian.pad_ready(&p.q, k, true, &why)) == -EAGAIN; i++) {
		assert_true(i < 100000);
		usleep(100);
	}
	return rc < 0 ? 0 : (unsigned)rc;
}

static void make_ahead(unsigned most)
{
	for (unsigned i = 0; ops->guardian.pad_ahead(&p.q, most); i++) {
		assert_true(i < 100000);
		usleep(100);
	}
}

/* A thread makes it meanwhile. */
static const char *prepare(unsigned k)
{
	const char *why = prepare_once(k);

	for (unsigned i = 0; why && !strcmp(why, "not ready yet"); i++) {
		assert_true(i < 100000);
		usleep(100);
		why = prepare_once(k);
	}
	return why;
}

static void begin(uint64_t seed)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", true);
	memset(&t, 0, sizeof(t));
	words.pads = true;
	start(seed);
	p.q.pad_green = make_green;
	make();
	assert_null(prepare(K));
	assert_int_equal(dev.streams, PAD + 1);
}

static bool is_pads(void)
{
	return atomic_load(&board.words.gate) == FM_GATE_PADS;
}

/* As an XQueue does. */
static int pump_pad(void)
{
	unsigned before = dev.stream[PAD].n;
	int rc;

	if (!p.closed || !is_pads()) {
		if (!p.closed)
			t.asks = false;
		rc = pump();
		t.asks = p.closed && ops->guardian.stopped(&p.q) && (!rc || rc == -EALREADY);
		return rc;
	}
	rc = ops->guardian.pad(&p.q, K);
	t.padded += dev.stream[PAD].n - before;
	t.passed += p.q.guard->stage == FM_CU_ARMING;
	return rc;
}

/* The scheduler lets it pad, if it asks for that. */
static void let_pad(void)
{
	if (p.closed && t.asks)
		atomic_store(&board.words.gate, FM_GATE_PADS);
}

static bool all_ran(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (dev.runs[i] != p.kernels)
			return false;
	return true;
}

static void stop_it(void)
{
	set_gate(true);
	for (unsigned i = 0; !t.asks; i++) {
		pump_pad();
		advance_any(2);
		assert_true(i < 10000);
	}
}

static void advance_as_far_as_it_goes(void)
{
	for (unsigned i = 0; i < 20; i++)
		advance(&dev.stream[0]);
}

/* A gate waits for memory in front of the gate word, and says that it stands before either: what
 * closes while it waits for memory is closed. Whether it looks at the lowest bit of the gate word
 * is of no consequence for its wait for memory. */
static void waits_for_memory_first(uint32_t number)
{
	words.memory = &board.words.memory;
	words.number = number;
	atomic_store(words.memory, number - 1);
	put_gate();
	advance_as_far_as_it_goes();
	assert_true(atomic_load(&board.words.progress) & 1);
	atomic_store(&board.words.gate, FM_GATE_CLOSED);
	atomic_store(words.memory, number + 3);
	advance_as_far_as_it_goes();
	assert_true(atomic_load(&board.words.progress) & 1);
	assert_false(empty(&dev.stream[0]));
	atomic_store(&board.words.gate, FM_GATE_OPEN);
	advance_as_far_as_it_goes();
	assert_false(atomic_load(&board.words.progress) & 1);
	assert_true(empty(&dev.stream[0]));
	words.memory = NULL;
}

static void test_waits_for_memory_in_front_of_the_gate(void **state)
{
	for (unsigned pads = 0; pads < 2; pads++)
		for (uint32_t number = UINT32_MAX - 2; number != 3; number++) {
			if (pads) {
				begin(1);
			} else {
				words.pads = false;
				start(1);
				make();
			}
			waits_for_memory_first(number);
			stop();
		}
	words.pads = true;
	/* One that cannot be stopped in the middle. */
	start(1);
	p.q.guarded = false;
	assert_int_equal(ops->levels(&p.q), 1u << 1 | 1u << 2);
	waits_for_memory_first(7);
	p.q.ctx_ends = true;
	ops->close(&p.q);
	end_context();
	ops->release(&p.q, false);
}

/* It runs where no gate is open: what was left out, and all that is behind. */
static void test_goes_on_in_the_pad(void **state)
{
	begin(1);
	for (unsigned i = 0; i < 12; i++) {
		launch();
		if (i % 3 == 2)
			put_gate();
	}
	for (unsigned i = 0; i < 3; i++)
		assert_true(advance(&dev.stream[0]));
	stop_it();
	let_pad();
	for (unsigned i = 0; !all_ran(); i++) {
		assert_int_equal(pump_pad(), -EINPROGRESS);
		advance_any(5);
		assert_true(i < 10000);
	}
	assert_true(t.passed >= 2);
	assert_int_equal(dev.stream[AGAIN].n, 0);
	finish();
	assert_exact();
	stop();
}

/* The gate opens meanwhile: the rest runs on the whole device. */
static void test_moves_back(void **state)
{
	begin(2);
	launch();
	launch();
	put_gate();
	for (unsigned i = 0; i < 2; i++)
		assert_true(advance(&dev.stream[0]));
	stop_it();
	let_pad();
	while (empty(&dev.stream[PAD]))
		assert_int_equal(pump_pad(), -EINPROGRESS);
	advance(&dev.stream[PAD]);
	advance(&dev.stream[PAD]);
	finish();
	assert_true(dev.stream[AGAIN].n > 0);
	assert_exact();
	stop();
}

/* A wait of the stream behind the gate: it does not come there before it may run. */
static void test_stands_in_front_of_what_is_heavy(void **state)
{
	begin(3);
	launch();
	put_gate();
	launch();
	cover();
	assert_false(fm_cu_guard_heavy(p.q.guard));
	put_wait_op();
	p.unmarked = true;
	launch();
	put_gate();
	advance(&dev.stream[0]);
	stop_it();
	let_pad();
	for (unsigned i = 0; i < 2000; i++) {
		pump_pad();
		advance_any(5);
		assert_false(awaits_program());
	}
	assert_int_equal(dev.runs[0], 2);
	finish();
	assert_exact();
	stop();
}

/* It has been let past its last gate: whoever puts something heavy then has to put a gate first. */
static void test_needs_a_gate_first(void **state)
{
	begin(4);
	launch();
	put_gate();
	advance(&dev.stream[0]);
	stop_it();
	let_pad();
	for (unsigned i = 0; !atomic_load(&p.q.guard->let); i++) {
		pump_pad();
		advance_any(5);
		assert_true(i < 10000);
	}
	assert_true(fm_cu_guard_heavy(p.q.guard));
	put_gate();
	while (fm_cu_guard_heavy(p.q.guard))
		put_gate();
	put_wait_op();
	p.unmarked = true;
	for (unsigned i = 0; i < 2000; i++) {
		pump_pad();
		advance_any(5);
		assert_false(awaits_program());
	}
	finish();
	assert_exact();
	stop();
}

static sem_t freed;

static void *frees_memory(void *turnstile)
{
	assert_true(fm_cu_wait_begin(turnstile, FM_NEVER));
	sem_wait(&freed);
	fm_cu_wait_end(turnstile);
	return NULL;
}

/* A call that waits for nothing to be stopped ends it, and it does not begin anew. */
static void test_ends_for_a_call(void **state)
{
	struct fm_cu_turnstile *turnstile;
	pthread_t thread;

	begin(5);
	turnstile = p.q.guard->turnstile;
	for (unsigned i = 0; i < 4; i++)
		launch();
	put_gate();
	advance(&dev.stream[0]);
	stop_it();
	let_pad();
	while (empty(&dev.stream[PAD]))
		assert_int_equal(pump_pad(), -EINPROGRESS);
	assert_false(fm_cu_awaited(turnstile));
	sem_init(&freed, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, frees_memory, turnstile), 0);
	while (!fm_cu_awaited(turnstile))
		sched_yield();
	for (unsigned i = 0; pump_pad(); i++) {
		advance_any(3);
		assert_true(i < 10000);
	}
	assert_null(p.q.guard->pad);
	assert_true(empty(&dev.stream[PAD]));
	assert_false(all_ran());
	assert_int_equal(pump_pad(), 0);
	sem_post(&freed);
	finish();
	assert_int_equal(pthread_join(thread, NULL), 0);
	sem_destroy(&freed);
	assert_exact();
	stop();
}

/* As the agent does for a queue that was told to stop and has no gate to come to. */
static void fence_if_asked(void)
{
	if (ops->guardian.unfenced(&p.q))
		assert_int_equal(ops->device_gate.write_fence(&p.q, &words, p.counted), 0);
}

/* Its gate is closed: whatever it was doing, it comes to stand. */
static void comes_to_stand(void)
{
	while (p.given < p.asked)
		give();
	for (unsigned i = 0; !empty(&dev.stream[0]); i++) {
		int rc = pump_pad();

		if (rc != -EINPROGRESS && rc != -EAGAIN && atomic_load(&board.words.progress) & 1)
			break;
		fence_if_asked();
		advance_any(5);
		assert_true(i < 20000);
	}
}

static void let_past_first(void)
{
	stop_it();
	let_pad();
	dev.halted = true;
	for (unsigned i = 0; p.q.guard->shared->limit != 1; i++) {
		pump_pad();
		advance(&dev.stream[CONTROL]);
		advance(&dev.stream[PAD]);
		assert_true(i < 10000);
	}
	dev.halted = false;
}

/* It is let past its gate, by the guard and the gate word, and the device has not seen it yet. */
static void is_let(void)
{
	launch();
	launch();
	put_gate();
	launch();
	put_gate();
	advance(&dev.stream[0]);
	let_past_first();
	assert_int_equal(p.q.guard->stage, FM_CU_STOPPING);
	assert_false(atomic_load(&board.words.progress) & 1);
	set_gate(true);
}

/* The gate closes before the device has gone past it. The queue stands, and gives the pad back. */
static void test_closed_before_it_goes_past(void **state)
{
	for (unsigned how = 0; how < 3; how++) {
		begin(13);
		is_let();
		if (how == 2) /* and some time passes before the agent looks */
			advance_as_far_as_it_goes();
		assert_int_equal(pump_pad(), -EALREADY);
		assert_true(atomic_load(&board.words.progress) & 1);
		assert_null(p.q.guard->pad);
		assert_true(t.asks);
		advance_as_far_as_it_goes();
		assert_int_equal(pump_pad(), -EALREADY);
		assert_int_equal(dev.runs[0], 2);
		let_pad();
		for (unsigned i = 0; how && !all_ran(); i++) {
			assert_int_equal(pump_pad(), -EINPROGRESS);
			advance_any(5);
			assert_true(i < 10000);
		}
		assert_int_equal(!how, !all_ran());
		finish();
		assert_exact();
		stop();
	}
}

/* It closes just after the device has gone past: the queue comes to the next gate. */
static void test_closed_after_it_went_past(void **state)
{
	begin(14);
	is_let();
	atomic_store(&board.words.gate, FM_GATE_PADS);
	for (unsigned i = 0; i < 3; i++) /* the gate word, the limit, its progress */
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump_pad(), -EINPROGRESS);
	comes_to_stand();
	assert_int_equal(p.q.guard->stage, FM_CU_PARKED);
	assert_int_equal(dev.runs[0], 2);
	finish();
	assert_exact();
	stop();
}

/* The same where nothing was launched in front of the gate: the queue does not say that it stands
 * there, since what is behind the gate may be under way. */
static void test_closed_after_it_went_past_an_empty_gate(void **state)
{
	begin(16);
	launch();
	put_gate();
	advance_as_far_as_it_goes();
	assert_true(empty(&dev.stream[0]));
	set_gate(true);
	put_gate();
	advance(&dev.stream[0]);
	launch();
	put_gate();
	stop_it();
	let_pad();
	dev.halted = true;
	for (unsigned i = 0; p.q.guard->shared->limit != 2; i++) {
		pump_pad();
		advance(&dev.stream[CONTROL]);
		assert_true(i < 10000);
	}
	dev.halted = false;
	assert_false(atomic_load(&board.words.progress) & 1);
	for (unsigned i = 0; i < 3; i++) /* the gate word, the limit, its progress */
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump_pad(), -EINPROGRESS);
	assert_false(atomic_load(&board.words.progress) & 1);
	comes_to_stand();
	assert_int_equal(p.q.guard->stage, FM_CU_PARKED);
	finish();
	assert_exact();
	stop();
}

static void held_as_it_goes_past(void)
{
	while (!(atomic_load(&board.words.progress) & 1))
		assert_true(advance(&dev.stream[0]));
	set_gate(false);
	for (unsigned i = 0; i < 2; i++) /* the gate word, the limit */
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_true(atomic_load(&board.words.progress) & 1);
	pump_pad();
	assert_true(ops->guardian.stopped(&p.q));
	advance(&dev.stream[0]);
	assert_false(atomic_load(&board.words.progress) & 1);
}

/* It is held where it is just going past its last gate. There is nothing to stop then, and no call
 * of the program waits. */
static void test_held_as_it_goes_past_the_last_gate(void **state)
{
	for (unsigned opens = 0; opens < 2; opens++) {
		begin(17);
		launch();
		put_gate();
		set_gate(true);
		held_as_it_goes_past();
		assert_true(empty(&dev.stream[0]));
		assert_false(ops->guardian.unfenced(&p.q));
		set_gate(!opens);
		for (unsigned i = 0; i < 10; i++) {
			pump_pad();
			advance(&dev.stream[CONTROL]);
		}
		assert_false(ops->guardian.stopped(&p.q));
		finish();
		assert_exact();
		stop();
	}
}

/* What is behind that gate is stopped all the same. */
static void test_held_as_it_goes_past_a_gate(void **state)
{
	begin(18);
	launch();
	put_gate();
	launch();
	put_gate();
	set_gate(true);
	held_as_it_goes_past();
	for (unsigned i = 0; !p.q.guard->stop; i++) {
		pump_pad();
		advance(&dev.stream[CONTROL]);
		assert_true(i < 100);
	}
	comes_to_stand();
	finish();
	assert_exact();
	stop();
}

/* The same at the last gate: one is put behind it when it goes on. */
static void test_closed_at_its_last_gate(void **state)
{
	begin(15);
	launch();
	put_gate();
	advance(&dev.stream[0]);
	let_past_first();
	set_gate(true);
	assert_int_equal(pump_pad(), -EALREADY);
	set_gate(false);
	for (unsigned i = 0; ops->guardian.stopped(&p.q); i++) {
		pump_pad();
		fence_if_asked();
		advance_any(5);
		assert_true(i < 10000);
	}
	finish();
	assert_exact();
	stop();
}

/* It closes there while the device is just going past, and seemed to stand. There is nothing behind
 * that gate but the one that it asks for, whether its gate stays closed or opens. */
static void test_closed_as_it_goes_past_its_last_gate(void **state)
{
	for (unsigned opens = 0; opens < 2; opens++) {
		begin(16);
		launch();
		put_gate();
		advance(&dev.stream[0]);
		let_past_first();
		for (unsigned i = 0; i < 2; i++) /* the gate word, the limit */
			assert_true(advance(&dev.stream[0]));
		set_gate(true);
		assert_int_equal(pump_pad(), -EALREADY);
		assert_true(advance(&dev.stream[0])); /* its progress */
		assert_true(empty(&dev.stream[0]));
		if (opens)
			set_gate(false);
		for (unsigned i = 0;
			opens ? ops->guardian.stopped(&p.q) : p.q.guard->stage != FM_CU_PARKED;
			i++) {
			pump_pad();
			fence_if_asked();
			advance_any(5);
			assert_true(i < 10000);
		}
		finish();
		assert_exact();
		stop();
	}
}

static void any_step(void)
{
	switch (draw(18)) {
	case 0:
		set_gate(!p.closed);
		break;
	case 1:
	case 2:
		let_pad();
		break;
	case 3:
		put_gate();
		break;
	case 4:
		cover();
		break;
	case 5:
		if (p.closed && (fm_cu_guard_uncovered(p.q.guard) || draw(2)))
			assert_int_equal(ops->device_gate.write_fence(&p.q, &words, p.counted), 0);
		break;
	case 6:
	case 7:
		launch();
		break;
	case 8:
	case 9:
	case 10:
		pump_pad();
		break;
	case 11:
		if (draw(4))
			break;
		cover();
		while (fm_cu_guard_heavy(p.q.guard))
			put_gate();
		put_wait();
		break;
	case 12:
		give();
		break;
	case 13: /* by hand: whatever it does, it stands there */
		if (is_pads() && !draw(4)) {
			set_gate(true);
			comes_to_stand();
		}
		break;
	default:
		advance_any(draw(8));
	}
}

static void any_order(unsigned takes)
{
	unsigned padded = 0, passed = 0, seeds = rounds(100, 400);

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		begin(seed);
		dev.pad_takes = takes;
		p.whole = seed % 3 ? (unsigned)(seed % 5) : 0;
		for (unsigned i = 0; i < 2000; i++)
			any_step();
		finish();
		assert_exact();
		padded += t.padded;
		passed += t.passed;
		stop();
	}
	dev.pad_takes = 0;
	assert_true(padded > seeds);
	assert_true(passed > seeds / 4);
}

static void test_any_order_is_exact(void **state)
{
	any_order(0);
}

/* What the pad refuses runs elsewhere. */
static void test_refused_in_the_pad(void **state)
{
	any_order(5);
}

/* The driver fails from some call on: all the same nothing stays stopped, or is held. */
static void test_fails_open(void **state)
{
	for (unsigned at = 1; at <= 60; at++) {
		begin(at);
		for (unsigned i = 0; i < 9; i++) {
			launch();
			if (i % 3 == 2)
				put_gate();
		}
		advance(&dev.stream[0]);
		dev.fails_at = dev.calls + at;
		set_gate(true);
		for (unsigned i = 0; i < 40; i++) {
			pump_pad();
			let_pad();
			advance_any(20);
		}
		set_gate(false);
		for (unsigned i = 0; i < 1000 && ops->guardian.stopped(&p.q); i++) {
			pump_pad();
			advance_any(20);
		}
		assert_false(ops->guardian.stopped(&p.q));
		assert_null(p.q.guard->pad);
		assert_int_equal(p.q.guard->shared->hold, 0);
		assert_true(p.q.guard->shared->limit == FM_CU_NO_LIMIT);
		dev.fails_at = 0;
		stop();
	}
}

static void test_reasons(void **state)
{
	struct fm_cu_guard *g;

	begin(6);
	g = p.q.guard;
	assert_null(prepare(0));
	assert_int_equal(fm_cu_pads(), 0);
	assert_int_equal(dev.destroyed, 1);
	assert_string_equal(prepare(12), "number of multiprocessors");
	assert_string_equal(prepare(72), "number of multiprocessors");
	t.fails = -ENOSPC;
	assert_string_equal(prepare(64), "number of multiprocessors");
	t.fails = -EOPNOTSUPP;
	assert_string_equal(prepare(32), "no green contexts");
	t.fails = 0;
	assert_string_equal(prepare(32), "no green contexts"); /* it is not asked again */
	assert_null(prepare(24));
	assert_int_equal(ops->guardian.pad_of(&p.q), 132);
	assert_true(fm_cu_stop_begin(g->turnstile));
	assert_string_equal(prepare_once(8), "not ready yet");
	fm_cu_stop_end(g->turnstile);
	dev.no_green = true;
	assert_string_equal(prepare(8), "the driver fails");
	dev.no_green = false;
	assert_null(prepare(K));
	finish();
	stop();
	assert_int_equal(fm_cu_pads(), 0);
}

/* The driver makes a green context only when the gate is open, and the one who would open it asks.
 */
static void test_the_driver_waits(void **state)
{
	unsigned destroyed = dev.greens_destroyed;

	begin(13);
	atomic_store(&t.waits, true);
	for (unsigned i = 0; i < 20; i++) {
		assert_string_equal(prepare_once(24), "not ready yet");
		usleep(1000);
	}
	atomic_store(&t.waits, false);
	assert_null(prepare(24));
	assert_int_equal(t.greens, 2);
	atomic_store(&t.waits, true);
	assert_string_equal(prepare_once(32), "not ready yet");
	atomic_store(&t.waits, false);
	fm_cu_context_ends(p.q.cu, p.q.base);
	assert_int_equal(t.greens, 3);
	assert_int_equal(dev.greens_destroyed - destroyed, 3);
	assert_int_equal(fm_cu_pads(), 0);
	finish();
	stop();
}

/* It does not come back for longer than its context's end waits. That goes on; should the context
 * stay, its next end takes what was made after all. */
static void test_the_driver_stays_away(void **state)
{
	unsigned destroyed = dev.greens_destroyed;

	begin(21);
	atomic_store(&t.waits, true);
	assert_string_equal(prepare_once(24), "not ready yet");
	fm_cu_context_ends(p.q.cu, p.q.base);
	assert_true(fm_cu_pads_making(p.q.base));
	assert_int_equal(dev.greens_destroyed, destroyed);
	atomic_store(&t.waits, false);
	for (unsigned i = 0; fm_cu_pads_making(p.q.base); i++) {
		assert_true(i < 100000);
		usleep(100);
	}
	fm_cu_context_ends(p.q.cu, p.q.base);
	assert_int_equal(t.greens, 2);
	assert_int_equal(dev.greens_destroyed - destroyed, 2);
	assert_int_equal(fm_cu_pads(), 0);
	finish();
	stop();
}

/* Each size is made once, whatever comes then, and none while something is stopped. */
static void test_all_sizes_ahead(void **state)
{
	unsigned destroyed = dev.greens_destroyed;

	begin(19);
	assert_int_equal(t.greens, 1);
	assert_true(fm_cu_stop_begin(p.q.guard->turnstile));
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(ops->guardian.pad_ahead(&p.q, 64), -EAGAIN);
		usleep(100);
	}
	assert_int_equal(t.greens, 1);
	fm_cu_stop_end(p.q.guard->turnstile);
	make_ahead(64);
	assert_int_equal(t.greens, 8);
	make_ahead(64);
	assert_null(prepare(64));
	assert_int_equal(prepare_fewer(8), 8);
	assert_int_equal(t.greens, 8);
	assert_int_equal(fm_cu_pads(), 1);
	fm_cu_pads_renew((CUcontext)8); /* of other multiprocessors then */
	make_ahead(16);
	assert_int_equal(t.greens, 10);
	assert_int_equal(dev.greens_destroyed - destroyed, 8);
	assert_null(prepare(K));
	fm_cu_context_ends(p.q.cu, p.q.base);
	assert_int_equal(dev.greens_destroyed - destroyed, 10);
	/* Nothing keeps the context from its end now. */
	make_ahead(64);
	assert_string_equal(prepare(K), "the driver fails");
	assert_int_equal(t.greens, 10);
	fm_cu_context_stays(p.q.base); /* it was refused for another reason */
	assert_null(prepare(K));
	assert_int_equal(t.greens, 11);
	fm_cu_context_ends(p.q.cu, p.q.base);
	assert_int_equal(dev.greens_destroyed - destroyed, 11);
	finish();
	stop();
	assert_int_equal(fm_cu_pads(), 0);
}

/* The agent goes on while the driver waits, and what comes meanwhile is made then. */
static void test_waits_ahead(void **state)
{
	begin(20);
	atomic_store(&t.waits, true);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(ops->guardian.pad_ahead(&p.q, 24), -EAGAIN);
		assert_string_equal(prepare_once(24), "not ready yet");
		usleep(1000);
	}
	assert_int_equal(t.greens, 1);
	atomic_store(&t.waits, false);
	assert_null(prepare(24));
	make_ahead(24);
	assert_int_equal(t.greens, 3);
	finish();
	stop();
}

/* A size of which there can be none: the others serve. */
static void test_the_others_serve(void **state)
{
	begin(21);
	t.fails = -EIO;
	t.fails_at = 32;
	make_ahead(64);
	assert_int_equal(t.greens, 7);
	assert_int_equal(prepare_fewer(32), 24);
	assert_int_equal(prepare_fewer(40), 40);
	assert_string_equal(prepare(32), "the driver fails");
	assert_int_equal(t.greens, 7);
	finish();
	stop();
	/* A smaller device has none of the larger sizes, which are not asked for one by one. */
	begin(22);
	t.fails = -ENOSPC;
	t.fails_at = 24;
	make_ahead(64);
	assert_int_equal(t.greens, 2);
	assert_int_equal(prepare_fewer(64), 16);
	finish();
	stop();
	/* There are none at all. */
	begin(23);
	t.fails = -EOPNOTSUPP;
	t.fails_at = 0;
	make_ahead(64);
	assert_int_equal(t.greens, 1);
	assert_int_equal(prepare_fewer(8), 0);
	assert_int_equal(prepare_fewer(64), 16);
	finish();
	stop();
}

/* One queue at a time. */
static void test_one_at_a_time(void **state)
{
	struct fm_cu_guard other = {.ctx = (CUcontext)8};

	begin(7);
	assert_int_equal(fm_cu_pad_take(&other, K), FM_CU_PAD_OK);
	assert_int_equal(fm_cu_pad_take(p.q.guard, K), FM_CU_PAD_BUSY);
	launch();
	put_gate();
	advance(&dev.stream[0]);
	stop_it();
	let_pad();
	assert_int_equal(pump_pad(), -EBUSY);
	assert_int_equal(dev.stream[PAD].n, 0);
	fm_cu_pad_put(&other);
	assert_int_equal(fm_cu_pad_take(&other, K + 8), FM_CU_PAD_LATER);
	assert_int_equal(pump_pad(), -EINPROGRESS);
	assert_int_equal(fm_cu_pad_take(&other, K), FM_CU_PAD_BUSY);
	finish();
	assert_exact();
	stop();
}

/* A guard whose context has ended gives nothing back that is another's by now. */
static void test_what_is_anothers_stays(void **state)
{
	struct fm_cu_guard gone = {.ctx = (CUcontext)8}, other = {.ctx = (CUcontext)8};

	begin(11);
	assert_int_equal(fm_cu_pad_take(&gone, K), FM_CU_PAD_OK);
	fm_cu_pads_forget((CUcontext)8);
	assert_null(prepare(K));
	assert_int_equal(fm_cu_pad_take(&other, K), FM_CU_PAD_OK);
	fm_cu_pad_put(&gone);
	assert_int_equal(fm_cu_pad_take(p.q.guard, K), FM_CU_PAD_BUSY);
	fm_cu_pad_put(&other);
	finish();
	stop();
}

/* Others get its multiprocessors while it pads: it ends, and there is another pad then. */
static void test_is_made_of_what_is_left(void **state)
{
	unsigned before, destroyed = dev.greens_destroyed;

	begin(12);
	for (unsigned i = 0; i < 4; i++)
		launch();
	put_gate();
	advance(&dev.stream[0]);
	stop_it();
	let_pad();
	while (empty(&dev.stream[PAD]))
		assert_int_equal(pump_pad(), -EINPROGRESS);
	fm_cu_pads_renew((CUcontext)8);
	for (unsigned i = 0; p.q.guard->pad; i++) {
		pump_pad();
		advance_any(3);
		assert_true(i < 10000);
	}
	before = dev.stream[PAD].n;
	assert_int_equal(pump_pad(), -ESTALE);
	assert_int_equal(dev.stream[PAD].n, before);
	assert_string_equal(prepare_once(K), "not ready yet");
	finish();
	assert_int_equal(t.greens, 1);
	assert_null(prepare(K));
	assert_int_equal(t.greens, 2);
	assert_int_equal(dev.greens_destroyed - destroyed, 1);
	assert_int_equal(fm_cu_pads(), 1);
	assert_exact();
	stop();
}

/* With few channels there is none for a pad, and each pad takes one. */
static void test_channels(void **state)
{
	unsigned most = 0;

	begin(8);
	while (fm_cu_channels_left(most + 1))
		most++;
	assert_null(prepare(0));
	assert_true(fm_cu_channels_left(most + 1));
	finish();
	stop();
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", true);
	start(9);
	p.q.pad_green = make_green;
	make();
	assert_string_equal(prepare(K), "fewer than 16 channels");
	finish();
	stop();
}

/* A driver that does not know such gates gets ordinary ones. */
static void test_gates_are_refused(void **state)
{
	begin(10);
	dev.no_wide = true;
	launch();
	put_gate();
	assert_string_equal(prepare(K), "gates refused by the driver");
	advance(&dev.stream[0]);
	set_gate(true);
	while (pump() == -EINPROGRESS)
		advance_any(2);
	finish();
	dev.no_wide = false;
	assert_exact();
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits_for_memory_in_front_of_the_gate),
		cmocka_unit_test(test_goes_on_in_the_pad),
		cmocka_unit_test(test_moves_back),
		cmocka_unit_test(test_stands_in_front_of_what_is_heavy),
		cmocka_unit_test(test_needs_a_gate_first),
		cmocka_unit_test(test_ends_for_a_call),
		cmocka_unit_test(test_closed_before_it_goes_past),
		cmocka_unit_test(test_closed_after_it_went_past),
		cmocka_unit_test(test_closed_after_it_went_past_an_empty_gate),
		cmocka_unit_test(test_held_as_it_goes_past_the_last_gate),
		cmocka_unit_test(test_held_as_it_goes_past_a_gate),
		cmocka_unit_test(test_closed_at_its_last_gate),
		cmocka_unit_test(test_closed_as_it_goes_past_its_last_gate),
		cmocka_unit_test(test_any_order_is_exact),
		cmocka_unit_test(test_refused_in_the_pad),
		cmocka_unit_test(test_fails_open),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_the_driver_waits),
		cmocka_unit_test(test_the_driver_stays_away),
		cmocka_unit_test(test_all_sizes_ahead),
		cmocka_unit_test(test_waits_ahead),
		cmocka_unit_test(test_the_others_serve),
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_what_is_anothers_stays),
		cmocka_unit_test(test_is_made_of_what_is_left),
		cmocka_unit_test(test_channels),
		cmocka_unit_test(test_gates_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
