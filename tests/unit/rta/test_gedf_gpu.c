/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is charged to sets of a device that decides by itself: by hand; against an exact simulation
 * in which decisions take time and wait for each other; and against the admission of such sets.
 */
#include <errno.h>
#include <fermata/gpu_sched.h>
#include <fermata/rta.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../rounds.h"
#include <cmocka.h>

#define TASKS   6
#define SETS    rounds(500, 2500)
#define HORIZON 600000
#define NEVER   INT64_MAX

struct gpu_set {
	struct fm_gedf_gpu_task task[TASKS];
	size_t n;
	struct fm_gedf_gpu_costs costs;
};

static struct fm_gedf_gpu_charge charge[TASKS];

static bool passes(const struct gpu_set *s)
{
	bool ok;

	assert_int_equal(fm_gedf_gpu_analyze(s->task, s->n, &s->costs, charge, &ok), 0);
	return ok;
}

static void expect_charge(size_t task, int64_t decisions, int64_t overhead, size_t blocker,
	int64_t blocking, int64_t cost)
{
	assert_int_equal(charge[task].decisions, decisions);
	assert_int_equal(charge[task].overhead, overhead);
	assert_int_equal(charge[task].blocker, blocker);
	assert_int_equal(charge[task].blocking, blocking);
	assert_int_equal(charge[task].cost, cost);
}

/* --- by hand --- */

/* Two tasks of one chunk: a start of 20 and a decision of 6 each. */
static void two_decisions_for_a_job_of_one_chunk(void **state)
{
	struct gpu_set s = {
		.task = {{100, 500, 252, 1}, {100, 1000, 800, 1}}, .n = 2, .costs = {1, 6, 20}};

	/* 126 of its own, and the other's 100, which a start of 20 has begun and a decision of 6
	 * ends: 252. To the second deadline 126 / 252 + 126 / 800. */
	assert_true(passes(&s));
	expect_charge(0, 2, 26, 1, 126, 126);
	expect_charge(1, 2, 26, FM_RTA_NONE, 0, 126);
	assert_int_equal(charge[0].load, FM_RTA_ONE);
	assert_int_equal(charge[1].load, 657500000);
	s.task[0].deadline = 251;
	assert_false(passes(&s));
	assert_false(charge[0].meets);
	assert_true(charge[1].meets);
}

/* Ten chunks of 100, beside a task without a deadline that has four of 250. */
static void each_chunk_has_two_and_the_longest_is_waited_for(void **state)
{
	struct gpu_set s = {
		.task = {{1000, 5000, 1450, 10}, {1000, 0, 0, 4}}, .n = 2, .costs = {1, 5, 0}};

	/* 20 decisions of 5, of which one is the start: never less than a decision. 250 and 10. */
	assert_true(passes(&s));
	expect_charge(0, 20, 100, 1, 260, 1100);
	expect_charge(1, 8, 40, FM_RTA_NONE, 0, 1040);
	assert_true(charge[1].meets && !charge[1].load);
	s.task[0].deadline = 1360;
	assert_true(passes(&s));
	s.task[0].deadline = 1359;
	assert_false(passes(&s));
}

/* On two slots what is waited for counts twice, in each job. */
static void on_two_slots_all_pass_or_none(void **state)
{
	struct gpu_set s = {.task = {{100, 400, 400, 2}, {100, 400, 400, 2}, {300, 2000, 2000, 3}},
		.n = 3,
		.costs = {2, 10, 30}};

	/* 100 + 30 + 3 x 10 + 2 x (100 + 40) = 440; 440 / 400 is beyond 1. */
	assert_false(passes(&s));
	expect_charge(0, 4, 60, 2, 140, 440);
	expect_charge(2, 6, 80, FM_RTA_NONE, 0, 380);
	assert_int_equal(charge[0].load, 1100000000);
	for (int i = 0; i < 3; i++)
		assert_false(charge[i].meets);
	/* 3 x 440 / D + 0.19 <= 2 from 729.2 on. */
	s.task[0].period = s.task[1].period = 800;
	s.task[0].deadline = s.task[1].deadline = 730;
	assert_true(passes(&s));
	s.task[0].deadline = s.task[1].deadline = 729;
	assert_false(passes(&s));
}

