/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler core costs: events (ready and idle, each with its decision) per second, and
 * how long one takes, with many groups on a device, for each policy. One line a number, with its
 * unit.
 *
 *   bench_core_sched [--groups N] [--devices D] [--gangs N] [--seconds S]
 *                    [--plugin FOLDER --host FERMATAD]
 *
 * With a folder: the policies by users in it, each in a process of its own that FERMATAD hosts,
 * beside those built in.
 *
 * S: for each policy and load. The groups are spread over D devices, 1 if it is not given; every
 * N-th is on all of them, none if it is not given.
 */
#include "base/clock.h"
#include "base/hist.h"
#include "base/util.h"
#include "plugin/plugin.h"
#include "sched/sched.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

/* Between two events of the virtual clock: a busy machine. */
#define STEP        (5 * FM_US)
#define DEVICES_MAX 16

struct bench {
	struct fm_sched *s;
	struct fm_plugin *plugin;
	struct fm_sched_ent **ent;
	bool *work;
	unsigned groups, ents, devices;
	uint64_t now, rnd, stores;
};

static void on_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	((struct bench *)ctx)->stores++;
}

static bool on_stalled(void *ctx, void *data, uint64_t *since)
{
	return true;
}

static void on_bells(void *ctx, void *data, bool ready, bool idle)
{
}

static const struct fm_sched_host host = {
	.gate = on_gate, .stalled = on_stalled, .bells = on_bells};

static unsigned pick(struct bench *b)
{
	b->rnd = b->rnd * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)((b->rnd >> 33) % b->ents);
}

static void flip(struct bench *b, unsigned i)
{
	b->now += STEP;
	if (fm_sched_next(b->s) <= b->now)
		fm_sched_tick(b->s, b->now);
	if (b->work[i])
		fm_sched_idle(b->s, b->ent[i], b->now, b->now);
	else
		fm_sched_ready(b->s, b->ent[i], b->now, b->now);
	b->work[i] = !b->work[i];
}

static bool give_hints(struct bench *b, struct fm_sched_group *g, unsigned i)
{
	return !fm_sched_hint(b->s, g, FM_HINT_PRIORITY, i % 16, b->now) &&
	       !fm_sched_hint(b->s, g, FM_HINT_WEIGHT, 1 + i % 300, b->now) &&
	       !fm_sched_hint(b->s, g, FM_HINT_SHARE, i % 3 ? 0 : 1, b->now) &&
	       !fm_sched_hint(
		       b->s, g, FM_HINT_DEADLINE, i % 2 ? (int64_t)(i * FM_MS) : 0, b->now) &&
	       !fm_sched_hint(b->s, g, FM_HINT_RUNTIME, i % 5 ? (int64_t)(i * FM_US) : 0, b->now) &&
	       !fm_sched_hint(b->s, g, FM_HINT_FOREGROUND, i % 64 == 0, b->now) &&
	       !fm_sched_hint(b->s, g, FM_HINT_LATENCY_NICE, (int64_t)(i % 40) - 20, b->now);
}

/* No answer is late here: how long they take is what is measured. */
static struct fm_plugin_source users = {.budget_ns = FM_S};

static bool choose(struct bench *b, const char *policy)
{
	const struct fm_policy_ops *ops = fm_policy_find(policy);
	struct fm_err err;

	if (!ops) {
		if (fm_plugin_open(&b->plugin, &users, policy, &err)) {
			fprintf(stderr, "%s\n", err.text);
			return false;
		}
		ops = fm_plugin_ops(b->plugin);
	}
	return !fm_sched_use(b->s, ops, NULL, 0, b->now, NULL);
}

static bool join(struct bench *b, struct fm_sched_group *g, struct fm_sched_dev *d)
{
	return !fm_sched_ent_add(b->s, &b->ent[b->ents++], g, d, b, b->now);
}

static bool start(
	struct bench *b, const char *policy, unsigned groups, unsigned devices, unsigned gangs)
{
	struct fm_sched_dev *d[DEVICES_MAX];

	*b = (struct bench){.groups = groups, .devices = devices, .now = FM_S, .rnd = 1};
	b->ent = calloc((size_t)groups * devices, sizeof(struct fm_sched_ent *));
	b->work = calloc((size_t)groups * devices, sizeof(bool));
	if (!b->ent || !b->work || fm_sched_new(&b->s, &host, b) || !choose(b, policy))
		return false;
	for (unsigned i = 0; i < devices; i++)
		if (fm_sched_device_add(b->s, &d[i], "bench"))
			return false;
	for (unsigned i = 0; i < groups; i++) {
		struct fm_sched_group *g;

		if (fm_sched_group_add(b->s, &g) || !give_hints(b, g, i) ||
			!join(b, g, d[i % devices]))
			return false;
		for (unsigned k = 1; gangs && i % gangs == 0 && k < devices; k++)
			if (!join(b, g, d[(i + k) % devices]))
				return false;
	}
	return true;
}

