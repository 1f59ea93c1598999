/* SPDX-License-Identifier: Apache-2.0 */
/* Admits the tasks of a file, and holds them until it ends. */
#include "admission.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "commands.h"
#include "model/taskset.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

struct admit {
	struct cli *cli;
	const char *file, *overrun;
	int64_t pid; /* 0: this process */
	bool gpu_priority, dry;
};

enum { KEY_FOR = CLI_KEY_OWN, KEY_GPU_PRIORITY, KEY_OVERRUN, KEY_TRY };

static const struct argp_option options[] = {
	{"for", KEY_FOR, "PID", 0,
		"Bind the tasks to this process and return; they end with the "
		"process",
		0},
	{"gpu-priority", KEY_GPU_PRIORITY, 0, 0,
		"Let the daemon assign new GPU priorities to all tasks if the tasks cannot be "
		"admitted otherwise",
		0},
	{"overrun", KEY_OVERRUN, "WHAT", 0,
		"Action on a task that uses more of the device than it declares, until its next "
		"period: demote, stop, report",
		0},
	{"try", KEY_TRY, 0, 0, "Only report whether the tasks would be admitted", 0},
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static error_t parse_admit(int key, char *arg, struct argp_state *state)
{
	struct admit *a = state->input;
	struct fm_err err = {0};

	switch (key) {
	case KEY_FOR:
		if (fm_parse_int(arg, 1, INT32_MAX, &a->pid, &err))
			cli_usage_err(state, &err);
		return 0;
	case KEY_GPU_PRIORITY:
		a->gpu_priority = true;
		return 0;
	case KEY_OVERRUN:
		admission_check_overrun(state, arg);
		a->overrun = arg;
		return 0;
	case KEY_TRY:
		a->dry = true;
		return 0;
	case ARGP_KEY_ARG:
		if (a->file)
			cli_usage(state, "one file at a time, please: '%s'", arg);
		a->file = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "no file of tasks given");
	default:
		return cli_option(key, arg, a->cli);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_admit,
	.args_doc = "FILE",
	.doc = "Admit real-time tasks: all of a file, or none.\vfermata-analyze(1) describes "
	       "FILE. A task can also name its group; the default is the task's name. The tasks "
	       "stay admitted until this command ends. The exit code is 0 if they were admitted, "
	       "3 if not, 2 if the file is invalid.",
};

/* The group is the task's own member, or the task's name; that of --for where the file has but one
 * task and no name of a group. */
static const char *group_of(const struct admit *a, const struct taskset *ts, size_t k)
{
	const json_t *task = json_array_get(json_object_get(ts->root, "tasks"), k);
	const char *group = json_string_value(json_object_get(task, "group"));

	if (group)
		return group;
	return a->pid && ts->set.tasks == 1 ? NULL : ts->name[k];
}

static const char *overrun_of(const struct taskset *ts, size_t k)
{
	const json_t *task = json_array_get(json_object_get(ts->root, "tasks"), k);

	return json_string_value(json_object_get(task, "overrun"));
}

/* Best-effort tasks have no bound and need no admission: they are below all other tasks anyway. */
static json_t *make_request(const struct admit *a, const struct taskset *ts)
{
	json_t *request = json_pack("{s:s}", "cmd", "admit"), *list = json_array();

	for (size_t k = 0; k < ts->set.tasks; k++)
		if (ts->task[k].priority != FM_RTA_BEST_EFFORT)
			json_array_append_new(list, admission_task(ts->name[k], group_of(a, ts, k),
							    overrun_of(ts, k), &ts->task[k]));
	json_object_set_new(request, "tasks", list);
	if (a->pid)
		json_object_set_new(request, "for", json_integer(a->pid));
	if (a->overrun)
		json_object_set_new(request, "overrun", json_string(a->overrun));
	if (ts->set.epsilon != FM_RTA_UNSET)
		json_object_set_new(request, "epsilon_ns", json_integer(ts->set.epsilon));
	json_object_set_new(request, "gpu_priority", json_boolean(a->gpu_priority));
	json_object_set_new(request, "try", json_boolean(a->dry));
	return request;
}

/* Blocks the signals before the user is told that the tasks are admitted. */
static int take_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int lost(void)
{
	fprintf(stderr, "fermata: the daemon has ended: the tasks are no longer admitted\n");
	return CLI_NO_DAEMON;
}

/* Waits until this command is told to end, or the daemon ends. */
static int hold(const char *dir, int signals)
{
	FM_CLEAN_FD int daemon = -1;
	struct pollfd p[2];

	if (signals < 0)
		return CLI_FAILED;
	if (ctl_open(dir, &daemon))
		return lost();
	p[0] = (struct pollfd){.fd = signals, .events = POLLIN};
	p[1] = (struct pollfd){.fd = daemon, .events = POLLIN};
	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[0].revents)
		return CLI_OK;
	return lost();
}

int cli_admit(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *reply = NULL;
	TASKSET_CLEAN struct taskset ts = {0};
	struct admit a = {.cli = cli};
	struct fm_err err = {0};
	FM_CLEAN_FD int signals = -1;
	char dir[CTL_PATH];
	int rc;

	cli_parse(&argp, argc, argv, 0, &a);
	if (taskset_load(&ts, a.file, TASKSET_RTA, &err))
		return cli_report(&err);
	taskset_tell_unknown(&ts, a.file);
	rc = admission_ask(cli, make_request(&a, &ts), &reply, dir);
	if (rc)
		return rc;
	admission_warn(reply, a.file, ts.set.epsilon);
	if (!a.dry && !a.pid)
		signals = take_signals();
	if (cli->json) {
		rc = cli_print_json(reply);
		fflush(stdout);
	}
	rc = rc ? rc : admission_show(reply, cli->json);
	return rc || a.dry || a.pid ? rc : hold(dir, signals);
}
