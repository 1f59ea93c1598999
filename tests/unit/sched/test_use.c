/* SPDX-License-Identifier: Apache-2.0 */
/* What the core says that each used of a device, beside what the device did: under every policy. */
#include "../rounds.h"
#include "../sim/simulate_world.h"

#ifdef __SANITIZE_ADDRESS__ /* each takes ten times as long */
#define WORLDS rounds(2, 6)
#else
#define WORLDS rounds(5, 20)
#endif

static struct {
	unsigned n;
	uint64_t truth[16], used[16], sum, told;
} seen;

static void on_stays(void *ctx, const struct fm_sim_event *e)
{
	struct fm_account a;
	uint64_t parts;

	if (e->what != FM_SIM_STAYS)
		return;
	assert_true(seen.n < FM_ARRAY_LEN(seen.used));
	fm_sched_ent_account(e->sent, e->at, &a);
	parts = a.ran_ns + a.idle_ns + a.by_hand_ns + a.over_budget_ns;
	for (unsigned i = 0; i < FM_WAITS; i++)
		parts += a.wait_ns[i];
	assert_int_equal(parts, a.age_ns);
	seen.truth[seen.n] = e->ns;
	seen.used[seen.n] = fm_sched_ent_used(e->sent, e->at);
	assert_int_equal(fm_sched_ent_used(e->sent, e->at), seen.used[seen.n]);
	seen.sum += seen.truth[seen.n];
	seen.told += seen.used[seen.n++];
}

static void simulate(struct world *w)
{
	const struct fm_sim_watch watch = {on_stays, w, FM_SIM_BIT(FM_SIM_STAYS)};
	struct fm_err err = {0};

	memset(&seen, 0, sizeof(seen));
	assert_int_equal(fm_sim_result_init(&w->r, &w->plan), 0);
	if (fm_sim_machine(&w->plan, 0, &watch, NULL, &w->r, &err))
		fail_msg("%s", err.text);
	fm_sim_result_free(&w->r);
}

static uint64_t below(uint64_t n)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % n;
}

/* Some are always busy, some pause; commands of 5 us to 50 ms. */
static void random_group(struct world *w, unsigned i)
{
	static const uint64_t lengths[] = {
		5 * FM_US, 50 * FM_US, 500 * FM_US, 5 * FM_MS, 50 * FM_MS};
	struct fm_sim_group g = GROUP(COMMANDS(1, 0));

	g.start = below(2) ? 0 : below(30 * FM_MS);
	g.step[0].time.a = lengths[below(FM_ARRAY_LEN(lengths))];
	g.step[0].times = (uint32_t)below(30) + 1;
	g.time.a = below(2) ? 0 : below(3 * FM_MS);
	g.hints.value[FM_HINT_PRIORITY] = (int64_t)below(2);
	g.hints.value[FM_HINT_WEIGHT] = 1 + (int64_t)below(3);
	g.hints.value[FM_HINT_SHARE] = i < 2 ? 30 : 0;
	add(w, g);
}

static void play(struct world *w, const struct fm_policy_ops *policy, unsigned n, uint64_t turn)
{
	plan(w, policy->name, FM_S);
	device(w, DEVICE(.level = 1 + n % 3, .spacing = 500 * FM_US, .slice.a = turn));
	w->plan.linger = below(2) ? 100 * FM_US : 0;
	for (unsigned i = 0; i < 1 + n % 5; i++)
		random_group(w, i);
	simulate(w);
}

static bool is(const struct fm_policy_ops *policy, const char *name)
{
	return !strcmp(policy->name, name);
}

/* A device that does one thing after the other: to the nanosecond. Of those that are let run at
 * once the core does not know in which order it does that. */
static void each_has_what_it_used(void **state)
{
	struct world w;

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		for (unsigned n = 0; n < WORLDS && !is(*p, "fifo") && !is(*p, "k-edf"); n++) {
			play(&w, *p, n, 0);
			for (unsigned i = 0; i < seen.n; i++)
				assert_int_equal(seen.used[i], seen.truth[i]);
		}
	}
}

/* One with turns of its own: nothing is lost, and nothing counts twice. */
static void all_of_it_is_somebodys(void **state)
{
	struct world w;

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		for (unsigned n = 0; n < WORLDS && !is(*p, "fifo"); n++) {
			play(&w, *p, n, FM_MS);
			assert_int_equal(seen.told, seen.sum);
		}
	}
}

static bool has_slice(const struct fm_policy_ops *policy)
{
	for (unsigned i = 0; i < FM_POLICY_PARAMS && policy->params && policy->params[i].name; i++)
		if (!strcmp(policy->params[i].name, "slice"))
			return true;
	return false;
}

/* Those that always work, with commands as long as several turns of the device, or shorter. Where
 * several are let run at once and others still drain, in which order the device has them is not
 * known. */
static void equals(const struct fm_policy_ops *policy, unsigned n, uint64_t ns, const char *slice)
{
	struct world w;

	plan(&w, policy->name, 4 * FM_S);
	if (has_slice(policy)) {
		w.plan.params = &slice;
		w.plan.n_params = 1;
	}
	device(&w, DEVICE(.level = 2, .slice.a = 2 * FM_MS));
	w.plan.linger = 100 * FM_US;
	add(&w, GROUP(.count = n, COMMANDS(100000, ns)));
	simulate(&w);
	assert_int_equal(seen.n, n);
	assert_int_equal(seen.told, seen.sum);
	for (unsigned i = 0; i < n; i++)
		assert_in_range(seen.used[i], seen.truth[i] - 4 * FM_S / n * 3 / 100,
			seen.truth[i] + 4 * FM_S / n * 3 / 100);
}

static void each_of_equals_has_its_part(void **state)
{
	static const char *const slices[] = {"slice=1ms", "slice=5ms", "slice=20ms", "slice=50ms"};
	static const uint64_t lengths[] = {
#ifndef __SANITIZE_ADDRESS__ /* they are many */
		5 * FM_US,
#endif
		500 * FM_US, 50 * FM_MS};

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++)
		for (unsigned i = 0;
			i < FM_ARRAY_LEN(slices) && !is(*p, "fifo") && !is(*p, "k-edf"); i++)
			for (unsigned k = 0; k < FM_ARRAY_LEN(lengths); k++) {
				equals(*p, 2, lengths[k], slices[i]);
				equals(*p, 4, lengths[k], slices[i]);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_what_it_used),
		cmocka_unit_test(all_of_it_is_somebodys),
		cmocka_unit_test(each_of_equals_has_its_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
