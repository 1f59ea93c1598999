/* SPDX-License-Identifier: Apache-2.0 */
/* Two clients of a group that race for the last bytes of its limit, and the daemon between them:
 * every interleaving of their accesses to the words that they share. The code is the product's own;
 * each access stops first, and the test says who goes on. Accesses are in sequence: what processors
 * may reorder is for the fences that stand in the code.
 *
 * A side does what the values that it has read make it do. So the values that each side has read
 * and those of the words say how it goes on from a point, and no such point is looked at twice. */
#include <stdatomic.h>
#include <stdint.h>

static void step(const volatile void *word);
static uint64_t saw(uint64_t value);

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_load
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_compare_exchange_weak
#define SAW(p, value)                      ((__typeof__(*(p) + 0))saw((uint64_t)(value)))
#define atomic_load_explicit(p, order)     (step(p), SAW(p, *(p)))
#define atomic_load(p)                     (step(p), SAW(p, *(p)))
#define atomic_store_explicit(p, v, order) (step(p), (void)(*(p) = (v)))
#define atomic_fetch_add(p, v)             (step(p), SAW(p, atomic_fetch_add_explicit(p, v, SEQ)))
#define atomic_fetch_sub(p, v)             (step(p), SAW(p, atomic_fetch_sub_explicit(p, v, SEQ)))
#define atomic_compare_exchange_weak(p, e, v)                                        \
	(step(p), saw(atomic_compare_exchange_strong_explicit(p, e, v, SEQ, SEQ)) || \
			  (saw(*(e)), false))
#define SEQ memory_order_seq_cst

#include "board/ledger.c"
#include "bridge/memory.c"
#include "bridge_world.h"
#include <ucontext.h>

#define STACK   (64 * 1024)
#define SIDES   3 /* two clients, the daemon */
#define DAEMON  2
#define LONGEST 200
#define POINTS  (1u << 22)
#define LIMIT   100

/* What each client has at first, may have without asking, and wants. */
struct race {
	const char *name;
	uint64_t has[2], allowed[2], wants[2];
	unsigned least, most; /* how many of them may get it */
};

static struct {
	const struct race *race;
	struct world *w;
	struct account {
		struct client *c;
		struct fm_ledger *ledger;
		struct fm_ledger_device *row;
	} a[2];
	ucontext_t main, side[SIDES];
	int at; /* the side that runs, or -1 */
	bool ended[2], got[2];
	bool bell[2];      /* the daemon has yet to read it */
	bool busy;         /* it is in the middle of one */
	uint32_t waits[2]; /* for this answer; 0: it does not */
	uint64_t read[SIDES];
	char stack[SIDES][STACK];
} r = {.at = -1};

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static bool shared(const volatile void *word)
{
	for (int i = 0; i < 2; i++) {
		const struct fm_ledger_device *row = r.a[i].row;

		if (word == &row->claimed || word == &row->allowed || word == &row->asked ||
			word == &row->answered || word == &row->wanted || word == &row->settled ||
			word == &row->granted)
			return true;
	}
	return false;
}

static void step(const volatile void *word)
{
	int at = r.at;

	if (at >= 0 && shared(word))
		swapcontext(&r.side[at], &r.main);
}

static uint64_t saw(uint64_t value)
{
	if (r.at >= 0)
		r.read[r.at] = mix(r.read[r.at], value + 1);
	return value;
}

static void yield_side(void)
{
	swapcontext(&r.side[r.at], &r.main);
}

/* As account.c does it, with fewer tries. */
static bool claim_once(int i)
{
	struct fm_ledger_device *row = r.a[i].row;
	int rc = fm_ledger_claim(row, r.race->wants[i]) ? 0 : -EAGAIN;

	for (int n = 0; rc == -EAGAIN && n < 2; n++) {
		r.waits[i] = fm_ledger_ask(row, r.race->wants[i]);
		r.bell[i] = true;
		yield_side();
		rc = fm_ledger_take(row, r.waits[i], r.race->wants[i]);
		r.waits[i] = 0;
	}
	return !rc;
}

static void client_side(int i)
{
	r.got[i] = claim_once(i);
	r.ended[i] = true;
	yield_side();
}

static void daemon_side(void)
{
	for (;;) {
		int i = r.bell[0] ? 0 : 1;

		r.bell[i] = false;
		r.busy = true;
		memory_bell(r.w->b, r.a[i].c->c);
		r.busy = false;
		yield_side();
	}
}

static bool may_go_on(int side)
{
	if (side == DAEMON)
		return r.busy || r.bell[0] || r.bell[1];
	return !r.ended[side] && (!r.waits[side] || r.a[side].row->answered == r.waits[side]);
}

static void go_on(int side)
{
	r.at = side;
	r.read[side] = mix(r.read[side], 7);
	swapcontext(&r.main, &r.side[side]);
	r.at = -1;
}

static void make_side(int side)
{
	ucontext_t *c = &r.side[side];

	getcontext(c);
	c->uc_stack.ss_sp = r.stack[side];
	c->uc_stack.ss_size = STACK;
	c->uc_link = NULL;
	if (side == DAEMON)
		makecontext(c, daemon_side, 0);
	else
		makecontext(c, (void (*)(void))client_side, 1, side);
}

/* Everything as it was before the race. */
static void start(const struct race *race)
{
	r.race = race;
	r.busy = false;
	for (int i = 0; i < 2; i++) {
		struct fm_ledger_device *row = r.a[i].row;
		struct memory_row *known = &r.a[i].c->c->memory->row[0];

		row->claimed = race->has[i];
		row->allowed = race->allowed[i];
		row->granted = 0;
		row->asked = row->answered = row->settled = 1;
		known->claimed = race->has[i];
		known->allowed = race->allowed[i];
		known->request = 1;
		known->granted = 0;
		r.ended[i] = r.got[i] = r.bell[i] = false;
		r.waits[i] = 0;
	}
	for (int side = 0; side < SIDES; side++) {
		r.read[side] = 0;
		make_side(side);
	}
}

