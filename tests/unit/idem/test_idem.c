/* SPDX-License-Identifier: Apache-2.0 */
/* Where a queue's operations may run again from: three algorithms, and known chains. */
#include "base/util.h"
#include "idem/idem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* last */
#include <cmocka.h>

/* --- traces of up to 64 bytes, a bit for each --- */

static size_t put_bits(struct fm_idem_span *s, uint64_t bits)
{
	size_t n = 0;

	for (unsigned i = 0; i < 64; i++) {
		if (!(bits >> i & 1))
			continue;
		if (n && s[n - 1].to == i)
			s[n - 1].to++;
		else
			s[n++] = (struct fm_idem_span){i, i + 1};
	}
	return n;
}

struct bits {
	uint64_t r, w, k, b;
	enum fm_idem_kind kind;
	unsigned flags, queue;
};

static void add_bits(struct fm_idem_trace *t, const struct bits *x)
{
	struct fm_idem_op o = {.op = (int64_t)t->n_ops,
		.kind = (uint8_t)x->kind,
		.flags = (uint8_t)x->flags,
		.queue = (uint16_t)x->queue};
	const uint64_t set[FM_IDEM_SETS] = {x->r, x->w, x->k, x->b};
	struct fm_idem_span s[4 * 33];
	size_t n = 0;

	for (unsigned i = 0; i < FM_IDEM_SETS; i++) {
		o.n[i] = (uint32_t)put_bits(s + n, set[i]);
		n += o.n[i];
	}
	assert_int_equal(fm_idem_add(t, &o, s), 0);
}

static void starts_are(const struct bits *x, size_t n, const int32_t *expected)
{
	for (unsigned a = 0; a < FM_IDEM_ALGORITHMS; a++) {
		struct fm_idem_trace t = {0};
		int32_t start[16];

		for (size_t i = 0; i < n; i++)
			add_bits(&t, &x[i]);
		assert_int_equal(fm_idem_share(&t), 0);
		assert_int_equal(fm_idem_start(&t, a, start), 0);
		for (size_t i = 0; i < n; i++)
			if (start[i] != expected[i])
				fail_msg("%s: start of %zu is %d, not %d",
					fm_idem_algorithm_name(a), i, (int)start[i],
					(int)expected[i]);
		fm_idem_trace_free(&t);
	}
}
#define STARTS(x, ...)                                                                     \
	do {                                                                               \
		const int32_t expected[] = {__VA_ARGS__};                                  \
		_Static_assert(FM_ARRAY_LEN(x) == FM_ARRAY_LEN(expected), "one for each"); \
		starts_are(x, FM_ARRAY_LEN(x), expected);                                  \
	} while (0)

enum { A_ = 1, B_ = 2, C_ = 4, D_ = 8, E_ = 16, F_ = 32 };

static void figure_nine(void **state)
{
	static const struct bits x[] = {{.r = A_, .w = B_, .k = B_}, {.r = D_, .w = E_, .k = E_},
		{.r = C_ | E_, .w = F_, .k = F_}, {.r = C_ | E_, .w = E_}};

	STARTS(x, 0, 1, 2, 1);
}

static void added_in_place(void **state)
{
	static const struct bits made[] = {
		{.r = A_, .w = B_, .k = B_}, {.r = B_, .w = B_}, {.r = B_, .w = B_}};
	static const struct bits given[] = {{.r = B_, .w = B_}, {.r = A_, .w = C_, .k = C_}};

	STARTS(made, 0, 0, 0);
	STARTS(given, FM_IDEM_NO_GROUP, 1);
}

static void cleared_before_it_is_summed(void **state)
{
	static const struct bits x[] = {{.w = B_, .k = B_, .kind = FM_IDEM_MEMSET},
		{.r = A_ | B_, .w = B_, .flags = FM_IDEM_ATOMICS}, {.r = B_, .w = C_, .k = C_}};

	STARTS(x, 0, 0, 2);
}

