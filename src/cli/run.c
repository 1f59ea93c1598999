/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/size.h"
#include "base/util.h"
#include "board/proto.h"
#include "cmd/attach.h"
#include "cmd/ctl.h"
#include "cmd/inject.h"
#include "cmd/place.h"
#include "commands.h"
#include "policy/policy.h"
#include "run_hints.h"
#include "run_kill.h"
#include "run_task.h"
#include "unread.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct run {
	struct cli *cli;
	struct run_hints hints;
	const char *group, *local;
	int64_t level; /* 0: not given */
	bool memory;   /* --memory */
	bool no_memory;
	bool no_vulkan;
	bool guardian;
	const char *loops;
	char *kill; /* a path from the root */
	const char *partition;
	bool by_stream_priority;
	struct run_task task;
	char **command; /* ends with NULL */
};

enum {
	KEY_HINT = CLI_KEY_OWN,
	KEY_GROUP = KEY_HINT + FM_HINT_COUNT,
	KEY_LEVEL,
	KEY_MEMORY,
	KEY_NO_MEMORY,
	KEY_NO_VULKAN,
	KEY_LOCAL,
	KEY_GUARDIAN,
	KEY_LOOPS,
	KEY_KILL,
	KEY_PARTITION,
	KEY_BY_STREAM_PRIORITY,
	KEY_GPU_TIME,
	KEY_CPU_TIME,
	KEY_CPU,
	KEY_EPSILON,
	KEY_OVERRUN,
	KEY_ADMIT
};