static void what_is_invalid_is_told(void **state)
{
	struct gpu_set s = {.task = {{100, 500, 501, 1}}, .n = 1, .costs = {1, 0, 0}};
	bool ok;

#define EXPECT(rc) assert_int_equal(fm_gedf_gpu_analyze(s.task, s.n, &s.costs, charge, &ok), rc)
	EXPECT(-EINVAL);
	s.task[0].deadline = 500;
	EXPECT(0);
	s.costs.slots = 0;
	EXPECT(-EINVAL);
	s.costs = (struct fm_gedf_gpu_costs){1, -1, 0};
	EXPECT(-EINVAL);
	s.costs = (struct fm_gedf_gpu_costs){1, INT64_MAX / 2, 0};
	EXPECT(-EOVERFLOW);
	s.costs = (struct fm_gedf_gpu_costs){1, 0, 0};
	s.task[0].time = -1;
	EXPECT(-EINVAL);
	s.n = 0;
	EXPECT(0);
	assert_true(ok);
}

/* --- an exact simulation --- */

/*
 * A decision looks at what there is when it begins, and takes `pass`; what it opens begins `begin`
 * later. News that comes meanwhile is looked at by the one after it. A release is heard of `hear`
 * after it. So a chunk's end and the next one's begin are pass + begin apart where nothing else is
 * decided; and a job that finds nothing running begins hear + pass + begin after its release.
 */
struct sim {
	const struct gpu_set *s;
	int64_t pass, begin, hear;
	int64_t now, busy_until; /* of the decision that is under way; NEVER: none */
	bool news;
	unsigned open; /* slots of which no end was heard */
	struct {
		int64_t next, deadline, heard_at, ends, left;
		bool pending, heard; /* a job */
		bool ended;          /* its chunk has, and no decision has looked since */
	} t[TASKS];
	struct fm_rta_random r;
	bool sporadic;
};

static int64_t chunk_length(const struct fm_gedf_gpu_task *t)
{
	return (t->time + t->chunks - 1) / t->chunks;
}

static size_t pick(const struct sim *m)
{
	size_t best = TASKS;

	for (size_t k = 0; k < m->s->n; k++)
		if (m->t[k].pending && m->t[k].heard && m->t[k].ends == NEVER && m->t[k].left &&
			(best == TASKS || m->t[k].deadline < m->t[best].deadline))
			best = k;
	return best;
}

static void decide(struct sim *m)
{
	size_t k;

	m->news = false;
	m->busy_until = m->now + m->pass;
	for (k = 0; k < m->s->n; k++) {
		m->open -= m->t[k].ended;
		m->t[k].ended = false;
	}
	while (m->open < m->s->costs.slots && (k = pick(m)) < TASKS) {
		int64_t length = chunk_length(&m->s->task[k]);

		length = length < m->t[k].left ? length : m->t[k].left;
		m->t[k].left -= length;
		m->t[k].ends = m->busy_until + m->begin + length;
		m->open++;
	}
}

static void release(struct sim *m, size_t k)
{
	const struct fm_gedf_gpu_task *task = &m->s->task[k];

	m->t[k].pending = true;
	m->t[k].heard = false;
	m->t[k].left = task->time;
	m->t[k].deadline = task->deadline ? m->now + task->deadline : NEVER;
	m->t[k].heard_at = m->now + m->hear;
}