static void overlaps_in_part(void **state)
{
	static const struct bits part[] = {
		{.w = A_, .k = A_}, {.r = A_ | B_, .w = B_ | C_, .k = C_}};
	static const struct bits beside[] = {
		{.r = A_ | B_, .w = C_ | D_, .k = C_ | D_}, {.r = C_, .w = B_, .k = B_}};
	static const struct bits half[] = {{.w = A_, .k = A_}, {.r = A_ | B_, .w = A_ | B_}};

	STARTS(part, 0, FM_IDEM_NO_GROUP);
	STARTS(beside, 0, 1);
	STARTS(half, 0, FM_IDEM_NO_GROUP);
}

/* A write that may not happen makes no start: only K does. */
static void written_perhaps(void **state)
{
	static const struct bits x[] = {{.w = A_}, {.r = A_, .w = B_, .k = B_}, {.r = A_, .w = A_}};
	static const struct bits again[] = {
		{.w = A_, .k = A_}, {.w = A_}, {.r = A_, .w = B_, .k = B_}, {.r = A_, .w = A_}};

	STARTS(x, 0, 1, FM_IDEM_NO_GROUP);
	STARTS(again, 0, 1, 2, 0);
}

/* A start in front of another is not better or worse by itself. */
static void not_monotone(void **state)
{
	static const struct bits x[] = {{.w = A_, .k = A_}, {.r = B_, .w = C_, .k = C_},
		{.w = B_, .k = B_}, {.r = A_, .w = D_, .k = D_}, {.r = A_, .w = A_}};

	/* From 1 to 4 B is clobbered, and from 0 to 4, too. */
	STARTS(x, 0, 1, 2, 3, FM_IDEM_NO_GROUP);
}

static void nothing_goes_over_barriers(void **state)
{
	for (unsigned kind = 0; kind < FM_IDEM_KINDS; kind++) {
		const struct bits x[] = {
			{.w = A_, .k = A_}, {.kind = kind}, {.r = A_, .w = A_}, {.w = B_, .k = B_}};

		if (kind == FM_IDEM_KERNEL || kind == FM_IDEM_MEMSET || kind == FM_IDEM_D2D)
			STARTS(x, 0, 1, 0, 3);
		else
			STARTS(x, 0, FM_IDEM_NOT_AGAIN, FM_IDEM_NO_GROUP, 3);
	}
	for (unsigned flag = FM_IDEM_DYNAMIC; flag <= FM_IDEM_VISIBLE; flag <<= 1) {
		const struct bits x[] = {{.w = A_, .k = A_}, {.r = B_, .w = C_, .flags = flag},
			{.r = A_, .w = A_}, {.w = B_, .k = B_}};

		STARTS(x, 0, FM_IDEM_NOT_AGAIN, FM_IDEM_NO_GROUP, 3);
	}
}

static void groups_end(void **state)
{
	struct fm_idem_trace t = {0};
	const struct bits first = {.w = A_, .k = A_}, other = {.r = B_, .w = C_, .k = C_};
	const struct bits last = {.r = A_, .w = A_};
	int32_t start[FM_IDEM_GROUP + 2];

	for (unsigned more = 0; more < 2; more++) {
		add_bits(&t, &first);
		for (unsigned i = 0; i < FM_IDEM_GROUP - 2 + more; i++)
			add_bits(&t, &other);
		add_bits(&t, &last);
		for (unsigned a = 0; a < FM_IDEM_ALGORITHMS; a++) {
			assert_int_equal(fm_idem_start(&t, a, start), 0);
			assert_int_equal(start[t.n_ops - 1], more ? FM_IDEM_NO_GROUP : 0);
		}
		fm_idem_trace_free(&t);
	}
}

static void queues_are_apart(void **state)
{
	static const struct bits apart[] = {{.w = A_, .k = A_}, {.w = D_, .k = D_, .queue = 1},
		{.r = A_ | E_, .w = A_}, {.r = D_ | E_, .w = D_, .queue = 1}};
	static const struct bits shared[] = {{.w = A_, .k = A_}, {.r = A_, .w = D_, .queue = 1},
		{.w = B_, .k = B_}, {.w = E_, .k = E_, .queue = 1}};

	static const struct bits freed[] = {{.r = B_, .w = A_, .k = A_}, {.w = D_, .k = D_},
		{.w = B_, .kind = FM_IDEM_FREE, .queue = 1}, {.r = A_, .w = A_},
		{.w = F_, .k = F_, .queue = 1}};

	STARTS(apart, 0, 1, 0, 1);
	STARTS(freed, 0, 1, FM_IDEM_NOT_AGAIN, FM_IDEM_NO_GROUP, 4);
	STARTS(shared, FM_IDEM_NOT_AGAIN, FM_IDEM_NOT_AGAIN, 2, 3);
}