static const struct argp_option options[] = {
	{"priority", KEY_HINT + FM_HINT_PRIORITY, "PRIO", 0,
		"low, normal, high, realtime, or a number from -255 to 255", 0},
	{"weight", KEY_HINT + FM_HINT_WEIGHT, "N", 0,
		"Proportion of the device under a fair policy", 0},
	{"share", KEY_HINT + FM_HINT_SHARE, "PERCENT", 0, "Part of the device to reserve", 0},
	{"deadline", KEY_HINT + FM_HINT_DEADLINE, "TIME", 0,
		"Time from a job's arrival until it is due: 20ms, 1.5s; a bare number is "
		"milliseconds",
		0},
	{"period", KEY_HINT + FM_HINT_PERIOD, "TIME", 0, "Time between the arrivals of two jobs",
		0},
	{"slice", KEY_HINT + FM_HINT_SLICE, "TIME", 0, "Length of a turn under round-robin", 0},
	{"runtime", KEY_HINT + FM_HINT_RUNTIME, "TIME", 0,
		"Device time of a job; default: learnt from the program", 0},
	{"foreground", KEY_HINT + FM_HINT_FOREGROUND, "0|1", 0,
		"1: the user works with this program at present", 0},
	{"latency-nice", KEY_HINT + FM_HINT_LATENCY_NICE, "N", 0,
		"Under a fair policy: negative values (to -20) make turns sooner and shorter, "
		"positive ones (to 19) later and longer",
		0},
	{"gang", KEY_HINT + FM_HINT_GANG, "0|1", 0,
		"1 (the default): a group with work on several devices runs on all of them or on "
		"none",
		0},
	{"guard-from", KEY_HINT + FM_HINT_GUARD_FROM, "TIME", 0,
		"Shortest command that is stopped in the middle; shorter ones run to their end", 0},
	{"pad", KEY_HINT + FM_HINT_PAD, "N|auto[:P%]", 0,
		"On how many multiprocessors of a device the group goes on while more urgent work "
		"of the same process has it: 8, 16 and so on to 64; auto: as many as make that "
		"work 3 % longer at most, auto:P%: P % longer; 0: never",
		0},
	{"memory-limit", KEY_HINT + FM_HINT_MEMORY_LIMIT, "SIZE", 0,
		"The most device memory that the group may have on each device: 40G, 512M; more is "
		"refused as if the device were full",
		0},
	{"memory-request", KEY_HINT + FM_HINT_MEMORY_REQUEST, "SIZE", 0,
		"Device memory that the group is to have for itself, whatever others need", 0},
	{"memory-pin", KEY_HINT + FM_HINT_MEMORY_PIN, NULL, 0,
		"The group's memory stays on the device", 0},
	{"idle-out", KEY_HINT + FM_HINT_IDLE_OUT, "TIME", 0,
		"With --memory: put the group's memory out when it has been idle for so long; 0: "
		"only when others need the room",
		0},
	{"memory", KEY_MEMORY, "SIZE", OPTION_ARG_OPTIONAL,
		"Let Fermata move the program's device memory, when others need the room; SIZE is "
		"as for --memory-limit, and may be more than the device has",
		0},
	{"no-memory", KEY_NO_MEMORY, NULL, 0,
		"Leave the program's memory where it is, also where the daemon's settings say "
		"otherwise",
		0},
	{"no-vulkan", KEY_NO_VULKAN, NULL, 0,
		"Leave the program's use of Vulkan as it is: it is not scheduled", 0},
	{"group", KEY_GROUP, "NAME", 0,
		"Name of the group; programs that share a name are scheduled as one", 1},
	{"level", KEY_LEVEL, "1..3", 0,
		"Deepest level of preemption to use; `fermata ps' shows what is in use", 1},
	{"local", KEY_LOCAL, "POLICY", 0,
		"Schedule inside the program itself, without a daemon: \"POLICY "
		"[PARAMETER=VALUE...]\"",
		1},
	{"guardian", KEY_GUARDIAN, NULL, 0,
		"CUDA: rewrite kernels as they are loaded, so that they can be stopped between two "
		"of their blocks (level 3)",
		1},
	{"guardian-loops", KEY_LOOPS, "PATTERN:...", 0,
		"CUDA: also stop kernels of these names in the middle of a loop, if they are "
		"loaded as PTX. Includes --guardian",
		1},
	{"guardian-kill", KEY_KILL, "FILE", 0,
		"CUDA: also end blocks of the launches that this list of `fermata-lab "
		"idempotence check' names, and run them again. Includes --guardian",
		1},
	{"partition", KEY_PARTITION, "SMS:GROUP...", 0,
		"CUDA: reserve multiprocessors for the streams of these groups, in a server that "
		"does not reserve them itself",
		1},
	{"by-stream-priority", KEY_BY_STREAM_PRIORITY, NULL, 0,
		"CUDA: streams created with a priority above the default are scheduled as the "
		"group GROUP:high, those with one below it as GROUP:low",
		1},
	{"gpu-time", KEY_GPU_TIME, "TIME", 0,
		"Run as a real-time task whose jobs use the device for at most TIME. The task is "
		"admitted before the command starts. Needs --period; --deadline and --priority "
		"are optional",
		2},
	{"cpu-time", KEY_CPU_TIME, "TIME", 0, "CPU time of a job", 2},
	{"cpu", KEY_CPU, "N", 0,
		"CPU that the task shares with other tasks; default: a CPU of "
		"its own",
		2},
	{"epsilon", KEY_EPSILON, "TIME", 0,
		"Cost of a switch between two programs on this device, if the daemon's settings "
		"do not have it",
		2},
	{"overrun", KEY_OVERRUN, "WHAT", 0,
		"Action on a job that uses more device time, until its next period: demote, stop, "
		"report",
		2},
	{"admit", KEY_ADMIT, "HOW", 0,
		"require (the default): do not run the command if the task is not admitted; "
		"report: run it anyway",
		2},
	CLI_OPT_SOCKET,
	{0},
};

/* Applies the daemon's rule for names, and one more for users: a name must not look like a number
 * or like qN, since such a target means a process or a queue. */