/* What happens at `now`, but decisions. False: a deadline was missed. */
static bool happen(struct sim *m)
{
	for (size_t k = 0; k < m->s->n; k++) {
		const struct fm_gedf_gpu_task *task = &m->s->task[k];

		if (m->t[k].ends <= m->now) {
			m->t[k].ends = NEVER;
			m->t[k].ended = m->news = true;
			if (!m->t[k].left)
				m->t[k].pending = false;
			if (!m->t[k].pending && m->now > m->t[k].deadline)
				return false;
		}
		if (m->t[k].next <= m->now) {
			if (m->t[k].pending && task->deadline)
				return false;
			if (!m->t[k].pending)
				release(m, k);
			m->t[k].next = m->now + (task->period ? task->period : 1000) +
				       (m->sporadic ? fm_rta_uniform(&m->r, 0, 300) : 0);
		}
		if (m->t[k].pending && !m->t[k].heard && m->t[k].heard_at <= m->now)
			m->t[k].heard = m->news = true;
	}
	return true;
}

static int64_t next_event(const struct sim *m)
{
	int64_t at = m->busy_until;

	for (size_t k = 0; k < m->s->n; k++) {
		at = m->t[k].next < at ? m->t[k].next : at;
		at = m->t[k].ends < at ? m->t[k].ends : at;
		if (m->t[k].pending && !m->t[k].heard && m->t[k].heard_at < at)
			at = m->t[k].heard_at;
	}
	return at;
}

static bool simulate(const struct gpu_set *s, const int64_t latency[3], uint64_t seed)
{
	struct sim m = {.s = s,
		.pass = latency[0],
		.begin = latency[1],
		.hear = latency[2],
		.busy_until = NEVER};

	fm_rta_seed(&m.r, seed, 1);
	m.sporadic = seed & 1;
	for (size_t k = 0; k < s->n; k++) {
		m.t[k].ends = NEVER;
		m.t[k].next = seed & 2 ? fm_rta_uniform(&m.r, 0, 4000) : 0;
		/* What has no deadline is there first, with the longest chunks. */
		if (!s->task[k].deadline)
			m.t[k].next = 0;
	}
	while (m.now < HORIZON) {
		if (!happen(&m))
			return false;
		if (m.busy_until <= m.now)
			m.busy_until = NEVER;
		if (m.news && m.busy_until == NEVER)
			decide(&m);
		m.now = next_event(&m);
	}
	return true;
}

static void draw_set(struct fm_rta_random *r, struct gpu_set *s, int64_t latency[3])
{
	static const int64_t period[] = {2000, 3000, 4000, 5000, 6000, 8000, 12000, 20000};

	memset(s, 0, sizeof(*s));
	s->costs.slots = (uint32_t)fm_rta_uniform(r, 1, 3);
	s->n = (size_t)fm_rta_uniform(r, s->costs.slots + 1, TASKS);
	for (int i = 0; i < 3; i++)
		latency[i] = fm_rta_uniform(r, 0, 1) ? fm_rta_uniform(r, 0, i == 2 ? 90 : 30) : 0;
	s->costs.decision = latency[0] + latency[1];
	s->costs.start = s->costs.decision + latency[2];
	for (size_t k = 0; k < s->n; k++) {
		struct fm_gedf_gpu_task *t = &s->task[k];

		t->period = period[fm_rta_uniform(r, 0, 7)];
		t->time = fm_rta_uniform(r, 50,
			t->period * (int64_t)s->costs.slots / (fm_rta_uniform(r, 0, 1) ? 4 : 8));
		t->time = t->time < t->period ? t->time : t->period;
		t->chunks = (uint32_t)fm_rta_uniform(r, 1, 1 + t->time / 60);
		t->deadline =
			fm_rta_uniform(r, 0, 2) ? t->period : fm_rta_uniform(r, t->time, t->period);
		if (k + 1 == s->n && !fm_rta_uniform(r, 0, 3))
			t->period = t->deadline = 0;
	}
}

static bool keeps_all(const struct gpu_set *s, const int64_t latency[3], uint64_t seed)
{
	for (uint64_t i = 0; i < 4; i++)
		if (!simulate(s, latency, 4 * seed + i))
			return false;
	return true;
}

