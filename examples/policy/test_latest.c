/* SPDX-License-Identifier: Apache-2.0 */
/* A policy knows no clock and no device, so it is tested by calling it. */
#include <fermata/policy.h>
#include <stdio.h>
#include <stdlib.h>

#define MS 1000000

static void must(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "FAILED: %s\n", what);
	exit(1);
}

static struct fm_policy_answer ask(void *state, uint64_t now)
{
	struct fm_policy_answer a = {.size = sizeof(a), .next = FM_POLICY_NEVER};

	fm_policy.decide(state, now, &a);
	return a;
}

int main(void)
{
	const int64_t turn = 5 * MS;
	struct fm_policy_group g[2] = {
		{.size = sizeof(g[0]), .id = 1}, {.size = sizeof(g[0]), .id = 2}};
	void *state = calloc(1, fm_policy.state_size);
	struct fm_policy_answer a;

	must(state && !fm_policy.init(state, &turn), "init");
	for (int i = 0; i < 2; i++) {
		g[i].priv = calloc(1, fm_policy.group_size);
		must(g[i].priv && !fm_policy.join(state, &g[i], 0), "join");
	}
	must(ask(state, 0).n == 0, "nobody is ready, nobody runs");
	for (int i = 0; i < 2; i++) {
		g[i].ready = 1;
		fm_policy.ready(state, &g[i], 0);
	}
	a = ask(state, 0);
	must(a.n == 1 && a.run[0] == &g[1], "the latest runs");
	must(a.next == 5 * MS, "until its turn ends");
	fm_policy.charge(state, &g[1], 5 * MS, 5 * MS);
	a = ask(state, 5 * MS);
	must(a.n == 1 && a.run[0] == &g[0], "then the other has a turn");
	g[0].ready = 0;
	fm_policy.idle(state, &g[0], 6 * MS);
	a = ask(state, 6 * MS);
	must(a.n == 1 && a.run[0] == &g[1] && a.next == FM_POLICY_NEVER, "alone, without a limit");
	free(g[0].priv);
	free(g[1].priv);
	free(state);
	return 0;
}