static void check_group(const struct argp_state *state, const char *name)
{
	union fm_msg msg = {0};
	size_t size = fm_msg_init(&msg, FM_MSG_GROUP);
	size_t digits = name[0] == 'q' ? 1 : 0;
	struct fm_err err = {0};

	if (!*name || strlen(name) >= sizeof(msg.group.name))
		cli_usage(state, "a group's name has 1 to %d characters", FM_NAME_MAX - 1);
	strcpy(msg.group.name, name);
	if (fm_msg_check(&msg, size, &err))
		cli_usage(state,
			"a group's name is made of printable ASCII without spaces, '/' or quotes");
	if (name[digits] && !name[digits + strspn(name + digits, "0123456789")])
		cli_usage(state, "'%s' would be taken for a process or a queue", name);
}

/* SMS:GROUP[:GROUP...], as partition.c of the shim reads it. */
static void check_partition(const struct argp_state *state, const char *text)
{
	const char *groups = strchr(text, ':');
	size_t digits = strspn(text, "0123456789");
	long n = digits && digits < 5 ? strtol(text, NULL, 10) : 0;

	if (!groups || groups != text + digits || n < 1 || n > 1024)
		cli_usage(state, "'%s' does not begin with a number of multiprocessors and a colon",
			text);
	if (!groups[1 + strspn(groups + 1, ":")])
		cli_usage(state, "'%s' names no group; write SMS:GROUP, such as 16:urgent", text);
}

static void take_time(const struct argp_state *state, const char *arg, int64_t *ns)
{
	struct fm_err err = {0};

	if (fm_parse_time(arg, ns, &err))
		cli_usage_err(state, &err);
}

static void take_hint(
	struct run *run, enum fm_hint h, const char *arg, const struct argp_state *state)
{
	struct fm_err err = {0};

	if (fm_parse_hint(fm_hint_name(h), arg, &h, &run->hints.of[h].value, &err))
		cli_usage_err(state, &err);
	run->hints.of[h].set = true;
	run->hints.given |= FM_READS(h);
}

/* To the hint, a limit of 0 means none; here it would be read as no memory at all. */
static void take_memory(struct run *run, const char *arg, const struct argp_state *state)
{
	run->memory = true;
	if (!arg)
		return;
	take_hint(run, FM_HINT_MEMORY_LIMIT, arg, state);
	if (!run->hints.of[FM_HINT_MEMORY_LIMIT].value)
		cli_usage(state, "--memory=0 leaves the program no memory; leave out the size for "
				 "as much as the device has");
}

/* `--memory 40G' would run a command of that name. */
static void check_command(const struct run *run, const struct argp_state *state)
{
	const char *word = run->command[0];
	int64_t size;

	if (run->memory && *word >= '0' && *word <= '9' && !fm_parse_size(word, &size, NULL) &&
		access(word, F_OK))
		cli_usage(state, "'%s' is no command; write --memory=%s", word, word);
}

static void parse_task(struct run *run, int key, const char *arg, const struct argp_state *state)
{
	struct run_task *t = &run->task;
	struct fm_err err = {0};

	switch (key) {
	case KEY_GPU_TIME:
		take_time(state, arg, &t->gpu);
		break;
	case KEY_CPU_TIME:
		take_time(state, arg, &t->cpu_time);
		break;
	case KEY_EPSILON:
		take_time(state, arg, &t->epsilon);
		break;
	case KEY_CPU:
		if (fm_parse_int(arg, 0, INT32_MAX, &t->cpu, &err))
			cli_usage_err(state, &err);
		break;
	case KEY_OVERRUN:
		if (strcmp(arg, "demote") && strcmp(arg, "stop") && strcmp(arg, "report"))
			cli_usage(state, "'%s' is neither demote, stop nor report", arg);
		t->overrun = arg;
		break;
	case KEY_ADMIT:
		t->report = !strcmp(arg, "report");
		if (!t->report && strcmp(arg, "require"))
			cli_usage(state, "'%s' is neither require nor report", arg);
		break;
	}
}