/* --- all of them agree --- */

static uint64_t seed = 88172645463325252u;
static uint64_t draw(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static uint64_t some_bytes(unsigned bytes)
{
	uint64_t all = bytes == 64 ? UINT64_MAX : (UINT64_C(1) << bytes) - 1, x = 0;

	for (uint64_t spans = draw(3); spans; spans--) {
		unsigned from = (unsigned)draw(bytes);
		unsigned n = 1 + (unsigned)draw(bytes - from);

		x |= (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << from;
	}
	return x & all;
}

static void draw_op(struct fm_idem_trace *t, unsigned bytes, unsigned queues)
{
	struct bits x = {.r = some_bytes(bytes), .w = some_bytes(bytes)};
	uint64_t atomics = draw(2) ? 0 : some_bytes(bytes) & some_bytes(bytes);

	x.k = x.w & ~x.r & (draw(4) ? UINT64_MAX : some_bytes(64));
	x.r |= atomics;
	x.w |= atomics;
	x.k &= ~atomics;
	x.kind = draw(8) ? FM_IDEM_KERNEL : draw(8) ? FM_IDEM_MEMSET : draw(FM_IDEM_KINDS);
	x.flags = draw(32) ? 0 : FM_IDEM_DYNAMIC;
	x.queue = (unsigned)draw(queues);
	add_bits(t, &x);
}

static void compare(const struct fm_idem_trace *t, unsigned algorithms, unsigned turn)
{
	int32_t start[FM_IDEM_ALGORITHMS][512];

	for (unsigned a = 0; a < algorithms; a++) {
		assert_int_equal(fm_idem_start(t, a, start[a]), 0);
		for (size_t i = 0; i < t->n_ops; i++)
			if (start[a][i] != start[0][i])
				fail_msg("trace %u: start of %zu is %d by %s, and %d", turn, i,
					(int)start[a][i], fm_idem_algorithm_name(a),
					(int)start[0][i]);
	}
}

static void algorithms_agree(void **state)
{
	unsigned turns = getenv("FERMATA_TEST_LONG") ? 100000 : 10000;

	for (unsigned turn = 0; turn < turns; turn++) {
		struct fm_idem_trace t = {0};
		unsigned bytes = 2 + (unsigned)draw(7), queues = draw(8) ? 1 : 2;

		for (uint64_t n = 1 + draw(10); n; n--)
			draw_op(&t, bytes, queues);
		assert_int_equal(fm_idem_share(&t), 0);
		compare(&t, FM_IDEM_ALGORITHMS, turn);
		fm_idem_trace_free(&t);
	}
}

static void long_traces_agree(void **state)
{
	unsigned turns = getenv("FERMATA_TEST_LONG") ? 2000 : 50;

	for (unsigned turn = 0; turn < turns; turn++) {
		struct fm_idem_trace t = {0};

		for (unsigned n = 0; n < 400; n++)
			draw_op(&t, 64, 1);
		compare(&t, FM_IDEM_GREEDY + 1, turn);
		fm_idem_trace_free(&t);
	}
}

/* --- sets --- */

static uint64_t bits_of(const struct fm_idem_set *s)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < s->n; i++) {
		assert_true(s->span[i].from < s->span[i].to);
		assert_true(!i || s->span[i - 1].to < s->span[i].from);
		for (uint64_t at = s->span[i].from; at < s->span[i].to; at++)
			bits |= UINT64_C(1) << at;
	}
	return bits;
}