/* The point that has been reached, as one number. */
static uint64_t point(void)
{
	uint64_t h = 1;

	for (int i = 0; i < 2; i++) {
		const struct fm_ledger_device *row = r.a[i].row;

		h = mix(h, row->claimed);
		h = mix(h, row->allowed);
		h = mix(h, (uint64_t)row->asked << 32 | row->answered);
		h = mix(h, row->wanted);
		h = mix(h, row->settled);
		h = mix(h, row->granted);
		h = mix(h, r.ended[i] | r.got[i] << 1 | r.bell[i] << 2 | (uint64_t)r.waits[i] << 3);
	}
	for (int side = 0; side < SIDES; side++)
		h = mix(h, r.read[side]);
	return mix(h, r.busy) | 1;
}

/* Points seen, and ways to points that are to be looked at. */
static uint64_t *seen;
static unsigned points, ends;

static bool is_new(uint64_t h)
{
	for (uint64_t i = h % POINTS;; i = (i + 1) % POINTS) {
		if (seen[i] == h)
			return false;
		if (!seen[i]) {
			seen[i] = h;
			assert_true(++points < POINTS / 2);
			return true;
		}
	}
}

static uint8_t way[LONGEST];
static unsigned way_length;

static const char *way_text(void)
{
	static char text[LONGEST + 1];

	for (unsigned i = 0; i < way_length; i++)
		text[i] = "azd"[way[i]];
	text[way_length] = '\0';
	return text;
}

/* What is claimed is what was there and what was got, never more than the limit. */
static void look_at_end(void)
{
	unsigned n = r.got[0] + r.got[1];
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		uint64_t claimed = r.a[i].row->claimed;

		assert_true(r.ended[i]); /* nobody waits for ever */
		assert_true(claimed == r.race->has[i] + (r.got[i] ? r.race->wants[i] : 0));
		sum += claimed;
	}
	assert_true(sum <= LIMIT);
	if (n < r.race->least || n > r.race->most)
		fail_msg("%u have it; the way there: %s", n, way_text());
	ends++;
}

/* What has been got is below the limit at each point, even where claims are yet to be taken back.
 */
static void look_at_point(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++)
		sum += r.race->has[i] + (r.got[i] ? r.race->wants[i] : 0);
	assert_true(sum <= LIMIT);
}

static void walk(unsigned length)
{
	start(r.race);
	for (unsigned i = 0; i < length; i++)
		go_on(way[i]);
}

/* way[] leads to a point that was reached just now. */
static void look_from(unsigned length)
{
	bool on[SIDES], first = true, any = false;

	way_length = length;
	look_at_point();
	if (!is_new(point()))
		return;
	for (int side = 0; side < SIDES; side++)
		any |= on[side] = may_go_on(side);
	if (!any)
		look_at_end();
	assert_true(length < LONGEST);
	for (int side = 0; side < SIDES; side++) {
		if (!on[side])
			continue;
		if (!first)
			walk(length);
		first = false;
		way[length] = (uint8_t)side;
		go_on(side);
		look_from(length + 1);
	}
}

static void run(const struct race *race)
{
	seen = calloc(POINTS, sizeof(*seen));
	assert_non_null(seen);
	points = ends = 0;
	start(race);
	look_from(0);
	print_message("%s: %u points, %u ends\n", race->name, points, ends);
	assert_true(points > 500 && ends > 0);
	free(seen);
}

static void begin_world(struct world *w)
{
	struct client *c[2] = {&w->a, &w->z};

	r.w = w;
	for (int i = 0; i < 2; i++) {
		r.a[i].c = c[i];
		assert_int_equal(fm_ledger_create(&r.a[i].ledger, NULL), 0);
		assert_int_equal(fm_bridge_ledger(w->b, c[i]->c, r.a[i].ledger), 0);
		assert_int_equal(name_group(w, c[i], 0, "both"), 0);
	}
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_LIMIT, LIMIT), 0);
	for (int i = 0; i < 2; i++) {
		strcpy(r.a[i].ledger->device[0].key, DEVICE);
		r.a[i].ledger->device[0].capacity = 1000;
		memory_bell(w->b, c[i]->c);
		r.a[i].row = &r.a[i].ledger->device[0];
	}
}

static void every_race_has_the_right_winners(void **state)
{
	static const struct race races[] = {
		{"the last bytes, asked for by both", {40, 40}, {40, 40}, {20, 20}, 1, 1},
		{"enough for both", {40, 40}, {40, 40}, {10, 10}, 2, 2},
		{"one has them already", {40, 40}, {60, 40}, {20, 20}, 1, 1},
		{"one has a part of them", {40, 40}, {50, 40}, {10, 20}, 1, 1},
		{"not enough for one of them", {40, 40}, {40, 40}, {20, 21}, 1, 1},
		{"not enough for either", {40, 40}, {50, 50}, {21, 21}, 0, 0},
		{"each must be asked", {0, 0}, {0, 0}, {50, 50}, 2, 2},
		{"nothing is left", {60, 40}, {60, 40}, {1, 1}, 0, 0},
	};

	begin_world(*state);
	for (size_t i = 0; i < FM_ARRAY_LEN(races); i++)
		run(&races[i]);
}

static int end(void **state)
{
	teardown(state);
	for (int i = 0; i < 2; i++)
		fm_ledger_unmap(r.a[i].ledger);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_race_has_the_right_winners, setup, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