static void check_task(struct run *run, const struct argp_state *state)
{
	struct run_task *t = &run->task;

	t->period = run->hints.of[FM_HINT_PERIOD].value;
	t->deadline = run->hints.of[FM_HINT_DEADLINE].value;
	t->priority = run->hints.of[FM_HINT_PRIORITY].value;
	if (t->gpu < 0 &&
		(t->cpu_time || t->cpu >= 0 || t->overrun || t->report || t->epsilon >= 0))
		cli_usage(state, "--cpu-time, --cpu, --epsilon, --overrun and --admit belong to "
				 "--gpu-time");
	if (t->gpu >= 0 && !t->period)
		cli_usage(state, "a task with --gpu-time needs its --period");
	if (t->gpu >= 0 && run->local)
		cli_usage(state, "tasks are admitted by a daemon: not with --local");
}

static void check_memory(const struct run *run, const struct argp_state *state)
{
	if (run->memory && run->no_memory)
		cli_usage(state, "--memory and --no-memory exclude each other");
}

/* Room for ":high". */
static void check_by_priority(const struct run *run, const struct argp_state *state)
{
	const char *group = run->group ?: getenv("FERMATA_GROUP") ?: "";
	enum { LONGEST = FM_NAME_MAX - 1 - 5 };

	if (run->by_stream_priority && strlen(group) > LONGEST)
		cli_usage(state,
			"with --by-stream-priority a group's name has at most %d characters",
			LONGEST);
}

static void check_wishes(const struct run *run, const struct argp_state *state)
{
	const char *option = run->loops                ? "--guardian-loops"
			     : run->kill               ? "--guardian-kill"
			     : run->guardian           ? "--guardian"
			     : run->partition          ? "--partition"
			     : run->by_stream_priority ? "--by-stream-priority"
						       : NULL;

	for (const struct fm_api *const *a = fm_apis; *a; a++)
		if ((*a)->takes_wishes)
			return;
	if (option)
		cli_usage(state, "%s is for CUDA, and this build of Fermata has no CUDA", option);
}

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
	struct run *run = state->input;
	struct fm_err err = {0};

	switch (key) {
	case KEY_HINT ... KEY_HINT + FM_HINT_COUNT - 1:
		take_hint(run, (enum fm_hint)(key - KEY_HINT), arg ?: "1", state);
		return 0;
	case KEY_MEMORY:
		take_memory(run, arg, state);
		return 0;
	case KEY_NO_MEMORY:
		run->no_memory = true;
		return 0;
	case KEY_NO_VULKAN:
		run->no_vulkan = true;
		return 0;
	case KEY_GROUP:
		check_group(state, arg);
		run->group = arg;
		return 0;
	case KEY_LEVEL:
		if (fm_parse_int(arg, 1, 3, &run->level, &err))
			cli_usage_err(state, &err);
		return 0;
	case KEY_LOCAL:
		cli_check_policy(state, arg);
		run->local = arg;
		return 0;
	case KEY_GUARDIAN:
		run->guardian = true;
		return 0;
	case KEY_LOOPS:
		run->guardian = true;
		run->loops = arg;
		return 0;
	case KEY_KILL:
		run->guardian = true;
		run->kill = run_kill_list(arg, state);
		return 0;
	case KEY_PARTITION:
		check_partition(state, arg);
		run->partition = arg;
		return 0;
	case KEY_BY_STREAM_PRIORITY:
		run->by_stream_priority = true;
		return 0;
	case KEY_GPU_TIME ... KEY_ADMIT:
		parse_task(run, key, arg, state);
		return 0;
	case ARGP_KEY_SUCCESS:
		check_task(run, state);
		check_command(run, state);
		check_memory(run, state);
		check_wishes(run, state);
		check_by_priority(run, state);
		return 0;
	case ARGP_KEY_ARGS:
		run->command = state->argv + state->next;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "no command to run");
	default:
		return cli_option(key, arg, run->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_run,
	.args_doc = "[--] COMMAND [ARGUMENT...]",
	.doc = "Run a command with its device work scheduled by Fermata.\vIf no daemon is "
	       "reachable, a personal one is started; it ends a minute after its last client. The "
	       "exit code is the command's; 127 if it is not found, 126 if it cannot be executed, "
	       "125 if it is a real-time task that is not admitted, 2 if the options are invalid.",
};

