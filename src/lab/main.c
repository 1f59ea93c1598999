/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab': what researchers and developers of policies need. */
#include "cmd/program.h"
#include "commands.h"
#include "plugin/plugin.h"
#include <string.h>

static const struct cli_command commands[] = {
	{"sim", "Simulate devices and programs under a policy, in virtual time", lab_sim},
	{"compare", "Compare two runs, recorded or simulated", lab_compare},
	{"study", "Repeat schedulability experiments with random sets of tasks", lab_study},
	{"bench", "Measure the latency and throughput of clients of a device", lab_bench},
	{"policy-test", "Test the promises of a policy in simulated scenarios", lab_policy_test},
	{"profile", "Find out what the kernels of a program touch, or how long they take",
		lab_profile},
	{"idempotence", "Find out which kernels may run again after a cut", lab_idempotence},
	{"trace", "Convert a recording of `fermata trace' to a timeline", lab_trace},
	{"help", "Explain a command", cli_help},
	{"_bench", NULL, lab_bench_client},
	{0},
};

static const struct cli_program lab = {
	.name = "fermata-lab",
	.doc = "The laboratory of Fermata: simulations, experiments, benchmarks.\v",
	.more = "fermata(1) has the commands that run programs and steer the daemon.",
	.commands = commands,
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--policy-host")) /* a process of its own: plugin.h */
		return fm_plugin_host();
	return cli_main(&lab, argc, argv);
}
