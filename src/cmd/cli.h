/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs `fermata' and `fermata-lab': each is a table of commands, one file each. What
 * commands share: options, errors and exit codes, replies of the daemon.
 *
 * Owns: nothing: a command's state lives in its own frame.
 * Locks: none.
 * Threads: one, that of main().
 */
#pragma once
#include "base/err.h"
#include <argp.h>
#include <jansson.h>
#include <stdbool.h>

/* Exit codes, of all commands: fermata(1). `fermata run` ends with those of its command instead. */
enum cli_exit {
	CLI_OK,
	CLI_FAILED,               /* the daemon refused, or something did not work */
	CLI_USAGE,                /* the command line, or a file that it names, makes no sense */
	CLI_NO,                   /* the question was answered, with no */
	CLI_NO_DAEMON,            /* no daemon answers */
	CLI_STAYS,                /* suspend --out --wait: all of the memory is pinned */
	CLI_NOT_ADMITTED = 125,   /* run: the task is not begun */
	CLI_CANNOT_EXECUTE = 126, /* run: its command; old names: the other program */
	CLI_NOT_FOUND = 127,
};

struct cli {
	const char *socket; /* --socket: the one directory to look in; NULL: the usual places */
	bool json;          /* --json */
	bool force;         /* --force: files that are there may be replaced (outfile.h) */
};

/* argv[0] is "PROGRAM NAME". Returns the exit code. */
struct cli_command {
	const char *name;
	const char *summary; /* one line of --help; NULL: not shown there */
	int (*run)(struct cli *cli, int argc, char **argv);
};

#define CLI_LAB "fermata-lab" /* the other program */

/* The program that runs, as its messages call it. */
const char *cli_name(void);

/* Options that commands share: put CLI_OPT_* in the option table and let cli_option() have the keys
 * that a parser does not know itself. */
enum { CLI_KEY_SOCKET = 0x100, CLI_KEY_JSON, CLI_KEY_FORCE, CLI_KEY_OWN };
#define CLI_OPT_SOCKET                                                                             \
	{                                                                                          \
		"socket", CLI_KEY_SOCKET, "DIR", 0, "Talk to the daemon whose sockets are in DIR", \
			-2                                                                         \
	}
#define CLI_OPT_JSON                                         \
	{                                                    \
		"json", CLI_KEY_JSON, 0, 0, "Print JSON", -2 \
	}
#define CLI_OPT_FORCE                                                    \
	{                                                                \
		"force", CLI_KEY_FORCE, 0, 0, "Replace what is there", 0 \
	}
error_t cli_option(int key, char *arg, struct cli *cli);

/* The parser of commands that take these options and one target. */
struct cli_target {
	struct cli *cli;
	const char *target;
};
error_t cli_target(int key, char *arg, struct argp_state *state);

/* Parse, with `input` for the parser; ends the program on --help and on wrong usage. */
void cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/* Wrong usage found while parsing: says so, names the help and ends the program. */
void cli_usage(const struct argp_state *state, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* A time as fm_parse_time() reads it, but that a bare number is seconds. Not 0: it is none. */
int cli_parse_seconds(const char *text, double *seconds);

/* Wrong usage unless it is a built-in policy with its parameters: "NAME [KEY=VALUE...]". */
void cli_check_policy(const struct argp_state *state, const char *policy);

/* As cli_usage(), from an error; one without a hint is sent to the help. */
void cli_usage_err(const struct argp_state *state, struct fm_err *err) __attribute__((noreturn));

/* Print "PROGRAM: text" and "  hint: ..." to stderr. The exit code that fits: CLI_USAGE for
 * -EINVAL, -ERANGE, -EOVERFLOW and -E2BIG, which are for what the user gave alone, CLI_NO_DAEMON
 * for -ENOTCONN, else CLI_FAILED. */
int cli_report(const struct fm_err *err);

/* Print a reply as JSON to stdout. */
int cli_print_json(const json_t *value);
/* Print a reply's array of names, one a line. */
int cli_print_names(const json_t *names);

/* One line to stdout where `policy`, of a reply, rules in the place of one that was dropped. */
void cli_tell_fallback(const json_t *policy);

/* Fields of a reply; what is missing or of another type reads as "-" and 0. */
const char *cli_str(const json_t *object, const char *key);
/* For a group of the daemon's that has kernels which are not stopped in their middle since they
 * came as binaries: what to do about it. Else NULL. */
const char *cli_binary_hint(const json_t *group);
double cli_num(const json_t *object, const char *key);

static inline void cli_json_put(json_t **value)
{
	json_decref(*value);
}
#define CLI_CLEAN_JSON __attribute__((cleanup(cli_json_put)))