static int set_environment(struct run *run, struct fm_err *err)
{
	char level[2] = {(char)('0' + run->level), '\0'};
	int rc = run_hints_set(&run->hints, err);

	if (!rc && run->group)
		rc = inject_set("FERMATA_GROUP", run->group, err);
	if (!rc && (run->memory || run->no_memory))
		rc = inject_set("FERMATA_MEMORY", run->memory ? "1" : "0", err);
	if (!rc && run->no_vulkan)
		rc = inject_set("FERMATA_VULKAN", "0", err);
	if (!rc && run->level)
		rc = inject_set("FERMATA_LEVEL", level, err);
	if (!rc && run->local)
		rc = inject_set("FERMATA_LOCAL", run->local, err);
	return rc;
}

/* Before a daemon is started for a program that cannot be. */
static int check_shims(struct fm_err *err)
{
	int rc = 0;

	for (const struct fm_api *const *a = fm_apis; !rc && *a; a++)
		if ((*a)->check)
			rc = (*a)->check(err);
	return rc;
}

static int inject(const struct run *run, struct fm_err *err)
{
	const struct fm_api_wishes wishes = {.guardian = run->guardian,
		.loops = run->loops,
		.kill = run->kill,
		.partition = run->partition,
		.by_stream_priority = run->by_stream_priority};
	int rc = 0;

	for (const struct fm_api *const *a = fm_apis; !rc && *a; a++)
		if ((*a)->inject)
			rc = (*a)->inject(*a, &wishes, err);
	return rc;
}

/* Would a client find this directory without being told? */
static bool found_by_clients(const char *dir)
{
	char dirs[FM_SOCKET_CANDIDATES][CTL_PATH];
	int n = fm_socket_dirs(dirs);

	for (int i = 0; i < n; i++)
		if (!strcmp(dirs[i], dir))
			return true;
	return false;
}

static int use_dir(const struct cli *cli, const char *dir, struct fm_err *err)
{
	FM_CLEAN_FREE char *absolute = NULL;
	FM_CLEAN_FREE char *cwd = NULL;

	if (!cli->socket && found_by_clients(dir))
		return 0;
	if (*dir == '/')
		return inject_set("FERMATA_SOCKET", dir, err);
	cwd = getcwd(NULL, 0);
	if (!cwd || asprintf(&absolute, "%s/%s", cwd, dir) < 0)
		return fm_err_set(err, -ENOENT, "cannot tell the current directory");
	return inject_set("FERMATA_SOCKET", absolute, err);
}

/* The times of a real-time task are used for its admission, so they do not count here. */
static uint32_t for_policy(const struct run *run)
{
	uint32_t task = FM_READS(FM_HINT_PERIOD) | FM_READS(FM_HINT_DEADLINE);

	return run->hints.given & ~(run->task.gpu >= 0 ? task : 0);
}

/* What the user has said of memory holds. */
static int heed_daemon(struct run *run, const char *dir, struct fm_err *err)
{
	const char *said = getenv("FERMATA_MEMORY");

	run_hints_tell(&run->hints, dir, run->group ?: getenv("FERMATA_GROUP") ?: "",
		for_policy(run), run->command[0]);
	if (said && !strcmp(said, "0"))
		return 0;
	return run_ask_managed(dir, run->group, run->command[0], err);
}

/* Finds a daemon. Starts one if none runs, unless the user named the directory: then only the user
 * knows why none runs there.
 */