static void stop(struct bench *b)
{
	fm_sched_free(b->s);
	fm_plugin_close(b->plugin);
	free(b->ent);
	free(b->work);
}

/* Events in a row, the clock read once in a thousand. */
static double rate(struct bench *b, double seconds, bool busy)
{
	uint64_t begin = fm_now(), end = begin + (uint64_t)(seconds * (double)FM_S), n = 0, t;

	do {
		for (int i = 0; i < 500; i++, n += 2) {
			unsigned e = pick(b);

			flip(b, e);
			flip(b, busy ? pick(b) : e);
		}
		t = fm_now();
	} while (t < end);
	return (double)n * (double)FM_S / (double)(t - begin);
}

static void each(struct bench *b, double seconds, struct fm_hist *h)
{
	uint64_t end = fm_now() + (uint64_t)(seconds * (double)FM_S), t0, t1;

	fm_hist_reset(h);
	do {
		unsigned i = pick(b);

		t0 = fm_now();
		flip(b, i);
		t1 = fm_now();
		fm_hist_add(h, t1 - t0);
	} while (t1 < end);
}

static bool bench(
	const char *policy, unsigned groups, unsigned devices, unsigned gangs, double seconds)
{
	static struct fm_hist h;
	struct bench b;
	double light, busy;

	if (!start(&b, policy, groups, devices, gangs)) {
		stop(&b);
		return false;
	}
	fm_sched_linger(b.s, 0);
	light = rate(
		&b, seconds, false); /* one job at a time: the device is handed over each time */
	fm_sched_linger(b.s, FM_LINGER_AUTO);
	busy = rate(&b, seconds, true); /* half of the groups are ready at any time */
	each(&b, seconds, &h);
	printf("sched_%s_events_light %.0f 1/s\n", policy, light);
	printf("sched_%s_events_busy %.0f 1/s\n", policy, busy);
	printf("sched_%s_decision_p50 %.3f us\n", policy, (double)fm_hist_quantile(&h, 0.5) / 1e3);
	printf("sched_%s_decision_p99 %.3f us\n", policy, (double)fm_hist_quantile(&h, 0.99) / 1e3);
	printf("sched_%s_decision_p9999 %.3f us\n", policy,
		(double)fm_hist_quantile(&h, 0.9999) / 1e3);
	if (fm_plugin_failure(b.plugin)) {
		fprintf(stderr, "%s: %s\n", policy, fm_plugin_failure(b.plugin));
		stop(&b);
		return false;
	}
	stop(&b);
	return true;
}

struct sizes {
	unsigned groups, devices, gangs;
	double seconds;
	bool bad;
};

static void bench_users(void *arg, const char *policy)
{
	struct sizes *z = arg;

	z->bad |= !bench(policy, z->groups, z->devices, z->gangs, z->seconds);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"groups", required_argument, NULL, 'g'},
		{"devices", required_argument, NULL, 'd'}, {"gangs", required_argument, NULL, 'n'},
		{"seconds", required_argument, NULL, 's'}, {"plugin", required_argument, NULL, 'p'},
		{"host", required_argument, NULL, 'h'}, {0}};
	unsigned groups = 1000, devices = 1, gangs = 0;
	double seconds = 1;
	int c;

	while ((c = getopt_long(argc, argv, "g:d:n:s:p:h:", options, NULL)) != -1) {
		if (c == 'g')
			groups = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'd')
			devices = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'n')
			gangs = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 's')
			seconds = strtod(optarg, NULL);
		else if (c == 'p')
			users.folder = optarg;
		else if (c == 'h')
			users.host = optarg;
		else
			return 2;
	}
	if (groups < 1 || groups > 1000000 || devices < 1 || devices > DEVICES_MAX ||
		!(seconds > 0 && seconds < 3600) || !users.folder != !users.host || optind < argc) {
		fprintf(stderr,
			"usage: %s [--groups 1..1000000] [--devices 1..%d] [--gangs N] [--seconds "
			"S] [--plugin "
			"FOLDER --host FERMATAD]\n",
			argv[0], DEVICES_MAX);
		return 2;
	}
	printf("sched_groups %u 1\n", groups);
	printf("sched_devices %u 1\n", devices);
	printf("sched_gangs_every %u 1\n", gangs);
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++)
		if (!bench((*p)->name, groups, devices, gangs, seconds))
			return 1;
	if (users.folder) {
		struct sizes z = {groups, devices, gangs, seconds, false};

		fm_plugin_each(users.folder, bench_users, &z);
		return z.bad;
	}
	return 0;
}
