/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata': the commands for the operators and users of a machine. */
#include "cmd/program.h"
#include "commands.h"
#include "top/top.h"

static const struct cli_command commands[] = {
	{"run", "Run a command with its device work under Fermata", cli_run},
	{"ps", "Show groups, queues and devices", cli_ps},
	{"top", "Watch devices and groups as they run, and steer them", cli_top},
	{"why", "Explain what a group waits for, and what would change that", cli_why},
	{"hint", "Set a group's hints: priority, deadline, ...", cli_hint},
	{"suspend", "Take the device away from a group", cli_suspend},
	{"resume", "Let a suspended group continue", cli_resume},
	{"policy", "Show or change the scheduling policy", cli_policy},
	{"reload", "Make the daemon read its settings again", cli_reload},
	{"admit", "Admit real-time tasks if all deadlines can be kept", cli_admit},
	{"analyze", "Compute bounds on response times of real-time tasks", cli_analyze},
	{"calibrate", "Measure this machine's cost of a switch, for analyze and admit",
		cli_calibrate},
	{"trace", "Record scheduling decisions with their reasons, or print them", cli_trace},
	{"record", "Record the device work of programs as a workload to simulate", cli_record},
	{"stats", "Show the daemon's counters", cli_stats},
	{"metrics", "Print the daemon's metrics in the format of Prometheus", cli_metrics},
	{"doctor", "Check what works on this machine, and how to repair the rest", cli_doctor},
	{"version", "Show the versions of the command and the daemon", cli_version},
	{"help", "Explain a command", cli_help},
	{"sim", NULL, cli_lab},
	{"compare", NULL, cli_lab},
	{"study", NULL, cli_lab},
	{"bench", NULL, cli_lab},
	{"policy-test", NULL, cli_lab},
	{"_probe", NULL, cli_probe},
	{"_calibrate", NULL, cli_calibrate_program},
	{0},
};

static const struct cli_program fermata = {
	.name = "fermata",
	.doc = "Preemptive multitasking for GPUs and other accelerators.\v",
	.more = "fermata-lab(1) has sim, compare, study, bench, policy-test and trace export.",
	.commands = commands,
	.other = CLI_LAB,
};

int main(int argc, char **argv)
{
	return cli_main(&fermata, argc, argv);
}
