/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata suspend' and `fermata resume', with the memory of the group or without it. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "board/ledger.h"
#include "cmd/ctl.h"
#include "cmd/progress.h"
#include "cmd/table.h"
#include "commands.h"
#include <errno.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 50

enum { KEY_OUT = CLI_KEY_OWN, KEY_WAIT, KEY_TIMEOUT };

struct request {
	struct cli *cli;
	const char *cmd, *target;
	bool out, wait;
	double timeout; /* 0: none */
};

#define OPT_WAIT                                                        \
	{"wait", KEY_WAIT, 0, 0, "Wait until the memory has moved", 0}, \
	{                                                               \
		"timeout", KEY_TIMEOUT, "SECONDS", 0,                   \
			"Wait for that long at most; implies --wait", 0 \
	}

static const struct argp_option suspend_options[] = {
	{"out", KEY_OUT, 0, 0, "Move the group's memory to the host, too", 0},
	OPT_WAIT,
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};
static const struct argp_option resume_options[] = {
	OPT_WAIT,
	CLI_OPT_JSON,
	CLI_OPT_SOCKET,
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;

	switch (key) {
	case KEY_OUT:
		r->out = true;
		return 0;
	case KEY_TIMEOUT:
		if (cli_parse_seconds(arg, &r->timeout) || !(r->timeout > 0 && r->timeout < 1e9))
			cli_usage(state, "'%s' is not a number of seconds", arg);
		r->wait = true;
		return 0;
	case KEY_WAIT:
		r->wait = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			cli_usage(state, "one target at a time, please: '%s'", arg);
		r->target = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		cli_usage(state, "no target given");
	case ARGP_KEY_END:
		if (r->wait && !r->out && !strcmp(r->cmd, "suspend"))
			cli_usage(state, "--wait is for memory that moves: give --out, too");
		return 0;
	default:
		return cli_option(key, arg, r->cli);
	}
}

/* --- waiting --- */

struct seen {
	uint64_t resident, host, pinned;
	bool going;                           /* not all of it is where it is to be */
	const char *trouble, *remedy, *group; /* of the first that has one; or NULL */
};

static struct seen look(const json_t *reply)
{
	struct seen s = {0};
	json_t *m;
	size_t i;

	json_array_foreach (json_object_get(reply, "memory"), i, m) {
		const char *wish = cli_str(m, "wish"), *trouble = cli_str(m, "trouble");
		bool out = !strcmp(wish, "out");

		s.resident += (uint64_t)cli_num(m, "resident");
		s.host += (uint64_t)cli_num(m, "host");
		s.pinned += (uint64_t)cli_num(m, "pinned");
		s.going |= out ? cli_num(m, "resident") > 0 : !strcmp(wish, "in");
		if (*trouble && strcmp(trouble, "-") && !s.trouble) {
			s.trouble = trouble;
			s.remedy = cli_str(m, "remedy");
			s.group = cli_str(m, "group");
		}
	}
	return s;
}

/* What has moved since the command began, and how fast that was. */
struct course {
	uint64_t since, first; /* bytes on the host */
	bool begun;
};

static void show(struct course *c, const struct seen *s, bool out)
{
	uint64_t now = fm_now(), moved, left = out ? s->resident : s->host;
	char here[FM_SIZE_TEXT], host[FM_SIZE_TEXT], rate[FM_SIZE_TEXT], time[TABLE_TIME];
	double bytes_per_ms;

	if (!c->begun)
		*c = (struct course){.since = now, .first = s->host, .begun = true};
	moved = out ? fm_sub_sat(s->host, c->first) : fm_sub_sat(c->first, s->host);
	bytes_per_ms = (double)moved * FM_MS / (double)FM_MAX(now - c->since, UINT64_C(1));
	fm_size_short(s->resident, here);
	fm_size_short(s->host, host);
	if (s->trouble || !moved)
		progress_show("%s on the device, %s on the host%s%s", here, host,
			s->trouble ? ": " : "", s->trouble ?: "");
	else
		progress_show("%s on the device, %s on the host: %s a second, about %s left", here,
			host, fm_size_short((uint64_t)(bytes_per_ms * 1000), rate),
			table_ms((double)left / bytes_per_ms, time));
}