static void what_passes_misses_nothing(void **state)
{
	unsigned passed[2] = {0}, missed = 0, edge = 0;

	for (uint64_t seed = 0; seed < SETS; seed++) {
		struct fm_rta_random r;
		int64_t latency[3];
		struct gpu_set s;
		bool ok, kept;

		fm_rta_seed(&r, seed, 0);
		draw_set(&r, &s, latency);
		ok = passes(&s);
		kept = keeps_all(&s, latency, seed);
		if (ok && !kept)
			fail_msg(
				"set %llu passes, and misses a deadline", (unsigned long long)seed);
		passed[s.costs.slots > 1] += ok;
		missed += !ok && !kept;
		/* Without the charges, some that miss would pass. */
		s.costs.decision = s.costs.start = 0;
		edge += !kept && passes(&s);
	}
	print_message("passed %u and %u; refused, and missed %u; by the charges alone %u\n",
		passed[0], passed[1], missed, edge);
	assert_true(passed[0] > SETS / 25 && passed[1] > SETS / 25 && missed > SETS / 25 &&
		    edge > SETS / 250);
}

/* --- admission --- */

static int admission(const struct gpu_set *s)
{
	struct fm_gpu_set_options o = {.size = sizeof(o),
		.policy = "edf",
		.slots = s->costs.slots,
		.engine = "cpu",
		.resident = true,
		.decision_ns = (uint64_t)s->costs.decision,
		.admit = true};
	struct fm_gpu_set *set = fm_gpu_set_new(&o, NULL);
	int rc;

	assert_non_null(set);
	for (size_t k = 0; k < s->n; k++) {
		struct fm_gpu_task t = {.size = sizeof(t),
			.period_ns = (uint64_t)s->task[k].period * 1000000,
			.deadline_ns = (uint64_t)s->task[k].deadline * 1000000,
			.wcet_ns = (uint64_t)s->task[k].time * 1000000,
			.phase_ns = s->task[k].period ? UINT64_C(1) << 60 : 0,
			.n_chunks = s->task[k].chunks};

		assert_int_equal(fm_gpu_task_add(set, &t), (int)k);
	}
	rc = fm_gpu_set_start(set);
	assert_true(rc == 0 || rc == -EDQUOT);
	fm_gpu_set_free(set);
	return rc;
}

/* What a set is told at its start is what the analysis says of it, with a start that costs a
 * decision. Admission rounds up. */
static void admission_says_the_same(void **state)
{
	unsigned admitted = 0, refused = 0, apart = 0;

	for (uint64_t seed = 0; seed < 250; seed++) {
		struct fm_rta_random r;
		int64_t latency[3];
		struct gpu_set s, ns;
		int rc;

		fm_rta_seed(&r, seed, 0);
		draw_set(&r, &s, latency);
		s.costs.decision *=
			1000000; /* times in ms there, to be far from all that is real */
		s.costs.start = 0;
		if ((uint64_t)s.costs.decision > FM_GPU_DECISION_MAX)
			continue;
		rc = admission(&s);
		ns = s;
		for (size_t k = 0; k < s.n; k++) {
			ns.task[k].time *= 1000000;
			ns.task[k].period *= 1000000;
			ns.task[k].deadline *= 1000000;
		}
		admitted += !rc;
		refused += rc != 0;
		apart += rc && passes(&ns);
		if (!rc)
			assert_true(passes(&ns));
	}
	assert_true(admitted > 50 && refused > 50 && apart <= admitted / 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_decisions_for_a_job_of_one_chunk),
		cmocka_unit_test(each_chunk_has_two_and_the_longest_is_waited_for),
		cmocka_unit_test(on_two_slots_all_pass_or_none),
		cmocka_unit_test(what_is_invalid_is_told),
		cmocka_unit_test(what_passes_misses_nothing),
		cmocka_unit_test(admission_says_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