static int find_daemon(struct run *run, struct fm_err *err)
{
	const struct cli *cli = run->cli;
	char dirs[CTL_DIRS][CTL_PATH], personal[CTL_PATH];
	int n = ctl_dirs(cli, dirs),
	    rc = fm_err_set(err, -ENAMETOOLONG, "the directory's name is too long");

	for (int i = 0; i < n; i++) {
		CLI_CLEAN_JSON json_t *reply = NULL;

		rc = ctl_call_at(
			dirs[i], json_pack("{s:s}", "cmd", "version"), ANSWER_MS, &reply, err);
		if (!rc)
			rc = heed_daemon(run, dirs[i], err);
		if (!rc)
			return use_dir(cli, dirs[i], err);
	}
	if (ctl_dir_given(cli)) {
		if (n > 0)
			use_dir(cli, dirs[0], err);
		return rc;
	}
	rc = personal_dir(personal);
	if (rc) {
		fm_err_set(err, rc, "no safe directory for a personal daemon");
		return fm_err_hint(
			err, "set XDG_RUNTIME_DIR to a directory that you alone can write to");
	}
	rc = personal_start(personal, err);
	if (!rc)
		rc = heed_daemon(run, personal, err);
	return rc ? rc : use_dir(cli, personal, err);
}

static int execute(char **command)
{
	int rc;

	execvp(command[0], command);
	rc = errno;
	fprintf(stderr, "fermata: cannot run '%s': %s\n", command[0], strerror(rc));
	if (rc == ENOENT)
		fprintf(stderr, "  hint: check its name, or give its full path\n");
	else
		fprintf(stderr, "  hint: `ls -l' shows whether it may be executed\n");
	return rc == ENOENT || rc == ENOTDIR ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE;
}

/* Finds the name of a task and its group, or of the group that others have their names of. The
 * program's children are in that group, too. */
static void name_group(struct run *run, char name[FM_NAME_MAX])
{
	const char *base = strrchr(run->command[0], '/'), *outer = getenv("FERMATA_GROUP");
	size_t n = 0;

	if (run->group || (outer && *outer)) {
		snprintf(name, FM_NAME_MAX, "%s", run->group ? run->group : outer);
		run->group = name;
		return;
	}
	base = base ? base + 1 : run->command[0];
	for (; base[n] && n < 32; n++)
		name[n] = strchr("\"'`\\", base[n]) || base[n] <= ' ' || base[n] > '~' ? '_'
										       : base[n];
	snprintf(name + n, FM_NAME_MAX - n, "-%d", (int)getpid());
	run->group = name;
}

/* A group without a name is called as its command is. */
static void attach(const struct run *run)
{
	const char *slash = strrchr(run->command[0], '/'), *outer = getenv("FERMATA_GROUP");

	attach_take(run->group        ? run->group
		    : outer && *outer ? outer
		    : slash           ? slash + 1
				      : run->command[0]);
}

int cli_run(struct cli *cli, int argc, char **argv)
{
	struct run run = {.cli = cli, .task = RUN_TASK_NONE};
	char group[FM_NAME_MAX];
	struct fm_err err = {0};
	const char *local;
	int rc;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &run);
	if (run.task.gpu >= 0 || run.by_stream_priority)
		name_group(&run, group);
	if (check_shims(&err) || set_environment(&run, &err))
		return cli_report(&err);
	local = getenv("FERMATA_LOCAL");
	if (local && *local)
		unread_tell_local(local, for_policy(&run));
	if (!(local && *local) && find_daemon(&run, &err)) {
		cli_report(&err);
		if (run.task.gpu >= 0 && !run.task.report)
			return CLI_NOT_ADMITTED;
		fprintf(stderr, "fermata: running '%s' unscheduled\n", run.command[0]);
	} else if (run.task.gpu >= 0) {
		rc = run_task_admit(cli, &run.task, group);
		if (rc)
			return rc;
	}
	if (inject(&run, &err)) /* after the daemon was started, which has no use for it */
		return cli_report(&err);
	attach(&run);
	return execute(run.command);
}
