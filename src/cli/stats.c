/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "base/util.h"
#include "cmd/ctl.h"
#include "commands.h"

static const struct argp_option options[] = {
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static error_t parse_stats(int key, char *arg, struct argp_state *state)
{
	if (key == ARGP_KEY_ARG)
		cli_usage(state, "stats takes no argument '%s'", arg);
	return cli_option(key, arg, state->input);
}

static const struct argp argp = {
	.options = options,
	.parser = parse_stats,
	.doc = "Show the daemon's counters since its start, and its cost.",
};

static void print_memory(const json_t *memory)
{
	static const struct {
		const char *key, *name, *meaning;
	} lines[] = {
		{"committed_bytes", "memory", "device memory that programs have"},
		{"resident_bytes", "on_device", "of it on devices"},
		{"host_bytes", "on_host", "of it on the host"},
		{"moved_out_bytes", "moved_out",
			"copied to the host, for the groups that there are"},
		{"moved_in_bytes", "moved_in", "copied back"},
	};
	char size[FM_SIZE_TEXT];

	for (size_t i = 0; memory && i < FM_ARRAY_LEN(lines); i++)
		printf("%-12s %12s  %s\n", lines[i].name,
			fm_size_short((uint64_t)FM_MAX(cli_num(memory, lines[i].key), 0.0), size),
			lines[i].meaning);
	if (memory)
		printf("%-12s %12.0f  allocations of device memory that limits refused\n",
			"refused", cli_num(memory, "refused"));
}

int cli_stats(struct cli *cli, int argc, char **argv)
{
	static const struct {
		const char *key, *meaning;
	} lines[] = {
		{"clients", "programs connected"},
		{"groups", "groups"},
		{"queues", "queues"},
		{"devices", "devices"},
		{"governed", "calls that went through an XQueue"},
		{"ungoverned", "calls that did not"},
		{"undivided", "governed calls longer than a segment that could not be interrupted"},
		{"images", "code images rewritten, so that their kernels can be stopped"},
		{"images_left", "code images left unchanged"},
		{"kernels", "kernels rewritten"},
		{"kernels_left", "kernels left unchanged, in rewritten images"},
		{"images_ms", "time that programs spent on rewriting, or on finding images in the "
			      "cache, ms"},
		{"events", "events seen"},
		{"decisions", "decisions of the policy"},
		{"preemptions", "groups stopped with work left"},
		{"gate_stores", "gates opened or closed"},
		{"cpu_ms", "CPU time of the daemon, ms"},
		{"rss_kib", "memory of the daemon, KiB"},
	};
	CLI_CLEAN_JSON json_t *reply = NULL;
	const json_t *react;
	int rc;

	cli_parse(&argp, argc, argv, 0, cli);
	rc = ctl_ask(cli, json_pack("{s:s}", "cmd", "stats"), &reply);
	if (rc || cli->json)
		return rc;
	for (size_t i = 0; i < FM_ARRAY_LEN(lines); i++)
		if (json_is_number(json_object_get(reply, lines[i].key)))
			printf("%-12s %12.0f  %s\n", lines[i].key, cli_num(reply, lines[i].key),
				lines[i].meaning);
	print_memory(json_object_get(reply, "memory"));
	react = json_object_get(reply, "react_us");
	printf("%-12s %12.1f  us from the daemon's wake-up to the gates stored, P99 (P50 %.1f)\n",
		"react_us", cli_num(react, "p99"), cli_num(react, "p50"));
	return CLI_OK;
}
