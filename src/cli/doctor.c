/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"
#include "api/api.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/util.h"
#include "board/proto.h"
#include "cmd/place.h"
#include "cmd/table.h"
#include "commands.h"
#include "doctor/probe.h"
#include "json/json.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { KEY_PROVE = CLI_KEY_OWN };

#define PROVE      "12" /* longer than kernel drivers leave a context alone that does not move */
#define PROVE_MOST 120

static const struct argp_option options[] = {
	{"prove", KEY_PROVE, "SECONDS", OPTION_ARG_OPTIONAL,
		"Where only fake drivers have shown a level yet, let a gate stand for so long "
		"(" PROVE "), and note whether it did: programs get that level from then on",
		0},
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static error_t parse_doctor(int key, char *arg, struct argp_state *state)
{
	struct doctor *d = state->input;
	struct fm_err err = {0};
	int64_t seconds;

	if (key == ARGP_KEY_ARG)
		cli_usage(state, "doctor takes no argument '%s'", arg);
	if (key != KEY_PROVE)
		return cli_option(key, arg, d->cli);
	if (fm_parse_int(arg ?: PROVE, 1, PROVE_MOST, &seconds, &err))
		cli_usage_err(state, &err);
	d->prove = (unsigned)seconds;
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse_doctor,
	.doc = "Check whether Fermata works on this machine: the daemon, your rights, the shims, "
	       "and what each device can do. Each ability of a device is found out by "
	       "trying.\vThe exit code is 0 if programs can be scheduled, 1 if something needed "
	       "is missing.",
};

/* A daemon of an older version does not say. */
static void check_processes(struct doctor *d, const json_t *reply)
{
	const json_t *pid = json_object_get(reply, "peer_pid");

	if (!pid)
		return;
	if (json_integer_value(pid) > 0)
		doctor_found(
			d, GOOD, "pids", "the daemon knows the processes of its clients", NULL);
	else
		doctor_found(d, WARNING, "pids",
			"the daemon does not know this process: the daemon is in a pid namespace "
			"of its own, in which programs outside have no pid and no name",
			"run the daemon in the host's pid namespace (--pid=host of Docker and "
			"Podman, hostPID of Kubernetes); until then programs can be steered by "
			"group only, and cannot have real-time tasks");
}

static void check_daemon(struct doctor *d)
{
	CLI_CLEAN_JSON json_t *reply = NULL;
	struct fm_err err = {0};
	char text[256], path[PATH_MAX];

	if (!ctl_call(d->cli, json_pack("{s:s}", "cmd", "version"), &reply, d->daemon_dir, &err)) {
		snprintf(text, sizeof(text), "fermatad %s (%s%s) answers in %s",
			cli_str(reply, "version"), cli_str(reply, "instance"),
			json_is_true(json_object_get(reply, "strict")) ? ", strict" : "",
			d->daemon_dir);
		if (strcmp(cli_str(reply, "version"), FM_VERSION))
			doctor_found(d, WARNING, "daemon", text,
				"restart the daemon, so that both have the same version");
		else
			doctor_found(d, GOOD, "daemon", text, NULL);
		check_processes(d, reply);
		return;
	}
	d->daemon_dir[0] = '\0';
	place_daemon(path);
	if (strchr(path, '/') && !ctl_dir_given(d->cli))
		doctor_found(d, WARNING, "daemon", err.text,
			"nothing: `fermata run' starts a personal one; for all users: `systemctl "
			"enable --now fermatad'");
	else if (ctl_dir_given(d->cli))
		doctor_found(d, BAD, "daemon", err.text, err.hint);
	else
		doctor_found(d, BAD, "daemon", "no daemon runs, and fermatad is not beside fermata",
			"install fermatad, or put it in $PATH");
}

static int connects(const char *dir)
{
	FM_CLEAN_FD int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int n = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/" FM_SOCKET_NAME, dir);

	if (sock < 0 || n < 0 || (size_t)n >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	return connect(sock, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
}

/* Returns why this user may not open one of these nodes, and which; or 0. EACCES: the node's mode
 * forbids it. EPERM: the device rules of the user's control group forbid it, whatever the mode.
 * EPERM counts only if it holds for all nodes: a control group that is given some of several
 * devices may not open the others, and need not. */
static int denied_of(const glob_t *g, char *node, size_t size)
{
	size_t refused = 0;

	for (size_t i = 0; i < g->gl_pathc; i++) {
		int why = access(g->gl_pathv[i], R_OK | W_OK) ? errno : 0;

		refused += why == EPERM;
		if (why == EACCES || (why == EPERM && refused == g->gl_pathc)) {
			snprintf(node, size, "%s", g->gl_pathv[i]);
			return why;
		}
	}
	return 0;
}

static int denied_node(char *node, size_t size)
{
	static const char *const patterns[] = {"/dev/nvidia[0-9]*", "/dev/nvidiactl",
		"/dev/nvidia-uvm", "/dev/kfd", "/dev/dri/renderD*", "/dev/accel/accel[0-9]*"};
	int why = 0;

	for (size_t i = 0; i < FM_ARRAY_LEN(patterns) && !why; i++) {
		glob_t g;

		if (glob(patterns[i], 0, NULL, &g))
			continue;
		why = denied_of(&g, node, size);
		globfree(&g);
	}
	return why;
}

static void judge_node(struct doctor *d, const char *node, int why)
{
	char text[256], remedy[256];
	struct stat st;
	const struct group *group = stat(node, &st) ? NULL : getgrgid(st.st_gid);

	if (why == EPERM) {
		snprintf(text, sizeof(text),
			"the device rules of this container or unit do not let it open %s", node);
		doctor_found(d, WARNING, "rights", text,
			"restart the container with its devices (`docker run --gpus all'); a unit "
			"needs DeviceAllow=");
		return;
	}
	snprintf(text, sizeof(text), "you may not open the device %s", node);
	if (group && st.st_gid && st.st_mode & S_IWGRP)
		snprintf(remedy, sizeof(remedy), "sudo usermod -aG %s $USER, then log in again",
			group->gr_name);
	else
		snprintf(remedy, sizeof(remedy),
			"its mode gives no group access: `ls -l %s'; a udev rule changes that",
			node);
	doctor_found(d, WARNING, "rights", text, remedy);
}

static void check_rights(struct doctor *d)
{
	char node[128], text[256], remedy[256];
	int rc = d->daemon_dir[0] ? connects(d->daemon_dir) : 0;
	int why = rc ? 0 : denied_node(node, sizeof(node));

	if (rc) {
		snprintf(text, sizeof(text), "programs cannot connect to %s/" FM_SOCKET_NAME ": %s",
			d->daemon_dir, strerror(-rc));
		snprintf(remedy, sizeof(remedy),
			"`ls -l %s' shows the group that has access; "
			"join it",
			d->daemon_dir);
		doctor_found(d, BAD, "rights", text, remedy);
	} else if (why) {
		judge_node(d, node, why);
	} else {
		doctor_found(
			d, GOOD, "rights", "you may use the daemon and every device node", NULL);
	}
}

static void show_devices(const struct doctor *d)
{
	static const struct table_column columns[] = {
		{"DEVICE", false, true},
		{"TYPE", false, false},
		{"PLATFORM", false, true},
		{"LEVELS", false, false},
		{"TRIED JUST NOW", false, true},
	};
	TABLE_CLEAN struct table t;
	json_t *device;
	size_t i;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	if (!json_array_size(d->devices))
		return;
	json_array_foreach (d->devices, i, device) {
		size_t deepest = json_array_size(json_object_get(device, "levels"));

		table_add(&t, "%s", cli_str(device, "name"));
		table_add(&t, "%s", cli_str(device, "type"));
		table_add(&t, "%s", cli_str(device, "platform"));
		table_add(&t, "%s",
			deepest > 2   ? "1, 2, 3"
			: deepest > 1 ? "1, 2"
			: deepest     ? "1"
				      : "none");
		table_add(&t, "%s", cli_str(device, "text"));
	}
	putchar('\n');
	table_print(&t);
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
	CLI_CLEAN_JSON json_t *checks = json_array();
	CLI_CLEAN_JSON json_t *devices = json_array();
	CLI_CLEAN_JSON json_t *report = NULL;
	struct doctor d = {.cli = cli, .checks = checks, .devices = devices};
	int rc = CLI_OK;

	cli_parse(&argp, argc, argv, 0, &d);
	check_daemon(&d);
	check_rights(&d);
	for (const struct fm_api *const *a = fm_apis; *a; a++)
		if ((*a)->installed)
			(*a)->installed(&d);
	for (const struct fm_api *const *a = fm_apis; *a; a++)
		if ((*a)->doctor)
			(*a)->doctor(*a, &d);
	if (cli->json) {
		report = json_pack(
			"{s:b, s:O, s:O}", "ok", !d.bad, "checks", checks, "devices", devices);
		rc = cli_print_json(report);
	} else {
		show_devices(&d);
	}
	return rc ? rc : d.bad ? CLI_FAILED : CLI_OK;
}

/* fermata _probe FD NAME, in a process of its own: FD takes the lines, out of reach of a driver
 * that prints. */
int cli_probe(struct cli *cli, int argc, char **argv)
{
	FILE *out = argc == 3 ? fdopen(atoi(argv[1]), "w") : NULL;

	(void)cli;
	if (argc != 3) {
		fprintf(stderr, "fermata: _probe is for `fermata doctor'\n");
		return CLI_USAGE;
	}
	if (!out || fcntl(fileno(out), F_SETFD, FD_CLOEXEC))
		return CLI_FAILED;
	for (const struct fm_api *const *a = fm_apis; *a; a++)
		for (const struct fm_api_probe *p = (*a)->probe; p && p->name; p++)
			if (!strcmp(p->name, argv[2]))
				p->run(out);
	probe_tell(out, json_pack("{s:s}", "step", "end"));
	/* Ends without running the exit handlers of drivers, since drivers may hang there. */
	_exit(CLI_OK);
}
