/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab profile --rooms': what times come to, printed, written and read. */
#pragma once
#include "cmd/outfile.h"
#include "profile.h"
#include "profile/times.h"

/* "8,16,24": false, if it is none such. */
bool profile_rooms_parse(struct profile_options *o, const char *text);
/* The agent's environment. */
int profile_rooms_set(const struct profile_options *o, struct fm_err *err);
/* When the program has ended: prints, and writes the file if it is open. p: the sums; its `times'
 * are what was measured. An exit status. */
int profile_rooms(const struct profile_options *o, const struct fm_profile *p, struct outfile *out,
	struct fm_err *err);
/* Is it a file that this has written? */
bool profile_rooms_is_file(const char *path);
int profile_rooms_show(const struct profile_options *o);