static int give_up(const struct request *r, const struct seen *s)
{
	char here[FM_SIZE_TEXT], host[FM_SIZE_TEXT];
	struct fm_err err = {0};

	if (s->trouble) {
		fm_err_set(&err, -EIO, "'%s' is not %s: %s", s->group, r->out ? "out" : "in",
			s->trouble);
		fm_err_hint(&err, "%s", s->remedy);
	} else {
		fm_err_set(&err, -ETIMEDOUT, "not within %g s: %s on the device, %s on the host",
			r->timeout, fm_size_short(s->resident, here), fm_size_short(s->host, host));
		fm_err_hint(&err, "it goes on; `fermata why %s' says how far it is", r->target);
	}
	return cli_report(&err);
}

/* It is suspended, and nobody has got room by that. */
static int stays(const struct request *r, const struct seen *s)
{
	char all[FM_SIZE_TEXT];
	struct fm_err err = {0};

	fm_err_set(&err, -EBUSY,
		"'%s' is suspended, but none of its memory is out: all %s are pinned to the device",
		r->target, fm_size_short(s->pinned, all));
	fm_err_hint(&err,
		"`fermata ps --memory' has the reason; to let it go on: fermata resume %s",
		r->target);
	cli_report(&err);
	return CLI_STAYS;
}

/* A host that is full, and a driver that refuses, stay so. The others may pass. */
static bool is_final(const struct request *r, const struct seen *s)
{
	return r->out && s->trouble &&
	       (!strcmp(s->trouble, fm_mem_trouble_text(FM_MEM_HOST_FULL)) ||
		       !strcmp(s->trouble, fm_mem_trouble_text(FM_MEM_HOST_BUDGET)) ||
		       !strcmp(s->trouble, fm_mem_trouble_text(FM_MEM_DRIVER)));
}

static int wait_for_it(const struct request *r, json_t **last)
{
	uint64_t until = r->timeout ? fm_now() + (uint64_t)(r->timeout * 1e9) : FM_NEVER;
	const struct timespec nap = {.tv_nsec = LOOK_MS * 1000000L};
	struct course course = {0};

	for (;;) {
		struct cli quiet = *r->cli;
		struct seen s;
		int rc;

		json_decref(*last);
		*last = NULL;
		quiet.json = false;
		rc = ctl_ask(
			&quiet, json_pack("{s:s, s:s}", "cmd", "away", "target", r->target), last);
		if (rc)
			return rc;
		s = look(*last);
		if (!s.going) {
			progress_clear();
			return r->out && s.pinned && !s.host ? stays(r, &s) : CLI_OK;
		}
		show(&course, &s, r->out);
		if (is_final(r, &s) || fm_now() > until) {
			progress_clear();
			return give_up(r, &s);
		}
		nanosleep(&nap, NULL);
	}
}

/* --- the commands --- */

static int print(const struct request *r, const json_t *reply)
{
	if (r->cli->json)
		return cli_print_json(reply);
	return cli_print_names(json_object_get(reply, "groups"));
}

static int send_it(const struct request *r)
{
	CLI_CLEAN_JSON json_t *reply = NULL, *last = NULL;
	json_t *body = json_pack("{s:s, s:s}", "cmd", r->cmd, "target", r->target);
	struct cli quiet = *r->cli;
	int rc, waited = CLI_OK;

	if (!body) {
		fprintf(stderr, "fermata: the target is not text in UTF-8\n");
		return CLI_USAGE;
	}
	if (r->out)
		json_object_set_new(body, "out", json_true());
	quiet.json = false;
	rc = ctl_ask(&quiet, body, &reply);
	if (rc)
		return rc;
	if (r->wait)
		waited = wait_for_it(r, &last);
	rc = print(r, r->wait && last ? last : reply);
	return waited ? waited : rc;
}

int cli_suspend(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.options = suspend_options,
		.parser = parse,
		.args_doc = "TARGET",
		.doc = "Take the device away from a group until `fermata resume'.\v"
		       "TARGET is a group's name, a process id, or a queue such as q3. The program "
		       "keeps running; its device work waits at the next gate. With --out its "
		       "memory leaves the device as well, if the program was started with `fermata "
		       "run --memory'.",
	};
	struct request r = {.cli = cli, .cmd = "suspend"};

	cli_parse(&argp, argc, argv, 0, &r);
	return send_it(&r);
}

int cli_resume(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.options = resume_options,
		.parser = parse,
		.args_doc = "TARGET",
		.doc = "Let a suspended group continue under the policy.\vTARGET is a group's "
		       "name, a process id, or a queue such as q3. A group whose memory was put "
		       "out continues when its memory is on the device again.",
	};
	struct request r = {.cli = cli, .cmd = "resume"};

	cli_parse(&argp, argc, argv, 0, &r);
	return send_it(&r);
}
