/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `fermata-lab profile'. */
#pragma once
#include "cmd/cli.h"
#include "profile/profile.h"

struct profile_options {
	struct cli *cli;
	const char *out;     /* -o; NULL: the user's folder of kernels */
	const char *against; /* a file of templates, or a folder of them, to compare with */
	const char *show;    /* a file to show instead of running something */
	unsigned by;         /* a bit for each source */
	const char *attach;  /* the group whose next process is looked at; NULL: a command is run */
	uint64_t span;       /* and for how long, in ns; 0: until it ends */
	bool check;
	bool times; /* --rooms: launches are timed instead, also on so many multiprocessors each */
	unsigned n_rooms, room[FM_PROFILE_ROOMS];
	char **command; /* ends with NULL */
};

/* --- profile_run.c --- */

/* Runs the command with the agent in it, whose records are in `dir` then. Its exit status; 126, 127
 * if it cannot be run, with err; negative: it was not tried, with err. */
int profile_run(const struct profile_options *o, const char *dir, struct fm_err *err);
/* By which sources, for a program that has the agent in it. 0, or with err. */
int profile_set_sources(const struct profile_options *o, struct fm_err *err);
/* Programs that this one starts have the agent in them. */
struct preload;
int profile_preload(const struct preload *agent, struct fm_err *err);
/* The same of any command, without an agent; `name' is what messages call it. */
int profile_execute(char **command, const char *name, const char *dir, struct fm_err *err);

/* --- profile_attach.c --- */

/* Waits for the group's next process, and until that has ended or was looked at for long enough.
 * 0, or with err. */
int profile_attach(const struct profile_options *o, const char *dir, struct fm_err *err);

/* --- profile.c --- */

/* A folder for what programs leave behind them, and its end. */
int profile_make_dir(char *dir, size_t size, struct fm_err *err);
void profile_remove_dir(const char *dir);

/* All records there, see fm_profile_read(). 0, or with err. */
int profile_read_records(struct fm_profile *p, const char *dir, fm_profile_seen *seen, void *arg,
	struct fm_err *err);

/* --- profile_show.c --- */

struct profile_fit;
int profile_print(const struct fm_profile *p);
json_t *profile_json(const struct profile_fit *f);
/* Launches that were seen, and that were not, as JSON. */
json_t *profile_sums_json(const struct fm_profile *p);
/* Lines for people to the standard error: sums, and what was not seen. */
void profile_tell(const struct profile_fit *f, const struct profile_options *o);
/* Nothing was seen: why, and what to do. */
int profile_nothing(
	const struct profile_fit *f, const struct profile_options *o, struct fm_err *err);
/* `profile show FILE'. */
int profile_show(const struct profile_options *o);