static void sets_are_sets(void **state)
{
	FM_IDEM_CLEAN struct fm_idem_set to = {0};

	for (unsigned turn = 0; turn < 20000; turn++) {
		uint64_t a = some_bytes(64), b = some_bytes(64);
		struct fm_idem_span x[33], y[33], z[66];
		size_t n = put_bits(x, a), m = put_bits(y, b), both = n + m;

		assert_int_equal(fm_idem_set_union(&to, x, n, y, m), 0);
		assert_true(bits_of(&to) == (a | b));
		assert_int_equal(fm_idem_set_minus(&to, x, n, y, m), 0);
		assert_true(bits_of(&to) == (a & ~b));
		assert_true(fm_idem_set_meet(x, n, y, m) == !!(a & b));
		assert_true(fm_idem_set_within(x, n, y, m) == !(a & ~b));
		memcpy(z, y, m * sizeof(*y));
		memcpy(z + m, x, n * sizeof(*x));
		both = fm_idem_set_make(z, both);
		assert_true(bits_of(&(struct fm_idem_set){z, both, both}) == (a | b));
	}
}

/* --- classes --- */

static void classes(void **state)
{
	static const struct {
		struct bits x;
		enum fm_idem_class class;
		enum fm_idem_why why;
		int size, back;
	} known[] = {
		{{.w = A_, .k = A_, .kind = FM_IDEM_MEMSET}, 0, 0, 0, 0},
		{{.r = A_ | B_, .w = A_}, FM_IDEM_IN_GROUP, FM_IDEM_WHY_WRITES, 1, -1},
		{{.r = B_, .w = C_, .k = C_}, FM_IDEM_IDEMPOTENT, FM_IDEM_WHY_NONE, 1, 0},
		{{.r = C_, .w = C_, .flags = FM_IDEM_ATOMICS}, FM_IDEM_IN_GROUP,
			FM_IDEM_WHY_ATOMICS, 2, -1},
		{{.r = D_, .w = D_}, FM_IDEM_NEVER, FM_IDEM_WHY_GROUP, 0, 0},
		{{.r = B_, .w = E_, .k = E_, .b = E_}, FM_IDEM_IN_GROUP, FM_IDEM_WHY_BLOCKS, 1, 0},
		{{.r = B_, .w = F_, .flags = FM_IDEM_DYNAMIC}, FM_IDEM_NEVER, FM_IDEM_WHY_DYNAMIC,
			0, 0},
	};
	struct fm_idem_trace t = {0};
	struct fm_idem_report r;
	int32_t start[FM_ARRAY_LEN(known)];

	t.names = calloc(1, 1);
	t.kernel = calloc(FM_ARRAY_LEN(known), sizeof(*t.kernel));
	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++) {
		add_bits(&t, &known[i].x);
		t.op[i].kernel = (uint32_t)i;
	}
	t.n_kernels = FM_ARRAY_LEN(known);
	assert_int_equal(fm_idem_start(&t, FM_IDEM_FORWARD, start), 0);
	assert_int_equal(fm_idem_judge(&t, start, &r), 0);
	for (size_t i = 1; i < FM_ARRAY_LEN(known); i++) {
		assert_int_equal(r.kernel[i].class, known[i].class);
		assert_int_equal(r.kernel[i].why, known[i].why);
		assert_int_equal(r.kernel[i].size, known[i].size);
		assert_int_equal(r.kernel[i].start, known[i].back);
	}
	assert_int_equal(r.kernels, 6);
	assert_int_equal(r.idempotent, 1);
	assert_int_equal(r.group[1], 2);
	assert_int_equal(r.group[2], 1);
	assert_int_equal(r.never, 2);
	fm_idem_report_free(&r);
	fm_idem_trace_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figure_nine),
		cmocka_unit_test(added_in_place),
		cmocka_unit_test(cleared_before_it_is_summed),
		cmocka_unit_test(overlaps_in_part),
		cmocka_unit_test(written_perhaps),
		cmocka_unit_test(not_monotone),
		cmocka_unit_test(nothing_goes_over_barriers),
		cmocka_unit_test(groups_end),
		cmocka_unit_test(queues_are_apart),
		cmocka_unit_test(algorithms_agree),
		cmocka_unit_test(long_traces_agree),
		cmocka_unit_test(sets_are_sets),
		cmocka_unit_test(classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
